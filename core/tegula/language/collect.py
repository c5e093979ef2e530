"""Moving the elements of tiles by their values: sorting, picking, counting, and functions of single
elements.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from tegula.frontend.diagnostics import LanguageError
from tegula.frontend.promotion import name_of
from tegula.ir.core import Block
from tegula.ir.types import DType, f32, i1, i32, u8

from .builtin import Static, builtin
from .reduction import indices_along
from .values import describe, is_number, tensor

if TYPE_CHECKING:
    from tegula.frontend.semantic import Semantic


def _tile(s: Semantic, x: Any, what: str) -> tensor:
    x = s.to_tensor(x, f"{what}: input")
    if not x.ir_shape or not isinstance(x.ir_elem, DType):
        raise LanguageError(f"{what} takes a tile of numbers, not {describe(x)}")
    return x


def _axis(s: Semantic, dim: Any, x: tensor, what: str) -> int:
    rank = len(x.ir_shape)
    return rank - 1 if dim is None else s.axis(dim, rank, what)


@builtin
def flip(s: Semantic, x: tensor, dim: int | None = None) -> tensor:
    """The elements along `dim` (the last if left out) from the last to the first."""
    t = _tile(s, x, "flip")
    return s.emit("flip", t.handle, axis=_axis(s, dim, t, "flip"))


@builtin
def gather(s: Semantic, src: tensor, index: tensor, axis: int) -> tensor:
    """Elements of `src` picked along `axis`: out[.., i, ..] = src[.., index[.., i, ..], ..].

    The other dimensions of both are equal. An index outside of the axis takes the element at the
    nearer end.
    """
    x, at = _tile(s, src, "gather"), _tile(s, index, "gather")
    if not (isinstance(at.ir_elem, DType) and at.ir_elem.is_int and at.ir_elem is not i1):
        raise LanguageError(f"gather: indices are integers, not {describe(at)}")
    if len(x.ir_shape) != len(at.ir_shape):
        raise LanguageError(
            f"gather: src has {len(x.ir_shape)} dimensions and index {len(at.ir_shape)}",
            "both need the same number; add dimensions with index[:, None]",
        )
    place = s.axis(axis, len(x.ir_shape), "gather")
    for d, (a, b) in enumerate(zip(x.ir_shape, at.ir_shape, strict=True)):
        if d != place and a != b:
            raise LanguageError(
                f"gather: dimension {d} is {a} in src and {b} in index; only the axis {place} "
                "may differ"
            )
    if x.ir_shape[place] == 0:
        raise LanguageError("gather: there is nothing to pick from along an axis of size 0")
    return s.emit("gather", x.handle, at.handle, axis=place)


# ---- sorting


def _sorted(
    s: Semantic, x: tensor, axis: int, descending: bool, indices: bool
) -> tuple[tensor, tensor | None]:
    """A tile sorted along an axis, and where its elements came from."""
    elem = x.ir_elem
    assert isinstance(elem, DType)
    key = x
    if elem is i1:
        key = s.cast(x, u8)
    elif elem.is_float and elem.bits == 8:
        key = s.cast(x, f32)
    more = [indices_along(s, x, axis).handle] if indices else []
    values = s.b.create("sort", key.handle, more, axis=axis, descending=descending)
    out = s.cast(tensor(values[0]), elem)
    return out, tensor(values[1]) if indices else None


def _first(s: Semantic, x: tensor, k: int, axis: int) -> tensor:
    """The first k elements along an axis."""
    shape = (*x.ir_shape[:axis], k, *x.ir_shape[axis + 1 :])
    if shape == x.ir_shape:
        return x
    rank = len(shape)
    return s.emit("slice", x.handle, starts=(0,) * rank, steps=(1,) * rank, shape=shape)


@builtin
def sort(
    s: Semantic,
    x: tensor,
    dim: int | None = None,
    descending: bool = False,
    return_indices: bool = False,
) -> Any:
    """The elements along `dim` (the last if left out) in ascending or descending order, NaN as the
    largest; with `return_indices` also where each came from. Equal elements keep their order.
    """
    t = _tile(s, x, "sort")
    axis, down = _axis(s, dim, t, "sort"), s.flag(descending, "sort: descending")
    indices = s.flag(return_indices, "sort: return_indices")
    values, places = _sorted(s, t, axis, down, indices)
    return (values, places) if indices else values


@builtin
def argsort(s: Semantic, x: tensor, dim: int | None = None, descending: bool = False) -> tensor:
    """The positions (int32) that sort the elements along `dim`; equal elements keep their order."""
    t = _tile(s, x, "argsort")
    axis = _axis(s, dim, t, "argsort")
    places = _sorted(s, t, axis, s.flag(descending, "argsort: descending"), True)[1]
    assert places is not None
    return places


@builtin
def topk(
    s: Semantic,
    x: tensor,
    k: int,
    dim: int | None = None,
    descending: bool = True,
    return_indices: bool = False,
) -> Any:
    """The k largest elements along `dim` (the last if left out), largest first, or the k smallest
    with `descending=False`; with `return_indices` also where each came from.
    """
    t = _tile(s, x, "topk")
    axis = _axis(s, dim, t, "topk")
    if not isinstance(k, int) or isinstance(k, bool) or not 0 < k <= t.ir_shape[axis]:
        raise LanguageError(
            f"topk: k must be a compile-time integer from 1 to {t.ir_shape[axis]}, the size of "
            f"dimension {axis}, not {k if is_number(k) else describe(k)}"
        )
    indices = s.flag(return_indices, "topk: return_indices")
    values, places = _sorted(s, t, axis, s.flag(descending, "topk: descending"), indices)
    best = _first(s, values, k, axis)
    return best if places is None else (best, _first(s, places, k, axis))


@builtin
def bitonic_merge(
    s: Semantic, x: tensor, dim: int | None = None, descending: bool = False
) -> tensor:
    """Sort a sequence along `dim` that first rises and then falls (or the other way round)."""
    t = _tile(s, x, "bitonic_merge")
    axis = _axis(s, dim, t, "bitonic_merge")
    return _sorted(s, t, axis, s.flag(descending, "bitonic_merge: descending"), False)[0]


# ---- counting


@builtin
def histogram(s: Semantic, input: tensor, num_bins: int, mask: Any = None) -> tensor:
    """How often 0, 1, ..., num_bins - 1 occur among integers, where `mask` is set; other values are
    not counted.
    """
    x = _tile(s, input, "histogram")
    assert isinstance(x.ir_elem, DType)
    if not x.ir_elem.is_int:
        raise LanguageError(
            f"histogram only supports integer input, not {name_of(x.ir_elem)}",
            "convert first: x.to(tl.int32)",
        )
    if len(x.ir_shape) != 1:
        raise LanguageError(
            f"histogram takes a tile of one dimension, not {describe(x)}", "flatten it: tl.ravel(x)"
        )
    if not isinstance(num_bins, int) or isinstance(num_bins, bool) or num_bins < 1:
        raise LanguageError(
            f"histogram: num_bins must be a positive compile-time integer, not {num_bins!r}"
        )
    enabled = s.mask(mask, x.ir_shape, "histogram")
    return s.emit(
        "histogram", x.handle, *([] if enabled is None else [enabled.handle]), bins=num_bins
    )


# ---- functions of single elements


@builtin
def map_elementwise(s: Semantic, scalar_fn: Static, *args: Any, pack: int = 1) -> Any:
    """Apply a jit function of scalars, which may branch and loop, to every element.

    With `pack`, the function takes that many neighbouring elements of each argument at a time, and
    returns as many of each result.
    """
    if not args:
        raise LanguageError("map_elementwise needs at least one tile")
    if not isinstance(pack, int) or isinstance(pack, bool) or pack < 1:
        raise LanguageError(f"map_elementwise: pack is a positive integer, not {pack!r}")
    tiles = list(s.broadcast(*[s.to_tensor(a, "map_elementwise: argument") for a in args]))
    shape = tiles[0].ir_shape
    if not shape or not all(isinstance(t.ir_elem, DType) for t in tiles):
        raise LanguageError(f"map_elementwise takes tiles of numbers, not {describe(tiles[0])}")
    if prod(shape) % pack:
        raise LanguageError(f"map_elementwise: {prod(shape)} elements do not make packs of {pack}")
    if pack > 1:
        tiles = [part for t in tiles for part in _unpacked(s, t, pack)]
    results, single = _mapped(s, tiles, scalar_fn)
    if pack > 1:
        if len(results) % pack:
            raise LanguageError(
                f"map_elementwise: the function returns {len(results)} values, which is no "
                f"multiple of pack={pack}"
            )
        results = [_packed(s, results[i : i + pack], shape) for i in range(0, len(results), pack)]
        single = len(results) == 1
    return results[0] if single else tuple(results)


def _mapped(s: Semantic, tiles: list[tensor], fn: Any) -> tuple[list[tensor], bool]:
    """The results of a function of scalars on tiles, and whether it gives one value."""
    block = Block([t.ir_elem for t in tiles])
    with s.b.at(block):
        given = s.visitor.inline_call(fn, [tensor(v) for v in block.args], "map_elementwise")
        values = given if isinstance(given, tuple) else (given,)
        outs = [s.to_tensor(v, "map_elementwise: a result of the function") for v in values]
        if any(v.ir_shape for v in outs):
            raise LanguageError("map_elementwise: the function must return scalars")
        s.b.create("yield", [v.handle for v in outs])
    for op in block.walk():
        if op.name != "call" and op.opdef.effects & {"read", "write", "atomic"}:
            raise LanguageError(
                "map_elementwise: the function cannot access memory",
                "load the tiles before, and pass them as arguments",
            )
    made = s.b.create("map", [t.handle for t in tiles], regions=[block])
    return [tensor(v) for v in made], not isinstance(given, tuple)


def _unpacked(s: Semantic, x: tensor, pack: int) -> list[tensor]:
    """Every pack-th element, beginning at 0, 1, ..."""
    count = x.numel // pack
    rows = s.emit("reshape", x.handle, shape=(count, pack))
    parts = []
    for p in range(pack):
        picked = s.emit("slice", rows.handle, starts=(0, p), steps=(1, 1), shape=(count, 1))
        parts.append(s.emit("reshape", picked.handle, shape=(count,)))
    return parts


def _packed(s: Semantic, parts: list[tensor], shape: tuple[int, ...]) -> tensor:
    """The elements of several tiles in turn."""
    pack, count = len(parts), parts[0].numel
    wide = (count, pack)
    columns = indices_along(s, s.constant(0, i32, wide), 1)
    out: tensor | None = None
    for p, part in enumerate(parts):
        spread = s.emit("reshape", part.handle, shape=(count, 1))
        spread = s.broadcast_to(spread, wide)
        if out is None:
            out = spread
            continue
        here = s.emit("cmp", columns.handle, s.constant(p, i32, wide).handle, pred="eq")
        out = s.emit("select", here.handle, spread.handle, out.handle)
    assert out is not None
    return s.emit("reshape", out.handle, shape=shape)
