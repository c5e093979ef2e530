"""Nests that only pass data through: what they write is too much to stay in a cache.

Stores that bypass the caches save reading every line before it is overwritten.  They pay only
where the data is larger than the caches, which is known when the kernel runs: the grid times what
a program writes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tegula.codegen.loops.exprs import is_tile
from tegula.codegen.loops.lanes import Lane, Lin, Position, size_of
from tegula.codegen.loops.text import Val
from tegula.ir.types import Pointer, elem_of

if TYPE_CHECKING:
    from tegula.codegen.loops.nest import Nest

CACHE_BYTES = 48 << 20
"""Outputs of at least this size bypass the caches."""

LIGHT = 8
"""Cost of an element up to which memory is what a nest waits for."""


def is_stream(nest: Nest) -> bool:
    """Whether a nest does little more than to load from memory and store to it."""
    x = nest.k.exprs
    for item in nest.slot.items:
        if item.kind == "touch":
            continue
        if item.kind != "store" or item.op is None:
            return False
        value = item.op.operands[1]
        if not is_tile(value) or x.cost(value) > LIGHT + 3 * len(x.loads_in(value)):
            return False
        if any(leaf in nest.k.homes for leaf in x.leaves(value)):
            return False
        if x.stride(item.op.operands[0], nest.vdim) != 1:
            return False
    return nest.slot.view is None and not nest.slot.scalar


def bypass_condition(nest: Nest, index: list[Lane]) -> Val | None:
    """When the stores of a row may bypass the caches; None if they never may."""
    w, ev = nest.w, nest.ev
    if w.target.arch != "x86-64" or nest.rows or nest.n == 1 or not is_stream(nest):
        return None
    ev.position = Position(None, 0, nest.n, nest.extent)
    written = 0
    low = w.const(0, "i64")
    for item in nest.slot.items:
        if item.op is None:
            continue
        ptr = item.op.operands[0]
        e = elem_of(ptr.type)
        assert isinstance(e, Pointer)
        lane = ev.eval(ptr, tuple(index))
        vector_bytes = nest.n * size_of(e.elem)
        if not isinstance(lane, Lin) or lane.m != 1 or vector_bytes not in (16, 32, 64):
            return None
        written += nest.extent * size_of(e.elem)
        bits = w.pure("i64", "ptrtoint ptr {} to i64", lane.base)
        part = w.pure("i64", f"and i64 {{}}, {vector_bytes - 1}", bits)
        low = w.pure("i64", "or i64 {}, {}", low, part)
    aligned = w.icmp("eq", low, w.const(0, "i64"))
    total = w.const(written, "i64")
    for axis in range(3):
        count = w.resize(w.literal(f"%np{axis}", "i32"), "i64", True)
        total = w.mul(count, total)
    large = w.icmp("sge", total, w.const(CACHE_BYTES, "i64"))
    return w.pure("i1", "and i1 {}, {}", aligned, large)


def finish_bypass(nest: Nest) -> None:
    """Make stores that bypassed the caches visible before any later store."""
    nest.w.declare("llvm.x86.sse.sfence", "void ()")
    nest.w.do("call void @llvm.x86.sse.sfence()")
