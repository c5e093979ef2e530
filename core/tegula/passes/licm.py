"""Loop-invariant code leaves its loop."""

from __future__ import annotations

from dataclasses import dataclass

from tegula.analysis.alias import effects_of, is_pure
from tegula.ir.core import Block, Function, Op, Value
from tegula.rewrite import Sweep
from tegula.rewrite.sweep import derived

from .base import Pass, PassContext
from .canonical.control import trip_count


@dataclass(frozen=True)
class LoopInvariantCodeMotion(Pass):
    """Compute before the loop what each turn would compute alike.

    Pure ops move; loads move only out of a `for` that surely runs and writes nothing.

    Before:
        kernel @k(%p: ptr<i32>, %x: i32, %n: i32) {
          %0 = constant {value = 1} : i32
          for %0, %n, %0, inits = [] body(%i: i32) {
            %1 = mul %x, %n : i32
            %2 = add %1, %i : i32
            store %p, %2
            yield
          }
          return
        }
    After:
        kernel @k(%p: ptr<i32>, %x: i32, %n: i32) {
          %0 = constant {value = 1} : i32
          %1 = mul %x, %n : i32
          for %0, %n, %0, inits = [] body(%i: i32) {
            %2 = add %1, %i : i32
            store %p, %2
            yield
          }
          return
        }
    """

    name = "licm"

    def run_function(self, function: Function, ctx: PassContext) -> Function:
        return _Hoisting().sweep(function)


class _Hoisting(Sweep):
    def visit(self, op: Op) -> None:
        new = self.current(op)
        if new.name in ("for", "while"):
            loads = _loads_may_move(new)
            regions = [self.hoisted(r, loads) for r in new.regions]
            if any(r is not old for r, old in zip(regions, new.regions)):
                new = derived(new, new.operands, regions)
        self.keep(op, new)

    def hoisted(self, block: Block, loads: bool) -> Block:
        """Move the invariant ops of a loop's block to the block being filled."""
        inside = set(block.args)
        stay: list[Op] = []
        for op in block.ops:
            moves = not op.opdef.terminator and (is_pure(op) or (loads and _plain_load(op)))
            if moves and inside.isdisjoint(op.operands) and inside.isdisjoint(free_values(op)):
                self.out.append(op)
            else:
                stay.append(op)
                inside.update(op.results)
        return block if len(stay) == len(block.ops) else Block(block.args, stay)


def _plain_load(op: Op) -> bool:
    return op.opdef.effects == {"read"} and not op.attrs.get("volatile")


def _loads_may_move(loop: Op) -> bool:
    """Loads of the loop read the same in each turn, and there is a turn."""
    if loop.name != "for" or not trip_count(loop):
        return False
    return effects_of(loop).isdisjoint({"write", "atomic"})


def free_values(op: Op) -> set[Value]:
    """Values used inside the op's regions (some of them are defined there)."""
    return {v for region in op.regions for inner in region.walk() for v in inner.operands}
