"""Errors under Triton's names."""

from __future__ import annotations

import dataclasses
import re

from tegula.errors import (
    AutotunerError,
    CompilationError,
    CompileTimeAssertionFailure,
    OutOfResources,
    UnsupportedLanguageConstruct,
)
from tegula.errors import TegulaError as TritonError

WORDS = (
    (r"the result of `(.*)` has to be used: (.*)", r"The result of \1 is not being used. \2"),
    (r"`(\w+)` is a plain global variable", r"Cannot access global variable \1: it"),
    (
        r"dot_scaled: a scale belongs to (\d+) numbers of lhs and to (\d+) of rhs.*",
        r"Operands must have the same scale factor; (lhs: \1 vs rhs: \2)",
    ),
    (r"`\w+` returns (.*) on one path and (.*) on another", r"Return type mismatch: \1 and \2"),
    (
        r"the two sides of a conditional expression are (.*) and (.*)",
        r"Ternary expression with dynamic condition has inconsistent types \1 and \2",
    ),
    (
        r"`(\w+)` is (.*) if the `if` in line \d+ is taken and (.*) otherwise",
        r"Mismatched type for \1 between then block (\2) and else block (\3)",
    ),
    (
        r"expand_dims: the axes .* name one dimension twice: (.*)",
        r"duplicate axes, normalized axes = \1",
    ),
    (r"expand_dims: axis (-?\d+) is outside of.*", r"invalid axis \1"),
    (
        r"program_id: axis must be 0, 1 or 2, not (.*)",
        r"program_id axis must be 0, 1, or 2 but got \1",
    ),
    (r".* has no elements to pick.*", "unsupported tensor index"),
    (r"\w+ takes (fp32 or fp64), not (.*)", r"Expected dtype \1 but got \2"),
)
"""Beginnings of Tegula's messages, and those that programs look for."""


def known_words(message: str) -> str | None:
    """A message as programs look for it, if any does."""
    for pattern, words in WORDS:
        if re.match(pattern, message):
            return re.sub(pattern, words, message, count=1)
    return None


def restate(error: CompilationError) -> CompilationError:
    """The error with its places as Triton's programs know them, counted from `def`, and with one
    error per call, each the cause of the one around it.
    """
    frames = []
    for frame in error.frames:
        line, column = frame.line - frame.origin[0] + 1, frame.column - frame.origin[1]
        frames.append(dataclasses.replace(frame, place=f"at {line}:{column}:"))
    message, hint = error.message, error.hint
    cause: Exception | None = None
    words = known_words(message)
    if words is not None:  # they stand in the last line
        message, hint = f"{message} ({hint})\n{words}" if hint else f"{message}\n{words}", ""
        cause = TritonError(words)
    for frame in reversed(frames):
        told = type(error)(message, hint, (frame,))
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
