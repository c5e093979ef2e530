"""The lines that kernels print, as texts and arguments for a device's own printf."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tegula.codegen.loops.convert import to_f32
from tegula.codegen.loops.text import Val
from tegula.ir.types import Pointer, ScalarType
from tegula.printing import label

if TYPE_CHECKING:
    from tegula.codegen.simt.kernel import Emitter


class Texts:
    """The constant texts of one module, each a global of its own."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def __bool__(self) -> bool:
        return bool(self._names)

    def of(self, text: str) -> str:
        """The global that holds a text."""
        return self._names.setdefault(text, f"@tegula_text{len(self._names)}")

    def definitions(self, kind: str) -> str:
        """All of them as LLVM text; `kind` is what stands before their type."""
        return "\n".join(
            f'{name} = {kind} [{len(data)} x i8] c"{_escaped(data)}", align 1'
            for name, data in ((n, text.encode() + b"\0") for text, n in self._names.items())
        )


def _escaped(data: bytes) -> str:
    return "".join(f"\\{b:02X}" for b in data)


def bare_line(prefix: str) -> str:
    """The line of a print without values; its arguments are the program's numbers."""
    return f"pid (%d, %d, %d){_label(prefix)}\n"


def element_lines(
    k: Emitter, prefix: str, e: ScalarType, as_hex: bool, shape: Sequence[int]
) -> tuple[str, Callable[[Val], Val]]:
    """The lines of a tile's elements, and what is passed for one; the arguments are the program's
    numbers, the element's coordinates, and that."""
    letters = ", ".join(f"%{len(str(max(size - 1, 0)))}d" for size in shape)
    shown, passed = _shown(k, e, as_hex)
    return f"pid (%d, %d, %d) idx ({letters}){_label(prefix)}{shown}\n", passed


def _label(prefix: str) -> str:
    return label(prefix, None).replace("%", "%%")


def _shown(k: Emitter, e: ScalarType, as_hex: bool) -> tuple[str, Callable[[Val], Val]]:
    w, wide = k.w, k.simt.print_long
    if isinstance(e, Pointer):
        return f"0x%016{wide}x", lambda x: w.pure("i64", f"ptrtoint {x.ty} {{}} to i64", x)
    if e.is_float:
        letter = "%a" if as_hex else "%f"
        return letter, lambda x: x if e.bits == 64 else to_f32(k.l, x, e)
    if e.bits == 64:
        return f"0x%016{wide}x" if as_hex else f"%{wide}{'d' if e.is_signed else 'u'}", lambda x: x
    if as_hex:
        return f"0x%0{max(1, e.bits // 4)}x", lambda x: w.resize(x, "i32", False)
    signed = e.is_signed and e.bits > 1
    return "%d" if signed else "%u", lambda x: w.resize(x, "i32", signed)
