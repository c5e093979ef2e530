"""Ops that pick or count elements by position or value, through shared memory."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from tegula.codegen.loops.text import Val
from tegula.codegen.simt.convert import byte_of, padded_bytes, write_tile
from tegula.codegen.simt.layout import Layout, axis_fields
from tegula.codegen.simt.registry import Context, lowers
from tegula.ir.core import Op, Value
from tegula.ir.types import DType, elem_of, i32, shape_of

if TYPE_CHECKING:
    from tegula.codegen.simt.kernel import Emitter


def _scratch(op: Op, ctx: Context) -> int:
    x = op.operands[0]
    return padded_bytes(prod(ctx.layouts[x].shape), elem_of(x.type))


def _picked(k: Emitter, op: Op, x: Value, indices: list[Val]) -> list[Val]:
    """The elements of x with these row-major indices."""
    e = elem_of(x.type)
    place = k.scratch(op)
    write_tile(k, place, k.layout(x), k.regs(x), e)
    k.barrier()
    return [k.get(k.shared_at(place, byte_of(k, i, e)), 1, e)[0] for i in indices]


def _joined(k: Emitter, layout: Layout, coordinates: list[list[Val]]) -> list[Val]:
    """Row-major indices in the shape of `layout` from coordinates by axis."""
    w = k.w
    out: list[Val] = []
    for row in zip(*coordinates):
        total = k.i32(0)
        for x, (shift, _) in zip(row, axis_fields(layout.shape)):
            total = w.add(total, w.mul(x, k.i32(1 << shift)))
        out.append(total)
    return out


@lowers("gather", scratch=_scratch)
def _gather(k: Emitter, op: Op) -> None:
    w = k.w
    x, index = op.operands
    (v,) = op.results
    axis, source, target = op.attrs["axis"], k.layout(x), k.layout(v)
    e = elem_of(index.type)
    last = source.shape[axis] - 1
    wide = "i64" if e.bits == 64 else "i32"  # type: ignore[union-attr]
    picked = []
    for i in k.regs(index):
        i = w.resize(i, wide, e.is_signed)  # type: ignore[union-attr]
        if e.is_signed:  # type: ignore[union-attr]
            i = w.call(f"llvm.smax.{wide}", wide, i, w.const(0, wide))
        i = w.call(f"llvm.umin.{wide}", wide, i, w.const(last, wide))
        picked.append(w.resize(i, "i32", False))
    columns = [picked if a == axis else k.coordinates(target, a) for a in range(target.rank)]
    k.set(v, _picked(k, op, x, _joined(k, source, columns)))


@lowers("slice", scratch=_scratch)
def _slice(k: Emitter, op: Op) -> None:
    w = k.w
    x = op.operands[0]
    (v,) = op.results
    source, target = k.layout(x), k.layout(v)
    columns = []
    for axis in range(target.rank):
        start, step = op.attrs["starts"][axis], op.attrs["steps"][axis]
        columns.append([w.add(w.mul(c, k.i32(step)), k.i32(start))
                        for c in k.coordinates(target, axis)])
    k.set(v, _picked(k, op, x, _joined(k, source, columns)))


# -- counting


def _histogram_scratch(op: Op, ctx: Context) -> int:
    return max(4, 4 * shape_of(op.results[0].type)[0])


@lowers("histogram", scratch=_histogram_scratch)
def _histogram(k: Emitter, op: Op) -> None:
    """Counters in shared memory, which all threads add to."""
    w = k.w
    x, (v,) = op.operands[0], op.results
    e = elem_of(x.type)
    assert isinstance(e, DType)
    place, size, bins = k.scratch(op), shape_of(v.type)[0], op.attrs["bins"]
    threads = k.ctx.threads
    for start in range(0, size, threads):
        at = w.add(k.thread, k.i32(start))
        branch = w.begin_if(w.icmp("ult", k.thread, k.i32(size - start)))
        k.put(_counter(k, place, at), [k.i32(0)], i32)
        w.end_if(branch)
    k.barrier()
    mask = op.operand("mask")
    masks = k.regs(mask) if mask is not None else [None] * k.layout(x).registers
    owner = k.owner(k.layout(x))
    for value, wanted in zip(k.regs(x), masks):
        number = w.resize(value, "i64" if e.bits == 64 else "i32", e.is_signed)
        counts = w.icmp("ult", number, w.const(bins, number.ty))
        counts = k.both(counts, k.both(owner, wanted)) or counts
        branch = w.begin_if(counts)
        # Some of LLVM's targets misread atomics of known addresses; this 0 it does not know.
        zero = w.pure("i32", "lshr i32 {}, {}", k.thread, k.i32(31))
        index = w.add(zero, w.resize(number, "i32", False))
        p = _counter(k, place, index)
        w.here("i32", f"atomicrmw add {p.ty} {p.text}, i32 1 {k.simt.syncscope('cta')}monotonic, "
                      "align 4")
        w.end_if(branch)
    k.barrier()
    k.set(v, [k.get(_counter(k, place, i), 1, i32)[0] for i in k.indices(k.layout(v))])


def _counter(k: Emitter, place: int, number: Val) -> Val:
    return k.shared_at(place, k.w.mul(number, k.i32(4)))
