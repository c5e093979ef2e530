"""Reductions and scans: kinds, axes, shapes, several operands, any region, both directions."""

from __future__ import annotations

import numpy as np
import pytest
from cpu.lowering import Maker, check, normal, zeros

from tegula import ir
from tegula.ir import Value
from tegula.ir.types import numpy_dtype

KINDS = ["add", "mul", "max", "min", "maxnan", "minnan", "and", "or", "xor"]
SHAPES = [(1,), (5,), (16,), (100,), (259,), (3, 40), (40, 3), (17, 64), (2, 3, 20), (6, 1, 7)]


def combine(b: Maker, kind: str, t: ir.DType):
    def f(x: Value, y: Value) -> Value:
        if kind.startswith(("max", "min")):
            return getattr(b, kind[:3])(x, y, nan="propagate" if kind.endswith("nan") else "ignore")
        return getattr(b, kind + "_" if kind in ("and", "or") else kind)(x, y)

    return b.region([t, t], f)


def data(shape: tuple[int, ...], name: str) -> np.ndarray:
    rng = np.random.default_rng(len(shape))
    if name[0] in "fb":
        return rng.choice([0.5, -1.0, 1.0, 2.0, -0.25, 1.5], shape).astype(
            numpy_dtype(ir.DTYPES[name]))
    return rng.integers(-3, 4, shape).astype(numpy_dtype(ir.DTYPES[name]))


def axes(shape: tuple[int, ...]) -> range:
    return range(len(shape))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["f32", "i32", "f64", "i64", "f16", "u8"])
def test_every_kind_of_reduction(kind: str, name: str) -> None:
    if kind in ("and", "or", "xor") and name[0] == "f":
        return
    t, shape = ir.DTYPES[name], (7, 37)
    x = data(shape, name)
    if kind == "mul":
        x[np.abs(x.astype(float)) > 1.5] = 1  # so that no product is huge
    if kind.startswith("m") and name[0] == "f":
        x[2, 5] = np.nan
        x[3, :] = np.nan

    def body(b, x, o0, o1, o2):
        tile = b.get(x, shape)
        for axis, o in ((0, o0), (1, o1)):
            (r,) = b.reduce([tile], combine(b, kind, t), axis=axis)
            b.put(o, r)
        (r,) = b.reduce([b.get(x, (33,))], combine(b, kind, t), axis=0)
        b.put(o2, r)

    loose = {"f16": 5e-2}.get(name, 1e-5) if kind in ("add", "mul") else 0
    check({"x": x, "a": zeros(37, x.dtype), "b": zeros(7, x.dtype), "c": zeros(1, x.dtype)}, body,
          tolerance=loose)


@pytest.mark.parametrize("shape", SHAPES)
def test_reductions_of_every_shape(shape: tuple[int, ...]) -> None:
    x = data(shape, "f32")
    for axis in axes(shape):
        rest = shape[:axis] + shape[axis + 1 :]

        def body(b, x, o, axis=axis, shape=shape):
            (r,) = b.reduce([b.get(x, shape)], combine(b, "add", ir.f32), axis=axis)
            b.put(o, r)

        check({"x": x, "out": zeros(int(np.prod(rest)))}, body, tolerance=1e-6)


def argmax(b: Maker):
    def f(v: Value, i: Value, w: Value, j: Value):
        better = b.or_(b.cmp(v, w, pred="gt"),
                       b.and_(b.cmp(v, w, pred="eq"), b.cmp(i, j, pred="lt")))
        return b.select(better, v, w), b.select(better, i, j)

    return b.region([ir.f32, ir.i32] * 2, f)


@pytest.mark.parametrize("shape", SHAPES)
def test_reductions_of_pairs(shape: tuple[int, ...]) -> None:
    x = data(shape, "f32")
    for axis in axes(shape):
        rest = int(np.prod(shape[:axis] + shape[axis + 1 :]))

        def body(b, x, values, places, axis=axis, shape=shape):
            index = b.index((shape[axis],))
            for d in range(len(shape)):
                if d != axis:
                    index = b.expand_dims(index, axis=d)
            if index.type.shape != shape:
                index = b.broadcast(index, shape=shape)
            v, i = b.reduce([b.get(x, shape), index], argmax(b), axis=axis)
            b.put(values, v)
            b.put(places, i)

        check({"x": x, "v": zeros(rest), "i": zeros(rest, np.int32)}, body)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_scans_of_every_shape(shape: tuple[int, ...], reverse: bool) -> None:
    x = data(shape, "f32")
    for axis in axes(shape):

        def body(b, x, o, axis=axis, shape=shape):
            (r,) = b.scan([b.get(x, shape)], combine(b, "add", ir.f32), axis=axis,
                          reverse=reverse)
            b.put(o, r)

        check({"x": x, "out": zeros(shape)}, body, tolerance=1e-6)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_scan(kind: str, reverse: bool) -> None:
    x = data((50,), "i32")

    def body(b, x, o):
        (r,) = b.scan([b.get(x, (50,))], combine(b, kind, ir.i32), axis=0, reverse=reverse)
        b.put(o, r)

    check({"x": x, "out": zeros(50, np.int32)}, body)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("shape", [(5,), (16,), (70,), (4, 20), (20, 4)])
def test_scans_of_pairs_in_order(shape: tuple[int, ...], reverse: bool) -> None:
    """First-order recurrences: associative, but not commutative."""
    a, c = data(shape, "f32") / 2, data(shape, "f32")
    for axis in axes(shape):

        def body(b, a, c, o, axis=axis, shape=shape):
            def f(a1, c1, a2, c2):
                return b.mul(a1, a2), b.add(b.mul(a2, c1), c2)

            _, r = b.scan([b.get(a, shape), b.get(c, shape)], b.region([ir.f32] * 4, f),
                          axis=axis, reverse=reverse)
            b.put(o, r)

        check({"a": a, "c": c, "out": zeros(shape)}, body, tolerance=1e-5)


def test_reductions_of_masked_rows_and_what_depends_on_them() -> None:
    def body(b, x, o, n):
        i = b.index((100,))
        mask = b.cmp(i, b.splat(n, shape=(100,)), pred="lt")
        low = b.full(float("-inf"), (100,), ir.f32)
        v = b.load(b.at(x, i), mask=mask, other=low)
        (top,) = b.reduce([v], combine(b, "max", ir.f32), axis=0)
        e = b.exp(b.sub(v, b.splat(top, shape=(100,))))
        (total,) = b.reduce([e], combine(b, "add", ir.f32), axis=0)
        b.store(b.at(o, i), b.div(e, b.splat(total, shape=(100,))), mask=mask)

    for n in (1, 15, 16, 17, 64, 99, 100):
        check({"x": normal(100), "out": zeros(100), "n": n}, body, tolerance=1e-5)


def test_scan_used_by_another_nest_and_in_its_own() -> None:
    def body(b, x, o, p):
        (r,) = b.scan([b.get(x, (40,))], combine(b, "add", ir.f32), axis=0)
        b.put(o, b.add(r, r))
        (total,) = b.reduce([r], combine(b, "max", ir.f32), axis=0)
        b.put(p, b.sub(r, b.splat(total, shape=(40,))))

    check({"x": normal(40), "o": zeros(40), "p": zeros(40)}, body, tolerance=1e-5)


@pytest.mark.parametrize("shape", [(7,), (40,), (3, 20), (20, 3)])
def test_regions_with_branches(shape: tuple[int, ...]) -> None:
    x = data(shape, "i32")

    def body(b, x, o, s):
        def f(p, q):
            even = b.cmp(b.and_(p, b.constant(1, ir.i32)), b.constant(0, ir.i32), pred="eq")
            (r,) = b.if_(even, b.region([], lambda: b.add(p, q)),
                         b.region([], lambda: b.add(q, p)))
            return r

        tile = b.get(x, shape)
        for axis in axes(shape):
            (r,) = b.reduce([tile], b.region([ir.i32] * 2, f), axis=axis)
            b.put(b.addptr(o, b.constant(64 * axis, ir.i32)), r)
            for k, back in enumerate((False, True)):
                (r,) = b.scan([tile], b.region([ir.i32] * 2, f), axis=axis, reverse=back)
                b.put(b.addptr(s, b.constant(64 * (2 * axis + k), ir.i32)), r)

    check({"x": x, "o": zeros(128, np.int32), "s": zeros(256, np.int32)}, body)
