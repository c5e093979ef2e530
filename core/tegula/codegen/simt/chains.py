"""Runs of ops that work on each register alone, written register by register.

A compiler that keeps to the order of what it is given then holds the values of one chain at a time,
and not one of every register.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tegula.codegen.loops.text import Val
from tegula.codegen.simt import memory
from tegula.codegen.simt.registry import LOWERINGS
from tegula.ir.core import Op, Value
from tegula.ir.types import shape_of

if TYPE_CHECKING:
    from tegula.codegen.simt.kernel import Emitter

CONSUMERS = ("reduce", "scan")
FEW = 4
"""Registers of a tile that need no such order."""


def run_from(k: Emitter, ops: Sequence[Op], start: int) -> tuple[list[Op], list[Op], int]:
    """Ops to emit before a run, the run, and where the ops after it begin.

    Loads come into a run that stores nothing, and one store at most: the order among accesses of
    different registers is the program's.
    """
    if not _by_register(k, ops[start]):
        return [], [], start
    before: list[Op] = []
    run: list[Op] = []
    made: set[Value] = set()
    count, end, loaded, stored = 0, start, False, False
    for op in ops[start:]:
        if op.has("terminator") or (op in k.plan.barriers and op is not ops[start]):
            break
        if _by_register(k, op):
            registers = k.layout(op.operands[0] if op.name == "store" else op.results[0]).registers
            accesses = op.name in ("load", "store")
            if registers <= FEW or count not in (0, registers) or (stored and accesses):
                break
            if op.name == "store" and loaded:
                break
            loaded, stored = loaded or op.name == "load", stored or op.name == "store"
            count = registers
            run.append(op)
            made.update(op.results)
        elif op.name in CONSUMERS and not stored and not made.isdisjoint(op.operands):
            if k.layout(op.operands[0]).registers == count:
                run.append(op)
                end += 1
            break
        elif op.opdef.pure and not op.regions and made.isdisjoint(op.operands):
            before.append(op)
        else:
            break
        end += 1
    if len(run) < 2:
        return [], [], start
    return before, run, end


def _by_register(k: Emitter, op: Op) -> bool:
    if op.name in ("load", "store"):
        ptr, mask = op.operands[0], op.operand("mask")
        layout = k.layout(op.results[0] if op.results else ptr)
        return bool(shape_of(ptr.type)) and memory.access_length(k, op, layout, mask)[0] == 1
    if op.name not in k.rules or not op.results or not shape_of(op.results[0].type):
        return False
    return op.name not in LOWERINGS or (op.name == "div" and not k.simt.slow_division)


class Chain:
    """A run for all registers, each made when it is asked for."""

    def __init__(self, k: Emitter, run: Sequence[Op]) -> None:
        self.k, self.run = k, run
        self.made: dict[Value, dict[int, Val]] = {v: {} for op in run for v in op.results}
        last = run[-1]
        owner = last.operands[0] if last.name == "store" else last.results[0]
        self.count = k.layout(owner).registers
        self.done: set[int] = set()

    def make(self, r: int) -> None:
        """Write the run for one register."""
        if r in self.done:
            return
        self.done.add(r)
        k = self.k
        for op in self.run:
            xs = [self.made[v][r] if v in self.made else k.regs(v)[r] for v in op.operands]
            if op.name == "load":
                self.made[op.results[0]][r] = memory.load_one(k, op, xs)
            elif op.name == "store":
                memory.store_one(k, op, xs)
            else:
                self.made[op.results[0]][r] = k.rules[op.name](k.l, op, *xs)

    def finish(self) -> None:
        """Write what has not been asked for, and bind the results."""
        for r in range(self.count):
            self.make(r)
        for v, regs in self.made.items():
            self.k.waiting.pop(v, None)
            self.k.set(v, [regs[r] for r in range(self.count)])


class Link:
    """The registers of a value that a chain makes."""

    def __init__(self, chain: Chain, v: Value) -> None:
        self.chain, self.v = chain, v

    def __len__(self) -> int:
        return self.chain.count

    def __getitem__(self, r: int) -> Val:
        self.chain.make(r)
        return self.chain.made[self.v][r]


def emit(k: Emitter, run: Sequence[Op]) -> None:
    """Write the ops of a run for the first register, then for the next; a reduction or scan at
    its end takes each register when it is made."""
    *links, last = run
    if last.name not in CONSUMERS:
        Chain(k, run).finish()
        return
    chain = Chain(k, links)
    for v in last.operands:
        if v in chain.made:
            k.waiting[v] = Link(chain, v)
    k.op(last)
    chain.finish()
