"""Tangent, functions of half turns, and the inverse trigonometric functions."""

from __future__ import annotations

import math
from collections.abc import Callable

from . import trigonometric
from .coefficients import COS, HALF_PI_PARTS, SIN
from .double import Pair, choose, constant, fast_two_sum, two_product, two_sum
from .exponents import single
from .library_coefficients import ATAN, COSPI, HALF_PI, PI, QUARTER_PI, SINPI
from .number import Number, copysign, fma, maximum, polynomial, where


def _reduce(x: Number) -> tuple[Number, Pair]:
    """The quadrant in the lowest bits of an integer, and x less so many π/2 as a pair."""
    e = x.e
    magic = 1.5 * 2.0**e.mantissa
    t = fma(x, 2.0 / math.pi, magic)
    n = t - magic
    first, second, third = HALF_PI_PARTS[x.elem.name]
    p = two_product(n, second)
    r = two_sum(fma(n, -first, x), -p.hi)  # the first difference is exact
    return t.as_int(), fast_two_sum(r.hi, fma(n, -third, r.lo - p.lo))


def _reduce_exactly(x: Number) -> tuple[Number, Pair]:
    """The same for large x."""
    n, high, low = trigonometric.reduce_to_pair(x.e, x.value)
    return Number(x.e, n), Pair(Number(x.e, high), Number(x.e, low))


def _by_size(x: Number, f: Callable[[Number, Pair], Number]) -> Number:
    """A function of an angle not below 0, by the short reduction or for large ones by the exact."""
    large = x > trigonometric.LARGE[x.elem.name]
    return where(large, f(*_reduce_exactly(x)), f(*_reduce(x)), unlikely=True)


def tan(x: Number) -> Number:
    """Tangent."""

    def quotient(n: Number, r: Pair) -> Number:
        name = x.elem.name
        square = two_product(r.hi, r.hi)
        z = square.hi
        tail = fma(r.hi * z, polynomial(z, SIN[name]), fma(z * -0.5, r.lo, r.lo))
        sine = fast_two_sum(r.hi, tail)
        top = fast_two_sum(z.like(1.0), z * -0.5)
        tail = fma(z * z, polynomial(z, COS[name]), fma(-r.hi, r.lo, square.lo * -0.5))
        cosine = fast_two_sum(top.hi, top.lo + tail)
        odd = (n & 1) == 1
        return (choose(odd, -cosine, sine) / choose(odd, sine, cosine)).sum()

    value = _by_size(abs(x), quotient)
    value = where(x.finite(), value, x - x)
    return (value.as_int() ^ (x.as_int() & x.e.int_elem.min_value)).as_float()


def _of_half_turns(x: Number, quarter: int) -> Number:
    """sin(π x) for x >= 0, or cos(π x) if `quarter` is 1; zeros are positive."""
    e, name = x.e, x.elem.name
    a = where(x < 2.0 ** (e.mantissa + 1), x, x.like(0.0))  # above there are even integers only
    twice = (a + a).rint()
    r = fma(twice, -0.5, a)
    n = twice.to(e.int_elem) + quarter
    z = r * r
    p = two_product(r, PI[name][0])
    sine = p.hi + fma(r * z, polynomial(z, SINPI[name]), fma(r, PI[name][1], p.lo))
    cosine = fma(z, polynomial(z, COSPI[name]), 1.0)
    value = where((n & 1) == 1, cosine, sine)
    value = (value.as_int() ^ ((n >> 1) << (e.width - 1))).as_float()
    value = where(value == 0.0, value.like(0.0), value)
    return where(x.finite(), value, x - x)


def sinpi(x: Number) -> Number:
    """sin(π x)."""
    value = _of_half_turns(abs(x), 0)
    return (value.as_int() ^ (x.as_int() & x.e.int_elem.min_value)).as_float()


def cospi(x: Number) -> Number:
    """cos(π x)."""
    return _of_half_turns(abs(x), 1)


def _angle(y: Pair, x: Pair) -> Pair:
    """atan(y / x) for y and x not below 0 and not both 0.

    y/x beyond tan(π/8) is turned by π/4, beyond tan(3π/8) by π/2.
    """
    name = x.hi.elem.name
    low = y.hi <= x.hi * (math.sqrt(2) - 1)
    middle = y.hi <= x.hi * (math.sqrt(2) + 1)
    above = choose(low, y, choose(middle, y - x, -x))
    below = choose(low, x, choose(middle, y + x, y))
    zero = x.hi.like(0.0)
    turned = choose(middle, constant(zero, QUARTER_PI[name]), constant(zero, HALF_PI[name]))
    turned = choose(low, Pair(zero, zero), turned)
    t = above / below
    z = t.hi * t.hi
    tail = fma(t.hi * z, polynomial(z, ATAN[name]), fma(-z, t.lo, t.lo))
    return turned + fast_two_sum(t.hi, tail)


def atan(x: Number) -> Number:
    """Inverse tangent."""
    a = where(abs(x) < 2.0 ** (x.e.mantissa + 3), abs(x), x.like(2.0 ** (x.e.mantissa + 3)))
    value = _angle(single(a), single(x.like(1.0))).sum()
    return where(x == x, copysign(value, x), x)


def atan2(y: Number, x: Number) -> Number:
    """The angle of the point (x, y)."""
    e = x.e
    a, b = abs(y), abs(x)
    largest = maximum(a, b)
    factor = where(largest > 2.0 ** (e.bias - 3), x.like(2.0 ** -(e.bias // 2)), x.like(1.0))
    factor = where(largest < 2.0 ** -(e.bias // 2), x.like(2.0 ** (e.bias // 2)), factor)
    # On the axes and at infinity a point on the unit square has the same angle.
    infinite = largest == math.inf
    up = where(infinite, where(a == math.inf, a.like(1.0), a.like(0.0)), a * factor)
    right = where(infinite, where(b == math.inf, b.like(1.0), b.like(0.0)), b * factor)
    right = where(largest == 0.0, b.like(1.0), right)
    angle = _angle(single(up), single(right))
    angle = choose(x.negative(), constant(x, PI[x.elem.name]) - angle, angle)
    return where((x != x) | (y != y), x + y, copysign(angle.sum(), y))


def _other_side(x: Number) -> Pair:
    """√(1 - x²)."""
    one = x.like(1.0)
    return (two_sum(one, -x) * two_sum(one, x)).sqrt()


def asin(x: Number) -> Number:
    """Inverse sine."""
    a = abs(x)
    inside = where(a <= 1.0, a, a.like(0.0))
    value = _angle(single(inside), _other_side(inside)).sum()
    return where(a <= 1.0, copysign(value, x), x.like(math.nan))


def acos(x: Number) -> Number:
    """Inverse cosine."""
    a = abs(x)
    inside = where(a <= 1.0, a, a.like(0.0))
    angle = _angle(_other_side(inside), single(inside))
    angle = choose(x < 0.0, constant(x, PI[x.elem.name]) - angle, angle)
    return where(a <= 1.0, angle.sum(), x.like(math.nan))
