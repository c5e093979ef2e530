"""Tensor descriptors and block pointers, on every backend."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_runner import build, jit, run

import tegula.language as tl
from tegula.errors import CompilationError

RNG = np.random.default_rng(3)
pytestmark = pytest.mark.usefixtures("on_each_backend")


def window(x, offsets, block, pad=0):
    """What a descriptor reads: a block of the array, padded outside of it."""
    out = np.full(block, pad, x.dtype)
    for index in np.ndindex(*block):
        at = tuple(o + i for o, i in zip(offsets, index, strict=True))
        if all(0 <= a < n for a, n in zip(at, x.shape, strict=True)):
            out[index] = x[at]
    return out


@jit
def copy_nd(
    out, x, shape, strides, offsets, BLOCK: tl.constexpr, OUT: tl.constexpr, PAD: tl.constexpr
):
    d = tl.make_tensor_descriptor(x, shape, strides, BLOCK, padding_option=PAD)
    size: tl.constexpr = OUT
    tl.store(out + tl.arange(0, size), d.load(offsets).reshape(size))


SHAPES = {
    1: ((7,), (3,), (6,)),
    2: ((5, 7), (2, 4), (4, 5)),
    3: ((3, 5, 6), (2, 3, 4), (2, -1, 3)),
    4: ((2, 3, 4, 5), (1, 2, 3, 4), (1, 2, 2, -2)),
    5: ((2, 3, 2, 3, 4), (2, 2, 1, 2, 3), (1, 2, 1, 2, 2)),
}


@pytest.mark.parametrize("rank", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("pad", ["zero", "nan"])
def test_descriptors_of_every_rank(rank, pad):
    shape, block, offsets = SHAPES[rank]
    x = RNG.standard_normal(shape).astype(np.float32)
    strides = tuple(s // 4 for s in x.strides)
    out = np.zeros(int(np.prod(block)), np.float32)
    run(copy_nd, out, x, shape, strides, offsets, block, out.size, pad)
    expected = window(x, offsets, block, np.nan if pad == "nan" else 0)
    np.testing.assert_array_equal(out, expected.reshape(-1))


@jit
def loop_of_descriptors(out, x, M, N, BM: tl.constexpr, BN: tl.constexpr):
    src = tl.make_tensor_descriptor(x, [M, N], [N, 1], [BM, BN])
    dst = tl.make_tensor_descriptor(out, [M, N], [N, 1], [BM, BN])
    other = tl.make_tensor_descriptor(out, [M, N], [N, 1], [BM, BN])
    for i in range(0, M, BM):
        for j in range(0, N, BN):
            dst.store([i, j], scaled(src, i, j))
            dst, other = other, dst


@jit
def scaled(d, i, j):
    return tl.load_tensor_descriptor(d, [i, j]) * 2


def test_descriptors_in_loops_and_calls():
    x = RNG.standard_normal((6, 10)).astype(np.float32)
    out = np.zeros_like(x)
    run(loop_of_descriptors, out, x, 6, 10, 4, 3)
    np.testing.assert_array_equal(out, 2 * x)


@jit
def gather_rows(out, x, rows, M, N, y, R: tl.constexpr, W: tl.constexpr, PAD: tl.constexpr):
    d = tl.make_tensor_descriptor(x, [M, N], [N, 1], [1, W], padding_option=PAD)
    picked = d.gather(tl.load(rows + tl.arange(0, R)), y)
    tl.store(out + tl.arange(0, R)[:, None] * W + tl.arange(0, W), picked)


@jit
def scatter_rows(out, x, rows, M, N, y, R: tl.constexpr, W: tl.constexpr):
    d = tl.make_tensor_descriptor(out, [M, N], [N, 1], [1, W])
    value = tl.load(x + tl.arange(0, R)[:, None] * W + tl.arange(0, W))
    d.scatter(value, tl.load(rows + tl.arange(0, R)), y)


@pytest.mark.parametrize("pad", ["zero", "nan"])
def test_gather(pad):
    x = RNG.standard_normal((6, 9)).astype(np.float32)
    rows = np.array([5, 0, 0, 7, -1, 3, 2], np.int32)
    out = np.zeros((7, 4), np.float32)
    run(gather_rows, out, x, rows, 6, 9, 7, 7, 4, pad)
    fill = np.nan if pad == "nan" else 0
    expected = np.concatenate([window(x, (r, 7), (1, 4), fill) for r in rows])
    np.testing.assert_array_equal(out, expected)


def test_scatter():
    x = RNG.standard_normal((4, 3)).astype(np.float32)
    rows = np.array([2, 9, 0, 5], np.int32)
    out = np.zeros((6, 5), np.float32)
    run(scatter_rows, out, x, rows, 6, 5, 3, 4, 3)
    expected = np.zeros((6, 5), np.float32)
    for i, r in enumerate(rows):
        if r < 6:
            expected[r, 3:5] = x[i, :2]
    np.testing.assert_array_equal(out, expected)


@jit
def reduce_into(out, x, M, N, i, j, KIND: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    d = tl.make_tensor_descriptor(out, [M, N], [N, 1], [BM, BN])
    value = tl.load(x + tl.arange(0, BM)[:, None] * BN + tl.arange(0, BN))
    if KIND == "add":
        d.atomic_add([i, j], value)
    elif KIND == "min":
        d.atomic_min([i, j], value)
    elif KIND == "max":
        d.atomic_max([i, j], value)
    elif KIND == "and":
        d.atomic_and([i, j], value)
    elif KIND == "or":
        d.atomic_or([i, j], value)
    else:
        d.atomic_xor([i, j], value)


UFUNCS = {
    "add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and,
    "or": np.bitwise_or, "xor": np.bitwise_xor,
}  # fmt: skip


@pytest.mark.parametrize("kind", list(UFUNCS))
@pytest.mark.parametrize("dtype", ["int32", "uint64", "float16", "float32", "float64"])
def test_atomic_reductions(kind, dtype):
    x = RNG.integers(0, 50, (4, 3)).astype(dtype)
    out = RNG.integers(0, 50, (5, 5)).astype(dtype)
    supported = kind in ("add", "min", "max") or dtype in ("int32", "uint64")
    if not supported:
        with pytest.raises(CompilationError, match=f"atomic_{kind} of a descriptor does not work"):
            build(reduce_into, (out, x, 5, 5, 2, 3, kind, 4, 3))
        return
    expected = out.copy()
    expected[2:5, 3:5] = UFUNCS[kind](expected[2:5, 3:5], x[:3, :2])
    run(reduce_into, out, x, 5, 5, 2, 3, kind, 4, 3)
    np.testing.assert_array_equal(out, expected)


# ---- block pointers


@jit
def block_copy(
    out, x, n, OFF: tl.constexpr, BLOCK: tl.constexpr, CHECK: tl.constexpr, PAD: tl.constexpr
):
    src = tl.make_block_ptr(x, (n,), (1,), (0,), (BLOCK,), (0,))
    src = tl.advance(src, (OFF,))
    if CHECK:
        tile = tl.load(src, boundary_check=(0,), padding_option=PAD)
    else:
        tile = tl.load(src)
    dst = tl.make_block_ptr(out, [n + 3], [1], [0], [BLOCK], [0])
    tl.store(dst, tile, boundary_check=(0,))


@pytest.mark.parametrize("dtype", ["float32", "float16", "int16"])
@pytest.mark.parametrize("pad", ["", "zero", "nan"])
@pytest.mark.parametrize("n", [64, 13])
def test_block_copies(dtype, pad, n):
    if dtype == "int16" and pad == "nan":
        with pytest.raises(CompilationError, match="has no NaN"):
            build(block_copy, (np.zeros(n, dtype), np.zeros(n, dtype), n, 0, 16, True, pad))
        return
    x = RNG.integers(-9, 9, n).astype(dtype)
    out = np.full(n + 3, 7, dtype)
    run(block_copy, out, x, n, n - 5, 16, True, pad)
    expected = np.full(n + 3, 7, dtype)
    tile = np.full(16, np.nan if pad == "nan" else 0, dtype)
    tile[:5] = x[n - 5 :]
    expected[:16] = tile[: n + 3]
    np.testing.assert_array_equal(out, expected)


def test_unchecked_block_pointers():
    x = RNG.standard_normal(64).astype(np.float32)
    out = np.zeros(67, np.float32)
    run(block_copy, out, x, 64, 8, 16, False, "")
    np.testing.assert_array_equal(out[:16], x[8:24])


@jit
def block_matmul(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    pa = tl.make_block_ptr(a, (M, K), (K, 1), (tl.program_id(0) * BM, 0), (BM, BK), order=(1, 0))
    pb = tl.make_block_ptr(b, (K, N), (N, 1), (0, tl.program_id(1) * BN), (BK, BN), order=(1, 0))
    acc = tl.zeros((BM, BN), tl.float32)
    for _ in range(0, K, BK):
        x = tl.load(pa, boundary_check=(0, 1))
        y = tl.load(pb, boundary_check=(0, 1))
        acc += tl.dot(x, y)
        pa = tl.advance(pa, (0, BK))
        pb = pb.advance((BK, 0))
    pc = tl.make_block_ptr(
        c, (M, N), (N, 1), (tl.program_id(0) * BM, tl.program_id(1) * BN), (BM, BN), (1, 0)
    )
    tl.store(pc, acc.to(c.dtype.element_ty), boundary_check=(0, 1))


def test_products_through_block_pointers():
    m, n, k = 20, 17, 37
    a = RNG.standard_normal((m, k)).astype(np.float32)
    b = RNG.standard_normal((k, n)).astype(np.float32)
    c = np.zeros((m, n), np.float32)
    run(block_matmul, a, b, c, m, n, k, 16, 8, 16, grid=(2, 3))
    np.testing.assert_allclose(c, a @ b, rtol=1e-4, atol=1e-4)


@jit
def rank_three(out, x, A, B, C, BA: tl.constexpr, BB: tl.constexpr, BC: tl.constexpr):
    p = tl.make_block_ptr(x, (A, B, C), (B * C, C, 1), (1, 0, 2), (BA, BB, BC), (2, 1, 0))
    tile = tl.load(p, boundary_check=(0, 2))
    q = tl.make_block_ptr(out, (BA, BB, BC), (BB * BC, BC, 1), (0, 0, 0), (BA, BB, BC), (2, 1, 0))
    tl.store(q, tile)


def test_block_pointers_of_rank_three():
    x = RNG.standard_normal((3, 4, 5)).astype(np.float32)
    out = np.zeros((4, 2, 4), np.float32)
    run(rank_three, out, x, 3, 4, 5, 4, 2, 4)
    np.testing.assert_array_equal(out, window(x, (1, 0, 2), (4, 2, 4)))


@jit
def element_type(out, x):
    p = tl.make_block_ptr(x, (4,), (1,), (0,), (4,), (0,))
    tl.static_assert(p.type.element_ty.element_ty == tl.float16)
    tl.store(out + tl.arange(0, 4), tl.load(p))


def test_types_of_block_pointers():
    x = np.arange(4, dtype=np.float16)
    out = np.zeros(4, np.float32)
    run(element_type, out, x)
    np.testing.assert_array_equal(out, x)


@jit
def masked_block(x):
    p = tl.make_block_ptr(x, (4,), (1,), (0,), (4,), (0,))
    tl.load(p, mask=tl.arange(0, 4) < 2)


@jit
def checked_pointer(x):
    tl.load(x + tl.arange(0, 4), boundary_check=(0,))


@jit
def short_block(x):
    tl.make_block_ptr(x, (4, 4), (4, 1), (0,), (4, 4), (1, 0))


@jit
def wide_gather(x):
    tl.make_tensor_descriptor(x, [4, 4], [4, 1], [2, 4]).gather(tl.arange(0, 4), 0)


@pytest.mark.parametrize(
    "fn, message",
    [
        (masked_block, "a block pointer takes no mask"),
        (checked_pointer, "are for block pointers"),
        (short_block, "need 2 entries each"),
        (wide_gather, "blocks of one row"),
    ],
)
def test_mistakes(fn, message):
    with pytest.raises(CompilationError, match=message):
        build(fn, (np.zeros(16, np.float32),))
