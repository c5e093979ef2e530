"""`tl.math`: the mathematical functions under their own name."""

from __future__ import annotations

from .elementwise import (
    abs,
    ceil,
    clamp,
    cos,
    div_rn,
    erf,
    exp,
    exp2,
    fdiv,
    floor,
    fma,
    log,
    log2,
    maximum,
    minimum,
    rsqrt,
    sin,
    sqrt,
    sqrt_rn,
    tanh,
    umulhi,
)
from .standard import cdiv, max, min, sigmoid, softmax, sum

__all__ = [
    "abs", "cdiv", "ceil", "clamp", "cos", "div_rn", "erf", "exp", "exp2", "fdiv", "floor", "fma",
    "log", "log2",
    "max", "maximum", "min", "minimum", "rsqrt", "sigmoid", "sin", "softmax", "sqrt", "sqrt_rn",
    "sum", "tanh", "umulhi",
]  # fmt: skip
