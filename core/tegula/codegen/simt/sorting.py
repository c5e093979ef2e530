"""Sorting and flipping: elements change places with those whose index differs by the same bits.

Such an exchange costs nothing where the bits belong to registers, a shuffle where they belong to
lanes, and goes through shared memory where they belong to warps. A sort is a bitonic network of
them.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

from tegula.codegen.loops.convert import to_f32
from tegula.codegen.loops.text import Val
from tegula.codegen.simt.convert import byte_of, padded_bytes, run_length, write_tile
from tegula.codegen.simt.layout import Layout, Span, axis_fields
from tegula.codegen.simt.registry import Context, lowers
from tegula.ir.core import Op
from tegula.ir.types import DTYPES, DType, ScalarType, elem_of, i32

if TYPE_CHECKING:
    from tegula.codegen.simt.kernel import Emitter


class Swap:
    """Where a thread finds the elements whose index differs by `mask`: bits of the number of the
    register, the lane and the warp."""

    def __init__(self, layout: Layout, mask: int, lanes: int) -> None:
        how = Span((*layout.register, *layout.threads)).solve(mask)
        assert how is not None, (layout, mask)
        self.mask = mask
        self.register = how & layout.registers - 1
        thread = how >> len(layout.register)
        self.lane, self.warp = thread & lanes - 1, thread // lanes

    @property
    def inside(self) -> bool:
        """Whether the thread has them itself."""
        return not (self.lane or self.warp)


class Exchanger:
    """Exchanges the elements of tiles of one layout, which an op holds in registers."""

    def __init__(self, k: Emitter, op: Op, layout: Layout, elems: Sequence[ScalarType]) -> None:
        self.k, self.op, self.layout, self.elems = k, op, layout, elems
        self._used = False

    def others(self, columns: Sequence[list[Val]], swap: Swap) -> list[list[Val]]:
        """For each element of each tile the one whose index differs by the swap's mask."""
        if swap.warp:
            return self._through_shared(columns, swap)
        moved = [[c[r ^ swap.register] for r in range(len(c))] for c in columns]
        if not swap.lane:
            return moved
        by = self.k.i32(swap.lane)
        return [[self.k.shuffle(x, "xor", by) for x in c] for c in moved]

    def _through_shared(self, columns: Sequence[list[Val]], swap: Swap) -> list[list[Val]]:
        k, place = self.k, self.k.scratch(self.op)
        if self._used:
            k.barrier()
        self._used = True
        places = []
        for c, e in zip(columns, self.elems):
            write_tile(k, place, self.layout, c, e)
            places.append(place)
            place += _room(self.layout, e)
        k.barrier()
        return [self._read(at, e, swap) for at, e in zip(places, self.elems)]

    def _read(self, place: int, e: ScalarType, swap: Swap) -> list[Val]:
        k, n = self.k, run_length(self.layout, e)
        indices, out = k.indices(self.layout), []
        for r in range(0, self.layout.registers, n):
            index = k.w.pure("i32", "xor i32 {}, {}", indices[r], k.i32(swap.mask & -n))
            values = k.get(k.shared_at(place, byte_of(k, index, e)), n, e)
            out += [values[j ^ swap.mask & n - 1] for j in range(n)]
        return out


def _room(layout: Layout, e: ScalarType) -> int:
    return (padded_bytes(prod(layout.shape), e) + 15) // 16 * 16


def _bits_along(layout: Layout, axis: int) -> list[int]:
    shift, bits = axis_fields(layout.shape)[axis]
    return [1 << shift + i for i in range(bits)]


# -- flip


def _whole(layout: Layout, axis: int) -> int:
    return sum(_bits_along(layout, axis))


def _flip_scratch(op: Op, ctx: Context) -> int:
    layout = ctx.layouts[op.operands[0]]
    swap = Swap(layout, _whole(layout, op.attrs["axis"]), ctx.simt.warp_size)
    return _room(layout, elem_of(op.operands[0].type)) if swap.warp else 0


@lowers("flip", scratch=_flip_scratch)
def _flip(k: Emitter, op: Op) -> None:
    (x,) = op.operands
    layout = k.layout(x)
    swap = Swap(layout, _whole(layout, op.attrs["axis"]), k.simt.warp_size)
    (regs,) = Exchanger(k, op, layout, [elem_of(x.type)]).others([k.regs(x)], swap)
    k.set(op.results[0], regs)


# -- sort


def _sort_scratch(op: Op, ctx: Context) -> int:
    layout = ctx.layouts[op.operands[0]]
    masks = _bits_along(layout, op.attrs["axis"])
    if not any(Swap(layout, m, ctx.simt.warp_size).warp for m in masks):
        return 0
    return sum(_room(layout, e) for e in _carried(op))


def _key_type(e: DType) -> DType:
    return DTYPES[f"i{e.bits}"] if e.is_float else e


def _restorable(e: DType) -> bool:
    """Whether an element can be made from its key again (NaN becomes any NaN)."""
    return e.is_int or e.bits > 8


def _carried(op: Op) -> list[ScalarType]:
    """What moves: the key, its place where equal keys can be told apart, and elements."""
    elems = [elem_of(v.type) for v in op.operands]
    key = elems[0]
    assert isinstance(key, DType)
    if _restorable(key) and len(elems) == 1:
        return [_key_type(key)]
    return [_key_type(key), i32, *(elems[1:] if key.is_int else elems)]


@lowers("sort", scratch=_sort_scratch)
def _sort(k: Emitter, op: Op) -> None:
    axis, descending = op.attrs["axis"], op.attrs["descending"]
    layout = k.layout(op.operands[0])
    key = elem_of(op.operands[0].type)
    assert isinstance(key, DType)
    elems = _carried(op)
    to = _key_type(key)
    keys = [_ordered(k, x, key) for x in k.regs(op.operands[0])]
    if descending:
        keys = [_turned(k, x) for x in keys]
    places = k.coordinates(layout, axis)
    bound = op.attrs.get("bound")
    if bound is not None:  # what was added to the row goes to its end
        top = k.constant(to.max_value, to)
        there = [k.w.icmp("ult", at, k.i32(bound)) for at in places]
        keys = [k.w.select(c, x, top) for c, x in zip(there, keys)]
    columns = [keys]
    if len(elems) > 1:
        carried = op.operands[len(op.operands) - (len(elems) - 2) :]
        columns += [places, *(k.regs(v) for v in carried)]
    columns = _network(k, op, layout, elems, columns)
    results = columns[2:]
    if len(results) < len(op.results):
        keys = [_turned(k, x) for x in columns[0]] if descending else columns[0]
        results = [[_restored(k, x, key) for x in keys], *results]
    for v, regs in zip(op.results, results):
        k.set(v, regs)


def _ordered(k: Emitter, x: Val, e: DType) -> Val:
    """An integer in the order of the keys: -0.0 below 0.0, NaN above everything."""
    if e.is_int:
        return x
    w, to = k.w, DTYPES[f"i{e.bits}"]
    bits = k.raw(x)
    top = k.constant(to.max_value, to)
    minus = w.icmp("slt", bits, k.constant(0, to))
    turned = w.select(minus, w.pure(bits.ty, f"xor {bits.ty} {{}}, {{}}", bits, top), bits)
    wide = to_f32(k.l, x, e) if e.bits < 32 else x
    nan = w.pure("i1", f"fcmp uno {wide.ty} {{}}, {{}}", wide, wide)
    return w.select(nan, top, turned)


def _turned(k: Emitter, x: Val) -> Val:
    minus_one = k.w.const(1 if x.ty == "i1" else -1, x.ty)
    return k.w.pure(x.ty, f"xor {x.ty} {{}}, {{}}", x, minus_one)


def _restored(k: Emitter, x: Val, e: DType) -> Val:
    """The element with a key."""
    if e.is_int:
        return x
    w, to = k.w, DTYPES[f"i{e.bits}"]
    minus = w.icmp("slt", x, k.constant(0, to))
    turned = w.pure(x.ty, f"xor {x.ty} {{}}, {{}}", x, k.constant(to.max_value, to))
    bits = w.select(minus, turned, x)
    from tegula.codegen.simt.elementwise import register_type

    return k.cooked(bits, register_type(e))


def _network(k: Emitter, op: Op, layout: Layout, elems: Sequence[ScalarType],
             columns: list[list[Val]]) -> list[list[Val]]:
    """Sort rows of keys (and places), everything else moving along."""
    axis = op.attrs["axis"]
    bits = _bits_along(layout, axis)
    exchanger = Exchanger(k, op, layout, elems)
    for run in range(1, len(bits) + 1):
        rising = bits[run] if run < len(bits) else 0
        for step in reversed(bits[:run]):
            swap = Swap(layout, step, k.simt.warp_size)
            others = exchanger.others(columns, swap)
            smaller = _keep_smaller(k, layout, rising | step)
            columns = _stage(k, elems, columns, others, swap, smaller)
    return columns


def _keep_smaller(k: Emitter, layout: Layout, mask: int) -> list[Val]:
    """Whether each register keeps the smaller of its pair: the bits of the index in `mask` are
    equal (or the only one is 0)."""
    w = k.w
    odd = k.linear(k.thread, [(b & mask).bit_count() & 1 for b in layout.threads])
    if odd.const is not None:
        choices = [w.const(1, "i1"), w.const(0, "i1")]
    else:
        choices = [w.icmp("eq", odd, k.i32(0)), w.icmp("ne", odd, k.i32(0))]
    return [choices[(o & mask).bit_count() & 1] for o in layout.offsets]


def _stage(k: Emitter, elems: Sequence[ScalarType], columns: list[list[Val]],
           others: list[list[Val]], swap: Swap, smaller: list[Val]) -> list[list[Val]]:
    """Each pair ends with the smaller element on the side that keeps it."""
    w, count = k.w, len(columns[0])
    changed: dict[int, Val] = {}
    for r in range(count):
        partner = r ^ swap.register
        if swap.inside and partner in changed:
            changed[r] = changed[partner]
            continue
        larger = _larger(k, elems, [c[r] for c in columns], [c[r] for c in others])
        known = smaller[r].const
        if known is None:
            changed[r] = w.pure("i1", "xor i1 {}, {}", w.pure("i1", "xor i1 {}, true", larger),
                                smaller[r])
        else:
            changed[r] = larger if known else w.pure("i1", "xor i1 {}, true", larger)
    return [[w.select(changed[r], y[r], x[r]) for r in range(count)]
            for x, y in zip(columns, others)]


def _larger(k: Emitter, elems: Sequence[ScalarType], a: Sequence[Val], b: Sequence[Val]) -> Val:
    """Whether an element comes after its partner."""
    w, key = k.w, elems[0]
    assert isinstance(key, DType)
    after = w.icmp("sgt" if key.is_signed else "ugt", a[0], b[0])
    if len(elems) == 1:
        return after
    same = w.icmp("eq", a[0], b[0])
    later = w.icmp("ugt", a[1], b[1])
    return w.pure("i1", "or i1 {}, {}", after, w.pure("i1", "and i1 {}, {}", same, later))
