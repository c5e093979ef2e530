"""`triton.runtime`, and what its modules share."""

from __future__ import annotations

from tegula import constexpr_function
from tegula.compat.triton.allocation import set_allocator
from tegula.compat.triton.errors import AutotunerError, InterpreterError, OutOfResources
from tegula.compat.triton.kernels import MockTensor, TensorWrapper, reinterpret
from tegula.frontend.function import DeviceFunction as JITCallable
from tegula.runtime.autotune import Autotuner, Config, autotune
from tegula.runtime.heuristics import Heuristics, heuristics
from tegula.runtime.interface import KernelInterface
from tegula.runtime.jit import JITFunction, jit
from tegula.runtime.parameters import KernelParam

__all__ = [
    "Autotuner",
    "AutotunerError",
    "Config",
    "Heuristics",
    "InterpreterError",
    "JITCallable",
    "JITFunction",
    "KernelInterface",
    "KernelParam",
    "MockTensor",
    "OutOfResources",
    "TensorWrapper",
    "autotune",
    "constexpr_function",
    "heuristics",
    "jit",
    "reinterpret",
    "set_allocator",
]
