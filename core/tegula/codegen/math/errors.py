"""The error function's relatives: complement, scaled complement, normal distribution, inverses.

exp(x²) erfc(x) is one polynomial for all x >= 0, in the variable of M. M. Shepherd and J. G.
Laframboise, "Chebyshev approximation of (1 + 2x) exp(x²) erfc x in 0 <= x < ∞" (1981). The inverse
functions start from a rough value and take Halley's steps, which triple the digits.
"""

from __future__ import annotations

import math

from .coefficients import ERF_BELOW
from .double import Pair, choose, constant, fast_two_sum, two_product, two_sum
from .exponents import EXP_RANGE, exp_parts, limit, log_pair, single
from .library_coefficients import (
    ERFCINV,
    ERFCX,
    ERFCX_MIDDLE,
    ERFINV,
    HALF_SQRT_PI,
    SQRT2,
    SQRT_HALF,
    TWO_OVER_SQRT_PI,
)
from .number import Number, copysign, fma, maximum, polynomial, power_of_two, scaled, where

_CENTRE = 3.75


def _scaled_complement(x: Number) -> Pair:
    """exp(x²) erfc(x) for finite x >= 0."""
    name = x.elem.name
    t = two_sum(x, -_CENTRE) / two_sum(x, _CENTRE)
    p = two_product(t.hi, polynomial(t.hi, ERFCX[name]))
    p = constant(x, ERFCX_MIDDLE[name]) + p
    # Around 0 the slope is large enough for the quotient's lower half to count.
    half = x + 0.5
    r = p.hi / half
    by_x = fma(half, fma(x * 2.0, r, -TWO_OVER_SQRT_PI[name][0]), r)
    slope = by_x * (x + _CENTRE) * (x + _CENTRE) * (0.5 / _CENTRE)
    p = p + where(x < 2.0, slope * t.lo, x.like(0.0))
    return p / two_sum(x, 0.5)


def _complement(x: Pair) -> Number:
    """erfc(x) for x >= 0."""
    name = x.hi.elem.name
    low = EXP_RANGE[name][0]
    r = _scaled_complement(x.hi)
    # The function at hi, and its slope for the rest.
    slope = fma(x.hi * 2.0, r.hi, -TWO_OVER_SQRT_PI[name][0])
    r = fast_two_sum(r.hi, fma(x.lo, slope, r.lo))
    square = x.square()
    u, n = exp_parts(limit(-square.hi, low, 0.0), -square.lo)
    return scaled(((u + 1.0) * r).sum(), n)


def _size(x: Number) -> Number:
    """|x|, or so much that the complement is 0 without overflow on the way."""
    return limit(abs(x), 0.0, 14.0 if x.e.single else 39.0)


def erfc(x: Number) -> Number:
    """1 - erf(x)."""
    tail = _complement(single(_size(x)))
    s = two_sum(x.like(1.0), -x)
    near = s.hi + fma(-x, polynomial(x * x, ERF_BELOW[x.elem.name]), s.lo)
    value = where(x < 0.0, 2.0 - tail, tail)
    return where(abs(x) < 0.5, near, where(x == x, value, x))


def erfcx(x: Number) -> Number:
    """exp(x²) erfc(x)."""
    e = x.e
    a = where(x.finite(), abs(x), x.like(1.0))
    r = _scaled_complement(a)
    # Below 0 it is 2 exp(x²) less that.
    size = limit(a, 0.0, 9.6 if e.single else 26.8)
    square = two_product(size, size)
    u, n = exp_parts(square.hi, square.lo)
    rest = r.times(power_of_two(maximum(-1 - n, 2 - e.bias)))
    below = scaled(((u + 1.0) - rest).sum(), n + 1)
    value = where(x < 0.0, below, r.sum())
    value = where(x == math.inf, x.like(0.0), value)
    return where(x == -math.inf, -x, where(x == x, value, x))


def normcdf(x: Number) -> Number:
    """The normal distribution function, erfc(-x / √2) / 2."""
    size = limit(abs(x), 0.0, 19.0 if x.e.single else 55.0)
    a = constant(x, SQRT_HALF[x.elem.name]) * size
    tail = _complement(a) * 0.5
    t = choose(x < 0.0, -a, a)
    s = two_sum(x.like(1.0), t.hi)
    near = (s.hi + fma(t.hi, polynomial(t.hi * t.hi, ERF_BELOW[x.elem.name]), s.lo + t.lo)) * 0.5
    value = where(x < 0.0, tail, 1.0 - tail)
    return where(a.hi < 0.5, near, where(x == x, value, x))


# --- inverses


def _central(z: Number) -> Pair:
    """erfinv(z) for |z| <= 1/2."""
    high, low = HALF_SQRT_PI[z.elem.name]
    p = two_product(z, high)
    square = z * z
    tail = fma(z * square, polynomial(square, ERFINV[z.elem.name]), fma(z, low, p.lo))
    return fast_two_sum(p.hi, tail)


def _tail(y: Number) -> Pair:
    """x with erfc(x) = y for 0 < y <= 1/2."""
    logarithm = log_pair(single(y))
    s = (-logarithm.hi).sqrt()
    x = s * polynomial(1.0 / s, ERFCINV[y.elem.name])
    step = x
    for last in (True,) if y.e.single else (False, True):
        # exp(x²) y equals exp(x²) erfc(x) at the solution.
        exponent = two_product(x, x) + logarithm
        u, n = exp_parts(exponent.hi, exponent.lo)
        off = (_scaled_complement(x) - (u + 1.0).times(power_of_two(n))).sum()
        step = off * HALF_SQRT_PI[y.elem.name][0]
        step = step / fma(-x, step, 1.0)
        if not last:
            x = x + step
    return fast_two_sum(x, step)


def _inverse(y: Number, z: Number, small: Number) -> Pair:
    """x with erfc(x) = y, where z = 1 - y; `small` is y or 2 - y, whichever is less."""
    near = abs(z) <= 0.5
    tail = _tail(where((small > 0.0) & (small < 0.5), small, small.like(0.25)))
    tail = choose(z < 0.0, -tail, tail)
    return choose(near, _central(where(near, z, z.like(0.0))), tail)


def _ends(x: Number, value: Number, low: float, high: float) -> Number:
    """The value inside of an interval, infinite at its ends, NaN outside."""
    descends = -math.inf if low < high else math.inf
    first, last = min(low, high), max(low, high)
    value = where(x == first, value.like(descends), where(x == last, value.like(-descends), value))
    return where((x >= first) & (x <= last), value, value.like(math.nan))


def erfinv(x: Number) -> Number:
    """The inverse of erf."""
    a = abs(x)
    value = _inverse(a, a, 1.0 - a).sum()  # y = 1 - a is not needed: a >= 0 tells its side
    return _ends(x, copysign(value, x), -1.0, 1.0)


def erfcinv(y: Number) -> Number:
    """The inverse of erfc."""
    value = _inverse(y, 1.0 - y, where(y > 1.0, 2.0 - y, y)).sum()
    return _ends(y, value, 2.0, 0.0)


def normcdfinv(p: Number) -> Number:
    """The inverse of the normal distribution function."""
    y = p + p
    x = _inverse(y, 1.0 - y, where(y > 1.0, 2.0 - y, y))
    value = (-x * constant(p, SQRT2[p.elem.name])).sum()
    return _ends(p, value, 0.0, 1.0)
