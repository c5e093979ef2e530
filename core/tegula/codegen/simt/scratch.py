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
from tegula.analysis.uses import users
from tegula.codegen.simt.buffers import ALIGNMENT, Buffer
from tegula.codegen.simt.bulk import WORD, Bulk, find
from tegula.codegen.simt.registry import LOWERINGS, Context
from tegula.ir.core import Block, Function, Op, Value

_POLL = "atomic_poll"
_ATOMICS = frozenset({"atomic_rmw", "atomic_cas", "atomic_load", _POLL})
"""Ops that are done with global memory where they share their results out."""
TURNS = 4
"""Small scratch areas take turns at as many places, so that an op need not wait until the one
before it has read its own."""


@dataclass
class Plan:
    """Decisions about shared memory: offsets in bytes, ops that need a barrier before them."""

    buffers: dict[Buffer, int] = field(default_factory=dict)
    scratch: dict[Op, int] = field(default_factory=dict)
    sizes: dict[Op, int] = field(default_factory=dict)
    barriers: set[Op] = field(default_factory=set)
    later: dict[Op, Op] = field(default_factory=dict)
    """Ops that leave their result in shared memory for its only user, which reads what it needs
    when it needs it: no barrier of their own, and what they read is read by the user."""
    bulk: Bulk = field(default_factory=Bulk)
    shared_bytes: int = 0
    alias_pairs: list[tuple[int, int, bool]] = field(default_factory=list)
    """Parameters that have to be disjoint: one that is written and one that is accessed by other
    threads with no barrier in between."""


class Access(NamedTuple):
    """One access to memory: part of shared memory (root None and a range) or what a parameter
    points to."""

    writes: bool
    root: Value | None
    low: int = 0
    high: int = 0
    shared: bool = True
    buffer: Buffer | None = None
    """The buffer that is accessed: whoever made it put barriers between its own accesses."""

    def conflicts(self, other: Access) -> bool:
        if not (self.writes or other.writes) or self.shared != other.shared:
            return False
        if self.buffer is not None and self.buffer == other.buffer:
            return False
        if self.shared:
            return self.low < other.high and other.low < self.high
        return self.root is None or other.root is None or self.root is other.root

    def disjoint(self, other: Access) -> bool:
        """Whether there is no conflict only because two parameters point to different memory."""
        apart = not (self.shared or other.shared) and (self.writes or other.writes)
        return apart and not self.conflicts(other)


Pending = frozenset[Access]


def plan_memory(function: Function, ctx: Context, assume_disjoint: bool = True) -> Plan:
    """Places and barriers for a kernel whose layouts are chosen."""
    plan = _placed(function, ctx, _read_later(function))
    if plan.shared_bytes > ctx.simt.shared_limit:  # what is read at once need not stay there
        plan = _placed(function, ctx, {})
    plan.bulk = find(function)
    for arrivals in plan.bulk.arrivals:
        plan.shared_bytes = -(-plan.shared_bytes // WORD) * WORD
        plan.bulk.arrivals[arrivals] = plan.shared_bytes
        plan.shared_bytes += arrivals.nbytes
    Barriers(function, plan, assume_disjoint).run()
    return plan


def _placed(function: Function, ctx: Context, later: dict[Op, Op]) -> Plan:
    """Where everything is in shared memory."""
    plan = Plan(later=later)
    taken = _Lifetimes(function)
    taken.allocate(plan)
    turn = 0
    for op in function.body.walk():
        lowering = LOWERINGS.get(op.name)
        size = lowering.scratch(op, ctx) if lowering else 0
        if size:
            skip = turn % TURNS * ALIGNMENT if size <= ALIGNMENT else 0
            turn += size <= ALIGNMENT
            plan.scratch[op] = taken.free_place(plan, op, skip + size) + skip
            plan.sizes[op] = size
            plan.shared_bytes = max(plan.shared_bytes, plan.scratch[op] + size)
    return plan


def buffers_of(op: Op) -> list[tuple[Buffer, bool]]:
    """Buffers that an op accesses, and whether it writes them."""
    if op.name == "shared_dot":
        return [(op.attrs[key][0], False) for key in ("a_buffer", "b_buffer") if op.attrs[key]]
    if op.name == "bulk_copy":
        return [(buffer, True) for _, buffer in op.attrs["loads"]]
    found = op.attrs.get("buffer")
    writes = op.name in ("async_copy", "shared_put", "bulk_store")
    return [(found, writes)] if isinstance(found, Buffer) else []


def held_bytes(function: Function) -> int:
    """What buffers take at least: all of them, where bulk stores stand in a loop."""
    ops = list(function.body.walk())
    outer = set(function.body.ops)
    if all(op in outer for op in ops if op.name == "bulk_store"):
        return 0
    return sum(b.nbytes * b.copies for b in {b for op in ops for b, _ in buffers_of(op)})


def _read_later(function: Function) -> dict[Op, Op]:
    """Tiles on their way to a matrix unit, and the products that take them: the product reads them
    piece by piece, so that they need few registers."""
    uses = users(function)
    place = {op: (block, i) for block in _blocks(function.body) for i, op in enumerate(block.ops)}
    out = {}
    for op, (block, i) in place.items():
        if op.name not in ("convert_layout", "shared_load"):
            continue
        found = uses.get(op.results[0], [])
        if len(found) != 1 or found[0].name != "dot" or found[0].operands[2] is op.results[0]:
            continue
        home, j = place[found[0]]
        if home is block and not any(o.name in _SETTLING for o in block.ops[i:j]):
            out[op] = found[0]
    return out


_SETTLING = frozenset({"barrier", "async_wait"})
"""After these what was read of a buffer may be written anew."""


def _blocks(block: Block) -> Iterable[Block]:
    yield block
    for op in block.ops:
        for region in op.regions:
            yield from _blocks(region)


class _Lifetimes:
    """When each buffer holds something: from the first op that accesses it to the last, in the
    order of the text. A loop after the first access counts as a whole; a loop around it does not,
    since each of its iterations fills the buffer anew."""

    def __init__(self, function: Function) -> None:
        self.at: dict[Op, int] = {}
        self.span: dict[Buffer, tuple[int, int]] = {}
        self.home: dict[Buffer, list[Block]] = {}
        self._homes([function.body])
        self._block(function.body)
        self._stored(function)

    def _homes(self, path: list[Block]) -> None:
        """The innermost block that has all accesses to a buffer, and those around it."""
        for op in path[-1].ops:
            for buffer, _ in buffers_of(op):
                known = self.home.setdefault(buffer, path)
                same = [a for a, b in zip(known, path) if a is b]
                self.home[buffer] = same
            for region in op.regions:
                self._homes([*path, region])

    def _stored(self, function: Function) -> None:
        """What bulk stores read on their own is in use to the kernel's end; in a loop, from the
        loop's beginning."""
        for outer in function.body.ops:
            for op in (outer, *(o for r in outer.regions for o in r.walk())):
                if op.name == "bulk_store":
                    buffer = op.attrs["buffer"]
                    low, _ = self.span[buffer]
                    self.span[buffer] = (min(low, self.at[outer]), len(self.at))

    def _block(self, block: Block) -> None:
        for op in block.ops:
            first = self.at[op] = len(self.at)
            for region in op.regions:
                self._block(region)
            inside = {b for o in (op, *(x for r in op.regions for x in r.walk()))
                      for b, _ in buffers_of(o)}
            for buffer in (b for b in inside if self.home[b][-1] is block):
                low, high = self.span.get(buffer, (first, first))
                self.span[buffer] = (min(low, first), max(high, len(self.at) - 1))

    def allocate(self, plan: Plan) -> None:
        """Give each buffer the lowest place that none of those with an overlapping life has."""
        for buffer, (low, high) in sorted(self.span.items(), key=lambda x: x[1]):
            others = [(plan.buffers[b], b.nbytes * b.copies) for b, (x, y) in self.span.items()
                      if b in plan.buffers and x <= high and low <= y]
            place = _lowest(others, buffer.nbytes * buffer.copies)
            plan.buffers[buffer] = place
            plan.shared_bytes = max(plan.shared_bytes, place + buffer.nbytes * buffer.copies)

    def free_place(self, plan: Plan, op: Op, size: int) -> int:
        now = self.at[op]
        alive = [(plan.buffers[b], b.nbytes * b.copies) for b, (low, high) in self.span.items()
                 if low <= now <= high]
        alive += [(plan.scratch[o], plan.sizes[o]) for o, user in plan.later.items()
                  if o in plan.sizes and self.at[o] <= now <= self.at[user]]
        return _lowest(alive, size)


def _lowest(taken: list[tuple[int, int]], size: int) -> int:
    """The lowest aligned place where `size` bytes fit between what is taken."""
    place = 0
    for start, length in sorted(taken):
        if place + size <= start:
            break
        place = max(place, (start + length + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT)
    return place


class Barriers:
    """Finds the ops before which all threads have to wait.

    The op's own barrier, between writing its scratch and reading it, also ends what was pending.
    """

    def __init__(self, function: Function, plan: Plan, assume_disjoint: bool) -> None:
        self.function = function
        self.plan = plan
        self.assume_disjoint = assume_disjoint
        self.pairs: set[tuple[int, int]] = set()
        self.roots = pointer_roots(function)
        self.sources: dict[Op, list[Op]] = {}
        for source, user in plan.later.items():
            self.sources.setdefault(user, []).append(source)

    def run(self) -> None:
        self._block(self.function.body, frozenset())
        self._note_bulk()
        self.plan.alias_pairs = [(i, j, False) for i, j in sorted(self.pairs)]

    def _note_bulk(self) -> None:
        """Bulk copies are in no order with other accesses: what the ones write the others may not
        access."""
        ops = list(self.function.body.walk())
        everything = frozenset(a for op in ops for a in self._global(op))
        for op in ops:
            if op.name in ("bulk_copy", "bulk_store"):
                self._note(self._global(op), everything)

    def _note(self, before: Iterable[Access], pending: Pending) -> None:
        """Remember the parameters that were taken to be disjoint."""
        args = self.function.body.args
        for a in before:
            for p in pending:
                if a.disjoint(p) and a.root in args and p.root in args:
                    first, second = ((a, p) if a.writes else (p, a))
                    assert first.root is not None and second.root is not None
                    self.pairs.add((args.index(first.root), args.index(second.root)))

    def _block(self, block: Block, pending: Pending) -> Pending:
        for op in block.ops:
            pending = self._op(op, pending)
        return pending

    def _op(self, op: Op, pending: Pending) -> Pending:
        if op.name in ("for", "while"):
            return self._loop(op, pending)
        if op.name == "if":
            return frozenset().union(*(self._block(r, pending) for r in op.regions))
        if op.name == "barrier" or (op.name == "bulk_begin" and op.attrs["waits"]):
            return frozenset()
        before, after = self._phases(op)
        if not before:
            return pending
        if any(a.conflicts(p) for a in before for p in pending):
            self.plan.barriers.add(op)
            pending = frozenset()
        self._note(before, pending)
        return frozenset(after) if after is not None else pending | frozenset(before)

    def _loop(self, op: Op, pending: Pending) -> Pending:
        while True:
            state = left = pending
            for region in op.regions:
                state = self._block(region, state)
                left = state if region is op.regions[0] else left
            if state <= pending:  # a while loop is left after its condition
                return left if op.name == "while" else pending
            pending = pending | state

    def _phases(self, op: Op) -> tuple[list[Access], list[Access] | None]:
        """Accesses before the op's own barrier, and those after it (None: it has no barrier)."""
        out = list(self._global(op))
        for buffer, writes in buffers_of(op):
            low = self.plan.buffers[buffer]
            out.append(Access(writes, None, low, low + buffer.nbytes * buffer.copies, True, buffer))
        if op.name in ("shared_put", "bulk_store"):
            return out, []
        if op.name == _POLL and op not in self.plan.sizes:  # it ends with a barrier
            return out, []
        for source in self.sources.get(op, ()):
            if source in self.plan.sizes:
                low = self.plan.scratch[source]
                out.append(Access(False, None, low, low + self.plan.sizes[source]))
            out += [a for a in self._phases(source)[0] if a.buffer is not None]
        size = self.plan.sizes.get(op)
        if size is None:
            return out, None
        place = self.plan.scratch[op]
        out.append(Access(True, None, place, place + size))
        if op in self.plan.later:
            return out, None
        after = [Access(False, None, place, place + size)]
        if op.opdef.effects and op.name not in _ATOMICS:  # accesses may come on either side
            after += self._global(op)
        return out, after

    def _global(self, op: Op) -> Iterable[Access]:
        effects = op.opdef.effects
        if not effects & {"read", "write", "atomic"}:
            return
        bases = op.group("base") if op.name == "bulk_copy" else op.operands[:1]
        # An order is the whole program's: what all threads did before, and what they do afterwards.
        apart = self.assume_disjoint and op.attrs.get("sem", "relaxed") == "relaxed"
        for base in bases or (None,):
            root = self.roots.get(base) if base is not None and apart else None
            yield Access(bool(effects & {"write", "atomic"}), root, shared=False)
