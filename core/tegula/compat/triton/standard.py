"""Inner names of `triton.language.standard` that programs reach for."""

from __future__ import annotations

from tegula.language.builtin import constexpr_function
from tegula.language.standard import (
    _argmax_combine_any as _argmax_combine_tie_break_fast,
)
from tegula.language.standard import (
    _argmax_combine_left as _argmax_combine_tie_break_left,
)
from tegula.language.standard import (
    _argmin_combine_any as _argmin_combine_tie_break_fast,
)
from tegula.language.standard import (
    _argmin_combine_left as _argmin_combine_tie_break_left,
)
from tegula.language.standard import (
    _max_combine as _elementwise_max,
)
from tegula.language.standard import (
    _min_combine as _elementwise_min,
)
from tegula.language.standard import (
    _or_combine,
    _prod_combine,
    _sum_combine,
    _xor_combine,
)


@constexpr_function
def _log2(number: int) -> int:
    """The exponent of the largest power of two up to a number."""
    return number.bit_length() - 1


@constexpr_function
def _is_power_of_two(number: int) -> bool:
    return number > 0 and number & (number - 1) == 0


__all__ = [
    "_argmax_combine_tie_break_fast",
    "_argmax_combine_tie_break_left",
    "_argmin_combine_tie_break_fast",
    "_argmin_combine_tie_break_left",
    "_elementwise_max",
    "_elementwise_min",
    "_is_power_of_two",
    "_log2",
    "_or_combine",
    "_prod_combine",
    "_sum_combine",
    "_xor_combine",
]
