"""Integer arithmetic that launch code needs on the host, and kernels on compile-time values."""

from __future__ import annotations

from tegula.language.builtin import constexpr_function


@constexpr_function
def cdiv(x: int, y: int) -> int:
    """`x / y` rounded up."""
    return -(-x // y)


@constexpr_function
def next_power_of_2(n: int) -> int:
    """The smallest power of two that is at least `n`; 0 for 0."""
    return 0 if n == 0 else 1 << (n - 1).bit_length()
