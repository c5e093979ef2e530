"""What operations mean, written as numpy formulas of their own.

The suite compares backends with these and with nothing of the compiler: no declaration of an op,
no evaluator. Narrow floats go through one exact rounding of the real result.
"""

from __future__ import annotations

from math import inf, nan
from typing import Any

import numpy as np

from tegula.conformance.values import from_bits, storage
from tegula.ir.types import DType, i1

# Floats whose only zero is positive: NaN has the bits of a negative zero.
_ONE_ZERO = {"f8e5b16", "f8e4b8"}


def largest(t: DType) -> float:
    """The largest finite value of a float dtype."""
    exponent_bits = t.bits - 1 - t.mantissa
    top = (1 << exponent_bits) - 1
    if t.name == "f8e4nv":  # only the all-ones pattern is NaN
        fraction, exponent = 2 - 2 * 2.0**-t.mantissa, top - t.exponent_bias
    elif t.name in _ONE_ZERO:  # NaN takes the pattern of negative zero
        fraction, exponent = 2 - 2.0**-t.mantissa, top - t.exponent_bias
    else:
        fraction, exponent = 2 - 2.0**-t.mantissa, top - 1 - t.exponent_bias
    return float(fraction * 2.0**exponent)


def wide(x: np.ndarray) -> np.ndarray:
    """Elements as f64 (exact for every float dtype up to f64)."""
    return np.asarray(x).astype(np.float64)


def round_to(x: Any, t: DType, toward_zero: bool = False) -> np.ndarray:
    """f64 (or long double) values rounded once to a float dtype."""
    x = np.asarray(x)
    if t.bits == 64:
        return x.astype(np.float64)
    with np.errstate(all="ignore"):
        exponent = np.frexp(np.abs(x))[1] - 1
        unit = np.maximum(exponent, 1 - t.exponent_bias) - t.mantissa
        scaled = np.ldexp(x, -unit)
        whole = np.trunc(scaled) if toward_zero else np.rint(scaled)
        rounded = np.ldexp(whole, unit)
    rounded = np.where(np.isfinite(x), rounded, x)
    top = largest(t)
    if t.bits == 8:  # conversions to 8 bits are limited to the finite range, infinities too
        return encode(np.clip(rounded, -top, top), t)
    limit = np.where(np.isfinite(x), top, inf) if toward_zero else np.full(x.shape, inf)
    out = np.where(np.abs(rounded) > top, np.copysign(limit, rounded), rounded)
    return encode(out, t)


def encode(x: np.ndarray, t: DType) -> np.ndarray:
    """Elements of a float dtype from f64 values that it can hold."""
    x = np.asarray(x, np.float64)
    with np.errstate(all="ignore"):
        exponent = np.frexp(np.abs(x))[1].astype(np.int64)
        normal = exponent - 1 >= 1 - t.exponent_bias
        biased = np.where(normal, exponent - 1 + t.exponent_bias, 0)
        unit = np.where(normal, exponent - 1, 1 - t.exponent_bias) - t.mantissa
        whole = np.ldexp(np.abs(x), -unit)
        whole = np.where(np.isfinite(whole), whole, 0).astype(np.int64)
    fraction = np.where(normal, whole - (1 << t.mantissa), whole)
    bits = np.where(x == 0, 0, (np.maximum(biased, 0) << t.mantissa) | fraction)
    sign = np.signbit(x).astype(np.int64) << (t.bits - 1)
    all_ones = (1 << (t.bits - 1 - t.mantissa)) - 1
    infinity, quiet = all_ones << t.mantissa, (all_ones << t.mantissa) | (1 << (t.mantissa - 1))
    if t.name == "f8e4nv":
        infinity = quiet = (1 << 7) - 1
    bits = np.where(np.isinf(x), infinity, bits)
    bits = np.where(np.isnan(x), quiet, bits) | sign
    if t.name in _ONE_ZERO:
        bits = np.where(x == 0, 0, np.where(np.isfinite(x), bits, 1 << (t.bits - 1)))
    return from_bits(bits.astype(np.uint64).astype(f"u{storage(t).itemsize}"), t)


# -------------------------------------------------------------------------------------------------
# Arithmetic


def float_binary(f: Any, t: DType, *xs: np.ndarray) -> np.ndarray:
    """A correctly rounded operation: f64 and f32 by numpy, narrower ones by one rounding."""
    with np.errstate(all="ignore"):
        if t.bits >= 32:
            return np.asarray(f(*xs)).astype(storage(t))
        return round_to(f(*(wide(x) for x in xs)), t)


def wrap(x: Any, t: DType) -> np.ndarray:
    """Python integers (an object array) reduced to an integer dtype."""
    mask = (1 << t.bits) - 1
    low = [int(v) & mask for v in np.asarray(x, object).ravel()]
    return from_bits(np.array(low, np.uint64).astype(f"u{storage(t).itemsize}"), t)


def integers(x: np.ndarray) -> np.ndarray:
    """Elements as Python integers, in an object array."""
    out = np.empty(x.size, object)
    out[:] = [int(v) for v in np.asarray(x).ravel()]
    return out


def _divide(a: int, b: int) -> int:
    if b == 0:
        return 0
    q = abs(a) // abs(b)
    return q if (a < 0) == (b < 0) else -q


def _shift_left(a: int, b: int, bits: int) -> int:
    return a << b if 0 <= b < bits else 0


def _shift_right(a: int, b: int, bits: int) -> int:
    return a >> b if 0 <= b < bits else (-1 if a < 0 else 0)


_WRAPPING = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}
"""What numpy computes modulo the width of a dtype, or without leaving it."""

_INT = {
    "div": lambda a, b, n: _divide(a, b),
    "rem": lambda a, b, n: 0 if b == 0 else a - _divide(a, b) * b,
    "shl": _shift_left,
    "shr": _shift_right,
    "mulhi": lambda a, b, n: (a * b) >> n,
    "neg": lambda a, b, n: -a,
    "abs": lambda a, b, n: abs(a),
    "not": lambda a, b, n: ~a,
}

_FLOAT = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "rem": np.fmod,
}


def binary(name: str, t: DType, a: np.ndarray, b: np.ndarray, nan_rule: str = "ignore") -> Any:
    """Two-operand arithmetic of any dtype."""
    if t.is_int and name in _WRAPPING:
        with np.errstate(all="ignore"):
            result = _WRAPPING[name](a, b)
        return (result & 1 if t is i1 else result).astype(storage(t))
    if t.is_int:
        f = _INT[name]
        return wrap([f(x, y, t.bits) for x, y in zip(integers(a), integers(b))], t)
    if name in ("min", "max"):
        return extremum(name, t, a, b, nan_rule)
    return float_binary(_FLOAT[name], t, a, b)


def extremum(name: str, t: DType, a: np.ndarray, b: np.ndarray, nan_rule: str) -> np.ndarray:
    """min and max of floats under a NaN rule (of two equal values, the first)."""
    x, y = wide(a), wide(b)
    first = x <= y if name == "min" else x >= y
    out = np.where(first, a, b)
    if nan_rule == "propagate":
        out = np.where(np.isnan(x), a, np.where(np.isnan(y), b, out))
    else:
        out = np.where(np.isnan(x), b, np.where(np.isnan(y), a, out))
    return round_to(wide(out), t) if t.bits == 8 else out


def unary(name: str, t: DType, x: np.ndarray) -> np.ndarray:
    """neg, abs and not."""
    if t.is_int:
        return wrap([_INT[name](v, 0, t.bits) for v in integers(x)], t)
    w = wide(x)
    return round_to(-w if name == "neg" else np.abs(w), t)


def fma(t: DType, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """a * b + c with one rounding, by exact rational arithmetic."""
    from fractions import Fraction

    out = np.empty(a.size, np.float64)
    for i, (x, y, z) in enumerate(zip(wide(a), wide(b), wide(c))):
        with np.errstate(all="ignore"):
            plain = x * y + z
        if not (np.isfinite(x) and np.isfinite(y) and np.isfinite(z)):
            out[i] = plain if not (np.isinf(z) and np.isfinite(x) and np.isfinite(y)) else z
            continue
        exact = Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
        if exact == 0:
            negative = np.signbit(x) != np.signbit(y)
            both = negative and np.signbit(z) if x * y == 0 and z == 0 else False
            out[i] = -0.0 if both else 0.0
        else:
            out[i] = round_fraction(exact, t)
    return round_to(out, t)


def round_fraction(value: Any, t: DType) -> float:
    """A rational number rounded to nearest even in a float dtype, as an f64."""
    negative, value = value < 0, abs(value)
    exponent = value.numerator.bit_length() - value.denominator.bit_length()
    if value < 2**exponent if exponent >= 0 else value * 2**-exponent < 1:
        exponent -= 1
    unit = max(exponent, 1 - t.exponent_bias) - t.mantissa
    scaled = value / 2**unit if unit >= 0 else value * 2**-unit
    whole = round(scaled)  # ties to even
    try:
        out = float(whole * 2**unit) if unit >= 0 else float(whole) * 2.0**unit
        if unit < -1000:
            out = float(np.ldexp(np.float64(whole), unit))
    except OverflowError:
        out = inf
    if out > largest(t) and t.bits > 8:
        out = inf
    return -out if negative else out


# -------------------------------------------------------------------------------------------------
# Conversions


def cast(x: np.ndarray, source: DType, to: DType, rounding: str = "rtne") -> np.ndarray:
    """Convert between dtypes."""
    if source is to:
        return x
    if source.is_int and to is i1:
        return (x != 0).astype(np.uint8)
    if source.is_int and to.is_int:
        return wrap(integers(x), to)
    if source.is_int:
        from fractions import Fraction

        return round_to(
            [round_fraction(Fraction(v), to) if v else 0.0 for v in integers(x).tolist()], to
        )
    w = wide(x)
    if to is i1:
        return (w != 0).astype(np.uint8)
    if to.is_int:
        return _saturate(w, to)
    return round_to(w, to, toward_zero=rounding == "rtz" and to.bits < source.bits)


def _saturate(w: np.ndarray, to: DType) -> np.ndarray:
    values = []
    for v in w.tolist():
        if v != v:
            values.append(0)
        elif v in (inf, -inf):
            values.append(to.max_value if v > 0 else to.min_value)
        else:
            values.append(min(max(int(v), to.min_value), to.max_value))
    return wrap(values, to)


def compare(pred: str, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """0 or 1 per element."""
    f = {
        "eq": np.equal,
        "ne": np.not_equal,
        "lt": np.less,
        "le": np.less_equal,
        "gt": np.greater,
        "ge": np.greater_equal,
    }[pred]
    if a.dtype.kind in "iub":
        return f(a, b).astype(np.uint8)
    return f(wide(a), wide(b)).astype(np.uint8)


# -------------------------------------------------------------------------------------------------
# Elementary functions, at a precision above the result's


def elementary(name: str, t: DType, x: np.ndarray) -> np.ndarray:
    """exp, log, ... in f64 (long double for f64), rounded once."""
    import math

    precise = x.astype(np.longdouble if t.bits == 64 else np.float64)
    with np.errstate(all="ignore"):
        if name == "sqrt":
            return np.sqrt(x.astype(np.float64 if t.bits == 64 else np.float32))
        if name == "rsqrt":
            y = 1 / np.sqrt(precise)
        elif name == "erf":
            y = np.array([math.erf(float(v)) if v == v else nan for v in precise])
        elif name in ("floor", "ceil", "trunc", "rint"):
            y = getattr(np, name)(wide(x))
            return round_to(y, t)
        else:
            y = getattr(np, name)(precise)
        return np.asarray(y).astype(storage(t))
