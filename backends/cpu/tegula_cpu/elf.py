"""A look into ELF objects, for error messages."""

from __future__ import annotations

import struct

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_SYMTAB = 2


def undefined_symbols(data: bytes) -> list[str]:
    """Names that a 64-bit little-endian ELF object leaves open; empty for anything else."""
    if data[:6] != b"\x7fELF\x02\x01":
        return []
    header = _HEADER.unpack_from(data)
    start, size, count = header[6], header[11], header[12]
    sections = [_SECTION.unpack_from(data, start + i * size) for i in range(count)]
    names = []
    for section in sections:
        if section[1] != _SYMTAB:
            continue
        strings = sections[section[6]][4]
        for at in range(section[4], section[4] + section[5], _SYMBOL.size):
            name, _, _, where, _, _ = _SYMBOL.unpack_from(data, at)
            if name and where == 0:
                end = data.index(b"\0", strings + name)
                names.append(data[strings + name : end].decode())
    return names
