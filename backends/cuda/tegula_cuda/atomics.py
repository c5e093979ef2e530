"""Atomic operations with their order and scope.

LLVM writes an `atomicrmw` that PTX has an instruction for without its order and scope, so these are
written as PTX; all others become loops around a compare-and-swap, whose order LLVM keeps.
"""

from __future__ import annotations

from tegula.codegen.loops.text import Val, Writer
from tegula.ir.types import DType

ORDERS = {"relaxed": "monotonic", "acquire": "acquire", "release": "release", "acq_rel": "acq_rel"}
"""LLVM's names of the orders; PTX's are the language's own, as are its scopes."""

_LETTERS = {"i16": "h", "half": "h", "i32": "r", "float": "r", "i64": "l", "double": "l"}
_PLAIN = {"and": "and", "or": "or", "xor": "xor", "xchg": "exch"}
_FLOATS = {"f16": "noftz.f16", "bf16": "noftz.bf16", "f32": "f32", "f64": "f64"}


class UnsupportedAtomic(Exception):
    """An atomic operation that the hardware does not have and that is not made up."""


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
    w: Writer, kind: str, ptr: Val, value: Val, e: DType, sem: str, scope: str, syncscope: str,
    capability: int,
) -> Val:  # fmt: skip
    """One read-modify-write; gives the old value."""
    operation = native(kind, e, capability)
    if operation is None:
        return _by_swapping(w, kind, ptr, value, e, sem, syncscope)
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


def _by_swapping(
    w: Writer, kind: str, ptr: Val, value: Val, e: DType, sem: str, syncscope: str
) -> Val:
    name = kind
    if e.is_float and kind != "xchg":
        if e.bits < 16:
            raise UnsupportedAtomic(f"atomic {kind} of {e.name}")
        name = "f" + name
    elif kind in ("max", "min") and not e.is_signed:
        name = "u" + name
    brain = e.name == "bf16" and kind != "xchg"
    given = w.pure("bfloat", "bitcast i16 {} to bfloat", value) if brain else value
    old = w.here(
        given.ty,
        f"atomicrmw {name} {ptr.ty} {ptr.text}, {given.ty} {given.text} "
        f"{syncscope}{ORDERS[sem]}, align {e.itemsize}",
    )
    return w.pure("i16", "bitcast bfloat {} to i16", old) if brain else old


def cas(w: Writer, ptr: Val, cmp: Val, value: Val, e: DType, sem: str, syncscope: str) -> Val:
    """One compare-and-swap of integers; gives the old value."""
    failing = "acquire" if sem in ("acquire", "acq_rel") else "monotonic"
    pair = w.here(
        f"{{ {cmp.ty}, i1 }}",
        f"cmpxchg {ptr.ty} {ptr.text}, {cmp.ty} {cmp.text}, {value.ty} {value.text} "
        f"{syncscope}{ORDERS[sem]} {failing}, align {e.itemsize}",
    )
    return w.here(cmp.ty, f"extractvalue {pair.ty} {pair.text}, 0")
