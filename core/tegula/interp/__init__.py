"""The numpy interpreter: what it computes is the meaning of the IR."""

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
