"""Exponentials, logarithms and powers to more digits than a float has, and functions made of them.

exp cuts its argument as the op does, keeping the remainder as a pair; log goes by
log(m) = 2 atanh((m - 1) / (m + 1)), the quotient and its third power as pairs.
"""

from __future__ import annotations

import math

from . import exponential
from .coefficients import LN2_PARTS, LOG2E_PARTS
from .double import Pair, choose, constant, fast_two_sum, two_product, two_sum
from .library_coefficients import (
    AREA_TANGENT,
    EXP10,
    EXPM1,
    LN2,
    LOG2_10,
    LOG10_2,
    LOG10E,
    RCBRT,
    SINH,
    TWO_THIRDS,
)
from .number import (
    Number,
    copysign,
    fma,
    maximum,
    polynomial,
    power_of_two,
    scaled,
    split_exponent,
    where,
)

# Beyond these e**x is 0 or infinite.
EXP_RANGE = {"f32": (-106.0, 90.5), "f64": (-747.0, 711.5)}
_EXPM1_MOST = {"f32": 89.0, "f64": 710.0}
_EXP10_RANGE = {"f32": (-46.0, 39.0), "f64": (-324.5, 309.0)}
_LEAST = {"f32": 0x3F3504F4, "f64": 0x3FE6A09E667F3BCD}  # bits of the first float above 1/√2


def limit(x: Number, low: float, high: float) -> Number:
    """x within the limits; NaN stays."""
    x = where(x > high, x.like(high), x)
    return where(x < low, x.like(low), x)


# --- exponentials


def exp_parts(x: Number, low: Number | None = None) -> tuple[Pair, Number]:
    """The pair u and the integer n with e**(x + low) = (1 + u) 2**n, for x within EXP_RANGE."""
    e, name = x.e, x.elem.name
    magic = 1.5 * 2.0**e.mantissa
    t = fma(x, LOG2E_PARTS[name][0], magic)
    n = t - magic
    ln2, ln2_low = LN2_PARTS[name]
    rest = n * -ln2_low
    r = two_sum(fma(n, -ln2, x), rest if low is None else rest + low)
    q = r.hi
    tail = fma(q, r.lo, r.lo) + q * q * polynomial(q, EXPM1[name])
    return fast_two_sum(q, tail), t.as_int() - x.like(magic).as_int()


def exp_pair(x: Pair) -> Number:
    """e**x, rounded, for any finite x."""
    low, high = EXP_RANGE[x.hi.elem.name]
    hi = limit(x.hi, low, high)
    u, n = exp_parts(hi, where(hi == x.hi, x.lo, x.lo.like(0.0)))
    return scaled((u + 1.0).sum(), n)


def exp10(x: Number) -> Number:
    """10**x."""
    e, name = x.e, x.elem.name

    def cut(x: object, magic: object) -> tuple[object, object]:
        t = e.fma(x, e.f(LOG2_10[name][0]), magic)
        n = e.sub(t, magic)
        r = e.fma(n, e.f(-LOG10_2[name][0]), x)
        return t, e.fma(n, e.f(-LOG10_2[name][1]), r)

    value = exponential._power(e, x.value, _EXP10_RANGE, EXP10, cut)  # type: ignore[arg-type]
    return Number(e, value)


def expm1(x: Number) -> Number:
    """e**x - 1."""
    name = x.elem.name
    u, n = exp_parts(limit(x, -3.0 * x.e.mantissa, _EXPM1_MOST[name]))
    half = power_of_two(n - 1)
    far = (two_sum(half, -0.5) + u.times(half)).sum() * 2.0
    return copysign(where(n == 0, u.sum(), far), x)


def _exponentials(x: Number) -> tuple[Pair, Pair, Number]:
    """p, q and n with e**|x| = 2**n p and e**-|x| = 2**n q."""
    u, n = exp_parts(limit(abs(x), 0.0, EXP_RANGE[x.elem.name][1]))
    p = u + 1.0
    return p, (1.0 / p).times(power_of_two(maximum(n * -2, 2 - x.e.bias))), n


def cosh(x: Number) -> Number:
    """(e**x + e**-x) / 2."""
    p, q, n = _exponentials(x)
    return scaled((p + q).sum(), n - 1)


def sinh(x: Number) -> Number:
    """(e**x - e**-x) / 2; around 0 by its own polynomial."""
    p, q, n = _exponentials(x)
    far = scaled((p - q).sum(), n - 1)
    z = x * x
    near = fma(x * z, polynomial(z, SINH[x.elem.name]), x)
    return copysign(where(abs(x) < 1.0, near, far), x)


# --- logarithms


def log_parts(x: Pair) -> tuple[Pair, Number]:
    """The pair f and the integer k with x = (1 + f) 2**k and 1/√2 <= 1 + f < √2, for x > 0."""
    e = x.hi.e
    tiny = x.hi < 2.0 ** (1 - e.bias)
    hi = where(tiny, x.hi * 2.0**e.mantissa, x.hi)
    lo = where(tiny, x.lo * 2.0**e.mantissa, x.lo)
    start = _LEAST[x.hi.elem.name]
    # Counted from 1/√2, the exponent field is k + bias and the rest is m - 1/√2.
    bits = hi.as_int() + ((e.bias << e.mantissa) - start)
    k = (bits >> e.mantissa) - e.bias
    m = ((bits & ((1 << e.mantissa) - 1)) + start).as_float()
    f = two_sum(m - 1.0, scaled(lo, -k))
    return f, k - where(tiny, k.like(e.mantissa), k.like(0))


def log_near(f: Pair) -> Pair:
    """log(1 + f) for 1/√2 <= 1 + f < √2."""
    name = f.hi.elem.name
    s = f / (f + 2.0)
    z = s.hi * s.hi
    tail = s.hi * z * z * polynomial(z, AREA_TANGENT[name])
    cube = s * s.square() * constant(z, TWO_THIRDS[name])
    return s.times(2.0) + (cube + tail)


def with_exponent(y: Pair, k: Number) -> Pair:
    """y + k log(2)."""
    n = k.to(y.hi.elem)
    high, low = LN2[y.hi.elem.name]
    p = two_product(n, high)
    return Pair(p.hi, fma(n, low, p.lo)) + y


def log_pair(x: Pair) -> Pair:
    """log(x) for finite x > 0."""
    f, k = log_parts(x)
    return with_exponent(log_near(f), k)


def single(x: Number) -> Pair:
    """A float as a pair."""
    return Pair(x, x.like(0.0))


def _log1p_pair(y: Pair, large: Number | None = None, instead: Number | None = None) -> Pair:
    """log(1 + y) for y > -1; where y is `large`, log(2 · instead)."""
    u = y + 1.0
    if large is not None and instead is not None:
        u = choose(large, single(instead), u)
    f, k = log_parts(u)
    near = (y.hi > -0.29) & (y.hi < 0.41)
    f = choose(near, y, f)
    k = where(near, k.like(0), k)
    if large is not None:
        k = where(large, k + 1, k)
    return with_exponent(log_near(f), k)


def _positive(x: Number, usual: Number, zero: float = -math.inf) -> Number:
    """A logarithm's value, or what it is for arguments that are not positive and finite."""
    y = where(x < math.inf, usual, x)
    return where(x > 0.0, y, where(x == 0.0, y.like(zero), y.like(math.nan)))


def log10(x: Number) -> Number:
    """Logarithm to base 10."""
    return _positive(x, (log_pair(single(x)) * constant(x, LOG10E[x.elem.name])).sum())


def _tiny(x: Number) -> Number:
    """Where an odd function like x + c x³ or x + c x² rounds to x."""
    return abs(x) < 2.0 ** -(x.e.mantissa + 2)


def log1p(x: Number) -> Number:
    """log(1 + x)."""
    value = where(_tiny(x), x, _log1p_pair(single(x)).sum())
    value = where(x < math.inf, value, x)
    return where(x > -1.0, value, where(x == -1.0, x.like(-math.inf), x.like(math.nan)))


def asinh(x: Number) -> Number:
    """log(x + √(x² + 1))."""
    a = abs(x)
    large = a > 2.0 ** (x.e.mantissa // 2 + 4)
    usual = where(large, a.like(1.0), a)
    square = two_product(usual, usual)
    root = (square + 1.0).sqrt()
    value = _log1p_pair(square / (root + 1.0) + usual, large, a).sum()
    value = where(x.finite(), where(_tiny(x), x, value), x)
    return copysign(value, x)


def acosh(x: Number) -> Number:
    """log(x + √(x² - 1)) for x >= 1."""
    large = x > 2.0 ** (x.e.mantissa // 2 + 4)
    t = two_sum(where(large, x.like(2.0), x), -1.0)
    value = _log1p_pair(t + (t * (t + 2.0)).sqrt(), large, x).sum()
    value = where(x < math.inf, value, x)
    return where(x >= 1.0, value, x.like(math.nan))


def atanh(x: Number) -> Number:
    """log((1 + x) / (1 - x)) / 2 for |x| <= 1."""
    a = abs(x)
    inside = where(a < 1.0, a, a.like(0.5))
    y = single(inside + inside) / two_sum(inside.like(1.0), -inside)
    value = where(_tiny(x), a, _log1p_pair(y).sum() * 0.5)
    outside = where(a == 1.0, a.like(math.inf), a.like(math.nan))
    return copysign(where(a < 1.0, value, outside), x)


# --- powers


def _power(x: Number, y: Pair, odd: Number, whole: Number) -> Number:
    """x**y; `odd` and `whole` say whether y is an odd or any integer."""
    e = x.e
    a = abs(x)
    # Where y is that large the result is 0, 1 or infinite; the product must not overflow.
    reach = 2.0 ** (1.5 * e.mantissa + 5)
    exponent = limit(y.hi, -reach, reach)
    low = where(exponent == y.hi, y.lo, y.lo.like(0.0))
    finite = (a > 0.0) & (a < math.inf)
    size = exp_pair(log_pair(single(where(finite, a, a.like(1.0)))) * Pair(exponent, low))
    # 0 and infinity are each other's inverse.
    ends = where((y.hi < 0.0) ^ (a == 0.0), a.like(0.0), a.like(math.inf))
    size = where(finite, size, ends)
    size = where(odd & x.negative(), -size, size)
    undefined = (x < 0.0) & (x > -math.inf) & ~whole
    size = where(undefined | (x != x) | (y.hi != y.hi), x.like(math.nan), size)
    return where((y.hi == 0.0) | (x == 1.0), x.like(1.0), size)


def power(x: Number, y: Number) -> Number:
    """x**y as C has it."""
    half = y * 0.5
    whole = y.whole()
    # An infinite y is even, as all large ones are.
    minus_one = (x == -1.0) & (abs(y) == math.inf)
    value = _power(x, single(y), whole & ~half.whole(), whole)
    return where(minus_one, x.like(1.0), value)


def integer_power(x: Number, n: Number) -> Number:
    """x**n for an integer n."""
    hi = n.to(x.elem)
    back = hi.to(n.elem)
    lost = where(hi >= 2.0**31, n.like(-1), n - back).to(x.elem)
    every = n == n
    return _power(x, fast_two_sum(hi, lost), (n & 1) == 1, every)


def _root_parts(x: Number) -> tuple[Number, Number, Number]:
    """m, y and q with |x| = m 8**q, 1 <= m < 8, and y next to m**(-1/3)."""
    fraction, n = split_exponent(abs(x))
    q = ((n.to(x.elem) + 0.5) * (1.0 / 3.0)).floor().to(n.elem)
    k = n - q * 3
    third = 2.0 ** (-1 / 3)
    start = where(k == 0, x.like(1.0), where(k == 1, x.like(third), x.like(third * third)))
    m = fraction * power_of_two(k)
    y = polynomial(fraction, RCBRT[x.elem.name]) * start
    for _ in range(1 if x.e.single else 2):
        error = fma(-m * y, y * y, 1.0)
        y = fma(y * error, fma(error, 2.0 / 9.0, 1.0 / 3.0), y)
    return m, y, q


def cbrt(x: Number) -> Number:
    """The cube root."""
    m, y, q = _root_parts(x)
    t = m * y * y
    cube = two_product(t, t) * t
    rest = (m - cube.hi) - cube.lo
    t = fma(rest * (1.0 / 3.0), y * y, t)
    return where(x.finite() & (x != 0.0), copysign(t * power_of_two(q), x), x)


def rcbrt(x: Number) -> Number:
    """1 over the cube root."""
    m, y, q = _root_parts(x)
    product = two_product(y, y) * y * m
    error = (1.0 - product.hi) - product.lo
    y = fma(y * (1.0 / 3.0), error, y)
    value = copysign(y * power_of_two(-q), x)
    return where(x.finite() & (x != 0.0), value, 1.0 / x)
