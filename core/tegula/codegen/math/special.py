"""erf and rsqrt."""

from __future__ import annotations

from tegula.ir.core import Value

from .coefficients import ERF_ABOVE, ERF_BELOW
from .emitter import Emitter
from .exponential import exp_parts

# Where erf goes from one formula to the other, and from where it rounds to 1.
_ERF_LIMITS = {"f32": (0.8, 3.95), "f64": (1.0, 5.95)}


def erf(e: Emitter, x: Value) -> Value:
    """Error function: x + x P(x²) around 0, 1 - exp(-Q(x)) beyond, both always computed."""
    limit, one = _ERF_LIMITS[e.elem.name]
    a = e.at_most(e.abs(x), e.f(one))
    below = e.fma(a, e.polynomial(e.mul(a, a), ERF_BELOW[e.elem.name]), a)
    exponent = e.polynomial(a, [-c for c in ERF_ABOVE[e.elem.name]])
    p, scale = exp_parts(e, exponent)
    above = e.fma(e.neg(p), scale, e.f(1.0))
    return e.copysign(e.select(e.lt(a, e.f(limit)), below, above), x)


def rsqrt(e: Emitter, x: Value) -> Value:
    """1 / √x, by the machine's own root and division."""
    result: Value = e.div(e.f(1.0), e.sqrt(x))
    return result
