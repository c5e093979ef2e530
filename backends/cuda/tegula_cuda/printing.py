"""`device_print` through the driver's own printf: one call, and so one line, per element."""

from __future__ import annotations

from collections.abc import Sequence

from tegula.codegen.loops.text import Val, Writer

TEXTS = "internal addrspace(1) constant"
"""What texts are to LLVM."""


def _promoted(w: Writer, x: Val) -> Val:
    return w.pure("double", "fpext float {} to double", x) if x.ty == "float" else x


def print_line(w: Writer, text: str, arguments: Sequence[Val]) -> None:
    """Call printf with the arguments in memory, as a C function would leave them."""
    arguments = [_promoted(w, x) for x in arguments]
    w.declare("vprintf", "i32 (ptr, ptr)")
    at, offsets = 0, []
    for x in arguments:
        size = 8 if x.ty in ("i64", "double") else 4
        at = -(-at // size) * size
        offsets.append(at)
        at += size
    room = w.local(f"[{max(8, at)} x i8]", 8)
    for x, offset in zip(arguments, offsets):
        place = w.here("ptr", f"getelementptr i8, ptr {room}, i32 {offset}")
        w.do(f"store {x.ty} {x.text}, ptr {place.text}")
    format_ = f"ptr addrspacecast (ptr addrspace(1) {text} to ptr)"
    w.here("i32", f"call i32 @vprintf({format_}, ptr {room})")
