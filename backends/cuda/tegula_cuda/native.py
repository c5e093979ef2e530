"""Elementwise ops for which NVIDIA GPUs have instructions of their own.

Errors: `ex2.approx.f32` is off by at most 2 units in the last place (PTX ISA), so exp2 is off by 2
and exp, whose argument is multiplied with a compensated product, by 3.
"""

from __future__ import annotations

from collections.abc import Callable

from tegula.codegen.loops.convert import binary, float_const, from_f32, intrinsic, to_f32
from tegula.codegen.loops.elementwise import elem, in_float
from tegula.codegen.loops.lanes import Lanes, Position
from tegula.codegen.loops.text import Val, Writer
from tegula.codegen.simt.division import MANY, extreme
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
_LN2 = 0.6931471805599453
_LOWEST, _HIGHEST = -104.0, 88.8
"""exp is 0 below and infinite above."""


def _ex2(l: Lanes, x: Val) -> Val:
    return l.w.pure("float", 'call float asm "ex2.approx.f32 $0, $1;", "=f,f"(float {})', x)


def _exp2(l: Lanes, op: Op, x: Val) -> Val:
    return in_float(l, elem(op), lambda _, y: _ex2(l, y), x)


def _exp(l: Lanes, op: Op, x: Val) -> Val:
    """2 ** (x log2(e)): the product's rounding error goes into a factor close to 1."""

    return in_float(l, elem(op), lambda _, y: _full_exp(l, y), x)


def _full_exp(l: Lanes, y: Val) -> Val:
    y = intrinsic(l, "maximum", "float", y, float_const(l, _LOWEST, f32))
    y = intrinsic(l, "minimum", "float", y, float_const(l, _HIGHEST, f32))
    t, factor = _split(l, y)
    return binary(l, "fmul", _ex2(l, t), factor)


def _split(l: Lanes, y: Val) -> tuple[Val, Val]:
    """t and a factor close to 1 with exp(y) = 2**t * factor."""
    high = float_const(l, _LOG2E, f32)
    t = binary(l, "fmul", y, high)
    minus = l.w.pure("float", "fneg float {}", t)
    rest = intrinsic(l, "fma", "float", y, high, minus)
    rest = intrinsic(l, "fma", "float", y, float_const(l, _LOG2E_REST, f32), rest)
    one = float_const(l, 1.0, f32)
    return t, intrinsic(l, "fma", "float", rest, float_const(l, _LN2, f32), one)


# -- whole tiles: the short way where no result is denormal

_ORDINARY = {"exp": (-87.3, 88.7), "exp2": (-126.0, None)}
"""Arguments whose results are normal numbers (or infinite, or NaN)."""


def exponentials(k: Emitter, op: Op) -> bool:
    """exp and exp2 of several registers: one test for all, and instructions that flush denormal
    results to 0 where there are none."""
    (x,), (v,) = op.operands, op.results
    e = elem_of(x.type)
    if not shape_of(x.type) or not isinstance(e, DType) or e.bits > 32:
        return False
    if not 4 <= len(k.regs(x)) <= MANY:
        return False
    l, w = k.l, k.w
    xs = [to_f32(l, y, e) for y in k.regs(x)]
    branch = w.begin_if(_within(k, xs, *_ORDINARY[op.name]), "exponential")
    short = _flushed if op.name == "exp2" else _short_exp
    fast = [short(w, y) for y in xs]
    w.begin_else(branch)
    full = _ex2 if op.name == "exp2" else _full_exp
    slow = [full(l, _pinned(w, y)) for y in xs]
    k.set(v, [from_f32(l, y, e) for y in w.end_if(branch, fast, slow)])
    return True


def _within(k: Emitter, xs: list[Val], low: float, high: float | None) -> Val:
    least = extreme(k.l, "minnum", xs)
    ok = k.w.pure("i1", "fcmp uge float {}, {}", least, float_const(k.l, low, f32))
    if high is None:
        return ok
    most = extreme(k.l, "maxnum", xs)
    below = k.w.pure("i1", "fcmp ule float {}, {}", most, float_const(k.l, high, f32))
    return k.w.pure("i1", "and i1 {}, {}", ok, below)


def _pinned(w: Writer, x: Val) -> Val:
    """A number that belongs to this branch, so that what is computed from it does too."""
    return w.here("float", f"freeze float {x.text}")


def _flushed(w: Writer, x: Val) -> Val:
    return w.here("float", f'call float asm "ex2.approx.ftz.f32 $0, $1;", "=f,f"(float {x.text})')


def _short_exp(w: Writer, x: Val) -> Val:
    l = Lanes(w, 1, Position(None, 0, 1, 1))
    t, factor = _split(l, _pinned(w, x))
    y = _flushed(w, t)
    return binary(l, "fmul", y, factor)


def _cast(l: Lanes, op: Op, x: Val) -> Val:
    """f32 to bf16 in one instruction."""
    source, to = elem_of(op.operands[0].type), op.attrs["to"]
    nearest = op.attrs["rounding"] == "rtne"
    if source is f32 and isinstance(to, DType) and to.name == "bf16" and nearest:
        y = l.w.pure("bfloat", "fptrunc float {} to bfloat", x)
        return l.w.pure("i16", "bitcast bfloat {} to i16", y)
    return RULES["cast"](l, op, x)


MATH: dict[str, Callable[..., Val]] = {"exp": _exp, "exp2": _exp2}
"""For every architecture."""

TILES: dict[str, Callable[[Emitter, Op], bool]] = {"exp": exponentials, "exp2": exponentials}
"""Rules for tiles."""

NARROW: dict[str, Callable[..., Val]] = {"cast": _cast}
"""For architectures with bf16."""
