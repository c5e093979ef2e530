"""Algebra of ops that move elements by their values, and of functions of single elements."""

from __future__ import annotations

from tegula.ir.core import Op, Value
from tegula.ir.types import Tile, elem_of, shape_of
from tegula.rewrite import Rewriter, Rules

from .match import made_by

collect = Rules("collect")


@collect.rule("map")
def map_of_plain(op: Op, b: Rewriter) -> tuple[Value, ...] | None:
    """map(x, y, f) == f(x, y) on whole tiles where f consists of elementwise ops"""
    (body,) = op.regions
    if not all(o.opdef.elementwise for o in body.ops[:-1]):
        return None
    shape = shape_of(op.operands[0].type)
    known: dict[Value, Value] = dict(zip(body.args, op.operands, strict=True))

    def tile(v: Value) -> Value:
        found = known.get(v)
        if found is None:  # a scalar from outside
            found = known[v] = b.create("splat", v, shape=shape)
        return found

    for o in body.ops[:-1]:
        (result,) = o.results
        if o.name == "constant":
            t = Tile(shape, elem_of(result.type))
            known[result] = b.create("constant", value=o.attrs["value"], type=t)
        else:
            known[result] = b.create(o.name, *[tile(v) for v in o.operands], **o.attrs)
    return tuple(tile(v) for v in body.terminator.operands)


@collect.rule("flip")
def flip_of_flip(op: Op, b: Rewriter) -> Value | None:
    """flip(flip(x)) == x along one axis; along an axis of one element flip(x) == x"""
    x, axis = op.operands[0], op.attrs["axis"]
    if shape_of(x.type)[axis] <= 1:
        return x
    inner = made_by(x, "flip")
    return inner.operands[0] if inner is not None and inner.attrs["axis"] == axis else None
