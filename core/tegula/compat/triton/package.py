"""What `import triton` offers besides its modules."""

from __future__ import annotations

from tegula import cdiv, constexpr_function, must_use_result, next_power_of_2
from tegula.compat.triton.allocation import set_allocator
from tegula.compat.triton.compiler import compile
from tegula.compat.triton.errors import (
    CompilationError,
    InterpreterError,
    OutOfResources,
    TritonError,
)
from tegula.compat.triton.kernels import TensorWrapper, reinterpret
from tegula.compat.triton.table import VERSION
from tegula.runtime.async_compile import AsyncCompileMode, FutureKernel
from tegula.runtime.autotune import Config, autotune
from tegula.runtime.heuristics import heuristics
from tegula.runtime.interface import KernelInterface
from tegula.runtime.jit import JITFunction, jit
from tegula.runtime.mock import MockTensor

__version__ = VERSION

__all__ = [
    "AsyncCompileMode",
    "CompilationError",
    "Config",
    "FutureKernel",
    "InterpreterError",
    "JITFunction",
    "KernelInterface",
    "MockTensor",
    "OutOfResources",
    "TensorWrapper",
    "TritonError",
    "aggregate",  # noqa: F822
    "autotune",
    "cdiv",
    "compile",
    "constexpr_function",
    "heuristics",
    "jit",
    "must_use_result",
    "next_power_of_2",
    "reinterpret",
    "set_allocator",
]


def __getattr__(name: str) -> object:
    if name == "aggregate":  # part of the language, which costs more to import
        from tegula import language

        return language.aggregate
    raise AttributeError(f"module 'triton' has no attribute {name!r}")
