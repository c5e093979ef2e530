"""Arithmetic, comparisons, conversions and elementary functions, on all edge values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from tegula.conformance import reference
from tegula.conformance.case import EXACT, Case, Rule, Sketch, Spec
from tegula.conformance.values import (
    bits_of,
    edge_bits,
    edges,
    from_bits,
    has_meaning,
    ordinary,
    storage,
    wide_range,
)
from tegula.ir import DTYPES, DType, Value
from tegula.ir.ops.arith import NAN_RULES, PREDICATES
from tegula.ir.types import f16, f32, f64, i1, i32, i64, u64

ALL = [t for t in DTYPES.values() if has_meaning(t)]
INTS = [t for t in ALL if t.is_int]
FLOATS = [t for t in ALL if t.is_float]

BINARY_ALL = ("add", "sub", "mul", "div", "rem", "min", "max")
BINARY_INT = ("and", "or", "xor", "shl", "shr", "mulhi")
MATH = ("exp", "exp2", "log", "log2", "sqrt", "rsqrt", "sin", "cos", "tanh", "erf")
ROUNDINGS = ("floor", "ceil", "trunc", "rint")
ULP = {
    "exp": 2, "exp2": 2, "log": 2, "log2": 2, "sqrt": 0, "rsqrt": 2, "sin": 2, "cos": 2,
    "tanh": 4, "erf": 4,
}  # fmt: skip
"""Error that elementary functions may have, in units in the last place."""

Body = Callable[[Sketch, Sequence[Value]], Value]


def pairs(t: DType, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Every edge value against every other one, and many ordinary pairs."""
    e = edges(t)
    a, b = np.repeat(e, e.size), np.tile(e, e.size)
    more = [(ordinary(t, 90, seed), ordinary(t, 90, seed + 1))]
    more += [(wide_range(t, 160, seed), wide_range(t, 160, seed + 1))]
    return (
        np.concatenate([a, *(x for x, _ in more)]),
        np.concatenate([b, *(y for _, y in more)]),
    )


def singles(t: DType) -> np.ndarray:
    return np.concatenate([edges(t), ordinary(t, 120), wide_range(t, 250)])


def flat_case(
    inputs: Sequence[tuple[DType, np.ndarray]],
    out: DType,
    body: Body,
    expected: Any,
    rule: Rule = EXACT,
    block: int = 64,
) -> Case:
    """An elementwise kernel over flat buffers: a grid of blocks, the last one masked."""
    n = int(inputs[0][1].size)
    s = Sketch(block, (-(-n // block), 1, 1))
    pointers = [s.buffer(f"x{i}", t, data) for i, (t, data) in enumerate(inputs)]
    target = s.out("out", out, expected, rule)
    count = s.scalar("n", i32, n)
    offsets, mask = s.lanes(count)
    values = [s.b.load(s.at(p, offsets), mask) for p in pointers]
    s.b.store(s.at(target, offsets), body(s, values), mask)
    return s.case()


def apply(name: str, **attrs: Any) -> Body:
    return lambda s, xs: s.b.create(name, *xs, **attrs)


# -------------------------------------------------------------------------------------------------
# One op on flat data


def _binary(name: str, t: DType, nan_rule: str) -> Case:
    a, b = pairs(t)
    attrs = {"nan": nan_rule} if name in ("min", "max") else {}
    rule = Rule(zero_sign=False) if name in ("min", "max") else EXACT
    expected = reference.binary(name, t, a, b, nan_rule)
    return flat_case([(t, a), (t, b)], t, apply(name, **attrs), expected, rule)


def _unary(name: str, t: DType) -> Case:
    x = singles(t)
    return flat_case([(t, x)], t, apply(name), reference.unary(name, t, x))


def _math(name: str, t: DType) -> Case:
    x = math_inputs(name, t)
    rule = Rule(ulp=ULP[name]) if ULP.get(name) else EXACT
    return flat_case([(t, x)], t, apply(name), reference.elementary(name, t, x), rule)


def math_inputs(name: str, t: DType) -> np.ndarray:
    """Edge values, a dense sweep of the useful range and random magnitudes."""
    span = {"exp": 88.0, "exp2": 127.0, "tanh": 12.0, "erf": 5.0, "sin": 1e4, "cos": 1e4}
    limit = span.get(name, 1e3)
    low = 0.0 if name in ("log", "log2", "sqrt", "rsqrt") else -limit
    sweep = np.linspace(low, limit, 500).astype(np.float32).astype(storage(t))
    near = np.linspace(-2, 2, 161).astype(np.float32).astype(storage(t))
    wild = wide_range(t, 250)
    if name in ("sin", "cos"):  # beyond this, backends may reduce the angle less carefully
        with np.errstate(all="ignore"):
            wild = np.where(np.abs(wild.astype(np.float64)) < 1e5, wild, 1).astype(storage(t))
        e = edges(t)
        tame = ~(np.abs(e.astype(np.float64)) > 1e5) | ~np.isfinite(e.astype(np.float64))
        return np.concatenate([e[tame], sweep, near, wild])
    return np.concatenate([edges(t), sweep, near, wild])


def _large_angle(name: str, t: DType) -> Case:
    """Angles so large that their reduction needs many digits of pi."""
    e = edges(t)
    with np.errstate(all="ignore"):
        powers = (2.0 ** np.arange(17, 120, 3)).astype(storage(t))
    x = np.concatenate([e, powers, -powers])
    return flat_case([(t, x)], t, apply(name), reference.elementary(name, t, x), Rule(ulp=2))


def _fma(t: DType) -> Case:
    e = edges(t)
    pick = np.concatenate([e[:2], e[np.linspace(2, e.size - 1, min(e.size - 2, 12)).astype(int)]])
    grid = np.array(np.meshgrid(pick, pick, pick, indexing="ij")).reshape(3, -1)
    a, b, c = (grid[i].astype(storage(t)) for i in range(3))
    rest = [wide_range(t, 200, s) for s in range(3)]
    near = [ordinary(t, 300, s) for s in range(2)]
    # A sum that almost cancels shows a product that was rounded on its own.
    product = near[0].astype(np.float64) * near[1].astype(np.float64)
    cancel = reference.round_to(-product, t)
    a = np.concatenate([a, rest[0], near[0]])
    b = np.concatenate([b, rest[1], near[1]])
    c = np.concatenate([c, rest[2], cancel])
    body: Body = lambda s, xs: s.b.fma(*xs)  # noqa: E731
    return flat_case([(t, a), (t, b), (t, c)], t, body, reference.fma(t, a, b, c))


def _cmp(t: DType, pred: str) -> Case:
    a, b = pairs(t)
    return flat_case([(t, a), (t, b)], i1, apply("cmp", pred=pred), reference.compare(pred, a, b))


def _select(t: DType, unlikely: bool = False) -> Case:
    a, b = pairs(t)
    c = np.random.default_rng(3).integers(0, 2, a.size).astype(np.uint8)
    expected = np.where(c != 0, bits_of(a), bits_of(b))
    body: Body = lambda s, xs: s.b.select(*xs, unlikely=unlikely)  # noqa: E731
    return flat_case([(i1, c), (t, a), (t, b)], t, body, from_bits(expected, t))


def cast_inputs(source: DType, to: DType) -> np.ndarray:
    """Edge values of the source, and those around the target's limits and rounding ties."""
    parts = [edges(source), ordinary(source, 60), wide_range(source, 250)]
    if source.is_float:
        limits: list[float] = []
        if to.is_int:
            for v in (to.min_value, to.max_value, to.max_value + 1, to.min_value - 1):
                limits += [v, v + 0.5, v - 0.5, v * 1.5]
        else:
            top = reference.largest(to)
            steps = np.arange(-40, 41) / 2.0 ** (to.mantissa + 3)
            limits += [top, top * (1 + 2.0 ** -(to.mantissa + 2)), top * 1.5, top * 4]
            limits += list(1 + steps) + list((1 + steps) * 2.0 ** (1 - to.exponent_bias))
            limits += list(steps * 2.0 ** (1 - to.exponent_bias))
            if source.bits - to.bits >= 16:  # just beside a tie: two roundings give another result
                tie = 1 + 2.0 ** -(to.mantissa + 1)
                limits += [tie * (1 + s * 2.0**-source.mantissa) for s in (-1, 1)]
        with np.errstate(all="ignore"):
            near = np.array(limits + [-v for v in limits], np.float64).astype(storage(source))
        parts.append(near)
    elif to.is_float and source.bits > to.mantissa + 2:
        shift = source.bits - 2 - to.mantissa
        base = [(1 << (source.bits - 2)) + (k << max(shift - 2, 0)) for k in range(9)]
        parts.append(reference.wrap([b + d for b in base for d in (-1, 0, 1)], source))
    return np.concatenate(parts)


def _cast(source: DType, to: DType, rounding: str) -> Case:
    x = cast_inputs(source, to)
    expected = reference.cast(x, source, to, rounding)
    return flat_case([(source, x)], to, apply("cast", to=to, rounding=rounding), expected)


def _bitcast(source: DType, to: DType) -> Case:
    some = np.array(edge_bits(source), np.uint64)
    x = from_bits(np.concatenate([some, bits_of(wide_range(source, 200))]), source)
    expected = from_bits(bits_of(x), to)
    # Compared as integers, so that no bit of a NaN may change.
    raw = next(t for t in INTS if t.kind == "uint" and t.bits == to.bits)
    n = x.size
    s = Sketch(64, (-(-n // 64), 1, 1))
    p = s.buffer("x", source, x)
    q = s.out("out", raw, from_bits(bits_of(expected), raw))
    offsets, mask = s.lanes(s.scalar("n", i32, n))
    y = s.b.bitcast(s.b.load(s.at(p, offsets), mask), to=to)
    if to is not raw:
        y = s.b.bitcast(y, to=raw)
    s.b.store(s.at(q, offsets), y, mask)
    return s.case()


# -------------------------------------------------------------------------------------------------
# One op on every kind of shape


def _shapes(name: str, t: DType, arity: int, attrs: dict[str, Any]) -> Case:
    """As a scalar, one element, no elements, odd sizes and three dimensions."""
    s = Sketch()
    shapes = ((), (1,), (0,), (2, 3, 5), (7, 1), (33,))
    data = [ordinary(t, 40, seed) for seed in range(arity)]
    pointers = [s.buffer(f"x{i}", t, d) for i, d in enumerate(data)]
    for index, shape in enumerate(shapes):
        count = int(np.prod(shape, dtype=int))
        values = [s.load(p, shape) for p in pointers]
        result = s.b.create(name, *values, **attrs)
        expected = _meaning(name, t, [d[:count] for d in data], attrs)
        out = i1 if name == "cmp" else attrs.get("to", t)
        rule = Rule(ulp=ULP[name]) if ULP.get(name) else EXACT
        s.store(s.out(f"out{index}", out, expected, rule), result)
    return s.case()


def _meaning(name: str, t: DType, xs: list[np.ndarray], attrs: dict[str, Any]) -> np.ndarray:
    if name in BINARY_ALL or name in BINARY_INT:
        return reference.binary(name, t, xs[0], xs[1])
    if name in ("neg", "abs", "not"):
        return reference.unary(name, t, xs[0])
    if name == "cmp":
        return reference.compare(attrs["pred"], xs[0], xs[1])
    if name == "fma":
        return reference.fma(t, *xs)
    if name == "cast":
        return reference.cast(xs[0], t, attrs["to"])
    if name == "bitcast":
        return from_bits(bits_of(xs[0]), attrs["to"])
    return reference.elementary(name, t, xs[0])


def _select_shapes() -> Case:
    s = Sketch()
    c, a, b = ordinary(i1, 40), ordinary(f32, 40), ordinary(f32, 40, 1)
    pointers = [s.buffer("c", i1, c), s.buffer("a", f32, a), s.buffer("b", f32, b)]
    for index, shape in enumerate(((), (1,), (0,), (2, 3, 5))):
        count = int(np.prod(shape, dtype=int))
        result = s.b.select(*(s.load(p, shape) for p in pointers))
        s.store(s.out(f"out{index}", f32, np.where(c, a, b)[:count]), result)
    return s.case()


def _constant(t: DType) -> Case:
    """Constants of every edge value as scalars, and a few as tiles."""
    s = Sketch()
    values = edges(t)
    if t.is_float:
        with np.errstate(all="ignore"):
            wide = values.astype(np.float64)
        values = values[~np.isnan(wide)]
        values = np.concatenate([values, values[:1] * np.nan])[:24].astype(storage(t))
    values = values[:24]
    out = s.out("out", t, values)
    for i, v in enumerate(values):
        number = float(v) if t.is_float else int(v)
        s.b.store(s.b.addptr(out, s.constant(i)), s.b.constant(number, t))
    for index, shape in enumerate(((0,), (1,), (5,), (2, 3))):
        number = float(values[3]) if t.is_float else int(values[min(3, values.size - 1)])
        tile = s.constant(number, shape, t)
        expected = np.full(int(np.prod(shape)), values[min(3, values.size - 1)])
        s.store(s.out(f"tile{index}", t, expected), tile)
    return s.case()


# -------------------------------------------------------------------------------------------------
# Rules about expressions


def _no_reassociation() -> Case:
    """Floats are not associative, and x - x, x * 0, x + 0 are not simplifiable."""
    x = np.concatenate([edges(f32), wide_range(f32, 100), ordinary(f32, 100)])
    with np.errstate(all="ignore"):
        big = np.float32(1e8)
        results = [x - x, x * np.float32(0), x + np.float32(0), (x + big) - big, x / x]
    s = Sketch(64, (-(-x.size // 64), 1, 1))
    p = s.buffer("x", f32, x)
    outs = [s.out(f"out{i}", f32, r) for i, r in enumerate(results)]
    offsets, mask = s.lanes(s.scalar("n", i32, x.size))
    v = s.b.load(s.at(p, offsets), mask)
    zero, large = s.constant(0.0, (64,), f32), s.constant(1e8, (64,), f32)
    values = [
        s.b.sub(v, v), s.b.mul(v, zero), s.b.add(v, zero),
        s.b.sub(s.b.add(v, large), large), s.b.div(v, v),
    ]  # fmt: skip
    for out, value in zip(outs, values):
        s.b.store(s.at(out, offsets), value, mask)
    return s.case()


def _unfused() -> Case:
    """a * b + c rounds twice when fusion is switched off."""
    a, b = ordinary(f32, 300), ordinary(f32, 300, 1)
    c = -(a * b)
    body: Body = lambda s, xs: s.b.add(s.b.mul(xs[0], xs[1]), xs[2])  # noqa: E731
    case = flat_case([(f32, a), (f32, b), (f32, c)], f32, body, a * b + c)
    case.options = {"enable_fp_fusion": False}
    return case


def specs() -> Iterator[Spec]:
    """All cases of this module."""
    for name in BINARY_ALL:
        for t in ALL:
            for rule in NAN_RULES if name in ("min", "max") else ("",):
                suffix = f".{rule}" if rule else ""
                make = partial(_binary, name, t, rule)
                yield Spec(f"arith.{name}.{t}{suffix}", make, (name,), (t,), frozenset({"tail"}))
    for name in BINARY_INT:
        for t in INTS:
            yield Spec(f"arith.{name}.{t}", partial(_binary, name, t, ""), (name,), (t,))
    for name in ("neg", "abs", "not"):
        for t in INTS if name == "not" else ALL:
            yield Spec(f"arith.{name}.{t}", partial(_unary, name, t), (name,), (t,))
    for t in FLOATS:
        yield Spec(f"arith.fma.{t}", partial(_fma, t), ("fma",), (t,))
    for t in ALL:
        for pred in PREDICATES:
            yield Spec(f"arith.cmp.{t}.{pred}", partial(_cmp, t, pred), ("cmp",), (t,))
        yield Spec(f"arith.select.{t}", partial(_select, t), ("select",), (t,))
        make = partial(_select, t, True)
        yield Spec(f"arith.select.{t}.unlikely", make, ("select",), (t,))
        yield Spec(f"arith.constant.{t}", partial(_constant, t), ("constant",), (t,))
    yield from _conversions()
    for name in MATH:
        for t in (f32, f64):
            yield Spec(f"math.{name}.{t}", partial(_math, name, t), (name,), (t,))
    for name in ("sin", "cos"):
        for t in (f32, f64):
            yield Spec(f"math.{name}.{t}.large", partial(_large_angle, name, t), (name,), (t,))
    for name in ROUNDINGS:
        for t in FLOATS:
            yield Spec(f"math.{name}.{t}", partial(_math, name, t), (name,), (t,))
    yield from _shape_specs()
    yield Spec("arith.exact.f32", _no_reassociation, ("add", "sub", "mul", "div"), (f32,))
    yield Spec("arith.unfused.f32", _unfused, ("add", "mul"), (f32,))


def _conversions() -> Iterator[Spec]:
    for source in ALL:
        for to in ALL:
            make = partial(_cast, source, to, "rtne")
            yield Spec(f"cast.{source}.{to}", make, ("cast",), (source, to))
            if source.is_float and to.is_float and to.bits < source.bits:
                make = partial(_cast, source, to, "rtz")
                yield Spec(f"cast.{source}.{to}.rtz", make, ("cast",), (source, to))
            if source.bits == to.bits and source is not i1:
                make = partial(_bitcast, source, to)
                yield Spec(f"bitcast.{source}.{to}", make, ("bitcast",), (source, to))


def _shape_specs() -> Iterator[Spec]:
    ops: list[tuple[str, DType, int, dict[str, Any]]] = []
    ops += [(name, t, 2, {}) for name in BINARY_ALL for t in (f32, i32)]
    ops += [(name, i32, 2, {}) for name in BINARY_INT]
    ops += [(name, t, 1, {}) for name in ("neg", "abs") for t in (f32, i32)]
    ops += [("not", i32, 1, {}), ("fma", f32, 3, {}), ("cmp", f32, 2, {"pred": "lt"})]
    ops += [("cast", f32, 1, {"to": i32}), ("cast", i32, 1, {"to": f32})]
    ops += [("bitcast", f32, 1, {"to": i32}), ("cast", f32, 1, {"to": f16})]
    ops += [("cast", i32, 1, {"to": i64}), ("cast", u64, 1, {"to": f32})]
    ops += [(name, f32, 1, {}) for name in (*MATH, *ROUNDINGS)]
    for name, t, arity, attrs in ops:
        to = attrs.get("to")
        label = f"shapes.{name}.{t}" + (f".{to}" if to else "")
        dtypes = (t, to) if to else (t,)
        make = partial(_shapes, name, t, arity, attrs)
        yield Spec(label, make, (name,), dtypes)
    yield Spec("shapes.select.f32", _select_shapes, ("select",), (f32,))
