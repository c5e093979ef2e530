"""The lines that kernels print, the same on every backend that prints through Python.

    pid (x, y, z) idx (i, j) prefix: value

One line per element; the numbers of an index are as wide as the largest one. Several values of one
print are told apart as `(operand 0)`, `(operand 1)`; a print without values has no index.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

LAYOUT, NO_VALUE = "\x1f", "-"
"""In texts that compiled code hands to a driver: the tile's sizes (or that there is no value), the
separator, and the label.
"""


def start(pid: Sequence[int], index: Sequence[int] | None, shape: Sequence[int]) -> str:
    """The beginning of a line: the program, and the element's place in a tile of `shape`."""
    program = f"pid ({', '.join(map(str, pid))})"
    if index is None:
        return program
    widths = [len(str(size - 1)) for size in shape]
    places = ", ".join(f"{i:{w}}" for i, w in zip(index, widths, strict=True))
    return f"{program} idx ({places})"


def label(prefix: str, operand: int | None) -> str:
    """What stands between the place and the value."""
    space = "" if prefix.startswith(":") or not prefix else " "
    number = "" if operand is None else f"(operand {operand}) "
    return f"{space}{prefix}{number}"


def integer(value: int, bits: int, as_hex: bool) -> str:
    """An integer, or its bits."""
    if not as_hex:
        return str(value)
    return f"0x{value & ((1 << bits) - 1):0{max(1, bits // 4)}x}"


def number(value: float, as_hex: bool) -> str:
    """A float with six decimals, or in hexadecimal without loss."""
    if value != value:
        return "nan"
    if not as_hex or value in (float("inf"), float("-inf")):
        return f"{value:f}"
    mantissa, _, exponent = value.hex().partition("p")
    if "." in mantissa:
        mantissa = mantissa.rstrip("0").rstrip(".")
    return f"{mantissa}p{exponent}"


def pointer(address: int) -> str:
    """An address."""
    return f"0x{address:016x}"


def normal_prefix(prefix: str, has_values: bool) -> str:
    """A prefix as it is printed: before values it ends in a colon and a space."""
    if not has_values:
        return prefix.strip()
    text = prefix.strip()
    return f"{text} " if text.endswith(":") else f"{text}: "


def element(value: Any, as_hex: bool) -> str:
    """A numpy scalar or truth value."""
    import numpy as np

    if value.dtype.kind in "iub":
        return integer(int(value), 1 if value.dtype.kind == "b" else 8 * value.itemsize, as_hex)
    return number(float(np.float64(value)), as_hex)
