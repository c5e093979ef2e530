"""Ways of writing kernels that existing programs use, end to end on the interpreter."""

from __future__ import annotations

import functools
import linecache

import numpy as np
import pytest
from kernel_runner import build, call, jit, run

import tegula.language as tl
from tegula import ir
from tegula.errors import CompilationError, CompileTimeAssertionFailure, KernelError
from tegula.frontend import Const, HostDescriptor, compile_function, flat_names
from tegula.interp import run_kernel

RNG = np.random.default_rng(1)

pytestmark = pytest.mark.usefixtures("on_each_backend")


@jit
def leaky_relu(x):
    return tl.where(x >= 0, x, 0.01 * x)


@jit
def matmul(
    a_ptr,
    b_ptr,
    c_ptr,
    M,
    N,
    K,
    stride_am,
    stride_bk,
    stride_cm,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    ACTIVATION: tl.constexpr,
):
    pid = tl.program_id(axis=0)
    num_n = tl.cdiv(N, BLOCK_N)
    pid_m, pid_n = pid // num_n, pid % num_n
    tl.assume(pid_m >= 0)
    offs_m = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + (offs_m[:, None] * stride_am + offs_k[None, :])
    b_ptrs = b_ptr + (offs_k[:, None] * stride_bk + offs_n[None, :])
    accumulator = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BLOCK_K)):
        inside = offs_k < K - k * BLOCK_K
        a = tl.load(a_ptrs, mask=inside[None, :] & (offs_m[:, None] < M), other=0.0)
        b = tl.load(b_ptrs, mask=inside[:, None] & (offs_n[None, :] < N), other=0.0)
        accumulator = tl.dot(a, b, accumulator)
        a_ptrs += BLOCK_K
        b_ptrs += BLOCK_K * stride_bk
    if ACTIVATION == "leaky_relu":
        accumulator = leaky_relu(accumulator)
    c = accumulator.to(tl.float16)
    c_mask = (offs_m[:, None] < M) & (offs_n[None, :] < N)
    tl.store(c_ptr + stride_cm * offs_m[:, None] + offs_n[None, :], c, mask=c_mask)


@pytest.mark.parametrize("activation", ["leaky_relu", ""])
def test_matmul_with_an_activation(activation):
    a = RNG.standard_normal((13, 21)).astype(np.float16)
    b = RNG.standard_normal((21, 10)).astype(np.float16)
    c = np.zeros((13, 10), np.float16)
    run(matmul, a, b, c, 13, 10, 21, 21, 10, 10, 8, 8, 16, activation, grid=4)
    expected = a.astype(np.float64) @ b.astype(np.float64)
    if activation:
        expected = np.where(expected >= 0, expected, 0.01 * expected)
    np.testing.assert_allclose(c, expected, atol=2e-2, rtol=1e-2)


@jit
def locked(lock, total, n):
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    tl.store(total, tl.load(total) + n)
    tl.atomic_xchg(lock, 0)


def test_a_lock():
    lock, total = np.zeros(1, np.int32), np.zeros(1, np.int32)
    run(locked, lock, total, 3, grid=5)
    assert total == 15 and lock == 0


@jit
def grouped(addresses, out, n: tl.constexpr):
    i = tl.arange(0, n)
    for g in range(2):
        p = tl.load(addresses + g).to(tl.pointer_type(tl.float32))
        tl.store(out + g * n + i, tl.load(p + i))


def test_pointers_loaded_from_memory():
    module = build(grouped, (np.zeros(2, np.int64), np.zeros(6, np.float32), 3))
    x, y = np.arange(3, dtype=np.float32), np.arange(3, 6, dtype=np.float32)
    out = np.zeros(6, np.float32)
    addresses = np.array([x.ctypes.data, y.ctypes.data], np.int64)
    run_kernel(module, 1, [addresses, out], allow_unknown=True)
    assert out.tolist() == [0, 1, 2, 3, 4, 5]


@jit
def inner_loop(acc, m, x, lo, hi, STEP: tl.constexpr):
    for i in range(lo, hi, STEP):
        v = tl.load(x + i + tl.arange(0, STEP))
        m = tl.maximum(m, v)
        acc += v
    return acc, m


@jit
def staged(out, x, n, STEP: tl.constexpr, BOTH: tl.constexpr):
    acc = tl.zeros([STEP], dtype=tl.float32)
    m = tl.full([STEP], -float("inf"), dtype=tl.float32)
    acc, m = inner_loop(acc, m, x, 0, n // 2, STEP)
    if BOTH:
        acc, m = inner_loop(acc, m, x, n // 2, n, STEP)
    tl.store(out, tl.sum(acc, 0))
    tl.store(out + 1, tl.max(m, 0))


@pytest.mark.parametrize("both", [False, True])
def test_a_loop_in_a_function_that_returns_several_values(both):
    x = RNG.standard_normal(32).astype(np.float32)
    seen = x if both else x[:16]
    np.testing.assert_allclose(
        call(staged, x, 32, 4, both, shape=2), [seen.sum(), seen.max()], rtol=1e-5
    )


@jit
def wide_bounds(out, n):
    count = 0
    for i in range(n, n + 3):
        tl.static_assert(i.dtype == tl.int64)
        count += (i == n + 2).to(tl.int32)
    for j in tl.static_range(6, 0, -3):
        count += j
    tl.store(out, count)


def test_loops_with_64_bit_bounds():
    assert call(wide_bounds, 2**40, dtype=np.int32) == 1 + 6 + 3


@jit
def keyword_only(out, *, a, b=4):
    tl.store(out, a - b)


def test_keyword_only_parameters():
    assert call(keyword_only, 10, dtype=np.int32) == 6
    assert call(keyword_only, 10, 1, dtype=np.int32) == 9


@jit
def of_tuple(out, pair, scale: tl.constexpr):
    (x, offset), extra = pair
    value = tl.load(x + offset)
    if extra is not None:
        value += extra
    tl.store(out, value * scale)


@pytest.mark.parametrize("extra", [None, 5])
def test_tuple_arguments_with_constant_members(extra):
    x, out = np.arange(4, dtype=np.int32), np.zeros(1, np.int32)
    structure = ((ir.Pointer(ir.i32), ir.i32), None)
    types = {"out": ir.Pointer(ir.i32), "pair": structure}
    module = compile_function(
        of_tuple, types, {"pair.1": extra, "scale": 2}, {"pair.0.0": {"divisible": 16}}
    )
    (kernel,) = module.kernels
    assert [a.name for a in kernel.body.args] == ["out", "pair.0.0", "pair.0.1"]
    assert [name for name, _ in flat_names("pair", structure)] == ["pair.0.0", "pair.0.1"]
    assert kernel.arg_attrs == [{}, {"divisible": 16}, {}]
    run_kernel(module, 1, [out, x, 3])
    assert out == 2 * (3 + (extra or 0))

    other = compile_function(
        of_tuple, {**types, "pair": (structure[0], Const(extra))}, {"scale": 2}
    )
    assert ir.print_module(other) == ir.print_module(
        compile_function(of_tuple, types, {"pair": (None, extra), "scale": 2})
    )


@jit
def of_descriptor(out, d):
    block = d.load([1, 2])
    tl.store(out + tl.arange(0, 2)[:, None] * 4 + tl.arange(0, 4)[None, :], block)
    tl.store(out + 8, d.shape[1] + d.strides[0].to(tl.int32))


def test_descriptors_made_on_the_host():
    x, out = np.arange(15, dtype=np.float32).reshape(3, 5), np.zeros(9, np.float32)
    types = {"out": ir.Pointer(ir.f32), "d": HostDescriptor(ir.f32, (2, 4))}
    module = compile_function(of_descriptor, types, {})
    ir.verify(module)
    run_kernel(module, 1, [out, x, 3, 5, 5])
    assert out.tolist() == [7, 8, 9, 0, 12, 13, 14, 0, 10]


@jit
def persistent(out, tiles, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    for tile in tl.range(tl.program_id(0), tiles, tl.num_programs(0), flatten=True):
        offs = tile * BLOCK + i
        tl.store(out + offs, offs * 2, mask=offs < n)


def test_persistent_programs():
    out = np.zeros(23, np.int32)
    run(persistent, out, 3, 23, 8, grid=2)
    assert out.tolist() == [2 * i for i in range(23)]


@jit
def dynamic_if_in_loop(out, x, n):
    best = -1
    where = tl.full((), 0, tl.int32)
    for i in range(n):
        v = tl.load(x + i)
        if v > best:
            best = v
            where = i
    tl.store(out, best)
    tl.store(out + 1, where)


def test_if_inside_of_a_loop():
    x = np.array([3, 9, 2, 9], np.int32)
    assert call(dynamic_if_in_loop, x, 4, shape=2, dtype=np.int32).tolist() == [9, 1]


@jit
def loop_in_if(out, n):
    total = 0
    if n > 2:
        for i in range(n):
            total += i
    else:
        while total < 10:
            total += 4
    tl.store(out, total)


def test_loops_inside_of_an_if():
    assert call(loop_in_if, 5, dtype=np.int32) == 10
    assert call(loop_in_if, 1, dtype=np.int32) == 12


@jit
def none_and_flags(out, bias, HAS_BIAS: tl.constexpr = False):
    value = 1.0
    if bias is not None and HAS_BIAS:
        value += tl.load(bias)
    has = hasattr(bias, "dtype") and isinstance(bias.dtype, tl.pointer_type)
    tl.store(out, value + has)


def test_optional_pointers():
    assert call(none_and_flags, None, True) == 1
    assert call(none_and_flags, np.full(1, 2, np.float32), True) == 4


@jit
def many_returns(x, LIMIT: tl.constexpr):
    if x < 0:
        return 0
    if x > LIMIT:
        if x > 2 * LIMIT:
            return 3
        x = x + 100
    if x == 5:
        return 55
    return x


@jit
def uses_many_returns(out, x, n: tl.constexpr):
    for i in range(n):
        tl.store(out + i, many_returns(tl.load(x + i), 10))


def test_partial_early_returns():
    x = np.array([-4, 3, 5, 12, 30], np.int32)
    assert call(uses_many_returns, x, 5, shape=5, dtype=np.int32).tolist() == [0, 3, 55, 112, 3]


@jit
def one_value(x):
    if x > 1:
        return x
    return 1.5


@jit
def other_types(out, x):
    tl.store(out, one_value(x))


def test_returns_of_different_types_are_refused():
    with pytest.raises(
        CompilationError, match="returns int32 on one path and fp32 .1.5. on another"
    ):
        build(other_types, (np.zeros(1, np.float32), 3))


@jit
def returns_value(out):
    return out


def test_kernels_return_nothing():
    with pytest.raises(CompilationError, match=r"a launch has no result(?s:.*)tl\.store"):
        build(returns_value, (np.zeros(1, np.float32),))


def test_a_missing_argument_is_named():
    with pytest.raises(CompilationError, match="parameter `n` of kernel `locked` has no value"):
        compile_function(locked, {"lock": ir.Pointer(ir.i32), "total": ir.Pointer(ir.i32)}, {})


@jit
def while_then_for(out, n):
    i = n
    while i > 0:
        i = i // 2
        for j in range(i):
            tl.store(out + j, i)
    tl.store(out + 7, i)


def test_loops_in_loops_with_a_shared_variable():
    assert call(while_then_for, 16, shape=8, dtype=np.int32).tolist() == [1, 2, 4, 4, 8, 8, 8, 0]


@jit
def zero_dim(out, n):
    tl.store(out + tl.arange(0, 0), 1)
    x = tl.zeros((3, 0), tl.float32)
    tl.static_assert((x + 1).shape == (3, 0))
    tl.store(out, n)


def test_tiles_without_elements():
    assert call(zero_dim, 4) == 4


@jit
def members_of_constants(out, n, m: tl.constexpr):
    tl.static_assert(m.dtype == tl.int32)
    tl.static_assert(m.shape == ())
    tl.static_assert(hasattr(m, "to") and not hasattr(m, "of"))
    total = m.to(tl.int64) + tl.cdiv(m, 2).to(tl.float32) + n.cast(tl.float32)
    for i in tl.static_range(2):
        total += i.to(tl.float32)
    tl.store(out, total)


def test_numbers_that_are_constants_have_the_members_of_tensors():
    assert call(members_of_constants, 2, 7) == 7 + 4 + 2 + 1


SIZES = (tl.constexpr(3), (tl.constexpr(4), tl.constexpr(5)))


@jit
def global_tuple(out):
    tl.store(out, SIZES[0] + SIZES[1][0] * SIZES[1][1])


def test_constants_in_global_tuples():
    assert call(global_tuple) == 23


def announced(fn):
    @functools.wraps(fn)
    def call_it(*args, **kwargs):
        raise AssertionError("kernels do not run on the host")

    return call_it


@jit
@announced
def decorated(out, n):
    tl.store(out, n)


def test_other_decorators_below_jit_are_passed_over():
    assert call(decorated, 4) == 4


def test_expressions_that_are_nested_too_deeply_are_named():
    text = f"def sums(out, n):\n    tl.store(out, {'+'.join(['n'] * 900)})\n"
    linecache.cache["<cell 3>"] = (len(text), None, text.splitlines(True), "<cell 3>")
    scope = {"tl": tl}
    exec(compile(text, "<cell 3>", "exec"), scope)
    with pytest.raises(CompilationError, match="nested too deeply") as error:
        call(jit(scope["sums"]), 1)
    assert error.value.hint == "split it into several statements"


@jit
def chosen(mode):
    if mode == 1:
        result = 10
    elif mode == 2:
        result = 20
    else:
        assert False, "no such mode"  # noqa: B011
        result = 0
    return result


@jit
def asserts_in_branches(out, mode, N: tl.constexpr):
    if mode > 7:
        assert N > 4, "too small"
        needs_more(N)
    for _ in range(mode, 1):
        assert N > 4
    tl.store(out, chosen(mode))


@jit
def needs_more(N: tl.constexpr):
    assert N > 4, "too small"


@pytest.mark.parametrize("debug", [False, True])
def test_constant_asserts_that_are_not_reached_fail_nothing(debug):
    out = np.zeros(1, np.float32)
    run(asserts_in_branches, out, 2, 4, options={"debug": debug})
    assert out == 20


def test_constant_asserts_that_are_reached_fail_with_debug():
    with pytest.raises(KernelError, match="no such mode"):
        run(asserts_in_branches, np.zeros(1, np.float32), 3, 4, options={"debug": True})


@jit
def asserts_in_a_function(out, N: tl.constexpr):
    needs_more(N)
    tl.store(out, N)


def test_constant_asserts_that_are_certainly_reached_fail_at_compile_time():
    with pytest.raises(CompileTimeAssertionFailure, match="too small"):
        call(asserts_in_a_function, 3)


@jit
def rounded_to_its_own_type(out, x, n):
    tl.store(out, tl.load(x).to(out.dtype.element_ty, fp_downcast_rounding="rtne"))
    tl.store(out + 1, (n * 1.5).to(out.dtype.element_ty, fp_downcast_rounding="rtz"))


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_casts_that_change_nothing_may_name_a_rounding(dtype):
    out = np.zeros(2, dtype)
    run(rounded_to_its_own_type, out, np.float32([1 / 3]), 5)
    assert out.tolist() == [float(dtype(1 / 3)), 7.5]
