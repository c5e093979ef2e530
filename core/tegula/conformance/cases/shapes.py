"""Making tiles and moving their elements: nothing is computed, so everything is exact."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import permutations
from math import prod
from typing import Any

import numpy as np

from tegula.conformance.case import Case, Sketch, Spec
from tegula.conformance.cases.elementwise import ALL
from tegula.conformance.values import ordinary, wide_range
from tegula.ir import DType, Value
from tegula.ir.types import f32, i1, i32


def data(t: DType, shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    """Distinct-looking elements of a shape; NaN left out."""
    count = prod(shape)
    values = ordinary(t, count, seed) if t is i1 else wide_range(t, count, seed)
    if t.is_float:
        with np.errstate(all="ignore"):
            nan = np.isnan(values.astype(np.float64))
        values = np.where(nan, ordinary(t, count, seed), values)
    return values.reshape(shape)


class Moves:
    """One kernel that checks many results of shape ops."""

    def __init__(self, t: DType) -> None:
        self.t = t
        self.s = Sketch()
        self.b = self.s.b
        self.count = 0

    def input(self, shape: tuple[int, ...], seed: int = 0) -> tuple[Value, np.ndarray]:
        x = data(self.t, shape, seed)
        self.count += 1
        return self.s.load(self.s.buffer(f"x{self.count}", self.t, x), shape), x

    def expect(self, value: Value, expected: Any, t: DType | None = None) -> None:
        self.count += 1
        out = self.s.out(f"out{self.count}", t or self.t, np.asarray(expected))
        self.s.store(out, value)


def _splat(t: DType) -> Case:
    m = Moves(t)
    x, e = m.input(())
    for shape in ((1,), (0,), (6,), (3, 5), (2, 1, 4), (2, 2, 2, 2, 2)):
        m.expect(m.b.splat(x, shape=shape), np.full(shape, e))
    return m.s.case()


def _broadcast(t: DType) -> Case:
    m = Moves(t)
    for shape, to in (
        ((1,), (7,)), ((1,), (1,)), ((1,), (0,)), ((3, 1), (3, 5)), ((1, 5), (4, 5)),
        ((1, 1), (6, 70)), ((2, 1, 3), (2, 4, 3)), ((1, 2, 1, 3, 1), (2, 2, 2, 3, 2)), ((4,), (4,)),
    ):  # fmt: skip
        x, e = m.input(shape)
        m.expect(m.b.broadcast(x, shape=to), np.broadcast_to(e, to))
    return m.s.case()


def _expand_dims(t: DType) -> Case:
    m = Moves(t)
    x, e = m.input((6,))
    for axis in (0, 1):
        m.expect(m.b.expand_dims(x, axis=axis), np.expand_dims(e, axis))
    y, f = m.input((2, 3))
    for axis in (0, 1, 2):
        m.expect(m.b.expand_dims(y, axis=axis), np.expand_dims(f, axis))
    z, g = m.input((0,))
    m.expect(m.b.expand_dims(z, axis=1), np.expand_dims(g, 1))
    outer = m.b.expand_dims(x, axis=1), m.b.expand_dims(x, axis=0)
    wide = [m.b.broadcast(v, shape=(6, 6)) for v in outer]
    m.expect(wide[0], np.repeat(e, 6))
    m.expect(wide[1], np.tile(e, 6))
    return m.s.case()


def _reshape(t: DType) -> Case:
    m = Moves(t)
    for shape, targets in (
        ((12,), ((3, 4), (2, 3, 2), (12, 1), (1, 12), (1, 1, 12))),
        ((6, 10), ((60,), (10, 6), (5, 12), (3, 4, 5))),
        ((1,), ((), (1, 1))),
        ((0,), ((0, 3), (2, 0))),
    ):
        x, e = m.input(shape)
        for to in targets:
            m.expect(m.b.reshape(x, shape=to), e)
    scalar, e = m.input(())
    m.expect(m.b.reshape(scalar, shape=(1, 1)), e)
    x, e = m.input((8, 5), 9)
    y = m.b.permute(m.b.reshape(x, shape=(4, 2, 5)), dims=(1, 2, 0))
    m.expect(m.b.reshape(y, shape=(40,)), e.reshape(4, 2, 5).transpose(1, 2, 0))
    return m.s.case()


def _permute(t: DType) -> Case:
    m = Moves(t)
    x, e = m.input((2, 3, 5))
    for dims in permutations(range(3)):
        m.expect(m.b.permute(x, dims=dims), e.transpose(dims))
    for shape in ((1, 1), (1, 9), (9, 1), (17, 33), (0, 4), (64, 16)):
        y, f = m.input(shape)
        m.expect(m.b.permute(y, dims=(1, 0)), f.T)
    z, g = m.input((4,))
    m.expect(m.b.permute(z, dims=(0,)), g)
    w, h = m.input((2, 3, 2, 2, 3))
    m.expect(m.b.permute(w, dims=(4, 2, 0, 3, 1)), h.transpose(4, 2, 0, 3, 1))
    return m.s.case()


def _slice(t: DType) -> Case:
    m = Moves(t)
    for shape, parts in (
        ((9,), ((0, 1, 9), (3, 1, 4), (0, 2, 5), (8, -1, 9), (7, -3, 3), (5, 1, 1), (0, 1, 0))),
        ((1,), ((0, 1, 1), (0, 1, 0))),
        ((0,), ((0, 1, 0),)),
    ):
        x, e = m.input(shape)
        for start, step, n in parts:
            picked = start + step * np.arange(n)
            sliced = m.b.slice(x, starts=(start,), steps=(step,), shape=(n,))
            m.expect(sliced, e[picked])
    x, e = m.input((6, 5, 7), 2)
    part = m.b.slice(x, starts=(4, 0, 1), steps=(-2, 1, 3), shape=(3, 5, 2))
    m.expect(part, e[4::-2, :, 1::3])
    m.expect(m.b.reshape(m.b.slice(x, starts=(1, 2, 3), steps=(1, 1, 1), shape=(1, 1, 1)),
                         shape=()), e[1, 2, 3])  # fmt: skip
    return m.s.case()


def _cat(t: DType) -> Case:
    m = Moves(t)
    for a, b, axis in (
        ((4,), (4,), 0), ((3,), (5,), 0), ((0,), (5,), 0), ((5,), (0,), 0), ((1,), (1,), 0),
        ((2, 3), (4, 3), 0), ((2, 3), (2, 5), 1), ((2, 3, 2), (2, 1, 2), 1),
        ((2, 2, 3), (2, 2, 1), 2),
    ):  # fmt: skip
        (x, e), (y, f) = m.input(a), m.input(b, 1)
        m.expect(m.b.cat(x, y, axis=axis), np.concatenate([e, f], axis))
    return m.s.case()


def _join(t: DType) -> Case:
    m = Moves(t)
    for shape in ((), (1,), (0,), (7,), (3, 5), (2, 2, 3)):
        (x, e), (y, f) = m.input(shape), m.input(shape, 1)
        m.expect(m.b.join(x, y), np.stack([e, f], -1))
    return m.s.case()


def _split(t: DType) -> Case:
    m = Moves(t)
    for shape in ((2,), (1, 2), (0, 2), (7, 2), (3, 5, 2)):
        x, e = m.input(shape)
        for half, expected in zip(m.b.split(x), (e[..., 0], e[..., 1])):
            m.expect(half, expected)
    x, e = m.input((4, 2), 2)
    a, b = m.b.split(x)
    m.expect(m.b.join(b, a), e[:, ::-1])
    return m.s.case()


def _arange() -> Case:
    m = Moves(i32)
    low, high = i32.min_value, i32.max_value
    for start, end in ((0, 1), (0, 64), (0, 100), (5, 12), (-3, 4), (7, 7), (low, low + 3),
                       (high - 2, high + 1), (0, 1000)):  # fmt: skip
        m.expect(m.b.arange(start=start, end=end), np.arange(start, end, dtype=np.int64))
    return m.s.case()


def _composed() -> Case:
    """A chain of moves with arithmetic between them, reading each source twice."""
    m = Moves(f32)
    x, e = m.input((6, 8))
    y, f = m.input((8,), 3)
    row = m.b.broadcast(m.b.expand_dims(y, axis=0), shape=(6, 8))
    turned = m.b.permute(m.b.max(x, row), dims=(1, 0))
    again = m.b.reshape(turned, shape=(4, 12))
    result = m.b.cat(again, m.b.neg(again), axis=1)
    g = np.maximum(e, f[None]).T.reshape(4, 12)
    m.expect(result, np.concatenate([g, -g], 1))
    m.expect(m.b.min(x, row), np.minimum(e, f[None]))
    return m.s.case()


def specs() -> Iterator[Spec]:
    """All cases of this module."""
    makers = {
        "splat": _splat, "broadcast": _broadcast, "expand_dims": _expand_dims,
        "reshape": _reshape, "permute": _permute, "slice": _slice,
        "cat": _cat, "join": _join, "split": _split,
    }  # fmt: skip
    for name, make in makers.items():
        for t in ALL:
            yield Spec(f"shape.{name}.{t}", partial(make, t), (name,), (t,))
    yield Spec("shape.arange", _arange, ("arange",), (i32,))
    yield Spec("shape.composed", _composed, ("permute", "broadcast", "reshape", "cat"), (f32,))
