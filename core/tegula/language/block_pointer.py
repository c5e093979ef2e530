"""Block pointers: a window of a strided tensor that moves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tegula.frontend.diagnostics import LanguageError
from tegula.frontend.promotion import name_of
from tegula.ir.types import Pointer, i32, i64

from .builtin import Static, builtin
from .values import block_pointer, describe, is_number, tensor
from .window import integers, place_window

if TYPE_CHECKING:
    from tegula.frontend.semantic import Semantic


@builtin
def make_block_ptr(
    s: Semantic,
    base: tensor,
    shape: Sequence[Any],
    strides: Sequence[Any],
    offsets: Sequence[Any],
    block_shape: Sequence[int],
    order: Static = (),
) -> block_pointer:
    """A pointer to the block of `block_shape` that begins at `offsets` in a tensor of `shape` and
    `strides` (in elements) at `base`. `order` does not change results.
    """
    what = "make_block_ptr"
    if not isinstance(base, tensor) or base.ir_shape or not isinstance(base.ir_elem, Pointer):
        raise LanguageError(f"{what}: base must be a pointer, not {describe(base)}")
    block = s.shape(block_shape, f"{what}: block_shape")
    given = [x if isinstance(x, tuple) else (x,) for x in (shape, strides, offsets)]
    if any(len(x) != len(block) for x in given) or not block:
        sizes = ", ".join(str(len(x)) for x in given)
        raise LanguageError(
            f"{what}: shape, strides and offsets need {len(block)} entries each, as block_shape "
            f"has; they have {sizes}"
        )
    order = tuple(order) if isinstance(order, tuple) else (order,)
    if order and sorted(order) != list(range(len(block))):
        raise LanguageError(f"{what}: order names each dimension once, not {list(order)}")
    return block_pointer(
        base,
        integers(s, given[0], f"{what}: shape", i64),
        integers(s, given[1], f"{what}: strides", i64),
        integers(s, given[2], f"{what}: offsets", i32),
        block,
        order,
    )


@builtin
def advance(s: Semantic, base: block_pointer, offsets: Sequence[Any]) -> block_pointer:
    """The block pointer moved by `offsets` elements in each dimension."""
    if not isinstance(base, block_pointer):
        raise LanguageError(
            f"advance takes a block pointer, not {describe(base)}",
            "ordinary pointers are advanced with +",
        )
    steps = integers(s, offsets if isinstance(offsets, tuple) else (offsets,), "advance: offsets")
    if len(steps) != len(base.offsets):
        raise LanguageError(f"advance: {len(base.offsets)} offsets are needed, got {len(steps)}")
    moved = [
        s.emit("add", old.handle, s.cast(step, i32).handle)
        for old, step in zip(base.offsets, steps, strict=True)
    ]
    return block_pointer(base.base, base.shape, base.strides, moved, base.block_shape, base.order)


def _checked(s: Semantic, p: block_pointer, boundary_check: Any, what: str) -> tuple[int, ...]:
    dims = boundary_check if isinstance(boundary_check, tuple) else (boundary_check,)
    rank = len(p.block_shape)
    return tuple(s.axis(d, rank, f"{what}: boundary_check") for d in dims)


def load_block(s: Semantic, p: block_pointer, boundary_check: Any, padding_option: Any) -> tensor:
    """Read a block; outside of the tensor, checked dimensions are padded."""
    padding = s.choice(padding_option, ("zero", "nan"), "load: padding_option")
    if padding == "nan" and not p.elem.is_float:
        raise LanguageError(f"load: {name_of(p.elem)} has no NaN", 'use padding_option="zero"')
    pointers, mask = place_window(
        s, p.base, p.shape, p.strides, p.offsets, p.block_shape,
        _checked(s, p, boundary_check, "load"),
    )  # fmt: skip
    if mask is None:
        return s.emit("load", pointers.handle)
    attrs = {"mask": mask.handle}
    if padding == "nan":
        attrs["other"] = s.constant(float("nan"), p.elem, p.block_shape).handle
    return s.emit("load", pointers.handle, **attrs)


def store_block(s: Semantic, p: block_pointer, value: Any, boundary_check: Any) -> None:
    """Write a block; what lies outside of the tensor in a checked dimension is dropped."""
    pointers, mask = place_window(
        s, p.base, p.shape, p.strides, p.offsets, p.block_shape,
        _checked(s, p, boundary_check, "store"),
    )  # fmt: skip
    if is_number(value):
        block = s.cast_number(value, p.elem, p.block_shape)
    else:
        given = s.to_tensor(value, "store: value")
        block = s.broadcast_to(s.cast(given, p.elem), p.block_shape)
    masks: dict[str, Any] = {} if mask is None else {"mask": mask.handle}
    s.b.create("store", pointers.handle, block.handle, **masks)
