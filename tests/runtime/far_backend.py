"""A backend for tests whose memory the host does not reach: only `copy` gets at it."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator
from typing import Any

from tegula.config import config
from tegula.plugin import BackendSpec, Device, DeviceInfo, Driver, Probe, Target, hookimpl
from tegula.plugin.registry import registry

DEVICE_TYPE = 10
BASE = 1 << 60
"""Device addresses start here, where no process has memory."""


@hookimpl
def tegula_backends() -> list[BackendSpec]:
    return [
        BackendSpec(
            name="far",
            api=(0, 1),
            ir=((0, 1), (0, 1)),
            compiler=f"{__name__}:NoCompiler",
            driver=f"{__name__}:FarDriver",
            priority=-300,
            dlpack=(DEVICE_TYPE,),
        )
    ]


class FarDevice(Device):
    def __init__(self, info: DeviceInfo) -> None:
        self.info = info
        self._blocks: dict[int, Any] = {}

    def alloc(self, nbytes: int) -> int:
        block = ctypes.create_string_buffer(nbytes)
        address = BASE + ctypes.addressof(block)
        self._blocks[address] = block
        return address

    def free(self, address: int) -> None:
        del self._blocks[address]

    def copy(self, dst: int, src: int, nbytes: int, *, stream: int = 0) -> None:
        near = [a - BASE if a >= BASE else a for a in (dst, src)]
        ctypes.memmove(near[0], near[1], nbytes)

    def load(self, artifact: Any) -> Any:
        raise NotImplementedError

    def synchronize(self, stream: int = 0) -> None: ...


class FarDriver(Driver):
    @classmethod
    def probe(cls) -> Probe:
        return Probe("available", devices=(DeviceInfo(0, "far", Target("far", "test")),))

    def open(self, index: int) -> Device:
        return FarDevice(self.probe().devices[index])


@contextlib.contextmanager
def registered() -> Iterator[None]:
    """The backend is known inside the block."""
    with config.scope(plugin_path=f"far={__name__}"):
        registry.refresh()
        yield
    registry.refresh()
