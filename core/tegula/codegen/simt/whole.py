"""Kernels whose masks hold everywhere in most programs: the body is written twice, without masks
for programs that are wholly inside, and as it was for the others.

What grows along every axis is below a bound everywhere if its last element is, unless it wraps
around on the way, which shows in a last element that is less than the first.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from tegula.analysis.alias import is_pure
from tegula.ir.builder import Builder
from tegula.ir.core import Block, Cloner, Function, Op, Value
from tegula.ir.patterns import constant_value
from tegula.ir.types import DType, Type, elem_of, i1, shape_of, with_shape

Index = tuple[int, ...]
_SWAPPED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}
_ONCE = frozenset({"reduce", "scan", "map"})
"""Ops whose regions do not make a body long."""


class Undecided(Exception):
    """A mask does not say of itself where it holds."""


def split_whole(function: Function, smallest: int) -> Function:
    """The kernel with a body for programs whose masks hold everywhere, if there are such masks on
    tiles of at least `smallest` elements."""
    ops = list(function.body.walk())
    if any(op.regions and op.name not in _ONCE for op in ops) or any(o.name == "dot" for o in ops):
        return function
    masks = {op.operand("mask"): None for op in ops if op.name in ("load", "store")}
    head = _Head()
    decided: dict[Value, Value] = {}
    for mask in masks:
        if mask is None or prod(shape_of(mask.type)) < smallest:
            continue
        try:
            decided[mask] = head.everywhere(mask)
        except Undecided:
            continue
    if not decided:
        return function
    return function.with_body(_Twice(head, decided).block(function.body))


class _Head:
    """Scalars that are computed before the body, in terms of its parameters."""

    def __init__(self) -> None:
        self.block = Block([])
        self.b = Builder()
        self.known: dict[tuple[Value, Index], Value] = {}

    def _make(self, name: str, *operands: Value, **attrs: Any) -> Value:
        with self.b.at(self.block):
            made: Value = self.b.create(name, *operands, **attrs)
        return made

    def everywhere(self, mask: Value) -> Value:
        """Whether a mask holds for all elements."""
        op = mask.owner
        if op is None:
            raise Undecided
        if op.name == "and" and elem_of(mask.type) is i1:
            return self._make("and", *(self.everywhere(v) for v in op.operands))
        if op.name in ("broadcast", "expand_dims", "permute", "reshape", "hint", "splat"):
            source = op.operands[0]
            return self.everywhere(source) if shape_of(source.type) else self.at(source, ())
        if op.name != "cmp" or op.attrs["pred"] not in _SWAPPED:
            raise Undecided
        return self._compared(op)

    def _compared(self, op: Op) -> Value:
        a, b, pred = *op.operands, op.attrs["pred"]
        if _span(a) is None or _span(b) != 0:
            a, b, pred = b, a, _SWAPPED[pred]
        span, e = _span(a), elem_of(a.type)
        if span is None or _span(b) != 0 or not (isinstance(e, DType) and e.is_signed):
            raise Undecided
        if span >= 1 << e.bits - 2:
            raise Undecided
        shape = shape_of(op.results[0].type)
        start, end = (0,) * len(shape), tuple(n - 1 for n in shape)
        first, last = self.at(a, start), self.at(a, end)
        holds = self._make("cmp", last if pred in ("lt", "le") else first, self.at(b, start),
                           pred=pred)
        return self._make("and", holds, self._make("cmp", first, last, pred="le"))

    def at(self, v: Value, index: Index) -> Value:
        """One element of a value."""
        found = self.known.get((v, index))
        if found is None:
            found = self.known[v, index] = self._element(v, index)
        return found

    def _element(self, v: Value, index: Index) -> Value:
        op = v.owner
        if op is None:
            if shape_of(v.type):
                raise Undecided
            return v
        if op.regions or not is_pure(op) or op.name == "assume":
            raise Undecided
        scalar: Type = with_shape(v.type, ())
        if op.name in ("arange", "constant"):
            value = op.attrs["value"] if op.name == "constant" else op.attrs["start"] + index[0]
            with self.b.at(self.block):
                return self.b.constant(value, scalar)
        moved = _MOVES.get(op.name)
        if moved is not None:
            return self.at(op.operands[0], moved(op, index))
        if op.name not in _EACH and shape_of(v.type):
            raise Undecided
        xs = [self.at(o, index if shape_of(o.type) else ()) for o in op.operands]
        made = Op(op.opdef, xs, op.segments, op.attrs, (), [scalar], op.loc)
        self.block.ops.append(made)
        return made.results[0]


_EACH = frozenset({"add", "sub", "mul"})
_MOVES: dict[str, Callable[[Op, Index], Index]] = {
    "splat": lambda op, index: (),
    "hint": lambda op, index: index,
    "broadcast": lambda op, index: tuple(
        0 if n == 1 else i for n, i in zip(shape_of(op.operands[0].type), index)
    ),
    "expand_dims": lambda op, index: tuple(
        i for d, i in enumerate(index) if d != op.attrs["axis"]
    ),
}
"""Which element of its operand an element of an op's result is."""


def _span(v: Value) -> int | None:
    """How much the last element of something that grows by constant steps along every axis is
    above the first; None for anything else."""
    op = v.owner
    if op is None or not shape_of(v.type):
        return 0
    if op.name in ("splat", "constant"):
        return 0
    if op.name == "arange":
        return int(op.attrs["end"] - op.attrs["start"]) - 1
    if op.name in ("hint", "broadcast", "expand_dims"):
        return _span(op.operands[0])
    if op.name not in _EACH:
        return None
    a, b = map(_span, op.operands)
    if a is None or b is None:
        return None
    if op.name == "add":
        return a + b
    if op.name == "sub":
        return a if b == 0 else None
    factor = constant_value(op.operands[1] if b == 0 else op.operands[0])
    if factor is None or factor < 0 or (a and b):
        return 0 if a == b == 0 else None
    return (a or b) * int(factor)


class _Twice(Cloner):
    """Writes the head, and a branch with both bodies."""

    def __init__(self, head: _Head, decided: dict[Value, Value]) -> None:
        super().__init__()
        self.head, self.decided = head, decided

    def block(self, block: Block) -> Block:
        new = Block([a.type for a in block.args])
        for old, fresh in zip(block.args, new.args):
            fresh.name = old.name
        params = dict(zip(block.args, new.args))
        front = Cloner()
        front.map.update(params)
        front.out = new.ops
        front.ops(self.head.block.ops)
        conditions = [front.value(v) for v in dict.fromkeys(self.decided.values())]
        b = Builder()
        with b.at(new):
            whole = conditions[0]
            for more in conditions[1:]:
                whole = b.create("and", whole, more)
        *ops, end = block.ops
        bodies = []
        for hook in (self._unmasked, None):
            body, cloner = Block([]), Cloner(hook)
            cloner.map.update(params)
            cloner.out = body.ops
            cloner.ops(ops)
            with b.at(body):
                b.create("yield", [])
            bodies.append(body)
        with b.at(new):
            b.if_(whole, *bodies)
        new.ops.append(Op(end.opdef, (), (), dict(end.attrs), (), (), end.loc))
        return new

    def _unmasked(self, op: Op, cloner: Cloner) -> tuple[Value, ...] | None:
        if op.name not in ("load", "store") or op.operand("mask") not in self.decided:
            return None
        groups = [list(op.operands[:1]), *([list(op.operands[1:2])] if op.name == "store" else [])]
        operands = [cloner.value(v) for g in groups for v in g]
        segments = (*(1 for _ in operands), *(0 for _ in op.segments[len(operands):]))
        new = Op(op.opdef, operands, segments, op.attrs, (), [r.type for r in op.results], op.loc)
        cloner.out.append(new)
        return tuple(new.results)
