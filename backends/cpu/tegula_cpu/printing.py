"""Turns the print records of a launch into text on Python's standard output."""

from __future__ import annotations

import ctypes
import struct
import sys
import traceback

from tegula.printing import LAYOUT, NO_VALUE, integer, number, pointer, start
from tegula_cpu.pool_ir import offset

_RECORD = struct.Struct("<QQI3iI8i")
_SIGNED, _UNSIGNED, _F32, _F64, _POINTER = range(5)
_HEX = 16


def print_records(address: int, count: int) -> None:
    """Print `count` records at `address`, ordered by program; called from native code."""
    try:
        raw = ctypes.string_at(address, count * offset("print", "size"))
        step = offset("print", "size")
        records = [_RECORD.unpack_from(raw, i * step) for i in range(count)]
        records.sort(key=lambda r: (r[5], r[4], r[3]))  # stable: a program's own order is kept
        sys.stdout.write("".join(_line(record) for record in records))
    except Exception:  # nothing may travel into native code
        traceback.print_exc()


def _line(record: tuple[int, ...]) -> str:
    prefix, bits, kind, x, y, z, rank = record[:7]
    text = ctypes.string_at(prefix).decode("utf-8", "replace")
    layout, separator, label = text.partition(LAYOUT)
    if separator:
        if layout == NO_VALUE:
            return f"{start((x, y, z), None, ())}{label}\n"
        shape = [int(size) for size in layout.split(",") if size]
        return f"{start((x, y, z), record[7 : 7 + rank], shape)}{label}{format_value(kind, bits)}\n"
    where = f"pid ({x}, {y}, {z})"
    if rank:
        where += f" idx ({', '.join(map(str, record[7 : 7 + rank]))})"
    return f"{where} {text}{format_value(kind, bits)}\n"


def format_value(kind: int, bits: int) -> str:
    """The text of one value; `kind`: a type, plus 16 for hex, plus the width in bits 8 to 15."""
    what, width = kind & 15, kind >> 8 & 255
    as_hex = bool(kind & _HEX)
    if what == _POINTER:
        return pointer(bits)
    if what == _F32:
        return number(struct.unpack("<f", struct.pack("<I", bits & 0xFFFFFFFF))[0], as_hex)
    if what == _F64:
        return number(struct.unpack("<d", struct.pack("<Q", bits))[0], as_hex)
    if what == _SIGNED and bits >> 63:
        bits -= 1 << 64
    return integer(bits, width or 64, as_hex)
