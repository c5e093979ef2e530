"""Reductions, scans and matrix products."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..opdef import REQUIRED, check, op
from ..types import DType, Type, elem_of, with_shape
from .rules import axis_in, result_dtype, scalar_elem, tile_of, types_of

if TYPE_CHECKING:
    from ..core import Op

PRECISIONS = ("ieee", "tf32", "tf32x3", "bf16x3", "bf16x6")


def _sources(op: Op) -> tuple[tuple[int, ...], list[DType]]:
    """Common shape and element types of the operands; checks the combine region's signature."""
    check(len(op.operands) > 0, f"{op.name} needs at least one operand")
    tiles = [tile_of(t, op.name) for t in types_of(op)]
    shape = tiles[0].shape
    check(all(t.shape == shape for t in tiles), f"the operands of {op.name} differ in shape")
    axis_in(op.attrs["axis"], len(shape), op.name)
    elems = [scalar_elem(t, f"the operands of {op.name}") for t in tiles]
    (body,) = op.regions
    taken = [a.type for a in body.args]
    check(taken == elems * 2, f"the combine region of {op.name} takes {elems * 2}, not {taken}")
    check(
        bool(body.ops) and body.terminator.name == "yield",
        f"the combine region of {op.name} must yield",
    )
    given = [v.type for v in body.terminator.operands]
    check(given == elems, f"the combine region of {op.name} yields {given}, not {elems}")
    return shape, elems


@op("reduce", traits="pure")
class Reduce:
    """Fold tiles along `axis` by an associative, commutative region of scalars: 2n arguments to n
    results.

    The result has no such axis; rank 1 gives scalars. The order of combination is free. Sums and
    products of floats narrower than 32 bits are made in f32 and rounded at the end.
    """

    operands = "srcs*"
    attrs = {"axis": REQUIRED}
    regions = "combine"

    def infer(op: Op) -> list[Type]:
        shape, _ = _sources(op)
        axis = op.attrs["axis"]
        check(shape[axis] > 0, "an empty axis cannot be reduced")
        return [with_shape(v.type, shape[:axis] + shape[axis + 1 :]) for v in op.operands]


@op("scan", traits="pure")
class Scan:
    """Prefix fold along `axis` (from the end when `reverse`), each element included, by an
    associative region. Sums and products of floats narrower than 32 bits are made in f32.
    """

    operands = "srcs*"
    attrs = {"axis": REQUIRED, "reverse": False}
    regions = "combine"

    def infer(op: Op) -> list[Type]:
        _sources(op)
        return [v.type for v in op.operands]


@op("dot", traits="pure")
class Dot:
    """Matrix product with accumulation. out = acc + a @ b over the last two dimensions, batched
    over the rest.

    Products and sums are made in acc's dtype (at least f32 for floats); their order is free.
    `precision` says how
    f32 operands may be shortened on matrix units.
    """

    operands = "a b acc"
    attrs = {"precision": "ieee"}

    def infer(op: Op) -> list[Type]:
        a, b, c = (tile_of(t, "dot") for t in types_of(op))
        check(
            len(a.shape) == len(b.shape) == len(c.shape) >= 2,
            f"dot needs equal ranks of 2 or more: {a}, {b}, {c}",
        )
        (*ba, m, k), (*bb, k2, n) = a.shape, b.shape
        check(ba == bb and k == k2, f"dot: {a} and {b} do not fit")
        check(
            list(c.shape) == [*ba, m, n],
            f"dot: the accumulator must be [{', '.join(map(str, [*ba, m, n]))}], not {c}",
        )
        check(op.attrs["precision"] in PRECISIONS, f"dot: precision is one of {PRECISIONS}")
        ea, eb, ec = (scalar_elem(t, "dot operands") for t in (a, b, c))
        check(ea is eb or (ea.is_float and eb.is_float and ea.bits == eb.bits == 8),
              f"dot operands must have one dtype, not {ea} and {eb}")  # fmt: skip
        check(ea.is_float == ec.is_float, f"dot of {ea} cannot accumulate in {ec}")
        return [c]

    def evaluate(op: Op, a: Any, b: Any, acc: Any) -> Any:
        e = elem_of(op.results[0].type)
        assert isinstance(e, DType)
        if e.is_int:
            wide = np.int64
            return (np.matmul(a.astype(wide), b.astype(wide)) + acc.astype(wide)).astype(
                result_dtype(op)
            )
        wide_f = np.float64 if e.bits == 64 else np.float32
        # In row-major order, so that the order of the sums does not depend on how a tile was made.
        x, y = (np.ascontiguousarray(v.astype(wide_f)) for v in (a, b))
        out = (np.matmul(x, y) + wide_f(0)) + acc.astype(wide_f)  # sums begin with 0.0
        return out.astype(result_dtype(op))
