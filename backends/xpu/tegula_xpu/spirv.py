"""SPIR-V from LLVM text, made in a process of its own (see `emitter`)."""

from __future__ import annotations

import atexit
import os
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator

from tegula.errors import CompilationError
from tegula.plugin import Artifact, damaged
from tegula.runtime import stages
from tegula_xpu.emitter import ASSEMBLY, CODE, DONE, TRIPLE, receive, send

__all__ = ["TRIPLE", "assemble", "check"]

_MAGIC = 0x07230203
_HEADER_WORDS = 5
_ENTRY_POINT, _FUNCTION_END = 15, 56


def assemble(text: str) -> bytes:
    """A SPIR-V module of an LLVM module given as text."""
    raw = text.encode()
    if stages.active():
        stages.record("spirv", _ask(ASSEMBLY, raw).decode())
    return _ask(CODE, raw)


class _Server:
    """The process that runs LLVM."""

    def __init__(self) -> None:
        start = f"import sys; sys.path[:] = {sys.path!r}; from tegula_xpu.emitter import serve"
        self.process = subprocess.Popen(
            [sys.executable, "-c", f"{start}; serve()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.owner = os.getpid()
        """A forked process shares the pipes and needs a server of its own."""

    @property
    def usable(self) -> bool:
        return self.owner == os.getpid() and self.process.poll() is None

    def ask(self, kind: bytes, text: bytes) -> tuple[bytes, bytes]:
        assert self.process.stdin is not None and self.process.stdout is not None
        send(self.process.stdin, kind, text)
        return receive(self.process.stdout)

    def end(self) -> None:
        if self.owner == os.getpid() and self.process.stdin is not None:
            self.process.stdin.close()
            self.process.wait()


_lock = threading.Lock()
_server: _Server | None = None


def _ask(kind: bytes, text: bytes) -> bytes:
    global _server
    with _lock:
        if _server is None or not _server.usable:
            _server = _Server()
            atexit.register(_server.end)
        try:
            answer, data = _server.ask(kind, text)
        except (EOFError, OSError) as error:
            code = _server.process.poll()
            _server = None
            raise CompilationError(
                f"the process that makes SPIR-V has ended unexpectedly (exit code {code})"
            ) from error
    if answer != DONE:
        raise CompilationError(f"LLVM makes no SPIR-V of it: {data.decode(errors='replace')}")
    return data


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
