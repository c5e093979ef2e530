"""Products by matrix units, carried out: NVIDIA's instructions emulated on another device."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tegula_cuda")
pytest.importorskip("tegula_xpu")

from simt.emulator import MatrixMachine
from simt.written_out import AsOnGpus

import tegula
import tegula.language as tl
from tegula.codegen.simt import lower as lowering
from tegula.codegen.simt.hooks import PLAIN, packed
from tegula.config import config
from tegula.plugin import Target
from tegula.plugin.registry import registry
from tegula_cuda.matrix import units
from tegula_cuda.target import features_of, resolve


def _missing() -> str:
    backend = registry.backend("xpu")
    return "" if backend.available else f"no device: {backend.probe().reason}"


pytestmark = pytest.mark.skipif(bool(_missing()), reason=_missing() or "-")

TYPES: dict[str, Any] = {
    "f16": np.float16, "f32": np.float32, "f64": np.float64, "i8": np.int8, "u8": np.uint8,
    "i32": np.int32,
}  # fmt: skip
SUMS = {"f16": tl.float16, "f32": tl.float32, "f64": tl.float64, "i32": tl.int32}


@pytest.fixture
def used(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The device with subgroups of 32 and the instructions of sm_90; gives those that are used."""
    from tegula_xpu import simt, target

    found: list[str] = []

    class Machine(AsOnGpus, MatrixMachine, simt.XpuSimt):
        known = units(features_of(resolve("sm_90")))
        used = found
        async_copies = True

        def async_copy(self, w, to, ptr, nbytes, pred):  # type: ignore[no-untyped-def]
            x = packed(w, self.load(w, ptr, "i32", nbytes // 4, pred, None, PLAIN, 4))
            w.do(f"store {x.ty} {x.text}, {to.ty} {to.text}, align 4")

        def async_commit(self, w):  # type: ignore[no-untyped-def]
            pass

        def async_wait(self, w, pending):  # type: ignore[no-untyped-def]
            pass

    backend = registry.backend("xpu")
    info = backend.info(0)
    if 32 not in target.ARCHITECTURES[info.target.arch].subgroups:
        pytest.skip("the device has no subgroups of 32")
    wide = Target("xpu", info.target.arch, {**info.target.attrs, "subgroup": 32})
    wider = dataclasses.replace(info, target=wide)
    monkeypatch.setattr(type(backend), "info", lambda *_: wider)
    monkeypatch.setattr(simt, "XpuSimt", Machine)
    with config.scope(cache=False):
        yield found


def _product() -> Any:
    @tegula.jit
    def kernel(a_ptr, b_ptr, c_ptr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr,
               TA: tl.constexpr, TB: tl.constexpr, P: tl.constexpr, OUT: tl.constexpr):  # fmt: skip
        rm = tl.arange(0, M)
        rn = tl.arange(0, N)
        rk = tl.arange(0, K)
        if TA:
            a = tl.trans(tl.load(a_ptr + rk[:, None] * M + rm[None, :]))
        else:
            a = tl.load(a_ptr + rm[:, None] * K + rk[None, :])
        if TB:
            b = tl.trans(tl.load(b_ptr + rn[:, None] * K + rk[None, :]))
        else:
            b = tl.load(b_ptr + rk[:, None] * N + rn[None, :])
        c = tl.dot(a, b, input_precision=P, out_dtype=OUT)
        tl.store(c_ptr + rm[:, None] * N + rn[None, :], c)

    return kernel


def _on_device(x: np.ndarray) -> Any:
    return tegula.asarray(x, device="xpu")


def multiply(name: str, precision: str, sums: str, size: tuple[int, int, int], ta: bool, tb: bool,
             warps: int) -> float:  # fmt: skip
    """The largest error of one product."""
    m, n, k = size
    rng = np.random.default_rng(0)
    ty = TYPES[name]
    if name in ("i8", "u8"):
        low, high = np.iinfo(ty).min, np.iinfo(ty).max + 1
        a, b = (rng.integers(low, high, s).astype(ty) for s in ((m, k), (k, n)))
    elif precision != "ieee":
        a, b = (rng.standard_normal(s).astype(ty) for s in ((m, k), (k, n)))
    else:
        a, b = (rng.integers(-8, 9, s).astype(ty) for s in ((m, k), (k, n)))
    wide = np.int64 if name in ("i8", "u8") else np.float64
    c = _on_device(np.zeros((m, n), TYPES[sums]))
    given = [np.ascontiguousarray(x.T if t else x) for x, t in ((a, ta), (b, tb))]
    _product()[(1,)](*map(_on_device, given), c, m, n, k, ta, tb, precision, SUMS[sums],
                     num_warps=warps)  # fmt: skip
    return float(np.abs(c.numpy().astype(wide) - a.astype(wide) @ b.astype(wide)).max())


CASES = [
    ("f16", "f32", (16, 8, 16), False, False, 1, None),
    ("f16", "f32", (32, 32, 16), False, False, 4, "load transposed"),
    ("f16", "f32", (16, 16, 32), False, True, 2, "load"),
    ("f16", "f16", (32, 16, 32), True, False, 2, "store transposed"),
    ("f16", "f32", (4, 2, 8), False, False, 2, None),
    ("f16", "f32", (1, 1, 1), False, False, 1, None),
    ("i8", "i32", (32, 16, 32), False, True, 2, "load"),
    ("u8", "i32", (16, 8, 32), False, False, 1, None),
    ("i8", "i32", (8, 4, 2), False, False, 1, None),
    ("f64", "f64", (16, 16, 16), True, False, 1, None),
    ("f32", "f32", (16, 16, 16), False, True, 2, None),
]


@pytest.mark.parametrize(("name", "sums", "size", "ta", "tb", "warps", "way"), CASES)
def test_products_of_whole_numbers_are_exact(used, name, sums, size, ta, tb, warps, way) -> None:  # type: ignore[no-untyped-def]
    assert multiply(name, "ieee", sums, size, ta, tb, warps) == 0
    assert way is None or way in used


@pytest.mark.parametrize(("precision", "allowed"), [
    ("tf32", 1e-2), ("tf32x3", 1e-5), ("bf16x3", 1e-3), ("bf16x6", 1e-5),
])  # fmt: skip
def test_shortened_factors(used, precision, allowed) -> None:  # type: ignore[no-untyped-def]
    error = multiply("f32", precision, "f32", (16, 8, 16), False, False, 1)
    assert error <= allowed
    assert error > 0


def test_the_result_of_a_product_is_a_factor_of_the_next(used) -> None:  # type: ignore[no-untyped-def]
    @tegula.jit
    def kernel(q_ptr, k_ptr, v_ptr, o_ptr, N: tl.constexpr, D: tl.constexpr):
        r = tl.arange(0, N)
        d = tl.arange(0, D)
        at = r[:, None] * D + d[None, :]
        s = tl.dot(tl.load(q_ptr + at), tl.trans(tl.load(k_ptr + at)))
        top = tl.max(s, axis=1)
        p = tl.where(s == top[:, None], 1.0, 0.0)
        o = tl.dot(p.to(tl.float16), tl.load(v_ptr + at))
        tl.store(o_ptr + at, o)

    rng = np.random.default_rng(1)
    q, k, v = (rng.integers(-4, 5, (32, 16)).astype("f2") for _ in range(3))
    o = _on_device(np.zeros((32, 16), "f4"))
    kernel[(1,)](*map(_on_device, (q, k, v)), o, N=32, D=16, num_warps=2)
    s = q.astype("f4") @ k.astype("f4").T
    expected = (s == s.max(1, keepdims=True)).astype("f4") @ v.astype("f4")
    np.testing.assert_array_equal(o.numpy(), expected)


@pytest.mark.parametrize("stages", [1, 3])
def test_loops_over_blocks(used, monkeypatch, stages) -> None:  # type: ignore[no-untyped-def]
    @tegula.jit
    def kernel(a_ptr, b_ptr, c_ptr, K, N: tl.constexpr, M: tl.constexpr, BK: tl.constexpr):
        rm = tl.arange(0, M)
        rn = tl.arange(0, N)
        rk = tl.arange(0, BK)
        acc = tl.zeros((M, N), dtype=tl.float32)
        for k in range(0, K, BK):
            a = tl.load(a_ptr + rm[:, None] * K + (k + rk)[None, :])
            b = tl.load(b_ptr + (k + rk)[:, None] * N + rn[None, :])
            acc = tl.dot(a, b, acc)
        tl.store(c_ptr + rm[:, None] * N + rn[None, :], acc.to(tl.float16))

    whole = functools.partial(lowering.lower, num_stages=stages)
    monkeypatch.setattr(lowering, "lower", whole)
    rng = np.random.default_rng(2)
    m, n, depth = 32, 16, 64
    a, b = (rng.integers(-4, 5, s).astype("f2") for s in ((m, depth), (depth, n)))
    c = _on_device(np.zeros((m, n), "f2"))
    kernel[(1,)](_on_device(a), _on_device(b), c, depth, n, m, 16, num_warps=2)
    np.testing.assert_array_equal(c.numpy(), (a.astype("f4") @ b.astype("f4")).astype("f2"))
    assert "load" in used
