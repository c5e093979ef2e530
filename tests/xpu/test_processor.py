"""What is made otherwise for processors: the number of warps, the order of the code, bodies without
masks.
"""

from __future__ import annotations

import numpy as np
import pytest

import tegula
import tegula.language as tl
from tegula.plugin.registry import registry

pytestmark = pytest.mark.usefixtures("device")
WARPS = [None, 1, 2, 8]


def launched(warps: int | None) -> dict[str, int]:
    return {} if warps is None else {"num_warps": warps}


def on_device(x: np.ndarray):
    return tegula.asarray(x, device="xpu")


@tegula.jit
def scaled(x, o, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(o + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)


@tegula.jit
def normalised(x, o, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    row = tl.program_id(0) * n
    v = tl.load(x + row + i, mask=i < n, other=-float("inf"))
    e = tl.exp(v - tl.max(v, 0))
    tl.store(o + row + i, e / tl.sum(e, 0), mask=i < n)


@tegula.jit
def scans(x, o, r, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n, other=0)
    tl.store(o + i, tl.cumsum(v, 0), mask=i < n)
    tl.store(r + i, tl.cumsum(v, 0, reverse=True), mask=i < n)


@tegula.jit
def sorted_and_counted(x, o, c, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    v = tl.load(x + i)
    tl.store(o + i, tl.sort(v))
    tl.store(c + i, tl.histogram(v, BLOCK))


@tegula.jit
def swapped(x, o, m, n, B: tl.constexpr):
    i, j = tl.arange(0, B), tl.arange(0, B)
    t = tl.load(x + i[:, None] * n + j[None, :], mask=(i[:, None] < m) & (j[None, :] < n))
    tl.store(o + j[:, None] * m + i[None, :], tl.trans(t),
             mask=(j[:, None] < n) & (i[None, :] < m))


@tegula.jit
def shifted_twice(x, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(x + 1 + i, tl.load(x + i) + 1)
    tl.store(x + i, tl.load(x + 1 + i) * 2)


@tegula.jit
def counted_from(o, start, n, total, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    inside = start + i < n
    tl.store(o + i, i + 1, mask=inside)
    tl.store(total, tl.sum(inside.to(tl.int32), 0))


@pytest.mark.parametrize("warps", WARPS)
@pytest.mark.parametrize("n", [1, 1000, 4096, 5000])
def test_element_by_element(warps, n):
    x = np.arange(n, dtype=np.float32)
    o = on_device(np.full(8192, -1, np.float32))
    scaled[(-(-n // 1024),)](on_device(x), o, n, BLOCK=1024, **launched(warps))
    np.testing.assert_array_equal(o.numpy()[:n], 2 * x)
    assert (o.numpy()[n:] == -1).all()


@pytest.mark.parametrize("warps", WARPS)
@pytest.mark.parametrize("n", [7, 512, 1024])
def test_reductions(warps, n):
    x = np.random.default_rng(n).standard_normal((5, n)).astype(np.float32)
    o = on_device(np.zeros_like(x))
    normalised[(5,)](on_device(x), o, n, BLOCK=1024, **launched(warps))
    e = np.exp(x - x.max(1, keepdims=True))
    np.testing.assert_allclose(o.numpy(), e / e.sum(1, keepdims=True), rtol=2e-5)


def test_many_partial_results():
    """More warps than each thread reads the results of."""
    x = np.random.default_rng(3).standard_normal((3, 1024)).astype(np.float32)
    for warps in (16, 32, 64):
        o = on_device(np.zeros_like(x))
        normalised[(3,)](on_device(x), o, 1024, BLOCK=1024, num_warps=warps)
        e = np.exp(x - x.max(1, keepdims=True))
        np.testing.assert_allclose(o.numpy(), e / e.sum(1, keepdims=True), rtol=2e-5)


@pytest.mark.parametrize("warps", WARPS)
@pytest.mark.parametrize("n", [3, 700, 1024])
def test_scans(warps, n):
    x = np.random.default_rng(n).integers(-9, 9, n).astype(np.int32)
    o, r = on_device(np.zeros_like(x)), on_device(np.zeros_like(x))
    scans[(1,)](on_device(x), o, r, n, BLOCK=1024, **launched(warps))
    np.testing.assert_array_equal(o.numpy(), np.cumsum(x))
    np.testing.assert_array_equal(r.numpy(), np.cumsum(x[::-1])[::-1])


@pytest.mark.parametrize("warps", WARPS)
def test_sorting_and_counting(warps):
    x = np.random.default_rng(0).integers(0, 256, 256).astype(np.int32)
    o, c = on_device(np.zeros_like(x)), on_device(np.zeros_like(x))
    sorted_and_counted[(1,)](on_device(x), o, c, BLOCK=256, **launched(warps))
    np.testing.assert_array_equal(o.numpy(), np.sort(x))
    np.testing.assert_array_equal(c.numpy(), np.bincount(x, minlength=256))


@pytest.mark.parametrize("warps", WARPS)
@pytest.mark.parametrize("shape", [(32, 32), (31, 17)])
def test_transposing(warps, shape):
    x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    o = on_device(np.zeros(shape[::-1], np.float32))
    swapped[(1,)](on_device(x), o, *shape, B=32, **launched(warps))
    np.testing.assert_array_equal(o.numpy(), x.T)


def test_loads_stay_before_stores():
    """Written register by register, a store would overtake loads of the next registers."""
    for warps in (1, 4):
        x = on_device(np.arange(1025, dtype=np.int32))
        shifted_twice[(1,)](x, BLOCK=1024, num_warps=warps)
        once = np.concatenate([[0], np.arange(1024) + 1])
        once[:1024] = once[1:] * 2
        np.testing.assert_array_equal(x.numpy(), once)


def test_masks_of_indices_that_wrap_around():
    """The last element of such a tile is below the bound, the first is not."""
    for start, n in ((2**31 - 100, 0), (2**31 - 100, 2**31 - 1), (0, 1024), (-5, 0), (10, 5)):
        o, total = on_device(np.zeros(1024, np.int32)), on_device(np.zeros(1, np.int32))
        counted_from[(1,)](o, start, n, total, BLOCK=1024)
        index = (np.arange(1024) + start + 2**31) % 2**32 - 2**31
        np.testing.assert_array_equal(o.numpy(), np.where(index < n, np.arange(1024) + 1, 0))
        assert total.numpy()[0] == (index < n).sum()


def test_warps_are_chosen_where_a_launch_does_not_say():
    from xpu.test_compiler import REDUCE, SWAP

    from tegula.conformance.session import compile_module
    from tegula.ir import parse_module
    from tegula_xpu.target import resolve

    def warps(text: str, arch: str, **options: int) -> int:
        backend = registry.backend("xpu")
        made = compile_module(backend, resolve(arch), parse_module(text), options)
        return int(made.metadata["num_warps"])

    assert warps(REDUCE, "cpu") == 1
    assert warps(REDUCE, "cpu", num_warps=2) == 2
    assert warps(SWAP, "cpu", num_warps=8) == 8
    assert warps(REDUCE, "xe-hpc") == 4


@tegula.jit
def far_away(x, o, far, back, BLOCK: tl.constexpr):
    i = far + tl.arange(0, BLOCK)
    tl.store(o + tl.arange(0, BLOCK), tl.load(x + back + i, mask=i < 0, other=-1))


def test_indices_that_wrap_around_within_a_vector():
    """The runtime takes indices for neighbours before they wrap around; see `simt.whole`."""
    x = np.arange(256, dtype=np.int32)
    for warps in (None, 1):
        o = on_device(np.zeros(128, np.int32))
        far = 2**31 - 21
        far_away[(1,)](on_device(x), o, far, 2**31, BLOCK=128, **launched(warps))
        np.testing.assert_array_equal(o.numpy(), np.where(np.arange(128) < 21, -1,
                                                          np.arange(128) - 21))  # fmt: skip


@tegula.jit
def counted_alike(o, BINS: tl.constexpr, N: tl.constexpr):
    ones = tl.full((N,), 7, tl.int32)
    counts = tl.histogram(tl.where(ones < -1, 0, tl.where(ones > 5, 1, 2)), BINS)
    tl.store(o + tl.arange(0, BINS), counts)


def test_counters_at_known_places():
    o = on_device(np.zeros(16, np.int32))
    counted_alike[(1,)](o, 16, 32)
    assert list(o.numpy()[:3]) == [0, 32, 0]
