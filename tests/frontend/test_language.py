"""Functions of the language against numpy, through the interpreter."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from kernel_runner import build, call, jit, run

import tegula.language as tl
from tegula.errors import CompilationError
from tegula.ir.patterns import combine_kind

RNG = np.random.default_rng(0)

pytestmark = pytest.mark.usefixtures("on_each_backend")


# ---- shapes


@jit
def shapes(out, x):
    a = tl.load(x + tl.arange(0, 6)[:, None] * 5 + tl.arange(0, 5)[None, :])
    tl.static_assert(a.shape == (6, 5) and a.numel == 30 and len(a.shape) == 2)
    tl.static_assert(a[:, None].shape == (6, 1, 5) and a[None].shape == (1, 6, 5))
    tl.static_assert(x[None, None, :].shape == (1, 1) and x.dtype == tl.pointer_type(tl.float32))
    tl.static_assert(a[None, ...].shape == (1, 6, 5) and a[:, None, :].shape == (6, 1, 5))
    tl.static_assert(tl.expand_dims(a, (0, -1)).shape == (1, 6, 5, 1))
    tl.static_assert(a.T.shape == (5, 6) and tl.trans(a, (1, 0)).shape == (5, 6))
    tl.static_assert(
        tl.unsqueeze(a, -1).shape == (6, 5, 1) and tl.unsqueeze(a, 0).squeeze(0).shape == (6, 5)
    )
    b = a.reshape(3, 10).ravel().view((2, 15)).permute(1, 0)
    tl.store(out + tl.arange(0, 15)[:, None] * 2 + tl.arange(0, 2)[None, :], b)


def test_shapes():
    x = np.arange(30, dtype=np.float32)
    np.testing.assert_array_equal(call(shapes, x, shape=30), x.reshape(2, 15).T.ravel())


@jit
def joins(out, x):
    i = tl.arange(0, 6)
    a, b = tl.load(x + i), tl.load(x + 6 + i)
    j = tl.join(a, b)
    tl.static_assert(j.shape == (6, 2))
    c, d = tl.split(j)
    tl.store(out + tl.arange(0, 12), tl.interleave(a, b))
    tl.store(out + 12 + tl.arange(0, 12), tl.cat(c, d, can_reorder=True))
    tl.store(out + 24 + tl.arange(0, 2), tl.join(1.0, 2.0))
    lo, hi = tl.join(3.0, 4.0).split()
    tl.store(out + 26, lo + hi)
    tl.store(out + 27, tl.full((1,), 9.0, tl.float32).item())


def test_join_split_cat():
    x = np.arange(12, dtype=np.float32)
    expected = np.concatenate([x.reshape(2, 6).T.ravel(), x, [1, 2, 7, 9]])
    np.testing.assert_array_equal(call(joins, x, shape=28), expected)


@jit
def cat_axis(out, x):
    i = tl.arange(0, 2)[:, None] * 3 + tl.arange(0, 3)[None, :]
    a = tl.load(x + i)
    tl.store(
        out + tl.arange(0, 2)[:, None] * 6 + tl.arange(0, 6)[None, :], tl.cat(a, a + 10, dim=1)
    )


def test_cat_along_an_axis():
    x = np.arange(6, dtype=np.int32)
    grid = x.reshape(2, 3)
    np.testing.assert_array_equal(
        call(cat_axis, x, shape=12, dtype=np.int32), np.concatenate([grid, grid + 10], 1).ravel()
    )


@jit
def fills(out, n):
    i = tl.arange(0, 4)
    tl.store(out + i, tl.full((4,), 3, tl.float32))
    tl.store(out + 4 + i, tl.full([4], n, tl.float32))
    tl.store(out + 8 + i, tl.zeros_like(i) + tl.zeros([4], dtype=tl.float32))
    tl.store(out + 12 + i, tl.broadcast_to(n, (4,)))
    a, b = tl.broadcast(i[:, None], i[None, :])
    tl.static_assert(a.shape == (4, 4) and b.shape == (4, 4))
    tl.static_assert(tl.arange(3, 10).shape == (7,))


def test_creation():
    assert call(fills, 5, shape=16).tolist() == [3] * 4 + [5] * 4 + [0] * 4 + [5] * 4


@jit
def grid_ids(out):
    i = tl.program_id(0) + tl.num_programs(0) * (
        tl.program_id(1) + tl.num_programs(1) * tl.program_id(2)
    )
    tl.store(out + i, i)


def test_grid():
    out = np.zeros(24, np.int32)
    run(grid_ids, out, grid=(2, 3, 4))
    assert out.tolist() == list(range(24))


# ---- memory


@jit
def masked(out, x, n, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.load(x + i, mask=i < n, other=-1, cache_modifier=".cg"), mask=i < n + 1)
    tl.store(out + N, tl.load(x, mask=n > 100, other=7))
    tl.store(out + N + 1, tl.load(x, mask=True))
    tl.store(out + N + 2, 5, mask=False)


def test_masks():
    x = np.arange(10, 13, dtype=np.int32)
    assert call(masked, x, 3, 5, shape=8, dtype=np.int32).tolist() == [10, 11, 12, -1, 0, 7, 10, 0]


@jit
def booleans(out, x, N: tl.constexpr):
    i = tl.arange(0, N)
    b = tl.load(x + i)
    tl.static_assert(b.dtype == tl.int1)
    tl.store(out + i, ~b)


def test_boolean_memory():
    x = np.array([True, False, True])
    assert call(booleans, x, 3, shape=3, dtype=np.bool_).tolist() == [False, True, False]


@jit
def atomics(out, x, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    tl.atomic_add(out + i * 0, v)
    tl.atomic_max(out + 1 + i * 0, v)
    tl.atomic_min(out + 2 + i * 0, v, sem="relaxed", scope="cta")
    tl.atomic_or(out + 3 + i * 0, v)
    tl.atomic_and(out + 4 + i * 0, v)
    tl.atomic_xor(out + 5 + i * 0, v, mask=i < 2)
    old = tl.atomic_xchg(out + 6, 42)
    tl.store(out + 7, old)
    tl.store(out + 8, tl.atomic_cas(out + 6, 42, 43))


def test_atomics():
    x = np.array([5, -3, 12], np.int32)
    got = call(atomics, x, 3, shape=9, dtype=np.int32)
    assert got.tolist() == [14, 12, -3, -3, 0, 5 ^ -3, 43, 0, 42]


@jit
def descriptors(out, x, M, N, BM: tl.constexpr, BN: tl.constexpr):
    src = tl.make_tensor_descriptor(x, shape=[M, N], strides=[N, 1], block_shape=[BM, BN])
    dst = tl.make_tensor_descriptor(out, [M, N], [N, 1], [BM, BN])
    tl.static_assert(src.block_shape == (BM, BN) and src.dtype == tl.float32)
    for i in range(0, src.shape[0], BM):
        for j in range(0, N, BN):
            copy_block(dst, src, i, j)


@jit
def copy_block(dst, src, i, j):
    dst.store([i, j], src.load([i, j]) + 1.0)


def test_descriptors():
    x = RNG.standard_normal((5, 7)).astype(np.float32)
    np.testing.assert_array_equal(call(descriptors, x, 5, 7, 2, 4, shape=(5, 7)), x + 1)


# ---- elementwise


@jit
def elementwise(out, x, y, n: tl.constexpr):
    i = tl.arange(0, n)
    a, b = tl.load(x + i), tl.load(y + i)
    tl.store(out + 0 * n + i, tl.where(a > 0, a, b))
    tl.store(out + 1 * n + i, tl.minimum(a, b))
    tl.store(out + 2 * n + i, tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL))
    tl.store(out + 3 * n + i, tl.clamp(a, -0.5, 0.5))
    tl.store(out + 4 * n + i, tl.fma(a, b, 1.0))
    tl.store(out + 5 * n + i, tl.abs(a))
    tl.store(out + 6 * n + i, tl.math.exp(a))
    tl.store(out + 7 * n + i, tl.sigmoid(a))
    tl.store(out + 8 * n + i, tl.fdiv(a, b))
    tl.store(out + 9 * n + i, tl.sqrt(b * b).rsqrt())
    tl.store(out + 10 * n + i, a.cos() + tl.sin(a))
    tl.store(out + 11 * n + i, tl.floor(a) + tl.ceil(b))
    tl.store(out + 12 * n + i, tl.log(tl.exp2(a)) + tl.log2(tl.abs(b)))
    tl.store(out + 13 * n + i, tl.div_rn(a, b) + tl.sqrt_rn(tl.abs(a)))


def test_elementwise():
    a = RNG.standard_normal(9).astype(np.float32)
    b = RNG.standard_normal(9).astype(np.float32)
    got = call(elementwise, a, b, 9, shape=(14, 9))
    expected = [
        np.where(a > 0, a, b), np.minimum(a, b), np.maximum(a, b), np.clip(a, -0.5, 0.5), a * b +
        1, abs(a), np.exp(a), 1 / (1 + np.exp(-a)), a / b, 1 / np.sqrt(abs(b)), np.cos(a) +
        np.sin(a), np.floor(a) + np.ceil(b), np.log(np.exp2(a)) + np.log2(abs(b)), a / b +
        np.sqrt(abs(a)), ]  # fmt: skip
    np.testing.assert_allclose(got, np.stack(expected), rtol=1e-5, atol=1e-6)


@jit
def nan_rules(out, x, y):
    a, b = tl.load(x), tl.load(y)
    tl.store(out, tl.maximum(a, b))
    tl.store(out + 1, tl.maximum(a, b, tl.PropagateNan.ALL))
    tl.store(out + 2, tl.clamp(a, 1.0, 2.0))
    tl.store(out + 3, tl.clamp(a, 1.0, 2.0, propagate_nan=tl.PropagateNan.ALL))


def test_nan_rules():
    got = call(nan_rules, np.full(1, np.nan, np.float32), np.ones(1, np.float32), shape=4)
    assert got[0] == 1 and np.isnan(got[1]) and got[2] == 1 and np.isnan(got[3])


@jit
def high_products(out, x, y):
    tl.store(out, tl.umulhi(tl.load(x), tl.load(y)))


@pytest.mark.parametrize("dtype", [np.uint32, np.int32, np.uint64])
def test_umulhi_is_unsigned(dtype):
    x, y = np.full(1, -5, np.int64).astype(dtype), np.full(1, 7, dtype)
    bits = x.itemsize * 8
    high = (int(x[0]) % 2**bits * 7) >> bits
    assert int(call(high_products, x, y, dtype=dtype)[0]) == high


@jit
def swizzled(out, M: tl.constexpr, N: tl.constexpr, G: tl.constexpr):
    i, j = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :]
    a, b = tl.swizzle2d(i, j, M, N, G)
    tl.store(out + a * N + b, i * N + j)


def test_swizzle2d():
    got = call(swizzled, 5, 4, 2, shape=(5, 4), dtype=np.int32)
    assert got.tolist() == [
        [0, 2, 4, 6],
        [1, 3, 5, 7],
        [8, 10, 12, 14],
        [9, 11, 13, 15],
        [16, 17, 18, 19],
    ]


# ---- reductions and scans


@jit
def reductions(
    out,
    x,
    M: tl.constexpr,
    N: tl.constexpr,
    axis: tl.constexpr,
    kind: tl.constexpr,
    keep: tl.constexpr,
):
    a = tl.load(x + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :])
    if kind == "sum":
        r = tl.sum(a, axis, keep_dims=keep)
    elif kind == "max":
        r = tl.max(a, axis, keep_dims=keep)
    elif kind == "min":
        r = a.min(axis, keep_dims=keep)
    elif kind == "argmax":
        r = tl.argmax(a, axis, keep_dims=keep)
    else:
        r = tl.argmin(a, axis, keep_dims=keep)
    if len(r.shape) == 0:
        tl.store(out, r)
    else:
        r = r.ravel()
        tl.store(out + tl.arange(0, r.numel), r)


@pytest.mark.parametrize(
    "dtype", [np.int8, np.uint8, np.int32, np.uint64, np.float16, np.float32, np.float64]
)
@pytest.mark.parametrize("kind", ["sum", "max", "min", "argmax", "argmin"])
@pytest.mark.parametrize("axis, keep", [(0, False), (1, True), (-1, False), (None, True)])
def test_reductions(dtype, kind, axis, keep):
    x = (RNG.standard_normal((5, 12)) * 20).astype(np.int64).astype(dtype)
    f = getattr(np, kind)
    expected = np.asarray(f(x, axis=axis)).ravel()
    got = call(reductions, x, 5, 12, axis, kind, keep, shape=expected.size, dtype=np.float64)

    np.testing.assert_allclose(got, expected.astype(np.float64), rtol=1e-3)


@jit
def result_types(out, x):
    i = tl.arange(0, 4)
    a = tl.load(x + i)
    narrow = a.dtype.primitive_bitwidth < 32
    tl.static_assert(
        tl.max(a, 0).dtype
        == ((tl.float32 if a.dtype.is_floating() else tl.int32) if narrow else a.dtype)
    )
    value, index = tl.max(a, 0, return_indices=True)
    tl.static_assert(value.dtype == a.dtype and index.dtype == tl.int32)
    if a.dtype.is_floating():
        tl.static_assert(tl.sum(a, 0).dtype == a.dtype)
    elif narrow:
        tl.static_assert(tl.sum(a, 0).dtype == (tl.int32 if a.dtype.is_int_signed() else tl.uint32))
    tl.static_assert(tl.sum(a, 0, dtype=tl.int64).dtype == tl.int64)
    tl.static_assert(tl.cumsum(a, 0).dtype == tl.sum(a, 0).dtype)
    tl.static_assert(tl.sum(a.to(tl.int1), 0).dtype == tl.uint32)


@pytest.mark.parametrize(
    "dtype", [np.int8, np.uint16, np.int32, np.float16, ml_dtypes.bfloat16, np.float64]
)
def test_types_of_reductions(dtype):
    build(result_types, (np.zeros(1, np.float32), np.zeros(4, dtype)))


@jit
def argmax_nan(out, x, N: tl.constexpr, left: tl.constexpr):
    a = tl.load(x + tl.arange(0, N))
    tl.store(out, tl.argmax(a, 0, tie_break_left=left))
    tl.store(out + 1, tl.argmin(a, 0, tie_break_left=left))


@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("order", range(6))
def test_argmax_ignores_nan_in_any_order(order, left):
    x = np.roll(np.array([3, 5, np.nan, -np.inf, np.nan, 1], np.float32), order)
    expected = [np.nanargmax(x), np.nanargmin(x)]
    assert call(argmax_nan, x, 6, left, shape=2, dtype=np.int32).tolist() == expected


def test_argmax_takes_the_first_of_equals():
    x = np.array([1, 7, 7, 0, 0], np.float32)
    assert call(argmax_nan, x, 5, True, shape=2, dtype=np.int32).tolist() == [1, 3]


@jit
def scans(out, x, M: tl.constexpr, N: tl.constexpr, axis: tl.constexpr, reverse: tl.constexpr):
    i = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    a = tl.load(x + i)
    tl.store(out + i, tl.cumsum(a, axis, reverse))
    tl.store(out + M * N + i, a.cumprod(axis, reverse))


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("reverse", [False, True])
def test_scans(axis, reverse):
    x = RNG.integers(1, 4, (4, 5)).astype(np.int32)
    v = np.flip(x, axis) if reverse else x
    expected = [f(v, axis) for f in (np.cumsum, np.cumprod)]
    expected = [np.flip(e, axis) if reverse else e for e in expected]
    np.testing.assert_array_equal(
        call(scans, x, 4, 5, axis, reverse, shape=(2, 4, 5), dtype=np.int32), expected
    )


@jit
def welford_combine(mean1, m1, n1, mean2, m2, n2):
    delta = mean2 - mean1
    n = n1 + n2
    return mean1 + delta * n2 / n, m1 + m2 + delta * delta * n1 * n2 / n, n


@jit
def welford(out, x, N: tl.constexpr):
    a = tl.load(x + tl.arange(0, N))
    mean, m, _ = tl.reduce(
        (a, tl.zeros_like(a), tl.full((N,), 1.0, tl.float32)), 0, welford_combine
    )
    tl.store(out, mean)
    tl.store(out + 1, m / N)


def test_reduce_of_a_tuple():
    x = RNG.standard_normal(100).astype(np.float32)
    np.testing.assert_allclose(call(welford, x, 100, shape=2), [x.mean(), x.var()], rtol=1e-5)


@jit
def branching_combine(a, b):
    if a > b:
        return a
    return b


@jit
def running(out, x, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.associative_scan(tl.load(x + i), 0, branching_combine))


def test_combine_function_with_control_flow():
    x = RNG.standard_normal(20).astype(np.float32)
    np.testing.assert_array_equal(call(running, x, 20, shape=20), np.maximum.accumulate(x))


@jit
def simple_reductions(out, x):
    a = tl.load(x + tl.arange(0, 8))
    tl.store(
        out, tl.sum(a, 0) + tl.max(a, 0) + tl.min(a, 0) + tl.xor_sum(a, 0) + tl.reduce_or(a, 0)
    )


def test_library_reductions_are_one_simple_op():
    module = build(simple_reductions, (np.zeros(1, np.int32), np.zeros(8, np.int32)))
    ops = [op for f in module.functions.values() for op in f.body.walk() if op.name == "reduce"]
    assert {combine_kind(op.regions[0]) for op in ops} == {"add", "max", "min", "xor", "or"}


@jit
def softmaxes(out, x, M: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(out + i, tl.softmax(tl.load(x + i), 1))


def test_softmax():
    x = RNG.standard_normal((3, 7)).astype(np.float32)
    e = np.exp(x - x.max(1, keepdims=True))
    np.testing.assert_allclose(
        call(softmaxes, x, 3, 7, shape=(3, 7)), e / e.sum(1, keepdims=True), rtol=1e-5
    )


# ---- dot


@jit
def dots(out, x, y, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    a = tl.load(x + tl.arange(0, M)[:, None] * K + tl.arange(0, K)[None, :])
    b = tl.load(y + tl.arange(0, K)[:, None] * N + tl.arange(0, N)[None, :])
    c = tl.dot(a, b)
    c = tl.dot(a, b, c, input_precision="ieee")
    c += tl.dot(a, b, allow_tf32=False)
    tl.store(out + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :], c)


@pytest.mark.parametrize(
    "dtype, result",
    [
        (np.float32, np.float32),
        (np.float16, np.float32),
        (np.int8, np.int32),
        (np.float64, np.float64),
    ],
)
def test_dot(dtype, result):
    x = (RNG.standard_normal((3, 5)) * 4).astype(dtype)
    y = (RNG.standard_normal((5, 6)) * 4).astype(dtype)
    expected = 3 * (x.astype(np.float64) @ y.astype(np.float64))
    got = call(dots, x, y, 3, 6, 5, shape=(3, 6), dtype=result)
    np.testing.assert_allclose(got, expected, rtol=1e-3, atol=1e-3)


# ---- debug and hints


@jit
def hinted(out, x, n):
    tl.assume(n > 0)
    n = tl.multiple_of(n, 16)
    i = tl.max_contiguous(tl.multiple_of(tl.arange(0, 4), 4), 4)
    i = tl.max_constancy(i, [1])
    tl.debug_barrier()
    tl.store(out + i, tl.load(x + i) + n)


def test_hints_keep_values():
    assert call(hinted, np.arange(4, dtype=np.int32), 16, shape=4, dtype=np.int32).tolist() == [
        16,
        17,
        18,
        19,
    ]


@jit
def printing(x):
    tl.static_print("compiling", x.dtype)
    print("x:", tl.load(x))
    tl.device_print("twice", tl.load(x), tl.load(x + 1), hex=True)


def test_printing(capsys):
    module = build(printing, (np.array([3, 4], np.int32),))
    assert capsys.readouterr().out == "compiling pointer<int32>\n"
    prints = [op for op in module.functions["printing"].body.walk() if op.name == "print"]
    assert [(op.attrs["prefix"], op.attrs["hex"], len(op.operands)) for op in prints] == [
        ("x: ", False, 1),
        ("twice: ", True, 2),
    ]


@jit
def asserting(x):
    tl.device_assert(tl.load(x) > 0, "must be positive", mask=tl.load(x + 1) > 0)
    assert tl.load(x) > 0


@pytest.mark.parametrize("debug, count", [(False, 0), (True, 2)])
def test_device_assert_needs_debug(debug, count):
    module = build(asserting, (np.array([3, 4], np.int32),), {"debug": debug})
    assert sum(op.name == "assert" for op in module.functions["asserting"].body.walk()) == count


# ---- functions


@jit
def apply(f, x, scale: tl.constexpr = 2, *rest):
    total = f(x) * scale
    for r in rest:
        total += r
    return total


@jit
def double(x):
    return x + x


@jit
def higher_order(out, x):
    v = tl.load(x)
    tl.store(out, apply(double, v))
    tl.store(out + 1, apply(f=double, x=v, scale=3))
    tl.store(out + 2, apply(double, v, 1, *(10, 20)))
    tl.store(out + 3, functions[0](v))


functions = (double,)


def test_higher_order_functions_defaults_and_varargs():
    assert call(higher_order, np.full(1, 5, np.int32), shape=4, dtype=np.int32).tolist() == [
        20,
        30,
        40,
        10,
    ]


@jit
def repeated(out, x):
    tl.store(out, double(tl.load(x)) + double(tl.load(x + 1)) + double(3))


def test_functions_are_compiled_once_per_type():
    module = build(repeated, (np.zeros(1, np.int32), np.zeros(2, np.int32)))
    assert list(module.functions) == ["repeated", "double"]


@jit
def factorial(n: tl.constexpr):
    if n <= 1:
        return 1
    return n * factorial(n - 1)


@jit
def compile_time_recursion(out):
    tl.store(out, factorial(6))


def test_recursion_that_constants_end():
    assert call(compile_time_recursion, dtype=np.int32) == 720


@tl.constexpr_function
def next_power_of_two(n):
    return 1 << (n - 1).bit_length()


@jit
def host_function(out, N: tl.constexpr):
    tl.store(out, next_power_of_two(N))


def test_constexpr_function():
    assert call(host_function, 37, dtype=np.int32) == 64
    assert next_power_of_two(5) == 8


def make_scaled(scale):
    factor = tl.constexpr(scale)

    @jit
    def scaled(out, x):
        tl.store(out, tl.load(x) * factor)

    return scaled


def test_closures_capture_constants():
    x = np.full(1, 7, np.int32)
    assert call(make_scaled(3), x, dtype=np.int32) == 21
    assert call(make_scaled(5), x, dtype=np.int32) == 35


@jit
def const_pointer(out, x: tl.const):
    tl.store(x, 1)


def test_constant_pointers():
    from tegula import ir
    from tegula.frontend import compile_function

    message = r"constant pointer: `x` is read-only(?s:.*)tl\.const"
    with pytest.raises(CompilationError, match=message):
        compile_function(
            const_pointer, {"out": ir.Pointer(ir.f32), "x": ir.Pointer(ir.f32, const=True)}, {}
        )


def test_members_are_the_functions():
    from tegula.language.members import TENSOR_METHODS

    for name, function in TENSOR_METHODS.items():
        assert name == "to" or function is getattr(tl, name)
