"""Errors under Triton's names."""

from __future__ import annotations

import dataclasses

from tegula.errors import (
    AutotunerError,
    CompilationError,
    CompileTimeAssertionFailure,
    OutOfResources,
    UnsupportedLanguageConstruct,
)
from tegula.errors import TegulaError as TritonError


def restate(error: CompilationError) -> CompilationError:
    """The error with its places as Triton's programs know them, counted from `def`, and with one
    error per call, each the cause of the one around it.
    """
    frames = []
    for frame in error.frames:
        line, column = frame.line - frame.origin[0] + 1, frame.column - frame.origin[1]
        frames.append(dataclasses.replace(frame, place=f"at {line}:{column}:"))
    cause = None
    for frame in reversed(frames):
        told = type(error)(error.message, error.hint, (frame,))
        told.__cause__ = cause
        cause = told
    return told if frames else error


class InterpreterError(TritonError):
    """Never raised: the interpreter raises what compiled kernels raise."""


class PTXASError(TritonError):
    """Never raised: no PTX is assembled."""


__all__ = [
    "AutotunerError",
    "CompilationError",
    "CompileTimeAssertionFailure",
    "InterpreterError",
    "OutOfResources",
    "PTXASError",
    "TritonError",
    "UnsupportedLanguageConstruct",
]
