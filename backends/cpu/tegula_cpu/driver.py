"""Finds the host processor, owns host memory, loads objects and launches them."""

from __future__ import annotations

import ctypes
import os
import sys
from functools import cache

from tegula.errors import DeviceAssertionError, KernelError
from tegula.plugin import (
    Artifact,
    Device,
    DeviceError,
    DeviceInfo,
    Driver,
    Kernel,
    Probe,
    check_elf,
    check_intact,
)
from tegula.plugin.elf import Elf
from tegula_cpu.pool_ir import offset

ALIGNMENT = 64
"""Alignment of `CpuDevice.alloc`: a cache line, and the widest vector."""


class CpuDriver(Driver):
    """The one host processor."""

    @classmethod
    def probe(cls) -> Probe:
        if os.name != "posix":
            return Probe(
                "unavailable",
                reason="the thread pool needs POSIX threads, which this system lacks",
                hint="run under Linux, macOS or WSL",
            )
        try:
            return Probe("available", devices=(_device_info(),))
        except Exception as error:  # a probe reports, it does not raise
            return Probe(
                "unavailable",
                reason=f"LLVM cannot make code for this processor: {error}",
                hint="reinstall llvmlite: pip install --force-reinstall 'llvmlite>=0.50,<0.51'",
            )

    def open(self, index: int) -> CpuDevice:
        if index != 0:
            raise DeviceError(f"there is no device cpu:{index}; the only one is cpu:0")
        return CpuDevice(_device_info())


@cache
def _device_info() -> DeviceInfo:
    from tegula_cpu.target import host

    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return DeviceInfo(0, _processor_name(), host(), memory, {"threads": _processors()})


def _processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _processor_name() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as lines:
            for line in lines:
                key, _, value = line.partition(":")
                if key.strip() == "model name":
                    return value.strip()
    except OSError:
        pass
    import platform

    return platform.processor() or platform.machine()


class CpuDevice(Device):
    """Host memory and the thread pool."""

    def __init__(self, info: DeviceInfo) -> None:
        self.info = info
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._libc.free.argtypes = [ctypes.c_void_p]
        self._libc.posix_memalign.argtypes = [
            ctypes.POINTER(ctypes.c_void_p),
            ctypes.c_size_t,
            ctypes.c_size_t,
        ]
        self._live: dict[int, int] = {}

    def alloc(self, nbytes: int) -> int:
        if nbytes < 0:
            raise ValueError(f"cannot allocate {nbytes} bytes")
        slot = ctypes.c_void_p()
        if self._libc.posix_memalign(ctypes.byref(slot), ALIGNMENT, max(nbytes, 1)) != 0:
            raise MemoryError(f"cannot allocate {nbytes} bytes of host memory")
        assert slot.value is not None
        self._live[slot.value] = nbytes
        return slot.value

    def free(self, address: int) -> None:
        if self._live.pop(address, None) is None:
            raise DeviceError(f"{address:#x} is no live allocation of this device")
        self._libc.free(address)

    def copy(self, dst: int, src: int, nbytes: int, *, stream: int = 0) -> None:
        ctypes.memmove(dst, src, nbytes)

    def load(self, artifact: Artifact) -> CpuKernel:
        known = check_intact(artifact, "cpu", ("elf-object",))
        if not known and sys.platform != "darwin":  # objects are no ELF there
            check_elf(artifact)
        return CpuKernel(artifact)

    def synchronize(self, stream: int = 0) -> None:
        """Nothing to wait for: a launch returns when its work is done."""


def _name(artifact: Artifact) -> str:
    """What the kernel is called in messages: its function's name, not its symbol."""
    return str(artifact.metadata.get("name", artifact.entry))


class CpuKernel(Kernel):
    """A loaded object. Keep it alive as long as its `handle` may be launched."""

    def __init__(self, artifact: Artifact) -> None:
        from tegula_cpu.pool import pool

        self._pool = pool()
        try:
            self._library, addresses = self._pool.linker.link(
                artifact.data, (artifact.entry,), self._pool.symbols(artifact.data)
            )
        except RuntimeError as error:
            raise DeviceError(self._why_not(artifact, error)) from None
        self.entry = _name(artifact)
        self.params = artifact.params
        # entry, scratch bytes, flags, learned cost: see `pool_ir`
        self._record = (ctypes.c_int64 * 4)(
            addresses[artifact.entry], int(artifact.metadata.get("scratch_bytes", 0))
        )
        self.handle = ctypes.addressof(self._record)
        self.launch_address = self._pool.launch_address

    def _why_not(self, artifact: Artifact, error: Exception) -> str:
        import llvmlite.binding as llvm

        own = self._pool.symbols(artifact.data)
        symbols = Elf(artifact.data).symbols() if sys.platform != "darwin" else ()
        missing = [
            name
            for name, defined in symbols
            if not defined and name not in own and not llvm.address_of_symbol(name)
        ]
        why = f"nothing defines {', '.join(missing)}" if missing else str(error)
        return f"cannot load kernel '{_name(artifact)}': {why}"

    def error_text(self, code: int) -> str:
        return str(self.error(code))

    def error(self, code: int) -> Exception:
        """The exception for a non-zero result of the launch that this thread made last."""
        if code == 2:
            failure = self._pool.last_failure()
            message, pid = failure or ("(no message)", (0, 0, 0))
            return DeviceAssertionError(
                f"device-side assertion failed in kernel '{self.entry}', program {pid}: {message}"
            )
        if code == 1:
            wanted = self._record[offset("handle", "scratch") // 8]
            return KernelError(
                f"kernel '{self.entry}' did not run: no memory for {wanted} bytes of scratch "
                "a thread; use smaller tiles or fewer threads (TEGULA_NUM_THREADS)"
            )
        if code == 3:
            return KernelError(f"kernel '{self.entry}' did not run: its grid has 2**63 programs")
        return KernelError(f"kernel '{self.entry}' failed with code {code}")
