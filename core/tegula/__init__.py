"""Tegula: tile kernels, written once in Python, run on whatever device their tensors live on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tegula import language as language
    from tegula.integers import cdiv as cdiv
    from tegula.integers import next_power_of_2 as next_power_of_2
    from tegula.language.aggregates import aggregate as aggregate
    from tegula.language.builtin import constexpr_function as constexpr_function
    from tegula.language.builtin import must_use_result as must_use_result
    from tegula.plugin.select import select_device as select_device
    from tegula.plugin.select import use_device as use_device
    from tegula.runtime.arrays import DeviceArray as DeviceArray
    from tegula.runtime.arrays import asarray as asarray
    from tegula.runtime.arrays import empty as empty
    from tegula.runtime.async_compile import AsyncCompileMode as AsyncCompileMode
    from tegula.runtime.autotune import Autotuner as Autotuner
    from tegula.runtime.autotune import Config as Config
    from tegula.runtime.autotune import autotune as autotune
    from tegula.runtime.compiled import CompiledKernel as CompiledKernel
    from tegula.runtime.descriptor import TensorDescriptor as TensorDescriptor
    from tegula.runtime.heuristics import heuristics as heuristics
    from tegula.runtime.jit import JITFunction as JITFunction
    from tegula.runtime.jit import jit as jit
    from tegula.runtime.mock import MockTensor as MockTensor

__version__ = "0.1.0"

# Public name -> module that defines it. Nothing is imported before it is asked for.
_LAZY = {
    "AsyncCompileMode": "tegula.runtime.async_compile",
    "Autotuner": "tegula.runtime.autotune",
    "CompiledKernel": "tegula.runtime.compiled",
    "Config": "tegula.runtime.autotune",
    "DeviceArray": "tegula.runtime.arrays",
    "JITFunction": "tegula.runtime.jit",
    "TensorDescriptor": "tegula.runtime.descriptor",
    "MockTensor": "tegula.runtime.mock",
    "aggregate": "tegula.language.aggregates",
    "asarray": "tegula.runtime.arrays",
    "autotune": "tegula.runtime.autotune",
    "cdiv": "tegula.integers",
    "constexpr_function": "tegula.language.builtin",
    "empty": "tegula.runtime.arrays",
    "heuristics": "tegula.runtime.heuristics",
    "jit": "tegula.runtime.jit",
    "must_use_result": "tegula.language.builtin",
    "next_power_of_2": "tegula.integers",
    "select_device": "tegula.plugin.select",
    "use_device": "tegula.plugin.select",
}
_SUBMODULES = (
    "config", "errors", "frontend", "ir", "language", "passes", "plugin", "runtime", "testing"
)  # fmt: skip


def __getattr__(name: str) -> Any:
    import importlib

    if name in _SUBMODULES:
        return importlib.import_module(f"tegula.{name}")
    module = _LAZY.get(name)
    if module is None:
        from tegula.errors import nearest

        near = nearest(name, (*_LAZY, *_SUBMODULES))
        raise AttributeError(f"module 'tegula' has no attribute {name!r}{near}")
    value = getattr(importlib.import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY, *_SUBMODULES})
