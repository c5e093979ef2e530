"""Printing and assertions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tegula.codegen.simt.hooks import ERROR_PARAMETER, GLOBAL
from tegula.codegen.simt.printing import bare_line, element_lines
from tegula.codegen.simt.registry import lowers
from tegula.ir.core import Op
from tegula.ir.types import elem_of

if TYPE_CHECKING:
    from tegula.codegen.loops.text import Val
    from tegula.codegen.simt.kernel import Emitter


def _programs(k: Emitter) -> list[Val]:
    return [k.simt.program_id(k.w, axis) for axis in range(3)]


@lowers("print")
def _print(k: Emitter, op: Op) -> None:
    w = k.w
    where = _programs(k)
    if not op.operands:
        branch = w.begin_if(w.icmp("eq", k.thread, k.i32(0)))
        k.simt.print_line(w, bare_line(op.attrs["prefix"]), where)
        w.end_if(branch)
        return
    for number, v in enumerate(op.operands):
        prefix = op.attrs["prefix"]
        if len(op.operands) > 1:
            prefix = f"{prefix}(operand {number}) "
        layout = k.layout(v)
        columns = [k.coordinates(layout, axis) for axis in range(layout.rank)]
        owner = k.owner(layout)
        sizes = op.attrs["bounds"][number] if "bounds" in op.attrs else layout.shape
        text, passed = element_lines(k, prefix, elem_of(v.type), op.attrs["hex"], sizes)
        mine = w.begin_if(owner) if owner is not None else None
        for r, x in enumerate(k.regs(v)):
            index = [c[r] for c in columns]
            there = _within(k, index, sizes, layout.shape)
            inner = w.begin_if(there) if there is not None else None
            k.simt.print_line(w, text, [*where, *index, passed(x)])
            if inner is not None:
                w.end_if(inner)
        if mine is not None:
            w.end_if(mine)


def _within(k: Emitter, index: Sequence[Val], sizes: Sequence[int], padded: Sequence[int]
            ) -> Val | None:
    """Whether an element is one of the tile before it was padded; None if that is clear."""
    out: Val | None = None
    for i, size, whole in zip(index, sizes, padded):
        if size != whole:
            out = k.both(out, k.w.icmp("ult", i, k.i32(size)))
    return out


@lowers("assert")
def _assert(k: Emitter, op: Op) -> None:
    w = k.w
    cond = op.operands[0]
    mask = op.operand("mask")
    bad: Val | None = None
    masks = k.regs(mask) if mask is not None else [None] * k.layout(cond).registers
    for x, m in zip(k.regs(cond), masks):
        fails = w.pure("i1", "xor i1 {}, true", x)
        fails = k.both(fails, m) or fails
        bad = fails if bad is None else w.pure("i1", "or i1 {}, {}", bad, fails)
    assert bad is not None
    where = f"{op.loc}: " if op.loc is not None and str(op.loc) else ""
    k.asserts.append(f"{where}{op.attrs['message'] or 'condition'}")
    number = k.i32(len(k.asserts))
    branch = w.begin_if(bad, "failed")
    error = w.literal(ERROR_PARAMETER, GLOBAL)
    seen = w.here("{ i32, i1 }", f"cmpxchg {GLOBAL} {error.text}, i32 0, i32 {number.text} "
                                 f"{k.simt.syncscope('gpu')}monotonic monotonic, align 4")
    first = w.here("i1", f"extractvalue {{ i32, i1 }} {seen.text}, 1")
    inner = w.begin_if(first)
    for axis, pid in enumerate(_programs(k)):
        p = w.pure(GLOBAL, f"getelementptr i32, {GLOBAL} {{}}, i64 {axis + 1}", error)
        w.do(f"store i32 {pid.text}, {GLOBAL} {p.text}, align 4")
    w.end_if(inner)
    w.end_if(branch)
