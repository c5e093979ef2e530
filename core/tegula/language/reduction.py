"""Reductions and scans with a combining function, and matrix products."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tegula.frontend.diagnostics import LanguageError
from tegula.frontend.promotion import name_of
from tegula.ir.core import Block
from tegula.ir.types import DType, bf16, elem_of, f16, f32, f64, i32

from .builtin import builtin, emit
from .dtypes import dtype as Dtype
from .values import as_constant, describe, is_number, tensor

if TYPE_CHECKING:
    from tegula.frontend.semantic import Semantic

PRECISIONS = ("ieee", "tf32", "tf32x3", "bf16x3", "bf16x6")


def _sources(s: Semantic, input: Any, what: str) -> list[tensor]:
    """The tiles to combine, in one shape."""
    given = input if isinstance(input, tuple) else (input,)
    tiles = [s.to_tensor(x, f"{what}: input") for x in given]
    for t in tiles:
        if not isinstance(t.ir_elem, DType):
            raise LanguageError(f"{what} does not take pointers, got {describe(t)}")
    return list(s.broadcast(*tiles)) if tiles else []


def _combine_block(s: Semantic, tiles: list[tensor], combine_fn: Any, what: str) -> Block:
    """The combining function as a region: scalars of both sides in, one set out."""
    elems = [t.ir_elem for t in tiles]
    block = Block([*elems, *elems])
    with s.b.at(block):
        args = [tensor(v) for v in block.args]
        result = s.visitor.inline_call(combine_fn, args, what)
        results = result if isinstance(result, tuple) else (result,)
        if len(results) != len(tiles):
            raise LanguageError(
                f"{what}: the combining function returns {len(results)} values for {len(tiles)} "
                "inputs"
            )
        handles = []
        for given, elem in zip(results, elems, strict=True):
            assert isinstance(elem, DType)
            value = s.to_type(given, elem) if not isinstance(given, tensor) else given
            if value.ir_elem is not elem:
                raise LanguageError(
                    f"{what}: the combining function returns {value.dtype} where the input is "
                    f"{name_of(elem)}",
                    "convert the input first, or the result inside of the function",
                )
            handles.append(value.handle)
        s.b.create("yield", handles)
    return block


@builtin
def reduce(
    s: Semantic, input: Any, axis: int | None, combine_fn: Any, keep_dims: bool = False
) -> Any:
    """Combine all elements along `axis` (all elements if it is None) with a jit function of two
    scalars, or of two sets of scalars for a tuple of inputs. The function must be associative and
    commutative.
    """
    tiles = _sources(s, input, "reduce")
    rank = len(tiles[0].ir_shape) if tiles else 0
    if rank == 0:
        raise LanguageError(f"reduce takes a tile, not {describe(input)}")
    keep = s.flag(keep_dims, "reduce: keep_dims")
    if axis is None:
        place = 0
        if rank > 1:
            flat = (tiles[0].numel,)
            tiles = [s.emit("reshape", t.handle, shape=flat) for t in tiles]
    else:
        place = s.axis(axis, rank, "reduce")
    if tiles[0].ir_shape[place] == 0:
        raise LanguageError("reduce: there is nothing to combine along an axis of size 0")
    block = _combine_block(s, tiles, combine_fn, "reduce")
    results = [tensor(v) for v in s.b.reduce([t.handle for t in tiles], block, axis=place)]
    if keep:
        results = [_keep_dims(s, r, rank if axis is None else 0, place) for r in results]
    return tuple(results) if isinstance(input, tuple) else results[0]


def _keep_dims(s: Semantic, x: tensor, all_dims: int, axis: int) -> tensor:
    if all_dims:
        return s.broadcast_to(x, (1,) * all_dims)
    if not x.ir_shape:
        return s.broadcast_to(x, (1,))
    return s.emit("expand_dims", x.handle, axis=axis)


@builtin
def associative_scan(
    s: Semantic, input: Any, axis: int, combine_fn: Any, reverse: bool = False
) -> Any:
    """Running combination along `axis`, each element included; from the end with `reverse`."""
    tiles = _sources(s, input, "associative_scan")
    rank = len(tiles[0].ir_shape) if tiles else 0
    if rank == 0:
        raise LanguageError(f"associative_scan takes a tile, not {describe(input)}")
    place = s.axis(axis, rank, "associative_scan")
    block = _combine_block(s, tiles, combine_fn, "associative_scan")
    backwards = s.flag(reverse, "associative_scan: reverse")
    values = s.b.scan([t.handle for t in tiles], block, axis=place, reverse=backwards)
    results = tuple(tensor(v) for v in values)
    return results if isinstance(input, tuple) else results[0]


def indices_along(s: Semantic, x: tensor, axis: int) -> tensor:
    """The int32 index of every element along one axis, in the shape of `x`."""
    index = s.emit("arange", start=0, end=x.ir_shape[axis])
    for a in range(len(x.ir_shape)):
        if a != axis:
            index = s.emit("expand_dims", index.handle, axis=a)
    return s.broadcast_to(index, x.ir_shape)


@builtin
def _reduce_with_indices(
    s: Semantic, input: Any, axis: int | None, combine_fn: Any, keep_dims: bool = False
) -> Any:
    """Reduce values together with their positions; with axis None the position counts the
    flattened elements.
    """
    x = s.to_tensor(input, "reduce: input")
    rank = len(x.ir_shape)
    if rank == 0:
        raise LanguageError(f"a reduction takes a tile, not {describe(x)}")
    flat = x
    place = 0
    if axis is None:
        flat = s.emit("reshape", x.handle, shape=(x.numel,)) if rank > 1 else x
    else:
        place = s.axis(axis, rank, "reduce")
    index = indices_along(s, flat, place)
    value, position = emit(reduce, s, (flat, index), place, combine_fn)
    if s.flag(keep_dims, "keep_dims"):
        dims = rank if axis is None else 0
        value, position = (_keep_dims(s, r, dims, place) for r in (value, position))
    return value, position


# ---- matrix products


def _accumulator_type(elem: DType, out_dtype: Any, s: Semantic) -> DType:
    if elem.is_int:
        if elem.bits != 8:
            raise LanguageError(
                f"dot takes int8, uint8 or floats, not {name_of(elem)}",
                "convert first: x.to(tl.float32)",
            )
        return i32
    out = f32 if out_dtype is None else s.dtype(out_dtype, "dot: out_dtype")
    if elem is f64:
        return f64
    if out not in (f16, bf16, f32, f64):
        raise LanguageError(f"dot: out_dtype must be a float, not {name_of(out)}")
    assert isinstance(out, DType)
    return out


def _precision(s: Semantic, input_precision: Any, allow_tf32: Any) -> str:
    if input_precision is not None and allow_tf32 is not None:
        raise LanguageError("dot: give input_precision or allow_tf32, not both")
    if allow_tf32 is not None:
        return "tf32" if s.flag(allow_tf32, "dot: allow_tf32") else "ieee"
    if input_precision is None:
        input_precision = s.options.get("default_dot_precision") or "ieee"
    return s.choice(input_precision, PRECISIONS, "dot: input_precision")


@builtin
def dot(
    s: Semantic,
    input: tensor,
    other: tensor,
    acc: Any = None,
    input_precision: str | None = None,
    allow_tf32: bool | None = None,
    max_num_imprecise_acc: int | None = None,
    out_dtype: Dtype | None = None,
) -> tensor:
    """Matrix product of [.., M, K] and [.., K, N], plus `acc`. Sums are made in fp32 (int32 for
    int8, fp64 for fp64, or `out_dtype`)."""
    for name, x in (("first", input), ("second", other)):
        if not isinstance(x, tensor) or len(x.ir_shape) < 2 or not isinstance(x.ir_elem, DType):
            raise LanguageError(
                f"dot: the {name} operand must be a tile of rank 2 or more, not {describe(x)}",
                "use (a * b) and tl.sum for products of vectors",
            )
    a, b = input, other
    _check_dot(a, b)
    assert isinstance(a.ir_elem, DType)
    elem = _accumulator_type(a.ir_elem, out_dtype, s)
    shape = (*a.ir_shape[:-1], b.ir_shape[-1])
    start = as_constant(acc)
    if start is None or (is_number(start) and start == 0):
        total = s.constant(0, elem, shape)
    else:
        total = s.to_tensor(acc, "dot: acc")
        if total.ir_shape != shape:
            raise LanguageError(
                f"dot: acc has shape {list(total.ir_shape)}, the product {list(shape)}"
            )
        given = elem_of(total.ir_type)
        if given is not elem and not (out_dtype is None and given in (f16, f32) and elem is f32):
            raise LanguageError(
                f"dot: acc is {total.dtype} and the product {name_of(elem)}",
                "give acc the product's dtype",
            )
    precision = _precision(s, input_precision, allow_tf32)
    return s.emit("dot", a.handle, b.handle, total.handle, precision=precision)


def _check_dot(a: tensor, b: tensor) -> None:
    ea, eb = a.ir_elem, b.ir_elem
    assert isinstance(ea, DType) and isinstance(eb, DType)
    if ea is not eb and not (ea.is_float and eb.is_float and ea.bits == eb.bits == 8):
        raise LanguageError(
            f"dot: both operands must have the same dtype, not {a.dtype} and {b.dtype}",
            f"convert one of them, for example b.to({a.dtype!r})".replace("tegula.language", "tl"),
        )
    sa, sb = list(a.ir_shape), list(b.ir_shape)
    if len(sa) != len(sb) or sa[:-2] != sb[:-2]:
        raise LanguageError(f"dot: the batch dimensions of {sa} and {sb} differ")
    if sa[-1] != sb[-2]:
        raise LanguageError(
            f"dot: the inner sizes differ: {sa} times {sb}",
            "transpose an operand with tl.trans(x) if that is meant",
        )
