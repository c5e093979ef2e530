"""Ops that pick elements by position or value: the tile goes through shared memory."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from tegula.codegen.loops.text import Val
from tegula.codegen.simt.convert import byte_of, padded_bytes, write_tile
from tegula.codegen.simt.layout import Layout, axis_fields
from tegula.codegen.simt.registry import Context, lowers
from tegula.ir.core import Op, Value
from tegula.ir.types import elem_of

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
