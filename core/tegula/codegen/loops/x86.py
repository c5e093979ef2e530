"""Instructions of AVX-512 that do in one step what takes several elsewhere.

``vrange`` is a minimum or maximum that ignores NaN; ``vscalef`` multiplies by a power of two, with
overflow and denormals rounded once, which shortens exp.  Both exist for vectors only: other
numbers of lanes are padded or cut into pieces.
"""

from __future__ import annotations

from collections.abc import Callable

from tegula.codegen.loops.lanes import Lanes, reg_type, vector
from tegula.codegen.loops.text import Val
from tegula.codegen.loops.vector import VectorTarget
from tegula.codegen.math.coefficients import EXP, EXP2, LN2_PARTS, LOG2E_PARTS
from tegula.ir.types import DType, f32

NATIVE_MATH = ("exp", "exp2")
_RANGE = {"min": 4, "max": 5}
# Outside of these exp(x) and 2**x are 0 or infinite.
_LIMITS = {("exp", 32): (-105.0, 89.0), ("exp", 64): (-746.0, 710.0),
           ("exp2", 32): (-152.0, 129.0), ("exp2", 64): (-1077.0, 1025.0)}  # fmt: skip


def available(target: VectorTarget) -> bool:
    """Whether the processor has these instructions in all vector lengths."""
    return target.arch == "x86-64" and target.has("avx512f", "avx512dq", "avx512vl")


def at_width(l: Lanes, e: DType, f: Callable[[Lanes, list[Val]], Val], xs: list[Val]) -> Val:
    """Apply `f` to vectors of a length that the machine has."""
    low, high = 128 // e.bits, 512 // e.bits
    n, w, ty = l.n, l.w, reg_type(e)
    if low <= n <= high:
        return f(l, xs)
    if n > high:
        half = Lanes(w, n // 2, l.position)
        parts = [at_width(half, e, f, [_slice(l, x, ty, start) for x in xs])
                 for start in (0, n // 2)]
        order = ", ".join(f"i32 {i}" for i in range(n))
        part = parts[0].ty
        return w.pure(vector(n, ty), f"shufflevector {part} {{}}, {part} {{}}, "
                                     f"<{n} x i32> <{order}>", *parts)
    wide = Lanes(w, low, l.position)
    y = f(wide, [_pad(l, x, ty, low) for x in xs])
    if n == 1:
        return w.pure(ty, f"extractelement {y.ty} {{}}, i64 0", y)
    return _slice(wide, y, ty, 0, n)


def _slice(l: Lanes, x: Val, ty: str, start: int, count: int = 0) -> Val:
    count = count or l.n // 2
    if x.text.startswith("splat"):
        return l.w.literal(x.text, vector(count, ty), x.const)
    order = ", ".join(f"i32 {start + i}" for i in range(count))
    return l.w.pure(vector(count, ty), f"shufflevector {x.ty} {{}}, {x.ty} poison, "
                                       f"<{count} x i32> <{order}>", x)


def _pad(l: Lanes, x: Val, ty: str, count: int) -> Val:
    w, to = l.w, vector(count, ty)
    if l.n == 1:
        return w.pure(to, f"insertelement {to} zeroinitializer, {ty} {{}}, i64 0", x)
    order = ", ".join(f"i32 {min(i, l.n - 1)}" for i in range(count))
    return w.pure(to, f"shufflevector {x.ty} {{}}, {x.ty} poison, <{count} x i32> <{order}>", x)


def _masked(l: Lanes, name: str, e: DType, args: list[Val], imm: int | None = None) -> Val:
    """A call of a masked intrinsic with all lanes on."""
    w, n = l.w, l.n
    ty = vector(n, reg_type(e))
    bits = n * e.bits
    full = f"llvm.x86.avx512.mask.{name}.{'ps' if e is f32 else 'pd'}.{bits}"
    mask = f"i{max(8, n)}"
    rounding = bits == 512
    kinds = [ty] * len(args) + (["i32"] if imm is not None else []) + [ty, mask]
    kinds += ["i32"] if rounding else []
    w.declare(full, f"{ty} ({', '.join(kinds)})")
    given = [f"{ty} {{}}"] * len(args) + ([f"i32 {imm}"] if imm is not None else [])
    given += [f"{ty} poison", f"{mask} -1"] + (["i32 4"] if rounding else [])
    return w.pure(ty, f"call {ty} @{full}({', '.join(given)})", *args)


def minmax(l: Lanes, name: str, e: DType, a: Val, b: Val) -> Val:
    """The smaller or larger of two floats (f32, f64); a NaN gives the other one."""
    return at_width(l, e, lambda m, xs: _masked(m, "range", e, xs, _RANGE[name]), [a, b])


def exponential(l: Lanes, name: str, e: DType, x: Val) -> Val:
    """exp or exp2 of f32 or f64."""
    return at_width(l, e, lambda m, xs: _exponential(m, name, e, xs[0]), [x])


def _exponential(l: Lanes, name: str, e: DType, x: Val) -> Val:
    """base**x = 2**n base**r; the polynomial and the steps are those of `tegula.codegen.math`."""
    from tegula.codegen.loops.convert import binary, compare, float_const, intrinsic

    ty = reg_type(e)

    def c(value: float) -> Val:
        return float_const(l, value, e)

    def fma(a: Val, b: Val, d: Val) -> Val:
        return intrinsic(l, "fma", ty, a, b, d)

    low, high = (c(v) for v in _LIMITS[name, e.bits])
    x = l.w.select(compare(l, "fcmp olt", high, x), high, x)
    x = l.w.select(compare(l, "fcmp ogt", low, x), low, x)
    magic = c(1.5 * 2.0**e.mantissa)
    if name == "exp":
        n = binary(l, "fsub", fma(x, c(LOG2E_PARTS[e.name][0]), magic), magic)
        upper, lower = LN2_PARTS[e.name]
        r = fma(n, c(-lower), fma(n, c(-upper), x))
    else:
        n = binary(l, "fsub", binary(l, "fadd", x, magic), magic)
        r = binary(l, "fsub", x, n)
    table = (EXP if name == "exp" else EXP2)[e.name]
    p = c(table[-1])
    for coefficient in reversed(table[:-1]):
        p = fma(p, r, c(coefficient))
    return _masked(l, "scalef", e, [p, n])
