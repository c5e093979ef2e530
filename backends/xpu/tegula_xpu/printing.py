"""`device_print` through OpenCL's printf: one call, and so one line, per element."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tegula.codegen.loops.convert import to_f32
from tegula.codegen.loops.lanes import Lanes, Position
from tegula.codegen.loops.text import Val, Writer
from tegula.ir.types import DType, Pointer
from tegula.printing import label


class Texts:
    """The constant texts of one module."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

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
                f"{name} = internal unnamed_addr addrspace(2) constant "
                f'[{len(data)} x i8] c"{shown}", align 1'
            )
        if lines:
            lines.append("declare spir_func i32 @printf(ptr addrspace(2), ...)")
        return "\n".join(lines)


def print_value(
    w: Writer, texts: Texts, prefix: str, value: Val, e: Any, as_hex: bool, where: Sequence[Val],
    index: Sequence[Val],
) -> None:  # fmt: skip
    """Print one element; without a dtype, the prefix alone."""
    program = ", ".join(["%d"] * len(where))
    places = f" idx ({', '.join(['%d'] * len(index))})" if index or e is not None else ""
    escaped = label(prefix, None).replace("%", "%%")
    arguments, shown = [*where, *index], ""
    if e is not None:
        shown, argument = _shown(w, value, e, as_hex)
        arguments.append(argument)
    text = texts.of(f"pid ({program}){places}{escaped}{shown}\n")
    passed = "".join(f", {x.ty} {x.text}" for x in arguments)
    w.here(
        "i32",
        f"call spir_func i32 (ptr addrspace(2), ...) @printf(ptr addrspace(2) {text}{passed})",
    )


def _shown(w: Writer, x: Val, e: DType | Pointer, as_hex: bool) -> tuple[str, Val]:
    """How a value is printed, and what is passed for it."""
    if isinstance(e, Pointer):
        return "0x%016lx", w.pure("i64", f"ptrtoint {x.ty} {{}} to i64", x)
    if e.is_float:
        narrow = Lanes(w, 1, Position(None, 0, 1, 1))
        return ("%a" if as_hex else "%f"), x if e.bits == 64 else to_f32(narrow, x, e)
    if e.bits == 64:
        return ("0x%016lx" if as_hex else f"%l{'d' if e.is_signed else 'u'}"), x
    if as_hex:
        return f"0x%0{max(1, e.bits // 4)}x", w.resize(x, "i32", False)
    signed = e.is_signed and e.bits > 1
    return ("%d" if signed else "%u"), w.resize(x, "i32", signed)
