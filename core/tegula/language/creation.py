"""The program's place in the grid, and new tiles."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tegula.frontend.diagnostics import LanguageError
from tegula.ir.types import DType, i32

from .builtin import Static, builtin
from .dtypes import dtype as Dtype
from .values import describe, is_number, tensor

if TYPE_CHECKING:
    from tegula.frontend.semantic import Semantic


def _grid_axis(axis: Any, what: str) -> int:
    if axis not in (0, 1, 2) or isinstance(axis, bool):
        shown = axis if is_number(axis) else describe(axis)
        raise LanguageError(f"{what}: axis must be 0, 1 or 2, not {shown}", "a grid has three axes")
    return int(axis)


@builtin
def program_id(s: Semantic, axis: int) -> tensor:
    """Index of this program along `axis` of the grid, an int32."""
    return s.emit("program_id", axis=_grid_axis(axis, "program_id"))


@builtin
def num_programs(s: Semantic, axis: int) -> tensor:
    """Number of programs along `axis` of the grid, an int32."""
    return s.emit("num_programs", axis=_grid_axis(axis, "num_programs"))


@builtin
def arange(s: Semantic, start: int, end: int | None = None) -> tensor:
    """The integers start, start + 1, ..., end - 1, as int32. Any length is allowed; both ends are
    compile-time values.
    """
    if end is None:
        start, end = 0, start
    for name, x in (("start", start), ("end", end)):
        if not isinstance(x, int) or isinstance(x, bool):
            raise LanguageError(
                f"arange: {name} must be a compile-time integer, not {describe(x)}",
                "annotate the parameter with tl.constexpr, or add a runtime start: start + "
                "tl.arange(0, N)",
            )
    if end < start:
        raise LanguageError(f"arange: the end {end} is before the start {start}")
    if not (i32.min_value <= start and end <= i32.max_value + 1):
        raise LanguageError(f"arange: {start}..{end} does not fit int32")
    return s.emit("arange", start=start, end=end)


@builtin
def full(s: Semantic, shape: Static, value: Any, dtype: Dtype | None = None) -> tensor:
    """A tile of `shape` filled with a number or a scalar, of `dtype` (the value's own if left
    out).
    """
    dims = s.shape(shape, "full")
    if isinstance(value, tensor):
        if value.ir_shape and value.numel != 1:
            raise LanguageError(f"full: the value must be a scalar, not {describe(value)}")
        if value.ir_shape:
            value = s.emit("reshape", value.handle, shape=())
        elem = value.ir_elem if dtype is None else s.dtype(dtype, "full: dtype")
        return s.broadcast_to(s.cast(value, elem), dims)
    if not is_number(value):
        raise LanguageError(f"full: the value must be a number or a scalar, not {describe(value)}")
    if dtype is None:
        return s.broadcast_to(s.to_tensor(value), dims)
    elem = s.dtype(dtype, "full: dtype")
    if not isinstance(elem, DType):
        return s.broadcast_to(s.cast(s.to_tensor(value), elem), dims)
    return s.number(value, elem, dims)


@builtin
def zeros(s: Semantic, shape: Static, dtype: Dtype) -> tensor:
    """A tile of zeros."""
    return s.constant(0, s.dtype(dtype, "zeros: dtype"), s.shape(shape, "zeros"))


@builtin
def zeros_like(s: Semantic, input: tensor) -> tensor:
    """Zeros of the shape and dtype of `input`."""
    x = s.to_tensor(input, "zeros_like: input")
    return s.constant(0, x.ir_elem, x.ir_shape)


@builtin
def to_tensor(s: Semantic, x: Any) -> tensor:
    """A number as a runtime scalar of the type it has on its own; tensors stay as they are."""
    return s.to_tensor(x)


@builtin
def cast(
    s: Semantic,
    input: Any,
    dtype: Dtype,
    fp_downcast_rounding: str | None = None,
    bitcast: bool = False,
) -> tensor:
    """Convert to `dtype` by value, or by bits with `bitcast=True`. Narrowing floats round to
    nearest even, or toward zero with `fp_downcast_rounding="rtz"`."""
    elem = s.dtype(dtype, "the target of a cast")
    if is_number(input) and isinstance(elem, DType) and not bitcast:
        return s.cast_number(input, elem)
    x = s.to_tensor(input, "the operand of a cast")
    if s.flag(bitcast, "bitcast"):
        return s.bitcast(x, elem)
    if fp_downcast_rounding is not None:
        s.choice(fp_downcast_rounding, ("rtne", "rtz"), "fp_downcast_rounding")
        narrows = (
            isinstance(x.ir_elem, DType) and isinstance(elem, DType)
            and x.ir_elem.is_float and elem.is_float and elem.bits < x.ir_elem.bits
        )  # fmt: skip
        if not narrows and x.ir_elem is not elem:
            raise LanguageError(
                "fp_downcast_rounding is only for casts from a float to a narrower float"
            )
    return s.cast(x, elem, fp_downcast_rounding)
