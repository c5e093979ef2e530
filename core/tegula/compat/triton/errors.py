"""Errors under Triton's names."""

from __future__ import annotations

from tegula.errors import (
    AutotunerError,
    CompilationError,
    CompileTimeAssertionFailure,
    OutOfResources,
    UnsupportedLanguageConstruct,
)
from tegula.errors import TegulaError as TritonError


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
