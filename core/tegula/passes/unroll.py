"""Unrolling of small loops whose number of turns is known."""

from __future__ import annotations

from dataclasses import dataclass

from tegula.ir.builder import Builder
from tegula.ir.core import Block, Cloner, Function, Op, Value
from tegula.rewrite import Sweep

from .base import Pass, PassContext
from .canonical.control import trip_count
from .canonical.match import constant_of


@dataclass(frozen=True)
class Unroll(Pass):
    """Write out the turns of `for` loops with constant bounds, inner loops first.

    Loops of at most `max_trip` turns that give at most `max_ops` ops are written out, and loops
    whose `unroll` attribute is at least their number of turns.

    Before:
        kernel @k(%p: ptr<i32>, %x: i32) {
          %0 = constant {value = 1} : i32
          %1 = constant {value = 3} : i32
          %2 = for %0, %1, %0, inits = [%x] : i32 body(%i: i32, %a: i32) {
            %3 = mul %a, %i : i32
            yield [%3]
          }
          store %p, %2
          return
        }
    After:
        kernel @k(%p: ptr<i32>, %x: i32) {
          %0 = constant {value = 1} : i32
          %1 = constant {value = 3} : i32
          %2 = constant {value = 1} : i32
          %3 = mul %x, %2 : i32
          %4 = constant {value = 2} : i32
          %5 = mul %3, %4 : i32
          store %p, %5
          return
        }
    """

    name = "unroll"
    max_trip: int = 8
    max_ops: int = 256

    def run_function(self, function: Function, ctx: PassContext) -> Function:
        return _Unrolling(self).sweep(function)


class _Unrolling(Sweep):
    def __init__(self, options: Unroll) -> None:
        super().__init__()
        self.options = options

    def visit(self, op: Op) -> None:
        new = self.current(op)
        trips = trip_count(new) if new.name == "for" else None
        if trips is None or not self.wanted(new, trips):
            self.keep(op, new)
        else:
            self.replace(op, self.turns(new, trips))

    def wanted(self, op: Op, trips: int) -> bool:
        """The loop is small enough, or its author asked for it."""
        if op.attrs["unroll"] >= trips > 0:
            return True
        size = sum(1 for _ in op.regions[0].walk()) * trips
        return trips <= self.options.max_trip and size <= self.options.max_ops

    def turns(self, op: Op, trips: int) -> tuple[Value, ...]:
        """Put out every turn; returns the carried values after the last."""
        carried, body = op.group("inits"), op.regions[0]
        start, step = constant_of(op.operands[0]), constant_of(op.operands[2])
        for turn in range(trips):
            made = Block()
            number = start + turn * step
            counter = Builder(made, op.loc).constant(number, op.operands[0].type)
            self.out.extend(made.ops)
            cloner = Cloner()
            cloner.map.update(zip(body.args, (counter, *carried)))
            cloner.out = self.out
            cloner.ops(body.ops[:-1])
            carried = cloner.values(body.terminator.operands)
        return carried
