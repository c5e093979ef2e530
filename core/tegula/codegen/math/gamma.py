"""Γ and log |Γ|.

Up to 8 the argument is moved to [1.5, 2.5], where a polynomial around 2 is used, by
Γ(x) = (x - 1) Γ(x - 1); beyond comes Stirling's formula. Below 0 Γ(x) Γ(-x) = -π / (x sin(π x)).
All of it is kept as pairs, since products and exponents would lose digits otherwise.
"""

from __future__ import annotations

import math

from .double import Pair, choose, constant, fast_two_sum, two_product, two_sum
from .exponents import exp_parts, limit, log_pair, single
from .library_coefficients import (
    COSPI,
    HALF_LOG_2PI,
    LGAMMA,
    LOG_PI,
    ONE_MINUS_EULER,
    PI,
    SINPI,
    STIRLING,
    TGAMMA,
)
from .number import Number, fma, polynomial, scaled, where, widened

_STIRLING = 8.0


def _near_two(x: Number) -> tuple[Number, Pair, Number]:
    """t in [-1/2, 1/2] and a factor for x from -1/2 to 8: Γ(x) is Γ(2 + t) times the factor, or
    divided by it where the third value says so.
    """
    t, factor = x, single(x.like(1.0))
    for _ in range(6):
        above = t > 2.5
        t = where(above, t - 1.0, t)
        factor = choose(above, factor * t, factor)
    below, least = x < 1.5, x < 0.5
    down = choose(least, two_sum(x, 1.0) * x, single(x))
    t = where(least, x, where(below, x - 1.0, t - 2.0))
    return t, choose(below, down, factor), below


def _around_two(t: Number, table: dict[str, tuple[float, ...]]) -> Pair:
    """(1 - γ) t + t² P(t)."""
    name = t.elem.name
    high, low = ONE_MINUS_EULER[name]
    p = two_product(t, high)
    lowest, *rest = table[name]
    q = fast_two_sum(t.like(lowest), t * polynomial(t, rest))
    return fast_two_sum(p.hi, fma(t, low, p.lo)) + two_product(t, t) * q


def _stirling(x: Number, logarithm: Pair) -> Pair:
    """log Γ(x) for x of 8 and more, where it does not overflow."""
    name = x.elem.name
    inverse = 1.0 / x
    tail = inverse * polynomial(inverse * inverse, STIRLING[name])
    return logarithm * two_sum(x, -0.5) - x + (constant(x, HALF_LOG_2PI[name]) + tail)


def _sine_of_half_turns(x: Number) -> Pair:
    """|sin(π x)| for x >= 0."""
    name = x.elem.name
    twice = (x + x).rint()
    r = fma(twice, -0.5, x)
    z = r * r
    p = two_product(r, PI[name][0])
    sine = fast_two_sum(p.hi, fma(r * z, polynomial(z, SINPI[name]), fma(r, PI[name][1], p.lo)))
    square = two_product(r, r)
    lowest, *rest = COSPI[name]
    slope = fast_two_sum(r.like(lowest), z * polynomial(z, rest))
    cosine = square * slope + 1.0
    value = choose((twice * 0.5).whole(), sine, cosine)
    return choose(value.hi < 0.0, -value, value)


# --- log |Γ|


def _log_gamma(x: Number) -> Pair:
    """log Γ(x) for x > 0 where it does not overflow."""
    large = x >= _STIRLING
    t, factor, below = _near_two(where(large, x.like(2.0), x))
    logarithm = log_pair(choose(large, single(x), factor))
    near = _around_two(t, LGAMMA) + choose(below, -logarithm, logarithm)
    return choose(large, _stirling(where(large, x, x.like(8.0)), logarithm), near)


def _tiny(x: Number) -> Number:
    return x < 2.0 ** -(x.e.mantissa + 8)


def _lgamma_above(x: Number) -> Number:
    """For x >= 0."""
    most = 4.0e36 if x.e.single else 2.5e305
    usual = where((x > 0.0) & (x < most), x, x.like(1.0))
    value = _log_gamma(usual).sum()
    # Near overflow the other terms do not count.
    huge = where((x >= most) & x.finite(), x, x.like(2.0))
    large = ((log_pair(single(huge)) - 1.0) * (huge * 2.0**-10)).sum() * 2.0**10
    return where(x >= most, large, value)


def _lgamma_below(x: Number) -> Number:
    """For x < 0."""
    a = -x
    tiny = _tiny(a)
    whole = a.whole()
    a = where(tiny | whole, a.like(0.25), a)
    product = _sine_of_half_turns(a) * a
    value = (constant(x, LOG_PI[x.elem.name]) - log_pair(product) - _log_gamma(a)).sum()
    small = -log_pair(single(where(tiny, -x, x.like(1.0)))).sum()
    value = where(tiny, small, value)
    return where(whole, value.like(math.inf), value)


def lgamma(x: Number) -> Number:
    """log |Γ(x)|. Below 0 in f64, if the machine has it, for digits are lost between the poles."""
    below = x < 0.0
    negative = where(below, x, x.like(-0.5))
    wide = _lgamma_below(widened(negative)).to(x.elem)
    value = where(below, wide, _lgamma_above(abs(x)), unlikely=True)
    value = where(x == 0.0, x.like(math.inf), value)
    return where(abs(x) == math.inf, abs(x), where(x == x, value, x))


# --- Γ


def _gamma(x: Number) -> tuple[Pair, Number]:
    """p and n with Γ(x) = p 2**n, for x > -1/2 away from 0."""
    large = x >= _STIRLING
    t, factor, below = _near_two(where(large, x.like(2.0), x))
    near = _around_two(t, TGAMMA) + 1.0
    near = choose(below, near / factor, near * factor)
    usual = where(large, x, x.like(8.0))
    exponent = _stirling(usual, log_pair(single(usual)))
    u, n = exp_parts(limit(exponent.hi, 0.0, 1e4), exponent.lo)
    return choose(large, u + 1.0, near), where(large, n, n.like(0))


def tgamma(x: Number) -> Number:
    """Γ(x)."""
    name = x.elem.name
    most = 54.0 if x.e.single else 200.0
    reflected = x < -0.5
    tiny = _tiny(abs(x))
    a = where(reflected, -x, x)
    a = where(tiny | ~x.finite() | (reflected & x.whole()), x.like(1.25), a)
    p, n = _gamma(limit(a, -1.0, most))
    inverse = constant(x, PI[name]) / (_sine_of_half_turns(a) * limit(a, -1.0, most) * p)
    odd = ~(a.floor() * 0.5).whole()
    below = where(odd, inverse.sum(), -inverse.sum())
    value = scaled(where(reflected, below, p.sum()), where(reflected, -n, n))
    value = where(tiny, 1.0 / x, value)
    value = where((reflected & x.whole()) | (x == -math.inf), x.like(math.nan), value)
    return where((x == math.inf) | (x != x), x, value)
