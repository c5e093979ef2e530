"""Which slots ask for each value of a block, and which values are therefore kept in a buffer."""

from __future__ import annotations

from collections.abc import Sequence

from tegula.codegen.loops.exprs import is_tile, transposed_load
from tegula.codegen.loops.timeline import START, STEP, Effect, Item, Slot, Timeline
from tegula.ir.core import Block, Op, Value
from tegula.ir.types import shape_of


class Demands(Timeline):
    """The second pass of a plan, backwards over the block."""

    def ask(self, v: Value, slot: Slot, exact: bool) -> None:
        """Note that a slot computes or reads a value."""
        asked = self.demands.setdefault(v, [])
        if (slot, exact) not in asked:
            asked.append((slot, exact))

    def _collect_demands(self) -> None:
        self.end = Slot(len(self.slots) * STEP + STEP, op=self.block.terminator)
        for slot in self.slots:
            for item in slot.items:
                for v in item.needs:
                    exact = is_tile(v) and shape_of(v.type) == slot.space
                    self.ask(v, slot, exact)
            if slot.op is not None:
                for v in slot.op.operands:
                    self.ask(v, slot, False)
                for v in captured(slot.op):
                    self.ask(v, slot, False)
        for v in self.block.terminator.operands:
            self.ask(v, self.end, False)

    def _decide(self, v: Value, op: Op) -> None:
        """Keep a value or hand its demands on to its operands."""
        asked = self.demands.get(v)
        if not self.x.is_lazy(v):
            return
        if not asked and v not in self.forced:
            return
        asked = asked or []
        if self._must_keep(v, op, asked):
            slot = self._keep(v, op, asked)
            asked = [(slot, True)]
        if op.name == "permute" and tuple(op.attrs["dims"]) == (1, 0):
            self._look_at_turn(op, asked)
        moves = op.name in (
            "permute", "reshape", "expand_dims", "join", "split", "flip", "slice",
            "gather") or (
            op.name in ("splat", "broadcast"))
        for slot, exact in asked:
            for o in op.operands:
                same = shape_of(o.type) == shape_of(v.type) and not moves
                same = same or (op.name == "broadcast"
                                and shape_of(o.type) == shape_of(v.type))
                self.ask(o, slot, exact and same)
            if op.name == "load":
                self._note_delay(v, op, slot, exact)

    def _must_keep(self, v: Value, op: Op, asked: list[tuple[Slot, bool]]) -> bool:
        if not is_tile(v):
            return False
        if v in self.forced:
            return True
        if op.name == "load" and self._too_late(v, op, asked):
            return True
        if self.x.is_cheap(v):
            return False
        if all(s.is_nest and exact and not s.scalar for s, exact in asked) and len(
                asked) <= 3 and self.x.is_reloadable(v):
            return self._crosses(v, op, *asked[0])
        if len({s for s, _ in asked}) > 1 or any(not s.is_nest and s.op is not None
                                                 and s.op.name != "dot" for s, _ in asked):
            return True
        slot, exact = asked[0]
        if len(asked) > 1:  # at its own element and at others, in one nest
            return True
        if not slot.is_nest:
            return False
        if slot.scalar and self.x.cost(v) >= 12 and op.name != "load":
            return True
        if not exact and self._repeated(v, slot) and self.x.cost(v) > 12:
            return True
        return self._crosses(v, op, slot, exact)

    def _repeated(self, v: Value, slot: Slot) -> bool:
        """Whether a nest computes the value more often than it has elements."""
        size = 1
        for d in slot.space:
            size *= d
        own = 1
        for d in shape_of(v.type):
            own *= d
        return size > own

    def _crosses(self, v: Value, op: Op, slot: Slot, exact: bool) -> bool:
        """Whether memory is contiguous along another dimension than the nest's vectors.

        Then the value is kept transposed.
        """
        if not exact or len(slot.space) != 2 or slot.scalar or op.name != "load":
            return False
        want = slot.vdim if slot.vdim is not None else 1
        if self.x.stride(op.operands[0], want) in (0, 1, -1):
            return False
        return self._turn(v, want, slot)

    def _turn(self, v: Value, want: int, slot: Slot) -> bool:
        """Keep a matrix so that dimension `want` is contiguous, if its memory runs otherwise."""
        unit = self.x.unit_dim(v)
        if unit is None or unit == want or min(shape_of(v.type)) < 8:
            return False
        if self._only_copied(slot):
            return False
        self.layout[v] = want
        self.forced[v] = None
        return True

    def _look_at_turn(self, op: Op, asked: list[tuple[Slot, bool]]) -> None:
        """A transposed operand whose memory runs across the vectors of the nest that uses it."""
        x = op.operands[0]
        if len(asked) != 1 or not self.x.is_lazy(x) or self.x.is_cheap(x):
            return
        ((slot, exact),) = asked
        if exact and slot.is_nest and not slot.scalar:
            vdim = slot.vdim if slot.vdim is not None else 1
            self._turn(x, 1 - vdim, slot)

    def _only_copied(self, slot: Slot) -> bool:
        """Whether a nest does nothing but store what it loads (see `MatrixProducts.copy_of`)."""
        (item, *more) = slot.items
        if more or item.kind != "store" or item.op is None:
            return False
        load, _ = transposed_load(item.op.operands[1])
        return load.owner is not None and slot.vdim == 1 and self.assume_disjoint

    def _too_late(self, v: Value, op: Op, asked: list[tuple[Slot, bool]]) -> bool:
        """Whether a load would be delayed across a write that may change what it reads."""
        return any(self._blocks(e, v, op, s, exact) for e in self.effects for s, exact in asked)

    def _blocks(self, e: Effect, v: Value, op: Op, slot: Slot, exact: bool) -> bool:
        if not e.writes or e.order < self.order[op] or slot.t < e.t:
            return False
        ptr = op.operands[0]
        if not self._must_order(self._root(ptr), e.root):
            return False
        return not (slot.t == e.t and exact and e.root == self._root(ptr)
                    and self._same_address(ptr, e.ptr))

    def _note_delay(self, v: Value, op: Op, slot: Slot, exact: bool) -> None:
        """Record which parameters must not overlap, and what must be read before it is written."""
        ptr = op.operands[0]
        root = self._root(ptr)
        for e in self.effects:
            if not e.writes or e.order < self.order[op] or slot.t < e.t:
                continue
            together = slot.t == e.t and exact and self._same_address(ptr, e.ptr)
            if e.root != root and root is not None and e.root is not None:
                self._pair(e.root, root, together)
            if together and slot.is_nest:
                touched = [i for i in slot.items if i.kind == "touch" and i.value is v]
                if not touched:
                    slot.items.append(Item("touch", self.order[op], op, v))

    def _keep(self, v: Value, op: Op, asked: list[tuple[Slot, bool]]) -> Slot:
        """Choose the nest that writes a kept value to its buffer."""
        space = shape_of(v.type)
        t = max(self.earliest([v]), self.ready.get(v, START))
        first = min((s for s, _ in asked), key=lambda s: s.t, default=self.end)
        limit = first.t
        for e in self.effects:
            if op.name == "load" and e.writes and e.order > self.order[op] and self._must_order(
                    self._root(op.operands[0]), e.root):
                limit = min(limit, e.t)
        item = Item("write", self.order[op] + 0.25, op, v, None, (v,))
        here = [exact for s, exact in asked if s is first]
        transposed = v in self.layout
        blocked = op.name == "load" and any(
            self._blocks(e, v, op, first, True) for e in self.effects)
        if (first.is_nest and first.space == space and all(here) and here and not transposed
                and not blocked and not first.closed and not first.scalar):
            first.items.append(item)
            self.kept[v] = first
            return first
        vdim = self.x.unit_dim(v)
        slot = None
        if not transposed:
            slot = self._join(item, space, t, vdim, before=limit)
        if slot is None:
            slot = self._insert(space, t, limit)
            slot.vdim, slot.closed = vdim, transposed
            slot.items.append(item)
        self.kept[v] = slot
        return slot

    def _insert(self, space: tuple[int, ...], t: int, before: int) -> Slot:
        """A new nest as late as possible before a time."""
        times = {s.t for s in self.slots}
        at = before - 1
        while at in times:
            at -= 1
        assert at >= t, "a kept value cannot be computed in time"
        slot = Slot(at, space)
        self.slots.append(slot)
        self.slots.sort(key=lambda s: s.t)
        return slot

    # -- for the emitter

    def last_use(self, v: Value) -> int:
        """Time of the last slot that reads a value."""
        return max((s.t for s, _ in self.demands.get(v, ())), default=START)

    def reads(self, v: Value) -> Sequence[tuple[Slot, bool]]:
        return self.demands.get(v, ())


def captured(op: Op) -> list[Value]:
    """Values used in the regions of an op that are defined outside of them."""
    inside: set[Value] = set()
    used: dict[Value, None] = {}

    def visit(block: Block) -> None:
        inside.update(block.args)
        for o in block.ops:
            for v in o.operands:
                if v not in inside:
                    used[v] = None
            for r in o.regions:
                visit(r)
            inside.update(o.results)

    for region in op.regions:
        visit(region)
    return list(used)
