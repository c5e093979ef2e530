"""log and log2.

x = 2**k m with m in [1/√2, √2); then log(x) = k log(2) + log(m).
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable

from tegula.ir.core import Value

from .coefficients import LN2_PARTS, LOG, LOG2, LOG2E_PARTS
from .emitter import Emitter

# The first float above 1/√2. Were it below, log2 would cancel in the last place of 1/2.
_LEAST = {"f32": float.fromhex("0x1.6a09e8p-1"), "f64": float.fromhex("0x1.6a09e667f3bcdp-1")}


def log(e: Emitter, x: Value) -> Value:
    """Natural logarithm."""

    def value(k: Value, f: Value) -> Value:
        high, low = (e.f(c) for c in LN2_PARTS[e.elem.name])
        tail = e.mul(k, low)
        if e.single:
            q = e.fma(e.polynomial(f, LOG["f32"]), f, e.f(-0.5))
            y = e.add(f, e.fma(e.mul(f, f), q, tail))
        else:
            half_square, s, r = _area_tangent(e, f, LOG["f64"])
            y = e.sub(f, e.sub(half_square, e.fma(s, e.add(half_square, r), tail)))
        return e.fma(k, high, y)

    return _by_kind(e, x, value)


def log2(e: Emitter, x: Value) -> Value:
    """Logarithm to base 2."""

    def value(k: Value, f: Value) -> Value:
        high, low = (e.f(c) for c in LOG2E_PARTS[e.elem.name])
        if e.single:
            rest = e.fma(f, low, e.mul(e.mul(f, f), e.polynomial(f, LOG2["f32"])))
            y = e.fma(f, high, rest)
        else:
            half_square, s, r = _area_tangent(e, f, LOG2["f64"])
            u = e.sub(half_square, e.mul(s, e.add(half_square, r)))
            top = e.sub(f, u)
            bottom = e.sub(e.sub(f, top), u)
            y = e.fma(top, high, e.fma(top, low, e.mul(bottom, high)))
        return e.add(k, y)

    return _by_kind(e, x, value)


def _by_kind(e: Emitter, x: Value, value: Callable[[Value, Value], Value]) -> Value:
    """`value` of k and m - 1 for positive normal numbers; all others go the longer way."""
    least, infinity = _bits(e, 2.0 ** (1 - e.bias)), _bits(e, math.inf)
    special = e.cmp(e.sub(e.as_uint(x), e.u(least)), e.u(infinity - least), pred="ge")
    usual = value(*_split(e, x, 0))
    # Scaled, denormal numbers become normal ones.
    y = value(*_split(e, e.mul(x, e.f(2.0**e.mantissa)), e.mantissa))
    y = e.select(e.lt(x, e.f(math.inf)), y, x)  # infinity and NaN stay
    below = e.select(e.eq(x, e.f(0.0)), e.f(-math.inf), e.f(math.nan))
    y = e.select(e.gt(x, e.f(0.0)), y, below)
    result: Value = e.select(special, y, usual, unlikely=True)
    return result


def _split(e: Emitter, x: Value, shift: int) -> tuple[Value, Value]:
    """k - shift and m - 1 of a positive normal x."""
    # Counted from 1/√2, the exponent field is k + bias and the rest is m - 1/√2.
    start = _bits(e, _LEAST[e.elem.name])
    bits = e.add(e.as_uint(x), e.u((e.bias << e.mantissa) - start))
    m = e.as_float(e.add(e.and_(bits, e.u((1 << e.mantissa) - 1)), e.u(start)))
    # An integer below 2**mantissa put into the low bits of that float is added to it.
    base = 2.0**e.mantissa
    field = e.or_(e.shift_right(bits, e.mantissa), e.u(_bits(e, base)))
    return e.sub(e.as_float(field), e.f(base + e.bias + shift)), e.sub(m, e.f(1.0))


def _area_tangent(
    e: Emitter, f: Value, coefficients: tuple[float, ...]
) -> tuple[Value, Value, Value]:
    """f²/2, s = f / (2 + f) and r with log(1 + f) = f - (f²/2 - s (f²/2 + r))."""
    s = e.div(f, e.add(f, e.f(2.0)))
    z = e.mul(s, s)
    r = e.mul(z, e.polynomial(z, coefficients))
    return e.mul(e.mul(f, f), e.f(0.5)), s, r


def _bits(e: Emitter, value: float) -> int:
    """The bits of the float nearest to the value."""
    form = ("<f", "<I") if e.single else ("<d", "<Q")
    result: int = struct.unpack(form[1], struct.pack(form[0], value))[0]
    return result
