"""Finds NVIDIA GPUs and opens them in their primary contexts, which other libraries share."""

from __future__ import annotations

import ctypes
import sys
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tegula.plugin import Artifact, Device, DeviceError, DeviceInfo, Driver, Probe
from tegula.runtime import streams
from tegula_cuda import cu, nvml
from tegula_cuda.kernel import CudaKernel
from tegula_cuda.launcher import Graph
from tegula_cuda.target import ARCHITECTURES, of_device, resolve

_INSTALL = "install NVIDIA's driver; `nvidia-smi` has to list the device"


class CudaDriver(Driver):
    """The GPUs that NVIDIA's driver shows this process (`CUDA_VISIBLE_DEVICES` limits them)."""

    @classmethod
    def probe(cls) -> Probe:
        try:
            return _probe()
        except Exception as error:  # a probe reports, it does not raise
            return Probe("unavailable", cu.first_line(error), _INSTALL)

    def describe(self, tensor: Any) -> tuple[int, dict[str, Any]]:
        given = dict(tensor.__cuda_array_interface__)
        address, _ = given.get("data") or (0, False)
        return (cu.device_of(address) if address and cu.started() else 0), given

    def open(self, index: int) -> CudaDevice:
        driver = cu.bindings()
        count = cu.check(driver.cuDeviceGetCount(), "counting devices")
        if not 0 <= index < count:
            raise DeviceError(f"there is no device cuda:{index}; there are {count}, from cuda:0")
        info = _info(driver, index)
        if not info.details["supported"]:
            raise DeviceError(
                f"cuda:{index} ({info.name}) has compute capability "
                f"{info.details['capability']}; the oldest that is supported is 7.5"
            )
        return CudaDevice(info)


def _probe() -> Probe:
    seen = None if cu.started() else nvml.look_elsewhere()
    if seen is None:
        driver = cu.bindings()
        version = cu.version()
        count = cu.check(driver.cuDeviceGetCount(), "counting devices")
        devices = tuple(_info(driver, index) for index in range(count))
    else:
        version, listed = seen
        devices = tuple(
            _record(i, d.name, d.major, d.minor, d.memory, {}) for i, d in enumerate(listed)
        )
    if version < cu.MINIMUM:
        have, want = (".".join(map(str, v)) for v in (version, cu.MINIMUM))
        return Probe(
            "unavailable",
            f"NVIDIA's driver supports CUDA {have}, and {want} is the oldest that works",
            "update NVIDIA's driver",
        )
    if not any(d.details["supported"] for d in devices):
        names = ", ".join(d.name for d in devices)
        why = f"only {names}, older than compute capability 7.5" if devices else "none"
        return Probe("unavailable", f"no device that can be used: the driver shows {why}", _INSTALL)
    return Probe("available", devices=devices)


def _record(
    index: int, name: str, major: int, minor: int, memory: int, details: dict[str, int]
) -> DeviceInfo:
    target = of_device(major, minor)
    known = target or resolve(next(iter(ARCHITECTURES)))
    facts: dict[str, Any] = {"supported": target is not None, "capability": f"{major}.{minor}"}
    return DeviceInfo(index, name, known, memory, facts | details)


def _info(driver: Any, index: int) -> DeviceInfo:
    device = cu.check(driver.cuDeviceGet(index), f"cuda:{index}")
    name = cu.check(driver.cuDeviceGetName(128, device), f"cuda:{index}")

    def attribute(what: str) -> int:
        number = getattr(driver.CUdevice_attribute, "CU_DEVICE_ATTRIBUTE_" + what)
        return int(cu.check(driver.cuDeviceGetAttribute(number, device), f"cuda:{index}"))

    return _record(
        index,
        name.split(b"\0")[0].decode(),
        attribute("COMPUTE_CAPABILITY_MAJOR"),
        attribute("COMPUTE_CAPABILITY_MINOR"),
        int(cu.check(driver.cuDeviceTotalMem(device), f"cuda:{index}")),
        {
            "multiprocessors": attribute("MULTIPROCESSOR_COUNT"),
            "clock_khz": attribute("CLOCK_RATE"),
            "memory_clock_khz": attribute("MEMORY_CLOCK_RATE"),
            "memory_bus_bits": attribute("GLOBAL_MEMORY_BUS_WIDTH"),
            "l2_bytes": attribute("L2_CACHE_SIZE"),
        },
    )


class CudaDevice(Device):
    """One GPU, in its primary context."""

    def __init__(self, info: DeviceInfo) -> None:
        self.info = info
        self.name = f"cuda:{info.index} ({info.name})"
        driver = self._driver = cu.bindings()
        ordinal = cu.check(driver.cuDeviceGet(info.index), self.name)
        self.context = cu.check(driver.cuDevicePrimaryCtxRetain(ordinal), f"opening {self.name}")
        self._asserting: weakref.WeakSet[CudaKernel] = weakref.WeakSet()
        self._printing = False

    @contextmanager
    def current(self) -> Iterator[None]:
        """The context is the thread's current one inside the block."""
        driver = self._driver
        now = cu.check(driver.cuCtxGetCurrent(), self.name)
        if int(now) == int(self.context):
            yield
            return
        cu.check(driver.cuCtxPushCurrent(self.context), self.name)
        try:
            yield
        finally:
            driver.cuCtxPopCurrent()

    # -- memory

    def alloc(self, nbytes: int) -> int:
        if nbytes < 0:
            raise ValueError(f"cannot allocate {nbytes} bytes")
        with self.current():
            result = self._driver.cuMemAlloc(max(1, nbytes))
            if int(result[0]) == 2:
                free, total = cu.check(self._driver.cuMemGetInfo(), self.name)
                raise MemoryError(
                    f"cannot allocate {nbytes} bytes on {self.name}: {free} of {total} are free"
                )
            return int(cu.check(result, f"allocating {nbytes} bytes on {self.name}"))

    def free(self, address: int) -> None:
        self._give_back(self._driver.cuMemFree, address, f"freeing {address:#x} on {self.name}")

    def _give_back(self, function: Any, what: Any, why: str) -> None:
        """Call a function that destroys something; what is gone already is no error."""
        result = self._driver.cuCtxPushCurrent(self.context)
        if int(result[0]) == 0:
            result = function(what)
            self._driver.cuCtxPopCurrent()
        if int(result[0]) not in cu.GONE:
            cu.check(result, why)

    def unload(self, module: Any, graphs: Sequence[Graph]) -> None:
        """Take code and the graphs that launch it off the device, once its launches have run."""

        def wait_and_unload(module: Any) -> Any:
            driver = self._driver
            driver.cuCtxSynchronize()
            for graph in graphs:
                if graph.launchable:
                    driver.cuGraphExecDestroy(driver.CUgraphExec(graph.launchable))
                    driver.cuGraphDestroy(driver.CUgraph(graph.graph))
            return driver.cuModuleUnload(module)

        self._give_back(wait_and_unload, module, f"unloading code from {self.name}")

    def copy(self, dst: int, src: int, nbytes: int, *, stream: int = 0) -> None:
        if nbytes:
            with self.current():
                result = self._driver.cuMemcpyAsync(dst, src, nbytes, stream)
            cu.check(result, f"copying {nbytes} bytes on {self.name}")

    # -- kernels

    def load(self, artifact: Artifact) -> CudaKernel:
        """Load code, which is no part of a graph that this thread may be recording."""
        exchange = self._driver.cuThreadExchangeStreamCaptureMode
        relaxed = self._driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
        before = cu.check(exchange(relaxed), self.name)
        try:
            kernel = CudaKernel(self, artifact)
        finally:
            exchange(before)
        if kernel.asserts:
            self._asserting.add(kernel)
        self._printing |= bool(artifact.metadata.get("prints"))
        return kernel

    def synchronize(self, stream: int = 0) -> None:
        """Wait for one stream, or for everything where it is 0; print what kernels printed."""
        if self._printing:  # the driver writes to the C library's standard output
            sys.stdout.flush()
        with self.current():
            if stream:
                result = self._driver.cuStreamSynchronize(stream)
            else:
                result = self._driver.cuCtxSynchronize()
        if self._printing:
            ctypes.CDLL(None).fflush(None)
        cu.check(result, f"waiting for {self.name}")
        for kernel in list(self._asserting):
            kernel.check_assertions()

    # -- streams and time

    def stream_of(self, tensor: Any) -> int:
        ask = _stream_source(tensor)
        return 0 if ask is None else int(ask(tensor, self.info.index))

    def stream_function(self, tensor: Any) -> int | None:
        ask = _stream_source(tensor)
        if ask is None:
            return 0
        if ask is not _torch_stream:
            return None
        return streams.asking(sys.modules["torch"]._C._cuda_getCurrentRawStream)

    def mark(self, stream: int = 0) -> Event:
        with self.current():
            return Event(self, stream)

    def elapsed(self, start: Event, stop: Event) -> float:
        with self.current():
            cu.check(self._driver.cuEventSynchronize(stop.handle), f"waiting for {self.name}")
            took = self._driver.cuEventElapsedTime(start.handle, stop.handle)
        return float(cu.check(took, f"timing {self.name}")) / 1e3


class Event:
    """A point on a stream of a device whose context is current."""

    def __init__(self, device: CudaDevice, stream: int) -> None:
        driver = cu.bindings()
        self.handle = cu.check(driver.cuEventCreate(0), f"making an event on {device.name}")
        weakref.finalize(self, device._give_back, driver.cuEventDestroy, self.handle, "an event")
        cu.check(driver.cuEventRecord(self.handle, stream), f"timing {device.name}")


# -------------------------------------------------------------------------------------------------
# The streams that array libraries work on


def _stream_source(tensor: Any) -> Any:
    """How to ask for the stream of the library that made `tensor`; None if it has no notion of it.

    A library is recognised by the package of the tensor's type, and only looked up if it is loaded.
    """
    if hasattr(tensor, "__cuda_stream__"):
        return lambda tensor, index: tensor.__cuda_stream__()[1]
    package = type(tensor).__module__.partition(".")[0]
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(tensor, torch.Tensor):
        return _torch_stream
    if package == "cupy" and "cupy" in sys.modules:
        return lambda tensor, index: sys.modules["cupy"].cuda.get_current_stream(index).ptr
    interface = getattr(tensor, "__cuda_array_interface__", None)
    if isinstance(interface, dict) and interface.get("stream"):
        return lambda tensor, index: tensor.__cuda_array_interface__["stream"]
    return None


def _torch_stream(tensor: Any, index: int) -> int:
    return int(sys.modules["torch"]._C._cuda_getCurrentRawStream(index))
