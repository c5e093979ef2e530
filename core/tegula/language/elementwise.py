"""Arithmetic and mathematical functions, element by element."""

from __future__ import annotations

import warnings
from enum import Enum
from typing import TYPE_CHECKING, Any

from tegula.frontend.diagnostics import LanguageError
from tegula.frontend.promotion import name_of
from tegula.ir.types import DType, f32, f64, i1, u32, u64

from .builtin import Builtin, builtin
from .values import describe, is_number, tensor

if TYPE_CHECKING:
    from tegula.frontend.semantic import Semantic


class PropagateNan(Enum):
    """What min, max and clamp do with NaN: NONE ignores it, ALL hands it on."""

    NONE = "ignore"
    ALL = "propagate"


def _nan_rule(propagate_nan: Any, what: str) -> str:
    if not isinstance(propagate_nan, PropagateNan):
        raise LanguageError(
            f"{what}: propagate_nan is tl.PropagateNan.NONE or tl.PropagateNan.ALL, not "
            f"{describe(propagate_nan)}"
        )
    return propagate_nan.value


# ---- operators as functions


@builtin
def add(s: Semantic, x: Any, y: Any, sanitize_overflow: bool = True) -> tensor:
    """x + y; with `sanitize_overflow` debugging checks that integers do not overflow."""
    return s.add(x, y, s.flag(sanitize_overflow, "add: sanitize_overflow"))


@builtin
def sub(s: Semantic, x: Any, y: Any, sanitize_overflow: bool = True) -> tensor:
    """x - y; with `sanitize_overflow` debugging checks that integers do not overflow."""
    return s.sub(x, y, s.flag(sanitize_overflow, "sub: sanitize_overflow"))


@builtin
def mul(s: Semantic, x: Any, y: Any, sanitize_overflow: bool = True) -> tensor:
    """x * y; with `sanitize_overflow` debugging checks that integers do not overflow."""
    return s.mul(x, y, s.flag(sanitize_overflow, "mul: sanitize_overflow"))


@builtin
def logical_and(s: Semantic, input: Any, other: Any) -> tensor:
    """Both differ from zero."""
    return s.logical("and", input, other)


@builtin
def logical_or(s: Semantic, input: Any, other: Any) -> tensor:
    """One or both differ from zero."""
    return s.logical("or", input, other)


@builtin
def where(s: Semantic, condition: Any, x: Any, y: Any) -> tensor:
    """x where the condition holds, else y. Both are evaluated."""
    cond = s.truth(condition, "where: condition")
    if isinstance(condition, tensor) and condition.ir_elem is not i1:
        warnings.warn(
            f"{s.b.loc}: where: the condition is {describe(condition)} and not of booleans; "
            "compare it, for example `x != 0`",
            UserWarning,
            stacklevel=2,
        )
    pointers = [isinstance(v, tensor) and v.is_pointer for v in (x, y)]
    if any(pointers):
        a, b = s.to_tensor(x, "where: x"), s.to_tensor(y, "where: y")
        if a.ir_elem is not b.ir_elem:
            raise LanguageError(f"where: {describe(a)} and {describe(b)} differ in type")
    else:
        a, b, _ = s.operands(x, y, "where")
    cond, a, b = s.broadcast(cond, a, b)
    return s.emit("select", cond.handle, a.handle, b.handle)


@builtin
def minimum(s: Semantic, x: Any, y: Any, propagate_nan: PropagateNan = PropagateNan.NONE) -> tensor:
    """The smaller of two."""
    a, b, _ = s.operands(x, y, "minimum")
    return s.emit("min", a.handle, b.handle, nan=_nan_rule(propagate_nan, "minimum"))


@builtin
def maximum(s: Semantic, x: Any, y: Any, propagate_nan: PropagateNan = PropagateNan.NONE) -> tensor:
    """The larger of two."""
    a, b, _ = s.operands(x, y, "maximum")
    return s.emit("max", a.handle, b.handle, nan=_nan_rule(propagate_nan, "maximum"))


@builtin
def clamp(
    s: Semantic, x: Any, min: Any, max: Any, propagate_nan: PropagateNan = PropagateNan.NONE
) -> tensor:
    """x limited to min..max. With NONE a NaN in x gives min, with ALL it stays NaN."""
    nan = _nan_rule(propagate_nan, "clamp")
    a, low, _ = s.operands(x, min, "clamp")
    raised = s.emit("max", a.handle, low.handle, nan=nan)
    b, high, _ = s.operands(raised, max, "clamp")
    return s.emit("min", b.handle, high.handle, nan=nan)


@builtin
def abs(s: Semantic, x: Any) -> tensor:
    """The magnitude; unsigned values stay as they are."""
    a = s.to_tensor(x, "abs: x")
    elem = s.numbers(a, "abs")
    if elem is not None and elem.is_int and not elem.is_signed:
        return a
    return s.emit("abs", a.handle)


# ---- fused and divided


def _float_operands(s: Semantic, what: str, *xs: Any) -> list[tensor]:
    """All operands in one float type and shape."""
    a = s.to_tensor(xs[0], f"{what}: operand")
    out = [a]
    for x in xs[1:]:
        a, b, t = s.operands(a, x, what)
        if not t.is_float:
            raise LanguageError(
                f"{what} takes floats, not {name_of(t)}", "convert first: x.to(tl.float32)"
            )
        out = [s.broadcast_to(s.cast(o, t), a.ir_shape) for o in out]
        out[0] = a
        out.append(b)
    return out


@builtin
def fma(s: Semantic, x: Any, y: Any, z: Any) -> tensor:
    """x * y + z, rounded once."""
    a, b, c = _float_operands(s, "fma", x, y, z)
    return s.emit("fma", a.handle, b.handle, c.handle)


@builtin
def fdiv(s: Semantic, x: Any, y: Any, ieee_rounding: bool = False, approx: bool = False) -> tensor:
    """x / y of floats, in their own type."""
    a, b = _float_operands(s, "fdiv", x, y)
    return s.emit("div", a.handle, b.handle)


@builtin
def div_rn(s: Semantic, x: Any, y: Any) -> tensor:
    """x / y in fp32, rounded to nearest even."""
    a, b = _float_operands(s, "div_rn", x, y)
    if a.ir_elem is not f32:
        raise LanguageError(f"div_rn takes fp32, not {a.dtype}", "convert first: x.to(tl.float32)")
    return s.emit("div", a.handle, b.handle)


@builtin
def umulhi(s: Semantic, x: Any, y: Any) -> tensor:
    """The upper half of the product of 32-bit or 64-bit integers."""
    a, b, t = s.operands(x, y, "umulhi")
    if not t.is_int or t.bits < 32:
        raise LanguageError(f"umulhi takes 32-bit or 64-bit integers, not {name_of(t)}")
    u = u32 if t.bits == 32 else u64
    high = s.emit("mulhi", s.bitcast(a, u).handle, s.bitcast(b, u).handle)
    return s.bitcast(high, t)


# ---- functions of one float


def unary_math(
    s: Semantic, name: str, op: str, x: Any, only: tuple[DType, ...] = (f32, f64)
) -> tensor:
    """A function that exists for some float types; narrower ones are cast by the author, never
    silently.
    """
    a = s.to_tensor(x, f"{name}: x")
    if a.ir_elem not in only:
        known = " or ".join(name_of(t) for t in only)
        raise LanguageError(
            f"{name} takes {known}, not {describe(a)}",
            f"convert first: tl.{name}(x.to(tl.float32))",
        )
    return s.emit(op, a.handle)


def _declare(name: str, doc: str, only: tuple[DType, ...] = (f32, f64), op: str = "") -> Any:
    def emit(s: Semantic, x: Any) -> tensor:
        return unary_math(s, name, op or name, x, only)

    emit.__name__ = emit.__qualname__ = name
    emit.__doc__ = doc
    return Builtin(emit)


exp = _declare("exp", "e to the power of x.")
exp2 = _declare("exp2", "2 to the power of x.")
log = _declare("log", "Natural logarithm.")
log2 = _declare("log2", "Logarithm to base 2.")
sqrt = _declare("sqrt", "Square root.")
rsqrt = _declare("rsqrt", "1 over the square root.")
sin = _declare("sin", "Sine of x in radians.")
cos = _declare("cos", "Cosine of x in radians.")
tanh = _declare("tanh", "Hyperbolic tangent.")
erf = _declare("erf", "Error function.")
floor = _declare("floor", "The largest integer value not above x.")
ceil = _declare("ceil", "The smallest integer value not below x.")
sqrt_rn = _declare("sqrt_rn", "Square root in fp32, rounded to nearest even.", (f32,), "sqrt")


def power(s: Semantic, x: tensor, y: tensor) -> tensor:
    """`x ** y` of two floats of one type and shape, computed in fp64: 1 where y is 0 or x is 1, NaN
    for a negative base and an exponent that is no integer.
    """
    a, b = s.cast(x, f64), s.cast(y, f64)
    size = s.emit("log2", s.emit("abs", a.handle).handle)
    size = s.emit("exp2", s.mul(b, size).handle)
    half = s.mul(b, 0.5)
    whole = s.compare("eq", s.emit("floor", b.handle), b)
    odd = s.logical("and", whole, s.compare("ne", s.emit("floor", half.handle), half))
    negative = s.compare("lt", a, 0.0)
    one = s.constant(1.0, f64, x.ir_shape)
    nan = s.constant(float("nan"), f64, x.ir_shape)
    minus = s.neg(size)
    out = s.emit("select", s.logical("and", negative, odd).handle, minus.handle, size.handle)
    undefined = s.logical("and", negative, s.logical_not(whole))
    out = s.emit("select", undefined.handle, nan.handle, out.handle)
    trivial = s.logical("or", s.compare("eq", b, 0.0), s.compare("eq", a, 1.0))
    return s.cast(s.emit("select", trivial.handle, one.handle, out.handle), x.ir_elem)


_PYTHON = {"min": min, "max": max}


def builtin_extreme(s: Semantic, op: str, xs: tuple[Any, ...]) -> Any:
    """Python's `min` and `max` of two or more values in a kernel."""
    if len(xs) == 1 and isinstance(xs[0], tuple):
        (xs,) = xs
    if not xs:
        raise LanguageError(f"{op} of nothing")
    for x in xs:
        if isinstance(x, float) and (x != x or str(x) == "-0.0"):
            raise LanguageError(
                f"Python's {op} of {x} depends on the order of its arguments",
                f"write tl.{op}imum(a, b, propagate_nan=...)",
            )
    if all(is_number(x) for x in xs):
        return _PYTHON[op](xs)
    if any(isinstance(x, tensor) and x.ir_shape for x in xs) and len(xs) == 1:
        raise LanguageError(
            f"Python's {op} takes several values", f"to reduce a tile write tl.{op}(x, axis=0)"
        )
    result = xs[0]
    for x in xs[1:]:
        if is_number(result) and is_number(x):
            result = _PYTHON[op](result, x)
            continue
        a, b, _ = s.operands(result, x, op)
        result = s.emit(op, a.handle, b.handle)
    return result
