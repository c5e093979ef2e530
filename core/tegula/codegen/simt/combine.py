"""Reductions and scans: within registers, then across lanes by shuffles, then across warps through
shared memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from tegula.codegen.loops.convert import from_f32, to_f32
from tegula.codegen.loops.text import Val
from tegula.codegen.simt.layout import Layout, Span, axis_fields, log2
from tegula.codegen.simt.registry import Context, lowers, shared_size
from tegula.ir.core import Op
from tegula.ir.patterns import combine_kind
from tegula.ir.types import DType, elem_of, f32

if TYPE_CHECKING:
    from tegula.codegen.simt.kernel import Emitter

Row = list[Val]
"""One value for each operand of the op."""


class Combine:
    """The op's region as a function of two rows of values, with accumulators wide enough."""

    def __init__(self, k: Emitter, op: Op) -> None:
        self.k = k
        (self.region,) = op.regions
        self.elems: list[DType] = [elem_of(v.type) for v in op.operands]  # type: ignore[misc]
        self.kind = combine_kind(self.region) if len(self.elems) == 1 else None
        e = self.elems[0]
        self.wide = self.kind in ("add", "mul") and e.is_float and e.bits == 16
        self.accs = [f32] if self.wide else self.elems

    def __call__(self, a: Row, b: Row) -> Row:
        if self.wide:
            verb = "fadd" if self.kind == "add" else "fmul"
            return [self.k.w.pure("float", f"{verb} float {{}}, {{}}", a[0], b[0])]
        return self.k.apply(self.region, [*a, *b])

    def enter(self, x: Row) -> Row:
        return [to_f32(self.k.l, x[0], self.elems[0])] if self.wide else x

    def leave(self, x: Row) -> Row:
        return [from_f32(self.k.l, x[0], self.elems[0])] if self.wide else x

    def choose(self, cond: Val, a: Row, b: Row) -> Row:
        return [self.k.w.select(cond, x, y) for x, y in zip(a, b)]

    def rows(self, op: Op) -> Rows:
        """The operands' registers."""
        return Rows(self, op)

    def folded(self, rows: Rows, numbers: Sequence[int]) -> Row:
        """The numbered rows combined, neighbours first; each is made right before it is used."""
        if len(numbers) == 1:
            return rows[numbers[0]]
        half = len(numbers) // 2
        return self(self.folded(rows, numbers[:half]), self.folded(rows, numbers[half:]))

    def tree(self, rows: Sequence[Row]) -> Row:
        """All rows combined, neighbours first."""
        while len(rows) > 1:
            pairs = [self(a, b) for a, b in zip(rows[::2], rows[1::2])]
            rows = pairs + ([rows[-1]] if len(rows) % 2 else [])
        return rows[0]


class Rows:
    """The registers of an op's operands; those that wait are made when they are asked for."""

    def __init__(self, f: Combine, op: Op) -> None:
        self.f, self.operands = f, op.operands

    def __getitem__(self, number: int) -> Row:
        return self.f.enter([self.f.k.some(v, [number])[0] for v in self.operands])


@dataclass(frozen=True)
class AxisBits:
    """What of a layout runs along one axis: register and thread bits with their place on it."""

    register: tuple[tuple[int, int], ...]
    """(bit number, what it adds to the coordinate)."""
    lane: tuple[tuple[int, int], ...]
    warp: tuple[tuple[int, int], ...]
    simple: bool
    """Every basis lies on one axis only, is a power of two, and none occurs twice."""


def axis_bits(layout: Layout, axis: int) -> AxisBits:
    """Which bits of a layout move along the axis."""
    shift, bits = axis_fields(layout.shape)[axis]
    mask = (1 << bits) - 1 << shift

    def along(bases: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
        return tuple((i, (b & mask) >> shift) for i, b in enumerate(bases) if b & mask)

    every = [b for b in (*layout.register, *layout.threads) if b & mask]
    simple = len(set(every)) == len(every) and all(b & (b - 1) == 0 for b in every)
    return AxisBits(along(layout.register), along(layout.lane), along(layout.warp), simple)


# -- reduce


def reducible(layout: Layout, axis: int) -> bool:
    """Whether a reduction along the axis can be done in this layout."""
    return axis_bits(layout, axis).simple


def _reduce_scratch(op: Op, ctx: Context) -> int:
    layout, axis = ctx.layouts[op.operands[0]], op.attrs["axis"]
    warps = axis_bits(layout, axis).warp
    if not warps:
        return 0
    rest = prod(layout.shape) // layout.shape[axis]
    sizes = [_acc_size(op, i) for i in range(len(op.operands))]
    return sum(_aligned(rest * s << len(warps)) for s in sizes)


def _acc_size(op: Op, i: int) -> int:
    return max(4, shared_size(elem_of(op.operands[i].type)))


def _aligned(n: int) -> int:
    return (n + 15) // 16 * 16


@lowers("reduce", scratch=_reduce_scratch)
def _reduce(k: Emitter, op: Op) -> None:
    axis = op.attrs["axis"]
    layout = k.layout(op.operands[0])
    f = Combine(k, op)
    bits = axis_bits(layout, axis)
    rows, groups = f.rows(op), _by_rest(layout, bits)
    if k.simt.by_register:
        kept = [f.folded(rows, group) for group in groups]
    else:
        kept = [f.tree([rows[r] for r in group]) for group in groups]
    for lane, _ in bits.lane:
        by = k.i32(1 << lane)
        kept = [f(x, [k.shuffle(v, "xor", by) for v in x]) for x in kept]
    target = layout.without(axis)
    if bits.warp:
        kept = _across_warps(k, op, f, layout, target, bits, kept)
    for i, v in enumerate(op.results):
        k.set(v, [f.leave(x)[i] for x in kept])


def _by_rest(layout: Layout, bits: AxisBits) -> list[list[int]]:
    """Registers grouped by their place off the axis, in the order of the reduced layout's."""
    along = 0
    for i, _ in bits.register:
        along |= 1 << i
    groups: dict[int, list[int]] = {}
    for r in range(layout.registers):
        groups.setdefault(r & ~along, []).append(r)
    return [groups[key] for key in sorted(groups)]


def _across_warps(k: Emitter, op: Op, f: Combine, layout: Layout, target: Layout, bits: AxisBits,
                  kept: list[Row]) -> list[Row]:
    """Combine the warps' results: all write theirs, and all read all."""
    w = k.w
    rest = prod(target.shape)
    count = 1 << len(bits.warp)
    low = len(layout.lane)
    which = k.mine(_only(layout, [(low + i, 1 << n) for n, (i, _) in
                                              enumerate(bits.warp)]))
    indices = k.indices(target)
    places = _places(k, op, rest * count)
    # Among threads with the same elements one writes: copies off the axis, and the axis' own lanes.
    idle = 0
    span = Span((*layout.register,))
    for i, basis in enumerate(layout.threads):
        if not span.add(basis) or (i < low and any(i == lane for lane, _ in bits.lane)):
            idle |= 1 << i
    branch = None
    if idle:
        picked = w.pure("i32", "and i32 {}, {}", k.thread, k.i32(idle))
        branch = w.begin_if(w.icmp("eq", picked, k.i32(0)))
    for x, index in zip(kept, indices):
        slot = w.add(w.mul(which, k.i32(rest)), index)
        for place, v, e in zip(places, x, f.accs):
            k.put(k.shared_at(place, w.mul(slot, k.i32(_slot(e)))), [v], e)
    if branch is not None:
        w.end_if(branch)
    k.barrier()
    out = []
    if rest == 1 and count > k.simt.partials_read_by_all:
        return [_by_lanes(k, f, places, count)]
    if rest == 1:
        columns = [_neighbours(k, place, count, e) for place, e in zip(places, f.accs)]
        return [f.tree([list(x) for x in zip(*columns)])]
    for index in indices:
        rows = []
        for n in range(count):
            slot = w.add(index, k.i32(n * rest))
            rows.append([k.get(k.shared_at(place, w.mul(slot, k.i32(_slot(e)))), 1, e)[0]
                         for place, e in zip(places, f.accs)])
        out.append(f.tree(rows))
    return out


def _neighbours(k: Emitter, place: int, count: int, e: DType) -> list[Val]:
    """Partial results that lie side by side, by wide accesses."""
    step = min(count, 16 // shared_size(e)) if shared_size(e) >= 4 else 1
    out: list[Val] = []
    for n in range(0, count, step):
        out += k.get(k.shared(place + n * _slot(e)), step, e)
    return out


def _by_lanes(k: Emitter, f: Combine, places: list[int], count: int) -> Row:
    """Many partial results that lie side by side: each lane reads some, and lanes exchange them."""
    lanes = min(count, k.simt.warp_size)
    lane = k.bits(k.lane, 0, log2(lanes)) if lanes < k.simt.warp_size else k.lane
    rows = []
    for n in range(0, count, lanes):
        ats = [k.w.mul(lane, k.i32(_slot(e))) for e in f.accs]
        rows.append([k.get(k.shared_at(place + n * _slot(e), at), 1, e)[0]
                     for place, at, e in zip(places, ats, f.accs)])
    row = f.tree(rows)
    for n in range(log2(lanes)):
        by = k.i32(1 << n)
        row = f(row, [k.shuffle(v, "xor", by) for v in row])
    return row


def _slot(e: DType) -> int:
    return max(4, shared_size(e))


def _places(k: Emitter, op: Op, count: int) -> list[int]:
    """Where each operand's partial results lie."""
    out, at = [], k.scratch(op)
    for i in range(len(op.operands)):
        out.append(at)
        at += _aligned(count * _acc_size(op, i))
    return out


def _only(layout: Layout, placed: Sequence[tuple[int, int]]) -> list[int]:
    """Bases for the bits of the thread number, 0 except where given."""
    out = [0] * len(layout.threads)
    for bit, basis in placed:
        out[bit] = basis
    return out


# -- scan


@dataclass(frozen=True)
class Segments:
    """A scan's axis from its fastest part on: registers, lanes, warps, registers again."""

    low: tuple[int, ...]
    lane: tuple[int, ...]
    warp: tuple[int, ...]
    high: tuple[int, ...]


def segments(layout: Layout, axis: int) -> Segments | None:
    """The bits that run along the axis in the order that a scan needs; None where they are not in
    such an order."""
    bits = axis_bits(layout, axis)
    if not bits.simple:
        return None
    place: dict[int, tuple[str, int]] = {}
    for kind, group in (("r", bits.register), ("l", bits.lane), ("w", bits.warp)):
        for bit, basis in group:
            place[log2(basis)] = (kind, bit)
    order = [place[i] for i in range(axis_fields(layout.shape)[axis][1])]
    word = "".join(kind for kind, _ in order)
    stripped = word.lstrip("r").lstrip("l").lstrip("w").lstrip("r")
    if stripped:
        return None
    first = len(word) - len(word.lstrip("r"))
    parts: dict[str, list[int]] = {"low": [], "l": [], "w": [], "high": []}
    for n, (kind, bit) in enumerate(order):
        parts[kind if kind != "r" else "low" if n < first else "high"].append(bit)
    if parts["l"] != sorted(parts["l"]) or parts["w"] != sorted(parts["w"]):
        return None
    low, high = parts["low"], parts["high"]
    return Segments(tuple(low), tuple(parts["l"]), tuple(parts["w"]), tuple(high))


def _scan_scratch(op: Op, ctx: Context) -> int:
    layout, axis = ctx.layouts[op.operands[0]], op.attrs["axis"]
    s = segments(layout, axis)
    assert s is not None
    if not s.warp:
        return 0
    rest = prod(layout.shape) // layout.shape[axis]
    count = rest << len(s.warp) + len(s.high)
    return sum(_aligned(count * _acc_size(op, i)) for i in range(len(op.operands)))


@lowers("scan", scratch=_scan_scratch)
def _scan(k: Emitter, op: Op) -> None:
    Scan(k, op).emit()


class Scan:
    """One scan. Positions along the axis are counted from where the scan begins, so that reversing
    is a matter of which register, lane and warp comes first."""

    def __init__(self, k: Emitter, op: Op) -> None:
        self.k, self.op = k, op
        self.axis, self.reverse = op.attrs["axis"], bool(op.attrs["reverse"])
        self.layout = k.layout(op.operands[0])
        found = segments(self.layout, self.axis)
        assert found is not None
        self.s = found
        self.f = Combine(k, op)
        self.totals: dict[tuple[int, int], Row] = {}
        """What each chunk adds up to in the lanes up to this one."""
        self.rest = prod(self.layout.shape) // self.layout.shape[self.axis]

    def emit(self) -> None:
        k, f = self.k, self.f
        rows = f.rows(self.op)
        out: list[Row | None] = [None] * self.layout.registers
        steps = self._across_warps(rows) if self.s.warp else self._in_turn(rows)
        for members, done in steps:
            for r, x in zip(members, done):
                out[r] = x
        for i, v in enumerate(self.op.results):
            k.set(v, [f.leave(x)[i] for x in out if x is not None])

    def _in_turn(self, rows: Rows) -> Iterator[tuple[list[int], list[Row]]]:
        """Chunk after chunk, each with what those before it add up to."""
        running: dict[int, Row] = {}
        for key in self._keys():
            rest = key[0]
            members, done = self._chunk(rows, key)
            prefix, total = running.get(rest), self.totals[key]
            if len(members) == 1:
                yield members, [total if prefix is None else self.f(prefix, total)]
            else:
                yield members, self._finished(done, total, prefix, None)
            end = self._last_lane(total)
            running[rest] = end if prefix is None else self.f(prefix, end)

    def _across_warps(self, rows: Rows) -> Iterator[tuple[list[int], list[Row]]]:
        """All chunks, then what the warps before add up to, then all results."""
        chunks = {key: self._chunk(rows, key) for key in self._keys()}
        carried = self._through_shared(list(chunks))
        for key, (members, done) in chunks.items():
            yield members, self._finished(done, self.totals[key], *carried[key])

    def _finished(self, done: list[Row], total: Row, prefix: Row | None, known: Val | None
                  ) -> list[Row]:
        """Registers of a chunk behind what comes before it, in other chunks and in other lanes."""
        carry, has = self._joined(prefix, known, *self._before(total))
        return [self._onto(carry, has, x) for x in done]

    def _keys(self) -> list[tuple[int, int]]:
        """(registers off the axis, chunk) of each chunk, chunks in the order of the scan."""
        s = self.s
        on = sum(1 << b for b in (*s.low, *s.high))
        n = 1 << len(s.high)
        order = range(n - 1, -1, -1) if self.reverse else range(n)
        rests = [r for r in range(self.layout.registers) if not r & on]
        return [(r, c) for r in rests for c in order]

    def _chunk(self, rows: Rows, key: tuple[int, int]) -> tuple[list[int], list[Row]]:
        """Scan the registers of one chunk, and find its total in the lanes up to this one."""
        rest, chunk = key
        base = rest | _spread(chunk, self.s.high)
        members = [base | _spread(i, self.s.low) for i in range(1 << len(self.s.low))]
        if self.reverse:
            members.reverse()
        done: list[Row] = []
        for r in members:
            done.append(self.f(done[-1], rows[r]) if done else rows[r])
        self.totals[key] = self._lanes(done[-1])
        return members, done

    def _position(self, bits: Sequence[int], first: int) -> Val:
        """Which lane or warp along the axis this thread is, counted from the scan's beginning."""
        k = self.k
        at = k.mine(_only(self.layout, [(first + b, 1 << n) for n, b in
                                                    enumerate(bits)]))
        if self.reverse and bits:
            at = k.w.pure("i32", "xor i32 {}, {}", at, k.i32((1 << len(bits)) - 1))
        return at

    def _source(self, at: Val, distance: int) -> Val:
        """The lane number of the one `distance` before this along the axis."""
        k, w, bits = self.k, self.k.w, self.s.lane
        moved = w.sub(at, k.i32(distance))
        if self.reverse:
            moved = w.pure("i32", "xor i32 {}, {}", moved, k.i32((1 << len(bits)) - 1))
        mine = k.i32(((1 << len(self.layout.lane)) - 1) & ~sum(1 << b for b in bits))
        there = k.linear(moved, [1 << b for b in bits])
        return w.pure("i32", "or i32 {}, {}", w.pure("i32", "and i32 {}, {}", k.lane, mine), there)

    def _lanes(self, x: Row) -> Row:
        """Scan over lanes: the total of the lanes up to this one."""
        k, w, bits = self.k, self.k.w, self.s.lane
        if not bits:
            return x
        at = self._position(bits, 0)
        for n in range(len(bits)):
            source = self._source(at, 1 << n)
            other = [k.shuffle(v, "idx", source) for v in x]
            x = self.f.choose(w.icmp("uge", at, k.i32(1 << n)), self.f(other, x), x)
        return x

    def _before(self, total: Row) -> tuple[Row | None, Val | None]:
        """What the lanes before add up to, and whether there are any."""
        bits = self.s.lane
        if not bits:
            return None, None
        at = self._position(bits, 0)
        source = self._source(at, 1)
        before = [self.k.shuffle(v, "idx", source) for v in total]
        return before, self.k.w.icmp("uge", at, self.k.i32(1))

    def _last_lane(self, x: Row) -> Row:
        """The value of the last lane along the axis, in all its lanes."""
        bits = self.s.lane
        if not bits:
            return x
        source = self._source(self.k.i32((1 << len(bits)) - 1), 0)
        return [self.k.shuffle(v, "idx", source) for v in x]

    def _through_shared(self, chunks: Iterable[tuple[int, int]]) -> dict[
            tuple[int, int], tuple[Row | None, Val | None]]:
        """What comes before each chunk: the earlier chunks, and earlier warps in this one."""
        k, w, s, f = self.k, self.k.w, self.s, self.f
        warps, n = 1 << len(s.warp), 1 << len(s.high)
        target = self.layout.without(self.axis)
        rests = list(dict.fromkeys(rest for rest, _ in chunks))
        indices = dict(zip(rests, k.indices(target)))
        mine = self._position(s.warp, len(self.layout.lane))
        places = _places(k, self.op, self.rest * warps * n)

        def address(place: int, rest: int, chunk: int, warp: Val, e: DType) -> Val:
            slot = w.add(w.mul(warp, k.i32(self.rest)), indices[rest])
            slot = w.add(slot, k.i32(chunk * warps * self.rest))
            return k.shared_at(place, w.mul(slot, k.i32(_slot(e))))

        last = None
        if s.lane:
            at = self._position(s.lane, 0)
            last = w.icmp("eq", at, k.i32((1 << len(s.lane)) - 1))
        last = k.both(last, k.owner(self.layout))
        branch = w.begin_if(last) if last is not None else None
        for rest, chunk in chunks:
            for place, v, e in zip(places, self.totals[rest, chunk], f.accs):
                k.put(address(place, rest, chunk, mine, e), [v], e)
        if branch is not None:
            w.end_if(branch)
        k.barrier()
        out: dict[tuple[int, int], tuple[Row | None, Val | None]] = {}
        running: dict[int, Row] = {}
        for rest, chunk in chunks:
            prefix, known = running.get(rest), None
            total = running.get(rest)
            for warp in range(warps):
                if warp and total is not None:
                    here = w.icmp("eq", mine, k.i32(warp))
                    prefix = f.choose(here, total, prefix) if prefix is not None else total
                part = [k.get(address(place, rest, chunk, k.i32(warp), e), 1, e)[0]
                        for place, e in zip(places, f.accs)]
                total = f(total, part) if total is not None else part
            if rest not in running:
                known = w.icmp("uge", mine, k.i32(1))
            assert total is not None
            running[rest] = total
            out[rest, chunk] = (prefix, known)
        return out

    def _joined(self, a: Row | None, has_a: Val | None, b: Row | None, has_b: Val | None
                ) -> tuple[Row | None, Val | None]:
        """Two optional prefixes after each other; None as a condition means always."""
        if a is None or b is None:
            return (b, has_b) if a is None else (a, has_a)
        f, w = self.f, self.k.w
        out = f(a, b)
        if has_b is not None:
            out = f.choose(has_b, out, a)
        if has_a is not None:
            out = f.choose(has_a, out, b)
            if has_b is not None:
                return out, w.pure("i1", "or i1 {}, {}", has_a, has_b)
            return out, None
        return out, None

    def _onto(self, carry: Row | None, has: Val | None, x: Row) -> Row:
        if carry is None:
            return x
        out = self.f(carry, x)
        return out if has is None else self.f.choose(has, out, x)


def _spread(index: int, bits: Sequence[int]) -> int:
    """The bits of a number moved to the given places."""
    return sum(1 << b for n, b in enumerate(bits) if index >> n & 1)
