"""Elementwise ops for which NVIDIA GPUs have instructions of their own.

Errors: `ex2.approx.f32` is off by at most 2 units in the last place (PTX ISA), so exp2 is off by 2
and exp, whose argument is multiplied with a compensated product, by 3.
"""

from __future__ import annotations

from collections.abc import Callable

from tegula.codegen.loops.convert import binary, float_const, intrinsic
from tegula.codegen.loops.elementwise import elem, in_float
from tegula.codegen.loops.lanes import Lanes
from tegula.codegen.loops.text import Val
from tegula.codegen.simt.elementwise import RULES
from tegula.ir.core import Op
from tegula.ir.types import DType, elem_of, f32

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

    def f(_: DType, y: Val) -> Val:
        y = intrinsic(l, "maximum", "float", y, float_const(l, _LOWEST, f32))
        y = intrinsic(l, "minimum", "float", y, float_const(l, _HIGHEST, f32))
        high = float_const(l, _LOG2E, f32)
        t = binary(l, "fmul", y, high)
        minus = l.w.pure("float", "fneg float {}", t)
        rest = intrinsic(l, "fma", "float", y, high, minus)
        rest = intrinsic(l, "fma", "float", y, float_const(l, _LOG2E_REST, f32), rest)
        one = float_const(l, 1.0, f32)
        factor = intrinsic(l, "fma", "float", rest, float_const(l, _LN2, f32), one)
        return binary(l, "fmul", _ex2(l, t), factor)

    return in_float(l, elem(op), f, x)


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

NARROW: dict[str, Callable[..., Val]] = {"cast": _cast}
"""For architectures with bf16."""
