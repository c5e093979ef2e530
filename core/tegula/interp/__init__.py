"""The numpy interpreter: what it computes is the meaning of the IR."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .errors import DeviceAssertionError, InterpreterError, OutOfBoundsError, ReadOnlyError
    from .interpreter import Interpreter, run_kernel
    from .memory import Buffer, Memory

__all__ = [
    "Buffer",
    "DeviceAssertionError",
    "Interpreter",
    "InterpreterError",
    "Memory",
    "OutOfBoundsError",
    "ReadOnlyError",
    "run_kernel",
]

_HOMES = {
    "errors": ("DeviceAssertionError", "InterpreterError", "OutOfBoundsError", "ReadOnlyError"),
    "interpreter": ("Interpreter", "run_kernel"),
    "memory": ("Buffer", "Memory"),
}


def __getattr__(name: str) -> Any:
    """Names are imported when used: the backend's record lies in this package and is light."""
    import importlib

    for home, names in _HOMES.items():
        if name in names:
            found = getattr(importlib.import_module(f"{__name__}.{home}"), name)
            globals()[name] = found
            return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
