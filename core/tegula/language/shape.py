"""Changing the shape of tiles, and moving their elements."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any

from tegula.frontend.diagnostics import LanguageError

from .builtin import Static, builtin, emit
from .values import describe, tensor

if TYPE_CHECKING:
    from tegula.frontend.semantic import Semantic


def _tile(s: Semantic, x: Any, what: str) -> tensor:
    x = s.to_tensor(x, f"{what}: input")
    if not x.ir_shape:
        raise LanguageError(f"{what} takes a tile, not {describe(x)}")
    return x


def _ints(xs: Any, what: str) -> tuple[int, ...]:
    if isinstance(xs, tuple) and len(xs) == 1 and isinstance(xs[0], tuple):
        (xs,) = xs
    for x in xs if isinstance(xs, tuple) else (xs,):
        if not isinstance(x, int):
            raise LanguageError(f"{what} must be compile-time integers, not {describe(x)}")
    return xs if isinstance(xs, tuple) else (xs,)


@builtin
def broadcast(s: Semantic, input: tensor, other: tensor) -> tuple[tensor, ...]:
    """Both values in their common shape."""
    return s.broadcast(s.to_tensor(input), s.to_tensor(other))


@builtin
def broadcast_to(s: Semantic, input: tensor, *shape: Static) -> tensor:
    """Repeat dimensions of size 1 up to `shape`, which has the same number of dimensions."""
    x, dims = s.to_tensor(input), s.shape(shape, "broadcast_to")
    if x.ir_shape and len(x.ir_shape) != len(dims):
        raise LanguageError(
            f"broadcast_to keeps the number of dimensions: {list(x.ir_shape)} cannot become "
            f"{list(dims)}",
            "add dimensions first with x[None, :] or x[:, None]",
        )
    return s.broadcast_to(x, dims)


@builtin
def expand_dims(s: Semantic, input: tensor, axis: Static) -> tensor:
    """Insert dimensions of size 1 at `axis` of the result (one axis or several)."""
    x = s.to_tensor(input, "expand_dims: input")
    axes = _ints(axis, "expand_dims: axis")
    rank = len(x.ir_shape) + len(axes)
    places = [s.axis(a, rank, "expand_dims") for a in axes]
    if len(set(places)) != len(places):
        raise LanguageError(f"expand_dims: the axes {list(axes)} name one dimension twice")
    for place in sorted(places):
        x = _expand(s, x, place)
    return x


def _expand(s: Semantic, x: tensor, axis: int) -> tensor:
    if not x.ir_shape:
        return s.broadcast_to(x, (1,))
    return s.emit("expand_dims", x.handle, axis=axis)


@builtin
def unsqueeze(s: Semantic, input: tensor, dim: int) -> tensor:
    """Insert a dimension of size 1 at `dim`."""
    x = s.to_tensor(input, "unsqueeze: input")
    return _expand(s, x, s.axis(dim, len(x.ir_shape) + 1, "unsqueeze"))


@builtin
def squeeze(s: Semantic, input: tensor, dim: int) -> tensor:
    """Remove dimension `dim`, whose size is 1."""
    x = _tile(s, input, "squeeze")
    d = s.axis(dim, len(x.ir_shape), "squeeze")
    if x.ir_shape[d] != 1:
        raise LanguageError(
            f"squeeze: dimension {dim} of {list(x.ir_shape)} has size {x.ir_shape[d]}, not 1"
        )
    return s.emit("reshape", x.handle, shape=x.ir_shape[:d] + x.ir_shape[d + 1 :])


@builtin
def permute(s: Semantic, input: tensor, *dims: Static) -> tensor:
    """Reorder the dimensions: dimension i of the result is dimension dims[i] of the input."""
    x = _tile(s, input, "permute")
    given = _ints(dims, "permute: dims")
    rank = len(x.ir_shape)
    order = tuple(s.axis(d, rank, "permute") for d in given)
    if sorted(order) != list(range(rank)):
        raise LanguageError(
            f"permute: {list(given)} does not name each of the {rank} dimensions once"
        )
    return s.emit("permute", x.handle, dims=order)


@builtin
def trans(s: Semantic, input: tensor, *dims: Static) -> tensor:
    """Swap the last two dimensions, or reorder all of them by `dims`."""
    x = _tile(s, input, "trans")
    if dims:
        return emit(permute, s, x, *dims)
    rank = len(x.ir_shape)
    if rank < 2:
        raise LanguageError(f"trans takes a tile of two dimensions or more, not {describe(x)}")
    return s.emit("permute", x.handle, dims=(*range(rank - 2), rank - 1, rank - 2))


def _reshape(s: Semantic, x: tensor, shape: tuple[int, ...]) -> tensor:
    if prod(shape) != x.numel:
        raise LanguageError(
            f"a tile of shape {list(x.ir_shape)} ({x.numel} elements) cannot be reshaped to "
            f"{list(shape)} ({prod(shape)})"
        )
    if shape == x.ir_shape:
        return x
    if not x.ir_shape:
        return s.broadcast_to(x, shape)
    return s.emit("reshape", x.handle, shape=shape)


@builtin
def reshape(s: Semantic, input: tensor, *shape: Static, can_reorder: bool = False) -> tensor:
    """The same elements, in row-major order, in another shape; () takes the element of a one-
    element tile.
    """
    return _reshape(s, s.to_tensor(input, "reshape: input"), s.shape(shape, "reshape"))


@builtin
def view(s: Semantic, input: tensor, *shape: Static) -> tensor:
    """Like `reshape`."""
    return _reshape(s, s.to_tensor(input, "view: input"), s.shape(shape, "view"))


@builtin
def ravel(s: Semantic, x: tensor, can_reorder: bool = False) -> tensor:
    """All elements in one dimension."""
    x = s.to_tensor(x, "ravel: x")
    return _reshape(s, x, (x.numel,))


@builtin
def item(s: Semantic, input: tensor) -> tensor:
    """The element of a tile that has one, as a scalar."""
    x = s.to_tensor(input, "item: input")
    if x.numel != 1:
        raise LanguageError(f"item takes a tile of one element, not {describe(x)}")
    return _reshape(s, x, ())


def _alike(s: Semantic, a: Any, b: Any, what: str) -> tuple[tensor, tensor]:
    """Both in a common shape and dtype."""
    x, y = s.to_tensor(a, f"{what}: input"), s.to_tensor(b, f"{what}: other")
    if x.ir_elem is not y.ir_elem:
        x, y, _ = s.operands(x, y, what)
    x, y = s.broadcast(x, y)
    return x, y


@builtin
def join(s: Semantic, a: tensor, b: tensor) -> tensor:
    """The two values side by side in a new last dimension of size 2."""
    x, y = _alike(s, a, b, "join")
    return s.emit("join", x.handle, y.handle)


@builtin
def split(s: Semantic, a: tensor) -> tuple[tensor, tensor]:
    """The two halves of the last dimension, whose size is 2. Scalars if it is the only one."""
    x = _tile(s, a, "split")
    if x.ir_shape[-1] != 2:
        raise LanguageError(
            f"split: the last dimension must have size 2, the shape is {list(x.ir_shape)}"
        )
    low, high = s.b.create("split", x.handle)
    return tensor(low), tensor(high)


@builtin
def cat(
    s: Semantic, input: tensor, other: tensor, can_reorder: bool = False, dim: int = 0
) -> tensor:
    """One tile after the other along `dim`; the order of the elements is kept."""
    x, y = _tile(s, input, "cat"), _tile(s, other, "cat")
    if x.ir_elem is not y.ir_elem:
        _, _, t = s.operands(s.constant(0, x.ir_elem), s.constant(0, y.ir_elem), "cat")
        x, y = s.cast(x, t), s.cast(y, t)
    axis = s.axis(dim, len(x.ir_shape), "cat")
    a, b = list(x.ir_shape), list(y.ir_shape)
    if len(a) != len(b) or a[:axis] + a[axis + 1 :] != b[:axis] + b[axis + 1 :]:
        raise LanguageError(f"cat: shapes {a} and {b} differ outside of dimension {axis}")
    return s.emit("cat", x.handle, y.handle, axis=axis)


def subscript(s: Semantic, x: tensor, index: Sequence[Any]) -> tensor:
    """`x[:, None]`: full slices keep dimensions, None adds one, `...` stands for the slices in
    between. Dimensions that are not named are kept.
    """
    keeps = [i for i in index if i is not None and i is not Ellipsis]
    rank = len(x.ir_shape)
    for i in keeps:
        if i != slice(None):
            raise LanguageError(
                "unsupported tensor index: a tensor takes only `:`, `None` and `...` as subscripts",
                "to pick elements, load them through their own pointers, or mask and reduce: "
                "tl.sum(tl.where(i == k, x, 0))",
            )
    if index.count(Ellipsis) > 1:
        raise LanguageError("a subscript has at most one `...`")
    if rank == 0:  # a scalar has no dimension to keep: only the new ones count
        index, keeps = [i for i in index if i is None], []
    if len(keeps) > rank:
        raise LanguageError(f"{len(keeps)} subscripts for a tensor of rank {rank}")
    axis = 0
    for i in index:
        if i is None:
            x = _expand(s, x, axis)
            axis += 1
        else:
            axis += rank - len(keeps) if i is Ellipsis else 1
    return x
