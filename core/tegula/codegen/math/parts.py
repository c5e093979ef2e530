"""Kinds of floats, their parts, and exact functions of them."""

from __future__ import annotations

import math

from tegula.ir.types import i32, i64

from .number import Number, copysign, load_exponent, minimum, split_exponent, where
from .rounding import neighbour


def isnan(x: Number) -> Number:
    """True for NaN."""
    return x != x


def isinf(x: Number) -> Number:
    """True for both infinities."""
    return abs(x) == math.inf


def finite(x: Number) -> Number:
    """True but for NaN and infinities."""
    return x.finite()


def signbit(x: Number) -> Number:
    """1 where the sign bit is set, that of -0 and of NaN too; else 0."""
    return x.negative().to(i32)


def saturate(x: Number) -> Number:
    """x within 0 and 1; 0 for NaN."""
    return where(x > 0.0, minimum(x, 1.0), x.like(0.0))


def nextafter(x: Number, y: Number) -> Number:
    """The next float from x toward y."""
    moved = where(x == y, y, neighbour(x, y > x))
    return where((x != x) | (y != y), x + y, moved)


def round(x: Number) -> Number:
    """The nearest integer, halves away from 0."""
    whole = abs(x).trunc()
    up = where(abs(x) - whole >= 0.5, whole + 1.0, whole)
    return copysign(where(x.finite(), up, x), x)


def llround(x: Number) -> Number:
    """The nearest 64-bit integer, halves away from 0; saturated, 0 for NaN."""
    return round(x).to(i64)


def llrint(x: Number) -> Number:
    """The nearest 64-bit integer, halves to even; saturated, 0 for NaN."""
    return x.rint().to(i64)


def fdim(x: Number, y: Number) -> Number:
    """x - y where that is positive, else 0."""
    return where(x <= y, x.like(0.0), x - y)


def fmod(x: Number, y: Number) -> Number:
    """x - n y with the integer n of x / y cut toward 0."""
    return x.emit("rem", y)


def remainder(x: Number, y: Number) -> Number:
    """x - n y with the integer n nearest to x / y, an even one for halves."""
    e = x.e
    size, rest = abs(y), abs(x)
    small = size < 2.0**e.bias
    rest = where(small, rest.emit("rem", where(small, size, size.like(1.0)) * 2.0), rest)
    half = size * 0.5
    doubled = size < 2.0 ** (3 - e.bias)  # where the half would not be exact
    first = where(doubled, rest + rest > size, rest > half)
    rest = where(first, rest - size, rest)
    second = first & where(doubled, rest + rest >= size, rest >= half)
    rest = where(second, rest - size, rest)
    # The sign of x, also of a remainder of 0.
    signed = (rest.as_int() ^ (x.as_int() & e.int_elem.min_value)).as_float()
    undefined = ~x.finite() | (y != y) | (y == 0.0)
    return where(undefined, x.like(math.nan), signed)


def ldexp(x: Number, n: Number) -> Number:
    """x · 2**n."""
    return load_exponent(x, n.to(x.e.int_elem))


def ilogb(x: Number) -> Number:
    """The exponent of x as an integer; the least one for 0 and NaN, the largest for infinity."""
    n = split_exponent(x)[1].to(i32)
    n = where(isinf(x), n.like(i32.max_value), n)
    return where((x == 0.0) | (x != x), n.like(i32.min_value), n)


def logb(x: Number) -> Number:
    """The exponent of x; -inf for 0, inf for infinity."""
    n = split_exponent(x)[1].to(x.elem)
    n = where(x.finite(), n, abs(x))
    return where(x == 0.0, n.like(-math.inf), n)
