"""Entering a native launch function from Python: for tests and simple tools, since each launch that
counts goes through the compiled stub.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from functools import cache
from typing import Any

_FORMATS = {"f32": "f", "f64": "d"}
_MASK = 0xFFFF_FFFF_FFFF_FFFF


def slot(param: str, value: Any) -> bytes:
    """The 8-byte slot of one argument; `param` is its IR type as text."""
    if param in _FORMATS:
        return struct.pack("<" + _FORMATS[param], value).ljust(8, b"\0")
    return struct.pack("<Q", int(value) & _MASK)


@cache
def _function(address: int) -> Any:
    number, pointer = ctypes.c_int32, ctypes.c_void_p
    kind = ctypes.CFUNCTYPE(
        number, pointer, ctypes.c_char_p, ctypes.c_int64, number, number, number, pointer
    )
    return kind(address)


def enter(
    address: int,
    handle: int,
    params: Sequence[str],
    grid: tuple[int, int, int],
    args: Sequence[Any],
    stream: int = 0,
) -> int:
    """Call the launch function at `address`; its result."""
    slots = b"".join(slot(param, value) for param, value in zip(params, args, strict=True))
    return int(_function(address)(handle, slots, len(args), *grid, stream))
