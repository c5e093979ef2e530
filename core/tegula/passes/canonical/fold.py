"""Folding constants, and moving elementwise ops to where there are fewer elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from tegula.ir.core import Op, Value
from tegula.ir.ops import OPS
from tegula.ir.types import Descriptor, DType, Type, elem_of, numpy_dtype, shape_of, with_shape
from tegula.rewrite import Rewriter, Rules

from .match import constant_of, made_by

fold = Rules("fold")

ELEMENTWISE = tuple(d.name for d in OPS.values() if d.pure and d.elementwise and d.operands)


def _scalar(number: Any, t: Type) -> Any:
    """The number as the interpreter would hold it; None if numpy has no such type."""
    elem = elem_of(t)
    if not isinstance(elem, DType):
        return np.uint64(number)
    try:
        return numpy_dtype(elem).type(number)
    except TypeError:
        return None


@fold.rule(*ELEMENTWISE)
def constants(op: Op, b: Rewriter) -> Value | None:
    """f(c1, c2, ...) == c, by evaluating f"""
    numbers = []
    for v in op.operands:
        number = constant_of(v)
        if number is None:
            return None
        numbers.append(_scalar(number, v.type))
    out = op.results[0].type
    elem = elem_of(out)
    if any(n is None for n in numbers) or not isinstance(elem, DType):
        return None
    if op.name == "bitcast" and numbers[0] != numbers[0]:
        return None  # a NaN constant has no particular bits
    assert op.opdef.evaluate is not None
    try:
        with np.errstate(all="ignore"):
            result = np.asarray(op.opdef.evaluate(op, *numbers))[()]
    except TypeError:
        return None  # a type that numpy does not have
    return b.constant(float(result) if elem.is_float else int(result), out)


def _source(value: Value) -> Value | None:
    """The scalar that fills a tile, where there is one."""
    splat = made_by(value, "splat")
    return splat.operands[0] if splat is not None else None


@fold.rule(*ELEMENTWISE)
def of_splats(op: Op, b: Rewriter) -> Value | None:
    """f(splat(x), splat(y), c, ...) == splat(f(x, y, c, ...))"""
    sources: list[Value | None] = []
    for v in op.operands:
        source = _source(v)
        if source is None and constant_of(v) is None:
            return None
        sources.append(source)
    if not any(s is not None for s in sources):
        return None
    scalars = [
        b.constant(constant_of(v), elem_of(v.type)) if s is None else s
        for s, v in zip(sources, op.operands)
    ]
    return b.splat(b.create(op.name, *scalars, **op.attrs), shape=shape_of(op.results[0].type))


def _lifted(op: Op, b: Rewriter, name: str) -> tuple[Value, Op] | None:
    """The op on the sources of its operands, which are all made by `name` in the same way from
    sources of one shape, or hold one number everywhere; and one of their makers."""
    maker: Op | None = None
    for v in op.operands:
        made = made_by(v, name)
        if made is None:
            if constant_of(v) is None and _source(v) is None:
                return None
        elif maker is None:
            maker = made
        elif made.attrs != maker.attrs or (
            shape_of(made.operands[0].type) != shape_of(maker.operands[0].type)
        ):
            return None
    if maker is None:
        return None
    shape = shape_of(maker.operands[0].type)
    operands = []
    for v in op.operands:
        assert not isinstance(v.type, Descriptor)
        if made_by(v, name) is not None:
            operands.append(v.owner.operands[0])  # type: ignore[union-attr]
        elif constant_of(v) is not None:
            operands.append(b.constant(constant_of(v), with_shape(v.type, shape)))
        else:
            operands.append(b.splat(_source(v), shape=shape))
    return b.create(op.name, *operands, **op.attrs), maker


@fold.rule(*ELEMENTWISE)
def before_broadcast(op: Op, b: Rewriter) -> Value | None:
    """f(broadcast(x), broadcast(y), splat(z), ...) == broadcast(f(x, y, splat(z), ...))"""
    found = _lifted(op, b, "broadcast")
    return None if found is None else b.broadcast(found[0], shape=found[1].attrs["shape"])


@fold.rule(*ELEMENTWISE)
def before_expand_dims(op: Op, b: Rewriter) -> Value | None:
    """f(expand_dims(x), expand_dims(y), splat(z), ...) == expand_dims(f(x, y, splat(z), ...))"""
    found = _lifted(op, b, "expand_dims")
    return None if found is None else b.expand_dims(found[0], axis=found[1].attrs["axis"])
