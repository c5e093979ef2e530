"""A builder for elementwise formulas on floats of one type."""

from __future__ import annotations

from collections.abc import Sequence

from tegula.ir.builder import Builder
from tegula.ir.core import Block, Value
from tegula.ir.location import Location
from tegula.ir.types import DType, Type, elem_of, f32, f64, i1, i32, i64, u32, u64, with_elem


class Emitter(Builder):
    """Builds formulas on values like `like`: a scalar or a tile of f32 or f64.

    Besides every op of the IR it offers constants of the shape at hand, comparisons by name,
    reinterpretation between
    the float and the integers of its width, and polynomials. `mantissa` and the like are those of
    the float type, so that one formula can serve both.
    """

    def __init__(
        self, like: Type, block: Block, loc: Location | None = None, widest: DType = f64
    ) -> None:
        super().__init__(block, loc)
        self.widest = widest
        """The widest float of the machine."""
        elem = elem_of(like)
        assert elem in (f32, f64), f"formulas are written for f32 and f64, not {elem}"
        assert isinstance(elem, DType)
        self.elem = elem
        self.single = elem is f32
        self.int_elem, self.uint_elem = (i32, u32) if self.single else (i64, u64)
        self.float_type = like
        self.int_type = with_elem(like, self.int_elem)
        self.uint_type = with_elem(like, self.uint_elem)
        self.bool_type = with_elem(like, i1)
        self.width = elem.bits
        self.mantissa = elem.mantissa
        self.bias = elem.exponent_bias
        self._constants: dict[tuple[str, Type], Value] = {}

    # --- constants

    def _constant(self, value: float | int, type: Type) -> Value:
        key = (repr(value), type)  # repr keeps 0.0 and -0.0 apart
        if key not in self._constants:
            self._constants[key] = self.constant(value, type)
        return self._constants[key]

    def f(self, value: float) -> Value:
        """A float constant."""
        return self._constant(float(value), self.float_type)

    def i(self, value: int) -> Value:
        """A signed constant of the float's width."""
        return self._constant(value, self.int_type)

    def u(self, value: int) -> Value:
        """An unsigned constant of the float's width."""
        return self._constant(value, self.uint_type)

    # --- bits

    def as_int(self, x: Value) -> Value:
        """The bits of a float or an unsigned integer as a signed integer."""
        result: Value = self.bitcast(x, to=self.int_elem)
        return result

    def as_uint(self, x: Value) -> Value:
        """The bits of a float or a signed integer as an unsigned integer."""
        result: Value = self.bitcast(x, to=self.uint_elem)
        return result

    def as_float(self, x: Value) -> Value:
        """The float with these bits."""
        result: Value = self.bitcast(x, to=self.elem)
        return result

    def to_float(self, x: Value) -> Value:
        """The integer's value, rounded."""
        result: Value = self.cast(x, to=self.elem)
        return result

    def shift_left(self, x: Value, amount: int) -> Value:
        result: Value = self.shl(x, self._constant(amount, x.type))
        return result

    def shift_right(self, x: Value, amount: int) -> Value:
        """Arithmetic for signed integers, logical for unsigned ones."""
        result: Value = self.shr(x, self._constant(amount, x.type))
        return result

    # --- comparisons

    def lt(self, a: Value, b: Value) -> Value:
        result: Value = self.cmp(a, b, pred="lt")
        return result

    def gt(self, a: Value, b: Value) -> Value:
        result: Value = self.cmp(a, b, pred="gt")
        return result

    def eq(self, a: Value, b: Value) -> Value:
        result: Value = self.cmp(a, b, pred="eq")
        return result

    def at_most(self, x: Value, limit: Value) -> Value:
        """min(x, limit); a NaN stays. (This order of operands is one x86 instruction.)"""
        result: Value = self.select(self.lt(limit, x), limit, x)
        return result

    def at_least(self, x: Value, limit: Value) -> Value:
        """max(x, limit); a NaN stays."""
        result: Value = self.select(self.gt(limit, x), limit, x)
        return result

    # --- formulas

    def polynomial(self, x: Value, coefficients: Sequence[float]) -> Value:
        """c[0] + c[1] x + c[2] x² + ..., by Horner's rule: fewest operations, and the loops around
        have independent iterations to hide its latency.
        """
        *lower, highest = (self.f(c) for c in coefficients)
        result = highest
        for c in reversed(lower):
            result = self.fma(result, x, c)
        return result

    def copysign(self, magnitude: Value, sign: Value) -> Value:
        """A magnitude that is not negative, with the sign bit of `sign`."""
        top = self.and_(self.as_int(sign), self.i(self.int_elem.min_value))
        return self.as_float(self.or_(self.as_int(magnitude), top))
