"""Library functions written in the kernel language itself."""

from __future__ import annotations

from typing import Any

from tegula.frontend.function import device_function

from .builtin import constexpr_function
from .dtypes import dtype as Dtype
from .dtypes import from_ir
from .elementwise import exp, fdiv, maximum, minimum, where
from .reduction import _reduce_with_indices, associative_scan, reduce
from .shape import join, reshape

_int32 = Dtype("int32")
_uint32 = Dtype("uint32")
_float32 = Dtype("fp32")

# ---- arithmetic


@device_function
def cdiv(x: Any, div: Any) -> Any:
    """x / div rounded up, for integers that are not negative."""
    return (x + (div - 1)) // div


@device_function
def sigmoid(x: Any) -> Any:
    """1 / (1 + exp(-x))."""
    return 1.0 / (1.0 + exp(-x))


@device_function
def softmax(x: Any, dim: Any = None, keep_dims: bool = False, ieee_rounding: bool = False) -> Any:
    """exp(x) over its sum along `dim` (the first dimension if left out), computed without
    overflow.
    """
    axis = 0 if dim is None else dim
    shifted = x - max(x, axis, keep_dims=True)
    numerator = exp(shifted)
    denominator = sum(numerator, axis, keep_dims=True)
    return fdiv(numerator, denominator, ieee_rounding)


@device_function
def swizzle2d(i: Any, j: Any, size_i: Any, size_j: Any, size_g: Any) -> Any:
    """Map a row-major position of a size_i x size_j grid to column-major order inside of groups of
    size_g rows.
    """
    position = i * size_j + j
    group_size = size_g * size_j
    first_row = (position // group_size) * size_g
    rows = minimum(size_i - first_row, size_g)
    inside = position % group_size
    return first_row + inside % rows, inside // rows


@device_function
def interleave(a: Any, b: Any) -> Any:
    """The elements of a and b by turns along the last dimension."""
    pairs = join(a, b)
    if len(pairs.shape) == 1:
        return pairs
    return reshape(pairs, (*pairs.shape[:-2], 2 * pairs.shape[-2]))


# ---- reductions


@constexpr_function
def _reduced_dtype(dtype: Dtype) -> Dtype:
    """min and max hand values narrower than 32 bits on as int32 or float32."""
    if dtype.primitive_bitwidth >= 32:
        return dtype
    return _float32 if dtype.is_floating() else _int32


@constexpr_function
def _summed_dtype(dtype: Dtype, wanted: Any) -> Dtype:
    """Sums of integers narrower than 32 bits are made in 32 bits of the same signedness, others in
    their own type.
    """
    if wanted is not None:
        return wanted
    if dtype.is_int() and dtype.int_bitwidth < 32:
        return _int32 if dtype.is_int_signed() else _uint32
    return from_ir(dtype.ir)


@device_function
def _sum_combine(a: Any, b: Any) -> Any:
    return a + b


@device_function
def _prod_combine(a: Any, b: Any) -> Any:
    return a * b


@device_function
def _max_combine(a: Any, b: Any) -> Any:
    return maximum(a, b)


@device_function
def _min_combine(a: Any, b: Any) -> Any:
    return minimum(a, b)


@device_function
def _xor_combine(a: Any, b: Any) -> Any:
    return a ^ b


@device_function
def _or_combine(a: Any, b: Any) -> Any:
    return a | b


@device_function
def _first_wins(
    value1: Any, index1: Any, value2: Any, index2: Any, better: Any, tie_break_left: Any
) -> Any:
    """Which of two candidates to keep: the better one, of equals the one further left; NaN loses
    against everything.
    """
    keep = better
    if tie_break_left:
        keep = keep | ((value1 == value2) & (index1 < index2))
    if value1.dtype.is_floating():
        keep = keep | ((value2 != value2) & ((value1 == value1) | (index1 < index2)))
    return where(keep, value1, value2), where(keep, index1, index2)


@device_function
def _argmax_combine_left(value1: Any, index1: Any, value2: Any, index2: Any) -> Any:
    return _first_wins(value1, index1, value2, index2, value1 > value2, True)


@device_function
def _argmax_combine_any(value1: Any, index1: Any, value2: Any, index2: Any) -> Any:
    return _first_wins(value1, index1, value2, index2, value1 > value2, False)


@device_function
def _argmin_combine_left(value1: Any, index1: Any, value2: Any, index2: Any) -> Any:
    return _first_wins(value1, index1, value2, index2, value1 < value2, True)


@device_function
def _argmin_combine_any(value1: Any, index1: Any, value2: Any, index2: Any) -> Any:
    return _first_wins(value1, index1, value2, index2, value1 < value2, False)


@device_function
def sum(input: Any, axis: Any = None, keep_dims: bool = False, dtype: Any = None) -> Any:
    """Sum along `axis`, or of all elements. Narrow integers are summed in 32 bits unless `dtype`
    says otherwise.
    """
    return reduce(input.to(_summed_dtype(input.dtype, dtype)), axis, _sum_combine, keep_dims)


@device_function
def max(
    input: Any,
    axis: Any = None,
    return_indices: bool = False,
    return_indices_tie_break_left: bool = True,
    keep_dims: bool = False,
) -> Any:
    """Largest element along `axis`, NaN ignored; with `return_indices` also its position."""
    if return_indices:
        if return_indices_tie_break_left:
            return _reduce_with_indices(input, axis, _argmax_combine_left, keep_dims)
        return _reduce_with_indices(input, axis, _argmax_combine_any, keep_dims)
    return reduce(input.to(_reduced_dtype(input.dtype)), axis, _max_combine, keep_dims)


@device_function
def min(
    input: Any,
    axis: Any = None,
    return_indices: bool = False,
    return_indices_tie_break_left: bool = True,
    keep_dims: bool = False,
) -> Any:
    """Smallest element along `axis`, NaN ignored; with `return_indices` also its position."""
    if return_indices:
        if return_indices_tie_break_left:
            return _reduce_with_indices(input, axis, _argmin_combine_left, keep_dims)
        return _reduce_with_indices(input, axis, _argmin_combine_any, keep_dims)
    return reduce(input.to(_reduced_dtype(input.dtype)), axis, _min_combine, keep_dims)


@device_function
def argmax(input: Any, axis: Any, tie_break_left: bool = True, keep_dims: bool = False) -> Any:
    """Position (int32) of the largest element along `axis`; of equal ones the first, unless
    `tie_break_left` is False.
    """
    return max(input, axis, True, tie_break_left, keep_dims)[1]


@device_function
def argmin(input: Any, axis: Any, tie_break_left: bool = True, keep_dims: bool = False) -> Any:
    """Position (int32) of the smallest element along `axis`; of equal ones the first, unless
    `tie_break_left` is False.
    """
    return min(input, axis, True, tie_break_left, keep_dims)[1]


@device_function
def xor_sum(input: Any, axis: Any = None, keep_dims: bool = False) -> Any:
    """Exclusive or of integers along `axis`."""
    return reduce(input, axis, _xor_combine, keep_dims)


@device_function
def reduce_or(input: Any, axis: Any, keep_dims: bool = False) -> Any:
    """Bitwise or of integers along `axis`."""
    return reduce(input, axis, _or_combine, keep_dims)


# ---- scans


@device_function
def cumsum(input: Any, axis: Any = 0, reverse: bool = False, dtype: Any = None) -> Any:
    """Running sum along `axis`; from the end with `reverse`. Narrow integers are summed in 32
    bits.
    """
    return associative_scan(
        input.to(_summed_dtype(input.dtype, dtype)), axis, _sum_combine, reverse
    )


@device_function
def cumprod(input: Any, axis: Any = 0, reverse: bool = False, dtype: Any = None) -> Any:
    """Running product along `axis`, in `dtype` if given; from the end with `reverse`."""
    if dtype is not None:
        input = input.to(dtype)
    return associative_scan(input, axis, _prod_combine, reverse)
