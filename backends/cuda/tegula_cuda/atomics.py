"""Atomic operations with their order and scope, as PTX writes them: LLVM leaves both out where it
has an instruction. What PTX has no instruction for is a loop around a compare-and-swap.
"""

from __future__ import annotations

from tegula.codegen.loops.text import Val, Writer
from tegula.codegen.simt.swapping import read_modify_write
from tegula.ir.types import DType

_LETTERS = {"i16": "h", "half": "h", "i32": "r", "float": "r", "i64": "l", "double": "l"}
_PLAIN = {"and": "and", "or": "or", "xor": "xor", "xchg": "exch"}
_FLOATS = {"f16": "noftz.f16", "bf16": "noftz.bf16", "f32": "f32", "f64": "f64"}


def native(kind: str, e: DType, capability: int) -> str | None:
    """The PTX instruction's operation and type; None where there is none."""
    wide = e.bits >= 32
    if kind in _PLAIN:
        return f"{_PLAIN[kind]}.b{e.bits}" if wide else None
    if e.is_float:
        known = e.name in _FLOATS and (e.name != "bf16" or capability >= 90)
        return f"add.{_FLOATS[e.name]}" if kind == "add" and known else None
    if not wide:
        return None
    signed = "s" if e.is_signed and kind != "add" else "u"
    return f"{kind}.{signed}{e.bits}"


def rmw(
    w: Writer, kind: str, ptr: Val, value: Val, e: DType, sem: str, scope: str, order: str,
    capability: int,
) -> Val:  # fmt: skip
    """One read-modify-write; gives the old value. `order` is LLVM's text of scope and order."""
    operation = native(kind, e, capability)
    if operation is None:
        return read_modify_write(w, kind, ptr, value, e, order)
    letter = _LETTERS[value.ty]
    bits = value
    if not value.ty.startswith("i"):
        ty = f"i{e.bits}"
        bits = w.pure(ty, f"bitcast {value.ty} {{}} to {ty}", value)
    text = f"atom.{sem}.{scope}.global.{operation} $0, [$1], $2;"
    old = w.here(
        bits.ty,
        f'call {bits.ty} asm sideeffect "{text}", "={letter},l,{letter},~{{memory}}"'
        f"({ptr.ty} {ptr.text}, {bits.ty} {bits.text})",
    )
    if bits.ty == value.ty:
        return old
    return w.pure(value.ty, f"bitcast {bits.ty} {{}} to {value.ty}", old)
