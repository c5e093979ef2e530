"""Elementwise ops for which NVIDIA GPUs have instructions of their own.

Errors: `ex2.approx.f32` is off by at most 2 units in the last place (PTX ISA), so exp2 is off by 2,
and exp, whose argument is multiplied as a sum of two products, by 3. Where only roundings to 16
bits see an exp, one product serves: it is off by 75 units of f32 at most, which is less than a
twentieth of half a unit of f16.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from tegula.codegen.loops.convert import float_const, from_f32, intrinsic, to_f32
from tegula.codegen.loops.elementwise import elem, in_float
from tegula.codegen.loops.lanes import Lanes
from tegula.codegen.loops.text import Val, Writer
from tegula.codegen.simt.division import MANY
from tegula.codegen.simt.elementwise import RULES
from tegula.codegen.simt.kernel import Emitter
from tegula.ir.core import Op
from tegula.ir.types import DType, elem_of, f32, shape_of

NATIVE = ("exp.f32", "exp2.f32")
"""Math ops that need no expansion, up to 32 bits."""

ULP = {"exp": 3.0, "exp2": 2.0}
"""Largest errors of native math in f32."""

_LOG2E = 1.4426950216293335  # float32, below log2(e)
_LOG2E_REST = 1.92596298909109e-08
_ROOTS = 0.7213475108146667
"""float32, log2(e) / 2."""
_SPAN = 252
"""Exponents from -126 to 126."""
_UNIT = 3 << 22
"""Floats of this size are whole numbers."""


def _ex2(w: Writer, x: Val) -> Val:
    return w.call("llvm.nvvm.ex2.approx.f", "float", x)


def _flushed(w: Writer, x: Val) -> Val:
    """2 ** x with 0 for results that are denormal."""
    return w.call("llvm.nvvm.ex2.approx.ftz.f", "float", x)


def _exp2(l: Lanes, op: Op, x: Val) -> Val:
    return in_float(l, elem(op), lambda _, y: _ex2(l.w, y), x)


def _exp(l: Lanes, op: Op, x: Val) -> Val:
    e = elem(op)
    return in_float(l, e, lambda _, y: (_full_exp if e is f32 else _coarse_exp)(l, y), x)


def _full_exp(l: Lanes, x: Val) -> Val:
    """exp(x) = 2**n 2**f. The whole number n stays between -126 and 126, whatever x is; beyond,
    f takes the rest, and the product rounds what is denormal."""
    w = l.w
    place = _fused(l, "nvvm.fma.rn.sat.f", x, 1.4426950408889634 / _SPAN, 0.5)
    whole = _fused(l, "fma.f32", place, _SPAN, _UNIT + 1)
    minus = w.pure("float", "fsub float {}, {}", float_const(l, _UNIT + 127, f32), whole)
    rest = intrinsic(l, "fma", "float", x, float_const(l, _LOG2E, f32), minus)
    rest = intrinsic(l, "fma", "float", x, float_const(l, _LOG2E_REST, f32), rest)
    bits = w.pure("i32", "bitcast float {} to i32", whole)
    power = w.pure("i32", "shl i32 {}, {}", bits, w.const(23, "i32"))
    power = w.pure("float", "bitcast i32 {} to float", power)
    return w.pure("float", "fmul float {}, {}", _flushed(w, rest), power)


def _coarse_exp(l: Lanes, x: Val) -> Val:
    """exp(x) as the square of 2**(x log2(e) / 2), which is normal where exp(x) is denormal."""
    w = l.w
    half = w.pure("float", "fmul float {}, {}", x, float_const(l, _ROOTS, f32))
    root = _flushed(w, half)
    return w.pure("float", "fmul float {}, {}", root, root)


def _fused(l: Lanes, name: str, x: Val, by: float, plus: float) -> Val:
    return l.w.call(f"llvm.{name}", "float", x, float_const(l, by, f32), float_const(l, plus, f32))


def coarse_exponentials(k: Emitter, op: Op) -> bool:
    """exp of a tile that nobody sees but rounded to 16 bits."""
    (x,), (v,) = op.operands, op.results
    if v not in k.coarse:
        return False
    k.set(v, [_coarse_exp(k.l, y) for y in k.regs(x)])
    return True


# -- exp2 of whole tiles: the short way where no result is denormal

_LOWEST = -126.0


def exponentials(k: Emitter, op: Op) -> bool:
    """exp2 of several registers: one test for all, and an instruction that flushes denormal
    results to 0 where there are none."""
    (x,), (v,) = op.operands, op.results
    e = elem_of(x.type)
    if not shape_of(x.type) or not isinstance(e, DType) or e.bits > 32:
        return False
    if not 4 <= len(k.regs(x)) <= MANY:
        return False
    l, w = k.l, k.w
    xs = [to_f32(l, y, e) for y in k.regs(x)]
    branch = w.begin_if(_all_above(w, xs, _LOWEST), "exponential")
    fast = [_flushed(w, _pinned(w, y)) for y in xs]
    w.begin_else(branch)
    slow = [_ex2(w, _pinned(w, y)) for y in xs]
    k.set(v, [from_f32(l, y, e) for y in w.end_if(branch, fast, slow)])
    return True


def _all_above(w: Writer, xs: list[Val], low: float) -> Val:
    """Whether no number is less than `low`, a negative one. As integers without sign negative
    numbers are the largest, and larger the less they are; the machine compares three at once."""
    bits = [w.pure("i32", "bitcast float {} to i32", x) for x in xs]
    chains = bits[:_CHAINS]
    for i, x in enumerate(bits[_CHAINS:]):
        chains[i % _CHAINS] = w.call("llvm.umax.i32", "i32", chains[i % _CHAINS], x)
    most = chains[0]
    for x in chains[1:]:
        most = w.call("llvm.umax.i32", "i32", most, x)
    (limit,) = struct.unpack("<i", struct.pack("<f", low))
    return w.icmp("ule", most, w.const(limit, "i32"))


_CHAINS = 4
"""Comparisons that do not wait for each other."""


def _pinned(w: Writer, x: Val) -> Val:
    """A number that belongs to this branch, so that what is computed from it does too."""
    return w.here("float", f"freeze float {x.text}")


def _cast(l: Lanes, op: Op, x: Val) -> Val:
    """f32 to bf16 in one instruction."""
    source, to = elem_of(op.operands[0].type), op.attrs["to"]
    nearest = op.attrs["rounding"] == "rtne"
    if source is f32 and isinstance(to, DType) and to.name == "bf16" and nearest:
        y = l.w.pure("bfloat", "fptrunc float {} to bfloat", x)
        return l.w.pure("i16", "bitcast bfloat {} to i16", y)
    return RULES["cast"](l, op, x)


def _abs(l: Lanes, op: Op, x: Val) -> Val:
    """The larger of x and -x: ptxas takes no result of its instruction for a negative number,
    though that of the least integer is one."""
    e = elem(op)
    if e.is_float or not e.is_signed or e.bits not in _WORDS:
        return RULES["abs"](l, op, x)
    negative, c = l.w.pure(x.ty, f"sub {x.ty} 0, {{}}", x), _WORDS[e.bits]
    text = f'asm "max.s{e.bits} $0, $1, $2;", "={c},{c},{c}"({x.ty} {{}}, {x.ty} {{}})'
    return l.w.pure(x.ty, f"call {x.ty} {text}", x, negative)


_WORDS = {16: "h", 32: "r", 64: "l"}

MATH: dict[str, Callable[..., Val]] = {"abs": _abs, "exp": _exp, "exp2": _exp2}
"""For every architecture."""

TILES: dict[str, Callable[[Emitter, Op], bool]] = {
    "exp": coarse_exponentials, "exp2": exponentials,
}  # fmt: skip
"""Rules for tiles."""

NARROW: dict[str, Callable[..., Val]] = {"cast": _cast}
"""For architectures with bf16."""
