"""Compilers that keep state from one call to the next, or end their process over what they do not
take: another process has them loaded, and forks for each call.

Such a compiler is a module with `prepare()`, called once, and `answer(kind, data)`, which gives
bytes or raises.
"""

from __future__ import annotations

import atexit
import importlib
import os
import subprocess
import sys
import threading
from typing import IO

from tegula.errors import CompilationError

DONE, FAILED = b"d", b"f"
"""Answers: what was asked for, or what went wrong."""

_LENGTH = 8


class Isolated:
    """A compiler in a process of its own, started when it is first asked."""

    def __init__(self, module: str, makes: str) -> None:
        self.module, self.makes = module, makes
        self._lock = threading.Lock()
        self._server: _Server | None = None

    def ask(self, kind: bytes, data: bytes) -> bytes:
        """What the compiler answers to a request of a kind (one byte)."""
        with self._lock:
            if self._server is None or not self._server.usable:
                self._server = _Server(self.module)
            server = self._server
            try:
                answer, made = server.ask(kind, data)
            except (EOFError, OSError) as error:
                code, self._server = server.process.poll(), None
                raise CompilationError(
                    f"the process that makes {self.makes} has ended unexpectedly (exit code {code})"
                ) from error
        if answer != DONE:
            why = made.decode(errors="replace")
            raise CompilationError(f"the compiler makes no {self.makes} of it: {why}")
        return made


class _Server:
    """The process with the compiler."""

    def __init__(self, module: str) -> None:
        start = f"import sys; sys.path[:] = {sys.path!r}; from {__name__} import serve"
        self.process = subprocess.Popen(
            [sys.executable, "-c", f"{start}; serve({module!r})"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.owner = os.getpid()
        """A forked process shares the pipes and needs a server of its own."""
        atexit.register(self.end)

    @property
    def usable(self) -> bool:
        return self.owner == os.getpid() and self.process.poll() is None

    def ask(self, kind: bytes, data: bytes) -> tuple[bytes, bytes]:
        assert self.process.stdin is not None and self.process.stdout is not None
        send(self.process.stdin, kind, data)
        return receive(self.process.stdout)

    def end(self) -> None:
        if self.owner == os.getpid() and self.process.stdin is not None:
            self.process.stdin.close()
            self.process.wait()


# -------------------------------------------------------------------------------------------------
# Messages: one letter, the length of what follows, what follows


def send(stream: IO[bytes], kind: bytes, data: bytes) -> None:
    stream.write(kind + len(data).to_bytes(_LENGTH, "little") + data)
    stream.flush()


def receive(stream: IO[bytes]) -> tuple[bytes, bytes]:
    """The next message; EOFError if the other side has gone."""
    head = stream.read(1 + _LENGTH)
    size = int.from_bytes(head[1:], "little")
    data = stream.read(size) if len(head) == 1 + _LENGTH else b""
    if len(head) < 1 + _LENGTH or len(data) < size:
        raise EOFError
    return head[:1], data


# -------------------------------------------------------------------------------------------------
# In the other process


def serve(module: str) -> None:
    """Answer requests until nobody is left to ask."""
    compiler = importlib.import_module(module)
    compiler.prepare()
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # nothing else may get among the answers
    while True:
        try:
            kind, data = receive(requests)
        except EOFError:
            return
        send(answers, *_in_child(compiler, kind, data))


def _in_child(compiler: object, kind: bytes, data: bytes) -> tuple[bytes, bytes]:
    if not hasattr(os, "fork"):
        return DONE, compiler.answer(kind, data)  # type: ignore[attr-defined]
    (made, made_end), (said, said_end) = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.dup2(said_end, 2)
            with os.fdopen(made_end, "wb") as out:
                out.write(compiler.answer(kind, data))  # type: ignore[attr-defined]
            status = 0
        except Exception as error:
            os.write(2, str(error).encode())
        finally:
            os._exit(status)
    os.close(made_end)
    os.close(said_end)
    with os.fdopen(made, "rb") as answer, os.fdopen(said, "rb") as words:
        found, message = answer.read(), words.read()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status == 0:
        return DONE, found
    ended = f"it ended with signal {-status}" if status < 0 else "it failed"
    return FAILED, message.strip() or ended.encode()
