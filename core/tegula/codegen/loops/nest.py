"""Emits one loop nest: loops over the dimensions of a tile, vectors along one of them.

The vector loop comes in up to two parts.  Where masks compare an index with a bound, the part in
which they all hold runs unrolled and without masks; a second loop, one vector at a time, does the
rest under masks, and stops where nothing can happen any more.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING

from tegula.codegen.loops import folds, handlers, interleave
from tegula.codegen.loops.elementwise import RULES
from tegula.codegen.loops.evaluate import Along, Evaluation, Index, fact_key
from tegula.codegen.loops.exprs import MOVES, is_tile
from tegula.codegen.loops.lanes import Lane, Lin, Position, Uni, size_of
from tegula.codegen.loops.masks import Bounds, collect_terms, everywhere
from tegula.codegen.loops.plan import Slot
from tegula.codegen.loops.stream import bypass_condition, finish_bypass, is_stream
from tegula.codegen.loops.text import Val
from tegula.codegen.loops.wrapping import Wrapping, parts, unmoved
from tegula.ir.core import Op, Value
from tegula.ir.types import DType, Pointer, elem_of, shape_of

if TYPE_CHECKING:
    from tegula.codegen.loops.kernel import KernelEmitter
    from tegula.codegen.loops.matrix import Copy

HANDLERS = {
    "store": handlers.Store, "write": handlers.Write, "touch": handlers.Touch,
    "atomic": handlers.Atomic, "print": handlers.Print, "assert": handlers.Assert,
    "reduce": folds.Reduce, "scan": folds.Scan, "panel": handlers.Panel,
    "histogram": handlers.Histogram, "map": handlers.MapElement,
}  # fmt: skip

MAX_UNROLL = 4
BODY_BUDGET = 48
"""Unrolling stops where the body would have more vector instructions than about this."""


class Nest:
    """One nest of a plan under construction."""

    def __init__(self, k: KernelEmitter, slot: Slot) -> None:
        self.k, self.w, self.slot = k, k.w, slot
        self.vdim = self._choose_vdim()
        self.extent = slot.space[self.vdim]
        self.n = 1 if slot.scalar else self._lanes()
        self.scalars: dict[Value, Val] = {}
        """Results of rank-0 reductions."""
        self.reverse = slot.reversed_dims.get(self.vdim, False)
        self.known: set[object] = set()
        """Masks that hold in the version being emitted."""
        self.plain = False
        """Whether the loop being emitted is the one whose stores do not bypass the caches."""
        self.edge = False
        """Whether the version being emitted is for tiles with edges only."""
        self.ev = Evaluation(k, self.n, self.extent)
        self.wrapping = Wrapping(self)
        self.wild = False
        """Whether the version being emitted is for indices that wrap around along a row."""

    # -- choices

    def _choose_vdim(self) -> int:
        space, want = self.slot.space, self.slot.vdim
        if want is not None and (space[want] > 1 or self.slot.view is not None):
            return want
        votes = [0.0] * len(space)
        for item in self.slot.items:
            home = self.k.home_of(item)
            unit = home.unit_dim() if home is not None else None
            if unit is not None and unit < len(space):
                votes[unit] += 1.5
            for v in item.needs:
                for leaf, exact in self.k.exprs.leaves(v).items():
                    buffer = self.k.homes.get(leaf)
                    if exact and buffer is not None and len(buffer.shape) == len(space):
                        unit = buffer.unit_dim()
                        if unit is not None:
                            votes[unit] += 1
        best = max(votes)
        if best > 0:
            return max(d for d in range(len(space)) if votes[d] == best)
        wide = [d for d, s in enumerate(space) if s >= 8]
        return wide[-1] if wide else max(range(len(space)), key=lambda d: (space[d], d))

    def _lanes(self) -> int:
        widest = 1
        for item in self.slot.items:
            if item.kind == "write":  # whole vectors are written: rows are padded for no more
                widest = max(widest, size_of(self.k.destination(item).elem))
            elif item.kind in ("reduce", "scan"):
                widest = max([widest, *(size_of(elem_of(v.type)) for v in item.needs)])
            for v in item.needs:
                widest = max(widest, self._width(v))
                for leaf in self.k.exprs.leaves(v):
                    widest = max(widest, self._width(leaf))
        lanes = max(1, self.k.target.vector_bits // 8 // widest)
        if self.k.target.vector_bits > 256 and is_stream(self):
            lanes = max(1, 32 // widest)  # memory is no faster for wider accesses, some is slower
        while lanes // 2 >= self.extent and lanes > 1:
            lanes //= 2
        return lanes

    def _width(self, v: Value) -> int:
        """Bytes of an element in a register, if it is kept in vectors."""
        if not is_tile(v):
            return 1
        e = elem_of(v.type)
        if isinstance(e, Pointer):
            return 1
        if e.is_float:
            return max(4, e.itemsize)
        if self.k.exprs.is_lazy(v) and self.k.exprs.is_cheap(v):
            return min(4, size_of(e))
        return size_of(e)

    def _unroll(self) -> int:
        if self.wild or any(not h.parallel for h in self.handlers):
            return 1
        body = 0
        seen: set[Value] = set()
        for item in self.slot.items:
            body += 1
            stack = list(item.needs)
            while stack:
                v = stack.pop()
                if v in seen or not is_tile(v):
                    continue
                seen.add(v)
                op = v.owner
                if (v in self.k.homes and v not in self.ev.producing) or op is None or (
                        not self.k.exprs.is_lazy(v)):
                    continue
                e = elem_of(v.type)
                if isinstance(e, DType) and e.is_float and op.name not in MOVES:
                    body += 1
                stack += op.operands
        unroll = MAX_UNROLL
        while unroll > 1 and (unroll * body > BODY_BUDGET or unroll * self.n > self.extent):
            unroll //= 2
        return unroll

    # -- emission

    def emit(self) -> None:
        """The whole nest."""
        if prod(self.slot.space) == 0:
            return
        w = self.w
        outer = w.enter("nest")
        self.ev.floor = w.scope
        self.rows = [d for d, s in enumerate(self.slot.space) if d != self.vdim and s > 1]
        self.handlers = [HANDLERS[i.kind](self, i) for i in self.k.in_order(self.slot.items)]
        self.loose = self.wrapping.along(tuple(self.probe())) if self.extent > 1 else {}
        steady = {v: c for v in self.loose if (c := self.wrapping.never_leaves(v)) is not None}
        condition = w.const(1, "i1")
        for c in steady.values():
            condition = w.both(condition, c)
        self._either(condition, lambda: self._tame(set(steady)), self._wild, "tame", "wild")
        w.leave(outer)
        for v, x in self.scalars.items():
            self.k.env[v] = Val(x.text, x.ty, w.scope, x.const)

    def probe(self) -> list[Lane]:
        """The index of the first row."""
        probe: list[Lane] = [self.ev.zero_index] * len(self.slot.space)
        if self.extent > 1:
            probe[self.vdim] = Along(self.w.const(0, "i64"), 1)
        return probe

    def _last_row(self) -> list[Lane]:
        """The index of the last row."""
        index = self.probe()
        for d in self.rows:
            index[d] = self.k.index_const(self.slot.space[d] - 1)
        return index

    def _either(self, condition: Val, first: Callable[[], None], second: Callable[[], None],
                *stems: str) -> None:
        """One of two versions of the nest."""
        w, ev = self.w, self.ev
        if condition.const is not None:
            (first if condition.const else second)()
            return
        branch = w.begin_if(condition, stems[0])
        floor = ev.floor
        ev.floor = w.scope
        first()
        made, self.scalars = self.scalars, {}
        w.begin_else(branch, stems[1])
        ev.floor = w.scope
        second()
        keys = list(made)
        joined = w.end_if(branch, [made[v] for v in keys], [self.scalars[v] for v in keys])
        ev.floor = floor
        self.scalars = dict(zip(keys, joined))

    def _wild(self) -> None:
        """The version for indices that wrap around along a row: every lane is computed."""
        self.wild, self.loose = True, {}
        self._version(None, set())
        self.wild = False

    def _tame(self, flat: set[Value]) -> None:
        """The versions in which the indices `flat` do not wrap around."""
        w, ev = self.w, self.ev
        ev.flat = flat
        self.loose = {v: None for v in self.loose if v not in flat}
        wraps, condition = self._wraps()
        whole = self._whole_tile()
        facts: set[object] = set()
        if whole is not None:
            facts = whole[0]
            condition = w.both(condition, whole[1])
        self.known = facts
        copy = self.k.matrix.copy_of(self)
        if copy is not None:
            condition = w.both(condition, copy.condition)
        self._either(condition, lambda: self._straight(wraps, facts, copy),
                     lambda: self._edge(facts), "inside", "edge")
        ev.flat, self.edge = set(), False

    def _edge(self, facts: set[object]) -> None:
        """The version for tiles with edges and remainders that wrap around."""
        self.edge = bool(facts)
        self._version(None, set())

    def _straight(self, wraps: dict[Value, Val], facts: set[object], copy: Copy | None) -> None:
        """The version for tiles without edges; a mere transposition is done in blocks."""
        self.known, self.ev.wraps = facts, wraps or None
        if copy is not None:
            self.k.matrix.emit_copy(self, copy)
        elif self.slot.table is not None and self.k.matrix.holds_rows(self):
            self.k.matrix.emit_row_addresses(self)
        else:
            self._version(wraps or None, facts)

    def _version(self, wraps: dict[Value, Val] | None, facts: set[object]) -> None:
        self.ev.wraps, self.known = wraps, facts
        self._loops(0, [self.ev.zero_index] * len(self.slot.space))
        if self.slot.table is not None:
            self.k.matrix.emit_packed_addresses(self)

    def _whole_tile(self) -> tuple[set[object], Val] | None:
        """Masks that hold for the whole tile under a condition; None where rows are looked at."""
        if not self.rows or self.n == 1 or not self.masked():
            return None
        found = everywhere(self, collect_terms(self, tuple(self.probe())))
        return found if found[0] else None

    def _loops(self, level: int, index: list[Lane]) -> None:
        if level == len(self.rows):
            self._row(index)
            return
        w, d = self.w, self.rows[level]
        extent = self.slot.space[d]
        loop = w.begin_loop(w.const(0, "i64"), w.const(extent, "i64"), w.const(1, "i64"),
                            guard=False, stem="row")
        at = loop.iv
        if self.slot.reversed_dims.get(d):
            at = w.pure("i64", f"sub i64 {extent - 1}, {{}}", loop.iv)
        inner = list(index)
        inner[d] = Uni(at)
        self._loops(level + 1, inner)
        w.end_loop(loop)

    def _row(self, index: list[Lane]) -> None:
        """The vector loop and what belongs before and after it."""
        ev = self.ev
        ev.facts = set(self.known)
        ev.exec_mask = None
        ev.position = Position(None, 0, self.n, self.extent)
        states = [h.start(ev) for h in self.handlers]
        steady = self._steady(index)
        if steady is None:
            states = self._elements(index, states)
        else:
            states = self._row_versions(index, states, steady)
        ev.facts = set(self.known)
        ev.exec_mask = None
        row = tuple(index)
        for h, state in zip(self.handlers, states):
            h.finish(ev, row, state)

    def _steady(self, index: list[Lane]) -> Val | None:
        """When no index leaves its type along a row; None where that is known before."""
        if not self.loose:
            return None
        ev, w = self.ev, self.w
        probe = list(index)
        probe[self.vdim] = Along(w.const(0, "i64"), 1)
        ev.watched = {}
        for v, i in self.walk(tuple(probe), every=True):
            op = v.owner
            if op is not None and op.name == "addptr" and self._loose_offset(op, i):
                ev.eval(op.operands[1], i)
        watched, ev.watched = ev.watched, None
        ev.steady = set(watched)
        condition = w.const(1, "i1")
        for c in watched.values():
            condition = w.both(condition, c)
        return None if condition.const == 1 else condition

    def _loose_offset(self, op: Op, index: Index) -> bool:
        """Whether an offset varies linearly along the row, and may wrap around."""
        offset, x = op.operands[1], self.k.exprs
        ways = [d for d, i in enumerate(index) if not isinstance(i, Uni)]
        return all(x.stride(offset, d) is not None for d in ways) and any(
            unmoved(o) in self.loose for p in parts(offset) for o in (*p.results, *p.operands))

    def _row_versions(self, index: list[Lane], states: list[list[Val]], steady: Val
                      ) -> list[list[Val]]:
        """A row whose indices stay within their type, or one where every lane is computed."""
        w, ev = self.w, self.ev
        known = ev.steady
        branch = w.begin_if(steady, "steady")
        made = self._elements(index, states)
        w.begin_else(branch, "wild")
        self.wild, ev.steady = True, set()
        ev.facts, ev.exec_mask = set(self.known), None
        other = self._elements(index, states)
        self.wild, ev.steady = False, known
        flat = iter(w.end_if(branch, [x for s in made for x in s], [x for s in other for x in s]))
        return [[next(flat) for _ in s] for s in made]

    def _elements(self, index: list[Lane], states: list[list[Val]]) -> list[list[Val]]:
        """The elements of a row."""
        ev = self.ev
        bounds = self._bounds(index)
        if self.reverse:
            states = self._backward(index, states)
        elif bounds is None or bounds.always:
            if bounds is not None:
                ev.facts |= bounds.facts
            states = self._whole(index, states)
        else:
            states = self._parted(index, states, bounds)
        return states

    def _bounds(self, index: list[Lane]) -> Bounds | None:
        """The masks of the row that compare an index along the vector dimension with a bound."""
        if self.extent == 1 or self.known or self.wild or not self.masked():
            return None
        probe = list(index)
        probe[self.vdim] = Along(self.w.const(0, "i64"), 1)
        terms = collect_terms(self, tuple(probe))
        if not terms.all:
            return None
        return Bounds(self, terms)

    def masked(self) -> bool:
        """Whether any access of the nest has a mask."""
        masked = any(i.op is not None and i.op.name == "store" and i.op.operand("mask") is not None
                     for i in self.slot.items)
        return masked or any(
            leaf.owner is not None and leaf.owner.name == "load"
            and leaf.owner.operand("mask") is not None
            for i in self.slot.items for v in i.needs for leaf in self.k.exprs.leaves(v))

    # -- the vector loop

    def _body(self, index: list[Lane], position: Position, states: list[list[Val]]
              ) -> list[list[Val]]:
        """All items at one position."""
        ev = self.ev
        ev.position = position
        here = list(index)
        here[self.vdim] = Along(self.w.const(0, "i64"), 1) if (
            self.extent > 1) else ev.zero_index
        at = tuple(here)
        return [h.step(ev, at, s) for h, s in zip(self.handlers, states)]

    def _whole(self, index: list[Lane], states: list[list[Val]]) -> list[list[Val]]:
        """A row without masks that depend on the position."""
        n, extent = self.n, self.extent
        unroll = self._unroll()
        chunk = n * unroll
        main = extent // chunk * chunk
        if main > chunk:
            states = self._main_loop(index, states, self.w.const(main, "i64"), unroll, False)
        else:
            main = 0
        rest = range(main, extent, n)
        copies = [states]
        if len(rest) > 1 and any(h.parallel and s for h, s in zip(self.handlers, states)):
            copies += [[h.start(self.ev) if h.parallel else [] for h in self.handlers]
                       for _ in range(min(unroll, len(rest)) - 1)]
        for j, p in enumerate(rest):
            self.ev.exec_mask = self.ev.prefix_mask(extent - p) if extent - p < n else None
            c = j % len(copies)
            given = [s if h.parallel else copies[0][i]
                     for i, (h, s) in enumerate(zip(self.handlers, copies[c]))]
            new = self._body(index, Position(None, p, n, extent), given)
            for i, h in enumerate(self.handlers):
                copies[c if h.parallel else 0][i] = new[i]
        self.ev.exec_mask = None
        return self._merged(copies)

    def _merged(self, copies: list[list[list[Val]]]) -> list[list[Val]]:
        """One state out of those of unrolled copies."""
        while len(copies) > 1:
            half = (len(copies) + 1) // 2
            for c in range(half, len(copies)):
                copies[c - half] = [h.merge(self.ev, a, b) if h.parallel and a else a
                                    for h, a, b in zip(self.handlers, copies[c - half], copies[c])]
            copies = copies[:half]
        return copies[0]

    def _main_loop(self, index: list[Lane], states: list[list[Val]], stop: Val, unroll: int,
                   guard: bool) -> list[list[Val]]:
        """Whole vectors from 0 to `stop`, a multiple of the step."""
        w, n = self.w, self.n
        if not self.ev.bypass and not self.plain and not self.wild:
            probe = list(index)
            probe[self.vdim] = Along(w.const(0, "i64"), 1)
            condition = bypass_condition(self, probe)
            if condition is not None:
                return self._bypassing(index, states, stop, unroll, guard, condition)
        copies = [[list(s) if c == 0 or not h.parallel else h.start(self.ev)
                   for h, s in zip(self.handlers, states)] for c in range(unroll)]
        flat = [x for c in copies for s in c for x in s]
        loop = w.begin_loop(w.const(0, "i64"), stop, w.const(n * unroll, "i64"), flat, guard,
                            "vector")
        carried = iter(loop.carried)
        copies = [[[next(carried) for _ in s] for s in c] for c in copies]
        for c in range(unroll):
            given = [s if h.parallel else copies[0][i]
                     for i, (h, s) in enumerate(zip(self.handlers, copies[c]))]
            new = self._body(index, Position(loop.iv, c * n, n, self.extent), given)
            for i, h in enumerate(self.handlers):
                copies[c if h.parallel else 0][i] = new[i]
        out = iter(w.end_loop(loop, [x for c in copies for s in c for x in s]))
        copies = [[[next(out) for _ in s] for s in c] for c in copies]
        return self._merged(copies)

    def _bypassing(self, index: list[Lane], states: list[list[Val]], stop: Val, unroll: int,
                   guard: bool, condition: Val) -> list[list[Val]]:
        """The main loop twice: with stores that bypass the caches, and without."""
        w, ev = self.w, self.ev
        branch = w.begin_if(condition, "large")
        ev.bypass = True
        self._main_loop(index, states, stop, unroll, guard)
        finish_bypass(self)
        ev.bypass = False
        w.begin_else(branch, "small")
        self.plain = True
        self._main_loop(index, states, stop, unroll, guard)
        self.plain = False
        w.end_if(branch)
        return states

    def _parted(self, index: list[Lane], states: list[list[Val]], bounds: Bounds
                ) -> list[list[Val]]:
        """A part where the masks hold, and the rest under masks."""
        w, n, ev = self.w, self.n, self.ev
        full = w.const(0, "i64")
        if not self.edge:
            unroll = self._unroll()
            full = w.pure("i64", f"and i64 {{}}, {-(n * unroll)}", bounds.limit)
            ev.facts = {fact_key(v, i) for v, i in bounds.terms.all}
            states = self._main_loop(index, states, full, unroll, True)
            ev.facts = set()
        flat = [x for s in states for x in s]
        loop = w.begin_loop(full, bounds.stop, w.const(n, "i64"), flat, True, "masked")
        carried = iter(loop.carried)
        inner = [[next(carried) for _ in s] for s in states]
        position = Position(loop.iv, 0, n, self.extent)
        ev.position = position
        if self.extent % n:
            ev.exec_mask = self._inside(loop.iv)
        new = self._body(index, position, inner)
        ev.exec_mask = None
        out = iter(w.end_loop(loop, [x for s in new for x in s]))
        return [[next(out) for _ in s] for s in states]

    def _inside(self, iv: Val) -> Val:
        """The lanes that lie inside the tile."""
        w, n, ev = self.w, self.n, self.ev
        left = w.resize(w.pure("i64", f"sub i64 {self.extent}, {{}}", iv), "i32", True)
        if n == 1:
            return w.icmp("sgt", left, w.const(0, "i32"))
        lanes = ev.iota(1, "i32")
        return w.pure(f"<{n} x i1>", f"icmp slt {lanes.ty} {{}}, {{}}", lanes, ev.splat(left))

    def _backward(self, index: list[Lane], states: list[list[Val]]) -> list[list[Val]]:
        """The vectors of a row from the last to the first."""
        w, n, extent = self.w, self.n, self.extent
        last = (extent - 1) // n * n
        self.ev.exec_mask = self.ev.prefix_mask(extent - last) if extent - last < n else None
        states = self._body(index, Position(None, last, n, extent), states)
        self.ev.exec_mask = None
        if last == 0:
            return states
        flat = [x for s in states for x in s]
        loop = w.begin_loop(w.const(0, "i64"), w.const(last, "i64"), w.const(n, "i64"), flat,
                            False, "backward")
        carried = iter(loop.carried)
        inner = [[next(carried) for _ in s] for s in states]
        at = w.pure("i64", f"sub i64 {last - n}, {{}}", loop.iv)
        new = self._body(index, Position(at, 0, n, extent), inner)
        out = iter(w.end_loop(loop, [x for s in new for x in s]))
        return [[next(out) for _ in s] for s in states]

    # -- indices that wrap around

    def _wraps(self) -> tuple[dict[Value, Val], Val]:
        """Remainders along the vector dimension: what they add where they do not wrap around.

        Also the condition for that.
        """
        w, l = self.w, self.k.scalar_lanes
        wraps: dict[Value, Val] = {}
        condition = w.const(1, "i1")
        found = self._remainders()
        if not found or self.n == 1:
            return wraps, condition
        # A view may go on in later rows where a row ends: panels of columns lie side by side.
        ends = dict(reversed(self.walk(tuple(self._last_row())))) if self.slot.view else {}
        for v, index in found:
            if v in wraps:
                continue
            op = v.owner
            assert op is not None
            self.ev.position = Position(None, 0, self.n, self.extent)
            x, d = (self.ev.eval(o, index) for o in op.operands)
            if not (isinstance(x, Lin) and isinstance(x.m, int) and x.m > 0 and isinstance(d, Uni)):
                continue
            e = elem_of(v.type)
            assert isinstance(e, DType)
            reach = (self.extent - 1) * x.m
            if max(reach, max(shape_of(v.type)) * x.m) > min(e.max_value, 1 << 62):
                continue
            first = RULES["rem"](l, op, x.base, d.val)
            last = w.add(first, w.const(reach, first.ty))
            end = w.add(x.base, w.const(reach, x.base.ty))
            if v in ends:
                other = self.ev.eval(op.operands[0], ends[v])
                assert isinstance(other, Lin)
                further = w.sub(other.base, x.base)
                last, end = w.add(last, further), w.add(end, further)
            ok = w.icmp("slt" if e.is_signed else "ult", last, d.val)
            # The index itself must not wrap around its type on the way either.
            rises = w.icmp("sge" if e.is_signed else "uge", end, x.base)
            ok = w.pure("i1", "and i1 {}, {}", ok, rises)
            if e.is_signed:
                positive = w.icmp("sge", x.base, w.const(0, x.base.ty))
                ok = w.pure("i1", "and i1 {}, {}", ok, positive)
            condition = w.both(condition, ok)
            wraps[v] = w.sub(first, x.base)
        return wraps, condition

    def _remainders(self) -> list[tuple[Value, Index]]:
        """Remainders of an index that runs along the vector dimension."""
        out = []
        for v, index in self.walk(tuple(self.probe())):
            op = v.owner
            moving = [d for d, i in enumerate(index) if isinstance(i, Along)]
            if op is None or op.name != "rem" or len(moving) != 1:
                continue
            (d,) = moving
            x, y = op.operands
            s = self.k.exprs.stride
            others = [i for i in range(len(index)) if i != d]
            if isinstance(s(x, d), int) and s(x, d) != 0 and s(y, d) == 0 and all(
                    s(x, i) == 0 and s(y, i) == 0 for i in others):
                out.append((v, index))
        return out

    def walk(self, index: Index, every: bool = False) -> list[tuple[Value, Index]]:
        """Every lazy tile value that the nest's items compute, with its index.

        With `every`, also at the other indices that one step asks for.
        """
        stack: list[tuple[Value, Index]] = []
        for item in self.slot.items:
            for v in item.needs:
                if every and item.kind == "panel":
                    _, _, valid = item.target
                    stack += [(v, self.slot.view(self, index, i)) for i in range(valid)]
                elif self.slot.view is not None:
                    stack.append((v, self.slot.view(self, index)))
                elif is_tile(v) and shape_of(v.type) == self.slot.space:
                    stack.append((v, index))
        seen: set[tuple[Value, Index]] = set()
        out = []
        k = self.k
        while stack:
            at = stack.pop()
            v, i = at
            if at in seen or not is_tile(v):
                continue
            seen.add(at)
            op = v.owner
            if op is None or not k.exprs.is_lazy(v) or (
                    v in k.homes and v not in self.ev.producing):
                continue
            out.append(at)
            if every and op.name == "reshape" and interleave.applies(self.ev, op, i):
                stack += interleave.parts(op, i, self.w)
            elif op.operands and op.name != "splat":
                stack += self.ev._operands(op, v, i)
        return out
