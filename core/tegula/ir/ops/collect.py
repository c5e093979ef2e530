"""Moving elements by their values: gathering, reversing, sorting, counting, and functions of single
elements.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..opdef import REQUIRED, check, op
from ..types import DType, Tile, Type, elem_of, i1, i32, with_elem
from .rules import axis_in, scalar_elem, tile_of, types_of

if TYPE_CHECKING:
    from ..core import Op


@op("flip", traits="pure")
class Flip:
    """The elements along `axis` from the last to the first."""

    operands = "x"
    attrs = {"axis": REQUIRED}

    def infer(op: Op) -> list[Type]:
        t = tile_of(op.operands[0].type, "flip")
        axis_in(op.attrs["axis"], len(t.shape), "flip")
        return [t]

    def evaluate(op: Op, x: Any) -> Any:
        return np.flip(x, op.attrs["axis"])


@op("gather", traits="pure")
class Gather:
    """Elements of x picked along `axis`: out[.., i, ..] = x[.., index[.., i, ..], ..].

    The other dimensions of x and index are equal. An index outside of the axis takes the element
    at the nearer end.
    """

    operands = "x index"
    attrs = {"axis": REQUIRED}

    def infer(op: Op) -> list[Type]:
        x, index = (tile_of(t, "gather") for t in types_of(op))
        check(scalar_elem(index, "indices").is_int, f"indices are integers, not {index}")
        check(len(x.shape) == len(index.shape), f"gather: {x} and {index} differ in rank")
        axis = axis_in(op.attrs["axis"], len(x.shape), "gather")
        rest = [s[:axis] + s[axis + 1 :] for s in (x.shape, index.shape)]
        check(rest[0] == rest[1], f"gather along axis {axis}: {x} and {index} do not fit")
        check(x.shape[axis] > 0, "gather: there is nothing to pick from")
        return [Tile(index.shape, x.elem)]

    def evaluate(op: Op, x: Any, index: Any) -> Any:
        axis = op.attrs["axis"]
        last = x.shape[axis] - 1
        if index.dtype == np.uint64:
            index = np.minimum(index, np.uint64(last))
        return np.take_along_axis(x, np.clip(index.astype(np.int64), 0, last), axis)


@op("sort", traits="pure")
class Sort:
    """Rows of `key` along `axis` in ascending order (descending with `descending`); the elements
    of `more` move along. Equal elements keep their order.

    -0.0 is below 0.0, NaN above everything.
    """

    operands = "key more*"
    attrs = {"axis": REQUIRED, "descending": False}

    def infer(op: Op) -> list[Type]:
        tiles = [tile_of(t, "sort") for t in types_of(op)]
        e = scalar_elem(tiles[0], "the keys of sort")
        check(e is not i1 and not (e.is_float and e.bits == 8), f"sort does not order {e}")
        check(all(t.shape == tiles[0].shape for t in tiles), "the operands of sort differ in shape")
        axis_in(op.attrs["axis"], len(tiles[0].shape), "sort")
        return list(tiles)

    def evaluate(op: Op, key: Any, *more: Any) -> Any:
        axis = op.attrs["axis"]
        rank = ordered(key)
        if op.attrs["descending"]:
            rank = np.invert(rank)
        order = np.argsort(rank, axis=axis, kind="stable")
        out = [np.take_along_axis(x, order, axis) for x in (key, *more)]
        return out if more else out[0]


def ordered(x: Any) -> Any:
    """Integers in the order of the numbers: -0.0 below 0.0, all NaN equal and above the rest."""
    x = np.asarray(x)
    if x.dtype.kind in "iu":
        return x
    bits = x.view(f"i{x.dtype.itemsize}")
    top = np.iinfo(bits.dtype).max
    values = np.where(bits < 0, bits ^ top, bits)
    return np.where(x != x, top, values)


@op("histogram", traits="pure")
class Histogram:
    """How often 0, 1, ..., bins - 1 occur among the integers of x where the mask is set, as
    i32[bins]. Other values are not counted.
    """

    operands = "x mask?"
    attrs = {"bins": REQUIRED}

    def infer(op: Op) -> list[Type]:
        x = tile_of(op.operands[0].type, "histogram")
        check(scalar_elem(x, "histogram").is_int, f"histogram counts integers, not {x}")
        mask = op.operand("mask")
        check(mask is None or mask.type is with_elem(x, i1), "the mask of histogram is i1 like x")
        bins = op.attrs["bins"]
        check(isinstance(bins, int) and bins >= 0, f"histogram: bins is a size, not {bins!r}")
        return [Tile((bins,), i32)]

    def evaluate(op: Op, x: Any, mask: Any = None) -> Any:
        bins = op.attrs["bins"]
        counted = (x >= 0) & (x < bins)
        if mask is not None:
            counted &= mask
        return np.bincount(x[counted].astype(np.int64), minlength=bins).astype(np.int32)


@op("map", traits="pure")
class Map:
    """A function of scalars, the region, applied element by element: one argument per tile, one
    result tile per value that it yields. The region may contain control flow.
    """

    operands = "xs*"
    regions = "body"

    def infer(op: Op) -> list[Type]:
        check(len(op.operands) > 0, "map needs at least one operand")
        tiles = [tile_of(t, "map") for t in types_of(op)]
        check(all(t.shape == tiles[0].shape for t in tiles), "the operands of map differ in shape")
        elems = [elem_of(t) for t in tiles]
        (body,) = op.regions
        taken = [a.type for a in body.args]
        check(taken == elems, f"the region of map takes {elems}, not {taken}")
        check(bool(body.ops) and body.terminator.name == "yield", "the region of map must yield")
        given = [v.type for v in body.terminator.operands]
        check(all(isinstance(t, DType) for t in given), f"map yields numbers, not {given}")
        return [Tile(tiles[0].shape, t) for t in given]  # type: ignore[arg-type]
