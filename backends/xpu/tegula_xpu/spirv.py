"""SPIR-V from LLVM text, made in a process of its own (see `emitter`)."""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
import threading

from tegula.errors import CompilationError
from tegula.runtime import stages
from tegula_xpu.emitter import ASSEMBLY, CODE, DONE, TRIPLE, receive, send

__all__ = ["TRIPLE", "assemble"]


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
