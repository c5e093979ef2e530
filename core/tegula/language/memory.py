"""Loads and stores through pointers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tegula.frontend.diagnostics import LanguageError
from tegula.ir.types import DType, Pointer

from .block_pointer import load_block, store_block
from .builtin import Static, builtin
from .values import block_pointer, describe, is_number, tensor, tensor_descriptor

if TYPE_CHECKING:
    from tegula.frontend.semantic import Semantic

CACHE_LOAD = ("", ".ca", ".cg", ".cs", ".cv")
CACHE_STORE = ("", ".wb", ".cg", ".cs", ".wt")
EVICTION = ("", "evict_first", "evict_last", "evict_normal")


def pointer_operand(s: Semantic, pointer: Any, what: str) -> tuple[tensor, DType]:
    """A pointer argument and the dtype behind it."""
    if isinstance(pointer, tensor) and isinstance(pointer.ir_elem, Pointer):
        return pointer, pointer.ir_elem.elem
    hint = "the first argument is a pointer parameter of the kernel, plus offsets"
    if isinstance(pointer, block_pointer):
        hint = "block pointers are for tl.load and tl.store"
    if isinstance(pointer, tensor_descriptor):
        hint = "a descriptor has methods: desc.load(offsets), desc.store(offsets, value)"
    raise LanguageError(f"{what} takes a pointer, not {describe(pointer)}", hint)


def stored(s: Semantic, value: Any, pointer: tensor, elem: DType, what: str) -> tensor:
    """The value to write, in the pointer's shape and element type."""
    if is_number(value):
        return s.cast_number(value, elem, pointer.ir_shape)
    x = s.to_tensor(value, f"the value of {what}")
    if x.ir_shape and not pointer.ir_shape:
        raise LanguageError(
            f"{what}: {describe(x)} cannot go through a pointer to one element",
            "make the pointer a tile as well: ptr + offsets",
        )
    return s.broadcast_to(s.cast(x, elem), pointer.ir_shape)


def writable(pointer: tensor, what: str) -> None:
    """Refuse pointers that are declared constant."""
    if isinstance(pointer.ir_elem, Pointer) and pointer.ir_elem.const:
        name = _parameter(pointer)
        whose = f": `{name}` is read-only" if name else ""
        raise LanguageError(
            f"{what}: Cannot store to a constant pointer{whose}",
            "pass a writable array, or remove the annotation tl.const",
        )


def _parameter(pointer: tensor) -> str | None:
    """The parameter that a pointer was computed from, if that is plain."""
    value = pointer.handle
    while value.owner is not None and value.owner.operands:
        value = value.owner.operands[0]
    return value.name


def _no_window(what: str, boundary_check: Any, padding_option: Any) -> None:
    if boundary_check not in ((), None) or padding_option not in ("", None):
        raise LanguageError(
            f"{what}: boundary_check and padding_option are for block pointers",
            "use mask= and other= with ordinary pointers",
        )


@builtin
def load(
    s: Semantic,
    pointer: tensor,
    mask: Any = None,
    other: Any = None,
    boundary_check: Static = (),
    padding_option: str = "",
    cache_modifier: str = "",
    eviction_policy: str = "",
    volatile: bool = False,
) -> tensor:
    """Read through pointers. Where `mask` is false nothing is read and the result is `other`, or 0
    without one. `boundary_check` and `padding_option` are for block pointers.
    """
    if isinstance(pointer, block_pointer):
        if mask is not None or other is not None:
            raise LanguageError(
                "load: a block pointer takes no mask",
                "name the dimensions to check: boundary_check=(0, 1)",
            )
        return load_block(s, pointer, boundary_check, padding_option)
    _no_window("load", boundary_check, padding_option)
    ptr, elem = pointer_operand(s, pointer, "load")
    if other is not None and mask is None:
        raise LanguageError("load: `other` needs a mask", "pass mask= too, or leave `other` out")
    attrs: dict[str, Any] = {}
    cache = s.choice(cache_modifier, CACHE_LOAD, "load: cache_modifier")
    evict = s.choice(eviction_policy, EVICTION, "load: eviction_policy")
    if cache:
        attrs["cache"] = cache
    if evict:
        attrs["evict"] = evict
    if s.flag(volatile, "load: volatile"):
        attrs["volatile"] = True
    enabled = s.mask(mask, ptr.ir_shape, "load")
    if enabled is not None:
        attrs["mask"] = enabled.handle
        if other is not None:
            attrs["other"] = stored(s, other, ptr, elem, "load: other").handle
    return s.emit("load", ptr.handle, **attrs)


@builtin
def store(
    s: Semantic,
    pointer: tensor,
    value: Any,
    mask: Any = None,
    boundary_check: Static = (),
    cache_modifier: str = "",
    eviction_policy: str = "",
) -> None:
    """Write through pointers where `mask` is true. The value is broadcast and converted to the
    element type. `boundary_check` is for block pointers.
    """
    if isinstance(pointer, block_pointer):
        if mask is not None:
            raise LanguageError(
                "store: a block pointer takes no mask",
                "name the dimensions to check: boundary_check=(0, 1)",
            )
        writable(pointer.base, "store")
        store_block(s, pointer, value, boundary_check)
        return
    _no_window("store", boundary_check, "")
    ptr, elem = pointer_operand(s, pointer, "store")
    writable(ptr, "store")
    attrs: dict[str, Any] = {}
    cache = s.choice(cache_modifier, CACHE_STORE, "store: cache_modifier")
    evict = s.choice(eviction_policy, EVICTION, "store: eviction_policy")
    if cache:
        attrs["cache"] = cache
    if evict:
        attrs["evict"] = evict
    data = stored(s, value, ptr, elem, "store")
    enabled = s.mask(mask, ptr.ir_shape, "store")
    if enabled is not None:
        attrs["mask"] = enabled.handle
    s.b.create("store", ptr.handle, data.handle, **attrs)
