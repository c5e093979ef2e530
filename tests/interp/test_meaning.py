"""The meaning of ops against definitions that do not use numpy's arithmetic.

Integers are compared with Python's unbounded ones, floats with exact fractions rounded once.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tegula import ir
from tegula.interp import run_kernel
from tegula.ir import Block, Builder, DType, Function, Module, Pointer, Value
from tegula.ir.types import numpy_dtype, with_shape

INTS = (ir.i8, ir.i16, ir.i32, ir.i64, ir.u8, ir.u16, ir.u32, ir.u64)
NARROW = (ir.f16, ir.bf16, ir.f8e5, ir.f8e4nv)
FLOATS = (ir.f32, ir.f64, *NARROW)


def applied(name: str, out: DType, inputs: list[tuple[DType, np.ndarray]], **attrs: Any) -> Any:
    """Run one op over arrays, through a whole kernel."""
    n = inputs[0][1].size
    params = [Value(Pointer(t), f"x{i}") for i, (t, _) in enumerate(inputs)]
    result = Value(Pointer(out), "out")
    block = Block([*params, result])
    b = Builder(block)
    offsets = b.arange(start=0, end=n)

    def at(p: Value) -> Value:
        return b.addptr(b.splat(p, shape=(n,)), offsets)

    value = b.create(name, *(b.load(at(p)) for p in params), **attrs)
    b.store(at(result), value)
    b.return_()
    dtype = np.dtype(np.uint8) if out is ir.i1 else numpy_dtype(out)
    memory = np.zeros(n, dtype)
    run_kernel(Module([Function("k", block)]), 1, [*(x for _, x in inputs), memory])
    return memory


def edges(t: DType) -> list[int]:
    """Integers where something may go wrong."""
    lo, hi = t.min_value, t.max_value
    near = {0, 1, 2, 3, 7, lo, lo + 1, hi, hi - 1, hi // 2, hi // 3, -1, -2, -7, 100}
    return sorted(v for v in near if lo <= v <= hi)


def wrap(v: int, t: DType) -> int:
    """Modulo the width."""
    v &= (1 << t.bits) - 1
    return v - (1 << t.bits) if t.is_signed and v > t.max_value else v


def quotient(a: int, b: int) -> int:
    """Toward zero; by zero it is zero."""
    return 0 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def shifted_right(a: int, b: int, t: DType) -> int:
    return a >> b if 0 <= b < t.bits else (-1 if a < 0 else 0)


INT_OPS: dict[str, Callable[[int, int, DType], int]] = {
    "add": lambda a, b, t: a + b,
    "sub": lambda a, b, t: a - b,
    "mul": lambda a, b, t: a * b,
    "div": lambda a, b, t: quotient(a, b),
    "rem": lambda a, b, t: a - quotient(a, b) * b if b else 0,
    "and": lambda a, b, t: a & b,
    "or": lambda a, b, t: a | b,
    "xor": lambda a, b, t: a ^ b,
    "min": lambda a, b, t: min(a, b),
    "max": lambda a, b, t: max(a, b),
    "mulhi": lambda a, b, t: (a * b) >> t.bits,
    "shl": lambda a, b, t: a << b if 0 <= b < t.bits else 0,
    "shr": shifted_right,
}


@pytest.mark.parametrize("t", INTS, ids=str)
@pytest.mark.parametrize("name", INT_OPS)
def test_integer_ops(name: str, t: DType) -> None:
    pairs = list(itertools.product(edges(t), edges(t)))
    a, b = (np.array([p[i] for p in pairs], numpy_dtype(t)) for i in range(2))

    actual = applied(name, t, [(t, a), (t, b)])

    expected = [wrap(INT_OPS[name](x, y, t), t) for x, y in pairs]
    assert actual.tolist() == expected


@pytest.mark.parametrize("t", INTS, ids=str)
def test_integer_unary_ops(t: DType) -> None:
    values = edges(t)
    x = np.array(values, numpy_dtype(t))

    assert applied("neg", t, [(t, x)]).tolist() == [wrap(-v, t) for v in values]
    assert applied("abs", t, [(t, x)]).tolist() == [wrap(abs(v), t) for v in values]
    assert applied("not", t, [(t, x)]).tolist() == [wrap(~v, t) for v in values]


@pytest.mark.parametrize(("source", "to"), list(itertools.product(INTS, INTS)), ids=str)
def test_casts_between_integers_wrap(source: DType, to: DType) -> None:
    values = edges(source)

    actual = applied("cast", to, [(source, np.array(values, numpy_dtype(source)))], to=to)

    assert actual.tolist() == [wrap(v, to) for v in values]


# -- floats


def rounded(x: Fraction, t: DType) -> float:
    """The float of type `t` nearest to x, ties to even; overflow as IEEE has it, of 8 bits to the
    largest finite number.
    """
    if x == 0:
        return 0.0
    exponent = abs(x.numerator).bit_length() - x.denominator.bit_length()
    while abs(x) >= Fraction(2) ** (exponent + 1):
        exponent += 1
    while abs(x) < Fraction(2) ** exponent:
        exponent -= 1
    exponent = max(exponent, 1 - t.exponent_bias)
    unit = Fraction(2) ** (exponent - t.mantissa)
    value = round(x / unit) * unit  # Python rounds ties to even
    largest = Fraction(float(np.finfo(numpy_dtype(t)).max if t.bits > 16 else _largest(t)))
    if abs(value) > largest:
        size = float(largest) if t.bits == 8 else math.inf
        return size if x > 0 else -size
    return float(value)


def _largest(t: DType) -> float:
    import ml_dtypes

    return float(ml_dtypes.finfo(numpy_dtype(t)).max)


def samples(t: DType) -> np.ndarray:
    """Finite floats of the type, some of them tiny."""
    rng = np.random.default_rng(1)
    tiny = 2.0 ** (1 - t.exponent_bias)
    plain = [0.0, 1.0, -1.0, 3.0, 0.1, -2.5, tiny, -tiny, tiny / 2, 1.5 * tiny]
    values = np.concatenate([plain, rng.normal(0, 4, 20)])
    return values.astype(numpy_dtype(t))


FLOAT_OPS: dict[str, Callable[[Fraction, Fraction], Fraction]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
}


@pytest.mark.parametrize("t", FLOATS, ids=str)
@pytest.mark.parametrize("name", FLOAT_OPS)
def test_float_ops_round_once(name: str, t: DType) -> None:
    x = samples(t)
    pairs = [(a, b) for a in x for b in x if name != "div" or b != 0]
    a, b = (np.array([p[i] for p in pairs], numpy_dtype(t)) for i in range(2))

    actual = applied(name, t, [(t, a), (t, b)]).astype(np.float64)

    exact = [FLOAT_OPS[name](Fraction(float(p)), Fraction(float(q))) for p, q in pairs]
    assert np.array_equal(actual, [rounded(v, t) for v in exact], equal_nan=True)


@pytest.mark.parametrize("t", [ir.f32, ir.f16, ir.bf16], ids=str)
def test_fma_rounds_once(t: DType) -> None:
    x = samples(t)
    rng = np.random.default_rng(2)
    a, b, c = (rng.choice(x, 300).astype(numpy_dtype(t)) for _ in range(3))

    actual = applied("fma", t, [(t, a), (t, b), (t, c)]).astype(np.float64)

    exact = [
        Fraction(float(p)) * Fraction(float(q)) + Fraction(float(r)) for p, q, r in zip(a, b, c)
    ]
    assert np.array_equal(actual, [rounded(v, t) for v in exact], equal_nan=True)


@pytest.mark.parametrize(("source", "to"), list(itertools.product(FLOATS, FLOATS)), ids=str)
def test_casts_between_floats_round_once(source: DType, to: DType) -> None:
    x = samples(source)

    actual = applied("cast", to, [(source, x)], to=to).astype(np.float64)

    expected = [rounded(Fraction(float(v)), to) for v in x]
    assert np.array_equal(actual, expected, equal_nan=True)


@pytest.mark.parametrize(("source", "to"), list(itertools.product(FLOATS, INTS)), ids=str)
def test_floats_to_integers_saturate(source: DType, to: DType) -> None:
    limits = [float(to.max_value), float(to.min_value), 1e30, -1e30, 0.9, -0.9, 2.0**31, -(2.0**63)]
    with np.errstate(all="ignore"):
        x = np.concatenate([samples(source), np.array(limits).astype(numpy_dtype(source))])

    actual = applied("cast", to, [(source, x)], to=to)

    def expected(v: float) -> int:
        if math.isnan(v):
            return 0
        whole = math.trunc(v) if math.isfinite(v) else (1 << 80) * (1 if v > 0 else -1)
        return min(max(whole, to.min_value), to.max_value)

    assert actual.tolist() == [expected(float(v)) for v in x]


@pytest.mark.parametrize(("source", "to"), list(itertools.product(INTS, FLOATS)), ids=str)
def test_integers_to_floats_round_once(source: DType, to: DType) -> None:
    values = edges(source)

    actual = applied("cast", to, [(source, np.array(values, numpy_dtype(source)))], to=to)

    expected = [rounded(Fraction(v), to) for v in values]
    assert np.array_equal(actual.astype(np.float64), expected, equal_nan=True)


@pytest.mark.parametrize("to", [ir.f16, ir.bf16, ir.f32], ids=str)
def test_rounding_toward_zero_never_grows(to: DType) -> None:
    x = np.random.default_rng(3).normal(0, 100, 200)

    actual = applied("cast", to, [(ir.f64, x)], to=to, rounding="rtz").astype(np.float64)

    unit = 2.0**-to.mantissa
    assert (np.abs(actual) <= np.abs(x)).all()
    assert (np.abs(x) - np.abs(actual) < np.abs(x) * unit).all()


COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}


@pytest.mark.parametrize("pred", COMPARISONS)
@pytest.mark.parametrize("t", [ir.f32, ir.bf16, ir.i8, ir.u64], ids=str)
def test_comparisons(pred: str, t: DType) -> None:
    values: list[Any] = [0.0, -0.0, 1.0, math.nan, math.inf] if t.is_float else edges(t)
    pairs = list(itertools.product(values, values))
    a, b = (np.array([p[i] for p in pairs], numpy_dtype(t)) for i in range(2))

    actual = applied("cmp", ir.i1, [(t, a), (t, b)], pred=pred)

    assert actual.tolist() == [int(COMPARISONS[pred](x, y)) for x, y in pairs]


@pytest.mark.parametrize("t", FLOATS, ids=str)
@pytest.mark.parametrize("kind", ["add", "max", "min"])
@pytest.mark.parametrize("n", [1, 2, 3, 7, 16])
def test_reductions_of_small_integers_are_exact(t: DType, kind: str, n: int) -> None:
    x = np.arange(n).astype(numpy_dtype(t)) - np.asarray(1).astype(numpy_dtype(t))
    fold = {"add": sum, "max": max, "min": min}[kind]
    params = [Value(Pointer(t), "x"), Value(Pointer(t), "out")]
    block, region = Block(params), Block([t, t])
    b = Builder(region)
    b.yield_([b.create(kind, *region.args)])
    b = Builder(block)
    tile = b.load(b.addptr(b.splat(params[0], shape=(n,)), b.arange(start=0, end=n)))
    b.store(params[1], b.reduce([tile], region, axis=0)[0])
    b.return_()
    out = np.zeros(1, x.dtype)

    run_kernel(Module([Function("k", block)]), 1, [x, out])

    wide = [float(v) for v in x]
    exact = rounded(Fraction(fold(wide)), t)
    assert tile.type is with_shape(t, (n,))
    assert float(out[0]) == exact or n > 7  # longer sums of narrow floats round on the way
