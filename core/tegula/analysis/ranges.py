"""Value ranges: the smallest and largest integer that a value (each element of a tile) can be."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tegula.ir.core import Op, Value
from tegula.ir.types import Descriptor, DType, elem_of

Range = tuple[int, int]
MAX_DEPTH = 64
_GRID_MAX = (1 << 31) - 1


class Ranges:
    """Ranges of integer values, found by looking at what makes them and remembered.

    `counters` maps the counter of each enclosing loop to the loop, whose bounds then limit it.
    A sum or product that might wrap is given the full range of its type.
    """

    def __init__(self, counters: Mapping[Value, Op] | None = None) -> None:
        self.counters = {} if counters is None else counters
        self._known: dict[Value, Range] = {}

    def of(self, value: Value, depth: int = 0) -> Range:
        """Smallest and largest value.  Only for integers."""
        found = self._known.get(value)
        if found is None:
            found = self._find(value, depth)
            self._known[value] = found
        return found

    def _find(self, value: Value, depth: int) -> Range:
        unknown = self._unknown(value)
        if depth > MAX_DEPTH:
            return unknown
        owner = value.owner
        if owner is None:
            loop = self.counters.get(value)
            return unknown if loop is None else self._counter(loop, unknown, depth)
        rule = _RULES.get(owner.name)
        return unknown if rule is None else self._fitting(value, rule(self, owner, depth + 1))

    def _unknown(self, value: Value) -> Range:
        """The range of a value that nothing is known of."""
        return full_range(value)

    def _fitting(self, value: Value, found: Range) -> Range:
        """The range of a value whose exact result is in a range."""
        full = full_range(value)
        return found if full[0] <= found[0] and found[1] <= full[1] else full

    def divisor(self, found: Range) -> Range:
        """The range of a divisor, which has to be positive for a quotient to be told."""
        return found

    def _counter(self, loop: Op, full: Range, depth: int) -> Range:
        lb, ub, step = (self.of(v, depth + 1) for v in loop.operands[:3])
        if step[0] > 0:
            return lb[0], max(lb[0], ub[1] - 1)
        if step[1] < 0:
            return min(lb[1], ub[0] + 1), lb[1]
        return full


class UsualRanges(Ranges):
    """Ranges where arguments, loaded numbers and carried ones are positive, as sizes, strides and
    indices are, divisors too, and nothing wraps: below zero is what is moved there.
    """

    def _unknown(self, value: Value) -> Range:
        return 1, full_range(value)[1]

    def _fitting(self, value: Value, found: Range) -> Range:
        return found

    def divisor(self, found: Range) -> Range:
        return max(1, found[0]), max(1, found[1])


def full_range(value: Value) -> Range:
    """The range of the value's type (pointers: of an unsigned 64-bit number)."""
    assert not isinstance(value.type, Descriptor)
    elem = elem_of(value.type)
    if not isinstance(elem, DType):
        return 0, (1 << 64) - 1
    return elem.min_value, elem.max_value


def _constant(r: Ranges, op: Op, depth: int) -> Range:
    value = op.attrs["value"]
    return value, value


def _same(r: Ranges, op: Op, depth: int) -> Range:
    return r.of(op.operands[0], depth)


def _add(r: Ranges, op: Op, depth: int) -> Range:
    (a, b), (c, d) = r.of(op.operands[0], depth), r.of(op.operands[1], depth)
    return a + c, b + d


def _sub(r: Ranges, op: Op, depth: int) -> Range:
    (a, b), (c, d) = r.of(op.operands[0], depth), r.of(op.operands[1], depth)
    return a - d, b - c


def _mul(r: Ranges, op: Op, depth: int) -> Range:
    (a, b), (c, d) = r.of(op.operands[0], depth), r.of(op.operands[1], depth)
    corners = (a * c, a * d, b * c, b * d)
    return min(corners), max(corners)


def _div(r: Ranges, op: Op, depth: int) -> Range:
    (a, b), (c, d) = r.of(op.operands[0], depth), r.divisor(r.of(op.operands[1], depth))
    if c <= 0:
        return full_range(op.results[0])
    corners = [_truncated(x, y) for x in (a, b) for y in (c, d)]
    return min(corners), max(corners)


def _truncated(x: int, y: int) -> int:
    q = abs(x) // abs(y)
    return q if (x < 0) == (y < 0) else -q


def _rem(r: Ranges, op: Op, depth: int) -> Range:
    (a, b), (c, d) = r.of(op.operands[0], depth), r.of(op.operands[1], depth)
    limit = max(abs(c) - 1, abs(d) - 1, 0)
    return max(a, -limit) if a < 0 else 0, min(b, limit) if b > 0 else 0


def _min(r: Ranges, op: Op, depth: int) -> Range:
    (a, b), (c, d) = r.of(op.operands[0], depth), r.of(op.operands[1], depth)
    return min(a, c), min(b, d)


def _max(r: Ranges, op: Op, depth: int) -> Range:
    (a, b), (c, d) = r.of(op.operands[0], depth), r.of(op.operands[1], depth)
    return max(a, c), max(b, d)


def _and(r: Ranges, op: Op, depth: int) -> Range:
    tops = [high for low, high in (r.of(v, depth) for v in op.operands) if low >= 0]
    return (0, min(tops)) if tops else full_range(op.results[0])


def _neg(r: Ranges, op: Op, depth: int) -> Range:
    a, b = r.of(op.operands[0], depth)
    return -b, -a


def _shl(r: Ranges, op: Op, depth: int) -> Range:
    (a, b), (c, d) = r.of(op.operands[0], depth), r.of(op.operands[1], depth)
    if c < 0 or d > 64:
        return full_range(op.results[0])
    return min(a << c, a << d), max(b << c, b << d)


def _shr(r: Ranges, op: Op, depth: int) -> Range:
    (a, b), (c, d) = r.of(op.operands[0], depth), r.of(op.operands[1], depth)
    if a < 0 or c < 0:
        return full_range(op.results[0])
    return a >> d if d < 64 else 0, b >> c


def _select(r: Ranges, op: Op, depth: int) -> Range:
    (a, b), (c, d) = r.of(op.operands[1], depth), r.of(op.operands[2], depth)
    return min(a, c), max(b, d)


def _cast(r: Ranges, op: Op, depth: int) -> Range:
    source = op.operands[0].type
    assert not isinstance(source, Descriptor)
    elem = elem_of(source)
    if not isinstance(elem, DType) or elem.is_float or not _is_int(op.results[0]):
        return full_range(op.results[0])
    if op.results[0].type is not source and elem_of(op.results[0].type).bits == 1:  # type: ignore
        return 0, 1
    return r.of(op.operands[0], depth)


def _is_int(value: Value) -> bool:
    assert not isinstance(value.type, Descriptor)
    elem = elem_of(value.type)
    return isinstance(elem, DType) and elem.is_int


def _pair(r: Ranges, op: Op, depth: int) -> Range:
    return _min(r, op, depth)[0], _max(r, op, depth)[1]


_RULES: dict[str, Callable[[Ranges, Op, int], Any]] = {
    "constant": _constant,
    "arange": lambda r, op, depth: (op.attrs["start"], max(op.attrs["start"], op.attrs["end"] - 1)),
    "program_id": lambda r, op, depth: (0, _GRID_MAX - 1),
    "num_programs": lambda r, op, depth: (1, _GRID_MAX),
    **dict.fromkeys(("splat", "broadcast", "expand_dims", "reshape", "permute"), _same),
    **dict.fromkeys(("hint", "slice"), _same),
    "split": _same,
    "cat": _pair,
    "join": _pair,
    "add": _add,
    "sub": _sub,
    "mul": _mul,
    "neg": _neg,
    "shl": _shl,
    "div": _div,
    "rem": _rem,
    "min": _min,
    "max": _max,
    "and": _and,
    "shr": _shr,
    "select": _select,
    "cast": _cast,
}
