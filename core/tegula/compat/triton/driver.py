"""`triton.runtime.driver` and the names of `triton.backends.driver`: the device of the moment, as
programs ask about it.

It is the one that `use_device` or a setting names, else the best one whose memory torch can make
tensors in, else the one that launches without arguments run on.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from tegula.compat.triton.compiler import GPUTarget
from tegula.compat.triton.target_info import NO_WARPS, gpu_target

HOST = "cpu"


class DriverBase:
    """What drivers of Triton derive from."""


class GPUDriver(DriverBase):
    """What drivers of GPUs derive from."""


class ActiveDriver(GPUDriver):
    """Answers for the device of the moment."""

    def is_active(self) -> bool:
        return True

    @staticmethod
    def selection() -> Any:
        """The device of the moment, as Tegula chooses it."""
        from tegula.plugin import select

        return select.preferred_device(_torch_can_use)

    def get_current_target(self) -> GPUTarget:
        """Backend, architecture and warp size."""
        return gpu_target(self.selection().info.target)

    def _limits(self) -> dict[str, int]:
        selection = self.selection()
        capabilities = selection.backend.compiler.capabilities(selection.info.target)
        return dict(capabilities.limits)

    def _torch_type(self) -> str:
        return self.selection().backend.spec.torch or HOST

    def _torch_module(self) -> Any:
        """Torch's module for devices of this type; None for the host."""
        kind = self._torch_type()
        return None if kind == HOST else getattr(sys.modules.get("torch"), kind, None)

    def get_current_device(self) -> int:
        """Its number."""
        module = self._torch_module()
        return int(self.selection().id.index if module is None else module.current_device())

    def set_current_device(self, device: int) -> None:
        """Let torch make its tensors on another device of this kind; the host is one device."""
        module = self._torch_module()
        if module is not None:
            module.set_device(device)

    def get_current_stream(self, device: int | None = None) -> int:
        """The stream that torch works on; 0 on the host."""
        if self._torch_module() is None:
            return 0
        import torch

        index = self.get_current_device() if device is None else device
        here = torch.empty(0, device=torch.device(self._torch_type(), index))
        return int(self.selection().backend.device(index).stream_of(here))

    def get_active_torch_device(self) -> Any:
        """The device as torch knows it."""
        import torch

        kind = self._torch_type()
        return torch.device(kind) if kind == HOST else torch.device(kind, self.get_current_device())

    def get_device_interface(self) -> Any:
        """Torch's module for the device; on host memory one with the same functions."""
        import torch

        kind = self._torch_type()
        return HostInterface() if kind == HOST else getattr(torch, kind)

    def get_benchmarker(self) -> Callable[..., Any]:
        """A function that times functions: called with one, and `quantiles=`."""
        from tegula.testing import do_bench

        return do_bench

    def get_empty_cache_for_benchmark(self) -> Any:
        """A buffer whose clearing empties the device's cache."""
        import torch

        return torch.empty(8 << 20, dtype=torch.int32, device=self.get_active_torch_device())

    def clear_cache(self, cache: Any) -> None:
        """Clear the buffer."""
        cache.zero_()

    def map_python_to_cpp_type(self, type: str) -> str:
        """The C type of a signature's type."""
        return "void*" if type.startswith("*") else _C_TYPES.get(type, type)

    @property
    def utils(self) -> Any:
        """Functions about devices."""
        return SimpleNamespace(get_device_properties=self._properties)

    def _properties(self, device: int = 0) -> dict[str, Any]:
        limits, selection = self._limits(), self.selection()
        details: dict[str, Any] = {}
        if self._torch_module() is not None:
            details = dict(selection.backend.device(device).info.details)
        units = details.get("multiprocessors") or details.get("compute_units") or _cores()
        return {
            "max_shared_mem": limits.get("shared_bytes", 1 << 30),
            "max_num_regs": 1 << 16,
            "multiprocessor_count": units,
            "warpSize": limits.get("warp_size", NO_WARPS),
            "sm_clock_rate": details.get("clock_khz", 0),
            "mem_clock_rate": details.get("memory_clock_khz", 0),
            "mem_bus_width": details.get("memory_bus_bits", 0),
        }


def _torch_can_use(backend: Any) -> bool:
    """Whether torch, if the program has imported it, makes tensors on a backend's devices."""
    kind = backend.spec.torch
    if not kind or kind == HOST:
        return bool(kind) and backend.priority >= 0
    module = getattr(sys.modules.get("torch"), kind, None)
    return module is not None and bool(module.is_available())


_C_TYPES = {
    "i1": "int8_t", "u1": "int8_t", "fp16": "double", "bf16": "double", "fp32": "double",
    "fp64": "double", "f32": "double",
    **{f"i{n}": f"int{n}_t" for n in (8, 16, 32, 64)},
    **{f"u{n}": f"uint{n}_t" for n in (8, 16, 32, 64)},
}  # fmt: skip


def _cores() -> int:
    from tegula.config import config

    return config.num_threads or len(os.sched_getaffinity(0))


class HostInterface:
    """The functions of torch's device modules, for host memory: launches end when they return."""

    class Event:
        """A point in time."""

        def __init__(self, enable_timing: bool = False, **_: Any) -> None:
            self._at = 0.0

        def record(self, stream: Any = None) -> None:
            import time

            self._at = time.perf_counter()

        def elapsed_time(self, other: HostInterface.Event) -> float:
            return 1e3 * (other._at - self._at)

        def synchronize(self) -> None:
            pass

    def synchronize(self, device: Any = None) -> None:
        pass

    def current_device(self) -> int:
        return 0

    def device_count(self) -> int:
        return 1

    def is_available(self) -> bool:
        return True


default: Any = ActiveDriver()
active: Any = default


def set_active(driver: Any) -> None:
    """Let another object answer."""
    global active
    active = driver


def reset_active() -> None:
    """Back to Tegula's own."""
    global active
    active = default


def __getattr__(name: str) -> Any:
    if name == "driver":  # `from triton.runtime.driver import driver`
        import sys

        return sys.modules[__name__]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
