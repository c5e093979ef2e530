"""Quotients and exponentials as code for GPUs has them, carried out on another device."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

pytest.importorskip("tegula_cuda")
pytest.importorskip("tegula_xpu")

from simt.written_out import AsOnGpus, missing

import tegula
import tegula.language as tl
from tegula.codegen.loops.text import Val, Writer
from tegula.codegen.simt import division
from tegula.codegen.simt import exponentials as short_ways
from tegula.config import config

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing() or "-")

N = 512
LARGEST = float(np.finfo(np.float32).max)


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """A device that divides and takes exponentials as NVIDIA's do; which ways are taken."""
    from tegula_xpu import simt

    ways: list[str] = []

    def noted(name: str, f: Any) -> Any:
        def g(*args: Any) -> Any:
            ways.append(name)
            return f(*args)

        return g

    class Machine(AsOnGpus, simt.XpuSimt):
        slow_division = True
        native_math = (*simt.XpuSimt.native_math, "exp.f32")

        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            self.tile_rules = {**self.tile_rules, "exp": short_ways.coarse_exp}
            self.rules = {**self.rules, "exp": short_ways.rules(self)["exp"]}

        def exp2(self, w: Writer, x: Val, denormals: bool) -> Val:
            y = w.call("llvm.exp2.f32", "float", x)
            least = w.literal("0x3810000000000000", "float")
            small = w.pure("i1", "fcmp olt float {}, {}", y, least)
            return y if denormals else w.select(small, w.literal("0.0", "float"), y)

        def saturated(self, w: Writer, a: Val, b: Val, c: Val) -> Val:
            y = w.call("llvm.fma.f32", "float", a, b, c)
            y = w.call("llvm.maxnum.f32", "float", y, w.literal("0.0", "float"))
            return w.call("llvm.minnum.f32", "float", y, w.literal("1.0", "float"))

    for owner, name in ((division, "_shares"), (division, "_shared"), (division, "_estimates"),
                        (short_ways, "_full_exp"), (short_ways, "_coarse_exp")):  # fmt: skip
        monkeypatch.setattr(owner, name, noted(name, getattr(owner, name)))
    monkeypatch.setattr(simt, "XpuSimt", Machine)
    with config.scope(cache=False):
        yield ways


def ran(kernel: Any, *arrays: np.ndarray | int, **constants: Any) -> list[np.ndarray]:
    """A kernel's arguments after one program."""
    given = [a if isinstance(a, int) else tegula.asarray(a, device="xpu") for a in arrays]
    kernel[(1,)](*given, num_warps=2, **constants)
    return [g.numpy() for g in given if not isinstance(g, int)]


def shares() -> Any:
    @tegula.jit
    def kernel(x, total, out, N: tl.constexpr):
        i = tl.arange(0, N)
        a = tl.abs(tl.load(x + i))
        s = tl.sum(a, 0)
        tl.store(total, s)
        tl.store(out + i, (a / s).to(out.dtype.element_ty))

    return kernel


def numbers(scale: float, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    x = rng.uniform(1, 2, N) * 2.0 ** rng.integers(-30, 4, N)
    return (x * scale).astype(np.float32)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize(
    "x",
    [
        numbers(1.0), numbers(2.0**100, 1), numbers(2.0**-100, 2), numbers(2.0**-126, 3),
        np.full(N, 2.0**-149), np.zeros(N), np.where(np.arange(N) == 7, np.inf, 1.0),
        np.where(np.arange(N) == 7, np.nan, 1.0), np.full(N, LARGEST),
        np.where(np.arange(N) % 2, 2.0**-120, 2.0), np.where(np.arange(N) % 2, 0.0, 3.0),
    ],
)  # fmt: skip
def test_numbers_by_their_sum_are_divided_exactly(
    taken: list[str], dtype: Any, x: np.ndarray
) -> None:
    x = x.astype(np.float32)
    kernel = shares()
    _, total, out = ran(kernel, x, np.zeros(1, np.float32), np.zeros(N, dtype), N=N)
    with np.errstate(all="ignore"):
        expected = (np.abs(x) / total).astype(np.float32).astype(dtype)
    assert taken == ["_shares"]
    known = ~np.isnan(expected.astype(np.float32))
    np.testing.assert_array_equal(np.isnan(out.astype(np.float32)), ~known)
    np.testing.assert_array_equal(out.view(np.int16)[known], expected.view(np.int16)[known])


@tegula.jit
def signed(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    a = tl.load(x + i)
    tl.store(out + i, (a / tl.sum(a, 0)).to(out.dtype.element_ty))


@tegula.jit
def by_another(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    a = tl.abs(tl.load(x + i))
    tl.store(out + i, (a / tl.sum(a + a, 0)).to(out.dtype.element_ty))


@tegula.jit
def along(x, out, N: tl.constexpr, AXIS: tl.constexpr):
    """Rows of 32 by sums of rows, or of columns."""
    i = tl.arange(0, 32)[:, None] * 32 + tl.arange(0, 32)[None, :]
    a = tl.abs(tl.load(x + i))
    tl.store(out + i, (a / tl.sum(a, AXIS)[:, None]).to(out.dtype.element_ty))


@pytest.mark.parametrize("kernel", [signed, by_another])
def test_other_quotients_are_not_taken_for_shares(taken: list[str], kernel: Any) -> None:
    ran(kernel, numbers(1.0), np.zeros(N, np.float16), N=N)
    assert taken == ["_shared"]


def test_shares_that_are_kept_in_f32_go_the_exact_way(taken: list[str]) -> None:
    ran(shares(), numbers(1.0), np.zeros(1, np.float32), np.zeros(N, np.float32), N=N)
    assert taken == ["_shared"]


@pytest.mark.parametrize(("axis", "way"), [(1, "_shares"), (0, "_shared")])
def test_the_sum_has_to_be_the_numbers_own(taken: list[str], axis: int, way: str) -> None:
    x = np.arange(1024, dtype=np.float32) + 1
    _, out = ran(along, x, np.zeros(1024, np.float16), N=N, AXIS=axis)
    assert taken == [way]
    rows = x.reshape(32, 32)
    expected = (rows / rows.sum(axis)[:, None]).astype(np.float16)
    np.testing.assert_array_equal(out.reshape(32, 32), expected)


# -- numbers with errors of their own


def estimates() -> Any:
    @tegula.jit
    def kernel(x, zeros, y, out, ROWS: tl.constexpr, COLS: tl.constexpr):
        """Each number, multiplied by exp(0), by each of the divisors."""
        r, c = tl.arange(0, ROWS)[:, None], tl.arange(0, COLS)[None, :]
        a = tl.load(x + c) * tl.exp(tl.load(zeros + r))
        tl.store(out + r * COLS + c, (a / tl.load(y + r)).to(out.dtype.element_ty))

    return kernel


EXTREMES = [
    0.0, -0.0, 1.0, -1.5, 3.0, np.inf, -np.inf, np.nan, LARGEST, -LARGEST, 2.0**-126, 2.0**-127,
    -(2.0**-149), 7 * 2.0**-149, 2.0**127, 1.9 * 2.0**126, 1.3 * 2.0**125, 2.0**-130,
    1.7 * 2.0**-100, 2.0**100,
]  # fmt: skip


def sizes(count: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    x = (
        rng.uniform(1, 2, count)
        * rng.choice([-1, 1], count)
        * 2.0 ** rng.integers(-130, 127, count)
    )
    x[: len(EXTREMES)] = EXTREMES
    return x.astype(np.float32)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_estimates_are_divided_well_over_the_whole_range(taken: list[str], dtype: Any) -> None:
    x, y = sizes(256, 5), sizes(64, 6)
    given = x, np.zeros(64, np.float32), y, np.zeros((64, 256), dtype)
    out = ran(estimates(), *given, ROWS=64, COLS=256)[3]
    assert [way for way in taken if "exp" not in way] == ["_estimates"]
    with np.errstate(all="ignore"):
        exact = x[None, :].astype(np.float64) / y[:, None]
        expected = exact.astype(np.float32).astype(dtype)
    known = ~np.isnan(exact)
    np.testing.assert_array_equal(np.isnan(out.astype(np.float32)), ~known)
    apart = ordered(out) - ordered(expected)
    assert np.abs(apart[known]).max() <= 1
    assert np.mean(apart[known] != 0) < 1e-3  # a boundary of 16 bits is seldom so near


def ordered(x: np.ndarray) -> np.ndarray:
    """Numbers of 16 bits by their place among all of them."""
    bits = x.view(np.int16).astype(np.int32)
    return np.where(bits < 0, -(bits & 0x7FFF), bits)


@tegula.jit
def softmax(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    e = tl.exp(tl.load(x + i))
    tl.store(out + i, (e / tl.sum(e, 0)).to(out.dtype.element_ty))


@tegula.jit
def carried(x, y, out, turns, N: tl.constexpr):
    """Sums that a loop makes of products, by one number."""
    i = tl.arange(0, N)
    at = i[:, None] * N + i[None, :]
    a = tl.load(x + at)
    total = tl.zeros((N, N), tl.float32)
    for _ in range(turns):
        total = tl.dot(a, a, total * 0.5)
    tl.store(out + at, (total / tl.load(y + i)[:, None]).to(out.dtype.element_ty))


def test_short_waysby_their_sum_are_estimates(taken: list[str]) -> None:
    for shift, off in ((0.0, 1e-3), (80.0, 1e-3), (-95.0, 0.05)):  # the last are denormal
        x = (np.linspace(-3, 3, N) + shift).astype(np.float32)
        _, out = ran(softmax, x, np.zeros(N, np.float16), N=N)
        e = np.exp(x.astype(np.float64) - x.max())
        np.testing.assert_allclose(out, e / e.sum(), rtol=off)
    assert "_estimates" in taken and "_shares" not in taken


def test_sums_of_products_that_a_loop_carries_are_estimates(taken: list[str]) -> None:
    rng = np.random.default_rng(8)
    x, y = rng.standard_normal((16, 16)).astype(np.float16), rng.uniform(1, 9, 16).astype("f4")
    out = ran(carried, x, y, np.zeros((16, 16), np.float16), 2, N=16)[2]
    assert taken == ["_estimates"]
    square = x.astype(np.float64) @ x
    np.testing.assert_allclose(out, (1.5 * square / y[:, None]), rtol=2e-3, atol=2e-3)


# -- exponentials


@tegula.jit
def exponentials(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.exp(tl.load(x + i)).to(out.dtype.element_ty))


@tegula.jit
def less_one(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, (tl.exp(tl.load(x + i)) - 1.0).to(out.dtype.element_ty))


def arguments() -> np.ndarray:
    x = np.linspace(-104, 89, N).astype(np.float32)
    x[:12] = [np.inf, -np.inf, np.nan, 0, -0.0, 88.72283, 88.72284, LARGEST, -LARGEST, -1e-30,
              -103.9, -87.4]  # fmt: skip
    return x


def test_exp_in_f32_is_off_by_little_over_the_whole_range(taken: list[str]) -> None:
    x = arguments()
    _, out = ran(exponentials, x, np.zeros(N, np.float32), N=N)
    assert set(taken) == {"_full_exp"}
    with np.errstate(all="ignore"):
        expected = np.exp(x.astype(np.float64)).astype(np.float32)
    np.testing.assert_array_equal(np.isnan(out), np.isnan(expected))
    apart = out.view(np.int32).astype(np.int64) - expected.view(np.int32)
    assert np.abs(apart[~np.isnan(expected)]).max() <= 3


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_exp_that_is_rounded_to_16_bits_is_the_nearest_or_its_neighbour(
    taken: list[str], dtype: Any
) -> None:
    x = arguments()
    _, out = ran(exponentials, x, np.zeros(N, dtype), N=N)
    assert set(taken) == {"_coarse_exp"}
    with np.errstate(all="ignore"):
        expected = np.exp(x.astype(np.float64)).astype(dtype)
    known = ~np.isnan(expected.astype(np.float32))
    np.testing.assert_array_equal(np.isnan(out.astype(np.float32)), ~known)
    apart = out.view(np.int16).astype(np.int32) - expected.view(np.int16)
    assert np.abs(apart[known]).max() <= 1


def test_what_a_difference_may_magnify_is_not_coarse(taken: list[str]) -> None:
    ran(less_one, arguments(), np.zeros(N, np.float16), N=N)
    assert set(taken) == {"_full_exp"}


@tegula.jit
def toward_zero(x, y, out, N: tl.constexpr):
    i = tl.arange(0, N)
    a = tl.load(x + i) * tl.exp(tl.load(y)) / tl.load(y + 1)
    tl.store(out + i, a.to(tl.float16, fp_downcast_rounding="rtz"))


def test_what_is_rounded_toward_zero_is_not_coarse(taken: list[str]) -> None:
    x = np.arange(N, dtype=np.float32) * 49
    _, _, out = ran(toward_zero, x, np.array([0, 49], "f4"), np.zeros(N, np.float16), N=N)
    assert taken == ["_full_exp", "_shared"]
    np.testing.assert_array_equal(out, np.arange(N))


@tegula.jit
def powers(x, out, TURNS: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    a = tl.exp(tl.load(x + i))
    for _ in tl.static_range(TURNS):
        a = a * a
    tl.store(out + i, a.to(tl.float16))


@pytest.mark.parametrize(("turns", "way"), [(2, "_coarse_exp"), (3, "_full_exp")])
def test_errors_that_powers_magnify_are_small(taken: list[str], turns: int, way: str) -> None:
    x = np.linspace(-1, 1, N).astype(np.float32)
    _, out = ran(powers, x, np.zeros(N, np.float16), TURNS=turns, N=N)
    assert set(taken) == {way}
    np.testing.assert_allclose(out, np.exp(x.astype("f8") * 2**turns), rtol=2**-10, atol=2**-24)
