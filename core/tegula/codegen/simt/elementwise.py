"""How each elementwise op becomes LLVM instructions on one register: the table `RULES`.

The rules of the loop lowering work on single values as they are; what concerns pointers differs,
since these have address spaces here.
"""

from __future__ import annotations

from typing import Any, cast

from tegula.codegen.loops import convert
from tegula.codegen.loops.elementwise import RULES as VECTOR_RULES
from tegula.codegen.loops.elementwise import Rule
from tegula.codegen.loops.lanes import Lanes, float_bits, mem_type, reg_type
from tegula.codegen.loops.text import Val, Writer, wrap
from tegula.codegen.simt.hooks import GLOBAL, SHARED
from tegula.codegen.simt.remainder import remainder
from tegula.ir.core import Op
from tegula.ir.types import DType, Pointer, ScalarType, elem_of

SPACES = {"global": GLOBAL, "shared": SHARED}


def register_type(e: ScalarType) -> str:
    """LLVM type that holds one element in a register."""
    return SPACES.get(e.space, GLOBAL) if isinstance(e, Pointer) else reg_type(e)


def memory_type(e: ScalarType) -> str:
    """LLVM type of one element in memory: pointers as numbers, booleans as bytes."""
    return "i64" if isinstance(e, Pointer) else mem_type(e)


def constant(w: Writer, value: Any, e: ScalarType) -> Val:
    """A constant scalar of a dtype; pointers are null."""
    if isinstance(e, Pointer):
        return w.literal("null", register_type(e))
    if e.is_float:
        text, ty = float_bits(float(value), e), reg_type(e)
        if ty[0] == "i":
            return w.const(wrap(int(text), ty), ty)
        return w.literal(text, ty, float(value))
    v = int(value) & ((1 << e.bits) - 1)
    if e.bits > 1 and v >> (e.bits - 1):
        v -= 1 << e.bits
    return w.const(v, reg_type(e))


def to_memory(w: Writer, x: Val, e: ScalarType) -> Val:
    """A register's value as it lies in memory."""
    if isinstance(e, Pointer):
        return w.pure("i64", f"ptrtoint {x.ty} {{}} to i64", x)
    return w.resize(x, "i8", False) if e.bits == 1 else x


def from_memory(w: Writer, x: Val, e: ScalarType) -> Val:
    """What was read from memory as a register's value."""
    if isinstance(e, Pointer):
        ty = register_type(e)
        return w.pure(ty, f"inttoptr i64 {{}} to {ty}", x)
    if e.bits == 1:
        return w.icmp("ne", x, w.const(0, "i8"))
    return x


def element_pointer(w: Writer, base: Val, elem: str, index: Val) -> Val:
    """`base` advanced by `index` elements of an LLVM type; what stays the same in a loop is added
    first."""
    if index.const == 0:
        return base
    before = w.advanced.get(base.text)
    if before is not None and index.scope.depth < before[2].scope.depth:
        first, *rest = before
        return element_pointer(w, element_pointer(w, first, elem, index), *rest)
    form = f"getelementptr {elem}, {base.ty} {{}}, {index.ty} {{}}"
    out = w.pure(base.ty, form, base, index)
    w.advanced[out.text] = base, elem, index
    return out


def _addptr(l: Lanes, op: Op, p: Val, offset: Val) -> Val:
    e, pointer = elem_of(op.operands[1].type), elem_of(op.operands[0].type)
    assert isinstance(pointer, Pointer) and isinstance(e, DType)
    wide = l.w.resize(offset, "i64", e.is_signed)
    return element_pointer(l.w, p, memory_type(pointer.elem), wide)


def _cast(l: Lanes, op: Op, x: Val) -> Val:
    source, to = elem_of(op.operands[0].type), op.attrs["to"]
    if not isinstance(source, Pointer) and not isinstance(to, Pointer):
        return convert.cast(l, x, source, to, op.attrs["rounding"])
    if isinstance(source, Pointer) and isinstance(to, Pointer):
        return x
    if isinstance(to, Pointer):
        ty = register_type(to)
        wide = l.w.resize(x, "i64", cast(DType, source).is_signed)
        return l.w.pure(ty, f"inttoptr i64 {{}} to {ty}", wide)
    bits = l.w.pure("i64", f"ptrtoint {x.ty} {{}} to i64", x)
    if to.bits == 1:
        return l.w.icmp("ne", bits, l.w.const(0, "i64"))
    return l.w.resize(bits, reg_type(to), False)


def _bitcast(l: Lanes, op: Op, x: Val) -> Val:
    source, to = elem_of(op.operands[0].type), op.attrs["to"]
    if isinstance(source, Pointer) and isinstance(to, Pointer):
        return x
    if isinstance(source, Pointer):
        bits = l.w.pure("i64", f"ptrtoint {x.ty} {{}} to i64", x)
        return convert.bitcast_bits(l, bits, "i64", reg_type(to))
    if isinstance(to, Pointer):
        ty = register_type(to)
        bits = convert.bitcast_bits(l, x, reg_type(source), "i64")
        return l.w.pure(ty, f"inttoptr i64 {{}} to {ty}", bits)
    return convert.bitcast(l, x, source, to)


def _hint(l: Lanes, op: Op, x: Val) -> Val:
    return x


RULES: dict[str, Rule] = {
    **VECTOR_RULES,
    "addptr": _addptr,
    "cast": _cast,
    "bitcast": _bitcast,
    "hint": _hint,
    "rem": remainder,
}
"""Rules by op name: `rule(lanes, op, *operands)` gives the result of one register."""
