"""Changing the shape of tiles, and moving their elements."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any

from tegula.frontend.diagnostics import LanguageError
from tegula.ir.types import DType, i1, i64

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
        raise LanguageError(
            f"expand_dims: the axes {list(axes)} name one dimension twice: {places}"
        )
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
    """`x[i, a:b:c, None, ...]` as in numpy, for slices that are known at compile time.

    An integer picks one place of a dimension, which then is gone; it may be a runtime scalar, and
    counts from the end if negative. A runtime integer outside of the dimension takes the nearer
    end. `None` adds a dimension, `...` stands for full slices, as do dimensions left out.
    """
    rank = len(x.ir_shape)
    if sum(i is Ellipsis for i in index) > 1:
        raise LanguageError("a subscript has at most one `...`")
    keeps = [i for i in index if i is not None and i is not Ellipsis]
    if rank == 0:  # a scalar has no dimension to keep: only the new ones count
        if any(i != slice(None) for i in keeps):
            raise LanguageError(
                f"{describe(x)} has no elements to pick", "only tiles are indexed; use it as it is"
            )
        index, keeps = [i for i in index if i is None], []
    if len(keeps) > rank:
        raise LanguageError(f"{len(keeps)} subscripts for a tensor of rank {rank}")
    full = [slice(None)] * (rank - len(keeps))
    dots = next((n for n, i in enumerate(index) if i is Ellipsis), len(index))
    whole = [*index[:dots], *full, *index[dots + 1 :]]
    x = _parts(s, x, [i for i in whole if i is not None])
    shape, sizes = [], iter(x.ir_shape)
    for i in whole:
        size = 1 if i is None else next(sizes)
        if i is None or isinstance(i, slice):
            shape.append(size)
    if all(i is None or isinstance(i, slice) for i in whole):
        for axis, i in enumerate(whole):
            x = _expand(s, x, axis) if i is None else x
        return x
    return _reshape(s, x, tuple(shape))


def _parts(s: Semantic, x: tensor, index: Sequence[Any]) -> tensor:
    """One subscript per dimension, all dimensions kept: integers leave one of size 1."""
    starts, steps, shape = [], [], []
    picked: list[tuple[int, tensor]] = []
    for axis, (i, size) in enumerate(zip(index, x.ir_shape, strict=True)):
        if isinstance(i, tensor):
            picked.append((axis, _place(s, i, size)))
            i = slice(None)
        if isinstance(i, slice):
            numbers = range(size)[i] if i.step != 0 else None
            if numbers is None:
                raise LanguageError("the step of a slice is 0", "give it a step other than 0")
        elif isinstance(i, int) and not isinstance(i, bool):
            if not -size <= i < size:
                raise LanguageError(f"index {i} is outside of dimension {axis} of size {size}")
            numbers = range(i % size, i % size + 1)
        else:
            raise LanguageError(
                f"a tensor is indexed with integers, slices, `None` and `...`, not {describe(i)}",
                "pick by a tile of indices with tl.gather(x, index, axis), by a mask with tl.where",
            )
        starts.append(numbers.start if len(numbers) else 0)
        steps.append(numbers.step)
        shape.append(len(numbers))
    if tuple(shape) != x.ir_shape or any(step != 1 for step in steps):
        x = s.emit("slice", x.handle, starts=tuple(starts), steps=tuple(steps), shape=tuple(shape))
    for axis, place in picked:
        row = (*x.ir_shape[:axis], 1, *x.ir_shape[axis + 1 :])
        x = s.emit("gather", x.handle, s.broadcast_to(place, row).handle, axis=axis)
    return x


def _place(s: Semantic, i: tensor, size: int) -> tensor:
    """A runtime index, counted from the end if negative."""
    elem = i.ir_elem
    if i.ir_shape or not isinstance(elem, DType) or elem is i1 or not elem.is_int:
        raise LanguageError(
            f"a tensor is indexed with integers, slices, `None` and `...`, not {describe(i)}",
            "pick by a tile of indices with tl.gather(x, index, axis), by a mask with tl.where",
        )
    if size == 0:
        raise LanguageError("there is nothing to pick from a dimension of size 0")
    if not elem.is_signed:
        return i
    behind = s.compare("lt", i, 0)
    wide = s.cast(i, i64) if elem.bits < 32 else i
    return s.emit("select", behind.handle, s.add(wide, size).handle, wide.handle)
