"""Launch grids: one to three counts of programs."""

from __future__ import annotations

import operator
from typing import Any

from tegula.errors import GridError, GridTypeError

MAX_PROGRAMS = (1 << 31) - 1

Grid = tuple[int, int, int]


def normalize(kernel: str, grid: Any) -> Grid:
    """The grid as three ints; what is no grid is an error that says what is wrong with it."""
    if isinstance(grid, tuple | list):
        dims = list(grid)
    else:
        try:
            dims = [operator.index(grid)]
        except TypeError:
            raise GridTypeError(
                f"the grid of kernel `{kernel}` is {grid!r}; it has to be an int, a tuple of one "
                "to three ints, or a function that returns one"
            ) from None
    if not 1 <= len(dims) <= 3:
        raise GridError(
            f"the grid of kernel `{kernel}` is {grid!r}: it has {len(dims)} dimensions, and one to "
            "three are possible"
        )
    x, y, z = [_dimension(kernel, grid, i, n) for i, n in enumerate(dims)] + [1] * (3 - len(dims))
    return x, y, z


def _dimension(kernel: str, grid: Any, index: int, value: Any) -> int:
    try:
        count = operator.index(value)
    except TypeError:
        remedy = "; use // or tegula.cdiv instead of /" if isinstance(value, float) else ""
        raise GridTypeError(
            f"dimension {index} of the grid {grid!r} of kernel `{kernel}` is of type "
            f"{type(value).__name__}, not int{remedy}"
        ) from None
    if count < 0:
        raise GridError(
            f"dimension {index} of the grid {grid!r} of kernel `{kernel}` is negative; "
            "0 launches nothing"
        )
    if count > MAX_PROGRAMS:
        raise GridError(
            f"dimension {index} of the grid {grid!r} of kernel `{kernel}` is above {MAX_PROGRAMS}"
        )
    return count
