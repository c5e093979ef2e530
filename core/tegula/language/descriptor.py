"""Tensor descriptors: strided tensors in memory that are read and written in blocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tegula.frontend.diagnostics import LanguageError
from tegula.frontend.promotion import name_of
from tegula.ir.core import Value
from tegula.ir.types import DType, Pointer, i64

from .builtin import builtin
from .values import as_constant, describe, is_number, tensor, tensor_descriptor
from .window import integers, place_rows, place_window

if TYPE_CHECKING:
    from tegula.frontend.semantic import Semantic

MAX_RANK = 5


@builtin
def make_tensor_descriptor(
    s: Semantic,
    base: tensor,
    shape: Sequence[Any],
    strides: Sequence[Any],
    block_shape: Sequence[int],
    padding_option: str = "zero",
) -> tensor_descriptor:
    """Describe a tensor of `shape` and `strides` (in elements, the last one 1) at `base`, read in
    blocks of `block_shape`.

    Reads outside of the tensor give 0, or NaN with `padding_option="nan"`; writes outside are
    dropped.
    """
    what = "make_tensor_descriptor"
    if not isinstance(base, tensor) or base.ir_shape or not isinstance(base.ir_elem, Pointer):
        raise LanguageError(f"{what}: base must be a pointer, not {describe(base)}")
    block = s.shape(block_shape, f"{what}: block_shape")
    if not (isinstance(shape, tuple) and isinstance(strides, tuple)):
        raise LanguageError(f"{what}: shape and strides are lists")
    if not len(shape) == len(strides) == len(block):
        raise LanguageError(
            f"{what}: shape has {len(shape)} entries, strides {len(strides)} and block_shape "
            f"{len(block)}"
        )
    if not 1 <= len(block) <= MAX_RANK:
        raise LanguageError(f"{what}: a descriptor has 1 to 5 dimensions, not {len(block)}")
    last = as_constant(strides[-1])
    if is_number(last) and last != 1:
        raise LanguageError(
            f"{what}: the last stride must be 1, not {last}",
            "order the dimensions so that the last is contiguous",
        )
    padding = s.choice(padding_option, ("zero", "nan"), f"{what}: padding_option")
    if padding == "nan" and not base.ir_elem.elem.is_float:
        raise LanguageError(
            f"{what}: {name_of(base.ir_elem.elem)} has no NaN", 'use padding_option="zero"'
        )
    sizes = integers(s, shape, f"{what}: shape")
    steps = integers(s, strides, f"{what}: strides", i64)
    return tensor_descriptor(base, sizes, steps, block, padding)


def _descriptor(desc: Any, what: str) -> tensor_descriptor:
    if not isinstance(desc, tensor_descriptor):
        raise LanguageError(f"{what} takes a tensor descriptor, not {describe(desc)}")
    return desc


def _offsets(s: Semantic, desc: Any, offsets: Any, what: str) -> list[tensor]:
    d = _descriptor(desc, what)
    given = integers(s, offsets if isinstance(offsets, tuple) else (offsets,), f"{what}: offsets")
    if len(given) != len(d.block_shape):
        raise LanguageError(f"{what}: {len(d.block_shape)} offsets are needed, got {len(given)}")
    return given


def _handle(s: Semantic, desc: tensor_descriptor) -> Value:
    """The descriptor as a value of the IR, made where it is used: loops and branches hand on the
    scalars that it consists of.
    """
    made: Value = s.b.create(
        "make_descriptor",
        desc.base.handle,
        [x.handle for x in desc.shape],
        [x.handle for x in desc.strides],
        block_shape=desc.block_shape,
        padding=desc.padding,
    )
    return made


def _block(
    s: Semantic, desc: tensor_descriptor, value: Any, shape: tuple[int, ...], what: str
) -> tensor:
    """A value to write, in the element type and the shape of a block."""
    if is_number(value):
        return s.cast_number(value, desc.elem, shape)
    given = s.cast(s.to_tensor(value, f"{what}: value"), desc.elem)
    if given.ir_shape != shape and given.numel == _numel(shape):
        return s.emit("reshape", given.handle, shape=shape)
    return s.broadcast_to(given, shape)


def _numel(shape: tuple[int, ...]) -> int:
    out = 1
    for size in shape:
        out *= size
    return out


@builtin
def load_tensor_descriptor(
    s: Semantic,
    desc: tensor_descriptor,
    offsets: Sequence[Any],
    cache_modifier: str = "",
    eviction_policy: str = "",
) -> tensor:
    """The block of the tensor that begins at `offsets`."""
    places = [x.handle for x in _offsets(s, desc, offsets, "load")]
    return s.emit("desc_load", _handle(s, desc), places)  # type: ignore[arg-type]


@builtin
def store_tensor_descriptor(
    s: Semantic, desc: tensor_descriptor, offsets: Sequence[Any], value: Any
) -> None:
    """Write a block at `offsets`; what lies outside of the tensor is dropped."""
    places = [x.handle for x in _offsets(s, desc, offsets, "store")]
    _writable(desc, "store")
    block = _block(s, desc, value, desc.block_shape, "store")
    s.b.create("desc_store", _handle(s, desc), block.handle, places)


def _writable(desc: tensor_descriptor, what: str) -> None:
    pointer = desc.base.ir_elem
    if isinstance(pointer, Pointer) and pointer.const:
        raise LanguageError(
            f"{what}: cannot write through a descriptor of constant memory",
            "make the descriptor from a writable pointer",
        )


# ---- rows that are picked by index


def _rows(
    s: Semantic, desc: Any, x_offsets: Any, y_offset: Any, what: str
) -> tuple[tensor_descriptor, tensor, tensor, tensor]:
    """Pointers and mask of the picked rows."""
    d = _descriptor(desc, what)
    if len(d.block_shape) != 2 or d.block_shape[0] != 1:
        raise LanguageError(
            f"{what} picks rows of a tensor of two dimensions in blocks of one row, not of shape "
            f"{list(d.block_shape)}",
            "make the descriptor with block_shape=[1, N]",
        )
    rows = s.to_tensor(x_offsets, f"{what}: x_offsets")
    if len(rows.ir_shape) != 1 or not (isinstance(rows.ir_elem, DType) and rows.ir_elem.is_int):
        raise LanguageError(
            f"{what}: x_offsets must be integers in one dimension, not {describe(rows)}"
        )
    (column,) = integers(s, (y_offset,), f"{what}: y_offset")
    pointers, inside = place_rows(s, d.base, d.shape, d.strides, rows, column, d.block_shape[1])
    return d, rows, pointers, inside


@builtin
def gather_tensor_descriptor(
    s: Semantic, desc: tensor_descriptor, x_offsets: tensor, y_offset: Any
) -> tensor:
    """The rows `x_offsets` of a matrix, from column `y_offset` on."""
    d, _, pointers, inside = _rows(s, desc, x_offsets, y_offset, "gather")
    other = {}
    if d.padding == "nan":
        other["other"] = s.constant(float("nan"), d.elem, pointers.ir_shape).handle
    return s.emit("load", pointers.handle, mask=inside.handle, **other)


@builtin
def scatter_tensor_descriptor(
    s: Semantic, desc: tensor_descriptor, value: Any, x_offsets: tensor, y_offset: Any
) -> None:
    """Write rows of a matrix at the places `x_offsets`, from column `y_offset` on."""
    d, _, pointers, inside = _rows(s, desc, x_offsets, y_offset, "scatter")
    _writable(d, "scatter")
    block = _block(s, d, value, pointers.ir_shape, "scatter")
    s.b.create("store", pointers.handle, block.handle, mask=inside.handle)


# ---- atomic updates


def _check_atomic(kind: str, elem: DType) -> None:
    numeric = kind in ("add", "min", "max")
    fits = (elem.is_int and elem.bits >= 32) or (numeric and elem.is_float and elem.bits >= 16)
    if not fits:
        floats = " and floats from fp16 on" if numeric else ""
        raise LanguageError(
            f"atomic_{kind} of a descriptor does not work on {name_of(elem)}",
            f"it works on integers of 32 and 64 bits{floats}",
        )


def _atomic(s: Semantic, kind: str, desc: Any, offsets: Any, value: Any) -> None:
    what = f"atomic_{kind}"
    places = _offsets(s, desc, offsets, what)
    _writable(desc, what)
    _check_atomic(kind, desc.elem)
    block = _block(s, desc, value, desc.block_shape, what)
    pointers, inside = place_window(
        s, desc.base, desc.shape, desc.strides, places, desc.block_shape,
        range(len(desc.block_shape)),
    )  # fmt: skip
    masks = {} if inside is None else {"mask": inside.handle}
    s.emit("atomic_rmw", pointers.handle, block.handle, kind=kind, sem="relaxed", **masks)


def _declare(kind: str, doc: str) -> Any:
    def emit(s: Semantic, desc: tensor_descriptor, offsets: Sequence[Any], value: Any) -> None:
        _atomic(s, kind, desc, offsets, value)

    emit.__name__ = emit.__qualname__ = f"descriptor_atomic_{kind}"
    emit.__doc__ = doc
    return builtin(emit)


DESCRIPTOR_METHODS = {
    "load": load_tensor_descriptor,
    "store": store_tensor_descriptor,
    "gather": gather_tensor_descriptor,
    "scatter": scatter_tensor_descriptor,
    "atomic_add": _declare("add", "Add a block to the tensor, each element as one step."),
    "atomic_min": _declare("min", "Keep the smaller elements, each as one step."),
    "atomic_max": _declare("max", "Keep the larger elements, each as one step."),
    "atomic_and": _declare("and", "Bitwise and with the tensor, each element as one step."),
    "atomic_or": _declare("or", "Bitwise or with the tensor, each element as one step."),
    "atomic_xor": _declare("xor", "Bitwise exclusive or, each element as one step."),
}
