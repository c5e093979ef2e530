"""Planning of a block: which loop nests there are, what each does, what is kept in a buffer.

Ops with effects, reductions, scans and values that must be kept are *items*.  An item joins the
last nest of its iteration space that is late enough for everything it needs; otherwise it opens a
new one.  Nests and other steps are *slots* in time.  A second pass goes backwards from the items,
finds which slots ask for each value, and keeps in a buffer what several slots ask for and is not
cheap to compute again.
"""

from __future__ import annotations

from collections.abc import Iterable

from tegula.codegen.loops.demands import Demands, captured
from tegula.codegen.loops.exprs import fold_kind, is_elementwise, is_tile
from tegula.codegen.loops.timeline import START, AliasPair, Effect, Item, Slot
from tegula.ir.core import Op, Value
from tegula.ir.patterns import constant_value
from tegula.ir.types import shape_of

__all__ = ["AliasPair", "BlockPlan", "Item", "Slot", "captured"]


class BlockPlan(Demands):
    """The plan of one block; see the module."""

    def run(self) -> BlockPlan:
        for op in self.block.ops:
            self._place(op)
        self._collect_demands()
        for op in reversed(self.block.ops):
            for v in op.results:
                self._decide(v, op)
        self.slots.sort(key=lambda s: s.t)
        for slot in self.slots:
            slot.items.sort(key=lambda i: i.order)
        return self

    def _place(self, op: Op) -> None:
        name = op.name
        handler = getattr(self, f"_place_{name}", None)
        if handler is not None:
            handler(op)
        elif op.regions:
            self._place_region(op)
        elif not op.opdef.pure and not op.opdef.terminator:
            self._step(op)

    def _preferred(self, values: Iterable[Value]) -> int | None:
        for v in values:
            d = self.x.unit_dim(v)
            if d is not None:
                return d
        return None

    def _place_load(self, op: Op) -> None:
        v = op.results[0]
        if not is_tile(v):
            slot = self._step(op)
            self._effect(slot, op, op.operands[0], False)
            return
        if op.attrs["volatile"]:
            self.forced[v] = None
        t = self.acquire
        root = self._root(op.operands[0])
        for e in self.effects:
            if e.writes and self._must_order(root, e.root):
                t = max(t, e.t + 1)
        self.ready[v] = max(t, self.earliest(op.operands))
        if any(leaf in self.exact_only for o in op.operands for leaf in self.x.leaves(o)):
            self.exact_only.add(v)
        self.loads.append(v)

    def _after_effects(self, op: Op, ptr: Value) -> int:
        """The earliest time for a write through `ptr` with regard to other accesses."""
        root, t = self._root(ptr), self.acquire
        for e in self.effects:
            if self._must_order(root, e.root):
                same = e.root == root and e.op.name == op.name == "store" and is_tile(ptr)
                together = same and self._same_address(ptr, e.ptr)
                t = max(t, e.t if together else e.t + 1)
        for load in self.loads:
            source = load.owner.operands[0]  # type: ignore[union-attr]
            if self._must_order(root, self._root(source)):
                together = self._same_address(ptr, source)
                t = max(t, self.ready[load] + (0 if together else 1))
        return t

    def _effect(self, slot: Slot, op: Op, ptr: Value, writes: bool) -> None:
        root = self._root(ptr)
        if writes:
            for e in self.effects:
                if e.writes and e.t >= slot.t and e.root != root and None not in (root, e.root):
                    self._pair(root, e.root, slot.t == e.t and self._same_address(ptr, e.ptr))
        self.effects.append(Effect(slot.t, self.order[op], root, writes, ptr, op))

    def _place_store(self, op: Op) -> None:
        ptr = op.operands[0]
        if not is_tile(ptr):
            self._effect(self._step(op), op, ptr, True)
            return
        t = max(self._after_effects(op, ptr), self.earliest(op.operands))
        rank = len(shape_of(ptr.type))
        unit = [d for d in range(rank) if self.x.stride(ptr, d) in (1, -1)]
        item = Item("store", self.order[op], op, needs=op.operands)
        vdim = unit[-1] if unit else self._preferred(op.operands)
        slot = self._join(item, shape_of(ptr.type), t, vdim)
        assert slot is not None
        self._effect(slot, op, ptr, True)

    def _place_atomic_rmw(self, op: Op) -> None:
        ptr = op.operands[0]
        if not is_tile(ptr):
            slot = self._step(op)
        else:
            t = max(self._after_effects(op, ptr), self.earliest(op.operands))
            if op.attrs["sem"] in ("release", "acq_rel"):
                t = max([t, *(e.t + 1 for e in self.effects if e.writes)])
            item = Item("atomic", self.order[op], op, needs=op.operands)
            joined = self._join(item, shape_of(ptr.type), t, None, scalar=True)
            assert joined is not None
            slot = joined
            for result in op.results:
                self.ready[result] = slot.t
                self.exact_only.add(result)
                self._slot_of[result] = slot
        self._effect(slot, op, ptr, True)
        if op.attrs["sem"] in ("acquire", "acq_rel"):
            self.acquire = max(self.acquire, slot.t + 1)

    _place_atomic_cas = _place_atomic_load = _place_atomic_store = _place_atomic_rmw
    _place_atomic_poll = _place_atomic_rmw

    def _place_reduce(self, op: Op) -> None:
        if not _is_plain(op):
            self._place_sort(op)
            return
        space = shape_of(op.operands[0].type)
        item = Item("reduce", self.order[op], op, needs=op.operands)
        # A combine without a neutral element begins with the first vector, which has to be a whole
        # one where there are several: in a nest that runs backwards it need not be.
        forward = (op.attrs["axis"], False) if fold_kind(op) is None else None
        slot = self._join(item, space, self.earliest(op.operands), self._preferred(op.operands),
                          scalar=not is_elementwise(op.regions[0]), reverse=forward)
        assert slot is not None
        for r in op.results:
            self.ready[r] = slot.t + 1
            self._slot_of[r] = slot

    def _place_scan(self, op: Op) -> None:
        if not _is_plain(op):
            self._place_sort(op)
            return
        space = shape_of(op.operands[0].type)
        item = Item("scan", self.order[op], op, needs=op.operands)
        slot = self._join(item, space, self.earliest(op.operands), self._preferred(op.operands),
                          scalar=not is_elementwise(op.regions[0]),
                          reverse=(op.attrs["axis"], op.attrs["reverse"]))
        assert slot is not None
        for r in op.results:
            self.ready[r] = slot.t
            self.exact_only.add(r)
            self._slot_of[r] = slot

    def _place_cat(self, op: Op) -> None:
        result = op.results[0]
        last = None
        for which, source in enumerate(op.operands):
            item = Item("write", self.order[op], op, source, ("cat", result, which), (source,))
            last = self._join(item, shape_of(source.type), self.earliest([source]), None)
            assert last is not None
            self.ready[result] = max(self.ready.get(result, START), last.t + 1)
        assert last is not None
        self._slot_of[result] = last

    def _place_sort(self, op: Op) -> None:
        """A step on tiles that all lie in buffers."""
        for v in op.operands:
            if is_tile(v) and self.x.is_lazy(v):
                self.forced.setdefault(v, None)
        self._step(op)

    _place_histogram = _place_map = _place_sort

    def _place_dot(self, op: Op) -> None:
        acc = op.group("acc")[0]
        if self.x.is_lazy(acc) and constant_value(acc) is None:
            self.forced.setdefault(acc, None)
        self._step(op)

    def _place_print(self, op: Op) -> None:
        self._own_nest(op, "print")

    def _place_assert(self, op: Op) -> None:
        self._own_nest(op, "assert")

    def _own_nest(self, op: Op, kind: str) -> None:
        shapes = [shape_of(o.type) for o in op.operands if is_tile(o)]
        if not shapes:
            self._step(op)
            return
        # Values of several shapes are printed one after the other.
        for shape in dict.fromkeys(shapes):
            slot = self._append(shape)
            slot.scalar = slot.closed = True
            needs = tuple(o for o in op.operands if shape_of(o.type) in (shape, ()))
            slot.items.append(Item(kind, self.order[op], op, needs=needs))

    def _place_region(self, op: Op) -> None:
        for v in op.operands:
            if is_tile(v) and self.x.is_lazy(v) and not self._initial(v):
                self.forced.setdefault(v, None)
        if op.name in ("for", "while"):
            for i, v in enumerate(op.group("inits")):
                if is_tile(v) and self._initial(v):
                    item = Item("write", self.order[op] - 0.5, op, v, ("init", op, i), (v,))
                    self._join(item, shape_of(v.type), self.earliest([v]), None)
        slot = self._step(op)
        for inner, ptr, writes in _accesses(op):
            root = self._root(ptr)
            t = Effect(slot.t, self.order[op], root, writes, None, inner)
            self.effects.append(t)
            if inner.opdef.effects & {"atomic"}:
                self.acquire = slot.t + 1

    def _initial(self, v: Value) -> bool:
        """Whether a carried value is set up by a nest of its own (not taken from a buffer)."""
        return self.x.is_lazy(v) and self.x.is_cheap(v)

    def _place_yield(self, op: Op) -> None:
        for v in op.operands:
            if is_tile(v) and v.owner in self.order and self.x.is_lazy(v):
                self.forced.setdefault(v, None)

    _place_condition = _place_return = _place_yield


def _is_plain(op: Op) -> bool:
    """Whether the region of a reduction or scan runs on whole vectors."""
    return all(o.opdef.elementwise or o.name == "hint" or o.opdef.terminator
               for o in op.regions[0].ops)


def _accesses(op: Op) -> list[tuple[Op, Value, bool]]:
    """Memory accesses in the regions of an op: the op, the pointer, whether it writes."""
    out = []
    for region in op.regions:
        for inner in region.walk():
            if inner.name in ("load", "store", "atomic_rmw", "atomic_cas", "atomic_load",
                              "atomic_store", "atomic_poll"):
                out.append((inner, inner.operands[0], inner.name != "load"))
    return out
