"""Algebra of numbers.  Integer rules hold modulo 2**bits; float rules hold bit for bit."""

from __future__ import annotations

import math

from tegula.analysis.ranges import Ranges
from tegula.ir.core import Op, Value
from tegula.ir.types import Descriptor, DType, elem_of, i1, shape_of, with_shape
from tegula.rewrite import Rewriter, Rules

from .match import (
    all_ones,
    constant_of,
    dtype_of,
    is_constant,
    is_float,
    is_int,
    made_by,
    wrapped,
)

arith = Rules("arith")

COMMUTATIVE = ("add", "mul", "and", "or", "xor", "min", "max", "mulhi")
SWAPPED = {"eq": "eq", "ne": "ne", "lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}
NEGATED = {"eq": "ne", "ne": "eq", "lt": "ge", "le": "gt", "gt": "le", "ge": "lt"}


@arith.rule(*COMMUTATIVE)
def constant_to_right(op: Op, b: Rewriter) -> Value | None:
    """f(c, x) == f(x, c) for commutative f"""
    x, y = op.operands
    if constant_of(x) is None or constant_of(y) is not None:
        return None
    return b.create(op.name, y, x, **op.attrs)


@arith.rule("add")
def add_zero(op: Op, b: Rewriter) -> Value | None:
    """x + 0 == x for integers; x + -0.0 == x for floats (x + 0.0 turns -0.0 into 0.0)"""
    x, y = op.operands
    return x if is_constant(y, 0 if is_int(y) else -0.0) else None


@arith.rule("add")
def add_constants(op: Op, b: Rewriter) -> Value | None:
    """(x + c) + d == x + (c + d) for integers"""
    inner, d = made_by(op.operands[0], "add"), constant_of(op.operands[1])
    if inner is None or d is None or not is_int(op.operands[1]):
        return None
    c = constant_of(inner.operands[1])
    t = op.results[0].type
    return None if c is None else b.add(inner.operands[0], b.constant(wrapped(c + d, t), t))


@arith.rule("add")
def add_product(op: Op, b: Rewriter) -> Value | None:
    """x + dot(a, b, 0) == dot(a, b, x), where nothing else uses the product (its order is free)"""
    for product, x in (op.operands, op.operands[::-1]):
        dot = made_by(product, "dot")
        if dot is None or constant_of(dot.operands[2]) != 0 or not b.used_once(product):
            continue
        return b.dot(dot.operands[0], dot.operands[1], x, **dot.attrs)
    return None


@arith.rule("sub")
def sub_zero(op: Op, b: Rewriter) -> Value | None:
    """x - 0 == x, for floats too"""
    x, y = op.operands
    return x if is_constant(y, 0 if is_int(y) else 0.0) else None


@arith.rule("sub")
def sub_self(op: Op, b: Rewriter) -> Value | None:
    """x - x == 0 for integers"""
    x, y = op.operands
    return b.constant(0, x.type) if x is y and is_int(x) else None


@arith.rule("sub")
def sub_constant(op: Op, b: Rewriter) -> Value | None:
    """x - c == x + (-c) for integers"""
    x, y = op.operands
    c = constant_of(y)
    if c is None or not is_int(y):
        return None
    return b.add(x, b.constant(wrapped(-c, y.type), y.type))


@arith.rule("sub")
def sub_from_zero(op: Op, b: Rewriter) -> Value | None:
    """0 - x == -x for integers; -0.0 - x == -x for floats"""
    x, y = op.operands
    return b.neg(y) if is_constant(x, 0 if is_int(x) else -0.0) else None


@arith.rule("mul")
def mul_one(op: Op, b: Rewriter) -> Value | None:
    """x * 1 == x, for floats too"""
    x, y = op.operands
    return x if is_constant(y, 1) else None


@arith.rule("mul")
def mul_zero(op: Op, b: Rewriter) -> Value | None:
    """x * 0 == 0 for integers"""
    y = op.operands[1]
    return y if is_int(y) and is_constant(y, 0) else None


@arith.rule("mul")
def mul_constants(op: Op, b: Rewriter) -> Value | None:
    """(x * c) * d == x * (c * d) for integers"""
    inner, d = made_by(op.operands[0], "mul"), constant_of(op.operands[1])
    if inner is None or d is None or not is_int(op.operands[1]):
        return None
    c = constant_of(inner.operands[1])
    t = op.results[0].type
    return None if c is None else b.mul(inner.operands[0], b.constant(wrapped(c * d, t), t))


@arith.rule("div")
def div_one(op: Op, b: Rewriter) -> Value | None:
    """x / 1 == x, for floats too"""
    x, y = op.operands
    return x if is_constant(y, 1) else None


@arith.rule("div")
def div_power_of_two(op: Op, b: Rewriter) -> Value | None:
    """x / c == x * (1 / c) for floats and c a power of two whose reciprocal is exact"""
    x, y = op.operands
    c, dtype = constant_of(y), dtype_of(y)
    if c is None or dtype is None or dtype.kind != "float" or c == 0 or not math.isfinite(c):
        return None
    mantissa, exponent = math.frexp(c)
    limit = dtype.exponent_bias - 2
    if abs(mantissa) != 0.5 or abs(exponent) > limit:
        return None
    return b.mul(x, b.constant(1.0 / c, y.type))


@arith.rule("rem")
def rem_one(op: Op, b: Rewriter) -> Value | None:
    """x % 1 == 0 for integers; x % -1 == 0"""
    y = op.operands[1]
    if is_int(y) and constant_of(y) in (1, -1):
        return b.constant(0, y.type)
    return None


@arith.rule("rem")
def rem_of_smaller(op: Op, b: Rewriter) -> Value | None:
    """x % y == x where 0 <= x < y"""
    x, y = op.operands
    if not is_int(x):
        return None
    ranges = _ranges(b)
    low, high = ranges.of(x)
    return x if low >= 0 and high < ranges.of(y)[0] else None


@arith.rule("neg", "not")
def twice(op: Op, b: Rewriter) -> Value | None:
    """-(-x) == x; not(not(x)) == x"""
    inner = made_by(op.operands[0], op.name)
    return inner.operands[0] if inner is not None else None


@arith.rule("abs")
def abs_of_sign(op: Op, b: Rewriter) -> Value | None:
    """abs(-x) == abs(x); abs(abs(x)) == abs(x); abs(x) == x for unsigned integers"""
    x = op.operands[0]
    dtype = dtype_of(x)
    if dtype is not None and dtype.kind == "uint":
        return x
    if made_by(x, "abs") is not None:
        return x
    inner = made_by(x, "neg")
    return b.abs(inner.operands[0]) if inner is not None else None


@arith.rule("and", "or", "min", "max")
def same_operands(op: Op, b: Rewriter) -> Value | None:
    """x & x == x | x == min(x, x) == max(x, x) == x"""
    x, y = op.operands
    return x if x is y else None


@arith.rule("and")
def and_constant(op: Op, b: Rewriter) -> Value | None:
    """x & 0 == 0; x & ~0 == x"""
    x, y = op.operands
    return y if is_constant(y, 0) else x if all_ones(y) else None


@arith.rule("or")
def or_constant(op: Op, b: Rewriter) -> Value | None:
    """x | 0 == x; x | ~0 == ~0"""
    x, y = op.operands
    return x if is_constant(y, 0) else y if all_ones(y) else None


@arith.rule("xor")
def xor_constant(op: Op, b: Rewriter) -> Value | None:
    """x ^ 0 == x; x ^ x == 0; x ^ ~0 == not(x)"""
    x, y = op.operands
    if x is y:
        return b.constant(0, x.type)
    return x if is_constant(y, 0) else b.not_(x) if all_ones(y) else None


@arith.rule("shl", "shr")
def shift_by_zero(op: Op, b: Rewriter) -> Value | None:
    """x << 0 == x >> 0 == x"""
    x, y = op.operands
    return x if is_constant(y, 0) else None


def _ranges(b: Rewriter) -> Ranges:
    found = b.facts.get(Ranges)
    if found is None:
        found = b.facts[Ranges] = Ranges(b.counters)
    return found


@arith.rule("min", "max")
def known_order(op: Op, b: Rewriter) -> Value | None:
    """min(x, y) == x and max(x, y) == y where x <= y always (integers)"""
    x, y = op.operands
    if not is_int(x):
        return None
    ranges = _ranges(b)
    (a, c), (d, e) = ranges.of(x), ranges.of(y)
    if c <= d:
        return x if op.name == "min" else y
    if e <= a:
        return y if op.name == "min" else x
    return None


@arith.rule("cmp")
def cmp_constant_to_right(op: Op, b: Rewriter) -> Value | None:
    """c < x == x > c, and so on"""
    x, y = op.operands
    if constant_of(x) is None or constant_of(y) is not None:
        return None
    return b.cmp(y, x, pred=SWAPPED[op.attrs["pred"]])


@arith.rule("cmp")
def cmp_known(op: Op, b: Rewriter) -> Value | None:
    """x < y == c where the ranges of x and y decide; x == x is true for what cannot be NaN"""
    x, y = op.operands
    pred, out = op.attrs["pred"], op.results[0].type
    if is_float(x):
        return None
    if x is y:
        return b.constant(int(pred in ("eq", "le", "ge")), out)
    if not is_int(x):
        return None
    ranges = _ranges(b)
    (a, c), (d, e) = ranges.of(x), ranges.of(y)
    less, more = c < d, a > e
    not_more, not_less = c <= d, a >= e
    truth = {
        "lt": (less, not_less),
        "ge": (not_less, less),
        "le": (not_more, more),
        "gt": (more, not_more),
        "ne": (less or more, False),
        "eq": (False, less or more),
    }[pred]
    return b.constant(int(truth[0]), out) if any(truth) else None


@arith.rule("cmp")
def cmp_of_truth(op: Op, b: Rewriter) -> Value | None:
    """x != false == x; x == true == x; x == false == not(x); x != true == not(x), for i1"""
    x, y = op.operands
    c, pred = constant_of(y), op.attrs["pred"]
    if dtype_of(x) is not i1 or c is None or pred not in ("eq", "ne"):
        return None
    return x if bool(c) == (pred == "eq") else b.not_(x)


@arith.rule("not")
def not_cmp(op: Op, b: Rewriter) -> Value | None:
    """not(x < y) == x >= y, except where a NaN makes them differ"""
    cmp = made_by(op.operands[0], "cmp")
    if cmp is None:
        return None
    pred = cmp.attrs["pred"]
    if is_float(cmp.operands[0]) and pred not in ("eq", "ne"):
        return None
    return b.cmp(*cmp.operands, pred=NEGATED[pred])


@arith.rule("select")
def select_known(op: Op, b: Rewriter) -> Value | None:
    """select(true, x, y) == x; select(false, x, y) == y; select(c, x, x) == x"""
    c, x, y = op.operands
    if x is y:
        return x
    truth = constant_of(c)
    return None if truth is None else x if truth else y


@arith.rule("select")
def select_not(op: Op, b: Rewriter) -> Value | None:
    """select(not(c), x, y) == select(c, y, x)"""
    c, x, y = op.operands
    inner = made_by(c, "not")
    return b.select(inner.operands[0], y, x) if inner is not None else None


@arith.rule("select")
def select_truth(op: Op, b: Rewriter) -> Value | None:
    """select(c, true, false) == c; select(c, false, true) == not(c), for i1"""
    c, x, y = op.operands
    if dtype_of(x) is not i1:
        return None
    ends = constant_of(x), constant_of(y)
    if None in ends:
        return None
    return c if ends == (1, 0) else b.not_(c) if ends == (0, 1) else None


@arith.rule("select")
def select_of_select(op: Op, b: Rewriter) -> Value | None:
    """select(c, select(c, x, y), z) == select(c, x, z); select(c, x, select(c, y, z)) likewise"""
    c, x, y = op.operands
    inner = made_by(x, "select")
    if inner is not None and inner.operands[0] is c:
        return b.select(c, inner.operands[1], y)
    inner = made_by(y, "select")
    if inner is not None and inner.operands[0] is c:
        return b.select(c, x, inner.operands[2])
    return None


# -- conversions


def _keeps_every_value(source: DType, to: DType) -> bool:
    """Each value of `source` is a value of `to`."""
    if source is to:
        return True
    if source.is_float:
        return (
            to.is_float
            and to.bits > source.bits
            and to.mantissa >= source.mantissa
            and to.exponent_bias > source.exponent_bias
        )
    if to.is_float:
        digits = source.bits - (1 if source.is_signed else 0)
        return digits <= to.mantissa + 1 and source.bits < to.exponent_bias
    return to.min_value <= source.min_value and source.max_value <= to.max_value


@arith.rule("cast")
def cast_to_same(op: Op, b: Rewriter) -> Value | None:
    """cast(x) == x where x has the type already"""
    x = op.operands[0]
    return x if x.type is op.results[0].type else None


@arith.rule("cast")
def cast_of_cast(op: Op, b: Rewriter) -> Value | None:
    """cast(cast(x, b), c) == cast(x, c) where b holds every value of x, or both only drop bits; a
    rounding that the conversion from x would not have stays
    """
    inner = made_by(op.operands[0], "cast")
    if inner is None:
        return None
    x, to = inner.operands[0], op.attrs["to"]
    source, middle = dtype_of(x), dtype_of(inner.results[0])
    if source is None or middle is None or not isinstance(to, DType):
        return None
    ints = source.is_int and middle.is_int and to.is_int
    if middle is i1 and source is not i1:
        return None
    lossless = _keeps_every_value(source, middle)
    if source.is_int and middle.is_float and to.is_int and not _keeps_every_value(source, to):
        return None  # from the float it saturates, from the integer it would wrap
    toward_zero = op.attrs["rounding"] == "rtz" and middle.is_float and to.is_float
    narrows = source.is_float and to.bits < source.bits
    if toward_zero and to.bits < middle.bits and not (narrows or _keeps_every_value(source, to)):
        return None
    if lossless or (ints and to is not i1 and middle.bits >= to.bits):
        return b.cast(x, to=to, rounding=op.attrs["rounding"])
    return None


@arith.rule("bitcast")
def bitcast_of_bitcast(op: Op, b: Rewriter) -> Value | None:
    """bitcast(x) == x where x has the type already; bitcast(bitcast(x)) == bitcast(x)"""
    x = op.operands[0]
    if x.type is op.results[0].type:
        return x
    inner = made_by(x, "bitcast")
    return b.bitcast(inner.operands[0], to=op.attrs["to"]) if inner is not None else None


# -- pointers


@arith.rule("addptr")
def addptr_zero(op: Op, b: Rewriter) -> Value | None:
    """p + 0 == p"""
    p, offset = op.operands
    return p if is_constant(offset, 0) else None


@arith.rule("addptr")
def addptr_constants(op: Op, b: Rewriter) -> Value | None:
    """(p + c) + d == p + (c + d) for constant offsets"""
    inner, d = made_by(op.operands[0], "addptr"), constant_of(op.operands[1])
    if inner is None or d is None:
        return None
    c = constant_of(inner.operands[1])
    if c is None or inner.operands[1].type is not op.operands[1].type:
        return None
    dtype = dtype_of(op.operands[1])
    assert dtype is not None
    if not dtype.min_value <= c + d <= dtype.max_value:
        return None
    return b.addptr(inner.operands[0], b.constant(c + d, op.operands[1].type))


@arith.rule("arange")
def arange_of_one(op: Op, b: Rewriter) -> Value | None:
    """arange(n, n + 1) == n"""
    t = op.results[0].type
    assert not isinstance(t, Descriptor)
    start = op.attrs["start"]
    fits = start <= elem_of(t).max_value  # type: ignore[union-attr]
    return b.constant(start, with_shape(t, (1,))) if shape_of(t) == (1,) and fits else None
