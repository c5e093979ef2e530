"""Loads, stores, atomics and descriptors: masks, strides, order of accesses."""

from __future__ import annotations

import ctypes
import mmap

import ml_dtypes
import numpy as np
import pytest
from cpu.lowering import Maker, check, kernel, normal, zeros

from tegula import ir
from tegula.tools.execute import run_on

SIZES = [0, 1, 3, 15, 16, 17, 63, 64, 65, 100, 127, 128]


def column(b: Maker, v, n: int):
    v = b.expand_dims(v, axis=1)
    return b.broadcast(v, shape=(v.type.shape[0], n))


def row(b: Maker, v, m: int):
    v = b.expand_dims(v, axis=0)
    return b.broadcast(v, shape=(m, v.type.shape[1]))


@pytest.mark.parametrize("n", SIZES)
def test_bounds_along_the_vectors(n: int) -> None:
    def body(b, x, o, n):
        i = b.index((128,))
        mask = b.cmp(i, b.splat(n, shape=(128,)), pred="lt")
        v = b.load(b.at(x, i), mask=mask, other=b.full(7.0, (128,), ir.f32))
        b.store(b.at(o, i), b.add(v, v), mask=mask)
        b.store(b.at(o, b.index((128,), 128)), v)

    check({"x": normal(128), "o": zeros(256), "n": n}, body)


@pytest.mark.parametrize("pred", ["lt", "le", "gt", "ge", "eq", "ne"])
@pytest.mark.parametrize("swap", [False, True])
def test_bounds_of_every_kind(pred: str, swap: bool) -> None:
    def body(b, x, o, n):
        i = b.mul(b.index((70,)), b.full(3, (70,), ir.i32))
        limit = b.splat(n, shape=(70,))
        mask = b.cmp(limit, i, pred=pred) if swap else b.cmp(i, limit, pred=pred)
        b.store(b.at(o, b.index((70,))), b.load(b.at(x, b.index((70,))), mask=mask))
        b.store(b.at(o, b.index((70,), 70)), b.get(x, (70,)), mask=mask)

    for n in (-5, 0, 1, 3, 48, 100, 144, 150, 207, 500):
        check({"x": normal(70), "o": zeros(140), "n": n}, body)


@pytest.mark.parametrize("m", [0, 1, 5, 8, 9])
@pytest.mark.parametrize("n", [0, 1, 16, 20, 33, 40])
def test_bounds_in_two_dimensions(m: int, n: int) -> None:
    def body(b, x, o, m, n):
        i, j = column(b, b.index((9,)), 37), row(b, b.index((37,)), 9)
        mask = b.and_(b.cmp(i, b.splat(m, shape=(9, 37)), pred="lt"),
                      b.cmp(j, b.splat(n, shape=(9, 37)), pred="lt"))
        at = b.add(b.mul(i, b.splat(n, shape=(9, 37))), j)
        v = b.load(b.at(x, at), mask=mask, other=b.full(-1.0, (9, 37), ir.f32))
        b.store(b.at(o, at), v, mask=mask)
        b.store(b.at(o, b.index((9, 37), 400)), v)

    check({"x": normal(400), "o": zeros(800), "m": m, "n": n}, body)


def test_masks_from_memory() -> None:
    def body(b, x, m, o):
        mask = b.get(m, (50,))
        v = b.load(b.at(x, b.index((50,))), mask=mask)
        b.put(o, v)
        b.store(b.at(o, b.index((50,), 50)), v, mask=b.not_(mask))

    m = np.random.default_rng(0).integers(0, 2, 50).astype(bool)
    check({"x": normal(50), "m": m, "o": zeros(100)}, body)


@pytest.mark.parametrize("stride", [-1, 0, 2, 3, 4, 5, -2])
@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.float64, np.float16])
def test_strides(stride: int, dtype: type) -> None:
    def body(b, x, o, s, c):
        for k, step in enumerate((b.full(stride, (40,), ir.i32), b.splat(s, shape=(40,)))):
            at = b.add(b.mul(b.index((40,)), step), b.full(100, (40,), ir.i32))
            b.store(b.at(o, b.index((40,), 40 * k)), b.load(b.at(x, at)))
            if stride:
                p = b.addptr(c, b.constant(400 * k, ir.i32))
                b.store(b.at(p, at), b.get(x, (40,)))

    x = (normal(400) * 10).astype(dtype)
    check({"x": x, "o": zeros(80, dtype), "s": stride, "c": zeros(800, dtype)}, body)


def test_gather_and_scatter() -> None:
    def body(b, x, i, o, p):
        at = b.get(i, (45,))
        mask = b.cmp(at, b.full(60, (45,), ir.i32), pred="lt")
        b.put(o, b.load(b.at(x, at), mask=mask, other=b.full(2.5, (45,), ir.f32)))
        b.store(b.at(p, at), b.get(x, (45,)), mask=mask)

    i = np.random.default_rng(1).permutation(80)[:45].astype(np.int32)
    check({"x": normal(80), "i": i, "o": zeros(45), "p": zeros(80)}, body)


def test_masked_lanes_touch_no_memory() -> None:
    page = mmap.PAGESIZE
    area = mmap.mmap(-1, 3 * page)
    base = ctypes.addressof(ctypes.c_char.from_buffer(area))
    libc = ctypes.CDLL(None, use_errno=True)
    for at in (0, 2 * page):
        assert libc.mprotect(ctypes.c_void_p(base + at), page, 0) == 0
    count = page // 4
    middle = np.frombuffer((ctypes.c_char * page).from_address(base + page), np.float32)

    def body(b, x, o, lo, hi):
        i = b.index((200,))
        mask = b.and_(b.cmp(i, b.splat(lo, shape=(200,)), pred="ge"),
                      b.cmp(i, b.splat(hi, shape=(200,)), pred="lt"))
        v = b.load(b.at(x, i), mask=mask)
        b.put(o, v)
        b.store(b.at(x, i), b.add(v, v), mask=mask)
        scalar = b.load(b.addptr(x, lo), mask=b.cmp(lo, hi, pred="lt"))
        b.put(b.addptr(o, b.constant(200, ir.i32)), scalar)

    module = kernel({"x": zeros(1), "o": zeros(1), "lo": 0, "hi": 0}, body)
    for start, lo, hi in ((-50, 50, 200), (count - 30, 0, 30), (count, 0, 0), (-200, 200, 200)):
        middle[:] = 1.5
        out = zeros(201)
        args = {"x": base + page + 4 * start, "o": out, "lo": lo, "hi": hi}
        run_on(module, 1, args, "cpu")
        assert np.array_equal(out[:200], np.where((np.arange(200) >= lo) & (np.arange(200) < hi),
                                                  np.float32(1.5), np.float32(0)))
        assert (middle == 3).sum() == hi - lo
    for at in (0, 2 * page):
        libc.mprotect(ctypes.c_void_p(base + at), page, 3)


def test_one_buffer_read_and_written_elsewhere() -> None:
    """Every element is read before any is written."""
    def body(b, x):
        i = b.index((100,))
        v = b.load(b.at(x, i))
        b.store(b.at(x, b.add(i, b.full(1, (100,), ir.i32))), v)
        w = b.load(b.at(x, b.add(i, b.full(2, (100,), ir.i32))))
        b.store(b.at(x, i), b.add(w, v))
        b.store(b.at(x, i), b.mul(b.load(b.at(x, i)), b.full(2.0, (100,), ir.f32)))

    check({"x": normal(102)}, body)


def test_a_load_keeps_its_value_after_a_store_to_the_same_place() -> None:
    def body(b, x, o):
        p = b.at(x, b.index((70,)))
        v = b.load(p)
        b.store(p, b.full(9.0, (70,), ir.f32))
        b.put(o, v)

    check({"x": normal(70), "o": zeros(70)}, body)


@pytest.mark.parametrize("shift", [0, 1, 16, -3])
def test_overlapping_arguments(shift: int) -> None:
    """Without the promise that arguments are disjoint, any overlap is right."""
    def body(b, x, y, o):
        v = b.add(b.get(x, (90,)), b.get(y, (90,)))
        b.put(o, v)
        b.put(y, b.mul(v, b.get(x, (90,))))

    memory, expected = normal(400), None
    module = kernel({"x": memory, "y": memory, "o": memory}, body)
    for which in ("interpreter", "cpu"):
        m = memory.copy()
        args = {"x": m[100:], "y": m[200:], "o": m[100 + shift:]}
        run_on(module, 1, args, which, {"assume_disjoint": False})
        if expected is None:
            expected = m
    assert np.array_equal(m, expected)


def test_transposed_tiles() -> None:
    for m, n in ((16, 16), (20, 37), (64, 48), (5, 9)):

        def body(b, x, o, p, q, r, m=m, n=n):
            def along(i, j, ld):
                return b.add(b.mul(i, b.splat(ld, shape=i.type.shape)), j)

            i, j = column(b, b.index((m,)), n), row(b, b.index((n,)), m)
            it, jt = row(b, b.index((m,)), n), column(b, b.index((n,)), m)
            mask = b.and_(b.cmp(i, b.splat(p, shape=(m, n)), pred="lt"),
                          b.cmp(j, b.splat(q, shape=(m, n)), pred="lt"))
            turned = b.permute(mask, dims=(1, 0))
            v = b.load(b.at(x, along(i, j, q)), mask=mask)
            t = b.permute(v, dims=(1, 0))
            b.store(b.at(o, along(jt, it, p)), t, mask=turned)
            w = b.addptr(o, b.constant(4096, ir.i32))
            b.store(b.at(w, along(jt, it, p)), b.add(t, t), mask=turned)
            z = b.addptr(o, b.constant(8192, ir.i32))
            b.store(b.at(z, b.add(b.mul(j, b.splat(p, shape=(m, n))), i)), v, mask=mask)
            b.put(r, t)

        for p, q in ((m, n), (m - 1, n), (m, n - 3), (3, 2)):
            check({"x": normal(4096), "o": zeros(12288), "p": p, "q": q, "r": zeros(m * n)}, body)


def test_index_that_wraps_around() -> None:
    """Offsets modulo a size: contiguous until they wrap."""
    def body(b, x, o, start, n):
        i = b.add(b.index((64,)), b.splat(start, shape=(64,)))
        at = b.rem(i, b.splat(n, shape=(64,)))
        v = b.load(b.at(x, at))
        b.put(o, v)
        rows = column(b, b.index((4,)), 64)
        w = b.load(b.at(x, b.add(b.mul(rows, b.splat(n, shape=(4, 64))), row(b, at, 4))))
        b.put(b.addptr(o, b.constant(64, ir.i32)), w)
        (total,) = b.reduce([v], b.region([ir.f32, ir.f32], lambda p, q: b.add(p, q)), axis=0)
        b.put(b.addptr(o, b.constant(320, ir.i32)), total)

    for start, n in ((0, 64), (10, 64), (0, 70), (60, 70), (500, 7), (3, 1)):
        check({"x": normal(1200), "o": zeros(321), "start": start, "n": n}, body, tolerance=1e-5)


@pytest.mark.parametrize("kind", ["add", "max", "min", "and", "or", "xor", "xchg"])
@pytest.mark.parametrize("dtype", [np.int32, np.uint32, np.int64, np.uint64])
def test_integer_atomics(kind: str, dtype: type) -> None:
    def body(b, x, i, o, r):
        mask = b.cmp(b.index((40,)), b.full(35, (40,), ir.i32), pred="lt")
        at = b.get(i, (40,)) if kind != "xchg" else b.index((40,))
        old = b.atomic_rmw(b.at(o, at), b.get(x, (40,)), mask, kind=kind)
        if kind == "xchg":
            b.put(r, old)
        b.put(b.addptr(r, b.constant(40, ir.i32)), b.atomic_rmw(o, b.load(x), kind=kind))

    rng = np.random.default_rng(2)
    x = rng.integers(0, 1000, 40).astype(dtype)
    i = rng.integers(0, 9, 40).astype(np.int32)
    check({"x": x, "i": i, "o": np.full(40, 77, dtype), "r": zeros(41, dtype)}, body)


@pytest.mark.parametrize("kind", ["add", "max", "min", "xchg"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16])
def test_float_atomics(kind: str, dtype: type) -> None:
    def body(b, x, o, r):
        old = b.atomic_rmw(b.at(o, b.index((30,))), b.get(x, (30,)), kind=kind, sem="relaxed")
        b.put(r, old)

    x = normal(30).astype(dtype)
    x[:6] = [np.nan, 0.0, -0.0, np.inf, -np.inf, 1.0]
    o = normal(30, 1).astype(dtype)
    o[:7] = [1.0, -0.0, 0.0, 1.0, np.nan, np.nan, np.nan]
    check({"x": x, "o": o, "r": zeros(30, dtype)}, body, tolerance=1e-6)


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.float32, np.int16])
def test_compare_and_swap(dtype: type) -> None:
    def body(b, x, c, o, r):
        old = b.atomic_cas(b.at(o, b.index((20,))), b.get(c, (20,)), b.get(x, (20,)))
        b.put(r, old)

    rng = np.random.default_rng(3)
    o, c = (rng.integers(0, 2, 20).astype(dtype) for _ in range(2))
    check({"x": np.arange(20).astype(dtype), "c": c, "o": o, "r": zeros(20, dtype)}, body)


def test_atomics_from_many_programs() -> None:
    def body(b, x, o):
        at = b.add(b.index((100,)), b.splat(b.mul(b.program_id(axis=0), b.constant(100, ir.i32)),
                                             shape=(100,)))
        b.atomic_rmw(b.at(o, b.load(b.at(x, at))), b.full(1, (100,), ir.i32), kind="add")

    x = np.random.default_rng(4).integers(0, 16, 5000).astype(np.int32)
    check({"x": x, "o": zeros(16, np.int32)}, body, grid=50)


@pytest.mark.parametrize("padding", ["zero", "nan"])
def test_descriptors(padding: str) -> None:
    def body(b, x, o, m, n, p, q):
        def desc(base):
            wide = [b.cast(v, to=ir.i64) for v in (n, b.constant(1, ir.i32))]
            return b.make_descriptor(base, [m, n], wide, block_shape=(8, 20), padding=padding)

        v = b.desc_load(desc(x), [p, q])
        b.desc_store(desc(o), b.add(v, v), [q, p])
        b.put(b.addptr(o, b.constant(1000, ir.i32)), v)

    for m, n, p, q in ((20, 40, 0, 0), (20, 40, 15, 30), (7, 9, 0, 3), (20, 40, -3, -5),
                       (0, 4, 0, 0)):  # fmt: skip
        check({"x": normal(1000), "o": zeros(1160), "m": m, "n": n, "p": p, "q": q}, body)


def test_shapes_are_moved_through() -> None:
    def body(b, x, o):
        v = b.get(x, (6, 8))
        r = b.reshape(v, shape=(2, 3, 8))
        b.put(o, b.reshape(b.permute(r, dims=(2, 0, 1)), shape=(48,)))
        lo, hi = b.split(b.reshape(v, shape=(24, 2)))
        b.put(b.addptr(o, b.constant(48, ir.i32)), b.cat(lo, hi, axis=0))
        b.put(b.addptr(o, b.constant(96, ir.i32)), b.join(hi, lo))
        c = b.cat(v, b.get(x, (5, 8)), axis=0)
        b.put(b.addptr(o, b.constant(144, ir.i32)), b.mul(c, c))
        d = b.reshape(b.permute(b.reshape(v, shape=(6, 2, 4)), dims=(0, 2, 1)), shape=(6, 8))
        b.put(b.addptr(o, b.constant(232, ir.i32)), d)

    check({"x": normal(48), "o": zeros(280)}, body)


def test_interleaved_rows() -> None:
    for n in (64, 48, 5, 2):

        def body(b, x, y, o, m, n=n):
            u = b.get(x, (3, n))
            i = b.index((3, n))
            mask = b.cmp(i, b.splat(m, shape=(3, n)), pred="lt")
            v = b.load(b.at(y, i), mask=mask)
            r = b.reshape(b.join(u, v), shape=(3, 2 * n))
            b.put(o, b.add(r, r))
            (s,) = b.reduce([r], b.region([ir.f32] * 2, lambda p, q: b.max(p, q)), axis=1)
            b.put(b.addptr(o, b.constant(6 * n, ir.i32)), s)

        for m in (0, n + 1, 3 * n):
            check({"x": normal(200), "y": normal(200, 1), "o": zeros(400), "m": m}, body)
