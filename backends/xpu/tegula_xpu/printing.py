"""`device_print` through OpenCL's printf: one call, and so one line, per element."""

from __future__ import annotations

from collections.abc import Sequence

from tegula.codegen.loops.text import Val, Writer
from tegula.codegen.simt.printing import Texts


def definitions(texts: Texts) -> str:
    """The texts and what prints them, as LLVM text."""
    if not texts:
        return ""
    printf = "declare spir_func i32 @printf(ptr addrspace(2), ...)"
    return f"{texts.definitions('internal unnamed_addr addrspace(2) constant')}\n{printf}"


def print_line(w: Writer, text: str, arguments: Sequence[Val]) -> None:
    """Call printf with a text and what it shows."""
    passed = "".join(f", {x.ty} {x.text}" for x in arguments)
    w.here(
        "i32",
        f"call spir_func i32 (ptr addrspace(2), ...) @printf(ptr addrspace(2) {text}{passed})",
    )
