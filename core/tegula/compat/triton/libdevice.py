"""Device library functions in the kernel language, for names that
`tegula.language.extra.libdevice` does not have. Functions of f32 are computed in f64, so their
results are those of correctly rounded ones but for rare ties; those of f64 may lose some digits
near zeros of the function.
"""

from __future__ import annotations

import math
from typing import Any

import tegula.language as tl
from tegula.frontend.function import device_function
from tegula.language import abs as abs
from tegula.language import ceil as ceil
from tegula.language import cos as cos
from tegula.language import div_rn as div_rn
from tegula.language import erf as erf
from tegula.language import exp as exp
from tegula.language import exp2 as exp2
from tegula.language import floor as floor
from tegula.language import fma as fma
from tegula.language import log as log
from tegula.language import log2 as log2
from tegula.language import rsqrt as rsqrt
from tegula.language import sin as sin
from tegula.language import sqrt as sqrt
from tegula.language import sqrt_rn as sqrt_rn
from tegula.language.builtin import Builtin

_LOG2_10 = tl.constexpr(math.log2(10))
_LOG10_2 = tl.constexpr(math.log10(2))
_INF = tl.constexpr(math.inf)
_LOWEST = tl.constexpr(-math.inf)
_NAN = tl.constexpr(math.nan)


def _op(name: str, op: str) -> Builtin:
    """An op of the IR on one float as a function."""

    def emit(semantic: Any, x: Any) -> Any:
        return semantic.emit(op, semantic.to_tensor(x, name).handle)

    emit.__name__ = emit.__qualname__ = name
    emit.__doc__ = f"The op `{op}`."
    return Builtin(emit)


trunc = _op("trunc", "trunc")
rint = _op("rint", "rint")
nearbyint = rint
fabs = abs


@device_function
def isnan(x):  # type: ignore[no-untyped-def]
    """1 for NaN, else 0."""
    return (x != x).to(tl.int32)


@device_function
def isinf(x):  # type: ignore[no-untyped-def]
    """1 for both infinities, else 0."""
    return (tl.abs(x) == _INF).to(tl.int32)  # type: ignore[attr-defined]


@device_function
def finitef(x):  # type: ignore[no-untyped-def]
    """1 for what is neither NaN nor infinite, else 0."""
    return (tl.abs(x) < _INF).to(tl.int32)


isfinited = finitef


@device_function
def copysign(x, y):  # type: ignore[no-untyped-def]
    """|x| with the sign of y."""
    negative = (y < 0) | ((y == 0) & (1.0 / y < 0))
    return tl.where(negative, -tl.abs(x), tl.abs(x))


@device_function
def signbit(x):  # type: ignore[no-untyped-def]
    """1 where the sign is negative, that of -0.0 too, else 0."""
    return ((x < 0) | ((x == 0) & (1.0 / x < 0))).to(tl.int32)


@device_function
def round(x):  # type: ignore[no-untyped-def]
    """The nearest whole number, halves away from zero."""
    whole = tl.floor(tl.abs(x))
    return copysign(tl.where(tl.abs(x) - whole >= 0.5, whole + 1, whole), x)


@device_function
def fmod(x, y):  # type: ignore[no-untyped-def]
    """The remainder with the sign of x."""
    return x % y


@device_function
def fdim(x, y):  # type: ignore[no-untyped-def]
    """x - y where that is positive, else 0."""
    return tl.where(x > y, x - y, 0.0)


@device_function
def saturatef(x):  # type: ignore[no-untyped-def]
    """x within 0 and 1; 0 for NaN."""
    return tl.where(x > 0, tl.where(x < 1, x, 1.0), 0.0)


@device_function
def exp10(x):  # type: ignore[no-untyped-def]
    """10 to the power of x."""
    return tl.exp2(x.to(tl.float64) * _LOG2_10).to(x.dtype)


@device_function
def log10(x):  # type: ignore[no-untyped-def]
    """The logarithm to base 10."""
    return (tl.log2(x.to(tl.float64)) * _LOG10_2).to(x.dtype)


@device_function
def log1p(x):  # type: ignore[no-untyped-def]
    """log(1 + x)."""
    wide = x.to(tl.float64)
    sum = 1.0 + wide
    # What is lost in the sum comes back by the slope of the logarithm.
    result = tl.log(sum) + (wide - (sum - 1.0)) / sum
    result = tl.where(sum == 1.0, wide, tl.where(sum == 0.0, _LOWEST, result))
    return tl.where(wide == _INF, _INF, result).to(x.dtype)


@device_function
def expm1(x):  # type: ignore[no-untyped-def]
    """exp(x) - 1."""
    wide = x.to(tl.float64)
    series = wide * (1 + wide / 2 * (1 + wide / 3 * (1 + wide / 4 * (1 + wide / 5))))
    return tl.where(tl.abs(wide) < 1e-3, series, tl.exp(wide) - 1.0).to(x.dtype)


@device_function
def tan(x):  # type: ignore[no-untyped-def]
    """The tangent."""
    wide = x.to(tl.float64)
    return (tl.sin(wide) / tl.cos(wide)).to(x.dtype)


@device_function
def sinh(x):  # type: ignore[no-untyped-def]
    """The hyperbolic sine."""
    wide = x.to(tl.float64)
    e = expm1(tl.abs(wide))
    value = tl.where(e == _INF, _INF, (e + e / (e + 1)) / 2)
    return copysign(value, wide).to(x.dtype)


@device_function
def cosh(x):  # type: ignore[no-untyped-def]
    """The hyperbolic cosine."""
    e = tl.exp(tl.abs(x.to(tl.float64)))
    return ((e + 1.0 / e) / 2).to(x.dtype)


@device_function
def tanh(x):  # type: ignore[no-untyped-def]
    """The hyperbolic tangent."""
    wide = x.to(tl.float64)
    e = expm1(-2.0 * tl.abs(wide))
    value = copysign(-e / (e + 2.0), wide)
    return tl.where(x != x, wide, value).to(x.dtype)


@device_function
def asinh(x):  # type: ignore[no-untyped-def]
    """The inverse hyperbolic sine."""
    a = tl.abs(x.to(tl.float64))
    value = log1p(a + a * a / (1.0 + tl.sqrt(1.0 + a * a)))
    value = tl.where(a > 1e100, tl.log(a) + tl.log(tl.full((), 2.0, tl.float64)), value)
    return copysign(value, x.to(tl.float64)).to(x.dtype)


@device_function
def acosh(x):  # type: ignore[no-untyped-def]
    """The inverse hyperbolic cosine."""
    t = x.to(tl.float64) - 1.0
    return log1p(t + tl.sqrt(2.0 * t + t * t)).to(x.dtype)


@device_function
def atanh(x):  # type: ignore[no-untyped-def]
    """The inverse hyperbolic tangent."""
    wide = x.to(tl.float64)
    return (0.5 * (log1p(wide) - log1p(-wide))).to(x.dtype)


@device_function
def hypot(x, y):  # type: ignore[no-untyped-def]
    """The length of (x, y)."""
    a, b = x.to(tl.float64), y.to(tl.float64)
    return tl.sqrt(a * a + b * b).to(x.dtype)


@device_function
def pow(x, y):  # type: ignore[no-untyped-def]
    """x to the power of y."""
    a, b = x.to(tl.float64), y.to(tl.float64)
    size = tl.exp2(b * tl.log2(tl.abs(a)))
    whole = tl.floor(b) == b
    odd = whole & (tl.floor(b * 0.5) * 2.0 != b)
    negative = (a < 0) | ((a == 0) & (1.0 / a < 0))
    value = tl.where(negative & odd, -size, size)
    value = tl.where((a < 0) & (a > _LOWEST) & (whole == 0) & (tl.abs(b) < _INF), _NAN, value)
    return tl.where((b == 0) | (a == 1.0) | ((a == -1.0) & (tl.abs(b) == _INF)), 1.0, value).to(
        x.dtype
    )


@device_function
def fast_dividef(x, y):  # type: ignore[no-untyped-def]
    """x / y."""
    return x / y


@device_function
def popc(x):  # type: ignore[no-untyped-def]
    """How many bits are set."""
    bits = x.to(tl.uint64, bitcast=True) if x.dtype.primitive_bitwidth == 64 else x.to(tl.uint32)
    wide = bits.to(tl.uint64)
    wide = wide - ((wide >> 1) & 0x5555555555555555)
    wide = (wide & 0x3333333333333333) + ((wide >> 2) & 0x3333333333333333)
    wide = (wide + (wide >> 4)) & 0x0F0F0F0F0F0F0F0F
    return ((wide * 0x0101010101010101) >> 56).to(tl.int32)


@device_function
def clz(x):  # type: ignore[no-untyped-def]
    """How many bits above the highest one that is set."""
    width = 64 if x.dtype.primitive_bitwidth == 64 else 32
    wide = x.to(tl.uint64, bitcast=True) if width == 64 else x.to(tl.uint32).to(tl.uint64)
    for shift in tl.static_range(6):
        wide = wide | (wide >> (1 << shift))
    return width - popc(wide)


@device_function
def ffs(x):  # type: ignore[no-untyped-def]
    """Number of the lowest bit that is set, counted from 1; 0 for 0."""
    return tl.where(x == 0, 0, popc((x & -x) - 1) + 1)


def _conversion(rounded: Any, to: Any) -> Any:
    @device_function
    def convert(x):  # type: ignore[no-untyped-def]
        return rounded(x).to(to)

    return convert


for _source in ("float", "double"):
    for _target, _dtype in (
        ("int", tl.int32), ("uint", tl.uint32), ("ll", tl.int64), ("ull", tl.uint64),
    ):  # fmt: skip
        for _mode, _rounded in (("rn", rint), ("rz", trunc), ("rd", floor), ("ru", ceil)):
            globals()[f"{_source}2{_target}_{_mode}"] = _conversion(_rounded, _dtype)

fast_expf, fast_logf, fast_log2f, fast_sinf, fast_cosf = exp, log, log2, sin, cos
fast_log10f, fast_exp10f, fast_tanf, fast_tanhf, fast_powf = log10, exp10, tan, tanh, pow

__all__ = [
    name
    for name in dir()
    if not name.startswith("_")
    and name not in ("Any", "Builtin", "annotations", "device_function", "math", "tl")
]
