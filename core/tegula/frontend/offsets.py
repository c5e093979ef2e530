"""Offsets that leave 32 bits are computed in 64.

An offset is computed in its own type, int32 for all that comes of program numbers, `arange` and
int32 arguments, and wraps where that is too narrow. Two things put it right:

Proof. Constants, `arange`, counters of loops with constant bounds, and sums, differences, products
and shifts of these have exact ranges. An offset of a pointer with a part whose range leaves its
32-bit type is computed in int64 from the leaves on.

Far arrays. Values that are only known at run time (program numbers, arguments, loaded values) prove
nothing. But an offset that wraps only matters where an array is so large that the true offset lies
in it: in a smaller one the sum of the wrapped parts is right again, or wrong either way. So a
kernel that is launched with an array of more than 2^30 elements has a variant of its own, in which
every int32 sum, difference and product that becomes an offset, or is compared, is computed in
int64. What the text of the kernel does not let follow to its leaves (a variable that a loop
carries, the result of a function) stays in int32 there, and is reported once, with its line.

Without far arrays nothing changes, and nothing is reported.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tegula.errors import OffsetWarning
from tegula.ir.core import Block, Op, Value
from tegula.ir.types import DType, elem_of, i32, i64, shape_of, with_elem

if TYPE_CHECKING:
    from .semantic import Semantic

Range = tuple[int, int]

FAR = "far"
"""Attribute of an array argument of more elements than half of int32's range."""
OPTION = "far_arrays"
"""Option of a compilation with such an argument."""

MOVES = frozenset("splat broadcast expand_dims reshape permute slice flip hint".split())
ARITHMETIC: dict[str, Callable[..., Range]] = {
    "add": lambda a, b: (a[0] + b[0], a[1] + b[1]),
    "sub": lambda a, b: (a[0] - b[1], a[1] - b[0]),
    "mul": lambda a, b: _hull(x * y for x in a for y in b),
    "neg": lambda a: (-a[1], -a[0]),
    "shl": lambda a, b: _hull(x << y for x in a for y in b),
}
CHOICES = {"min": 0, "max": 0, "select": 1}
"""Ops that hand on one of their operands, and the first of these."""
CARRIED = frozenset("for while if call reduce scan".split())
"""Ops behind whose results no leaves can be seen."""


def _hull(values: Any) -> Range:
    found = list(values)
    return min(found), max(found)


class Offsets:
    """The exact ranges of values of one function, as far as constants prove them."""

    def __init__(self, s: Semantic) -> None:
        self.s = s
        self.far = bool(s.options.get(OPTION))
        self.ranges: dict[Value, Range | None] = {}
        """None where nothing is known. Counters of loops are entered by the visitor."""
        self.given: set[Value] = set()
        """Parameters and counters: values that are what they are."""
        self.leaves: dict[Value, bool] = {}
        self.wide: dict[tuple[Block, Value], Value] = {}

    def counter(self, v: Value, turns: Range | None) -> None:
        """Enter the counter of a loop, and its first and last value if these are constant."""
        self.ranges[v] = turns
        self.given.add(v)

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
        """True if `v`, or a part that it is computed from, leaves its 32-bit type: provably, or,
        where arrays are far, possibly.
        """
        found = self.leaves.get(v)
        if found is None:
            op, elem, exact = v.owner, elem_of(v.type), self.range(v)
            found = False
            if op is not None and self._is_followed(op):
                found = any(self.leaves_its_type(o) for o in self._parts(op))
                if op.name in ARITHMETIC and isinstance(elem, DType) and elem.bits == 32:
                    if exact is None:
                        found = found or (self.far and elem is i32)
                    else:
                        found = found or exact[0] < elem.min_value or exact[1] > elem.max_value
            self.leaves[v] = found
        return found

    def _is_followed(self, op: Op) -> bool:
        """True for ops that are computed in int64 if their operands are."""
        if op.name == "shl":
            exact = self.range(op.operands[1])
            return exact is not None and 0 <= exact[0] <= exact[1] < 32
        if op.name in ARITHMETIC or op.name in MOVES:
            return True
        if not self.far:
            return False
        elem = elem_of(op.operands[-1].type) if op.operands else None
        return (op.name in CHOICES or (op.name == "cast" and op.attrs["to"] is i64)) and elem is i32

    def _parts(self, op: Op) -> tuple[Value, ...]:
        return op.operands[CHOICES.get(op.name, 0) :]

    def exact(self, v: Value) -> Value:
        """An offset of a pointer: as it is, or computed in int64 if it leaves its type."""
        if self.leaves_its_type(v):
            return self.widened(v)
        if self.far:
            self._look(v)
        return v

    def _look(self, v: Value) -> None:
        """Report what an offset is made of, if that may have left int32."""
        op = v.owner
        if op is not None and self._is_followed(op):
            for part in self._parts(op):
                self._look(part)
        else:
            self._report(v)

    def widened(self, v: Value) -> Value:
        """`v` computed in int64 from its leaves on."""
        place = self.s.b.block, v
        found = self.wide.get(place)
        if found is not None:
            return found
        op, b = v.owner, self.s.b
        if op is not None and op.name == "cast" and self._is_followed(op):
            out: Value = self.widened(op.operands[0])
        elif op is not None and self._is_followed(op):
            first = CHOICES.get(op.name, 0)
            inner = [self.widened(o) for o in op.operands[first:]]
            out = b.create(op.name, *op.operands[:first], *inner, **op.attrs)
        elif elem_of(v.type) is i64:
            out = v
        elif op is not None and op.name == "constant":
            out = b.constant(op.attrs["value"], with_elem(v.type, i64))
        else:
            self._report(v)
            out = b.create("cast", v, to=i64)
        if op is not None and shape_of(v.type) != shape_of(out.type):
            raise AssertionError(f"{op.name} changed its shape")
        self.wide[place] = out
        return out

    def _report(self, v: Value) -> None:
        """Warn of a leaf that is itself computed in int32, out of sight."""
        hidden = v.owner.name in CARRIED if v.owner is not None else v not in self.given
        if not (self.far and hidden and elem_of(v.type) is i32):
            return
        what = "is carried by a loop" if v.owner is None else f"is the result of `{v.owner.name}`"
        visitor = self.s.visitor
        frame = visitor.frame(visitor.at)
        message = (
            f"{frame.file}:{frame.line}: in `{frame.function}`: an offset may leave int32: a part "
            f"of it {what} and computed in int32, and an array of more than 2^30 elements was "
            "passed; convert that part with x.to(tl.int64) where it begins"
        )
        notes = self.s.options.get("notes")
        if isinstance(notes, list):
            if message not in notes:
                notes.append(message)
        else:
            warnings.warn(message, OffsetWarning, stacklevel=2)
