"""Declarations: exponentials, logarithms, powers, lengths, angles and hyperbolic functions."""

from __future__ import annotations

from functools import partial

from .. import angles, exponents, norms
from ..functions import FUNCTIONS
from ..library import Bound, LibraryFunction, of_floats, signatures
from ..number import Number

_ONE, _TWO = of_floats(1), of_floats(2)
_FAST = signatures("f32 -> f32")


def _op(op: str, x: Number) -> Number:
    return x.emit(op)


def _of_op(name: str, op: str, doc: str, fast: bool = False) -> LibraryFunction:
    """A function that is an op of the IR; its bound is the op's."""
    f = FUNCTIONS[op]
    return LibraryFunction(name, doc, _FAST if fast else _ONE, partial(_op, op),
                           Bound(f.f32_ulp), Bound(f.f64_ulp))  # fmt: skip


_OPS = (
    _of_op("exp", "exp", "e**x."),
    _of_op("exp2", "exp2", "2**x."),
    _of_op("log", "log", "Natural logarithm."),
    _of_op("log2", "log2", "Logarithm to base 2."),
    _of_op("sin", "sin", "Sine."),
    _of_op("cos", "cos", "Cosine."),
    _of_op("tanh", "tanh", "Hyperbolic tangent."),
    _of_op("erf", "erf", "Error function."),
    _of_op("rsqrt", "rsqrt", "1 / √x."),
    _of_op("fast_expf", "exp", "e**x.", fast=True),
    _of_op("fast_logf", "log", "Natural logarithm.", fast=True),
    _of_op("fast_log2f", "log2", "Logarithm to base 2.", fast=True),
    _of_op("fast_sinf", "sin", "Sine.", fast=True),
    _of_op("fast_cosf", "cos", "Cosine.", fast=True),
    _of_op("fast_tanhf", "tanh", "Hyperbolic tangent.", fast=True),
)


def _power(x: Number, y: Number) -> Number:
    return exponents.integer_power(x, y) if y.elem.is_int else exponents.power(x, y)


_CLOSE = Bound(0.6)  # computed with more digits, rounded once or nearly so
_ROUNDED_TWICE = Bound(1.0)

TABLE = (
    *_OPS,
    LibraryFunction("exp10", "10**x.", _ONE, exponents.exp10, Bound(1.1), Bound(1.0)),
    LibraryFunction("fast_exp10f", "10**x.", _FAST, exponents.exp10, Bound(1.1)),
    LibraryFunction("expm1", "e**x - 1.", _ONE, exponents.expm1, Bound(1.0), Bound(1.0)),
    LibraryFunction("sinh", "Hyperbolic sine.", _ONE, exponents.sinh, Bound(1.0), Bound(1.0)),
    LibraryFunction("cosh", "Hyperbolic cosine.", _ONE, exponents.cosh, Bound(0.65), Bound(0.65)),
    LibraryFunction("log10", "Logarithm to base 10.", _ONE, exponents.log10, _CLOSE, _CLOSE),
    LibraryFunction("fast_log10f", "Logarithm to base 10.", _FAST, exponents.log10, _CLOSE),
    LibraryFunction("log1p", "log(1 + x).", _ONE, exponents.log1p, _CLOSE, _CLOSE),
    LibraryFunction("asinh", "Inverse hyperbolic sine.", _ONE, exponents.asinh, _CLOSE, _CLOSE),
    LibraryFunction("acosh", "Inverse hyperbolic cosine.", _ONE, exponents.acosh, _CLOSE, _CLOSE),
    LibraryFunction("atanh", "Inverse hyperbolic tangent.", _ONE, exponents.atanh, _CLOSE, _CLOSE),
    LibraryFunction(
        "pow", "x**y.",
        signatures("f32 i32 -> f32", "f64 i32 -> f64", "f32 f32 -> f32", "f64 f64 -> f64"),
        _power, _ROUNDED_TWICE, Bound(1.3)),
    LibraryFunction("fast_powf", "x**y.", signatures("f32 f32 -> f32"), exponents.power,
                    _ROUNDED_TWICE),
    LibraryFunction("cbrt", "Cube root.", _ONE, exponents.cbrt, _CLOSE, _CLOSE),
    LibraryFunction("rcbrt", "1 / ∛x.", _ONE, exponents.rcbrt, _CLOSE, _CLOSE),
    LibraryFunction("hypot", "√(x² + y²).", _TWO, norms.norm, _ROUNDED_TWICE, _ROUNDED_TWICE),
    LibraryFunction("rhypot", "1 / √(x² + y²).", _TWO, norms.inverse_norm, _ROUNDED_TWICE,
                    _ROUNDED_TWICE),
    LibraryFunction("norm3d", "√(a² + b² + c²).", of_floats(3), norms.norm, _ROUNDED_TWICE,
                    _ROUNDED_TWICE),
    LibraryFunction("rnorm3d", "1 / √(a² + b² + c²).", of_floats(3), norms.inverse_norm,
                    _ROUNDED_TWICE, _ROUNDED_TWICE),
    LibraryFunction("norm4d", "√(a² + b² + c² + d²).", of_floats(4), norms.norm, _ROUNDED_TWICE,
                    _ROUNDED_TWICE),
    LibraryFunction("rnorm4d", "1 / √(a² + b² + c² + d²).", of_floats(4), norms.inverse_norm,
                    _ROUNDED_TWICE, _ROUNDED_TWICE),
    LibraryFunction("tan", "Tangent.", _ONE, angles.tan, Bound(0.95), Bound(0.9)),
    LibraryFunction("fast_tanf", "Tangent.", _FAST, angles.tan, Bound(0.95)),
    LibraryFunction("sinpi", "sin(π x).", _ONE, angles.sinpi, Bound(1.05), Bound(1.05)),
    LibraryFunction("cospi", "cos(π x).", _ONE, angles.cospi, _ROUNDED_TWICE, _ROUNDED_TWICE),
    LibraryFunction("atan", "Inverse tangent.", _ONE, angles.atan, Bound(0.65), Bound(0.65)),
    LibraryFunction("atan2", "The angle of the point (y, x) as its second and first coordinate.",
                    _TWO, angles.atan2, _ROUNDED_TWICE, _ROUNDED_TWICE),
    LibraryFunction("asin", "Inverse sine.", _ONE, angles.asin, Bound(0.65), Bound(0.65)),
    LibraryFunction("acos", "Inverse cosine.", _ONE, angles.acos, Bound(0.65), Bound(0.65)),
)  # fmt: skip
