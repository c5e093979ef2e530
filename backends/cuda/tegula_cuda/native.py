"""Elementwise ops for which NVIDIA GPUs have instructions of their own.

`ex2.approx.f32` is off by at most 2 units in the last place (PTX ISA), so exp2 is off by 2 and exp
by 3 (see `tegula.codegen.simt.exponentials`).
"""

from __future__ import annotations

from collections.abc import Callable

from tegula.codegen.loops.elementwise import elem
from tegula.codegen.loops.lanes import Lanes
from tegula.codegen.loops.text import Val
from tegula.codegen.simt.elementwise import RULES
from tegula.ir.core import Op
from tegula.ir.types import DType, elem_of, f32

NATIVE = ("exp.f32", "exp2.f32")
"""Math ops that need no expansion, up to 32 bits."""

ULP = {"exp": 3.0, "exp2": 2.0}
"""Largest errors of native math in f32."""

WORDS = {16: "h", 32: "r", 64: "l"}
"""How inline assembly names registers of so many bits."""


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
    if e.is_float or not e.is_signed or e.bits not in WORDS:
        return RULES["abs"](l, op, x)
    negative, c = l.w.pure(x.ty, f"sub {x.ty} 0, {{}}", x), WORDS[e.bits]
    text = f'asm "max.s{e.bits} $0, $1, $2;", "={c},{c},{c}"({x.ty} {{}}, {x.ty} {{}})'
    return l.w.pure(x.ty, f"call {x.ty} {text}", x, negative)


MATH: dict[str, Callable[..., Val]] = {"abs": _abs}
"""For every architecture."""

NARROW: dict[str, Callable[..., Val]] = {"cast": _cast}
"""For architectures with bf16."""
