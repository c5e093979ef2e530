"""Shared memory: who gets which part of it, and where barriers have to stand.

An op's scratch is in use only while the op runs, so all ops begin at the same place; what is kept
longer would lie below it. `Barriers` walks the kernel in the order of its execution and knows which
accesses other threads may still be making: those since the last barrier.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from tegula.analysis.alias import pointer_roots
from tegula.codegen.simt.registry import LOWERINGS, Context
from tegula.ir.core import Block, Function, Op, Value

ALIGNMENT = 128


@dataclass
class Plan:
    """Decisions about shared memory: offsets in bytes, ops that need a barrier before them."""

    scratch: dict[Op, int] = field(default_factory=dict)
    sizes: dict[Op, int] = field(default_factory=dict)
    barriers: set[Op] = field(default_factory=set)
    shared_bytes: int = 0


class Access(NamedTuple):
    """One access to memory: part of shared memory (root None and a range) or what a parameter
    points to."""

    writes: bool
    root: Value | None
    low: int = 0
    high: int = 0
    shared: bool = True

    def conflicts(self, other: Access) -> bool:
        if not (self.writes or other.writes) or self.shared != other.shared:
            return False
        if self.shared:
            return self.low < other.high and other.low < self.high
        return self.root is None or other.root is None or self.root is other.root


Pending = frozenset[Access]


def plan_memory(function: Function, ctx: Context) -> Plan:
    """Places and barriers for a kernel whose layouts are chosen."""
    plan = Plan()
    for op in function.body.walk():
        lowering = LOWERINGS.get(op.name)
        size = lowering.scratch(op, ctx) if lowering else 0
        if size:
            plan.scratch[op] = 0
            plan.sizes[op] = size
            plan.shared_bytes = max(plan.shared_bytes, size)
    Barriers(function, plan).run()
    return plan


class Barriers:
    """Finds the ops before which all threads have to wait.

    The op's own barrier, between writing its scratch and reading it, also ends what was pending.
    """

    def __init__(self, function: Function, plan: Plan) -> None:
        self.function = function
        self.plan = plan
        self.roots = pointer_roots(function)

    def run(self) -> None:
        self._block(self.function.body, frozenset())

    def _block(self, block: Block, pending: Pending) -> Pending:
        for op in block.ops:
            pending = self._op(op, pending)
        return pending

    def _op(self, op: Op, pending: Pending) -> Pending:
        if op.name in ("for", "while"):
            return self._loop(op, pending)
        if op.name == "if":
            return frozenset().union(*(self._block(r, pending) for r in op.regions))
        if op.regions:
            return pending  # regions of scalars
        before, after = self._phases(op)
        if not before:
            return pending
        if any(a.conflicts(p) for a in before for p in pending):
            self.plan.barriers.add(op)
            pending = frozenset()
        return frozenset(after) if after is not None else pending | frozenset(before)

    def _loop(self, op: Op, pending: Pending) -> Pending:
        while True:
            state = pending
            for region in op.regions:
                state = self._block(region, state)
            if state <= pending:
                return pending if op.name == "while" else pending | state
            pending = pending | state

    def _phases(self, op: Op) -> tuple[list[Access], list[Access] | None]:
        """Accesses before the op's own barrier, and those after it (None: it has no barrier)."""
        out = list(self._global(op))
        size = self.plan.sizes.get(op)
        if size is None:
            return out, None
        place = self.plan.scratch[op]
        out.append(Access(True, None, place, place + size))
        after = [Access(False, None, place, place + size)]
        if op.opdef.effects:  # global accesses of such ops may come on either side
            after += self._global(op)
        return out, after

    def _global(self, op: Op) -> Iterable[Access]:
        effects = op.opdef.effects
        if not effects & {"read", "write", "atomic"}:
            return
        root = self.roots.get(op.operands[0]) if op.operands else None
        yield Access(bool(effects & {"write", "atomic"}), root, shared=False)
