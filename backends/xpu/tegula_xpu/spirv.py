"""SPIR-V from LLVM text, and what a module must have."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from tegula.codegen.isolated import Isolated
from tegula.plugin import Artifact, damaged
from tegula.runtime import stages
from tegula_xpu.emitter import ASSEMBLY, CODE, TRIPLE

__all__ = ["TRIPLE", "assemble", "check"]

_LLVM = Isolated("tegula_xpu.emitter", "SPIR-V")
_MAGIC = 0x07230203
_HEADER_WORDS = 5
_ENTRY_POINT, _FUNCTION_END = 15, 56


def assemble(text: str) -> bytes:
    """A SPIR-V module of an LLVM module given as text."""
    raw = text.encode()
    if stages.active():
        stages.record("spirv", _LLVM.ask(ASSEMBLY, raw).decode())
    return _LLVM.ask(CODE, raw)


# -------------------------------------------------------------------------------------------------
# Looking into a module


def check(artifact: Artifact) -> None:
    """Raise a `DeviceError` unless an artifact's data is a whole module with its entry: drivers end
    the process over others.
    """
    data = artifact.data
    words = struct.unpack_from(f"<{len(data) // 4}I", data)
    if len(data) % 4 or len(words) < _HEADER_WORDS or words[0] != _MAGIC:
        raise damaged(artifact, "it is no SPIR-V module")
    try:
        found = list(_entries(words))
    except ValueError as error:
        raise damaged(artifact, str(error)) from None
    if artifact.entry not in found:
        raise damaged(artifact, f"it does not define '{artifact.entry}'")


def _entries(words: tuple[int, ...]) -> Iterator[str]:
    """The names of the entry points; `ValueError` where an instruction does not fit."""
    at, opcode = _HEADER_WORDS, 0
    while at < len(words):
        count, opcode = words[at] >> 16, words[at] & 0xFFFF
        if not 0 < count <= len(words) - at:
            raise ValueError(f"the instruction at word {at} has {count} words")
        if opcode == _ENTRY_POINT and count > 3:
            text = struct.pack(f"<{count - 3}I", *words[at + 3 : at + count])
            yield text.partition(b"\0")[0].decode("utf-8", "replace")
        at += count
    if opcode != _FUNCTION_END:
        raise ValueError("it ends within a function")
