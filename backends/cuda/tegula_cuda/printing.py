"""`device_print` through the driver's own printf: one call, and so one line, per element."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tegula.codegen.loops.text import Val, Writer
from tegula.ir.types import DType, Pointer
from tegula.printing import label


class Texts:
    """The constant texts of one module."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def __bool__(self) -> bool:
        return bool(self._names)

    def of(self, text: str) -> str:
        """The global that holds a text."""
        return self._names.setdefault(text, f"@tegula_text{len(self._names)}")

    def definitions(self) -> str:
        """All of them, as LLVM text."""
        lines = []
        for text, name in self._names.items():
            data = text.encode() + b"\0"
            shown = "".join(f"\\{b:02X}" for b in data)
            lines.append(
                f'{name} = internal addrspace(1) constant [{len(data)} x i8] c"{shown}", align 1'
            )
        return "\n".join(lines)


def print_value(
    w: Writer, texts: Texts, prefix: str, value: Val, e: Any, as_hex: bool, where: Sequence[Val],
    index: Sequence[Val],
) -> None:  # fmt: skip
    """Print one element; without a dtype, the prefix alone."""
    program = ", ".join(["%d"] * len(where))
    places = f" idx ({', '.join(['%d'] * len(index))})" if index or e is not None else ""
    escaped = label(prefix, None).replace("%", "%%")
    arguments = [*where, *index]
    shown = ""
    if e is not None:
        shown, argument = _shown(w, value, e, as_hex)
        arguments.append(argument)
    text = texts.of(f"pid ({program}){places}{escaped}{shown}\n")
    _call(w, text, arguments)


def _shown(w: Writer, x: Val, e: DType | Pointer, as_hex: bool) -> tuple[str, Val]:
    """How a value is printed, and what is passed for it."""
    if isinstance(e, Pointer):
        return "0x%016llx", w.pure("i64", f"ptrtoint {x.ty} {{}} to i64", x)
    if e.is_float:
        return ("%a" if as_hex else "%f"), _double(w, x, e)
    if e.bits == 64:
        letter = "d" if e.is_signed else "u"
        return ("0x%016llx" if as_hex else f"%ll{letter}"), x
    if as_hex:
        return f"0x%0{max(1, e.bits // 4)}x", w.resize(x, "i32", False)
    signed = e.is_signed and e.bits > 1
    return ("%d" if signed else "%u"), w.resize(x, "i32", signed)


def _double(w: Writer, x: Val, e: DType) -> Val:
    from tegula.codegen.loops.convert import to_f32
    from tegula.codegen.loops.lanes import Lanes, Position

    if e.bits == 64:
        return x
    single = to_f32(Lanes(w, 1, Position(None, 0, 1, 1)), x, e)
    return w.pure("double", "fpext float {} to double", single)


def _call(w: Writer, text: str, arguments: Sequence[Val]) -> None:
    """Call printf with the arguments in memory, as a C function would leave them."""
    w.declare("vprintf", "i32 (ptr, ptr)")
    at, offsets = 0, []
    for x in arguments:
        size = 8 if x.ty in ("i64", "double") else 4
        at = -(-at // size) * size
        offsets.append(at)
        at += size
    room = w.name()
    w.blocks[0].lines.insert(0, f"  {room} = alloca [{max(8, at)} x i8], align 8")
    for x, offset in zip(arguments, offsets):
        place = w.here("ptr", f"getelementptr i8, ptr {room}, i32 {offset}")
        w.do(f"store {x.ty} {x.text}, ptr {place.text}")
    format_ = f"ptr addrspacecast (ptr addrspace(1) {text} to ptr)"
    w.here("i32", f"call i32 @vprintf({format_}, ptr {room})")
