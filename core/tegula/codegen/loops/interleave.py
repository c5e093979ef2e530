"""Two tiles side by side that are then read as one row: lanes of two vectors in turn.

    join(a, b) : [..., N, 2]   reshape -> [..., 2 N]

Vectors of half as many lanes are computed of both tiles and interleaved, so what is contiguous in
`a` and `b` stays so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tegula.codegen.loops.lanes import Position, Vec
from tegula.codegen.loops.text import Writer
from tegula.ir.core import Op, Value
from tegula.ir.types import elem_of, shape_of

if TYPE_CHECKING:
    from tegula.codegen.loops.evaluate import Evaluation, Index


def applies(ev: Evaluation, op: Op, index: Index) -> bool:
    """Whether the element at `index` of a reshape can be computed in this way."""
    from tegula.codegen.loops.evaluate import Along

    join = op.operands[0].owner
    if join is None or join.name != "join" or op.operands[0] in ev.k.homes:
        return False
    source, shape = shape_of(op.operands[0].type), shape_of(op.results[0].type)
    if len(source) < 2 or shape != (*source[:-2], 2 * source[-2]):
        return False
    last = index[-1]
    if ev.n < 4 or not isinstance(last, Along) or last.m != 1 or ev.exec_mask is not None:
        return False
    return last.base.const == 0 and ev.position.off % 2 == 0


def parts(op: Op, index: Index, w: Writer) -> list[tuple[Value, Index]]:
    """The tiles, with the index that they are computed at."""
    from tegula.codegen.loops.evaluate import Along

    join = op.operands[0].owner
    assert join is not None
    at = (*index[:-1], Along(w.const(0, "i64"), 1))
    return [(o, at) for o in join.operands]


def value(ev: Evaluation, op: Op, index: Index) -> Vec:
    """The lanes of both tiles in turn."""
    from tegula.codegen.loops.evaluate import Evaluation

    w, half, p = ev.w, ev.n // 2, ev.position
    part = Evaluation(ev.k, half, p.extent // 2)
    part.floor, part.producing = ev.floor, ev.producing
    part.flat, part.steady = ev.flat, ev.steady
    part.facts = {fact for fact in ev.facts if isinstance(fact, Value)}
    iv = None if p.iv is None else w.pure("i64", "lshr exact i64 {}, 1", p.iv)
    part.position = Position(iv, p.off // 2, half, p.extent // 2)
    e = elem_of(op.results[0].type)
    a, b = (part.vec(part.eval(o, at), e) for o, at in parts(op, index, w))
    order = ", ".join(f"i32 {i}, i32 {half + i}" for i in range(half))
    ty = ev.vt(e)
    return Vec(w.pure(ty, f"shufflevector {a.ty} {{}}, {b.ty} {{}}, <{ev.n} x i32> <{order}>",
                      a, b))
