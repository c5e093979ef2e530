"""Integer arithmetic that launch code needs on the host."""

from __future__ import annotations


def cdiv(x: int, y: int) -> int:
    """`x / y` rounded up."""
    return -(-x // y)


def next_power_of_2(n: int) -> int:
    """The smallest power of two that is at least `n`; 0 for 0."""
    return 0 if n == 0 else 1 << (n - 1).bit_length()
