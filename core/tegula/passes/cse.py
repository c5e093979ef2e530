"""Common subexpressions: what was computed already is not computed again."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

from tegula.analysis.alias import effects_of
from tegula.ir.core import Block, Function, Op, Value
from tegula.rewrite import Sweep

from .base import Pass, PassContext


@dataclass(frozen=True)
class CommonSubexpressionElimination(Pass):
    """Use an earlier equal op where there is one that is always executed before.

    Loads are equal only if nothing was written in between.

    Before:
        kernel @k(%p: ptr<i32>, %x: i32, %y: i32) {
          %1 = add %x, %y : i32
          %2 = add %y, %x : i32
          %3 = mul %1, %2 : i32
          store %p, %3
          return
        }
    After:
        kernel @k(%p: ptr<i32>, %x: i32, %y: i32) {
          %1 = add %x, %y : i32
          %2 = mul %1, %1 : i32
          store %p, %2
          return
        }
    """

    name = "cse"

    def run_function(self, function: Function, ctx: PassContext) -> Function:
        return _Numbering().sweep(function)


class _Numbering(Sweep):
    """`seen` holds the ops of the blocks around; `epoch` counts possible writes to memory."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: dict[Hashable, Op] = {}
        self.added: list[Hashable] = []
        self.epoch = 0

    def sweep_block(self, block: Block) -> Block:
        outer, self.added = self.added, []
        new = super().sweep_block(block)
        for key in self.added:
            del self.seen[key]
        self.added = outer
        return new

    def visit(self, op: Op) -> None:
        opdef = op.opdef
        if opdef.pure and not opdef.terminator:
            self.number(op, self.current(op), None)
        elif opdef.effects == {"read"} and not op.attrs.get("volatile"):
            self.number(op, self.current(op), self.epoch)
        elif op.regions:
            # A while may wait for another program's write: nothing read outside holds inside.
            changes = op.name == "while" or not effects_of(op).isdisjoint({"write", "atomic"})
            self.epoch += changes
            self.keep(op, self.current(op))
            self.epoch += changes
        else:
            if not opdef.effects.isdisjoint({"write", "atomic"}):
                self.epoch += 1
            self.keep(op, self.current(op))

    def number(self, op: Op, new: Op, epoch: int | None) -> None:
        key = _key(new, epoch)
        earlier = self.seen.get(key)
        if earlier is not None:
            self.replace(op, earlier.results)
            return
        self.seen[key] = new
        self.added.append(key)
        self.keep(op, new)


def _key(op: Op, epoch: int | None) -> Hashable:
    operands: tuple[Any, ...] = op.operands
    if len(operands) == 2 and "commutative" in op.opdef.traits:
        a, b = operands
        operands = (a, b) if id(a) < id(b) else (b, a)
    regions = tuple([_region_key(r) for r in op.regions]) if op.regions else ()
    attrs = tuple([_exact(a) for a in op.attrs.values()]) if op.attrs else ()
    return op.opdef.name, operands, op.segments, attrs, regions, epoch


def _exact(attr: Any) -> Hashable:
    """An attribute such that 0.0 and -0.0, and 1 and 1.0, differ and NaN equals itself."""
    if type(attr) is float:
        return ("nan",) if attr != attr else ("float", attr, math.copysign(1.0, attr))
    return attr


def _region_key(block: Block) -> Hashable:
    """The block with its own values numbered in order."""
    numbers: dict[Value, int] = {}
    for arg in block.args:
        numbers[arg] = len(numbers)
    parts: list[Hashable] = [tuple(a.type for a in block.args)]
    for op in block.ops:
        operands = tuple([numbers.get(v, v) for v in op.operands])
        attrs = tuple([_exact(a) for a in op.attrs.values()])
        inner = tuple([_region_key(r) for r in op.regions])
        parts.append((op.opdef.name, operands, op.segments, attrs, inner))
        for result in op.results:
            numbers[result] = len(numbers)
    return tuple(parts)
