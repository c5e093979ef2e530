"""Arithmetic: elementwise on scalars and on tiles of one shape and dtype."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..opdef import REQUIRED, check, op
from ..types import (
    Descriptor,
    DType,
    Pointer,
    Type,
    elem_of,
    i1,
    i64,
    numpy_dtype,
    shape_of,
    u64,
    with_elem,
)  # fmt: skip
from .rounding import exact_f64, fma_f64, narrow, round_to_odd_sum, toward_zero
from .rules import (
    in_f32,
    math_float,
    result_dtype,
    same_float,
    same_int,
    same_type,
    types_of,
    via_f64,
)  # fmt: skip

if TYPE_CHECKING:
    from ..core import Op

BINARY = "pure elementwise"
COMMUTES = "pure elementwise commutative"
PREDICATES = ("eq", "ne", "lt", "le", "gt", "ge")
NAN_RULES = ("ignore", "propagate")


@op("constant", traits="pure elementwise")
class Constant:
    """A number, or a tile filled with one. `value` is an int, float or bool; `type` the result
    type.
    """

    attrs = {"value": REQUIRED, "type": REQUIRED}

    def infer(op: Op) -> list[Type]:
        t, value = op.attrs["type"], op.attrs["value"]
        check(not isinstance(t, Descriptor), "a descriptor cannot be constant")
        e = elem_of(t)
        if isinstance(e, Pointer):
            check(value == 0, "the only constant pointer is null, value 0")
        elif e.is_float:
            check(isinstance(value, float), f"a constant of {e} needs a float value, not {value!r}")
        else:
            check(
                isinstance(value, int), f"a constant of {e} needs an integer value, not {value!r}"
            )
            check(e.min_value <= value <= e.max_value, f"{value} is out of range of {e}")
        return [t]

    def evaluate(op: Op) -> Any:
        e, value = elem_of(op.attrs["type"]), op.attrs["value"]
        with np.errstate(all="ignore"):
            if isinstance(e, DType) and e.is_float and e.bits == 8:
                value = narrow(value, result_dtype(op))
            return np.full(shape_of(op.attrs["type"]), value, result_dtype(op))[()]


@op("add", traits=COMMUTES)
class Add:
    """Sum. out = lhs + rhs; integers wrap."""

    operands = "lhs rhs"
    infer = same_type
    evaluate = in_f32(lambda op, a, b: np.logical_xor(a, b) if a.dtype == bool else np.add(a, b))


@op("sub", traits=BINARY)
class Sub:
    """Difference. out = lhs - rhs; integers wrap."""

    operands = "lhs rhs"
    infer = same_type
    evaluate = in_f32(
        lambda op, a, b: np.logical_xor(a, b) if a.dtype == bool else np.subtract(a, b)
    )


@op("mul", traits=COMMUTES)
class Mul:
    """Product. out = lhs * rhs; integers wrap."""

    operands = "lhs rhs"
    infer = same_type
    evaluate = in_f32(
        lambda op, a, b: np.logical_and(a, b) if a.dtype == bool else np.multiply(a, b)
    )


def _int_div(a: Any, b: Any) -> Any:
    """Truncating division without traps: x / 0 = 0, MIN / -1 = MIN."""
    if np.asarray(a).dtype.kind == "b":
        return np.logical_and(a, b)
    if np.asarray(a).dtype.kind == "u":
        return np.where(b == 0, 0, a // np.where(b == 0, 1, b)).astype(a.dtype)
    safe = np.where(b == 0, 1, b).astype(a.dtype)
    q = np.where(safe == -1, np.negative(a), a // safe)
    r = a - q * safe
    q = np.where((safe != -1) & (r != 0) & ((r < 0) != (a < 0)), q + 1, q)
    return np.where(b == 0, 0, q).astype(a.dtype)


def _div(op: Op, a: Any, b: Any) -> Any:
    return np.divide(a, b) if a.dtype.kind not in "iub" else _int_div(a, b)


def _rem(op: Op, a: Any, b: Any) -> Any:
    if a.dtype.kind not in "iub":
        return np.fmod(a, b)
    if a.dtype.kind == "b":
        return np.logical_and(False, a)
    return np.where(b == 0, 0, a - _int_div(a, b) * b).astype(a.dtype)


@op("div", traits=BINARY)
class Div:
    """Quotient. Floats: lhs / rhs. Integers truncate toward zero; x / 0 = 0 and MIN / -1 = MIN."""

    operands = "lhs rhs"
    infer = same_type
    evaluate = in_f32(_div)


@op("rem", traits=BINARY)
class Rem:
    """Remainder with the sign of lhs (C's % and fmod); an integer x rem 0 is 0."""

    operands = "lhs rhs"
    infer = same_type
    evaluate = in_f32(_rem)


@op("neg", traits="pure elementwise")
class Neg:
    """Negation. out = -x; integers wrap."""

    operands = "x"
    infer = same_type
    evaluate = in_f32(lambda op, x: x if x.dtype == bool else np.negative(x))


@op("abs", traits="pure elementwise")
class Abs:
    """Magnitude. The smallest signed integer stays itself."""

    operands = "x"
    infer = same_type
    evaluate = in_f32(lambda op, x: np.abs(x))


@op("and", traits=COMMUTES)
class And:
    """Bitwise and of integers."""

    operands = "lhs rhs"
    infer = same_int

    def evaluate(op: Op, a: Any, b: Any) -> Any:
        return np.bitwise_and(a, b)


@op("or", traits=COMMUTES)
class Or:
    """Bitwise or of integers."""

    operands = "lhs rhs"
    infer = same_int

    def evaluate(op: Op, a: Any, b: Any) -> Any:
        return np.bitwise_or(a, b)


@op("xor", traits=COMMUTES)
class Xor:
    """Bitwise exclusive or of integers."""

    operands = "lhs rhs"
    infer = same_int

    def evaluate(op: Op, a: Any, b: Any) -> Any:
        return np.bitwise_xor(a, b)


@op("not", traits="pure elementwise")
class Not:
    """Bitwise complement of an integer (logical not for i1)."""

    operands = "x"
    infer = same_int

    def evaluate(op: Op, x: Any) -> Any:
        return np.invert(x)


def _amount(a: Any, b: Any) -> tuple[Any, Any]:
    """Shift amount as unsigned bits, and whether it is in range."""
    bits = 1 if a.dtype == bool else a.dtype.itemsize * 8
    amount = np.asarray(b).astype(np.int64)
    return amount, (amount >= 0) & (amount < bits)


@op("shl", traits=BINARY)
class Shl:
    """Shift left. An amount outside of 0..bits-1 gives 0."""

    operands = "lhs rhs"
    infer = same_int

    def evaluate(op: Op, a: Any, b: Any) -> Any:
        amount, ok = _amount(a, b)
        wide = np.asarray(a).astype(np.uint64) << np.where(ok, amount, 0).astype(np.uint64)
        return np.where(ok, wide, 0).astype(np.asarray(a).dtype)[()]


@op("shr", traits=BINARY)
class Shr:
    """Shift right, arithmetic iff signed. An amount out of range gives 0, or the sign for a
    negative lhs.
    """

    operands = "lhs rhs"
    infer = same_int

    def evaluate(op: Op, a: Any, b: Any) -> Any:
        amount, ok = _amount(a, b)
        wide = np.asarray(a).astype(np.uint64 if np.asarray(a).dtype.kind in "ub" else np.int64)
        shifted = wide >> np.where(ok, amount, 0).astype(wide.dtype)
        out = np.where(wide < 0, -1, 0).astype(wide.dtype)
        return np.where(ok, shifted, out).astype(np.asarray(a).dtype)[()]


def _nan_rule(op: Op) -> list[Type]:
    check(
        op.attrs["nan"] in NAN_RULES,
        f"{op.name}: nan is one of {NAN_RULES}, not {op.attrs['nan']!r}",
    )
    return same_type(op)


@op("min", traits=COMMUTES)
class Min:
    """Smaller of two. nan=ignore: a NaN gives the other operand; nan=propagate: gives NaN."""

    operands = "lhs rhs"
    attrs = {"nan": "ignore"}
    infer = _nan_rule
    evaluate = in_f32(
        lambda op, a, b: (np.fmin if op.attrs["nan"] == "ignore" else np.minimum)(a, b)
    )


@op("max", traits=COMMUTES)
class Max:
    """Larger of two. nan=ignore: a NaN gives the other operand; nan=propagate: gives NaN."""

    operands = "lhs rhs"
    attrs = {"nan": "ignore"}
    infer = _nan_rule
    evaluate = in_f32(
        lambda op, a, b: (np.fmax if op.attrs["nan"] == "ignore" else np.maximum)(a, b)
    )


@op("mulhi", traits=COMMUTES)
class MulHi:
    """Upper half of the double-width product of integers."""

    operands = "lhs rhs"
    infer = same_int

    def evaluate(op: Op, a: Any, b: Any) -> Any:
        bits = np.asarray(a).dtype.itemsize * 8
        if bits < 64:
            return (
                ((a.astype(np.int64) * b.astype(np.int64)) >> bits).astype(a.dtype)
                if bits < 32 or (a.dtype.kind == "i")
                else ((a.astype(np.uint64) * b.astype(np.uint64)) >> np.uint64(32)).astype(a.dtype)
            )
        wide = (np.asarray(a).astype(object) * np.asarray(b).astype(object)) >> 64
        return np.asarray(wide).astype(np.asarray(a).dtype)[()]


@op("fma", traits="pure elementwise")
class Fma:
    """Fused multiply-add of floats. out = a * b + c, rounded once."""

    operands = "a b c"
    infer = same_float

    def evaluate(op: Op, a: Any, b: Any, c: Any) -> Any:
        if np.asarray(a).dtype == np.float64:
            return np.asarray(fma_f64(*(np.asarray(x) for x in (a, b, c))))[()]
        a, b, c = (np.asarray(x).astype(np.float64) for x in (a, b, c))
        # The product of two f32 is exact in f64; rounding the sum to odd keeps the final rounding
        # right.
        return narrow(round_to_odd_sum(a * b, c), result_dtype(op))[()]


@op("cmp", traits=BINARY)
class Cmp:
    """Comparison to i1 by `pred`: eq ne lt le gt ge. With a NaN all are false but ne. Works on
    pointers.
    """

    operands = "lhs rhs"
    attrs = {"pred": REQUIRED}

    def infer(op: Op) -> list[Type]:
        check(
            op.attrs["pred"] in PREDICATES,
            f"cmp: pred is one of {PREDICATES}, not {op.attrs['pred']!r}",
        )
        a, b = types_of(op)
        check(a is b, f"the operands of cmp must have the same type, not {a} and {b}")
        check(not isinstance(a, Descriptor), "descriptors cannot be compared")
        return [with_elem(a, i1)]

    def evaluate(op: Op, a: Any, b: Any) -> Any:
        f = {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal,
             "gt": np.greater, "ge": np.greater_equal}[op.attrs["pred"]]  # fmt: skip
        return f(a, b)


@op("select", traits="pure elementwise")
class Select:
    """out = a where cond, else b. cond is i1 of the operands' shape.

    `unlikely` says that cond seldom holds and a is costly: code may branch around computing a.
    """

    operands = "cond a b"
    attrs = {"unlikely": False}

    def infer(op: Op) -> list[Type]:
        c, a, b = types_of(op)
        check(a is b, f"the branches of select must have the same type, not {a} and {b}")
        check(not isinstance(a, Descriptor), "select cannot choose between descriptors")
        check(c is with_elem(a, i1), f"the condition of select must be {with_elem(a, i1)}, not {c}")
        return [a]

    def evaluate(op: Op, c: Any, a: Any, b: Any) -> Any:
        return np.where(c, a, b)[()]


def _float_to_int(x: Any, to: DType) -> Any:
    """Truncate toward zero, saturate, NaN -> 0."""
    x = np.trunc(np.asarray(x).astype(np.float64))
    lo, hi = to.min_value, to.max_value
    fits = (x >= float(lo)) & (x < float(hi) + 1 if to.bits == 64 else x <= float(hi))
    y = np.where(fits, x, 0).astype(numpy_dtype(to))
    limits = np.where(x > 0, np.array(hi, numpy_dtype(to)), np.array(lo, numpy_dtype(to)))
    return np.where(fits, y, np.where(np.isnan(x), np.zeros((), numpy_dtype(to)), limits))[()]


@op("cast", traits="pure elementwise")
class Cast:
    """Convert the element type to `to`.

    Floats narrow by `rounding` (rtne, rtz). Float to integer truncates, saturates and takes NaN
    to 0; to i1 is
    x != 0. Integers wrap or extend by the source's sign. Pointers convert from and to i64 and
    u64, and to other
    pointers.
    """

    operands = "x"
    attrs = {"to": REQUIRED, "rounding": "rtne"}

    def infer(op: Op) -> list[Type]:
        (t,), to = types_of(op), op.attrs["to"]
        check(isinstance(to, (DType, Pointer)), f"cast: `to` must be a scalar type, not {to}")
        check(not isinstance(t, Descriptor), "a descriptor cannot be cast")
        check(op.attrs["rounding"] in ("rtne", "rtz"), "cast: rounding is rtne or rtz")
        source = elem_of(t)
        if isinstance(source, Pointer) or isinstance(to, Pointer):
            other = to if isinstance(source, Pointer) else source
            to_or_from = isinstance(other, Pointer) or other in (i64, u64) or to is i1
            check(to_or_from, f"a pointer converts from and to i64 and u64 only, not {other}")
        return [with_elem(t, to)]

    def evaluate(op: Op, x: Any) -> Any:
        source, to = elem_of(op.operands[0].type), op.attrs["to"]
        if source == to:
            return x  # also where a conversion to the type would saturate
        if isinstance(to, Pointer) or isinstance(source, Pointer):
            return (x != 0) if to is i1 else np.asarray(x).astype(result_dtype(op))[()]
        if to is i1:
            return np.asarray(x).astype(np.float64) != 0 if source.is_float else x != 0
        if source.is_float and to.is_int:
            return _float_to_int(x, to)
        if source.is_float and op.attrs["rounding"] == "rtz" and to.bits < source.bits:
            return toward_zero(x, result_dtype(op))[()]
        if to.is_float and to.bits < 32:
            return narrow(exact_f64(x), result_dtype(op))[()]
        return np.asarray(x).astype(result_dtype(op))[()]


@op("bitcast", traits="pure elementwise")
class Bitcast:
    """Reinterpret the bits as element type `to` of the same width."""

    operands = "x"
    attrs = {"to": REQUIRED}

    def infer(op: Op) -> list[Type]:
        (t,), to = types_of(op), op.attrs["to"]
        check(not isinstance(t, Descriptor), "a descriptor cannot be bitcast")
        check(isinstance(to, (DType, Pointer)), f"bitcast: `to` must be a scalar type, not {to}")
        width = [64 if isinstance(e, Pointer) else e.bits for e in (elem_of(t), to)]
        check(width[0] == width[1], f"bitcast needs equal widths, not {elem_of(t)} to {to}")
        return [with_elem(t, to)]

    def evaluate(op: Op, x: Any) -> Any:
        return np.asarray(x).view(result_dtype(op))[()]


def _declare_math(
    name: str, doc: str, f: Any, any_float: bool = False, exact: bool = False
) -> None:
    """`exact`: numpy rounds the function right itself; by way of a wider type, twice."""
    evaluate = in_f32(lambda op, x: f(x)) if any_float or exact else via_f64(f)
    body = {"__doc__": doc, "operands": "x", "infer": same_float if any_float else math_float,
            "evaluate": staticmethod(evaluate)}  # fmt: skip
    op(name, traits="pure elementwise", category="math")(type(name, (), body))


def _erf(x: Any) -> Any:
    from math import erf

    return np.vectorize(lambda v: erf(float(v)), otypes=[np.float64])(x) if np.size(x) else x


for _name, _doc, _f in (
    ("exp", "Exponential. out = e ** x.", np.exp),
    ("exp2", "Exponential to base 2. out = 2 ** x.", np.exp2),
    ("log", "Natural logarithm.", np.log),
    ("log2", "Logarithm to base 2.", np.log2),
    ("sin", "Sine of an angle in radians.", np.sin),
    ("cos", "Cosine of an angle in radians.", np.cos),
    ("tanh", "Hyperbolic tangent.", np.tanh),
    ("erf", "Error function.", _erf),
    ("rsqrt", "Reciprocal square root. out = 1 / sqrt(x).", lambda x: 1 / np.sqrt(x)),
):
    _declare_math(_name, _doc, _f)
_declare_math("sqrt", "Square root, correctly rounded.", np.sqrt, exact=True)
for _name, _doc, _g in (
    ("floor", "Largest integer not above x.", np.floor),
    ("ceil", "Smallest integer not below x.", np.ceil),
    ("trunc", "x without its fraction.", np.trunc),
    ("rint", "Nearest integer, ties to even.", np.rint),
):
    _declare_math(_name, _doc, _g, any_float=True)
