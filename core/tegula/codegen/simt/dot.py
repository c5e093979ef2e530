"""Matrix products: by a matrix unit whose operands lie in registers, or without one.

Without: factors in shared memory, one multiplication and addition at a time.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from tegula.codegen.loops.convert import cast as convert_cast
from tegula.codegen.loops.text import Val
from tegula.codegen.simt.convert import byte_of, padded_bytes, write_tile
from tegula.codegen.simt.layout import Layout, axis_fields
from tegula.codegen.simt.matrix import Product, Tiling, planned
from tegula.codegen.simt.multiply import multiply
from tegula.codegen.simt.registry import Context, lowers
from tegula.ir.core import Op, Value
from tegula.ir.types import DType, elem_of, f32, shape_of

if TYPE_CHECKING:
    from tegula.codegen.simt.kernel import Emitter


def _aligned(n: int) -> int:
    return (n + 127) // 128 * 128


def _bytes(v: Value) -> int:
    return _aligned(padded_bytes(prod(shape_of(v.type)), elem_of(v.type)))


def _scratch(op: Op, ctx: Context) -> int:
    if _by_unit(op, ctx) is not None:
        return 0
    return _bytes(op.operands[0]) + _bytes(op.operands[1])


def _by_unit(op: Op, ctx: Context) -> tuple[Product, Tiling] | None:
    """How a unit makes the product; None where the operands are not laid out for one."""
    a, b, _ = op.operands
    plan = planned(op, ctx.simt, ctx.layouts[op.results[0]])
    if plan is None or (ctx.layouts[a], ctx.layouts[b]) != (plan[1].a, plan[1].b):
        return None
    return plan


@lowers("dot", scratch=_scratch)
def _dot(k: Emitter, op: Op) -> None:
    plan = _by_unit(op, k.ctx)
    if plan is not None:
        k.set(op.results[0], multiply(k, op, *plan))
    else:
        _one_by_one(k, op)


def _one_by_one(k: Emitter, op: Op) -> None:
    w = k.w
    a, b, acc = op.operands
    (v,) = op.results
    layout = k.layout(v)
    e = elem_of(acc.type)
    assert isinstance(e, DType)
    wide = f32 if e.is_float and e.bits < 32 else e
    place_a = k.scratch(op)
    place_b = place_a + _bytes(a)
    for place, x in ((place_a, a), (place_b, b)):
        write_tile(k, place, k.layout(x), k.regs(x), elem_of(x.type))
    k.barrier()
    start = [convert_cast(k.l, x, e, wide) for x in k.regs(acc)]
    depth = shape_of(a.type)[-1]
    zero, one = k.i32(0), k.i32(1)
    loop = w.begin_loop(zero, k.i32(depth), one, start, depth == 0, "dot")
    rows = _operand(k, a, place_a, layout, loop.iv, wide, left=True)
    columns = _operand(k, b, place_b, layout, loop.iv, wide, left=False)
    nexts = [_step(k, wide, x, y, c) for x, y, c in zip(rows, columns, loop.carried)]
    out = w.end_loop(loop, nexts)
    k.set(v, [convert_cast(k.l, x, wide, e) for x in out])


def _step(k: Emitter, e: DType, a: Val, b: Val, c: Val) -> Val:
    if not e.is_float:
        return k.w.add(c, k.w.mul(a, b))
    ty = c.ty
    return k.w.call(f"llvm.fma.{'f32' if ty == 'float' else 'f64'}", ty, a, b, c)


def _operand(k: Emitter, x: Value, place: int, layout: Layout, step: Val, wide: DType, *,
             left: bool) -> list[Val]:
    """For each register of the result the element of a factor at this step, each loaded once."""
    w = k.w
    shape = shape_of(x.type)
    fields = axis_fields(shape)
    source = elem_of(x.type)
    free = layout.rank - 2 if left else layout.rank - 1
    mine = k.coordinates(layout, free)
    batch = [k.coordinates(layout, i) for i in range(layout.rank - 2)]
    out, seen = [], {}
    for r in range(layout.registers):
        parts = [*(column[r] for column in batch), *((mine[r], step) if left else (step, mine[r]))]
        key = tuple(p.text for p in parts)
        if key not in seen:
            index = k.i32(0)
            for p, (shift, _) in zip(parts, fields):
                index = w.add(index, w.mul(p, k.i32(1 << shift)))
            (value,) = k.get(k.shared_at(place, byte_of(k, index, source)), 1, source)
            seen[key] = convert_cast(k.l, value, source, wide)
        out.append(seen[key])
    return out
