"""Loads and stores: masks, bounds, strides, alignment, large offsets, order, aliasing."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from tegula.conformance.case import Case, Sketch, Spec
from tegula.conformance.cases.elementwise import ALL, INTS
from tegula.conformance.cases.shapes import data
from tegula.conformance.values import storage
from tegula.ir import Block, Builder, DType
from tegula.ir.ops.memory import CACHE_LOAD, CACHE_STORE, EVICT
from tegula.ir.types import f32, f64, i1, i8, i16, i32, i64, u8, u32, u64


def junk(count: int, t: DType) -> np.ndarray:
    """What an output buffer holds before the launch."""
    return np.full(count * storage(t).itemsize, 0x5B, np.uint8).view(storage(t))


def _copy(t: DType, start: int) -> Case:
    """x to out in blocks, the last one masked; nothing past the end is touched."""
    n, block = 150 - start, 64
    s = Sketch(block, (3, 1, 1))
    x = data(t, (150,))
    p = s.buffer("x", t, x, start=start)
    q = s.out("out", t, np.concatenate([junk(start, t), x[start:]]), start=start)
    offsets, mask = s.lanes(s.scalar("n", i32, n))
    s.b.store(s.at(q, offsets), s.b.load(s.at(p, offsets), mask), mask)
    return s.case()


def _masked(t: DType) -> Case:
    """Masked loads with and without `other`, masked stores that leave the rest alone."""
    n = 70
    s = Sketch()
    x, keep = data(t, (n,)), data(i1, (n,), 4)
    other = data(t, (n,), 8)
    p, m = s.buffer("x", t, x), s.buffer("m", i1, keep)
    o = s.buffer("other", t, other)
    zero = np.zeros(n, storage(t))
    outs = [
        s.out("other_out", t, np.where(keep, x, other)),
        s.out("zero_out", t, np.where(keep, x, zero)),
        s.out("kept_out", t, np.where(keep, x, junk(n, t))),
    ]
    offsets = s.flat((n,))
    mask = s.b.load(s.at(m, offsets))
    given = s.b.load(s.at(o, offsets))
    s.b.store(s.at(outs[0], offsets), s.b.load(s.at(p, offsets), mask, given))
    value = s.b.load(s.at(p, offsets), mask)
    s.b.store(s.at(outs[1], offsets), value)
    s.b.store(s.at(outs[2], offsets), value, mask)
    return s.case()


def _masked_off(t: DType) -> Case:
    """Masked-off elements touch no memory, wherever their pointers point."""
    n = 40
    s = Sketch()
    x = data(t, (8,))
    p, q = s.buffer("x", t, x), s.out("out", t, np.concatenate([x[:3], junk(5, t)]))
    line = s.flat((n,))
    mask = s.b.cmp(line, s.constant(3, (n,)), pred="lt")
    far = s.b.mul(s.b.cast(line, to=i64), s.constant(1 << 40, (n,), i64))
    near = s.b.select(mask, s.b.cast(line, to=i64), far)
    s.b.store(s.at(q, near), s.b.load(s.at(p, near), mask), mask)
    none = s.constant(0, (n,), i1)
    s.b.store(s.at(q, far), s.b.load(s.at(p, far), none), none)
    return s.case()


def _scalar(t: DType) -> Case:
    """Single elements, with and without a mask."""
    s = Sketch()
    x = data(t, (6,))
    b = s.b
    p = s.buffer("x", t, x)
    q = s.out("out", t, [x[4], x[0], np.zeros(1, storage(t))[0], *junk(1, t)])
    s.b.store(q, b.load(b.addptr(p, s.constant(4))))
    b.store(b.addptr(q, s.constant(1)), b.load(p), s.constant(1, (), i1))
    missing = b.load(p, s.constant(0, (), i1))
    b.store(b.addptr(q, s.constant(2)), missing)
    b.store(b.addptr(q, s.constant(3)), b.load(p), s.constant(0, (), i1))
    return s.case()


def _strided(t: DType) -> Case:
    """Strides other than one, backwards, and two dimensions in both orders."""
    s = Sketch()
    b = s.b
    x = data(t, (96,))
    p = s.buffer("x", t, x)
    line = s.flat((20,))
    s.store(s.out("third", t, x[0:60:3]), b.load(s.at(p, b.mul(line, s.constant(3, (20,))))))
    back = b.sub(s.constant(19, (20,)), line)
    s.store(s.out("back", t, x[19::-1]), b.load(s.at(p, back)))
    scattered = np.array(junk(60, t))
    scattered[0:60:3] = x[:20]
    q = s.out("scatter", t, scattered)
    b.store(s.at(q, b.mul(line, s.constant(3, (20,)))), b.load(s.at(p, line)))
    rows, columns = 8, 6
    i = b.broadcast(b.expand_dims(s.flat((rows,)), axis=1), shape=(rows, columns))
    j = b.broadcast(b.expand_dims(s.flat((columns,)), axis=0), shape=(rows, columns))
    wide = b.add(b.mul(i, s.constant(12, (rows, columns))), j)
    tall = b.add(i, b.mul(j, s.constant(12, (rows, columns))))
    matrix = x.reshape(8, 12)
    s.store(s.out("rows", t, matrix[:, :columns]), b.load(s.at(p, wide)))
    turned = x[:72].reshape(6, 12)[:, :rows].T
    s.store(s.out("columns", t, turned), b.load(s.at(p, tall)))
    return s.case()


def _gather(t: DType) -> Case:
    """Offsets that are data, some of them equal."""
    s = Sketch()
    x = data(t, (50,))
    index = np.random.default_rng(2).integers(0, 50, 77).astype(np.int32)
    order = np.random.default_rng(3).permutation(77).astype(np.int32)
    p, i, o = s.buffer("x", t, x), s.buffer("i", i32, index), s.buffer("o", i32, order)
    expected = np.empty(77, storage(t))
    expected[order] = x[index]
    q = s.out("out", t, expected)
    value = s.b.load(s.at(p, s.load(i, (77,))))
    s.b.store(s.at(q, s.load(o, (77,))), value)
    return s.case()


def _empty(t: DType) -> Case:
    """Tiles without elements, and a grid of programs that have nothing to do."""
    s = Sketch(16, (3, 1, 1))
    x = data(t, (4,))
    p, q = s.buffer("x", t, x), s.out("out", t, junk(4, t))
    s.store(q, s.load(p, (0,)))
    offsets, mask = s.lanes(s.scalar("n", i32, 0))
    s.b.store(s.at(q, offsets), s.b.load(s.at(p, offsets), mask), mask)
    nothing = s.buffer("nothing", t, x[:0])
    s.b.store(s.at(q, offsets), s.b.load(s.at(nothing, offsets), mask), mask)
    return s.case()


def _offsets(t: DType, offset: DType) -> Case:
    """Offsets of every integer dtype, extended by their own sign."""
    s = Sketch()
    b = s.b
    x = data(t, (60,))
    values = np.arange(30) * 2
    if offset is i1:
        values = np.arange(30) % 2
    low = -20 if offset.is_signed else 0
    p = s.buffer("x", t, x, start=20 if low else 0)
    if low:
        values = values - 20
    o = s.buffer("o", offset, values)
    s.store(s.out("out", t, x[values - low]), b.load(s.at(p, s.load(o, (30,)))))
    return s.case()


def _huge(t: DType, offset: DType) -> Case:
    """Far away and back: offsets beyond 31 and 32 bits are not cut."""
    s = Sketch()
    b = s.b
    n = 12
    x = data(t, (n,))
    p, q = s.buffer("x", t, x), s.out("out", t, np.concatenate([x[::-1], x[:1]]))
    far = {u32: 3_000_000_000, i32: 2_147_483_000, i64: 5_000_000_000, u64: 6_000_000_000}[offset]
    back = s.scalar("back", i64, -far)
    away = s.scalar("away", offset, far)
    line = b.sub(s.constant(n - 1, (n,)), s.flat((n,)))
    base = b.addptr(p, back)
    offsets = b.add(b.splat(away, shape=(n,)), b.cast(line, to=offset))
    tile = b.load(s.at(base, offsets))
    b.store(s.at(q, s.flat((n,))), tile)
    one = b.load(b.addptr(base, away))
    moved = b.addptr(b.addptr(b.addptr(q, away), back), s.constant(n))
    b.store(moved, one)
    return s.case()


def _ends(t: DType, n: int) -> Case:
    """Masks that end anywhere in a tile, and behind it: program k stores k elements of n.

    Each program has a row with room at its end.
    """
    count, pitch = n + 6, n + 6
    s = Sketch(grid=(count, 1, 1))
    b, x = s.b, data(t, (n,))
    rows = np.tile(junk(pitch, t), (count, 1))
    for end, row in enumerate(rows):
        row[: min(n, end)] = x[:end]
    p, q = s.buffer("x", t, x), s.out("out", t, rows)
    pid = b.program_id(axis=0)
    mask = b.cmp(s.flat((n,)), b.splat(pid, shape=(n,)), pred="lt")
    row = b.addptr(q, b.mul(pid, s.constant(pitch)))
    b.store(s.at(row, s.flat((n,))), b.load(s.at(p, s.flat((n,))), mask), mask)
    return s.case()


def _wrapped_value(step: int, far: int) -> Case:
    """An index that leaves 32 bits within a tile, and is extended to 64 afterwards."""
    n = 70
    s = Sketch()
    index = ((far + step * np.arange(n)) + 2**31) % 2**32 - 2**31
    q = s.out("out", i64, index)
    start = s.b.splat(s.scalar("far", i32, far), shape=(n,))
    line = s.b.mul(s.flat((n,)), s.constant(step, (n,)))
    s.store(q, s.b.cast(s.b.add(start, line), to=i64))
    return s.case()


def _wrapped_mask(t: DType) -> Case:
    """A mask that compares an index which leaves its type within the tile."""
    n, room, limit = 70, 20, 5
    s = Sketch()
    far = t.max_value - room
    index = [far + j - (j > room) * (1 << t.bits) for j in range(n)]
    keep = np.array([i < t.max_value - limit for i in index])
    x = data(i32, (n,))
    p, q = s.buffer("x", i32, x), s.out("out", i32, np.where(keep, x, junk(n, i32)))
    start = s.b.splat(s.scalar("far", t, far), shape=(n,))
    at = s.b.add(start, s.b.cast(s.flat((n,)), to=t) if t is not i32 else s.flat((n,)))
    end = s.b.splat(s.scalar("end", t, t.max_value - limit), shape=(n,))
    mask = s.b.cmp(at, end, pred="lt")
    s.b.store(s.at(q, s.flat((n,))), s.b.load(s.at(p, s.flat((n,))), mask), mask)
    return s.case()


def _wrapped_address(widened: bool) -> Case:
    """Offsets that have wrapped around, of a pointer that was moved as far the other way."""
    n, room = 70, 20
    s = Sketch()
    b = s.b
    x = data(i32, (n,))
    p, q = s.buffer("x", i32, x[room + 1 :]), s.out("out", i32, np.where(np.arange(n) > room, x, 0))
    far = s.scalar("far", i32, i32.max_value - room)
    offsets = b.add(b.splat(far, shape=(n,)), s.flat((n,)))
    mask = b.cmp(offsets, s.constant(0, (n,)), pred="lt")
    base = b.addptr(p, s.constant(1 << 31, (), i64))
    value = b.load(s.at(base, b.cast(offsets, to=i64) if widened else offsets), mask)
    s.store(q, value)
    return s.case()


def _attributes(cache: str, evict: str, volatile: bool, store_cache: str) -> Case:
    """Hints to caches change no value."""
    s = Sketch(32, (2, 1, 1))
    x = data(f32, (50,))
    p, q = s.buffer("x", f32, x), s.out("out", f32, x)
    offsets, mask = s.lanes(s.scalar("n", i32, 50))
    value = s.b.load(s.at(p, offsets), mask, cache=cache, evict=evict, volatile=volatile)
    s.b.store(s.at(q, offsets), value, mask, cache=store_cache, evict=evict)
    return s.case()


# -------------------------------------------------------------------------------------------------
# Order


def _shift_in_place(t: DType, by: int) -> Case:
    """A tile is read as a whole before any of it is written."""
    n = 70
    s = Sketch()
    x = data(t, (n + 8,))
    expected = x.copy()
    expected[by : n + by] = x[:n]
    q = s.out("x", t, expected, before=x)
    s.b.store(s.b.addptr(s.at(q, s.flat((n,))), s.constant(by, (n,))), s.load(q, (n,)))
    return s.case()


def _read_after_write(t: DType) -> Case:
    """Loads see earlier stores of their program, also through other addresses' order."""
    n = 33
    s = Sketch()
    b = s.b
    x = data(t, (n,))
    p = s.buffer("x", t, x)
    q = s.out("work", t, x[::-1])
    r = s.out("out", t, x[::-1])
    line = s.flat((n,))
    back = b.sub(s.constant(n - 1, (n,)), line)
    first = b.load(s.at(p, line))
    b.store(s.at(q, line), first)
    turned = b.load(s.at(q, back))
    b.store(s.at(q, line), turned)
    b.store(s.at(r, line), b.load(s.at(q, line)))
    return s.case()


def _load_before_store(t: DType) -> Case:
    """A load keeps the value of its time, though it is used after a store to the same place."""
    n = 40
    s = Sketch()
    b = s.b
    x, y = data(t, (n,)), data(t, (n,), 5)
    p = s.out("x", t, y, before=x)
    q = s.out("out", t, x)
    w = s.buffer("y", t, y)
    old = s.load(p, (n,))
    s.store(p, s.load(w, (n,)))
    s.store(q, b.reshape(old, shape=(n,)))
    return s.case()


def _aliased(t: DType, by: int) -> Case:
    """Two arguments are the same memory, and the options say that this may be."""
    n = 60
    s = Sketch()
    x = data(t, (n + 8,))
    expected = x.copy()
    expected[by : n + by] = x[:n]
    target = s.out("x", t, expected, before=x)
    source = s.buffer("y", t, x, alias_of="x")
    s.b.store(s.b.addptr(s.at(target, s.flat((n,))), s.constant(by, (n,))), s.load(source, (n,)))
    return s.case(options={"assume_disjoint": False})


def _store_in_loop() -> Case:
    """Stores and loads of a loop happen turn after turn."""
    n = 24
    s = Sketch()
    b = s.b
    q = s.out("x", i32, [2**k % 2**31 if k < 31 else 0 for k in range(n)], before=[1] * n)
    body = Block([i32])
    inner = Builder(body)
    index = body.args[0]
    previous = inner.load(inner.addptr(q, inner.sub(index, inner.constant(1, i32))))
    inner.store(inner.addptr(q, index), inner.add(previous, previous))
    inner.yield_([])
    b.for_(s.constant(1), s.constant(n), s.constant(1), [], body)
    return s.case()


# -------------------------------------------------------------------------------------------------
# Pointers as values


def _pointers() -> Case:
    """Pointers are compared, chosen, converted and moved around like any value."""
    n = 16
    s = Sketch()
    b = s.b
    x, y = data(f32, (n,)), data(f32, (n,), 1)
    p, q = s.buffer("x", f32, x), s.buffer("y", f32, y)
    line = s.flat((n,))
    px, py = s.at(p, line), s.at(q, line)
    even = b.cmp(b.and_(line, s.constant(1, (n,))), s.constant(0, (n,)), pred="eq")
    mixed = b.select(even, px, py)
    parity = np.arange(n) % 2 == 0
    s.store(s.out("mixed", f32, np.where(parity, x, y)), b.load(mixed))
    same = b.cmp(mixed, px, pred="eq")
    s.store(s.out("same", i1, parity), same)
    for pred in ("lt", "le", "gt", "ge", "ne"):
        shown = {"lt": x[:0].size == 1, "le": True, "gt": False, "ge": True, "ne": False}[pred]
        s.store(s.out(pred, i1, [shown] * n), b.cmp(px, px, pred=pred))
    for to in (i64, u64):
        number = b.cast(px, to=to)
        step = b.sub(number, b.splat(b.cast(p, to=to), shape=(n,)))
        s.store(s.out(f"step_{to}", to, np.arange(n) * 4), step)
        again = b.cast(number, to=px.type.elem)
        s.store(s.out(f"again_{to}", f32, x), b.load(again))
    turned = b.permute(b.reshape(px, shape=(4, 4)), dims=(1, 0))
    s.store(s.out("turned", f32, x.reshape(4, 4).T), b.load(turned))
    return s.case()


def _pointer_loop() -> Case:
    """A pointer carried by a loop walks through memory."""
    n, turns = 8, 5
    s = Sketch()
    b = s.b
    x = np.arange(n * turns, dtype=np.float32)
    p = s.buffer("x", f32, x)
    pointers = s.at(p, s.flat((n,)))
    zero = s.constant(0.0, (n,), f32)
    body = Block([i32, pointers.type, zero.type])
    inner = Builder(body)
    _, at, total = body.args
    total = inner.add(total, inner.load(at))
    inner.yield_([inner.addptr(at, inner.constant(n, s.flat((n,)).type)), total])
    _, result = b.for_(s.constant(0), s.constant(turns), s.constant(1), [pointers, zero], body)
    s.store(s.out("out", f32, x.reshape(turns, n).sum(0)), result)
    return s.case()


# -------------------------------------------------------------------------------------------------
# Tensor descriptors


def _descriptor(t: DType, padding: str) -> Case:
    """Blocks inside, across every border and outside of a strided matrix."""
    rows, columns, pitch = 9, 13, 16
    block = (4, 8)
    s = Sketch()
    x = data(t, (rows * pitch,))
    p = s.buffer("x", t, x)
    shape = [s.scalar("rows", i32, rows), s.scalar("columns", i32, columns)]
    strides = [s.scalar("pitch", i64, pitch), s.constant(1, (), i64)]
    desc = s.b.make_descriptor(p, shape, strides, block_shape=block, padding=padding)
    fill = np.array(np.nan if padding == "nan" else 0).astype(storage(t))
    big = np.full((60, 60), fill, storage(t))
    big[20 : 20 + rows, 20 : 20 + columns] = x.reshape(rows, pitch)[:, :columns]
    for number, (i, j) in enumerate(((0, 0), (4, 3), (7, 8), (-2, -5), (8, 12), (20, 0), (0, -20))):
        tile = s.b.desc_load(desc, [s.constant(i), s.constant(j)])
        expected = big[20 + i : 24 + i, 20 + j : 28 + j]
        s.store(s.out(f"out{number}", t, expected), tile)
    return s.case()


def _descriptor_store(t: DType) -> Case:
    """Stores drop what lies outside; a transposed view has other strides."""
    rows, columns = 5, 7
    s = Sketch()
    y = data(t, (4, 4))
    before = data(t, (rows, columns), 3)
    v = s.buffer("y", t, y)
    tile = s.load(v, (4, 4))
    for number, (i, j) in enumerate(((0, 0), (3, 5), (-1, -2), (9, 9))):
        frame = np.zeros((30, 30), storage(t))
        frame[10 : 10 + rows, 10 : 10 + columns] = before
        frame[10 + i : 14 + i, 10 + j : 14 + j] = y
        expected = frame[10 : 10 + rows, 10 : 10 + columns]
        q = s.out(f"out{number}", t, expected, before=before)
        shape = [s.constant(rows), s.constant(columns)]
        strides = [s.constant(columns, (), i64), s.constant(1, (), i64)]
        desc = s.b.make_descriptor(q, shape, strides, block_shape=(4, 4))
        s.b.desc_store(desc, tile, [s.constant(i), s.constant(j)])
    turned = before.copy().reshape(-1)
    turned.reshape(rows, columns)[0:4, 1:5] = y.T
    q = s.out("turned", t, turned, before=before)
    strides = [s.constant(1, (), i64), s.constant(columns, (), i64)]
    desc = s.b.make_descriptor(
        q, [s.constant(columns), s.constant(rows)], strides, block_shape=(4, 4)
    )
    s.b.desc_store(desc, tile, [s.constant(1), s.constant(0)])
    return s.case()


def _descriptor_ranks(cache: str, evict: str, store_cache: str) -> Case:
    """One to five dimensions, with cache hints."""
    s = Sketch()
    for rank in range(1, 6):
        shape = (3, 2, 4, 2, 3)[:rank]
        block = (2, 2, 3, 1, 2)[:rank]
        x = data(f32, shape, rank)
        p = s.buffer(f"x{rank}", f32, x)
        strides = [int(v) // 4 for v in x.strides]
        made = [s.constant(v) for v in shape], [s.constant(v, (), i64) for v in strides]
        desc = s.b.make_descriptor(p, *made, block_shape=block)
        offsets = [1, 0, 2, 1, 2][:rank]
        tile = s.b.desc_load(desc, [s.constant(o) for o in offsets], cache=cache, evict=evict)
        frame = np.zeros([d + 8 for d in shape], np.float32)
        frame[tuple(slice(0, d) for d in shape)] = x
        expected = frame[tuple(slice(o, o + w) for o, w in zip(offsets, block))]
        s.store(s.out(f"out{rank}", f32, expected), tile)
        written = np.full(shape, 7, np.float32)
        region = tuple(slice(o, min(o + w, d)) for o, w, d in zip(offsets, block, shape))
        written[region] = x[region]
        q = s.out(f"store{rank}", f32, written, before=np.full(shape, 7, np.float32))
        back = s.b.make_descriptor(q, *made, block_shape=block)
        where = [s.constant(o) for o in offsets]
        s.b.desc_store(back, tile, where, cache=store_cache, evict=evict)
    return s.case()


def specs() -> Iterator[Spec]:
    """All cases of this module."""
    memory = ("load", "store", "addptr")
    for t in ALL:
        yield Spec(f"memory.copy.{t}", partial(_copy, t, 0), memory, (t,), frozenset({"tail"}))
        unaligned = frozenset({"unaligned", "tail"})
        for start in (1, 3):
            make = partial(_copy, t, start)
            yield Spec(f"memory.unaligned{start}.{t}", make, memory, (t,), unaligned)
        yield Spec(f"memory.masked.{t}", partial(_masked, t), memory, (t,), frozenset({"masked"}))
        make = partial(_masked_off, t)
        yield Spec(f"memory.masked_off.{t}", make, memory, (t,), frozenset({"wild"}))
        yield Spec(f"memory.scalar.{t}", partial(_scalar, t), memory, (t,), frozenset({"scalar"}))
        make = partial(_strided, t)
        yield Spec(f"memory.strided.{t}", make, memory, (t,), frozenset({"strided"}))
        yield Spec(f"memory.gather.{t}", partial(_gather, t), memory, (t,), frozenset({"gather"}))
        yield Spec(f"memory.empty.{t}", partial(_empty, t), memory, (t,), frozenset({"empty"}))
        for by in (1, 8):
            make = partial(_shift_in_place, t, by)
            yield Spec(f"memory.in_place{by}.{t}", make, memory, (t,), frozenset({"overlap"}))
        for label, f in (("raw", _read_after_write), ("war", _load_before_store)):
            yield Spec(f"memory.{label}.{t}", partial(f, t), memory, (t,), frozenset({"order"}))
    for t in (f32, i32, i8, f64):
        for by in (0, 1, 8):
            make = partial(_aliased, t, by)
            yield Spec(f"memory.aliased{by}.{t}", make, memory, (t,), frozenset({"alias"}))
    yield Spec("memory.loop", _store_in_loop, memory, (i32,), frozenset({"order"}))
    for offset in INTS:
        yield Spec(
            f"memory.offset.{offset}", partial(_offsets, f32, offset), ("addptr",), (offset,)
        )
    for t in (f32, u8, i16, f64):
        for offset in (i32, u32, i64, u64):
            make = partial(_huge, t, offset)
            yield Spec(f"memory.huge.{t}.{offset}", make, memory, (t, i64), frozenset({"huge"}))
    for t in (f32, i32, i8, f64):
        for n in (64, 70):
            make = partial(_ends, t, n)
            yield Spec(f"memory.ends{n}.{t}", make, memory, (t,), frozenset({"tail"}))
    for step, far in ((1, 2**31 - 30), (3, 2**31 - 50), (-1, -(2**31) + 9), (1 << 28, 5)):
        make = partial(_wrapped_value, step, far)
        yield Spec(f"memory.wrapped.value{step}", make, ("add", "cast"), (i32, i64))
    for t in (i32, i64):
        yield Spec(f"memory.wrapped.mask.{t}", partial(_wrapped_mask, t), memory, (t,), full=True)
    for widened in (False, True):
        label = "memory.wrapped.address" + (".i64" if widened else "")
        make = partial(_wrapped_address, widened)
        yield Spec(label, make, ("addptr", "load"), (i32, i64))
    yield from _hint_specs()
    yield Spec("memory.pointers", _pointers, ("cmp", "select", "cast", "permute"), (i64, u64))
    yield Spec("memory.pointer_loop", _pointer_loop, ("for", "addptr"), (f32,))
    yield from _descriptor_specs()


def _hint_specs() -> Iterator[Spec]:
    for i in range(max(len(CACHE_LOAD), len(EVICT), len(CACHE_STORE))):
        c, e, w = CACHE_LOAD[i % 5], EVICT[i % 4], CACHE_STORE[i % 5]
        make: Any = partial(_attributes, c, e, bool(i % 2), w)
        yield Spec(f"memory.hints{i}", make, ("load", "store"), (f32,))
        make = partial(_descriptor_ranks, c, e, w)
        yield Spec(f"descriptor.ranks{i}", make, ("make_descriptor", "desc_load", "desc_store"))


def _descriptor_specs() -> Iterator[Spec]:
    for t in ALL:
        for padding in ("zero", "nan") if t.is_float else ("zero",):
            make = partial(_descriptor, t, padding)
            ops = ("make_descriptor", "desc_load")
            yield Spec(f"descriptor.load.{t}.{padding}", make, ops, (t,))
        make = partial(_descriptor_store, t)
        yield Spec(f"descriptor.store.{t}", make, ("make_descriptor", "desc_store"), (t,))
