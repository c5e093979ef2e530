"""Source locations of operations."""

from __future__ import annotations

from typing import NamedTuple


class Location(NamedTuple):
    """A place in a kernel's source: file, 1-based line, 0-based column, and where it was inlined
    from.
    """

    file: str
    line: int
    column: int = 0
    caller: Location | None = None

    def __str__(self) -> str:
        here = f"{self.file}:{self.line}:{self.column + 1}"
        return here if self.caller is None else f"{here} (called from {self.caller})"
