"""A driver of our own in the place of NVIDIA's: two devices in host memory, calls are written down.

It runs nothing: a launch is noted with all that it was given. Native code calls it as it calls
the real one, by address.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from tegula.plugin.registry import registry
from tegula_cuda import cu, launcher, nvml
from tegula_cuda.launcher import Attribute, Config, Graph

OK = 0
HOPPER = {
    "COMPUTE_CAPABILITY_MAJOR": 9, "COMPUTE_CAPABILITY_MINOR": 0, "MULTIPROCESSOR_COUNT": 132,
    "CLOCK_RATE": 1, "MEMORY_CLOCK_RATE": 1, "GLOBAL_MEMORY_BUS_WIDTH": 1, "L2_CACHE_SIZE": 1,
    "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN": 227 << 10,
}  # fmt: skip


@dataclass
class Launch:
    """What one launch was given."""

    name: str
    device: int
    grid: tuple[int, ...]
    block: int
    shared: int
    stream: int
    attributes: list[tuple[int, list[int]]]
    slots: list[int]
    replayed: bool = False
    """Whether a graph was launched."""


@dataclass
class Function:
    name: str
    device: int
    facts: dict[str, int]


class FakeCuda:
    """The module `cuda.bindings.driver`: its enumerations are real, its functions ours."""

    def __init__(self) -> None:
        import cuda.bindings.driver

        self.real = cuda.bindings.driver
        self.devices = [dict(HOPPER), dict(HOPPER)]
        self.cuda = 12080
        self.fails: dict[str, int] = {}
        """Results of functions by their names."""
        self.facts = {
            "NUM_REGS": 40, "LOCAL_SIZE_BYTES": 0, "MAX_THREADS_PER_BLOCK": 1024,
            "SHARED_SIZE_BYTES": 0,
        }  # fmt: skip
        self.calls: list[str] = []
        self.launches: list[Launch] = []
        self.stack: list[int] = []
        self.memory: dict[int, tuple[int, Any]] = {}
        self.modules: dict[int, int] = {}
        self.functions: dict[int, Function] = {}
        self.graphs: dict[int, Launch | None] = {}
        """Graphs and what can be launched of them, with what they launch."""
        self.capturing = 0
        self.capture_mode = 0
        self._numbers = itertools.count(0x1000, 16)
        self._natives: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        if name.startswith("CU"):
            return getattr(self.real, name)
        raise AttributeError(f"the stand-in for NVIDIA's driver has no {name}")

    # -- results

    def _done(self, name: str, *values: Any) -> tuple[Any, ...]:
        self.calls.append(name)
        return (self.fails.get(name, OK), *values)

    @property
    def device(self) -> int:
        """The device of the current context."""
        return self.stack[-1] - 0x100

    # -- start, devices, errors

    def cuInit(self, flags: int) -> Any:
        return self._done("cuInit")

    def cuDriverGetVersion(self) -> Any:
        return self._done("cuDriverGetVersion", self.cuda)

    def cuDeviceGetCount(self) -> Any:
        return self._done("cuDeviceGetCount", len(self.devices))

    def cuDeviceGet(self, index: int) -> Any:
        return self._done("cuDeviceGet", index)

    def cuDeviceGetName(self, size: int, device: int) -> Any:
        return self._done("cuDeviceGetName", f"Card {device}".encode())

    def cuDeviceTotalMem(self, device: int) -> Any:
        return self._done("cuDeviceTotalMem", 1 << 30)

    def cuDeviceGetAttribute(self, which: Any, device: int) -> Any:
        name = which.name.removeprefix("CU_DEVICE_ATTRIBUTE_")
        return self._done("cuDeviceGetAttribute", self.devices[device][name])

    def cuGetErrorName(self, result: Any) -> Any:
        return OK, result.name.encode()

    def cuGetErrorString(self, result: Any) -> Any:
        return OK, b"as it says"

    def cuGetProcAddress(self, name: bytes, version: int, flags: int) -> Any:
        return OK, self._native(name.decode()), OK

    # -- contexts

    def cuDevicePrimaryCtxRetain(self, device: int) -> Any:
        return self._done("cuDevicePrimaryCtxRetain", 0x100 + device)

    def cuCtxGetDevice(self) -> Any:
        return self._done("cuCtxGetDevice", self.device)

    def cuCtxGetCurrent(self, out: int = 0) -> Any:
        current = self.stack[-1] if self.stack else 0
        if out:
            ctypes.c_void_p.from_address(out).value = current
            return OK
        return OK, current

    def cuCtxPushCurrent(self, context: int) -> Any:
        if not self.fails.get("cuCtxPushCurrent"):
            self.stack.append(context)
        return self._done("cuCtxPushCurrent")

    def cuCtxPopCurrent(self, out: int = 0) -> Any:
        return self._done("cuCtxPopCurrent", self.stack.pop())

    def cuCtxSynchronize(self) -> Any:
        return self._done("cuCtxSynchronize")

    # -- memory

    def cuMemAlloc(self, nbytes: int) -> Any:
        buffer = ctypes.create_string_buffer(nbytes + 256)
        address = -(-ctypes.addressof(buffer) // 256) * 256
        self.memory[address] = (self.device, buffer)
        return self._done("cuMemAlloc", address)

    def cuMemFree(self, address: int) -> Any:
        del self.memory[address]
        return self._done("cuMemFree")

    def cuMemGetInfo(self) -> Any:
        return self._done("cuMemGetInfo", 1000, 2000)

    def cuMemcpyAsync(self, to: int, source: int, nbytes: int, stream: int) -> Any:
        ctypes.memmove(to, source, nbytes)
        return self._done("cuMemcpyAsync")

    def cuMemcpyDtoH(self, to: int, source: int, nbytes: int) -> Any:
        ctypes.memmove(to, source, nbytes)
        return self._done("cuMemcpyDtoH")

    def cuMemsetD32(self, to: int, value: int, count: int) -> Any:
        ctypes.memset(to, 0, 4 * count)
        return self._done("cuMemsetD32")

    def cuMemsetD32Async(self, to: int, value: int, count: int, stream: int) -> Any:
        return self.cuMemsetD32(to, value, count)

    def cuPointerGetAttribute(self, which: Any, address: int) -> Any:
        for start, (device, buffer) in self.memory.items():
            if start <= address < start + len(buffer):
                return OK, device
        return 1, 0

    # -- streams and events

    def cuStreamSynchronize(self, stream: int) -> Any:
        return self._done("cuStreamSynchronize")

    def cuStreamIsCapturing(self, stream: int, out: int) -> Any:
        ctypes.c_int32.from_address(out).value = self.capturing
        return OK

    def cuStreamGetPriority(self, stream: int, out: int) -> Any:
        ctypes.c_int32.from_address(out).value = 0
        return OK

    def cuStreamGetCtx(self, stream: int, out: int) -> Any:
        ctypes.c_void_p.from_address(out).value = self.stack[-1]
        return OK

    def cuThreadExchangeStreamCaptureMode(self, mode: Any) -> Any:
        place = None
        if not isinstance(mode, self.real.CUstreamCaptureMode):
            place = ctypes.c_int32.from_address(mode)
            mode = place.value
        before, self.capture_mode = self.capture_mode, int(mode)
        if place is not None:
            place.value = before
        return OK, self.real.CUstreamCaptureMode(before)

    def cuEventCreate(self, flags: int) -> Any:
        return self._done("cuEventCreate", next(self._numbers))

    def cuEventRecord(self, event: int, stream: int) -> Any:
        return self._done(f"cuEventRecord on {stream}")

    def cuEventSynchronize(self, event: int) -> Any:
        return self._done("cuEventSynchronize")

    def cuEventElapsedTime(self, start: int, stop: int) -> Any:
        return self._done("cuEventElapsedTime", 2.5)

    def cuEventDestroy(self, event: int) -> Any:
        return self._done("cuEventDestroy")

    # -- code

    def cuModuleLoadDataEx(self, image: bytes, count: int, options: Any, values: Any) -> Any:
        module = next(self._numbers)
        self.modules[module] = self.device
        if self.fails.get("cuModuleLoadDataEx"):
            values[0][:10] = b"the reason"
        self.calls.append(f"load in mode {self.capture_mode}")
        return self._done("cuModuleLoadDataEx", module)

    def cuModuleGetFunction(self, module: int, name: bytes) -> Any:
        number = next(self._numbers)
        self.functions[number] = Function(name.decode(), self.modules[module], dict(self.facts))
        return self._done("cuModuleGetFunction", number)

    def cuModuleUnload(self, module: int) -> Any:
        assert self.modules.pop(module) == self.device
        return self._done("cuModuleUnload")

    def cuFuncGetAttribute(self, which: Any, function: int) -> Any:
        name = which.name.removeprefix("CU_FUNC_ATTRIBUTE_")
        return self._done("cuFuncGetAttribute", self.functions[function].facts[name])

    def cuFuncSetAttribute(self, function: int, which: Any, value: int) -> Any:
        name = which.name.removeprefix("CU_FUNC_ATTRIBUTE_")
        self.functions[function].facts[name] = value
        return self._done("cuFuncSetAttribute")

    def cuOccupancyMaxActiveBlocksPerMultiprocessor(self, function: int, *sizes: int) -> Any:
        return self._done(f"occupancy of {sizes}", 3)

    # -- what native code calls

    def cuLaunchKernelEx(self, config: int, function: int, params: int, extra: int) -> int:
        given = Config.from_address(config)
        called = self.functions[function]
        assert called.device == self.device
        listed = (Attribute * given.attribute_count).from_address(given.attributes or config)
        attributes = [(a.id, list(a.value[:3])) for a in listed]
        self.launches.append(Launch(
            called.name, self.device, tuple(given.grid), given.block[0], given.shared,
            given.stream or 0, attributes, _first_slot(params),
        ))  # fmt: skip
        return int(self._done("cuLaunchKernelEx")[0])

    def cuGraphCreate(self, out: int, flags: int) -> int:
        made = ctypes.c_void_p.from_address(out)
        made.value = next(self._numbers)
        self.graphs[made.value or 0] = None
        return int(self._done("cuGraphCreate")[0])

    def cuGraphAddKernelNode(
        self, out: int, graph: int, dependencies: int, count: int, params: int
    ) -> int:
        ctypes.c_void_p.from_address(out).value = graph + 1
        self.graphs[graph] = self._node(params)
        return int(self._done("cuGraphAddKernelNode")[0])

    def cuGraphInstantiateWithFlags(self, out: int, graph: int, flags: int) -> int:
        ctypes.c_void_p.from_address(out).value = graph + 2
        self.graphs[graph + 2] = self.graphs[graph]
        return int(self._done("cuGraphInstantiateWithFlags")[0])

    def cuGraphExecKernelNodeSetParams(self, launchable: int, node: int, params: int) -> int:
        assert node == launchable - 1
        self.graphs[launchable] = self._node(params)
        return int(self._done("cuGraphExecKernelNodeSetParams")[0])

    def cuGraphLaunch(self, launchable: int, stream: int) -> int:
        launch = self.graphs[launchable]
        assert launch is not None and launch.device == self.device
        self.launches.append(replace(launch, stream=stream))
        return int(self._done("cuGraphLaunch")[0])

    def cuGraphExecDestroy(self, launchable: Any) -> Any:
        return self._destroyed("cuGraphExecDestroy", int(launchable))

    def cuGraphDestroy(self, graph: Any) -> Any:
        return self._destroyed("cuGraphDestroy", int(graph))

    def _destroyed(self, name: str, number: int) -> Any:
        if number not in self.graphs:
            return (1,)
        del self.graphs[number]
        return self._done(name)

    def _node(self, params: int) -> Launch:
        given = Graph.from_address(params)
        called = self.functions[given.function]
        return Launch(
            called.name, called.device, tuple(given.grid), given.block[0], given.shared, 0, [],
            _first_slot(given.parameters), replayed=True,
        )  # fmt: skip

    def cuTensorMapEncodeTiled(self, *given: int) -> int:
        return int(self._done("cuTensorMapEncodeTiled")[0])

    def _native(self, name: str) -> int:
        counts = launcher.driver_functions()
        kind = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * counts[name])
        function: Callable[..., Any] = getattr(self, name)

        def call(*args: Any) -> int:
            result = function(*(a or 0 for a in args))
            return int(result if isinstance(result, int) else result[0])

        self._natives[name] = kind(call)
        return ctypes.cast(self._natives[name], ctypes.c_void_p).value or 0


def _first_slot(params: int) -> list[int]:
    (first,) = (ctypes.c_void_p * 1).from_address(params)
    return [ctypes.c_int64.from_address(first).value]


@contextlib.contextmanager
def in_place(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCuda]:
    """The stand-in is the driver inside the block."""
    fake = FakeCuda()
    monkeypatch.setattr(cu, "find", lambda: fake)
    monkeypatch.setattr(nvml, "look_elsewhere", lambda: None)
    forget()
    try:
        yield fake
    finally:
        fake.fails.clear()
        monkeypatch.undo()
        forget()


def forget() -> None:
    """What is known of the driver is asked anew."""
    cu.bindings.cache_clear()
    launcher.linked_here.cache_clear()
    registry.refresh()
