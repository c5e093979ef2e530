"""Planning of a block: which loop nests there are, what each does, what is kept in a buffer.

Ops with effects, reductions, scans and values that must be kept are *items*.  An item joins the
last nest of its iteration space that is late enough for everything it needs; otherwise it opens a
new one.  Nests and other steps are *slots* in time.  A second pass goes backwards from the items,
finds which slots ask for each value, and keeps in a buffer what several slots ask for and is not
cheap to compute again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tegula.codegen.loops.exprs import Exprs, is_elementwise, is_tile, transposed_load
from tegula.ir.core import Block, Op, Value
from tegula.ir.patterns import constant_value
from tegula.ir.types import shape_of

STEP = 1000
"""Distance in time of slots that are appended, so that others fit between them."""

START = -1_000_000_000
"""Before everything."""


@dataclass(eq=False)
class Item:
    """One thing that a nest does at every element."""

    kind: str
    """store, atomic, reduce, scan, write (a value to a buffer), touch (evaluate early), print,
    assert."""
    order: float
    """Position in the program; items of a nest run in this order."""
    op: Op | None = None
    value: Value | None = None
    target: Any = None
    """Where a write goes: a key that the emitter maps to a buffer (None: the value's own)."""
    needs: tuple[Value, ...] = ()


@dataclass(eq=False)
class Slot:
    """A nest, or (with `op`) a step that is not a nest."""

    t: int
    space: tuple[int, ...] = ()
    items: list[Item] = field(default_factory=list)
    op: Op | None = None
    vdim: int | None = None
    scalar: bool = False
    reversed_dims: dict[int, bool] = field(default_factory=dict)
    closed: bool = False
    view: Any = None
    """Maps an index of the nest to an index of its items' values, where they differ."""
    table: Any = None
    """A buffer for the address of every row: in memory itself where no mask holds it back."""

    @property
    def is_nest(self) -> bool:
        return self.op is None


@dataclass(eq=False)
class Effect:
    """A write (or a region's read) that has been given its time."""

    t: int
    order: int
    root: int | None
    writes: bool
    ptr: Value | None
    op: Op


@dataclass(frozen=True)
class AliasPair:
    """Parameter `stored` must not overlap `loaded`, unless (same_ok) both are the same buffer."""

    stored: int
    loaded: int
    same_ok: bool


class BlockPlan:
    """The plan of one block; see the module."""

    def __init__(self, exprs: Exprs, block: Block, assume_disjoint: bool) -> None:
        self.x = exprs
        self.block = block
        self.assume_disjoint = assume_disjoint
        self.slots: list[Slot] = []
        self.order: dict[Op, int] = {op: i for i, op in enumerate(block.ops)}
        self.ready: dict[Value, int] = {}
        self.exact_only: set[Value] = set()
        self.effects: list[Effect] = []
        self.loads: list[Value] = []
        self.forced: dict[Value, int | None] = {}
        self.demands: dict[Value, list[tuple[Slot, bool]]] = {}
        self.kept: dict[Value, Slot] = {}
        self.layout: dict[Value, int] = {}
        """Kept values whose buffer is transposed so that this dimension is contiguous."""
        self.pairs: list[AliasPair] = []
        self.acquire = START
        self._slot_of: dict[Value, Slot] = {}

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

    # -- time

    def earliest(self, values: Iterable[Value], exact: bool = True) -> int:
        """The earliest time at which the values can be computed (at their own element)."""
        t = START
        for v in values:
            for leaf, is_exact in self.x.leaves(v).items():
                at = self.ready.get(leaf, START)
                if leaf in self.exact_only and not (exact and is_exact):
                    at += 1
                if at > t:
                    t = at
        return t

    def _append(self, space: tuple[int, ...] = (), op: Op | None = None) -> Slot:
        slot = Slot(len(self.slots) * STEP, space, op=op)
        self.slots.append(slot)
        return slot

    def _step(self, op: Op) -> Slot:
        """A slot of its own for an op, after everything placed so far."""
        slot = self._append(op=op)
        for r in op.results:
            self.ready[r] = slot.t + 1
            self._slot_of[r] = slot
        return slot

    def _join(self, item: Item, space: tuple[int, ...], t: int, vdim: int | None,
              scalar: bool = False, reverse: tuple[int, bool] | None = None,
              before: int | None = None) -> Slot | None:
        """Put an item into the last nest of its space at time `t` or later.

        With `before`, only into one earlier than that; None if there is no such nest.
        """
        for slot in reversed(self.slots):
            if slot.t < t:
                continue
            if before is not None and slot.t >= before:
                continue
            if not slot.is_nest or slot.closed or slot.space != space or slot.scalar != scalar:
                continue
            if vdim is not None and slot.vdim is not None and slot.vdim != vdim:
                continue
            if reverse and slot.reversed_dims.get(reverse[0], reverse[1]) != reverse[1]:
                continue
            break
        else:
            if before is not None:
                return None
            slot = self._append(space)
            slot.scalar = scalar
        slot.vdim = vdim if slot.vdim is None else slot.vdim
        if reverse:
            slot.reversed_dims[reverse[0]] = reverse[1]
        slot.items.append(item)
        return slot

    # -- first pass

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

    def _root(self, ptr: Value) -> int | None:
        return self.x.params.get(self.x.roots.get(ptr))  # type: ignore[arg-type]

    def _must_order(self, a: int | None, b: int | None) -> bool:
        """Whether two accesses have to keep their order."""
        return a is None or b is None or a == b or not self.assume_disjoint

    def _same_address(self, p: Value, q: Value | None) -> bool:
        return q is not None and (p is q or self.x.identity(p) == self.x.identity(q))

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

    def _pair(self, stored: int | None, loaded: int | None, same_ok: bool) -> None:
        assert stored is not None and loaded is not None
        self.pairs.append(AliasPair(stored, loaded, same_ok))

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
        slot = self._join(item, space, self.earliest(op.operands), self._preferred(op.operands),
                          scalar=not is_elementwise(op.regions[0]))
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

    # -- second pass

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
            "permute", "reshape", "expand_dims", "join", "split", "flip", "gather") or (
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


def _is_plain(op: Op) -> bool:
    """Whether the region of a reduction or scan runs on whole vectors."""
    return all(o.opdef.elementwise or o.name == "hint" or o.opdef.terminator
               for o in op.regions[0].ops)


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


def _accesses(op: Op) -> list[tuple[Op, Value, bool]]:
    """Memory accesses in the regions of an op: the op, the pointer, whether it writes."""
    out = []
    for region in op.regions:
        for inner in region.walk():
            if inner.name in ("load", "store", "atomic_rmw", "atomic_cas", "atomic_load",
                              "atomic_store", "atomic_poll"):
                out.append((inner, inner.operands[0], inner.name != "load"))
    return out
