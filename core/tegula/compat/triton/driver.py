"""`triton.runtime.driver` and the names of `triton.backends.driver`: the device of the moment, as
programs ask about it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from tegula.compat.triton.compiler import GPUTarget

HOST = 1
NO_WARPS = 32
"""The warp size of devices without warps: programs divide by it to choose `num_warps`."""


class DriverBase:
    """What drivers of Triton derive from."""


class GPUDriver(DriverBase):
    """What drivers of GPUs derive from."""


class ActiveDriver(GPUDriver):
    """Answers for the device that a launch without arguments would run on: what `use_device`,
    settings, and the installed backends make of it.
    """

    def is_active(self) -> bool:
        return True

    @staticmethod
    def _selection() -> Any:
        from tegula.plugin import select

        return select.select_device([], None)

    def get_current_target(self) -> GPUTarget:
        """Backend, architecture and warp size. On host memory the backend is `cpu`, so that
        `getattr(torch, backend)` finds something.
        """
        info = self._selection().info
        warp = self._limits().get("warp_size", NO_WARPS)
        return GPUTarget(self._torch_type(), info.target.arch, warp)

    def _limits(self) -> dict[str, int]:
        selection = self._selection()
        capabilities = selection.backend.compiler.capabilities(selection.info.target)
        return dict(capabilities.limits)

    def _torch_type(self) -> str:
        backend = self._selection().backend
        if backend.reaches(HOST):
            return "cpu"
        from tegula.runtime import dlpack

        return next((dlpack.DEVICE_NAMES.get(t, backend.name) for t in backend.spec.dlpack), "cpu")

    def get_current_device(self) -> int:
        """Its number."""
        return int(self._selection().id.index)

    def set_current_device(self, device: int) -> None:
        """Host memory has one device; those of other backends are chosen by their arrays."""

    def get_current_stream(self, device: int | None = None) -> int:
        """0: the default stream."""
        return 0

    def get_active_torch_device(self) -> Any:
        """The device as torch knows it."""
        import torch

        kind = self._torch_type()
        return (
            torch.device(kind) if kind == "cpu" else torch.device(kind, self.get_current_device())
        )

    def get_device_interface(self) -> Any:
        """Torch's module for the device; on host memory one with the same functions."""
        import torch

        kind = self._torch_type()
        return HostInterface() if kind == "cpu" else getattr(torch, kind)

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
        limits = self._limits()
        return {
            "max_shared_mem": limits.get("shared_bytes", 1 << 30),
            "max_num_regs": 1 << 16,
            "multiprocessor_count": _cores(),
            "warpSize": limits.get("warp_size", NO_WARPS),
            "sm_clock_rate": 0,
            "mem_clock_rate": 0,
            "mem_bus_width": 0,
        }


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
