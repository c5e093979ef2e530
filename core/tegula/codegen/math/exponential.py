"""exp, exp2 and tanh.

x is cut into n log(base) + r with n an integer and r as small as can be; then
base**x = 2**n base**r, base**r by a polynomial. Adding 1.5 · 2**mantissa rounds to an integer and
leaves it in the low bits, from where one shift makes 2**n.
"""

from __future__ import annotations

from collections.abc import Callable

from tegula.ir.core import Value

from .coefficients import EXP, EXP2, LN2_PARTS, LOG2E_PARTS, TANH
from .emitter import Emitter

# Outside of these exp(x) and 2**x are 0 or infinite; inside, 2**n stays within two factors.
_EXP_RANGE = {"f32": (-105.0, 89.0), "f64": (-746.0, 710.0)}
_EXP2_RANGE = {"f32": (-152.0, 129.0), "f64": (-1077.0, 1025.0)}
# Where tanh goes from one formula to the other, and from where it rounds to 1.
_TANH_LIMITS = {"f32": (0.6, 9.25), "f64": (0.6, 19.25)}


def rounder(e: Emitter, offset: int = 0) -> float:
    """The number that, added to a small x, leaves rint(x) + offset + bias in the lowest bits."""
    return 1.5 * 2.0**e.mantissa + e.bias + offset


def power_of_two(e: Emitter, rounded: Value) -> Value:
    """2**n of a sum with `rounder`."""
    return e.as_float(e.shift_left(e.as_int(rounded), e.mantissa))


def reduce_exp(e: Emitter, x: Value, n: Value) -> Value:
    """x - n log(2). The first product and difference are exact."""
    high, low = LN2_PARTS[e.elem.name]
    r = e.fma(n, e.f(-high), x)
    return e.fma(n, e.f(-low), r)


def exp(e: Emitter, x: Value) -> Value:
    """e**x."""

    def cut(x: Value, magic: Value) -> tuple[Value, Value]:
        t = e.fma(x, e.f(LOG2E_PARTS[e.elem.name][0]), magic)
        return t, reduce_exp(e, x, e.sub(t, magic))

    return _power(e, x, _EXP_RANGE, EXP, cut)


def exp2(e: Emitter, x: Value) -> Value:
    """2**x. The remainder is exact."""

    def cut(x: Value, magic: Value) -> tuple[Value, Value]:
        t = e.add(x, magic)
        return t, e.sub(x, e.sub(t, magic))

    return _power(e, x, _EXP2_RANGE, EXP2, cut)


def _power(
    e: Emitter,
    x: Value,
    limits: dict[str, tuple[float, float]],
    table: dict[str, tuple[float, ...]],
    cut: Callable[[Value, Value], tuple[Value, Value]],
) -> Value:
    """base**x over the whole range; `cut` adds the rounder and gives that sum and the remainder.

    2**n spans more exponents than a float has, so it is applied as two factors: the first moved
    toward 1 by half the range, the second, which only depends on the sign, moving it back.
    Overflow and the rounding of denormals happen in that last product.
    """
    low, high = limits[e.elem.name]
    half = (e.bias + 1) // 2
    negative = e.lt(e.as_int(x), e.i(0))  # by the sign bit: what x86 blends by
    magic = e.select(negative, e.f(rounder(e, half)), e.f(rounder(e, -half)))
    restore = e.select(negative, e.f(2.0**-half), e.f(2.0**half))
    clamped = e.at_least(e.at_most(x, e.f(high)), e.f(low))
    t, r = cut(clamped, magic)
    p = e.polynomial(r, table[e.elem.name])
    return e.mul(e.mul(p, power_of_two(e, t)), restore)


def tanh(e: Emitter, x: Value) -> Value:
    """1 - 2 / (e**2x + 1) for large x, x + x³ P(x²) around 0; both are always computed."""
    limit, one = _TANH_LIMITS[e.elem.name]
    a = e.at_most(e.abs(x), e.f(one))
    z = e.mul(a, a)
    below = e.fma(e.mul(a, z), e.polynomial(z, TANH[e.elem.name]), a)
    p, scale = exp_parts(e, e.add(a, a))
    above = e.sub(e.f(1.0), e.div(e.f(2.0), e.fma(p, scale, e.f(1.0))))
    return e.copysign(e.select(e.lt(a, e.f(limit)), below, above), x)


def exp_parts(e: Emitter, x: Value) -> tuple[Value, Value]:
    """p and a power of two with e**x = p 2**n, for x far from overflow and denormals."""
    magic = e.f(rounder(e))
    t = e.fma(x, e.f(LOG2E_PARTS[e.elem.name][0]), magic)
    p = e.polynomial(reduce_exp(e, x, e.sub(t, magic)), EXP[e.elem.name])
    return p, power_of_two(e, t)
