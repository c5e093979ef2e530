"""Values with operators, so that longer formulas read like mathematics.

A `Number` is a scalar or a tile of one element type; Python numbers beside it become constants of
its type. Every operator appends one op of the IR, so nothing is fused or reordered that the formula
does not fuse or reorder itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias, Union

from tegula.ir.core import Value
from tegula.ir.types import DType, elem_of, with_elem

from .emitter import Emitter

Operand: TypeAlias = Union["Number", float, int]


class Number:
    """A value under construction: `x * x + 1.0`, `x < y`, `bits >> 3`."""

    __slots__ = ("e", "value")
    __hash__ = None  # type: ignore[assignment]  # == builds a comparison

    def __init__(self, e: Emitter, value: Value) -> None:
        self.e = e
        self.value = value

    @property
    def elem(self) -> DType:
        """The element type."""
        elem = elem_of(self.value.type)
        assert isinstance(elem, DType)
        return elem

    def like(self, other: Operand) -> Number:
        """A constant of this number's type; a number stays as it is."""
        if isinstance(other, Number):
            return other
        value = float(other) if self.elem.is_float else int(other)
        return Number(self.e, self.e._constant(value, self.value.type))

    def emit(self, op: str, *others: Operand, **attrs: Any) -> Number:
        """An op of the IR on this number and others of its type."""
        values = [self.like(other).value for other in others]
        return Number(self.e, self.e.create(op, self.value, *values, **attrs))

    def __add__(self, other: Operand) -> Number:
        return self.emit("add", other)

    def __radd__(self, other: Operand) -> Number:
        return self.like(other).emit("add", self)

    def __sub__(self, other: Operand) -> Number:
        return self.emit("sub", other)

    def __rsub__(self, other: Operand) -> Number:
        return self.like(other).emit("sub", self)

    def __mul__(self, other: Operand) -> Number:
        return self.emit("mul", other)

    def __rmul__(self, other: Operand) -> Number:
        return self.like(other).emit("mul", self)

    def __truediv__(self, other: Operand) -> Number:
        return self.emit("div", other)

    def __rtruediv__(self, other: Operand) -> Number:
        return self.like(other).emit("div", self)

    def __neg__(self) -> Number:
        return self.emit("neg")

    def __abs__(self) -> Number:
        return self.emit("abs")

    def __and__(self, other: Operand) -> Number:
        return self.emit("and", other)

    def __or__(self, other: Operand) -> Number:
        return self.emit("or", other)

    def __xor__(self, other: Operand) -> Number:
        return self.emit("xor", other)

    def __invert__(self) -> Number:
        return self.emit("not")

    def __lshift__(self, other: Operand) -> Number:
        return self.emit("shl", other)

    def __rshift__(self, other: Operand) -> Number:
        return self.emit("shr", other)

    def __lt__(self, other: Operand) -> Number:
        return self.emit("cmp", other, pred="lt")

    def __le__(self, other: Operand) -> Number:
        return self.emit("cmp", other, pred="le")

    def __gt__(self, other: Operand) -> Number:
        return self.emit("cmp", other, pred="gt")

    def __ge__(self, other: Operand) -> Number:
        return self.emit("cmp", other, pred="ge")

    def __eq__(self, other: Operand) -> Number:  # type: ignore[override]
        return self.emit("cmp", other, pred="eq")

    def __ne__(self, other: Operand) -> Number:  # type: ignore[override]
        return self.emit("cmp", other, pred="ne")

    def to(self, elem: DType, rounding: str = "rtne") -> Number:
        """Converted by value; floats to integers truncate and saturate, NaN gives 0."""
        if elem is self.elem:
            return self
        return Number(self.e, self.e.create("cast", self.value, to=elem, rounding=rounding))

    def bits(self, elem: DType) -> Number:
        """The same bits as another type of the same width."""
        if elem is self.elem:
            return self
        return Number(self.e, self.e.create("bitcast", self.value, to=elem))

    def as_int(self) -> Number:
        """The bits of a float as a signed integer."""
        return Number(self.e, self.e.as_int(self.value))

    def as_uint(self) -> Number:
        """The bits of a float as an unsigned integer."""
        return Number(self.e, self.e.as_uint(self.value))

    def as_float(self) -> Number:
        """The float of the formula's type with these bits."""
        return Number(self.e, self.e.as_float(self.value))

    def sqrt(self) -> Number:
        return self.emit("sqrt")

    def rint(self) -> Number:
        return self.emit("rint")

    def floor(self) -> Number:
        return self.emit("floor")

    def trunc(self) -> Number:
        return self.emit("trunc")

    def negative(self) -> Number:
        """Whether the sign bit of a float is set."""
        return self.as_int() < 0

    def whole(self) -> Number:
        """Whether a float is an integer; infinities are, NaN is not."""
        return self.trunc() == self

    def finite(self) -> Number:
        """Whether a float is neither infinite nor NaN."""
        return abs(self) < float("inf")


def numbers(e: Emitter, *values: Value) -> list[Number]:
    """Values with operators."""
    return [Number(e, value) for value in values]


def fma(a: Operand, b: Operand, c: Operand) -> Number:
    """a * b + c, rounded once."""
    (first,) = [x for x in (a, b, c) if isinstance(x, Number)][:1]
    a, b, c = (first.like(x) for x in (a, b, c))
    return a.emit("fma", b, c)


def where(condition: Number, a: Operand, b: Operand, unlikely: bool = False) -> Number:
    """a where the condition holds, else b. `unlikely`: see the op `select`."""
    if not isinstance(a, Number):
        assert isinstance(b, Number)
        a = b.like(a)
    b = a.like(b)
    e = condition.e
    return Number(e, e.select(condition.value, a.value, b.value, unlikely=unlikely))


def polynomial(x: Number, coefficients: Sequence[float]) -> Number:
    """c[0] + c[1] x + c[2] x² + ..., by Horner's rule."""
    *lower, highest = coefficients
    result = x.like(highest)
    for c in reversed(lower):
        result = fma(result, x, c)
    return result


def copysign(magnitude: Number, sign: Number) -> Number:
    """|magnitude| with the sign bit of `sign`."""
    least = magnitude.e.int_elem.min_value
    top = sign.as_int() & least
    return ((magnitude.as_int() & ~least) | top).as_float()


def minimum(a: Number, b: Operand) -> Number:
    """The smaller of two; NaN is ignored."""
    return a.emit("min", b)


def maximum(a: Number, b: Operand) -> Number:
    """The larger of two; NaN is ignored."""
    return a.emit("max", b)


def power_of_two(n: Number) -> Number:
    """2**n of an integer n of the float's width, in the range of normal numbers."""
    e = n.e
    return ((n + e.bias) << e.mantissa).as_float()


def scaled(x: Number, n: Number) -> Number:
    """x · 2**n for x within a few binades of 1 and an integer n of the float's width, of up to
    twice the size of any exponent. Only the last product rounds, where the result is denormal.
    """
    half = n >> 1
    return x * power_of_two(half) * power_of_two(n - half)


def split_exponent(x: Number) -> tuple[Number, Number]:
    """m and n with x = m 2**n and 1 <= |m| < 2; 0, infinity and NaN keep themselves as m, n = 0."""
    e = x.e
    tiny = abs(x) < 2.0 ** (1 - e.bias)
    bits = where(tiny, x * 2.0**e.mantissa, x).as_int()
    all_ones = (1 << (e.width - 1 - e.mantissa)) - 1
    field = (bits >> e.mantissa) & all_ones
    n = field - where(tiny, field.like(e.bias + e.mantissa), field.like(e.bias))
    m = (bits & ~(all_ones << e.mantissa)) | (e.bias << e.mantissa)
    special = ~x.finite() | (x == 0.0)
    return where(special, x, m.as_float()), where(special, n.like(0), n)


def load_exponent(x: Number, n: Number) -> Number:
    """x · 2**n for any x and any integer n of the float's width, rounded once."""
    e = x.e
    limit = 3 * (e.bias + e.mantissa)
    m, own = split_exponent(x)
    n = minimum(maximum(n, -limit), limit) + own
    reach = 2 * e.bias - 4
    return scaled(m, minimum(maximum(n, -reach), reach))


def in_type(x: Number, elem: DType) -> Number:
    """The number in the other float type, with a formula's tools for that type."""
    e = Emitter(with_elem(x.value.type, elem), x.e.block, x.e.loc, x.e.widest)
    return Number(e, x.to(elem).value)


def widened(x: Number) -> Number:
    """The number in the widest float type of the machine."""
    return x if x.elem is x.e.widest else in_type(x, x.e.widest)
