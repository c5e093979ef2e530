"""Declarations: what is exact or correctly rounded. Arithmetic, kinds and parts of floats."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

from tegula.ir.types import f64

from .. import parts, rounding
from ..double import two_product
from ..library import LibraryFunction, of_floats, signatures
from ..number import Number, fma, where

_ONE, _TWO, _THREE = of_floats(1), of_floats(2), of_floats(3)
_WORDS = {"rn": "to nearest even", "rz": "toward zero", "rd": "down", "ru": "up"}


def _by_mode(
    name: str, doc: str, count: int, build: Callable[..., Number]
) -> list[LibraryFunction]:
    return [
        LibraryFunction(
            f"{name}_{mode}", f"{doc}, rounded {word}.", of_floats(count), partial(build, mode=mode)
        )
        for mode, word in _WORDS.items()
    ]


_ROUNDED = [
    *_by_mode("add", "x + y", 2, rounding.add),
    *_by_mode("sub", "x - y", 2, rounding.sub),
    *_by_mode("mul", "x · y", 2, rounding.mul),
    *_by_mode("div", "x / y", 2, rounding.div),
    *_by_mode("rcp", "1 / x", 1, rounding.rcp),
    *_by_mode("sqrt", "√x", 1, rounding.sqrt),
    *_by_mode("fma", "x · y + z", 3, rounding.multiply_add),
]


def _op(name: str, x: Number) -> Number:
    return x.emit(name)


_WHOLE = [
    LibraryFunction(name, doc, _ONE, partial(_op, op))
    for name, op, doc in (
        ("sqrt", "sqrt", "Square root."),
        ("floor", "floor", "The largest integer not above x."),
        ("ceil", "ceil", "The smallest integer not below x."),
        ("trunc", "trunc", "x without its fraction."),
        ("rint", "rint", "The nearest integer, halves to even."),
        ("nearbyint", "rint", "The nearest integer, halves to even."),
    )
]


def _magnitude(x: Number) -> Number:
    return abs(x)


def _upper_reciprocal(x: Number) -> Number:
    """1 / x with only zeros in the lower half of its bits."""
    return ((1.0 / x).as_int() & ~0xFFFFFFFF).as_float()


def _inverse_root(x: Number) -> Number:
    """1 / √x in f64: no f32 has a result so close to the middle of two that it would go wrong."""
    if x.e.widest is f64:
        return (1.0 / x.to(f64).sqrt()).to(x.elem)
    small = x < 2.0**-100
    a = where(small, x * 2.0**40, x)
    usual = (a > 0.0) & (a < math.inf)
    y = _nearest_inverse_root(where(usual, a, a.like(1.0)))
    return where(usual, where(small, y * 2.0**20, y), 1.0 / x.sqrt())


def _nearest_inverse_root(a: Number) -> Number:
    """1 / √a without a wider type. A first guess y is corrected by what is missing of a y² = 1.
    Then y gives way to a neighbour if 1 / √a is beyond the middle of both, that is, if what is
    missing exceeds a u y + a u² / 4 for a distance u; all parts of that are exact."""
    y = 1.0 / a.sqrt()
    product = two_product(a, y)
    y = fma(y * 0.5, fma(-product.hi, y, a.like(1.0)) - product.lo * y, y)
    product = two_product(a, y)
    missing = fma(-product.hi, y, a.like(1.0))
    rest = two_product(product.lo, y)
    nearest = y
    for toward in (math.inf, 0.0):
        other = parts.nextafter(y, y.like(toward))
        u = other - y
        beyond = (missing - product.hi * u) - (rest.hi + product.lo * u)
        beyond = beyond - (rest.lo + a * (u * u * 0.25))
        nearest = where(beyond > 0.0 if toward else beyond < 0.0, other, nearest)
    return nearest


_FLAG = signatures("f32 -> i1", "f64 -> i1")
_LONG = signatures("f32 -> i64", "f64 -> i64")
_WITH_INT = signatures("f32 i32 -> f32", "f64 i32 -> f64")

TABLE = (
    *_ROUNDED,
    *_WHOLE,
    LibraryFunction("fma", "x · y + z, rounded once.", _THREE, fma),
    LibraryFunction("abs", "The magnitude.",
                    signatures("i32 -> i32", "i64 -> i64", "f32 -> f32", "f64 -> f64"),
                    _magnitude),
    LibraryFunction("rcp64h", "1 / x with zeros in the lower half of its bits.",
                    signatures("f64 -> f64"), _upper_reciprocal),
    LibraryFunction("rsqrt_rn", "1 / √x, rounded to nearest even.", signatures("f32 -> f32"),
                    _inverse_root, f64_inside=True),
    LibraryFunction("fast_dividef", "x / y.", signatures("f32 f32 -> f32"),
                    partial(rounding.div, mode="rn")),
    LibraryFunction("isnan", "Whether x is NaN.", _FLAG, parts.isnan),
    LibraryFunction("isinf", "Whether x is infinite.", _FLAG, parts.isinf),
    LibraryFunction("finitef", "Whether x is neither infinite nor NaN.",
                    signatures("f32 -> i1"), parts.finite),
    LibraryFunction("isfinited", "Whether x is neither infinite nor NaN.",
                    signatures("f64 -> i1"), parts.finite),
    LibraryFunction("signbit", "1 where the sign bit is set, else 0.",
                    signatures("f32 -> i32", "f64 -> i32"), parts.signbit),
    LibraryFunction("copysign", "|x| with the sign of y.", _TWO, parts.copysign),
    LibraryFunction("saturatef", "x within 0 and 1; 0 for NaN.", signatures("f32 -> f32"),
                    parts.saturate),
    LibraryFunction("nextafter", "The next float from x toward y.", _TWO, parts.nextafter),
    LibraryFunction("round", "The nearest integer, halves away from 0.", _ONE, parts.round),
    LibraryFunction("llround", "The nearest integer, halves away from 0; saturated, 0 for NaN.",
                    _LONG, parts.llround),
    LibraryFunction("llrint", "The nearest integer, halves to even; saturated, 0 for NaN.",
                    _LONG, parts.llrint),
    LibraryFunction("fdim", "x - y where that is positive, else 0.", _TWO, parts.fdim),
    LibraryFunction("fmod", "Remainder of the division cut toward 0.", _TWO, parts.fmod),
    LibraryFunction("remainder", "Remainder of the division rounded to the nearest integer.",
                    _TWO, parts.remainder),
    LibraryFunction("ldexp", "x · 2**n.", _WITH_INT, parts.ldexp),
    LibraryFunction("scalbn", "x · 2**n.", _WITH_INT, parts.ldexp),
    LibraryFunction("ilogb", "The exponent of x as an integer: least for 0 and NaN, largest for "
                    "infinity.", signatures("f32 -> i32", "f64 -> i32"), parts.ilogb),
    LibraryFunction("logb", "The exponent of x; -inf for 0, inf for infinity.", _ONE, parts.logb),
)  # fmt: skip
