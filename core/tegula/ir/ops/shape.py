"""Making tiles and changing their shapes. None of these ops computes: they move elements."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from ..opdef import REQUIRED, check, op
from ..types import Descriptor, Tile, Type, i32, shape_of, with_shape
from .rules import axis_in, tile_of, types_of

if TYPE_CHECKING:
    from ..core import Op


def _dims(op: Op, name: str = "shape") -> tuple[int, ...]:
    shape = op.attrs[name]
    check(
        all(isinstance(d, int) and d >= 0 for d in shape),
        f"{op.name}: {name} must be sizes, not {shape}",
    )
    return tuple(shape)


@op("arange", traits="pure")
class Arange:
    """The integers start, start + 1, ..., end - 1 as i32[end - start]."""

    attrs = {"start": REQUIRED, "end": REQUIRED}

    def infer(op: Op) -> list[Type]:
        start, end = op.attrs["start"], op.attrs["end"]
        check(
            i32.min_value <= start <= end <= i32.max_value + 1,
            f"arange: {start}..{end} is not a range of i32",
        )
        return [Tile((end - start,), i32)]

    def evaluate(op: Op) -> Any:
        return np.arange(op.attrs["start"], op.attrs["end"], dtype=np.int32)


@op("splat", traits="pure")
class Splat:
    """A tile of the given shape filled with one scalar."""

    operands = "x"
    attrs = {"shape": REQUIRED}

    def infer(op: Op) -> list[Type]:
        (t,), shape = types_of(op), _dims(op)
        check(not isinstance(t, (Tile, Descriptor)), f"splat takes a scalar, not {t}")
        check(len(shape) > 0, "splat needs a shape of rank 1 or more")
        return [with_shape(t, shape)]

    def evaluate(op: Op, x: Any) -> Any:
        return np.full(op.attrs["shape"], x, np.asarray(x).dtype)


@op("broadcast", traits="pure")
class Broadcast:
    """Repeat dimensions of size 1 up to `shape`, which has the same rank."""

    operands = "x"
    attrs = {"shape": REQUIRED}

    def infer(op: Op) -> list[Type]:
        t, shape = tile_of(op.operands[0].type, "broadcast"), _dims(op)
        check(
            len(shape) == len(t.shape), f"broadcast keeps the rank: {t} cannot become {list(shape)}"
        )
        check(
            all(a == b or a == 1 for a, b in zip(t.shape, shape)),
            f"{t} cannot be broadcast to {list(shape)}",
        )
        return [with_shape(t, shape)]

    def evaluate(op: Op, x: Any) -> Any:
        return np.broadcast_to(x, op.attrs["shape"])


@op("expand_dims", traits="pure")
class ExpandDims:
    """Insert a dimension of size 1 before `axis` of the result."""

    operands = "x"
    attrs = {"axis": REQUIRED}

    def infer(op: Op) -> list[Type]:
        t = tile_of(op.operands[0].type, "expand_dims")
        axis = axis_in(op.attrs["axis"], len(t.shape) + 1, "expand_dims")
        return [with_shape(t, (*t.shape[:axis], 1, *t.shape[axis:]))]

    def evaluate(op: Op, x: Any) -> Any:
        return np.expand_dims(x, op.attrs["axis"])


@op("reshape", traits="pure")
class Reshape:
    """The same elements in row-major order in another shape; () takes the element of a
    one-element tile.
    """

    operands = "x"
    attrs = {"shape": REQUIRED}

    def infer(op: Op) -> list[Type]:
        (t,), shape = types_of(op), _dims(op)
        check(not isinstance(t, Descriptor), "a descriptor cannot be reshaped")
        check(
            prod(shape_of(t)) == prod(shape),
            f"reshape: {t} does not have the elements of {list(shape)}",
        )
        return [with_shape(t, shape)]

    def evaluate(op: Op, x: Any) -> Any:
        return np.reshape(x, op.attrs["shape"])[()]


@op("permute", traits="pure")
class Permute:
    """Reorder dimensions: dimension i of the result is dimension dims[i] of x."""

    operands = "x"
    attrs = {"dims": REQUIRED}

    def infer(op: Op) -> list[Type]:
        t, dims = tile_of(op.operands[0].type, "permute"), tuple(op.attrs["dims"])
        check(
            sorted(dims) == list(range(len(t.shape))),
            f"permute: {list(dims)} is no permutation of {t}",
        )
        return [with_shape(t, tuple(t.shape[d] for d in dims))]

    def evaluate(op: Op, x: Any) -> Any:
        return np.transpose(x, op.attrs["dims"])


@op("slice", traits="pure")
class Slice:
    """A regular part of a tile: element i of dimension d is element starts[d] + i * steps[d] of x.
    """

    operands = "x"
    attrs = {"starts": REQUIRED, "steps": REQUIRED, "shape": REQUIRED}

    def infer(op: Op) -> list[Type]:
        t, shape = tile_of(op.operands[0].type, "slice"), _dims(op)
        starts, steps = op.attrs["starts"], op.attrs["steps"]
        check(
            len(starts) == len(steps) == len(shape) == len(t.shape),
            f"slice needs a start, a step and a size for each dimension of {t}",
        )
        for size, start, step, n in zip(t.shape, starts, steps, shape):
            inside = n == 0 or (0 <= start < size and 0 <= start + (n - 1) * step < size)
            check(inside, f"slice: {n} elements from {start} by {step} leave a size of {size}")
        return [with_shape(t, shape)]

    def evaluate(op: Op, x: Any) -> Any:
        parts = []
        for start, step, n in zip(op.attrs["starts"], op.attrs["steps"], op.attrs["shape"]):
            parts.append(start + step * np.arange(n))
        return x[np.ix_(*parts)]


@op("cat", traits="pure")
class Cat:
    """Two tiles one after the other along `axis`; the other dimensions are equal."""

    operands = "lhs rhs"
    attrs = {"axis": 0}

    def infer(op: Op) -> list[Type]:
        a, b = (tile_of(t, "cat") for t in types_of(op))
        check(a.elem is b.elem and len(a.shape) == len(b.shape), f"cat cannot join {a} and {b}")
        axis = axis_in(op.attrs["axis"], len(a.shape), "cat")
        rest = [s[:axis] + s[axis + 1 :] for s in (a.shape, b.shape)]
        check(rest[0] == rest[1], f"cat along axis {axis} cannot join {a} and {b}")
        return [
            with_shape(a, (*a.shape[:axis], a.shape[axis] + b.shape[axis], *a.shape[axis + 1 :]))
        ]

    def evaluate(op: Op, a: Any, b: Any) -> Any:
        return np.concatenate([a, b], op.attrs["axis"])


@op("join", traits="pure")
class Join:
    """Two values side by side in a new last dimension of size 2."""

    operands = "lhs rhs"

    def infer(op: Op) -> list[Type]:
        a, b = types_of(op)
        check(
            a is b and not isinstance(a, Descriptor),
            f"join takes two values of one type, not {a} and {b}",
        )
        return [with_shape(a, (*shape_of(a), 2))]

    def evaluate(op: Op, a: Any, b: Any) -> Any:
        return np.stack([a, b], -1)


@op("split", traits="pure")
class Split:
    """The two halves of a last dimension of size 2 (scalars for rank 1)."""

    operands = "x"

    def infer(op: Op) -> list[Type]:
        t = tile_of(op.operands[0].type, "split")
        check(t.shape[-1] == 2, f"split needs a last dimension of size 2, not {t}")
        return [with_shape(t, t.shape[:-1])] * 2

    def evaluate(op: Op, x: Any) -> Any:
        return [x[..., 0][()], x[..., 1][()]]
