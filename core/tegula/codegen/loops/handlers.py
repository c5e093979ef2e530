"""What a nest does for each item at every position: stores, writes to buffers, atomics, output.

A handler may carry values through the vector loop: `start` gives the first ones, `step` the next,
`merge` joins those of unrolled copies, `finish` runs at the end of each row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tegula.codegen.loops import access, atomics
from tegula.codegen.loops.convert import cast
from tegula.codegen.loops.evaluate import Evaluation, Index
from tegula.codegen.loops.lanes import Uni, Vec
from tegula.codegen.loops.plan import Item
from tegula.codegen.loops.text import Val
from tegula.ir.types import Pointer, elem_of, i1, shape_of

if TYPE_CHECKING:
    from tegula.codegen.loops.nest import Nest


class Handler:
    """Base: an item without state."""

    parallel = True
    """Whether unrolled copies may each have their own state."""

    def __init__(self, nest: Nest, item: Item) -> None:
        self.nest = nest
        self.item = item
        self.k = nest.k

    def start(self, ev: Evaluation) -> list[Val]:
        return []

    def step(self, ev: Evaluation, index: Index, state: list[Val]) -> list[Val]:
        raise NotImplementedError

    def merge(self, ev: Evaluation, a: list[Val], b: list[Val]) -> list[Val]:
        return []

    def finish(self, ev: Evaluation, row: Index, state: list[Val]) -> None:
        """The end of a row; `row` is the index with the vector dimension left at 0."""


class Store(Handler):
    """A store op."""

    def step(self, ev: Evaluation, index: Index, state: list[Val]) -> list[Val]:
        op = self.item.op
        assert op is not None
        e = elem_of(op.operands[0].type)
        assert isinstance(e, Pointer)
        mask_value = op.operand("mask")
        mask = None if mask_value is None else ev.eval(mask_value, index)
        value = ev.eval(op.operands[1], index)
        ptr = ev.eval(op.operands[0], index)
        access.store(ev, ptr, value, mask, e.elem, ev.exec_mask)
        return []


class Write(Handler):
    """A value that goes to a buffer."""

    def __init__(self, nest: Nest, item: Item) -> None:
        super().__init__(nest, item)
        self.buffer = self.k.destination(item)
        value = item.value
        assert value is not None
        self.value = value
        self.own = item.target is None
        if self.own:
            nest.ev.producing.add(value)

    def step(self, ev: Evaluation, index: Index, state: list[Val]) -> list[Val]:
        view = self.nest.slot.view
        at = index if view is None else view(self.nest, index)
        lane = ev.eval(self.value, at)
        ev.write(self.buffer, index, lane, elem_of(self.value.type))
        return []


class Panel(Handler):
    """Several rows of a matrix operand, interleaved: the values of K that are multiplied at once.

    The item's target is ``(key, group, valid)``: rows from `valid` on are zero.
    """

    def step(self, ev: Evaluation, index: Index, state: list[Val]) -> list[Val]:
        value, view = self.item.value, self.nest.slot.view
        assert value is not None
        _, group, valid = self.item.target
        buffer = self.k.targets[self.item.target]
        e, w, n = elem_of(value.type), ev.w, ev.n
        rows = []
        for i in range(group):
            if i < valid:
                x = ev.vec(ev.eval(value, view(self.nest, index, i)), e)
                rows.append(cast(ev, x, e, buffer.elem))
            else:
                rows.append(access.zero(ev, buffer.elem, n))  # type: ignore[arg-type]
        while len(rows) > 1:
            half = len(rows) // 2
            rows = [_interleave(ev, rows[i], rows[i + half]) for i in range(half)]
        (mixed,) = rows
        lane = ev.pointer(buffer, index)
        p = lane.val if isinstance(lane, Uni) else ev.at_pos(
            lane, Pointer(buffer.elem))  # type: ignore[arg-type]
        w.do(f"store {mixed.ty} {mixed.text}, ptr {p.text}, align 1")
        return []


def _interleave(ev: Evaluation, a: Val, b: Val) -> Val:
    """Lanes of two vectors in turn."""
    if not a.ty.startswith("<"):
        a, b = (ev.w.pure(f"<1 x {x.ty}>", f"insertelement <1 x {x.ty}> poison, {x.ty} {{}}, i64 0",
                          x) for x in (a, b))
    count, _, ty = a.ty[1:-1].partition(" x ")
    n = int(count)
    order = ", ".join(f"i32 {i}, i32 {n + i}" for i in range(n))
    return ev.w.pure(f"<{2 * n} x {ty}>", f"shufflevector {a.ty} {{}}, {b.ty} {{}}, "
                                          f"<{2 * n} x i32> <{order}>", a, b)


class Touch(Handler):
    """A load that has to come before a store of the same nest."""

    def step(self, ev: Evaluation, index: Index, state: list[Val]) -> list[Val]:
        assert self.item.value is not None
        ev.eval(self.item.value, index)
        return []


class Atomic(Handler):
    """An atomic op, one element at a time."""

    parallel = False

    def step(self, ev: Evaluation, index: Index, state: list[Val]) -> list[Val]:
        op = self.item.op
        assert op is not None
        args = [ev.vec(ev.eval(o, index), elem_of(o.type)) for o in op.operands]
        old = atomics.emit(ev, op, args)
        if old is None:
            return []
        result = op.results[0]
        if self.k.plan.reads(result):
            ev.remember_here(result, index, Vec(old))
            home = self.k.homes.get(result)
            if home is not None:
                ev.write(home, index, Vec(old), elem_of(result.type))
        return []


class Histogram(Handler):
    """Counts one element."""

    parallel = False

    def step(self, ev: Evaluation, index: Index, state: list[Val]) -> list[Val]:
        op, w = self.item.op, ev.w
        assert op is not None
        e = elem_of(op.operands[0].type)
        x = ev.vec(ev.eval(op.operands[0], index), e)
        place = w.resize(x, "i64", e.is_signed)  # type: ignore[union-attr]
        counted = w.icmp("ult", place, w.const(op.attrs["bins"], "i64"))
        mask = op.operand("mask")
        if mask is not None:
            wanted = ev.vec(ev.eval(mask, index), i1)
            counted = w.pure("i1", "and i1 {}, {}", counted, wanted)
        branch = w.begin_if(counted)
        p = w.gep("i32", self.k.homes[op.results[0]].base, place)
        old = w.here("i32", f"load i32, ptr {p.text}, align 4")
        new = w.here("i32", f"add i32 {old.text}, 1")
        w.do(f"store i32 {new.text}, ptr {p.text}, align 4")
        w.end_if(branch)
        return []


class MapElement(Handler):
    """Runs the region of a `map` on one element."""

    parallel = False

    def step(self, ev: Evaluation, index: Index, state: list[Val]) -> list[Val]:
        op = self.item.op
        assert op is not None
        (body,) = op.regions
        for arg, o in zip(body.args, op.operands):
            self.k.env[arg] = ev.vec(ev.eval(o, index), elem_of(o.type))
        for r, x in zip(op.results, self.k.block(body, {})):
            assert x is not None
            ev.write(self.k.homes[r], index, Vec(x), elem_of(r.type))
        return []


class Print(Handler):
    """Output of the elements of one shape."""

    parallel = False

    def step(self, ev: Evaluation, index: Index, state: list[Val]) -> list[Val]:
        op = self.item.op
        assert op is not None
        for o in op.operands:
            if shape_of(o.type) == self.nest.slot.space:
                x = ev.vec(ev.eval(o, index), elem_of(o.type))
                self.k.print_element(op, o, x, [ev.vec(i, _I64) for i in index])
        return []


class Assert(Handler):
    """A check of every element."""

    parallel = False

    def step(self, ev: Evaluation, index: Index, state: list[Val]) -> list[Val]:
        op = self.item.op
        assert op is not None
        args = [ev.vec(ev.eval(o, index if shape_of(o.type) else ()), i1) for o in op.operands]
        self.k.check(op, args)
        return []


def _i64() -> object:
    from tegula.ir.types import i64

    return i64


_I64 = _i64()


__all__ = ["Assert", "Atomic", "Handler", "Print", "Store", "Touch", "Uni", "Write"]
