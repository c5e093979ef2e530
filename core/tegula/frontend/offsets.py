"""Offsets that leave 32 bits are computed in 64.

An offset is computed in its own type, int32 for all that comes of program numbers, `arange` and
int32 arguments, and wraps where that is too narrow. What can be proven from the text of a kernel is
put right: constants, `arange`, counters of loops with constant bounds, and sums, differences,
products and shifts of these have exact ranges. An offset of a pointer with a part whose range
leaves its 32-bit type is computed in int64 from the leaves on. Values that are only known at run
time (program numbers, arguments, loaded values) prove nothing: their products stay in int32, as the
author wrote them, and debugging (`debug=True`) checks them while the kernel runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tegula.ir.core import Op, Value
from tegula.ir.types import DType, elem_of, i64, shape_of, with_elem

if TYPE_CHECKING:
    from .semantic import Semantic

Range = tuple[int, int]

MOVES = frozenset("splat broadcast expand_dims reshape permute slice flip hint".split())
ARITHMETIC: dict[str, Callable[..., Range]] = {
    "add": lambda a, b: (a[0] + b[0], a[1] + b[1]),
    "sub": lambda a, b: (a[0] - b[1], a[1] - b[0]),
    "mul": lambda a, b: _hull(x * y for x in a for y in b),
    "neg": lambda a: (-a[1], -a[0]),
    "shl": lambda a, b: _hull(x << y for x in a for y in b),
}


def _hull(values: Any) -> Range:
    found = list(values)
    return min(found), max(found)


class Offsets:
    """The exact ranges of values of one function, as far as constants prove them."""

    def __init__(self, s: Semantic) -> None:
        self.s = s
        self.ranges: dict[Value, Range | None] = {}
        """None where nothing is known. Counters of loops are entered by the visitor."""
        self.leaves: dict[Value, bool] = {}
        self.wide: dict[Value, Value] = {}

    def range(self, v: Value) -> Range | None:
        """The values that `v` takes if nothing wraps; None if unknown."""
        if v not in self.ranges:
            self.ranges[v] = self._range(v)
        return self.ranges[v]

    def _range(self, v: Value) -> Range | None:
        op, elem = v.owner, elem_of(v.type)
        if op is None or not isinstance(elem, DType) or not elem.is_int:
            return None
        if op.name == "constant":
            return int(op.attrs["value"]), int(op.attrs["value"])
        if op.name == "arange":
            return op.attrs["start"], max(op.attrs["start"], op.attrs["end"] - 1)
        if op.name in MOVES or (op.name == "cast" and self._keeps(op)):
            return self.range(op.operands[0])
        if op.name in ARITHMETIC:
            inner: list[Any] = [self.range(o) for o in op.operands]
            if None in inner or (op.name == "shl" and not 0 <= inner[1][0] <= inner[1][1] < 32):
                return None
            return ARITHMETIC[op.name](*inner)
        return None

    def _keeps(self, op: Op) -> bool:
        """True for a conversion of integers that changes no value."""
        source, to = elem_of(op.operands[0].type), op.attrs["to"]
        inner = self.range(op.operands[0])
        if inner is None or not (isinstance(source, DType) and isinstance(to, DType)):
            return False
        return to.is_int and to.min_value <= inner[0] <= inner[1] <= to.max_value

    def leaves_its_type(self, v: Value) -> bool:
        """True if `v`, or a part that it is computed from, provably leaves its 32-bit type."""
        found = self.leaves.get(v)
        if found is None:
            op, elem, exact = v.owner, elem_of(v.type), self.range(v)
            found = False
            if op is not None and (op.name in ARITHMETIC or op.name in MOVES):
                found = any(self.leaves_its_type(o) for o in op.operands)
                if exact is not None and isinstance(elem, DType) and elem.bits == 32:
                    found = found or exact[0] < elem.min_value or exact[1] > elem.max_value
            self.leaves[v] = found
        return found

    def widened(self, v: Value) -> Value:
        """`v` computed in int64 from its leaves on."""
        found = self.wide.get(v)
        if found is not None:
            return found
        op, b = v.owner, self.s.b
        if op is not None and op.name in ARITHMETIC | dict.fromkeys(MOVES):
            inner = [self.widened(o) for o in op.operands]
            out: Value = b.create(op.name, *inner, **op.attrs)
        elif elem_of(v.type) is i64:
            out = v
        elif op is not None and op.name == "constant":
            out = b.constant(op.attrs["value"], with_elem(v.type, i64))
        else:
            out = b.create("cast", v, to=i64)
        if op is not None and shape_of(v.type) != shape_of(out.type):
            raise AssertionError(f"{op.name} changed its shape")
        self.wide[v] = out
        return out
