"""Text of the stages of one compilation, kept only while somebody asks for it.

A stage that has its result as text, or can print it, offers it:

    from tegula.runtime import stages
    stages.record("llir", text)                     # or a function that makes the text

Nothing happens unless a recording is active: `TEGULA_DUMP`, `TEGULA_DEBUG`, or somebody looking at
`compiled.asm`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar

Recorder = Callable[[str, str], None]

_recorder: ContextVar[Recorder | None] = ContextVar("tegula_stage_recorder", default=None)

SUFFIXES = {"llir": ".ll", "asm": ".s", "ptx": ".ptx"}
"""File suffixes of stages that are not tile IR."""


def active() -> bool:
    """Whether texts are wanted."""
    return _recorder.get() is not None


def record(name: str, text: str | Callable[[], str]) -> None:
    """Offer the text of a stage."""
    recorder = _recorder.get()
    if recorder is not None:
        recorder(name, text if isinstance(text, str) else text())


@contextlib.contextmanager
def recording(recorder: Recorder) -> Iterator[None]:
    """Send what is recorded inside the block to `recorder`."""
    token = _recorder.set(recorder)
    try:
        yield
    finally:
        _recorder.reset(token)
