"""Finds Intel's devices through dpctl, owns unified shared memory, loads SPIR-V and launches it."""

from __future__ import annotations

import ctypes
import sys
import threading
import weakref
from collections import OrderedDict
from typing import Any

from tegula.errors import DeviceAssertionError, KernelError
from tegula.plugin import (
    Artifact,
    Device,
    DeviceError,
    DeviceInfo,
    Driver,
    Kernel,
    Probe,
    check_intact,
    digest,
)
from tegula_xpu import launch, spirv, sycl, target
from tegula_xpu.plugin import INSTALL, INTERFACE

ARTIFACT_KIND = "spirv"
ALIGNMENT = 64
KEPT_PROGRAMS = 512

_ROUND_DIVISIONS = {
    "opencl": "-cl-fp32-correctly-rounded-divide-sqrt",
    "level_zero": "-ze-fp32-correctly-rounded-divide-sqrt",
}
"""Without it division and square root of float32 may be off by units in the last place."""
_LARGE_REGISTERS = {
    "opencl": "-cl-intel-256-GRF-per-thread",
    "level_zero": "-ze-opt-large-register-file",
}
"""Twice the registers for half the threads."""


def build_options(interface: str, large_registers: bool) -> str:
    """What a driver is told when it compiles a program."""
    found = [_ROUND_DIVISIONS.get(interface)]
    if large_registers:
        found.append(_LARGE_REGISTERS.get(interface))
    return " ".join(filter(None, found))


class XpuDriver(Driver):
    """Every GPU that Level Zero or OpenCL shows, and processors as OpenCL devices."""

    @classmethod
    def probe(cls) -> Probe:
        try:
            found = sycl.devices()
        except ImportError as error:
            missing = "dpctl is not installed" if _is_missing(error) else f"dpctl fails: {error}"
            return Probe("unavailable", missing, INSTALL)
        except Exception as error:  # a probe reports, it does not raise
            return Probe("unavailable", f"the SYCL runtime fails: {error}", "reinstall dpctl")
        if found:
            return Probe("available", devices=tuple(map(_info, range(len(found)), found)))
        return Probe("unavailable", *_why_none())

    def open(self, index: int) -> XpuDevice:
        found = sycl.devices()
        if not 0 <= index < len(found):
            raise DeviceError(f"there is no device xpu:{index}; {len(found)} were found")
        return XpuDevice(_info(index, found[index]), found[index])

    def describe(self, tensor: Any) -> tuple[int, dict[str, Any]]:
        """A USM array: strides and offset are numbers of elements there."""
        given = dict(getattr(tensor, INTERFACE))
        size = int(given["typestr"][2:])
        address, readonly = given["data"]
        readonly = readonly and hasattr(tensor, "flags")  # plain memory has the flag set always
        strides = given.get("strides")
        return _index_of(tensor), {
            **given,
            "data": (address + given.get("offset", 0) * size, readonly),
            "strides": None if strides is None else tuple(step * size for step in strides),
        }


def _index_of(tensor: Any) -> int:
    """The number of the device that a USM array lives on."""
    device = getattr(tensor, "sycl_device", None)
    for index, known in enumerate(sycl.devices()):
        if device is not None and device == known:
            return index
    raise DeviceError("it lives on no device of backend 'xpu'")


def _is_missing(error: ImportError) -> bool:
    return isinstance(error, ModuleNotFoundError) and error.name == "dpctl"


def _why_none() -> tuple[str, str]:
    if sycl.opencl_for_cpus() is None:
        return (
            "no Intel GPU with a driver, and Intel's OpenCL runtime for processors is missing",
            f"install the GPU's driver, or for tests on the processor: {INSTALL}",
        )
    return (
        "the SYCL runtime shows no device",
        "look at ONEAPI_DEVICE_SELECTOR and OCL_ICD_FILENAMES; `sycl-ls` lists what there is",
    )


def _info(index: int, device: Any) -> DeviceInfo:
    details: dict[str, str | int | float | bool | None] = {
        "interface": sycl.backend_of(device),
        "driver": str(device.driver_version),
        "compute_units": int(device.max_compute_units),
        "for_tests": bool(device.is_cpu),
    }
    kind = target.of_device(device)
    return DeviceInfo(index, device.name.strip(), kind, int(device.global_mem_size), details)


class XpuDevice(Device):
    """One device with a queue of its own, which runs commands in order."""

    def __init__(self, info: DeviceInfo, device: Any) -> None:
        dpctl = sycl.dpctl()
        self.info = info
        self.device = device
        self.queue = dpctl.SyclQueue(device, property="in_order")
        self.ref: int = self.queue.addressof_ref()
        self._timer: Any = None
        self._api = sycl.interface()
        self._live: set[int] = set()
        self._programs: OrderedDict[str, Program] = OrderedDict()
        self._lock = threading.Lock()

    def alloc(self, nbytes: int) -> int:
        if nbytes < 0:
            raise ValueError(f"cannot allocate {nbytes} bytes")
        address = self._api.DPCTLaligned_alloc_device(ALIGNMENT, max(nbytes, 1), self.ref)
        if not address:
            raise MemoryError(f"cannot allocate {nbytes} bytes on {self.info.name}")
        self._live.add(address)
        return int(address)

    def free(self, address: int) -> None:
        if address not in self._live:
            raise DeviceError(f"{address:#x} is no live allocation of this device")
        self._live.remove(address)
        self.synchronize()  # launches that use it may not have run yet
        self._api.DPCTLfree_with_queue(address, self.ref)

    def copy(self, dst: int, src: int, nbytes: int, *, stream: int = 0) -> None:
        """Copy and wait: host memory may be gone after the call."""
        if nbytes:
            event = self._api.DPCTLQueue_Memcpy(stream or self.ref, dst, src, nbytes)
            sycl.wait(event, f"a copy of {nbytes} bytes")

    def load(self, artifact: Artifact) -> XpuKernel:
        check_intact(artifact, "xpu", (ARTIFACT_KIND,))
        spirv.check(artifact)
        return XpuKernel(self, self._program(artifact), artifact)

    def _program(self, artifact: Artifact) -> Program:
        """The program, compiled by the driver once; the last ones are kept, since drivers do not
        give back all of the memory of a program."""
        key = digest(artifact.data)
        with self._lock:
            found = self._programs.get(key)
            if found is None:
                found = self._programs[key] = Program(self, artifact)
                if len(self._programs) > KEPT_PROGRAMS:
                    self._programs.popitem(last=False)
            self._programs.move_to_end(key)
        return found

    def synchronize(self, stream: int = 0) -> None:
        self._api.DPCTLQueue_Wait(stream or self.ref)

    def stream_of(self, tensor: Any) -> int:
        """The queue of a USM array, or the current one of torch."""
        queue = getattr(tensor, "sycl_queue", None)
        if queue is not None:
            self._check_context(queue)
            return int(queue.addressof_ref())
        torch = sys.modules.get("torch")
        if torch is not None and isinstance(tensor, torch.Tensor) and tensor.device.type == "xpu":
            return int(torch.xpu.current_stream(tensor.device).sycl_queue)
        return 0

    def stream_function(self, tensor: Any) -> int | None:
        """Arrays of Tegula's own are worked on in the device's own queue."""
        return 0 if getattr(tensor, "__tegula_array__", False) else None

    def _check_context(self, queue: Any) -> None:
        if queue.sycl_context != self.queue.sycl_context:
            raise DeviceError(
                "an argument's queue belongs to another SYCL context than kernels on "
                f"xpu:{self.info.index}; make the array with the device's default context"
            )

    def interface(self, array: dict[str, Any]) -> dict[str, Any]:
        """The array protocol of USM memory."""
        strides, size = array["strides"], int(array["typestr"][2:])
        strides = None if strides is None else tuple(step // size for step in strides)
        return {**array, "strides": strides, "version": 1, "offset": 0, "syclobj": self.queue}

    # -- time

    def mark(self, stream: int = 0) -> Any:
        """A command of a queue that takes times, which runs when the stream has got here."""
        if self._timer is None:
            self._timer = sycl.dpctl().SyclQueue(
                self.queue.sycl_context, self.device, property=("in_order", "enable_profiling")
            )
        here = self._api.DPCTLQueue_SubmitBarrier(stream or self.ref)
        events = (ctypes.c_void_p * 1)(here)
        mark = self._api.DPCTLQueue_SubmitBarrierForEvents(self._timer.addressof_ref(), events, 1)
        if here:
            self._api.DPCTLEvent_Delete(here)
        if not mark:
            raise DeviceError("the SYCL runtime refused to take the time")
        return Mark(self._api, mark)

    def elapsed(self, start: Any, stop: Any) -> float:
        return float(stop.nanoseconds() - start.nanoseconds()) * 1e-9


class Mark:
    """A point in time on a queue."""

    def __init__(self, api: Any, event: int) -> None:
        self._api, self._event = api, event
        weakref.finalize(self, api.DPCTLEvent_Delete, event)

    def nanoseconds(self) -> int:
        self._api.DPCTLEvent_Wait(self._event)
        return int(self._api.DPCTLEvent_GetProfilingInfoEnd(self._event))


class Program:
    """SPIR-V as the device's driver has compiled it."""

    def __init__(self, device: XpuDevice, artifact: Artifact) -> None:
        from dpctl.program import SyclProgramCompilationError, create_program_from_spirv

        large = bool(artifact.metadata.get("large_registers"))
        options = build_options(str(device.info.details["interface"]), large)
        try:
            bundle = create_program_from_spirv(device.queue, artifact.data, options)
            self.kernel = bundle.get_sycl_kernel(artifact.entry)
        except (SyclProgramCompilationError, ValueError) as error:
            raise DeviceError(
                f"the driver of {device.info.name} does not compile kernel '{artifact.entry}': "
                f"{error}"
            ) from error
        self.ref: int = self.kernel.addressof_ref()


class XpuKernel(Kernel):
    """A loaded program. Keep it alive as long as its `handle` may be launched."""

    def __init__(self, device: XpuDevice, program: Program, artifact: Artifact) -> None:
        self._device, self._program = device, program
        self.entry = artifact.entry
        self.asserts = [str(text) for text in artifact.metadata.get("asserts", ())]
        types = [launch.argument_type(param) for param in artifact.params]
        error = 0
        if self.asserts:
            types.append(launch.argument_type("ptr"))
            error = self._error_record()
        self._types = (ctypes.c_int32 * max(1, len(types)))(*types)
        threads = int(artifact.metadata["threads"])
        self._handle = launch.Handle(
            program.ref, device.ref, len(artifact.params), threads,
            ctypes.addressof(self._types), error or None,
        )  # fmt: skip
        self._native, self.launch_address = launch.native()
        self.handle = ctypes.addressof(self._handle)

    def _error_record(self) -> int:
        """Memory that device and host see, for the first assertion that fails."""
        device = self._device
        api = sycl.interface()
        address = api.DPCTLaligned_alloc_shared(ALIGNMENT, launch.ERROR_BYTES, device.ref)
        if not address:
            raise DeviceError(f"{device.info.name} shares no memory, which assertions need")
        ctypes.memset(address, 0, launch.ERROR_BYTES)
        queue = device.queue  # kept alive by the finalizer
        weakref.finalize(self, lambda: api.DPCTLfree_with_queue(address, queue.addressof_ref()))
        return int(address)

    def error_text(self, code: int) -> str:
        return str(self.error(code))

    def error(self, code: int) -> Exception:
        """The exception for a non-zero result of the launch function."""
        if code == launch.ASSERTED:
            record = (ctypes.c_int32 * 4).from_address(self._handle.error)
            number, *pid = list(record)
            record[0] = 0
            known = 0 < number <= len(self.asserts)
            message = self.asserts[number - 1] if known else "(no message)"
            return DeviceAssertionError(
                f"device-side assertion failed in kernel '{self.entry}', "
                f"program {tuple(pid)}: {message}"
            )
        threads = self._handle.threads
        return KernelError(
            f"kernel '{self.entry}' did not run: the SYCL runtime refused the launch; its grid is "
            f"too large, or the device cannot hold {threads} work-items of it at once "
            "(fewer warps or smaller tiles need less)"
        )
