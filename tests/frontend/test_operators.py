# ruff: noqa: C416, RUF005, RUF059 (kernels under test)
"""Promotion, casts and operators against the rules, and against numpy."""

from __future__ import annotations

import itertools
import operator

import ml_dtypes
import numpy as np
import pytest
from kernel_runner import build, call, jit, run

import tegula.language as tl
from tegula import ir
from tegula.errors import CompilationError
from tegula.frontend.diagnostics import LanguageError
from tegula.frontend.promotion import promote, promote_number, type_of_number
from tegula.language.dtypes import SCALARS, parse_type

T = ir.DTYPES

pytestmark = pytest.mark.usefixtures("on_each_backend")


@pytest.mark.parametrize(
    "a, b, result",
    [
        ("i32", "i32", "i32"), ("i8", "i16", "i16"), ("u8", "u32", "u32"), ("i32", "u32", "u32"),
        ("i32", "u8", "i32"), ("i64", "u32", "i64"), ("i8", "u8", "u8"), ("i1", "i8", "i8"),
        ("i1", "i1", "i1"),
        ("f32", "i64", "f32"), ("f16", "i64", "f16"), ("bf16", "i8", "f32"), ("bf16", "bf16",
        "bf16"),
        ("bf16", "f16", "f16"), ("f16", "f32", "f32"), ("bf16", "f32", "f32"), ("f64", "f32",
        "f64"),
        ("f64", "i8", "f64"), ("f8e5", "f8e5", "f8e5"), ("f8e5", "f8e4nv", "f16"), ("f8e5",
        "bf16", "f32"),
        ("f8e5", "f16", "f16"), ("f8e5", "f32", "f32"),
    ],
)  # fmt: skip
def test_promotion_of_tensors(a, b, result):
    assert promote(T[a], T[b]) is T[result]
    assert promote(T[b], T[a]) is T[result]


@pytest.mark.parametrize(
    "a, b, result", [("f16", "f16", "f32"), ("bf16", "bf16", "f32"), ("f16", "i32", "f32")]
)
def test_division_of_narrow_floats_is_in_f32(a, b, result):
    assert promote(T[a], T[b], division=True) is T[result]


def test_fp8_with_an_integer_is_refused():
    with pytest.raises(LanguageError, match="do not combine"):
        promote(T["f8e5"], T["i32"])


@pytest.mark.parametrize("a, b", [("i32", "u32"), ("u8", "i64")])
def test_division_of_mixed_signs_is_refused(a, b):
    with pytest.raises(LanguageError, match="signed"):
        promote(T[a], T[b], division=True)


@pytest.mark.parametrize(
    "value, t, result",
    [
        (1, "i8", "i8"), (1.5, "f16", "f16"), (1, "bf16", "bf16"), (True, "i8", "i8"), (1, "i1",
        "i32"),
        (1.5, "i8", "f32"), (1.5, "i1", "f32"), (1e300, "i32", "f64"), (1e300, "f16", "f16"),
        (True, "i1", "i1"),
    ],
)  # fmt: skip
def test_promotion_with_numbers(value, t, result):
    assert promote_number(value, T[t]) is T[result]


@pytest.mark.parametrize(
    "value, t",
    [
        (True, "i1"), (1, "i32"), (-(2**31), "i32"), (2**31, "u32"), (2**32, "i64"), (2**63, "u64"),
        (-(2**31) - 1, "i64"), (1.0, "f32"), (1e39, "f64"), (1e-40, "f64"), (float("inf"), "f32"),
        (0.0, "f32"),
    ],
)  # fmt: skip
def test_type_of_number(value, t):
    assert type_of_number(value) is T[t]


def test_number_beyond_64_bits_is_refused():
    with pytest.raises(LanguageError, match="64 bits"):
        type_of_number(2**64)


@jit
def division(out, x, y, op: tl.constexpr, n: tl.constexpr):
    i = tl.arange(0, n)
    a = tl.load(x + i)
    b = tl.load(y + i)
    if op == "/":
        c = a / b
    elif op == "//":
        c = a // b
    elif op == "%":
        c = a % b
    elif op == "<<":
        c = a << b
    else:
        c = a >> b
    tl.store(out + i, c)


def _values(dtype, seed):
    rng = np.random.default_rng(seed)
    if np.dtype(dtype).kind in "iu":
        info = np.iinfo(dtype)
        x = rng.integers(max(info.min, -50), min(info.max, 50), 37, dtype=np.int64).astype(dtype)
    else:
        x = (rng.standard_normal(37) * 8).astype(dtype)
    x[x == 0] = 3
    return x


INTS = (np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64)
FLOATS = (np.float16, ml_dtypes.bfloat16, np.float32, np.float64)


@jit
def integer_operators(out, x, y, n: tl.constexpr):
    i = tl.arange(0, n)
    a = tl.load(x + i)
    b = tl.load(y + i)
    results = (a + b, a - b, a * b, a & b, a | b, a ^ b, a < b, a >= b, a == b, a != b)
    for row, result in enumerate(results):
        tl.store(out + row * n + i, result)


@pytest.mark.parametrize("a, b", list(itertools.combinations_with_replacement(INTS, 2)))
def test_integer_operators(a, b):
    x, y = _values(a, 1), _values(b, 2)
    common = ir.numpy_dtype(promote(_ir(a), _ir(b)))
    u, v = x.astype(common), y.astype(common)
    expected = [u + v, u - v, u * v, u & v, u | v, u ^ v, u < v, u >= v, u == v, u != v]
    got = call(integer_operators, x, y, 37, shape=(10, 37), dtype=common)

    np.testing.assert_array_equal(got, np.stack([e.astype(common) for e in expected]))


@jit
def float_operators(out, x, y, n: tl.constexpr):
    i = tl.arange(0, n)
    a = tl.load(x + i)
    b = tl.load(y + i)
    for row, result in enumerate((a + b, a * b, a / b, a % b, a < b)):
        tl.store(out + row * n + i, result)


@pytest.mark.parametrize("a, b", [(a, b) for a in (*FLOATS, np.int32, np.int64) for b in FLOATS])
def test_float_operators(a, b):
    x, y = _values(a, 3), _values(b, 4)
    expected = []
    for f in (np.add, np.multiply, np.divide, np.fmod, np.less):
        t = promote(_ir(a), _ir(b), f in (np.divide, np.fmod))
        common, wide = ir.numpy_dtype(t), np.float64 if t is ir.f64 else np.float32
        result = f(x.astype(common).astype(wide), y.astype(common).astype(wide))
        expected.append(result.astype(common).astype(np.float64))
    got = call(float_operators, x, y, 37, shape=(5, 37), dtype=np.float64)

    np.testing.assert_array_equal(got, np.stack(expected))


@pytest.mark.parametrize("dtype", INTS)
@pytest.mark.parametrize("op", ["//", "%", "/"])
def test_integer_division_is_that_of_c(op, dtype):
    x, y = _values(dtype, 5), _values(dtype, 6)
    wide_x, wide_y = x.astype(np.float64), y.astype(np.float64)
    quotient = np.trunc(wide_x / wide_y)
    expected = {
        "//": quotient.astype(dtype),
        "%": (wide_x - quotient * wide_y).astype(dtype),
        "/": x.astype(np.float32) / y.astype(np.float32),
    }[op]
    got = call(division, x, y, op, 37, shape=37, dtype=expected.dtype)

    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("dtype", INTS)
@pytest.mark.parametrize("op", ["<<", ">>"])
def test_shifts(op, dtype):
    x = _values(dtype, 7)
    y = (np.arange(37) % (x.itemsize * 8)).astype(dtype)
    expected = {"<<": np.left_shift, ">>": np.right_shift}[op](x, y)

    np.testing.assert_array_equal(call(division, x, y, op, 37, shape=37, dtype=dtype), expected)


def _ir(dtype):
    return next(t for t in T.values() if t is not ir.f8e4b15 and ir.numpy_dtype(t) == dtype)


@jit
def literals(out, x):
    a = tl.load(x)
    tl.store(out, a + 1)
    tl.static_assert((a + 1).dtype == x.dtype.element_ty)
    tl.static_assert((a + 1.0).dtype == (tl.float32 if a.dtype.is_int() else a.dtype))
    tl.static_assert((1 + a).dtype == a.dtype)
    tl.static_assert((a / 3).dtype == (tl.float64 if a.dtype == tl.float64 else tl.float32))
    tl.static_assert((a < 3).dtype == tl.int1)


@pytest.mark.parametrize("dtype", [*INTS, *FLOATS])
def test_numbers_do_not_promote(dtype):
    assert call(literals, np.ones(1, dtype), dtype=dtype) == 2


@jit
def runtime_scalar_promotes(out, x, s):
    a = tl.load(x) + s
    tl.static_assert(a.dtype == tl.int32)
    tl.store(out, a)


def test_runtime_scalars_promote_as_tensors():
    assert call(runtime_scalar_promotes, np.full(1, 100, np.int8), 100, dtype=np.int32) == 200


@jit
def constants(out):
    tl.static_assert(-7 // 2 == -4)
    tl.static_assert(7 / 2 == 3.5)
    tl.static_assert(2**10 == 1024)
    tl.static_assert(3 in (1, 2, 3))
    tl.static_assert(4 not in (1, 2, 3))
    tl.static_assert(1 < 2 < 3)
    tl.static_assert(not (1 < 2 > 3))
    tl.static_assert("a" + "b" == "ab")
    tl.static_assert((1, 2) + (3,) == (1, 2, 3))
    tl.static_assert([0] * 3 == [0, 0, 0])
    tl.static_assert(f"{3:02d}" == "03")
    tl.static_assert(max(1, 2.5) == 2.5 and min(4, 3) == 3)
    tl.static_assert(isinstance(3, int) and not isinstance(3.0, int))
    tl.static_assert(isinstance(3, tl.constexpr))
    tl.static_assert(len((1, 2)) == 2 and abs(-2) == 2 and int(2.7) == 2 and float(2) == 2.0)
    tl.static_assert(tuple(x * 2 for x in (1, 2, 3) if x != 2) == (2, 6))
    tl.static_assert([a * b for a, b in zip((1, 2), (3, 4))] == [3, 8])
    tl.static_assert(sum([x for x in range(4)]) == 6)
    tl.static_assert(tl.cdiv(7, 2) == 4)
    tl.store(out, 1)


def test_constants_are_python():
    module = build(constants, (np.zeros(1, np.int32),))
    assert [op.name for op in module.functions["constants"].body.walk()] == [
        "constant",
        "store",
        "return",
    ]
    assert list(module.functions) == ["constants"]


@jit
def c_division(out, a, b):
    tl.store(out, a // b)
    tl.store(out + 1, a % b)


def test_runtime_division_truncates_where_constants_floor():
    assert call(c_division, -7, 2, shape=2, dtype=np.int32).tolist() == [-3, -1]


@jit
def logic(out, a, b):
    tl.store(out, a > 1 and b > 1)
    tl.store(out + 1, a > 1 or b > 1)
    tl.store(out + 2, not a)
    tl.store(out + 3, 1 < a < 3)
    tl.store(out + 4, a in (2, b))
    tl.store(out + 5, (a is not None) and True)
    tl.store(out + 6, ~(a > 1))
    tl.store(out + 7, a > 1 and 0)


def test_logic():
    assert call(logic, 2, 0, shape=8, dtype=np.int32).tolist() == [0, 1, 0, 1, 1, 1, 0, 0]
    assert call(logic, 0, 5, shape=8, dtype=np.int32).tolist() == [0, 1, 1, 0, 0, 1, 1, 0]


@jit
def unary(out, x, n: tl.constexpr):
    i = tl.arange(0, n)
    a = tl.load(x + i)
    tl.store(out + i, -a)
    tl.store(out + n + i, +a)


def test_unary_minus_keeps_the_sign_of_zero_and_wraps():
    x = np.array([0.0, -0.0, 1.5], np.float32)
    got = call(unary, x, 3, shape=6)
    assert np.signbit(got).tolist() == [True, False, True, False, True, False]
    u = np.array([1, 0, 255], np.uint8)
    assert call(unary, u, 3, shape=6, dtype=np.uint8).tolist() == [255, 0, 1, 1, 0, 255]


@jit
def powers(out, x):
    a = tl.load(x)
    tl.store(out, a**3)
    tl.store(out + 1, a**8)


def test_small_integer_powers():
    assert call(powers, np.full(1, 3.0, np.float32), shape=2).tolist() == [27, 6561]


@jit
def pointers(out, x, n):
    p = x + 3
    tl.store(out, tl.load(p - 1))
    tl.store(out + 1, tl.load(1 + x))
    tl.store(out + 2, p > x)
    tl.store(out + 3, x == 0)
    tl.store(out + 4, tl.load(x + n.to(tl.uint8)))
    tl.store(out + 5, tl.load((p.to(tl.int64) - 8).to(x.dtype)))
    tl.store(out + 6, tl.load(p - n.to(tl.uint32)))
    a, b = (x, p) if n > 0 else (p, x)
    tl.store(out + 7, tl.load(a))
    tl.store(out + 8, tl.load(tl.where(n > 0, x, p)))


def test_pointers():
    x = np.arange(10, 20, dtype=np.int32)
    expected = [12, 11, 1, 0, 12, 11, 11, 10, 10]
    assert call(pointers, x, 2, shape=9, dtype=np.int32).tolist() == expected


@jit
def casts(out, x, n: tl.constexpr):
    i = tl.arange(0, n)
    tl.store(out + i, tl.load(x + i).to(out.dtype.element_ty))


@pytest.mark.parametrize("a", [*INTS, *FLOATS, np.bool_])
@pytest.mark.parametrize("b", [*INTS, *FLOATS, np.bool_])
def test_casts(a, b):
    x = np.array([0, 1, 2.75, 100, 3], np.float32).astype(a)
    expected = x.astype(b) if b is not np.bool_ else x != 0
    np.testing.assert_array_equal(call(casts, x, 5, shape=5, dtype=b), expected)


@jit
def cast_numbers(out):
    tl.store(out, tl.cast(300, tl.uint8))
    tl.store(out + 1, tl.cast(-1, tl.uint8))
    tl.store(out + 2, tl.cast(2.75, tl.int32))
    tl.store(out + 3, -1)


def test_casts_of_numbers_wrap_and_truncate():
    assert call(cast_numbers, shape=4, dtype=np.int64).tolist() == [44, 255, 2, -1]


@jit
def bits(out, x):
    tl.store(out, tl.load(x).to(tl.int32, bitcast=True))
    tl.store(out + 1, x.to(tl.int64) != 0)


def test_bitcast():
    assert call(bits, np.full(1, 1.0, np.float32), shape=2, dtype=np.int32).tolist() == [
        0x3F800000,
        1,
    ]


@jit
def rounded(out, x, mode: tl.constexpr):
    tl.store(out, tl.load(x).to(tl.float16, fp_downcast_rounding=mode))


def test_rounding_toward_zero():
    x = np.full(1, 2049.9, np.float32)
    assert call(rounded, x, "rtne", dtype=np.float16) == 2050
    assert call(rounded, x, "rtz", dtype=np.float16) == 2048
    with pytest.raises(CompilationError, match="'rtne', 'rtz', not 'up'"):
        call(rounded, x, "up", dtype=np.float16)


@jit
def assigned_numbers(out, half, tiny):
    scale = 0.5
    tl.static_assert((tl.load(half) * scale).dtype == tl.float32)
    tl.static_assert((tl.load(half) * 0.5).dtype == tl.float16)
    one: tl.constexpr = 1
    tl.static_assert((tl.load(tiny) + one).dtype == tl.int8)
    n = 4
    tl.static_assert((tl.load(tiny) + n).dtype == tl.int32)
    tl.static_assert(n.dtype == tl.int32 and scale.dtype == tl.float32)
    a = -7
    b = a // 2
    tl.static_assert(b == -3 and a % 2 == -1 and -7 // 2 == -4)
    big = 2**31
    tl.static_assert(big.dtype == tl.uint32 and (big + big) == 0)
    zero = 0
    zero = zero.to(tl.int64)
    tl.static_assert(zero.dtype == tl.int64)
    rows, _ = tl.zeros((n, 3), tl.float32).shape
    tl.static_assert(tl.arange(0, rows * 2).shape == (8,))
    flag = n > 3
    if flag and rows == 4:
        tl.store(out + tl.arange(0, n), n)
    else:
        tl.store(out, undefined)  # noqa: F821
    for i in tl.static_range(n):
        i += 1
        tl.store(out + i, i)
    tl.store(out + (1, 2)[n - 3], f"{n}" == "4")


def test_assigned_numbers_have_their_own_type():
    half, tiny = np.zeros(1, np.float16), np.zeros(1, np.int8)
    got = call(assigned_numbers, half, tiny, shape=5, dtype=np.int32)
    assert got.tolist() == [4, 1, 1, 3, 4]


@jit
def branch_constants(out, n):
    if n > 0:
        x = tl.cast(1, tl.int64)
        pair = (1, 2)
    else:
        x = tl.cast(2, tl.int64)
        pair = (1, 3)
    tl.static_assert(x.dtype == tl.int64)
    tl.store(out, x)
    tl.store(out + 1, pair[0].to(tl.int64) + pair[1])


def test_constants_keep_their_type_through_branches():
    assert call(branch_constants, 1, shape=2, dtype=np.int64).tolist() == [1, 3]
    assert call(branch_constants, -1, shape=2, dtype=np.int64).tolist() == [2, 4]


@jit
def shifts_of_mixed_signs(out, x, y):
    tl.store(out, tl.load(x) >> tl.load(y))


def test_a_shift_right_follows_the_sign_of_its_left_side():
    x, y = np.full(1, -16, np.int32), np.full(1, 2, np.uint64)
    assert call(shifts_of_mixed_signs, x, y, dtype=np.int64) == -4
    assert call(shifts_of_mixed_signs, x.view(np.uint32), y, dtype=np.int64) == (2**32 - 16) >> 2


# ---- dtype objects


@pytest.mark.parametrize("t", SCALARS, ids=str)
def test_dtype_repr_evaluates_to_itself(t):
    import tegula

    assert eval(repr(t), {"tegula": tegula}) is t
    assert tl.dtype(str(t)) is t
    assert t.primitive_bitwidth == t.ir.bits and t.itemsize == max(1, t.ir.bits // 8)


def test_dtype_api():
    assert tl.int1.is_int_unsigned() and tl.int1.is_bool() and tl.int1.kind() == 0
    assert tl.int8.int_signedness == "signed" and tl.int8.get_int_min_value() == -128
    assert tl.float16.fp_mantissa_width == 10 and tl.bfloat16.is_standard_floating()
    p = tl.pointer_type(tl.float16, const=True)
    assert (
        p.is_ptr()
        and p.is_const()
        and p.element_ty is tl.float16
        and p is tl.pointer_type(tl.float16, const=True)
    )
    b = tl.block_type(tl.int32, [3, 4])
    assert b.is_block() and b.shape == (3, 4) and b.scalar is tl.int32 and b.numel == 12
    assert eval(repr(p), {"tegula": __import__("tegula")}) is p
    assert eval(repr(b), {"tegula": __import__("tegula")}) is b
    with pytest.raises(ValueError, match="names no dtype"):
        tl.dtype("fp33")


@pytest.mark.parametrize(
    "text, t",
    [
        ("*fp32", "ptr<f32>"),
        ("*const i8", "ptr<const i8>"),
        ("float*", "ptr<f32>"),
        ("i64", "i64"),
        ("*bf16", "ptr<bf16>"),
    ],
)
def test_parse_type(text, t):
    assert str(parse_type(text)) == t


def test_constexpr_on_the_host():
    n = tl.constexpr(4)
    assert (n * 2).value == 8 and (2**n).value == 16 and n == 4 and int(n) == 4 and bool(n < 5)
    assert tl.constexpr(n).value == 4 and operator.index(n) == 4 and (-n).value == -4
    assert {n: 1}[tl.constexpr(4)] == 1


def test_run_helper_checks_the_ir():
    out = np.zeros(1, np.int32)
    run(cast_once, out, 3)
    assert out == 3


@jit
def cast_once(out, n):
    tl.store(out, n)


@jit
def where_of_integers(out, x):
    tl.store(out, tl.where(tl.load(x), 1.0, 2.0))


def test_conditions_that_are_no_booleans_are_warned_about():
    x = np.array([3], np.uint32)
    with pytest.warns(UserWarning, match="condition is a runtime value of type uint32"):
        assert call(where_of_integers, x)[0] == 1
