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
def cdiv(x, div):
    """x / div rounded up, for integers that are not negative."""
    return (x + (div - 1)) // div


@device_function
def sigmoid(x):
    """1 / (1 + exp(-x))."""
    return 1.0 / (1.0 + exp(-x))


@device_function
def softmax(x, dim=None, keep_dims=False, ieee_rounding=False):
    """exp(x) over its sum along `dim` (the first dimension if left out), computed without
    overflow.
    """
    axis = 0 if dim is None else dim
    shifted = x - max(x, axis, keep_dims=True)
    numerator = exp(shifted)
    denominator = sum(numerator, axis, keep_dims=True)
    return fdiv(numerator, denominator, ieee_rounding)


@device_function
def swizzle2d(i, j, size_i, size_j, size_g):
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
def interleave(a, b):
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
        return wanted  # type: ignore[no-any-return]
    if dtype.is_int() and dtype.int_bitwidth < 32:
        return _int32 if dtype.is_int_signed() else _uint32
    return from_ir(dtype.ir)  # type: ignore[no-any-return]


@device_function
def _sum_combine(a, b):
    return a + b


@device_function
def _prod_combine(a, b):
    return a * b


@device_function
def _max_combine(a, b):
    return maximum(a, b)


@device_function
def _min_combine(a, b):
    return minimum(a, b)


@device_function
def _xor_combine(a, b):
    return a ^ b


@device_function
def _or_combine(a, b):
    return a | b


@device_function
def _first_wins(value1, index1, value2, index2, better, tie_break_left):
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
def _argmax_combine_left(value1, index1, value2, index2):
    return _first_wins(value1, index1, value2, index2, value1 > value2, True)


@device_function
def _argmax_combine_any(value1, index1, value2, index2):
    return _first_wins(value1, index1, value2, index2, value1 > value2, False)


@device_function
def _argmin_combine_left(value1, index1, value2, index2):
    return _first_wins(value1, index1, value2, index2, value1 < value2, True)


@device_function
def _argmin_combine_any(value1, index1, value2, index2):
    return _first_wins(value1, index1, value2, index2, value1 < value2, False)


@device_function
def sum(input, axis=None, keep_dims=False, dtype=None):
    """Sum along `axis`, or of all elements. Narrow integers are summed in 32 bits unless `dtype`
    says otherwise.
    """
    return reduce(input.to(_summed_dtype(input.dtype, dtype)), axis, _sum_combine, keep_dims)


@device_function
def max(
    input, axis=None, return_indices=False, return_indices_tie_break_left=True, keep_dims=False
):
    """Largest element along `axis`, NaN ignored; with `return_indices` also its position."""
    if return_indices:
        if return_indices_tie_break_left:
            return _reduce_with_indices(input, axis, _argmax_combine_left, keep_dims)
        return _reduce_with_indices(input, axis, _argmax_combine_any, keep_dims)
    return reduce(input.to(_reduced_dtype(input.dtype)), axis, _max_combine, keep_dims)


@device_function
def min(
    input, axis=None, return_indices=False, return_indices_tie_break_left=True, keep_dims=False
):
    """Smallest element along `axis`, NaN ignored; with `return_indices` also its position."""
    if return_indices:
        if return_indices_tie_break_left:
            return _reduce_with_indices(input, axis, _argmin_combine_left, keep_dims)
        return _reduce_with_indices(input, axis, _argmin_combine_any, keep_dims)
    return reduce(input.to(_reduced_dtype(input.dtype)), axis, _min_combine, keep_dims)


@device_function
def argmax(input, axis, tie_break_left=True, keep_dims=False):
    """Position (int32) of the largest element along `axis`; of equal ones the first, unless
    `tie_break_left` is False.
    """
    return max(input, axis, True, tie_break_left, keep_dims)[1]


@device_function
def argmin(input, axis, tie_break_left=True, keep_dims=False):
    """Position (int32) of the smallest element along `axis`; of equal ones the first, unless
    `tie_break_left` is False.
    """
    return min(input, axis, True, tie_break_left, keep_dims)[1]


@device_function
def xor_sum(input, axis=None, keep_dims=False):
    """Exclusive or of integers along `axis`."""
    return reduce(input, axis, _xor_combine, keep_dims)


@device_function
def reduce_or(input, axis, keep_dims=False):
    """Bitwise or of integers along `axis`."""
    return reduce(input, axis, _or_combine, keep_dims)


# ---- scans


@device_function
def cumsum(input, axis=0, reverse=False, dtype=None):
    """Running sum along `axis`; from the end with `reverse`. Narrow integers are summed in 32
    bits.
    """
    return associative_scan(
        input.to(_summed_dtype(input.dtype, dtype)), axis, _sum_combine, reverse
    )


@device_function
def cumprod(input, axis=0, reverse=False):
    """Running product along `axis`; from the end with `reverse`."""
    return associative_scan(input, axis, _prod_combine, reverse)
