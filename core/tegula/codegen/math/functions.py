"""The table of math functions: how each is built, and how far off it may be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tegula.ir.core import Value
from tegula.ir.types import DType, f32

from . import exponential, logarithm, special, trigonometric
from .emitter import Emitter


@dataclass(frozen=True)
class MathFunction:
    """A math op: its formula, and bounds on its error.

    Bounds are in units in the last place of the exact result, the whole range of arguments
    included: denormal results, infinities, NaN and signed zeros as IEEE 754 and C have them.
    """

    build: Callable[[Emitter, Value], Value]
    f32_ulp: float
    f64_ulp: float

    def bound(self, dtype: DType) -> float:
        """The bound of a type."""
        return self.f32_ulp if dtype is f32 else self.f64_ulp


FUNCTIONS: dict[str, MathFunction] = {
    "exp": MathFunction(exponential.exp, 1.0, 1.0),
    "exp2": MathFunction(exponential.exp2, 1.0, 1.0),
    "log": MathFunction(logarithm.log, 1.0, 1.0),
    "log2": MathFunction(logarithm.log2, 1.0, 1.1),
    "sin": MathFunction(trigonometric.sin, 1.6, 1.6),
    "cos": MathFunction(trigonometric.cos, 1.6, 1.6),
    "tanh": MathFunction(exponential.tanh, 1.6, 1.6),
    "erf": MathFunction(special.erf, 1.3, 1.25),
    "rsqrt": MathFunction(special.rsqrt, 1.5, 1.5),
}
