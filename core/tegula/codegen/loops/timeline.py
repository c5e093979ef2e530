"""What a plan of a block consists of: items in slots in time, and the order of accesses."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from tegula.codegen.loops.exprs import Exprs
from tegula.ir.core import Block, Op, Value

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


class Timeline:
    """The slots of a block in time, and when values and accesses may take place."""

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

    # -- order of accesses

    def _root(self, ptr: Value) -> int | None:
        return self.x.params.get(self.x.roots.get(ptr))  # type: ignore[arg-type]

    def _must_order(self, a: int | None, b: int | None) -> bool:
        """Whether two accesses have to keep their order."""
        return a is None or b is None or a == b or not self.assume_disjoint

    def _same_address(self, p: Value, q: Value | None) -> bool:
        return q is not None and (p is q or self.x.identity(p) == self.x.identity(q))

    def _pair(self, stored: int | None, loaded: int | None, same_ok: bool) -> None:
        assert stored is not None and loaded is not None
        self.pairs.append(AliasPair(stored, loaded, same_ok))
