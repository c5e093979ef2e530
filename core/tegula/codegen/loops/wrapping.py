"""Indices that may wrap around: what proves that they do not, and what is asked where nothing does.

A 32-bit index that is linear modulo 2**32 is linear in 64 bits too only if it does not leave its
type between two lanes.  An offset of a pointer is extended to 64 bits, and a mask is cut where it
meets its bound, so both need that.  It follows from

* value ranges (`Exprs.stays`): nothing is emitted;
* a comparison of a tile's first element, once per nest (`never_leaves`);
* a comparison of a row's first element (`lanes.row_stays`), where rows begin anywhere.

Where a comparison fails, another version of the nest or row computes every lane for itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import TYPE_CHECKING

from tegula.codegen.loops.evaluate import Index
from tegula.codegen.loops.exprs import RUNTIME, Exprs, is_tile
from tegula.codegen.loops.lanes import Uni, within
from tegula.codegen.loops.text import Val
from tegula.ir.core import Op, Value
from tegula.ir.types import DType, elem_of, shape_of

if TYPE_CHECKING:
    from tegula.codegen.loops.nest import Nest

LINEAR = frozenset({"add", "sub", "mul", "shl", "cast", "addptr", "rem"})
MOVED = frozenset({"broadcast", "expand_dims", "permute", "reshape", "slice", "flip", "hint"})
MOST = 1 << 20
"""Tiles larger than this along a dimension of unknown stride are not looked at."""


def index_type(v: Value) -> DType | None:
    """The dtype of a signed index of at least 32 bits, which may be linear along a row."""
    e = elem_of(v.type)
    wide = isinstance(e, DType) and e.is_int and e.is_signed and e.bits >= 32
    return e if wide and isinstance(e, DType) else None


def extends(op: Op) -> bool:
    """Whether an op extends the integers that are its last operand."""
    if op.name == "addptr":
        e = elem_of(op.operands[1].type)
        return isinstance(e, DType) and e.bits < 64
    if op.name != "cast":
        return False
    e, to = elem_of(op.operands[0].type), op.attrs["to"]
    return isinstance(e, DType) and isinstance(to, DType) and (
        e.is_int and to.is_int and to.bits > e.bits)


def parts(v: Value) -> Iterator[Op]:
    """The ops that make a value and may be linear, from it on."""
    stack, seen = [v], {v}
    while stack:
        op = stack.pop().owner
        if op is None or not (op.name in LINEAR or op.name in MOVED):
            continue
        yield op
        for o in op.operands:
            if is_tile(o) and o not in seen:
                seen.add(o)
                stack.append(o)


def unmoved(v: Value) -> Value:
    """The value whose elements `v` only arranges."""
    while v.owner is not None and v.owner.name in MOVED:
        v = v.owner.operands[0]
    return v


def stays(x: Exprs, v: Value, extent: int) -> bool:
    """Whether ranges prove that a linear value leaves its type nowhere."""
    rank = len(shape_of(v.type))
    return all(x.stays(v, x.stride(v, d), extent) for d in range(rank))


class Wrapping:
    """The indices of a nest that are not proven to stay within their type."""

    def __init__(self, nest: Nest) -> None:
        self.nest, self.k, self.w = nest, nest.k, nest.w
        self.conditions: dict[Value, Val | None] = {}

    def along(self, index: Index) -> dict[Value, None]:
        """Values that vary along the row, matter to an address or mask, and may wrap around."""
        from tegula.codegen.loops.masks import collect_terms

        nest, found = self.nest, {}
        pairs = nest.walk(index, every=True)
        wanted: set[Op] = set()
        for v, _ in pairs:
            if v.owner is not None and v.owner.name == "addptr":
                wanted.add(v.owner)
                wanted |= set(parts(v.owner.operands[1]))
        terms = collect_terms(nest, index).all if nest.masked() else {}
        for term, i in terms:
            assert term.owner is not None
            for o in term.owner.operands:
                wanted |= set(parts(o))
                self._note(o, i, found)
        for v, i in pairs:
            op = v.owner
            if op in wanted and extends(op):  # type: ignore[arg-type]
                self._note(op.operands[-1], i, found)  # type: ignore[union-attr]
        return found

    def _note(self, v: Value, index: Index, found: dict[Value, None]) -> None:
        x = self.k.exprs
        ways = [d for d, i in enumerate(index) if not isinstance(i, Uni)]
        if not is_tile(v) or all(x.stride(v, d) == 0 for d in ways):
            return
        v = unmoved(v)
        if index_type(v) is None or (v.owner is not None and v.owner.name == "rem"):
            return
        if v.owner is None or v.owner.name not in LINEAR or stays(x, v, self.nest.extent):
            return
        found[v] = None

    def everywhere(self, v: Value) -> Val | None:
        """When a value is linear in all dimensions, all its parts included; None if never."""
        x, extent = self.k.exprs, self.nest.extent
        condition: Val | None = self.w.const(1, "i1")
        points = [op.operands[-1] for op in parts(v) if extends(op)]
        if any(op.name == "rem" for op in parts(v)):
            return None
        if isinstance(elem_of(v.type), DType):
            points.append(v)
        for p in map(unmoved, points):
            if not is_tile(p) or all(
                    x.stride(p, d) == 0 for d in range(len(shape_of(p.type)))):
                continue
            if p in self.nest.ev.flat or (index_type(p) and stays(x, p, extent)):
                continue
            more = self.never_leaves(p)
            if more is None or condition is None:
                return None
            condition = self.w.both(condition, more)
        return condition

    def never_leaves(self, v: Value) -> Val | None:
        """When no element of a tile leaves its type; None where one comparison cannot tell."""
        if v not in self.conditions:
            self.conditions[v] = self._never_leaves(v)
        return self.conditions[v]

    def _never_leaves(self, v: Value) -> Val | None:
        x, e = self.k.exprs, index_type(v)
        shape = shape_of(v.type)
        if e is None or 0 in shape or any(op.name == "rem" for op in parts(v)):
            return None
        strides = [x.stride(v, d) for d in range(len(shape))]
        if None in strides or any(
                leaf.owner is not None and leaf.owner.name == "load" for leaf in x.leaves(v)):
            return None
        first = self._at(v, None)
        if RUNTIME in strides:
            return self._unknown_steps(v, e, first, strides)
        ways = [(s, n) for s, n in zip(strides, shape) if isinstance(s, int)]
        up = sum(max(0, s) * (n - 1) for s, n in ways)
        down = sum(min(0, s) * (n - 1) for s, n in ways)
        # The first lane of a row is counted back from the lanes that it has, so it needs room too.
        margin = max(abs(s) for s, _ in ways) * self.nest.extent
        low, high = e.min_value - down + margin, e.max_value - up - margin
        return within(self.w, first, low, high)

    def _unknown_steps(self, v: Value, e: DType, first: Val, strides: list[object]) -> Val | None:
        w, shape = self.w, shape_of(v.type)
        if e.bits > 32 or prod(shape) > MOST or self.nest.extent > MOST:
            return None
        start = w.resize(first, "i64", True)
        low = high = start
        zero = w.const(0, "i64")
        for d, n in enumerate(shape):
            if strides[d] == 0 or n == 1:
                continue
            step = w.resize(w.sub(self._at(v, d), first), "i64", True)
            reach = w.mul(step, w.const(n + self.nest.extent, "i64"))
            down, up = (w.call(f"llvm.{name}.i64", "i64", reach, zero) for name in ("smin", "smax"))
            low, high = w.sub(w.add(low, down), up), w.add(w.sub(high, down), up)
        return w.both(w.icmp("sge", low, w.const(e.min_value, "i64")),
                     w.icmp("sle", high, w.const(e.max_value, "i64")))

    def _at(self, v: Value, dim: int | None) -> Val:
        """An element: the first one, or its neighbour along a dimension."""
        index = [self.k.zero_index] * len(shape_of(v.type))
        if dim is not None:
            index[dim] = self.k.index_const(1)
        lane = self.nest.ev.eval(v, tuple(index))
        assert isinstance(lane, Uni)
        return lane.val

