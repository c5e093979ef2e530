"""How each elementwise op becomes LLVM instructions: the table `RULES`.

A rule takes the lanes, the op and its operands as scalars or vectors, and gives the result.  The
same text serves both, only the type differs.  Floats narrower than 32 bits compute in f32 and are
rounded once per op.
"""

from __future__ import annotations

from collections.abc import Callable

from tegula.codegen.loops import convert, x86
from tegula.codegen.loops.convert import (
    binary,
    choose,
    compare,
    const_like,
    float_const,
    from_f32,
    intrinsic,
    to_f32,
    unary,
)
from tegula.codegen.loops.lanes import Lanes, reg_type, vector
from tegula.codegen.loops.text import Val
from tegula.codegen.loops.vector import VectorTarget
from tegula.ir.core import Op
from tegula.ir.types import DType, Pointer, elem_of, f32, f64

Rule = Callable[..., Val]
RULES: dict[str, Rule] = {}


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Enter a rule into the table under the names of its ops."""

    def enter(f: Rule) -> Rule:
        for name in names:
            RULES[name] = f
        return f

    return enter


def elem(op: Op, index: int = 0) -> DType:
    e = elem_of(op.operands[index].type)
    assert isinstance(e, DType)
    return e


def in_float(l: Lanes, e: DType, f: Callable[..., Val], *xs: Val) -> Val:
    """Apply `f(wide_type, *xs)` in f32 or f64 and round to `e`."""
    if e is f32 or e is f64:
        return f(e, *xs)
    return from_f32(l, f(f32, *(to_f32(l, x, e) for x in xs)), e)


# -- arithmetic

_INT_VERB = {"add": "add", "sub": "sub", "mul": "mul"}


@rule("add", "sub", "mul")
def _arith(l: Lanes, op: Op, a: Val, b: Val) -> Val:
    e, name = elem(op), op.name
    if e.is_float:
        return in_float(l, e, lambda _, x, y: binary(l, "f" + name, x, y), a, b)
    if e.bits == 1:
        return binary(l, "and" if name == "mul" else "xor", a, b)
    if l.n == 1:
        return getattr(l.w, name)(a, b)
    return binary(l, name, a, b)


@rule("div")
def _div(l: Lanes, op: Op, a: Val, b: Val) -> Val:
    e = elem(op)
    if e.is_float:
        return in_float(l, e, lambda _, x, y: binary(l, "fdiv", x, y), a, b)
    if e.bits == 1:
        return binary(l, "and", a, b)
    if b.const is not None and b.const not in (0, -1):
        if a.const is not None:
            q = abs(int(a.const)) // abs(int(b.const))
            return const_like(l, a, q if (a.const < 0) == (b.const < 0) else -q)
        return binary(l, "sdiv" if e.is_signed else "udiv", a, b)
    safe, zero = _safe_divisor(l, e, a, b)
    return choose(l, zero, const_like(l, a, 0), _quotient(l, e, a, safe))


@rule("rem")
def _rem(l: Lanes, op: Op, a: Val, b: Val) -> Val:
    e = elem(op)
    if e.is_float:
        return in_float(l, e, lambda _, x, y: binary(l, "frem", x, y), a, b)
    if e.bits == 1:
        return const_like(l, a, 0)
    if b.const is not None and b.const not in (0, -1):
        return binary(l, "srem" if e.is_signed else "urem", a, b)
    safe, _ = _safe_divisor(l, e, a, b)
    if l.n == 1:
        return binary(l, "srem" if e.is_signed else "urem", a, safe)
    return binary(l, "sub", a, binary(l, "mul", _quotient(l, e, a, safe), safe))


def _safe_divisor(l: Lanes, e: DType, a: Val, b: Val) -> tuple[Val, Val]:
    """The divisor with what would trap replaced by 1, and where it is 0."""
    zero = compare(l, "icmp eq", b, const_like(l, b, 0))
    bad = zero
    if e.is_signed:
        lowest = compare(l, "icmp eq", a, const_like(l, a, e.min_value))
        minus = compare(l, "icmp eq", b, const_like(l, b, -1))
        bad = binary(l, "or", zero, binary(l, "and", lowest, minus))
    return choose(l, bad, const_like(l, b, 1), b), zero


def _quotient(l: Lanes, e: DType, a: Val, b: Val) -> Val:
    """Integer quotient.  Vectors of up to 32 bits divide as floats, which is exact: the quotient
    of two such integers differs from every larger integer by more than the rounding error."""
    if l.n == 1 or e.bits == 64:
        return binary(l, "sdiv" if e.is_signed else "udiv", a, b)
    wide = "float" if e.bits <= 16 and e.bits <= 8 else "double"
    there, back = ("sitofp", "fptosi") if e.is_signed else ("uitofp", "fptoui")
    q = binary(l, "fdiv", unary(l, there, a, wide), unary(l, there, b, wide))
    return unary(l, back, q, reg_type(e))


@rule("neg")
def _neg(l: Lanes, op: Op, x: Val) -> Val:
    e = elem(op)
    if not e.is_float:
        return x if e.bits == 1 else binary(l, "sub", const_like(l, x, 0), x)
    if e.bits == 8:
        return _f8_sign(l, e, x, binary(l, "xor", x, const_like(l, x, -0x80)))
    if reg_type(e)[0] == "i":
        return binary(l, "xor", x, const_like(l, x, -(1 << (e.bits - 1))))
    return l.w.pure(x.ty, f"fneg {x.ty} {{}}", x)


@rule("abs")
def _abs(l: Lanes, op: Op, x: Val) -> Val:
    e = elem(op)
    if e.is_float and e.bits == 8:
        return _f8_sign(l, e, x, binary(l, "and", x, const_like(l, x, 0x7F)))
    if e.is_float:
        return in_float(l, e, lambda t, y: intrinsic(l, "fabs", reg_type(t), y), x)
    if not e.is_signed:
        return x
    ty = vector(l.n, reg_type(e))
    negative = binary(l, "sub", const_like(l, x, 0), x)
    return l.w.call(f"llvm.smax.{_suffix(l, e)}", ty, x, negative)


def _f8_sign(l: Lanes, e: DType, x: Val, other: Val) -> Val:
    """A number of 8 bits with another sign, as rounding the result of f32 would give it: infinity
    becomes the largest number, and where there is one zero, the bits of the other one are NaN.
    """
    size = binary(l, "and", x, const_like(l, x, 0x7F))
    if e.name == "f8e5":
        infinite = compare(l, "icmp eq", size, const_like(l, x, 0x7C))
        return choose(l, infinite, binary(l, "sub", other, const_like(l, x, 1)), other)
    if e.name in ("f8e5b16", "f8e4b8"):
        return choose(l, compare(l, "icmp eq", size, const_like(l, x, 0)), x, other)
    return other


def _suffix(l: Lanes, e: DType) -> str:
    return reg_type(e) if l.n == 1 else f"v{l.n}{reg_type(e)}"


@rule("and", "or", "xor")
def _bits(l: Lanes, op: Op, a: Val, b: Val) -> Val:
    return binary(l, op.name, a, b)


@rule("not")
def _not(l: Lanes, op: Op, x: Val) -> Val:
    return binary(l, "xor", x, const_like(l, x, 1 if elem(op).bits == 1 else -1))


@rule("shl", "shr")
def _shift(l: Lanes, op: Op, a: Val, b: Val) -> Val:
    e = elem(op)
    if e.bits == 1:  # only an amount of 0 is in range
        return binary(l, "and", a, binary(l, "xor", b, const_like(l, b, 1)))
    verb = "shl" if op.name == "shl" else "ashr" if e.is_signed else "lshr"
    if b.const is not None and 0 <= b.const < e.bits:
        return binary(l, verb, a, b)
    limit = const_like(l, b, e.bits - 1)
    amount = l.w.call(f"llvm.umin.{_suffix(l, e)}", b.ty, b, limit)
    shifted = binary(l, verb, a, amount)
    if verb == "ashr":
        return shifted
    in_range = compare(l, "icmp ule", b, limit)
    return choose(l, in_range, shifted, const_like(l, a, 0))


@rule("min", "max")
def _minmax(l: Lanes, op: Op, a: Val, b: Val) -> Val:
    return minmax(l, op.name, op.attrs["nan"] == "propagate", elem(op), a, b)


def minmax(l: Lanes, name: str, propagate: bool, e: DType, a: Val, b: Val) -> Val:
    """min or max of numbers of dtype `e`."""
    if e.is_float:
        verb = (name + "imum") if propagate else (name + "num")
        return in_float(l, e, lambda t, x, y: intrinsic(l, verb, reg_type(t), x, y), a, b)
    if e.bits == 1:
        return binary(l, "and" if name == "min" else "or", a, b)
    return l.w.call(f"llvm.{'s' if e.is_signed else 'u'}{name}.{_suffix(l, e)}", a.ty, a, b)


@rule("mulhi")
def _mulhi(l: Lanes, op: Op, a: Val, b: Val) -> Val:
    e = elem(op)
    if e.bits == 1:
        return const_like(l, a, 0)
    if e.bits == 64 and l.n > 1:
        return _mulhi_by_halves(l, e, a, b)
    wide = f"i{2 * e.bits}"
    verb = "sext" if e.is_signed else "zext"
    p = binary(l, "mul", unary(l, verb, a, wide), unary(l, verb, b, wide))
    return unary(l, "trunc", binary(l, "lshr", p, const_like(l, p, e.bits)), reg_type(e))


def _mulhi_by_halves(l: Lanes, e: DType, a: Val, b: Val) -> Val:
    """From four products of 32-bit halves: vectors have no wider multiplication."""

    def low(x: Val) -> Val:
        return binary(l, "and", x, const_like(l, x, (1 << 32) - 1))

    def high(x: Val) -> Val:
        return binary(l, "lshr", x, const_like(l, x, 32))

    def sum_of(x: Val, y: Val) -> Val:
        return binary(l, "add", x, y)

    def product(x: Val, y: Val) -> Val:
        return binary(l, "mul", x, y)

    carried = sum_of(product(high(a), low(b)), high(product(low(a), low(b))))
    middle = sum_of(product(low(a), high(b)), low(carried))
    upper = sum_of(product(high(a), high(b)), sum_of(high(carried), high(middle)))
    if not e.is_signed:
        return upper
    for x, y in ((a, b), (b, a)):  # a negative factor was taken for one 2**64 larger
        negative = binary(l, "ashr", x, const_like(l, x, 63))
        upper = binary(l, "sub", upper, binary(l, "and", negative, y))
    return upper


@rule("fma")
def _fma(l: Lanes, op: Op, a: Val, b: Val, c: Val) -> Val:
    e = elem(op)
    if e.bits < 32:
        return _narrow_fma(l, e, a, b, c)
    return intrinsic(l, "fma", reg_type(e), a, b, c)


def _narrow_fma(l: Lanes, e: DType, a: Val, b: Val, c: Val) -> Val:
    """a * b + c of narrow floats, rounded once: exact product, sum rounded to odd, both in f64."""
    x, y, z = (unary(l, "fpext", to_f32(l, v, e), "double") for v in (a, b, c))
    p = binary(l, "fmul", x, y)
    total = binary(l, "fadd", p, z)
    t = binary(l, "fsub", total, p)
    error = binary(l, "fadd", binary(l, "fsub", p, binary(l, "fsub", total, t)),
                   binary(l, "fsub", z, t))
    bits = unary(l, "bitcast", total, "i64")
    zero = float_const(l, 0.0, f64)
    upward = binary(l, "xor", compare(l, "fcmp ogt", error, zero),
                    compare(l, "fcmp olt", total, zero))
    step = choose(l, upward, const_like(l, bits, 1), const_like(l, bits, -1))
    even = compare(l, "icmp eq", binary(l, "and", bits, const_like(l, bits, 1)),
                   const_like(l, bits, 0))
    inexact = binary(l, "and", compare(l, "fcmp one", error, zero), even)
    odd = choose(l, inexact, binary(l, "add", bits, step), bits)
    return convert.cast(l, unary(l, "bitcast", odd, "double"), f64, e)


_FCMP = {"eq": "oeq", "ne": "une", "lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge"}
PREDICATES = {
    "eq": lambda a, b: a == b, "ne": lambda a, b: a != b, "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b, "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b,
}  # fmt: skip


@rule("cmp")
def _cmp(l: Lanes, op: Op, a: Val, b: Val) -> Val:
    e, pred = elem_of(op.operands[0].type), op.attrs["pred"]
    if isinstance(e, DType) and e.is_float:
        if e.bits < 32:
            a, b = to_f32(l, a, e), to_f32(l, b, e)
        return compare(l, f"fcmp {_FCMP[pred]}", a, b)
    if a.const is not None and b.const is not None and isinstance(e, DType):
        mask = (1 << e.bits) - 1
        x, y = int(a.const), int(b.const)
        if not e.is_signed:
            x, y = x & mask, y & mask
        return const_like(l, l.w.literal("", vector(l.n, "i1")), int(PREDICATES[pred](x, y)))
    if pred not in ("eq", "ne"):
        is_signed = isinstance(e, DType) and e.is_signed
        pred = ("s" if is_signed else "u") + pred
    return compare(l, f"icmp {pred}", a, b)


@rule("select")
def _select(l: Lanes, op: Op, c: Val, a: Val, b: Val) -> Val:
    return choose(l, c, a, b)


@rule("cast")
def _cast(l: Lanes, op: Op, x: Val) -> Val:
    source = elem_of(op.operands[0].type)
    return convert.cast(l, x, source, op.attrs["to"], op.attrs["rounding"])


@rule("bitcast")
def _bitcast(l: Lanes, op: Op, x: Val) -> Val:
    return convert.bitcast(l, x, elem_of(op.operands[0].type), op.attrs["to"])


@rule("addptr")
def _addptr(l: Lanes, op: Op, p: Val, offset: Val) -> Val:
    e, pointer = elem(op, 1), elem_of(op.operands[0].type)
    assert isinstance(pointer, Pointer)
    wide = unary(l, "sext" if e.is_signed else "zext", offset, "i64") if e.bits < 64 else offset
    from tegula.codegen.loops.lanes import mem_type

    if l.n == 1:
        return l.w.gep(mem_type(pointer.elem), p, wide)
    ty = vector(l.n, "ptr")
    form = f"getelementptr {mem_type(pointer.elem)}, {ty} {{}}, {wide.ty} {{}}"
    return l.w.pure(ty, form, p, wide)


@rule("floor", "ceil", "trunc", "rint", "sqrt")
def _rounding(l: Lanes, op: Op, x: Val) -> Val:
    return in_float(l, elem(op), lambda t, y: intrinsic(l, op.name, reg_type(t), y), x)


@rule("rsqrt")
def _rsqrt(l: Lanes, op: Op, x: Val) -> Val:
    def f(t: DType, y: Val) -> Val:
        return binary(l, "fdiv", float_const(l, 1.0, t), intrinsic(l, "sqrt", reg_type(t), y))

    return in_float(l, elem(op), f, x)


@rule(*x86.NATIVE_MATH)
def _exponential(l: Lanes, op: Op, x: Val) -> Val:
    return in_float(l, elem(op), lambda t, y: x86.exponential(l, op.name, t, y), x)


def native_math(target: VectorTarget) -> tuple[str, ...]:
    """Math functions that need no expansion on a target."""
    return x86.NATIVE_MATH if x86.available(target) else ()
