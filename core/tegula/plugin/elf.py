"""A look into 64-bit little-endian ELF objects, before linkers and drivers read them: those follow
the tables inside, out of the bytes of an object that is cut off.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

_IDENTITY = b"\x7fELF\x02\x01"  # 64 bits, little-endian
_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SEGMENT = struct.Struct("<IIQQQQQQ")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_SYMTAB, _NOBITS = 2, 8
_UNDEFINED = 0


class ElfError(ValueError):
    """What is wrong with an object."""


@dataclass(frozen=True)
class Section:
    """Where a section's bytes are."""

    kind: int
    offset: int
    size: int
    link: int
    """The number of the section with its names."""


class Elf:
    """An object all of whose tables and sections lie within its bytes; else `ElfError`."""

    def __init__(self, data: bytes) -> None:
        if not data.startswith(_IDENTITY):
            raise ElfError("it is no 64-bit little-endian ELF object")
        if len(data) < _HEADER.size:
            raise ElfError(f"it ends after {len(data)} bytes, within its header")
        self._data = data
        fields = _HEADER.unpack_from(data)
        self.machine: int = fields[2]
        """The number of the architecture."""
        segments, sections = fields[5], fields[6]
        self._check_segments(segments, *fields[9:11])
        self.sections = self._read_sections(sections, *fields[11:13])

    def _within(self, what: str, start: int, size: int) -> None:
        if start + size > len(self._data):
            raise ElfError(f"{what} ends at byte {start + size}, and there are {len(self._data)}")

    def _table(self, what: str, start: int, size: int, count: int, least: int) -> None:
        if count and size < least:
            raise ElfError(f"an entry of {what} has {size} bytes")
        self._within(what, start, size * count)

    def _check_segments(self, start: int, size: int, count: int) -> None:
        self._table("the table of segments", start, size, count, _SEGMENT.size)
        for number in range(count):
            fields = _SEGMENT.unpack_from(self._data, start + number * size)
            self._within(f"segment {number}", fields[2], fields[5])

    def _read_sections(self, start: int, size: int, count: int) -> tuple[Section, ...]:
        self._table("the table of sections", start, size, count, _SECTION.size)
        found = []
        for number in range(count):
            fields = _SECTION.unpack_from(self._data, start + number * size)
            section = Section(fields[1], fields[4], fields[5], fields[6])
            if section.kind != _NOBITS:
                self._within(f"section {number}", section.offset, section.size)
            if section.link >= count:
                raise ElfError(f"section {number} refers to section {section.link} of {count}")
            found.append(section)
        return tuple(found)

    def symbols(self) -> Iterator[tuple[str, bool]]:
        """Names, and whether the object defines what they name."""
        for section in self.sections:
            if section.kind != _SYMTAB:
                continue
            strings = self.sections[section.link]
            names = self._data[strings.offset : strings.offset + strings.size]
            end = section.offset + section.size
            for at in range(section.offset, end - _SYMBOL.size + 1, _SYMBOL.size):
                name, _, _, where, _, _ = _SYMBOL.unpack_from(self._data, at)
                if name:
                    text = names[name:].partition(b"\0")[0]
                    yield text.decode("utf-8", "replace"), where != _UNDEFINED
