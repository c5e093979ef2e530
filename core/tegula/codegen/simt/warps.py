"""How many warps suit a kernel where a program's warps run one after the other, as on processors:
there a warp is a turn of a loop, and what warps tell each other goes through memory.
"""

from __future__ import annotations

from math import prod

from tegula.ir.core import Function
from tegula.ir.types import shape_of

PLAIN_WARPS = 4
MOST_WARPS = 64
LONG = 256
"""Registers of a tile beyond which code for one warp takes too long to compile."""
SPLIT_WARPS = 32
"""Into how many such a tile is split."""
MOVED = 32
"""Registers of tiles whose elements change places."""

_COMBINED = frozenset({"reduce", "scan", "sort", "histogram"})
_MOVED = frozenset({"permute", "gather", "slice", "flip", "cat", "reshape"})


def suitable_warps(function: Function, warp_size: int, most: int) -> int:
    """A power of two, at most `most`: an element each if the threads need nothing of each other;
    one warp if they do, so that all passes from register to register."""
    ops = list(function.body.walk())
    names = {op.name for op in ops}
    tiles = [v for op in ops for v in op.results if shape_of(v.type)]
    widths = [-(-prod(shape_of(v.type)) // warp_size) for v in tiles]
    registers = max(widths, default=1)
    if "dot" in names:
        wanted = PLAIN_WARPS
    elif names & _COMBINED:
        wanted = 1 if registers <= LONG else SPLIT_WARPS
    elif names & _MOVED:
        wanted = registers // MOVED
    else:
        wanted = min(registers, MOST_WARPS)
    return 1 << max(1, min(wanted, most)).bit_length() - 1
