"""Conversions between number types, on vectors and scalars."""

from __future__ import annotations

from tegula.codegen.float8 import LARGEST
from tegula.codegen.loops.lanes import Lanes, float_bits, reg_type, suffix, vector
from tegula.codegen.loops.text import Val
from tegula.ir.types import DType, Pointer, ScalarType, f16, f32, f64


def const_like(l: Lanes, x: Val, value: int) -> Val:
    """An integer constant of the shape of `x`."""
    ty = x.ty.split(" x ")[-1].rstrip(">")
    c = l.w.const(value, ty)
    return c if l.n == 1 else l.splat_text(c)


def float_const(l: Lanes, value: float, e: DType) -> Val:
    """A float constant in every lane."""
    c = l.scalar_const(value, e)
    return c if l.n == 1 else l.splat_text(c)


def binary(l: Lanes, verb: str, a: Val, b: Val) -> Val:
    return l.w.pure(a.ty, f"{verb} {a.ty} {{}}, {{}}", a, b)


def unary(l: Lanes, verb: str, x: Val, ty: str) -> Val:
    """A conversion instruction to vectors of `ty`."""
    to = vector(l.n, ty)
    return x if x.ty == to else l.w.pure(to, f"{verb} {x.ty} {{}} to {to}", x)


def compare(l: Lanes, verb: str, a: Val, b: Val) -> Val:
    return l.w.pure(vector(l.n, "i1"), f"{verb} {a.ty} {{}}, {{}}", a, b)


def choose(l: Lanes, c: Val, a: Val, b: Val) -> Val:
    return l.w.select(c, a, b)


def intrinsic(l: Lanes, name: str, ty: str, *xs: Val) -> Val:
    """`llvm.name` overloaded on one type."""
    to = vector(l.n, ty)
    return l.w.call(f"llvm.{name}.{suffix(l.n, ty)}", to, *xs)


# -- narrow floats, kept in registers by their bits


def to_f32(l: Lanes, x: Val, e: DType) -> Val:
    """A float of at most 32 bits as f32; exact."""
    if e is f32:
        return x
    if e is f16:
        return unary(l, "fpext", x, "float")
    if e.name == "bf16":
        wide = unary(l, "zext", x, "i32")
        return unary(l, "bitcast", binary(l, "shl", wide, const_like(l, wide, 16)), "float")
    return _f8_to_f32(l, x, e)


def from_f32(l: Lanes, x: Val, e: DType, rounding: str = "rtne") -> Val:
    """f32 rounded to a narrower float."""
    if e is f32:
        return x
    if e is f16:
        y = unary(l, "fptrunc", x, "half")
        return _step_back(l, x, y) if rounding == "rtz" else y
    if e.name == "bf16":
        return _f32_to_bf16(l, x, rounding)
    return _f32_to_f8(l, x, e, rounding)


def _f32_to_bf16(l: Lanes, x: Val, rounding: str) -> Val:
    bits = unary(l, "bitcast", x, "i32")
    high = binary(l, "lshr", bits, const_like(l, bits, 16))
    if rounding == "rtz":
        rounded = high
    else:
        odd = binary(l, "and", high, const_like(l, bits, 1))
        biased = binary(l, "add", bits, const_like(l, bits, 0x7FFF))
        rounded = binary(l, "lshr", binary(l, "add", biased, odd), const_like(l, bits, 16))
    quiet = binary(l, "or", high, const_like(l, bits, 0x40))
    nan = compare(l, "fcmp uno", x, x)
    return unary(l, "trunc", choose(l, nan, quiet, rounded), "i16")


def _step_back(l: Lanes, x: Val, y: Val) -> Val:
    """Round toward zero: one step down where rounding to nearest grew the magnitude."""
    back = intrinsic(l, "fabs", "float", unary(l, "fpext", y, "float"))
    grew = compare(l, "fcmp ogt", back, intrinsic(l, "fabs", "float", x))
    bits = unary(l, "bitcast", y, "i16")
    down = binary(l, "sub", bits, const_like(l, bits, 1))
    return unary(l, "bitcast", choose(l, grew, down, bits), "half")


def _f8_to_f32(l: Lanes, x: Val, e: DType) -> Val:
    """fp8 to f32: rescale the bits as a float with a larger exponent, then multiply."""
    wide = unary(l, "zext", x, "i32")
    sign = binary(l, "shl", binary(l, "and", wide, const_like(l, wide, 0x80)),
                  const_like(l, wide, 24))
    magnitude = binary(l, "and", wide, const_like(l, wide, 0x7F))
    shifted = binary(l, "shl", magnitude, const_like(l, wide, 23 - e.mantissa))
    # The bits now read as a float with exponent bias 127: a power of two puts it right, and
    # subnormals come out right as well.
    scaled = l.w.pure(
        vector(l.n, "float"), f"fmul {vector(l.n, 'float')} {{}}, {{}}",
        unary(l, "bitcast", shifted, "float"), float_const(l, 2.0 ** (127 - e.exponent_bias), f32))
    bits = unary(l, "bitcast", scaled, "i32")
    special = _f8_special(l, e, magnitude, wide)
    for condition, value in special:
        bits = choose(l, condition, const_like(l, bits, value), bits)
    return unary(l, "bitcast", binary(l, "or", bits, sign), "float")


def _f8_special(l: Lanes, e: DType, magnitude: Val, wide: Val) -> list[tuple[Val, int]]:
    """Conditions on the bits of an fp8 number that stand for infinity or NaN, with f32's bits."""
    if e.name == "f8e5":
        return [
            (compare(l, "icmp uge", magnitude, const_like(l, wide, 0x7C)), 0x7F800000),
            (compare(l, "icmp ugt", magnitude, const_like(l, wide, 0x7C)), 0x7FC00000),
        ]
    if e.name == "f8e4nv":
        return [(compare(l, "icmp eq", magnitude, const_like(l, wide, 0x7F)), 0x7FC00000)]
    if e.name in ("f8e5b16", "f8e4b8"):
        return [(compare(l, "icmp eq", wide, const_like(l, wide, 0x80)), 0x7FC00000)]
    return []


def _f32_to_f8(l: Lanes, x: Val, e: DType, rounding: str) -> Val:
    """f32 to fp8 by rounding an integer: normals by their bits, subnormals by a fixed-point add."""
    bits = unary(l, "bitcast", x, "i32")
    drop = 23 - e.mantissa
    magnitude = binary(l, "and", bits, const_like(l, bits, 0x7FFFFFFF))
    rebias = (127 - e.exponent_bias) << 23
    if rounding == "rtz":
        carried = magnitude
    else:
        odd = binary(l, "and", binary(l, "lshr", magnitude, const_like(l, bits, drop)),
                     const_like(l, bits, 1))
        half = const_like(l, bits, (1 << (drop - 1)) - 1)
        carried = binary(l, "add", binary(l, "add", magnitude, half), odd)
    normal = binary(l, "lshr", binary(l, "sub", carried, const_like(l, bits, rebias)),
                    const_like(l, bits, drop))
    subnormal = _f8_subnormal(l, magnitude, e, rounding)
    smallest = const_like(l, bits, rebias + (1 << 23))
    small = compare(l, "icmp ult", magnitude, smallest)
    value = choose(l, small, subnormal, normal)
    top, nan_bits = LARGEST[e.name]
    too_big = compare(l, "icmp ugt", value, const_like(l, bits, top))
    value = choose(l, too_big, const_like(l, bits, top), value)
    nan = compare(l, "fcmp uno", x, x)
    value = choose(l, nan, const_like(l, bits, nan_bits), value)
    sign = binary(l, "and", binary(l, "lshr", bits, const_like(l, bits, 24)),
                  const_like(l, bits, 0x80))
    if nan_bits == 0x80:  # one zero, one NaN (the sign bit alone)
        plain = compare(l, "icmp eq", value, const_like(l, bits, 0))
        sign = choose(l, plain, const_like(l, bits, 0), sign)
    return unary(l, "trunc", binary(l, "or", value, sign), "i8")


def _f8_subnormal(l: Lanes, magnitude: Val, e: DType, rounding: str) -> Val:
    """Bits of a magnitude below the smallest normal number: a multiple of the smallest step."""
    scale = 2.0 ** (e.exponent_bias - 1 + e.mantissa)
    f = unary(l, "bitcast", magnitude, "float")
    scaled = binary(l, "fmul", f, float_const(l, scale, f32))
    name = "trunc" if rounding == "rtz" else "rint"
    limited = intrinsic(l, "minnum", "float", intrinsic(l, name, "float", scaled),
                        float_const(l, 256.0, f32))
    return unary(l, "fptoui", limited, "i32")


def _f64_to_odd_f32(l: Lanes, x: Val) -> Val:
    """f64 to f32 rounded to odd, so that a second rounding is right."""
    y = unary(l, "fptrunc", x, "float")
    back = unary(l, "fpext", y, "double")
    bits = unary(l, "bitcast", y, "i32")
    grew = compare(l, "fcmp ogt", intrinsic(l, "fabs", "double", back),
                   intrinsic(l, "fabs", "double", x))
    down = choose(l, grew, binary(l, "sub", bits, const_like(l, bits, 1)), bits)
    inexact = compare(l, "fcmp one", back, x)
    odd = choose(l, inexact, binary(l, "or", down, const_like(l, bits, 1)), bits)
    return unary(l, "bitcast", odd, "float")


# -- the cast op


def cast(l: Lanes, x: Val, source: ScalarType, to: ScalarType, rounding: str = "rtne") -> Val:
    """A value of type `source` as `to`; see the op `cast`."""
    if source is to:
        return x
    if isinstance(source, Pointer) or isinstance(to, Pointer):
        return _pointer_cast(l, x, source, to)
    if source.is_float:
        if to.is_float:
            narrows = to.bits < source.bits
            return _float_to_float(l, x, source, to, rounding if narrows else "rtne")
        return _float_to_int(l, x, source, to)
    if to.is_float:
        return _int_to_float(l, x, source, to)
    return _int_to_int(l, x, source, to)


def _pointer_cast(l: Lanes, x: Val, source: ScalarType, to: ScalarType) -> Val:
    if isinstance(source, Pointer) and isinstance(to, Pointer):
        return x
    if isinstance(to, Pointer):
        return unary(l, "inttoptr", x, "ptr")
    if to.bits == 1:
        bits = unary(l, "ptrtoint", x, "i64")
        return compare(l, "icmp ne", bits, const_like(l, bits, 0))
    return unary(l, "ptrtoint", x, reg_type(to))


def _int_to_int(l: Lanes, x: Val, source: DType, to: DType) -> Val:
    if to.bits == 1:
        return compare(l, "icmp ne", x, const_like(l, x, 0))
    if to.bits == source.bits:
        return x
    if to.bits < source.bits:
        return unary(l, "trunc", x, reg_type(to))
    return unary(l, "sext" if source.is_signed else "zext", x, reg_type(to))


def _int_to_float(l: Lanes, x: Val, source: DType, to: DType) -> Val:
    verb = "sitofp" if source.is_signed else "uitofp"
    if to.bits >= 32:
        return unary(l, verb, x, reg_type(to))
    if source.bits <= 16:
        return from_f32(l, unary(l, verb, x, "float"), to)
    if source.bits == 64:
        x = _jammed(l, x, source)
    return _float_to_float(l, unary(l, verb, x, "double"), f64, to, "rtne")


def _jammed(l: Lanes, x: Val, source: DType) -> Val:
    """A 64-bit integer that f64 holds exactly and that rounds to narrow floats as `x` does: the
    lowest bits of a large one are folded into one."""
    low = binary(l, "and", x, const_like(l, x, 0x7FF))
    sticky = choose(l, compare(l, "icmp ne", low, const_like(l, x, 0)), const_like(l, x, 0x800),
                    const_like(l, x, 0))
    jammed = binary(l, "or", binary(l, "and", x, const_like(l, x, -0x800)), sticky)
    limit = 1 << 53
    if source.is_signed:
        shifted = binary(l, "add", x, const_like(l, x, limit))
        large = compare(l, "icmp ugt", shifted, const_like(l, x, 2 * limit))
    else:
        large = compare(l, "icmp ugt", x, const_like(l, x, limit))
    return choose(l, large, jammed, x)


def _float_to_float(l: Lanes, x: Val, source: DType, to: DType, rounding: str) -> Val:
    if source is f64 and to is f32 and rounding == "rtz":
        return _f64_to_f32_rtz(l, x)
    if source is f64:
        if to is f32:
            return unary(l, "fptrunc", x, "float")
        return from_f32(l, _f64_to_odd_f32(l, x), to, rounding)
    wide = to_f32(l, x, source)
    if to is f64:
        return unary(l, "fpext", wide, "double")
    return from_f32(l, wide, to, rounding)


def _f64_to_f32_rtz(l: Lanes, x: Val) -> Val:
    y = unary(l, "fptrunc", x, "float")
    back = intrinsic(l, "fabs", "double", unary(l, "fpext", y, "double"))
    grew = compare(l, "fcmp ogt", back, intrinsic(l, "fabs", "double", x))
    bits = unary(l, "bitcast", y, "i32")
    down = binary(l, "sub", bits, const_like(l, bits, 1))
    return unary(l, "bitcast", choose(l, grew, down, bits), "float")


def _float_to_int(l: Lanes, x: Val, source: DType, to: DType) -> Val:
    wide = source if source is f64 else f32
    x = x if source is f64 else to_f32(l, x, source)
    if to.bits == 1:
        return compare(l, "fcmp une", x, float_const(l, 0.0, wide))
    verb = "fptosi" if to.is_signed else "fptoui"
    ft, it = reg_type(wide), reg_type(to)
    to_ty = vector(l.n, it)
    return l.w.call(f"llvm.{verb}.sat.{suffix(l.n, it)}.{suffix(l.n, ft)}", to_ty, x)


def bitcast(l: Lanes, x: Val, source: ScalarType, to: ScalarType) -> Val:
    """The bits of a value as another type of the same width."""
    a, b = reg_type(source), reg_type(to)
    if a == b:
        return x
    if a == "ptr":
        return bitcast_bits(l, unary(l, "ptrtoint", x, "i64"), "i64", b)
    if b == "ptr":
        return unary(l, "inttoptr", bitcast_bits(l, x, a, "i64"), "ptr")
    return bitcast_bits(l, x, a, b)


def bitcast_bits(l: Lanes, x: Val, a: str, b: str) -> Val:
    return x if a == b else unary(l, "bitcast", x, b)


__all__ = ["bitcast", "cast", "float_bits", "from_f32", "to_f32"]
