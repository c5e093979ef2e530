"""Where the elements of a block of a strided tensor are: what descriptors and block pointers
share.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from tegula.frontend.diagnostics import LanguageError
from tegula.ir.types import DType, i32, i64

from .values import describe, tensor

if TYPE_CHECKING:
    from tegula.frontend.semantic import Semantic


def integers(s: Semantic, xs: Any, what: str, widen: DType | None = None) -> list[tensor]:
    """A list of integer scalars."""
    if not isinstance(xs, tuple):
        raise LanguageError(f"{what} must be a list of integers, not {describe(xs)}")
    out = []
    for x in xs:
        if isinstance(x, int):
            t = s.number(int(x), i64 if not i32.min_value <= x <= i32.max_value else i32)
        else:
            t = s.to_tensor(x, what)
        if t.ir_shape and t.numel == 1:
            t = s.emit("reshape", t.handle, shape=())
        if t.ir_shape or not (isinstance(t.ir_elem, DType) and t.ir_elem.is_int):
            raise LanguageError(f"{what} must be integer scalars, not {describe(t)}")
        out.append(s.cast(t, widen) if widen is not None else t)
    return out


def _along(s: Semantic, x: tensor, dim: int, rank: int) -> tensor:
    """A vector along one dimension of a tile."""
    for d in range(rank):
        if d != dim:
            x = s.emit("expand_dims", x.handle, axis=d)
    return x


def _indices(s: Semantic, first: tensor, size: int) -> tensor:
    """first, first + 1, ... in 64 bits."""
    steps = s.cast(s.emit("arange", start=0, end=size), i64)
    start = s.broadcast_to(s.cast(first, i64), (size,))
    return s.emit("add", start.handle, steps.handle)


def _inside(s: Semantic, index: tensor, size: tensor) -> tensor:
    """Which indices are in 0..size-1."""
    end = s.broadcast_to(s.cast(size, i64), index.ir_shape)
    zero = s.constant(0, i64, index.ir_shape)
    low = s.emit("cmp", index.handle, zero.handle, pred="ge")
    high = s.emit("cmp", index.handle, end.handle, pred="lt")
    return s.emit("and", low.handle, high.handle)


def place_window(
    s: Semantic,
    base: tensor,
    shape: Sequence[tensor],
    strides: Sequence[tensor],
    offsets: Sequence[tensor],
    block: tuple[int, ...],
    checked: Iterable[int],
) -> tuple[tensor, tensor | None]:
    """Pointers to the elements of a block, and which of them lie inside of the tensor as far as
    the dimensions `checked` say (None: no dimension is looked at).
    """
    rank, check = len(block), set(checked)
    pointers, mask = s.broadcast_to(base, block), None
    for d, size in enumerate(block):
        index = _indices(s, offsets[d], size)
        if d in check:
            fits = s.broadcast_to(_along(s, _inside(s, index, shape[d]), d, rank), block)
            mask = fits if mask is None else s.emit("and", mask.handle, fits.handle)
        stride = s.broadcast_to(s.cast(strides[d], i64), (size,))
        moved = s.emit("mul", index.handle, stride.handle)
        moved = s.broadcast_to(_along(s, moved, d, rank), block)
        pointers = s.emit("addptr", pointers.handle, moved.handle)
    return pointers, mask


def place_rows(
    s: Semantic,
    base: tensor,
    shape: Sequence[tensor],
    strides: Sequence[tensor],
    rows: tensor,
    column: tensor,
    width: int,
) -> tuple[tensor, tensor]:
    """Pointers to parts of picked rows of a matrix, and which elements lie inside of it."""
    block = (rows.ir_shape[0], width)
    pointers, mask = s.broadcast_to(base, block), None
    for d, index in enumerate((s.cast(rows, i64), _indices(s, column, width))):
        fits = s.broadcast_to(_along(s, _inside(s, index, shape[d]), d, 2), block)
        mask = fits if mask is None else s.emit("and", mask.handle, fits.handle)
        stride = s.broadcast_to(s.cast(strides[d], i64), index.ir_shape)
        moved = s.emit("mul", index.handle, stride.handle)
        pointers = s.emit(
            "addptr", pointers.handle, s.broadcast_to(_along(s, moved, d, 2), block).handle
        )
    assert mask is not None
    return pointers, mask
