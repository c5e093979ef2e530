"""Tensor descriptors: strided tensors in memory that are read and written in blocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tegula.frontend.diagnostics import LanguageError
from tegula.frontend.promotion import name_of
from tegula.ir.types import DType, Pointer, i32, i64

from .builtin import builtin
from .values import describe, is_number, tensor, tensor_descriptor

if TYPE_CHECKING:
    from tegula.frontend.semantic import Semantic


def _integers(s: Semantic, xs: Any, what: str, widen: DType | None = None) -> list[tensor]:
    if not isinstance(xs, tuple):
        raise LanguageError(f"{what} must be a list of integers, not {describe(xs)}")
    out = []
    for x in xs:
        t = (
            s.to_tensor(x, what)
            if not isinstance(x, int)
            else s.number(x, i64 if abs(x) >> 31 else i32)
        )
        if t.ir_shape or not (isinstance(t.ir_elem, DType) and t.ir_elem.is_int):
            raise LanguageError(f"{what} must be integer scalars, not {describe(t)}")
        out.append(s.cast(t, widen) if widen is not None else t)
    return out


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
    if not 1 <= len(block) <= 5:
        raise LanguageError(f"{what}: a descriptor has 1 to 5 dimensions, not {len(block)}")
    if is_number(strides[-1]) and strides[-1] != 1:
        raise LanguageError(
            f"{what}: the last stride must be 1, not {strides[-1]}",
            "order the dimensions so that the last is contiguous",
        )
    padding = s.choice(padding_option, ("zero", "nan"), f"{what}: padding_option")
    if padding == "nan" and not base.ir_elem.elem.is_float:
        raise LanguageError(
            f"{what}: {name_of(base.ir_elem.elem)} has no NaN", 'use padding_option="zero"'
        )
    sizes = _integers(s, shape, f"{what}: shape")
    steps = _integers(s, strides, f"{what}: strides", i64)
    return describe_tensor(s, base, sizes, steps, block, padding)


def describe_tensor(
    s: Semantic,
    base: tensor,
    shape: Sequence[tensor],
    strides: Sequence[tensor],
    block_shape: tuple[int, ...],
    padding: str,
) -> tensor_descriptor:
    """A descriptor from values that are already checked."""
    handle = s.b.create(
        "make_descriptor",
        base.handle,
        [x.handle for x in shape],
        [x.handle for x in strides],
        block_shape=block_shape,
        padding=padding,
    )
    return tensor_descriptor(handle, shape, strides)


def _offsets(s: Semantic, desc: Any, offsets: Any, what: str) -> list[Any]:
    if not isinstance(desc, tensor_descriptor):
        raise LanguageError(f"{what} takes a tensor descriptor, not {describe(desc)}")
    given = _integers(s, offsets if isinstance(offsets, tuple) else (offsets,), f"{what}: offsets")
    if len(given) != len(desc.block_shape):
        raise LanguageError(f"{what}: {len(desc.block_shape)} offsets are needed, got {len(given)}")
    return [x.handle for x in given]


@builtin
def load_tensor_descriptor(
    s: Semantic,
    desc: tensor_descriptor,
    offsets: Sequence[Any],
    cache_modifier: str = "",
    eviction_policy: str = "",
) -> tensor:
    """The block of the tensor that begins at `offsets`."""
    return s.emit("desc_load", desc.handle, _offsets(s, desc, offsets, "load"))  # type: ignore[arg-type]


@builtin
def store_tensor_descriptor(
    s: Semantic, desc: tensor_descriptor, offsets: Sequence[Any], value: Any
) -> None:
    """Write a block at `offsets`; what lies outside of the tensor is dropped."""
    where = _offsets(s, desc, offsets, "store")
    elem: Any = desc.handle.type.elem  # type: ignore[union-attr]
    if is_number(value):
        block = s.cast_number(value, elem, desc.block_shape)
    else:
        given = s.to_tensor(value, "store: value")
        block = s.broadcast_to(s.cast(given, elem), desc.block_shape)
    s.b.create("desc_store", desc.handle, block.handle, where)


DESCRIPTOR_METHODS = {"load": load_tensor_descriptor, "store": store_tensor_descriptor}
