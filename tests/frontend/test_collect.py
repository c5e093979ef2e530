"""Sorting, picking, counting and functions of single elements, on every backend."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from kernel_runner import build, jit, run

import tegula.language as tl
from tegula.errors import CompilationError

RNG = np.random.default_rng(5)
pytestmark = pytest.mark.usefixtures("on_each_backend")
DTYPES = [
    "int8", "uint8", "int16", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64",
    ml_dtypes.bfloat16, ml_dtypes.float8_e5m2, ml_dtypes.float8_e4m3fnuz,
]  # fmt: skip


def numbers(shape, dtype):
    dtype = np.dtype(dtype)
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        low, high = max(info.min, -100), min(info.max, 100)
        x = RNG.integers(low, high, shape, endpoint=True).astype(dtype)
        x.flat[: min(2, x.size)] = [info.min, info.max][: min(2, x.size)]
        return x
    return (RNG.standard_normal(shape) * 8).astype(dtype)


@jit
def sort_rows(out, x, M: tl.constexpr, N: tl.constexpr, DIM: tl.constexpr, DOWN: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)
    tl.store(out + at, tl.sort(tl.load(x + at), DIM, DOWN))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1, 1), (3, 7), (5, 64), (2, 700)])
@pytest.mark.parametrize("down", [False, True])
def test_sort(dtype, shape, down):
    x = numbers(shape, dtype)
    out = np.zeros_like(x)
    run(sort_rows, out, x, *shape, 1, down)
    expected = np.sort(x.astype(np.float64) if x.dtype.kind not in "iu" else x, 1)
    np.testing.assert_array_equal(out, (expected[:, ::-1] if down else expected).astype(x.dtype))


def test_sort_along_the_first_dimension():
    x = numbers((33, 5), "float32")
    out = np.zeros_like(x)
    run(sort_rows, out, x, 33, 5, 0, False)
    np.testing.assert_array_equal(out, np.sort(x, 0))


@pytest.mark.parametrize("down", [False, True])
def test_sort_of_special_numbers(down):
    x = np.array([[np.nan, 0.0, -0.0, np.inf, -np.inf, -np.nan, 1.0]], np.float32)
    out = np.zeros_like(x)
    run(sort_rows, out, x, 1, 7, -1, down)
    expected = np.array([[-np.inf, -0.0, 0.0, 1.0, np.inf, np.nan, np.nan]], np.float32)
    expected = expected[:, ::-1] if down else expected
    np.testing.assert_array_equal(out, expected)
    np.testing.assert_array_equal(np.signbit(out[~np.isnan(out)]), np.signbit(expected[~np.isnan(
        expected)]))  # fmt: skip


@jit
def sort_with_indices(
    out, place, x, M: tl.constexpr, N: tl.constexpr, DIM: tl.constexpr, DOWN: tl.constexpr
):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)
    values, indices = tl.sort(tl.load(x + at), DIM, DOWN, return_indices=True)
    tl.store(out + at, values)
    tl.store(place + at, indices)
    tl.device_assert(indices == tl.argsort(tl.load(x + at), DIM, DOWN))


@pytest.mark.parametrize("dtype", ["int8", "float32", "int64", "float64", ml_dtypes.bfloat16])
@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("down", [False, True])
def test_equal_elements_keep_their_order(dtype, dim, down):
    shape = (9, 21) if dim else (150, 3)
    x = RNG.integers(0, 4, shape).astype(dtype)
    out, place = np.zeros_like(x), np.zeros(x.shape, np.int32)
    run(sort_with_indices, out, place, x, *shape, dim, down, options={"debug": True})
    key = x.astype(np.float64)
    expected = np.argsort(-key if down else key, dim, kind="stable")
    np.testing.assert_array_equal(place, expected)
    np.testing.assert_array_equal(out, np.take_along_axis(x, expected, dim))


@jit
def top(out, place, x, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, DOWN: tl.constexpr):
    value = tl.load(x + tl.arange(0, M)[:, None] * N + tl.arange(0, N))
    at = tl.arange(0, M)[:, None] * K + tl.arange(0, K)
    best, where = tl.topk(value, K, descending=DOWN, return_indices=True)
    tl.store(out + at, best)
    tl.store(place + at, where)
    if DOWN:
        tl.device_assert(tl.topk(value, K) == best)


@pytest.mark.parametrize("k", [1, 3, 13])
@pytest.mark.parametrize("down", [False, True])
def test_topk(k, down):
    x = RNG.permutation(4 * 13).reshape(4, 13).astype(np.float32)
    out, place = np.zeros((4, k), np.float32), np.zeros((4, k), np.int32)
    run(top, out, place, x, 4, 13, k, down, options={"debug": True})
    order = np.argsort(-x if down else x, 1)[:, :k]
    np.testing.assert_array_equal(place, order)
    np.testing.assert_array_equal(out, np.take_along_axis(x, order, 1))


@jit
def merged(out, x, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out + at, tl.bitonic_merge(tl.load(x + at)))


def test_bitonic_merge():
    x = np.array([1, 4, 6, 9, 8, 5, 3, 2], np.int32)
    out = np.zeros_like(x)
    run(merged, out, x, 8)
    np.testing.assert_array_equal(out, np.sort(x))


# ---- flip and gather


@jit
def flipped(out, x, A: tl.constexpr, B: tl.constexpr, C: tl.constexpr, DIM: tl.constexpr):
    at = (tl.arange(0, A)[:, None, None] * B + tl.arange(0, B)[:, None]) * C + tl.arange(0, C)
    tl.store(out + at, tl.flip(tl.load(x + at), DIM))
    tl.device_assert(tl.flip(tl.flip(at, DIM), DIM) == at)


@pytest.mark.parametrize("dim", [0, 1, 2, -2, None])
@pytest.mark.parametrize("dtype", ["int8", "float64"])
def test_flip(dim, dtype):
    x = numbers((3, 5, 18), dtype)
    out = np.zeros_like(x)
    run(flipped, out, x, 3, 5, 18, dim, options={"debug": True})
    np.testing.assert_array_equal(out, np.flip(x, -1 if dim is None else dim))


@jit
def flip_masked(out, x, n, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out + at, tl.flip(tl.load(x + at, mask=at < n, other=-1)), mask=at < N - 3)


def test_flip_of_masked_loads():
    x = np.arange(70, dtype=np.int32)
    out = np.full(100, 9, np.int32)
    run(flip_masked, out, x, 70, 100)
    whole = np.concatenate([x, np.full(30, -1, np.int32)])[::-1]
    np.testing.assert_array_equal(out, np.concatenate([whole[:97], np.full(3, 9)]))


@jit
def gathered(
    out, x, index, M: tl.constexpr, N: tl.constexpr, P: tl.constexpr, Q: tl.constexpr,
    AXIS: tl.constexpr,
):  # fmt: skip
    src = tl.load(x + tl.arange(0, M)[:, None] * N + tl.arange(0, N))
    at = tl.arange(0, P)[:, None] * Q + tl.arange(0, Q)
    tl.store(out + at, tl.gather(src * 2, tl.load(index + at), AXIS))


@pytest.mark.parametrize("axis, shape", [(0, (9, 6)), (1, (4, 33)), (-1, (4, 1)), (0, (1, 6))])
@pytest.mark.parametrize("index_type", ["int32", "int64", "uint8", "int8"])
def test_gather(axis, shape, index_type):
    x = numbers((4, 6), "float32")
    index = RNG.integers(0, x.shape[axis], shape).astype(index_type)
    out = np.zeros(shape, np.float32)
    run(gathered, out, x, index, 4, 6, *shape, axis)
    np.testing.assert_array_equal(out, np.take_along_axis(2 * x, index.astype(np.int64), axis))


def test_indices_outside_take_the_nearer_end():
    x = np.arange(6, dtype=np.float32).reshape(1, 6)
    index = np.array([[-1, 6, 5, 0, 127, -128]], np.int8)
    out = np.zeros((1, 6), np.float32)
    run(gathered, out, x, index, 1, 6, 1, 6, 1)
    np.testing.assert_array_equal(out, [[0, 10, 10, 0, 10, 0]])


@jit
def lookup(out, table, n, N: tl.constexpr, B: tl.constexpr):
    values = tl.load(table + tl.arange(0, N))
    total = tl.zeros((B,), tl.float32)
    for i in range(n):
        values = values + 1
        total += tl.gather(values, (tl.arange(0, B) * 7 + i) % N, 0)
    tl.store(out + tl.arange(0, B), total)


def test_gather_in_a_loop():
    table = numbers(5, "float32")
    out = np.zeros(40, np.float32)
    run(lookup, out, table, 4, 5, 40)
    expected = sum((table + i + 1)[(np.arange(40) * 7 + i) % 5] for i in range(4))
    np.testing.assert_allclose(out, expected, rtol=1e-6)


# ---- histogram


@jit
def counts(out, x, n, N: tl.constexpr, BINS: tl.constexpr, MASKED: tl.constexpr):
    at = tl.arange(0, N)
    value = tl.load(x + at)
    if MASKED:
        count = tl.histogram(value, BINS, at < n)
    else:
        count = value.histogram(BINS)
    tl.store(out + tl.arange(0, BINS), count + tl.zeros((BINS,), tl.int32))


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8", "int8", "uint64"])
@pytest.mark.parametrize("bins", [1, 6, 100])
@pytest.mark.parametrize("masked", [False, True])
def test_histogram(dtype, bins, masked):
    x = numbers(333, dtype)
    out = np.full(bins, -1, np.int32)
    run(counts, out, x, 200, 333, bins, masked)
    seen = [int(v) for v in (x[:200] if masked else x)]
    np.testing.assert_array_equal(out, [seen.count(b) for b in range(bins)])


@jit
def float_counts(x):
    tl.histogram(tl.load(x + tl.arange(0, 4)), 4)


# ---- functions of single elements


@jit
def three_way(x, y):
    if x < y:
        return -1
    elif x == y:
        return 0
    else:
        return 1


@jit
def collatz(n, limit):
    steps = 0
    while (n > 1) & (steps < limit):
        n = tl.where(n % 2 == 0, n // 2, 3 * n + 1)
        steps += 1
    return steps


@jit
def parts(a, b):
    return a // b, a % b


@jit
def packed_parts(a0, a1, b0, b1):
    return a0 // b0, a1 // b1, a0 % b0, a1 % b1


@jit
def mapped(out, x, y, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out + at, tl.map_elementwise(three_way, tl.load(x + at), tl.load(y + at)))


def test_branches_of_single_elements():
    x, y = (RNG.integers(-2, 3, 37).astype(np.int32) for _ in range(2))
    out = np.zeros(37, np.int32)
    run(mapped, out, x, y, 37)
    np.testing.assert_array_equal(out, np.sign(x - y))


@jit
def mapped_loop(out, x, A: tl.constexpr, B: tl.constexpr):
    at = tl.arange(0, A)[:, None] * B + tl.arange(0, B)
    tl.store(out + at, tl.map_elementwise(collatz, tl.load(x + at), 1000) * 10)


def test_loops_of_single_elements():
    x = np.arange(1, 22, dtype=np.int32).reshape(3, 7)
    out = np.zeros_like(x)
    run(mapped_loop, out, x, 3, 7)

    def steps(n):
        return 0 if n <= 1 else 1 + steps(n // 2 if n % 2 == 0 else 3 * n + 1)

    np.testing.assert_array_equal(out, 10 * np.vectorize(steps)(x))


@jit
def mapped_parts(q, r, a, b, N: tl.constexpr, PACK: tl.constexpr):
    at = tl.arange(0, N)
    x, y = tl.load(a + at), tl.load(b + at)
    if PACK == 1:
        quotient, rest = tl.map_elementwise(parts, x, y)
    else:
        quotient, rest = tl.map_elementwise(packed_parts, x, y, pack=PACK)
    tl.store(q + at, quotient)
    tl.store(r + at, rest)


@pytest.mark.parametrize("pack", [1, 2])
def test_several_results_and_packs(pack):
    a, b = (RNG.integers(1, 1000, 30).astype(np.uint32) for _ in range(2))
    q, r = np.zeros_like(a), np.zeros_like(a)
    run(mapped_parts, q, r, a, b, 30, pack)
    np.testing.assert_array_equal(q, a // b)
    np.testing.assert_array_equal(r, a % b)


# ---- mistakes


@jit
def bad_gather(x):
    tl.gather(tl.zeros((4, 4), tl.float32), tl.zeros((4, 3), tl.int32), 0)


@jit
def bad_k(x):
    tl.topk(tl.zeros((4,), tl.float32), 5)


@jit
def bad_pack(x):
    tl.map_elementwise(parts, tl.zeros((5,), tl.int32), 1, pack=2)


@jit
def loads(x):
    return tl.load(x)


@jit
def bad_function(x):
    tl.map_elementwise(loads, x + tl.arange(0, 4))


@pytest.mark.parametrize(
    "fn, message",
    [
        (bad_function, "tiles of numbers"),
        (float_counts, "only supports integer input"),
        (bad_gather, "only the axis 0 may differ"),
        (bad_k, "from 1 to 4"),
        (bad_pack, "do not make packs of 2"),
    ],
)
def test_mistakes(fn, message):
    with pytest.raises(CompilationError, match=message):
        build(fn, (np.zeros(4, np.float32),))
