"""Ops that make tiles and move elements without looking at them: mostly a matter of naming."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from tegula.codegen.simt.layout import Layout, axis_fields, register_map
from tegula.codegen.simt.registry import lowers
from tegula.ir.core import Op
from tegula.ir.types import elem_of, shape_of

if TYPE_CHECKING:
    from tegula.codegen.simt.kernel import Emitter


@lowers("constant")
def _constant(k: Emitter, op: Op) -> None:
    (v,) = op.results
    x = k.constant(op.attrs["value"], elem_of(v.type))
    k.set(v, [x] * k.layout(v).registers)


@lowers("splat")
def _splat(k: Emitter, op: Op) -> None:
    (v,) = op.results
    k.set(v, [k.scalar(op.operands[0])] * k.layout(v).registers)


@lowers("arange")
def _arange(k: Emitter, op: Op) -> None:
    (v,) = op.results
    start = op.attrs["start"]
    xs = k.coordinates(k.layout(v), 0)
    k.set(v, [k.w.add(x, k.i32(start)) if start else x for x in xs])


@lowers("expand_dims", "reshape", "permute")
def _renamed(k: Emitter, op: Op) -> None:
    """The registers stay what they are: the result's layout is the operand's under another name."""
    k.set(op.results[0], k.regs(op.operands[0]))


@lowers("broadcast")
def _broadcast(k: Emitter, op: Op) -> None:
    (v,) = op.results
    x = op.operands[0]
    target = k.layout(v)
    source = k.layout(x)
    grown = [i for i, (a, b) in enumerate(zip(shape_of(x.type), shape_of(v.type))) if a != b]
    picks = broadcast_map(source, target, grown)
    assert picks is not None
    regs = k.regs(x)
    k.set(v, [regs[i] for i in picks])


def broadcast_map(source: Layout, target: Layout, grown: list[int]) -> list[int] | None:
    """For each register of `target` the register of `source`, whose sizes on the axes `grown` are
    1, that holds what it repeats."""
    fields, small = axis_fields(target.shape), axis_fields(source.shape)

    def shrink(x: int) -> int:
        out = 0
        for axis, ((shift, bits), (to, _)) in enumerate(zip(fields, small)):
            if axis not in grown:
                out |= (x >> shift & (1 << bits) - 1) << to
        return out

    image = Layout(source.shape, tuple(map(shrink, target.register)),
                   tuple(map(shrink, target.lane)), tuple(map(shrink, target.warp)))
    return register_map(source, image)


@lowers("join")
def _join(k: Emitter, op: Op) -> None:
    a, b = (k.regs(v) for v in op.operands)
    k.set(op.results[0], [x for pair in zip(a, b) for x in pair])


@lowers("split")
def _split(k: Emitter, op: Op) -> None:
    regs = k.regs(op.operands[0])
    offsets = k.layout(op.operands[0]).offsets
    parts = [[x for x, o in zip(regs, offsets) if o & 1 == side] for side in (0, 1)]
    for v, part in zip(op.results, parts):
        k.set(v, part)


@lowers("cat")
def _cat(k: Emitter, op: Op) -> None:
    a, b = (k.regs(v) for v in op.operands)
    k.set(op.results[0], [*a, *b])


def concatenated(layout: Layout, axis: int) -> Layout:
    """The layout of two tiles of one layout end to end along an axis: the last register bit says
    which."""
    size = layout.shape[axis]
    shape = (*layout.shape[:axis], 2 * size, *layout.shape[axis + 1 :])
    low = prod(layout.shape[axis:])

    def spread(x: int) -> int:
        return (x & low - 1) | (x & ~(low - 1)) << 1

    out = layout.mapped(shape, spread)
    return Layout(shape, (*out.register, low), out.lane, out.warp)


@lowers("program_id")
def _program_id(k: Emitter, op: Op) -> None:
    k.env[op.results[0]] = k.simt.program_id(k.w, op.attrs["axis"])


@lowers("num_programs")
def _num_programs(k: Emitter, op: Op) -> None:
    k.env[op.results[0]] = k.simt.num_programs(k.w, op.attrs["axis"])


@lowers("assume")
def _assume(k: Emitter, op: Op) -> None:
    """What it says was used by the analyses."""


@lowers("hint")
def _hint(k: Emitter, op: Op) -> None:
    k.set(op.results[0], k.regs(op.operands[0]))
