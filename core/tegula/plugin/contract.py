"""The classes that a backend implements.

`Compiler` turns IR into artifacts and has to work where no device is present. `Driver` finds
devices and opens them; a `Device` owns memory and loads artifacts; a `Kernel` can be launched.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tegula.errors import KernelError
from tegula.plugin.records import (
    Artifact,
    Capabilities,
    DeviceInfo,
    MemoryRange,
    Options,
    Probe,
    Target,
    TritonTarget,
)

if TYPE_CHECKING:
    from tegula.ir.core import Module
    from tegula.passes import Pipeline


class Compiler(ABC):
    """Turns IR modules into artifacts. Has to work with no device present.

    One instance serves all threads.
    """

    @abstractmethod
    def targets(self) -> Sequence[Target]:
        """Known targets, the most useful first, for compilation without a device."""

    @abstractmethod
    def capabilities(self, target: Target) -> Capabilities: ...

    def options(self, target: Target, given: Mapping[str, Any]) -> Options:
        """Checked options; the base understands the common ones and rejects all others."""
        return Options.make(given)

    @abstractmethod
    def pipeline(self, target: Target, options: Options) -> Pipeline:
        """The passes that follow the shared ones."""

    @abstractmethod
    def emit(self, module: Module, target: Target, options: Options) -> Artifact:
        """Code for the module's one kernel; an op it cannot compile is an `UnsupportedError`."""

    def triton(self, target: Target) -> TritonTarget | None:
        """How programs written for Triton know a target; None if they do not."""
        return None

    @abstractmethod
    def fingerprint(self) -> str:
        """Versions of everything that shapes its output; joins the cache key."""


class Kernel:
    """A loaded artifact, ready to be launched on one device.

    A driver that can be entered natively gives `launch_address`, a function
    `int (void *handle, uint64_t *slots, int64_t nslots, int gx, int gy, int gz, void *stream)` that
    returns 0 on success and never needs Python; the launch stub calls it with the GIL released.
    Arguments lie in 8-byte slots, one per parameter: pointers, sign- or zero-extended integers, or
    the raw bits of a float or double in the low bytes.
    """

    launch_address: int | None = None
    handle: int = 0
    entry: str = ""
    params: tuple[str, ...] = ()
    """The artifact's."""
    facts: Mapping[str, int] = MappingProxyType({})
    """What loading told beyond the artifact's metadata, as `registers` or `max_threads`."""

    def launch(
        self,
        grid: tuple[int, int, int],
        args: Sequence[Any],
        *,
        stream: int = 0,
        memory: Sequence[MemoryRange] = (),
    ) -> None:
        """Launch from Python: one value per parameter, pointers as integer addresses.

        Launches of users come here only where `launch_address` is None. `memory` lists the buffers
        that the arguments own.
        """
        from tegula.plugin.native import enter

        if self.launch_address is None:
            raise NotImplementedError(f"{type(self).__name__} has neither launch() nor an address")
        if len(args) != len(self.params):
            raise TypeError(
                f"kernel '{self.entry}' takes {len(self.params)} arguments, not {len(args)}"
            )
        code = enter(self.launch_address, self.handle, self.params, grid, args, stream)
        if code != 0:
            raise self.error(code)

    def error(self, code: int) -> Exception:
        """The exception for a non-zero result of the launch that this thread made last."""
        return KernelError(self.error_text(code))

    def error_text(self, code: int) -> str:
        """What a non-zero result of the native launch function means."""
        return f"launch failed with code {code}"


class Device(ABC):
    """An open device: memory, loading and synchronisation."""

    info: DeviceInfo

    @abstractmethod
    def alloc(self, nbytes: int) -> int:
        """The address of `nbytes` of fresh device memory, aligned to 64 bytes or better."""

    @abstractmethod
    def free(self, address: int) -> None: ...

    @abstractmethod
    def copy(self, dst: int, src: int, nbytes: int, *, stream: int = 0) -> None:
        """Copy between any two addresses that the device or the host can reach."""

    @abstractmethod
    def load(self, artifact: Artifact) -> Kernel: ...

    @abstractmethod
    def synchronize(self, stream: int = 0) -> None:
        """Wait until everything that was launched is done; report its errors."""

    def stream_of(self, tensor: Any) -> int:
        """The stream on which the library that made `tensor` works right now."""
        return 0

    def stream_function(self, tensor: Any) -> int | None:
        """Address of a native `int f(int type, int index, void **stream)` that gives `stream_of`
        for tensors like this one, by their DLPack device; it is entered with the GIL held and
        returns other than 0 with an exception set.

        0: the stream is always 0. None: only `stream_of` can tell, so launches with such tensors
        go through Python. Not asked for tensors whose library hands out its stream natively.
        """
        return 0 if type(self).stream_of is Device.stream_of else None

    def interface(self, array: dict[str, Any]) -> dict[str, Any]:
        """What `BackendSpec.interface` gives for an array in this device's memory, from what
        `__array_interface__` would say."""
        return array

    def mark(self, stream: int = 0) -> Any:
        """A point in time on the stream, for `elapsed`."""
        import time

        self.synchronize(stream)
        return time.perf_counter()

    def elapsed(self, start: Any, stop: Any) -> float:
        """Seconds between two marks."""
        return float(stop - start)


class Driver(ABC):
    """Finds and opens the devices of one backend."""

    @classmethod
    @abstractmethod
    def probe(cls) -> Probe:
        """Look for hardware and libraries: cheap, no context, no thread, and no exception."""

    def owns(self, tensor: Any) -> bool:
        """Whether a tensor of a DLPack device type that vendors share is one of this driver's."""
        return False

    def describe(self, tensor: Any) -> tuple[int, dict[str, Any]]:
        """A tensor known by `BackendSpec.interface`: the number of its device, and what
        `__array_interface__` would say of it."""
        return 0, dict(tensor.__array_interface__)

    @abstractmethod
    def open(self, index: int) -> Device: ...
