"""Moving elements by their values: gather, flip, sort, histogram; functions of single elements."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from math import prod

import numpy as np

from tegula.conformance.case import Case, Sketch, Spec
from tegula.conformance.cases.elementwise import ALL, INTS
from tegula.conformance.cases.shapes import Moves, data
from tegula.conformance.values import bits_of, edges, from_bits, ordinary, wide_range
from tegula.ir import Block, Builder, DType
from tegula.ir.types import f32, i1, i32

SHAPES = (
    ((1,), 0), ((7,), 0), ((64,), 0), ((33,), 0), ((4, 6), 0), ((4, 6), 1), ((2, 3, 5), 1),
    ((2, 3, 5), 2), ((3, 40), 1),
)  # fmt: skip


def _flip(t: DType) -> Case:
    m = Moves(t)
    for shape, axis in (*SHAPES, ((0, 3), 1), ((1, 1), 0), ((0,), 0)):
        x, e = m.input(shape)
        m.expect(m.b.flip(x, axis=axis), np.flip(e, axis))
    return m.s.case()


def _gather(t: DType, index: DType) -> Case:
    """Indices of every integer dtype; one outside of the axis takes the element at the end."""
    s = Sketch()
    rng = np.random.default_rng(4)
    for number, (shape, axis) in enumerate(SHAPES):
        x = data(t, shape, number)
        picked = list(shape)
        picked[axis] = (shape[axis] * 2 + 1) % 11 + 1
        low = -3 if index.is_signed else 0
        high = 1 if index is i1 else min(shape[axis] + 3, index.max_value)
        i = rng.integers(low, high, picked, endpoint=True)
        raw = i.astype(np.uint8 if index is i1 else f"{'i' if index.is_signed else 'u'}"
                       f"{index.itemsize}")  # fmt: skip
        if index.bits >= 32:
            raw.reshape(-1)[0] = index.max_value
            raw.reshape(-1)[-1] = index.min_value
        exact = np.array([int(v) for v in raw.reshape(-1)], object)
        clipped = np.clip(exact, 0, shape[axis] - 1).astype(np.int64).reshape(picked)
        tile = s.load(s.buffer(f"x{number}", t, x), shape)
        where = s.load(s.buffer(f"i{number}", index, raw), tuple(picked))
        expected = np.take_along_axis(x, clipped, axis)
        s.store(s.out(f"out{number}", t, expected), s.b.gather(tile, where, axis=axis))
    empty = s.load(s.buffer("xe", t, data(t, (3, 0))), (3, 0))
    none = s.load(s.buffer("ie", index, np.zeros(0)), (2, 0))
    s.store(s.out("oute", t, np.zeros(0)), s.b.gather(empty, none, axis=0))
    return s.case()


def sort_keys(t: DType, x: np.ndarray) -> list[list[float]]:
    """Keys by which Python orders elements as `sort` does: -0.0 below 0.0, NaN last."""
    rows = []
    for value in x:
        if t.is_int:
            rows.append([0, int(value), 0])
        else:
            number = float(np.float64(value))
            nan = number != number
            rows.append([float(nan), 0.0 if nan else number, 0 if np.signbit(value) else 1])
            if nan:
                rows[-1] = [1.0, 0.0, 0]
    return rows


def order_of(t: DType, x: np.ndarray, descending: bool) -> list[int]:
    """Positions of a row's elements in sorted order; equal ones as they stand."""
    keys = sort_keys(t, x)
    if not descending:
        return sorted(range(x.size), key=lambda i: keys[i])
    return sorted(range(x.size), key=lambda i: [-k for k in keys[i]])


def _sort(t: DType, descending: bool) -> Case:
    s = Sketch()
    e = edges(t)
    inputs = [(e, (e.size,), 0), (np.concatenate([e, wide_range(t, 70)]), (e.size + 70,), 0)]
    inputs += [(ordinary(t, prod(shape), k), shape, axis) for k, (shape, axis) in enumerate(SHAPES)]
    inputs += [(ordinary(t, 0), (0,), 0), (ordinary(t, 0), (2, 0), 0)]
    for number, (x, shape, axis) in enumerate(inputs):
        x = x.reshape(shape)
        tile = s.load(s.buffer(f"x{number}", t, x), shape)
        line = s.b.reshape(s.b.arange(start=0, end=prod(shape)), shape=shape)
        result, moved = s.b.sort(tile, [line], axis=axis, descending=descending)
        rows = np.moveaxis(x, axis, -1).reshape(-1, shape[axis]) if x.size else x.reshape(0, 0)
        order = np.array([order_of(t, row, descending) for row in rows], np.int64)
        places = np.arange(prod(shape), dtype=np.int32).reshape(shape)
        if x.size:
            at = np.moveaxis(order.reshape(np.moveaxis(x, axis, -1).shape), -1, axis)
            x, places = np.take_along_axis(x, at, axis), np.take_along_axis(places, at, axis)
        s.store(s.out(f"out{number}", t, x), result)
        s.store(s.out(f"moved{number}", i32, places), moved)
    return s.case()


def _histogram(t: DType, masked: bool) -> Case:
    """Values below 0 and from `bins` on are not counted."""
    s = Sketch()
    x = np.concatenate([edges(t), ordinary(t, 150) // 40 if t is not i1 else ordinary(t, 150)])
    if t is not i1:
        x = np.concatenate([x, np.arange(30).astype(x.dtype) % 12])
    n = x.size
    keep = ordinary(i1, n, 2)
    tile = s.load(s.buffer("x", t, x), (n,))
    mask = s.load(s.buffer("keep", i1, keep), (n,)) if masked else None
    exact = [int(v) for v, k in zip(x, keep) if k or not masked]
    for bins in (0, 1, 2, 10, 100):
        counts = [exact.count(b) for b in range(bins)]
        s.store(s.out(f"out{bins}", i32, counts), s.b.histogram(tile, mask, bins=bins))
    square = s.b.reshape(s.b.arange(start=0, end=24), shape=(2, 3, 4))
    halves = s.b.shr(square, s.constant(1, (2, 3, 4)))
    s.store(s.out("square", i32, [2] * 12 + [0]), s.b.histogram(halves, bins=13))
    none = s.b.arange(start=3, end=3)
    s.store(s.out("none", i32, [0, 0]), s.b.histogram(none, bins=2))
    return s.case()


def _map(t: DType) -> Case:
    """A function with two results and a branch inside."""
    s = Sketch()
    shape = (4, 9)
    x, c = data(t, shape), data(i1, shape, 3)
    block = Block([t, i1])
    b = Builder(block)
    value, flag = block.args
    then, other = Block(), Block()
    with b.at(then):
        b.yield_([value])
    with b.at(other):
        b.yield_([b.constant(1, t)])
    (chosen,) = b.if_(flag, then, other)
    b.yield_([chosen, b.not_(flag)])
    one = np.array([1]).astype(x.dtype)
    for number, part in enumerate((shape, (1,), (0,), (36,))):
        count = prod(part)
        tiles = [
            s.load(s.buffer(f"x{number}", t, x.reshape(-1)[:count]), part),
            s.load(s.buffer(f"c{number}", i1, c.reshape(-1)[:count]), part),
        ]
        body = block if number == 0 else _copy(block)
        first, second = s.b.create("map", tiles, regions=[body])
        flags = c.reshape(-1)[:count]
        expected = np.where(flags != 0, bits_of(x).reshape(-1)[:count], bits_of(one))
        s.store(s.out(f"out{number}", t, from_bits(expected, t)), first)
        s.store(s.out(f"flag{number}", i1, 1 - flags), second)
    return s.case()


def _copy(block: Block) -> Block:
    from tegula.ir import Cloner

    return Cloner().block(block)


def _map_loop() -> Case:
    """A loop inside of the function, of as many turns as each element says."""
    s = Sketch()
    x = np.arange(40, dtype=np.int32) % 13
    block = Block([i32])
    b = Builder(block)
    body = Block([i32, i32])
    inner = Builder(body)
    inner.yield_([inner.add(body.args[1], inner.mul(body.args[0], body.args[0]))])
    zero = b.constant(0, i32)
    (total,) = b.for_(zero, block.args[0], b.constant(1, i32), [zero], body)
    b.yield_([total])
    tile = s.load(s.buffer("x", i32, x), (40,))
    result = s.b.create("map", [tile], regions=[block])
    value = result if not isinstance(result, tuple) else result[0]
    s.store(s.out("out", i32, [sum(k * k for k in range(n)) for n in x]), value)
    return s.case()


def specs() -> Iterator[Spec]:
    """All cases of this module."""
    for t in ALL:
        yield Spec(f"collect.flip.{t}", partial(_flip, t), ("flip",), (t,), full=True)
        make = partial(_gather, t, i32)
        yield Spec(f"collect.gather.{t}", make, ("gather",), (t,), full=True)
        yield Spec(f"collect.map.{t}", partial(_map, t), ("map",), (t,), full=True)
        if t is i1 or (t.is_float and t.bits == 8):
            continue
        for down in (False, True):
            label = f"collect.sort.{t}" + (".descending" if down else "")
            yield Spec(label, partial(_sort, t, down), ("sort",), (t,), full=True)
    for index in INTS:
        make = partial(_gather, f32, index)
        yield Spec(f"collect.gather.f32.{index}", make, ("gather",), (f32, index), full=True)
        for masked in (False, True):
            label = f"collect.histogram.{index}" + (".masked" if masked else "")
            make = partial(_histogram, index, masked)
            yield Spec(label, make, ("histogram",), (index,), full=True)
    yield Spec("collect.map.loop", _map_loop, ("map",), (i32,), full=True)
