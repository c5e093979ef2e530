"""Reductions, scans and matrix products.

The order of combination is free, so float sums and products are of small integers, exact in any
order; some cases use ordinary floats and allow the error that an order may cause.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from math import prod

import numpy as np

from tegula.conformance import reference
from tegula.conformance.case import EXACT, Case, Rule, Sketch, Spec, combine_region
from tegula.conformance.cases.elementwise import ALL, FLOATS
from tegula.conformance.values import edges, ordinary, small_integers, storage, wide_range
from tegula.ir import DTYPES, Block, Builder, DType, Value
from tegula.ir.ops.reduce import PRECISIONS
from tegula.ir.types import (
    bf16,
    f16,
    f32,
    f64,
    i1,
    i8,
    i16,
    i32,
    i64,
    u8,
    u16,
    u32,
    u64,
)  # fmt: skip

KINDS = ("add", "mul", "max", "min", "maxnan", "minnan", "and", "or", "xor")
SHAPES = (
    ((1,), 0), ((5,), 0), ((64,), 0), ((100,), 0), ((257,), 0), ((3, 4), 0), ((3, 4), 1),
    ((1, 9), 0), ((1, 9), 1), ((2, 3, 5), 0), ((2, 3, 5), 1), ((2, 3, 5), 2), ((0, 4), 1),
    ((33, 17), 0), ((17, 33), 1),
)  # fmt: skip


def kinds_of(t: DType) -> list[str]:
    """Combinations that make sense for a dtype."""
    floats = ("add", "mul", "max", "min", "maxnan", "minnan")
    return [k for k in KINDS if (k in floats) == t.is_float or k in ("add", "mul", "max", "min")]


def inputs_for(kind: str, t: DType, shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    """Elements whose fold is the same in any order."""
    count = prod(shape)
    if t.is_int:
        return (ordinary(t, count, seed) if t is i1 else wide_range(t, count, seed)).reshape(shape)
    if kind == "add":
        values = small_integers(t, count, seed, 1 if t.bits == 8 else 3)
        if t.bits == 8:  # three bits of mantissa hold sums up to 16
            values = np.where(np.arange(count) % 23 < 4, values, 0 * np.abs(values))
        return values.astype(storage(t)).reshape(shape)
    if kind == "mul":
        powers = np.random.default_rng(seed).choice([1.0, 1.0, -1.0, 1.0, 1.0], count)
        powers[::19] *= 2.0
        powers[9::19] *= 0.5
        return powers.astype(storage(t)).reshape(shape)
    values = ordinary(t, count, seed)
    if count >= 12:
        if t.bits == 8:  # what becomes of their infinities depends on how often they are rounded
            values[7] = np.nan
            return values.reshape(shape)
        values[3] = np.array(np.inf if kind.startswith("min") else -np.inf).astype(storage(t))
        values[7] = np.nan
    return values.reshape(shape)


def fold(kind: str, t: DType, x: np.ndarray, axis: int) -> np.ndarray:
    """The folded array, by the suite's own formulas."""
    name, rule = kind.removesuffix("nan"), "propagate" if kind.endswith("nan") else "ignore"
    if kind in ("maxnan", "minnan"):
        name = kind[:3]
    rows = np.moveaxis(x, axis, 0)
    result = rows[0]
    for row in rows[1:]:
        flat = reference.binary(name, t, result.reshape(-1), row.reshape(-1), rule)
        result = flat.reshape(row.shape)
    return result


def prefixes(kind: str, t: DType, x: np.ndarray, axis: int, reverse: bool) -> np.ndarray:
    rows = np.moveaxis(x, axis, 0)
    rows = rows[::-1] if reverse else rows
    out = [rows[0]] if len(rows) else []
    for i in range(1, len(rows)):
        out.append(fold(kind, t, np.stack([out[-1], rows[i]]), 0))
    if not out:
        return x
    stacked = np.stack(out[::-1] if reverse else out)
    return np.moveaxis(stacked, 0, axis)


def region(kind: str, t: DType) -> Block:
    return combine_region(kind[:3] + "nan" if kind in ("maxnan", "minnan") else kind, t)


def _rule(kind: str) -> Rule:
    return Rule(zero_sign=False) if kind.startswith(("max", "min", "add", "mul")) else EXACT


def _reduce(kind: str, t: DType, shapes: Sequence[tuple[tuple[int, ...], int]]) -> Case:
    s = Sketch()
    for number, (shape, axis) in enumerate(shapes):
        x = inputs_for(kind, t, shape, number)
        value = s.load(s.buffer(f"x{number}", t, x), shape)
        (result,) = s.b.reduce([value], region(kind, t), axis=axis)
        out = s.out(f"out{number}", t, fold(kind, t, x, axis), _rule(kind))
        s.store(out, result)
    return s.case()


def _scan(kind: str, t: DType, reverse: bool) -> Case:
    s = Sketch()
    for number, (shape, axis) in enumerate((*SHAPES[:12], ((0,), 0), ((4, 0), 1))):
        x = inputs_for(kind, t, shape, number)
        value = s.load(s.buffer(f"x{number}", t, x), shape)
        (result,) = s.b.scan([value], region(kind, t), axis=axis, reverse=reverse)
        expected = prefixes(kind, t, x, axis, reverse)
        s.store(s.out(f"out{number}", t, expected, _rule(kind)), result)
    return s.case()


def _alike(t: DType, kind: str) -> Case:
    """Columns of one value each, which nothing else may join: NaN, the lowest, the largest."""
    values = edges(t)
    with np.errstate(all="ignore"):
        finite = values[np.isfinite(values.astype(np.float64))]
        order = np.argsort(finite.astype(np.float64))
    nan = np.array([np.nan]).astype(storage(t))
    row = np.concatenate([nan, finite[order[:1]], finite[order[-1:]], nan])
    x = np.tile(row, (5, 1))
    x[3, 3] = finite[order[0]]
    s = Sketch()
    tile = s.load(s.buffer("x", t, x), x.shape)
    (result,) = s.b.reduce([tile], region(kind, t), axis=0)
    s.store(s.out("all", t, fold(kind, t, x, 0), _rule(kind)), result)
    (result,) = s.b.scan([tile], region(kind, t), axis=0, reverse=True)
    s.store(s.out("up", t, prefixes(kind, t, x, 0, True), _rule(kind)), result)
    return s.case()


def _argument(t: DType, name: str) -> Case:
    """argmax and argmin: pairs of value and index, the smaller index on ties."""
    s = Sketch()
    b = s.b
    for number, (shape, axis) in enumerate((((37,), 0), ((5, 8), 1), ((5, 8), 0), ((1,), 0))):
        x = small_integers(t, prod(shape), number).reshape(shape)
        value = s.load(s.buffer(f"x{number}", t, x), shape)
        line = b.arange(start=0, end=shape[axis])
        ones = tuple(n if i == axis else 1 for i, n in enumerate(shape))
        index = b.broadcast(b.reshape(line, shape=ones), shape=shape)
        best, where = b.reduce([value, index], pick_region(t, name), axis=axis)
        plain = x.astype(np.float64)
        at = plain.argmax(axis) if name == "max" else plain.argmin(axis)
        s.store(s.out(f"at{number}", i32, at), where)
        top = np.take_along_axis(x, np.expand_dims(at, axis), axis)
        s.store(s.out(f"best{number}", t, top, Rule(zero_sign=False)), best)
    return s.case()


def pick_region(t: DType, name: str) -> Block:
    """(value, index) pairs to the better one."""
    block = Block([t, i32, t, i32])
    b = Builder(block)
    v0, i0, v1, i1_ = block.args
    better = b.cmp(v0, v1, pred="gt" if name == "max" else "lt")
    tie = b.and_(b.cmp(v0, v1, pred="eq"), b.cmp(i0, i1_, pred="lt"))
    first = b.or_(better, tie)
    b.yield_([b.select(first, v0, v1), b.select(first, i0, i1_)])
    return block


def _recurrence(reverse: bool) -> Case:
    """The composition of x -> a x + b: associative and not commutative, on two sources."""
    block = Block([i32] * 4)
    inner = Builder(block)
    a0, b0, a1, b1 = block.args
    inner.yield_([inner.mul(a0, a1), inner.add(inner.mul(b0, a1), b1)])
    s = Sketch()
    rng = np.random.default_rng(5)
    a, c = rng.integers(-3, 4, (4, 29)), rng.integers(-9, 9, (4, 29))
    values = [s.load(s.buffer(n, i32, v), (4, 29)) for n, v in (("a", a), ("c", c))]
    p, q = s.b.scan(values, block, axis=1, reverse=reverse)
    first, second = np.empty((4, 29), np.int64), np.empty((4, 29), np.int64)
    order = range(28, -1, -1) if reverse else range(29)
    for step, k in enumerate(order):
        if step == 0:
            first[:, k], second[:, k] = a[:, k], c[:, k]
        else:
            before = order[step - 1]
            first[:, k] = (first[:, before] * a[:, k]).astype(np.int32)
            second[:, k] = (second[:, before] * a[:, k] + c[:, k]).astype(np.int32)
    s.store(s.out("p", i32, first.astype(np.int32)), p)
    s.store(s.out("q", i32, second.astype(np.int32)), q)
    return s.case()


def _reduce_beside_scan(kind: str, t: DType) -> Case:
    """A reduction of what a scan from the end reads: a compiler may do both on one way."""
    s = Sketch()
    for number, n in enumerate((5, 20, 50)):
        x = inputs_for(kind, t, (n,), number)
        value = s.load(s.buffer(f"x{number}", t, x), (n,))
        (prefix,) = s.b.scan([value], region(kind, t), axis=0, reverse=True)
        (whole,) = s.b.reduce([value], region(kind, t), axis=0)
        s.store(s.out(f"out{number}", t, fold(kind, t, x, 0), _rule(kind)), whole)
        s.store(s.out(f"prefix{number}", t, prefixes(kind, t, x, 0, True), _rule(kind)), prefix)
    return s.case()


def _branching_region() -> Case:
    """A combine region with control flow inside."""
    block = Block([i32, i32])
    inner = Builder(block)
    x, y = block.args
    then, other = Block(), Block()
    with inner.at(then):
        inner.yield_([x])
    with inner.at(other):
        inner.yield_([y])
    (larger,) = inner.if_(inner.cmp(x, y, pred="gt"), then, other)
    inner.yield_([larger])
    s = Sketch()
    x_ = wide_range(i32, 60).reshape(6, 10)
    value = s.load(s.buffer("x", i32, x_), (6, 10))
    (result,) = s.b.reduce([value], block, axis=1)
    s.store(s.out("out", i32, x_.max(1)), result)
    return s.case()


def _float_sum(t: DType) -> Case:
    """A sum of ordinary floats, within what any order of additions may give."""
    s = Sketch()
    for number, (shape, axis) in enumerate((((512,), 0), ((7, 100), 1), ((100, 7), 0))):
        x = ordinary(t, prod(shape), number).reshape(shape)
        value = s.load(s.buffer(f"x{number}", t, x), shape)
        (result,) = s.b.reduce([value], combine_region("add", t), axis=axis)
        exact = x.astype(np.longdouble).sum(axis)
        scale = float(np.abs(x.astype(np.float64)).sum(axis).max())
        relative = 2.0 ** -(t.mantissa + 1) * np.log2(shape[axis]) * 4
        rule = Rule(relative=relative, scale=scale)
        s.store(s.out(f"out{number}", t, exact.astype(storage(t)), rule), result)
    return s.case()


# -------------------------------------------------------------------------------------------------
# Matrix products


DOT_SHAPES = (
    ((), 16, 16, 16), ((), 1, 1, 1), ((), 5, 7, 3), ((), 33, 17, 40), ((), 64, 32, 64),
    ((), 1, 40, 9), ((), 9, 1, 33), ((2,), 4, 6, 5), ((2, 3), 3, 2, 4), ((), 0, 4, 5),
    ((), 4, 0, 5), ((), 4, 5, 0),
)  # fmt: skip


def product(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """c + a @ b, exact for small integers."""
    if a.dtype.kind in "iub":
        return np.matmul(a.astype(np.int64), b.astype(np.int64)) + c.astype(np.int64)
    return np.matmul(a.astype(np.float64), b.astype(np.float64)) + c.astype(np.float64)


def _dot(ta: DType, tb: DType, acc: DType) -> Case:
    s = Sketch()
    limit = 1 if acc.bits <= 16 else 3
    for number, (batch, m, n, k) in enumerate(DOT_SHAPES):
        shapes = ((*batch, m, k), (*batch, k, n), (*batch, m, n))
        data = [
            small_integers(t, prod(shape), number * 3 + i, limit).reshape(shape)
            for i, (t, shape) in enumerate(zip((ta, tb, acc), shapes))
        ]
        tiles = [
            s.load(s.buffer(f"{name}{number}", t, x), x.shape)
            for name, t, x in zip("abc", (ta, tb, acc), data)
        ]
        out = s.out(f"out{number}", acc, product(*data), Rule(zero_sign=False))
        s.store(out, s.b.dot(*tiles))
    return s.case()


def _dot_integers(ta: DType, acc: DType) -> Case:
    """The extremes of integers: products wrap in the accumulator only."""
    s = Sketch()
    m, n, k = 12, 9, 31
    a = wide_range(ta, m * k).reshape(m, k)
    b = wide_range(ta, k * n, 1).reshape(k, n)
    a[0], b[:, 0] = ta.min_value, ta.min_value
    a[1], b[:, 1] = ta.max_value, ta.max_value
    c = wide_range(acc, m * n, 2).reshape(m, n)
    tiles = [
        s.load(s.buffer(name, t, x), x.shape)
        for name, t, x in (("a", ta, a), ("b", ta, b), ("c", acc, c))
    ]
    total = a.astype(object) @ b.astype(object) + c.astype(object)
    s.store(s.out("out", acc, reference.wrap(total, acc)), s.b.dot(*tiles))
    return s.case()


def _dot_floats(t: DType, acc: DType, precision: str) -> Case:
    """Ordinary floats, within the error that an order and the precision allow."""
    s = Sketch()
    m, n, k = 24, 40, 96
    a, b = ordinary(t, m * k).reshape(m, k), ordinary(t, k * n, 1).reshape(k, n)
    c = ordinary(acc, m * n, 2).reshape(m, n)
    tiles = [
        s.load(s.buffer(name, u, x), x.shape)
        for name, u, x in (("a", t, a), ("b", t, b), ("c", acc, c))
    ]
    exact = product(a, b, c)
    sizes = np.abs(a.astype(np.float64)) @ np.abs(b.astype(np.float64)) + np.abs(c)
    bits = {"tf32": 11, "bf16x3": 16}.get(precision, acc.mantissa + 1)
    rule = Rule(ulp=0.5, relative=2.0**-bits * 8, scale=float(np.max(sizes)))
    out = s.out("out", acc, exact.astype(storage(acc)), rule)
    s.store(out, s.b.dot(*tiles, precision=precision))
    return s.case()


def _dot_special(t: DType, acc: DType) -> Case:
    """NaN and infinities reach just the rows and columns that they belong to."""
    s = Sketch()
    m, n, k = 7, 6, 5
    a = small_integers(t, m * k, 0, 2).reshape(m, k)
    b = small_integers(t, k * n, 1, 2).reshape(k, n)
    a, b = np.where(a == 0, 1, a).astype(storage(t)), np.where(b == 0, 1, b).astype(storage(t))
    a[2, 3] = np.nan
    if t.name not in ("f8e4nv", "f8e5b16", "f8e4b8"):
        b[1, 4] = np.inf
    c = np.zeros((m, n), storage(acc))
    tiles = [s.load(s.buffer(x, u, v), v.shape) for x, u, v in (("a", t, a), ("b", t, b))]
    with np.errstate(all="ignore"):
        expected = product(a, b, c)
    s.store(s.out("out", acc, expected), s.b.dot(*tiles, s.constant(0.0, (m, n), acc)))
    return s.case()


def _dot_constant(t: DType, acc: DType) -> Case:
    """A factor that is one number everywhere, on either side, for several depths."""
    m, n = 16, 8
    s = Sketch()
    number = 3 if t.kind == "uint" else -1
    for depth in (8, 16, 32):
        x = small_integers(t, m * depth, depth, 2).reshape(m, depth)
        tile = s.load(s.buffer(f"x{depth}", t, x), x.shape)
        for side in "ab":
            given = (x, np.full((depth, n), number)) if side == "b" else (
                np.full((n, m), number), x)  # fmt: skip
            shape = (given[0].shape[0], given[1].shape[1])
            expected = product(*(v.astype(x.dtype) for v in given), np.zeros(shape, storage(acc)))
            fixed = s.constant(number, (depth, n) if side == "b" else (n, m), t)
            factors = (tile, fixed) if side == "b" else (fixed, tile)
            out = s.out(f"{side}{depth}", acc, expected, Rule(zero_sign=False))
            s.store(out, s.b.dot(*factors, s.constant(0, shape, acc)))
    return s.case()


def _dot_loop(t: DType, acc: DType) -> Case:
    """The usual loop over blocks of k, with masked loads and a transposed operand."""
    m, n, k, step = 20, 28, 50, 16
    s = Sketch()
    a = small_integers(t, m * k, 0, 2).reshape(m, k)
    bt = small_integers(t, n * k, 1, 2).reshape(n, k)
    pa, pb = s.buffer("a", t, a), s.buffer("b", t, bt)
    count = s.scalar("k", i32, k)
    expected = product(a, bt.T, np.zeros((m, n), storage(acc)))
    out = s.out("out", acc, expected, Rule(zero_sign=False))
    zero = s.constant(0, (m, n), acc)
    body = Block([i32, zero.type])
    b = Builder(body)
    start, total = body.args
    ks = b.add(b.splat(start, shape=(step,)), b.arange(start=0, end=step))
    inside = b.cmp(ks, b.splat(count, shape=(step,)), pred="lt")

    def block(pointer: Value, rows: int) -> Value:
        shape = (rows, step)
        i = b.broadcast(b.expand_dims(b.arange(start=0, end=rows), axis=1), shape=shape)
        j = b.broadcast(b.expand_dims(ks, axis=0), shape=shape)
        mask = b.broadcast(b.expand_dims(inside, axis=0), shape=shape)
        pitch = b.broadcast(b.expand_dims(b.splat(count, shape=(1,)), axis=1), shape=shape)
        offsets = b.add(b.mul(i, pitch), j)
        other = b.constant(0, with_dtype(shape, t))
        return b.load(b.addptr(b.splat(pointer, shape=shape), offsets), mask, other)

    left, right = block(pa, m), block(pb, n)
    b.yield_([b.dot(left, b.permute(right, dims=(1, 0)), total)])
    _, result = (None, *s.b.for_(s.constant(0), count, s.constant(step), [zero], body))
    s.store(out, result)
    return s.case()


def with_dtype(shape: tuple[int, ...], t: DType):  # type: ignore[no-untyped-def]
    from tegula.ir.types import with_shape

    return with_shape(t, shape)


def _dot_attention() -> Case:
    """Two products with a reduction between them: the shape of attention."""
    m, n, d = 16, 24, 8
    s = Sketch()
    b = s.b
    q, k, v = (small_integers(f32, r * d, i, 2).reshape(r, d) for i, r in enumerate((m, n, n)))
    tq, tk, tv = (s.load(s.buffer(x, f32, y), y.shape) for x, y in zip("qkv", (q, k, v)))
    scores = b.dot(tq, b.permute(tk, dims=(1, 0)), s.constant(0.0, (m, n), f32))
    (top,) = b.reduce([scores], combine_region("max", f32), axis=1)
    wide = b.broadcast(b.expand_dims(top, axis=1), shape=(m, n))
    flags = b.cast(b.cmp(scores, wide, pred="ge"), to=f32)
    result = b.dot(flags, tv, s.constant(1.0, (m, d), f32))
    plain = q @ k.T
    hot = (plain >= plain.max(1, keepdims=True)).astype(np.float32)
    s.store(s.out("out", f32, hot @ v + 1), result)
    return s.case()


def specs() -> Iterator[Spec]:
    """All cases of this module."""
    for t in ALL:
        for kind in kinds_of(t):
            yield Spec(f"reduce.{kind}.{t}", partial(_reduce, kind, t, SHAPES), ("reduce",), (t,))
            for reverse in (False, True):
                label = f"scan.{kind}.{t}" + (".reverse" if reverse else "")
                yield Spec(label, partial(_scan, kind, t, reverse), ("scan",), (t,))
        if t is not i1:
            for name in ("max", "min"):
                make = partial(_argument, t, name)
                yield Spec(f"reduce.arg{name}.{t}", make, ("reduce",), (t,))
        for kind in ("max", "min", "maxnan", "minnan"):
            if t.is_float and t.name != "f8e4b15":
                make, ops = partial(_alike, t, kind), ("reduce", "scan")
                yield Spec(f"reduce.alike.{kind}.{t}", make, ops, (t,), full=True)
    for t in (f32, f64, f16, bf16):
        yield Spec(f"reduce.sum.{t}", partial(_float_sum, t), ("reduce",), (t,))
    for t in ALL:
        make = partial(_reduce_beside_scan, "max", t)
        yield Spec(f"reduce.beside_scan.max.{t}", make, ("reduce", "scan"), (t,), full=True)
    yield Spec("reduce.branch", _branching_region, ("reduce", "if"), (i32,))
    for reverse in (False, True):
        label = "scan.recurrence" + (".reverse" if reverse else "")
        yield Spec(label, partial(_recurrence, reverse), ("scan",), (i32,))
    yield from _dot_specs()


def _dot_specs() -> Iterator[Spec]:
    mixed = frozenset({"dot-mixed"})
    same = [(t, t, t) for t in (f32, f64, i32)]
    wide = [(t, t, f32) for t in FLOATS if t.bits < 32]
    wide += [(t, t, i32) for t in (i8, u8, i16, u16)]
    wide += [(i64, i64, i64), (u32, u32, u32), (u64, u64, u64)]
    wide += [(t, t, t) for t in (f16, bf16)]
    eights = [t for t in FLOATS if t.bits == 8]
    wide += [(a, b, f32) for a in eights for b in eights if a is not b]
    for ta, tb, acc in (*same, *wide):
        profiles = frozenset() if ta is acc else mixed
        label = f"dot.{ta}.{tb}.{acc}"
        dtypes = tuple(dict.fromkeys((ta, tb, acc)))
        yield Spec(label, partial(_dot, ta, tb, acc), ("dot",), dtypes, frozenset(), profiles)
        if ta is tb:
            make = partial(_dot_constant, ta, acc)
            yield Spec(f"{label}.constant", make, ("dot",), dtypes, frozenset(), profiles)
            make = partial(_dot_loop, ta, acc)
            yield Spec(f"{label}.loop", make, ("dot",), dtypes, frozenset(), profiles)
            if ta.is_float:
                make = partial(_dot_special, ta, acc)
                yield Spec(f"{label}.special", make, ("dot",), dtypes, frozenset(), profiles)
                make = partial(_dot_floats, ta, acc, "ieee")
                if acc.bits >= 32:
                    yield Spec(f"{label}.floats", make, ("dot",), dtypes, frozenset(), profiles)
            else:
                make = partial(_dot_integers, ta, acc)
                yield Spec(f"{label}.extremes", make, ("dot",), dtypes, frozenset(), profiles)
    for precision in PRECISIONS:
        make = partial(_dot_floats, f32, f32, precision)
        yield Spec(f"dot.precision.{precision}", make, ("dot",), (f32,))
    yield Spec("dot.attention", _dot_attention, ("dot", "reduce"), (f32,))


__all__ = ["DTYPES", "edges", "specs"]
