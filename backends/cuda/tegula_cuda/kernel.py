"""A kernel that is loaded on one GPU."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tegula.errors import DeviceAssertionError, GridError, KernelError, OutOfResources
from tegula.plugin import Artifact, Kernel, check_elf, check_intact, damaged
from tegula_cuda import cu, launcher
from tegula_cuda.launcher import Attribute, Config, Graph, Handle
from tegula_cuda.target import MAX_GRID, STATIC_SHARED, WARP_SIZE
from tegula_cuda.tma import Map, record

if TYPE_CHECKING:
    from tegula_cuda.driver import CudaDevice

_LOG_BYTES = 8192
_ERROR_BYTES = 16
_LAUNCH_REFUSED = (1, 912)
"""The driver's errors about sizes of a launch: an invalid value, a cluster that does not fit."""
KINDS = ("cubin", "ptx")
_ELF_MACHINE = 190


class CudaKernel(Kernel):
    """A loaded module's entry. Keep it alive as long as its `handle` may be launched."""

    def __init__(self, device: CudaDevice, artifact: Artifact) -> None:
        check_code(artifact)
        metadata = artifact.metadata
        self.entry = artifact.entry
        self.params = artifact.params
        self.asserts = tuple(metadata.get("asserts", ()))
        self._device = device
        self._driver = cu.bindings()
        self._threads = WARP_SIZE * int(metadata["num_warps"])
        self._shared = int(metadata.get("shared_bytes", 0))
        self._cluster = launcher.cluster_of(metadata)
        with device.current():
            module = self._load(artifact)
            graphs: list[Graph] = []
            self._finalizer = weakref.finalize(self, device.unload, module, graphs)
            self._function = cu.check(
                self._driver.cuModuleGetFunction(module, self.entry.encode()), self._where()
            )
            self.facts = self._look()
            self._ask_for_shared()
            self._handle = self._make_handle(metadata)
        served = not self._attributes and launcher.graphs_serve(cu.version())
        self._replay = launcher.Replay(self._handle, len(self.params), served)
        graphs.append(self._replay.graph)
        self.handle = ctypes.addressof(self._handle)
        self.launch_address = launcher.linked_here()[launcher.ENTRY]

    def _where(self) -> str:
        return f"kernel `{self.entry}` on {self._device.name}"

    # -- loading

    def _load(self, artifact: Artifact) -> Any:
        options = self._driver.CUjit_option
        log = bytearray(_LOG_BYTES)
        image = artifact.data + b"\0" if artifact.kind == "ptx" else artifact.data
        names = [options.CU_JIT_ERROR_LOG_BUFFER, options.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES]
        result = self._driver.cuModuleLoadDataEx(image, 2, names, [log, _LOG_BYTES])
        said = log.split(b"\0")[0].decode("utf-8", "replace").strip()
        what = f"{self._where()} cannot be loaded from {artifact.kind}"
        return cu.check(result, f"{what} ({said})" if said else what)

    def _attribute(self, name: str) -> int:
        which = getattr(self._driver.CUfunction_attribute, "CU_FUNC_ATTRIBUTE_" + name)
        return int(cu.check(self._driver.cuFuncGetAttribute(which, self._function), self._where()))

    def _look(self) -> dict[str, int]:
        facts = {
            "registers": self._attribute("NUM_REGS"),
            "local_bytes": self._attribute("LOCAL_SIZE_BYTES"),
            "max_threads": self._attribute("MAX_THREADS_PER_BLOCK"),
        }
        if self._threads > facts["max_threads"]:
            raise OutOfResources(
                self._threads,
                facts["max_threads"],
                f"threads ({self._where()}: with {facts['registers']} registers a thread no more "
                "fit; fewer warps or maxnreg help)",
            )
        return facts

    def _ask_for_shared(self) -> None:
        limit = self._device_attribute("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN")
        room = limit - self._attribute("SHARED_SIZE_BYTES")
        if self._shared > room:
            raise OutOfResources(self._shared, room, f"bytes of shared memory ({self._where()})")
        if self._shared > STATIC_SHARED:
            which = self._driver.CUfunction_attribute
            name = which.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            cu.check(
                self._driver.cuFuncSetAttribute(self._function, name, self._shared), self._where()
            )

    def _device_attribute(self, name: str) -> int:
        which = getattr(self._driver.CUdevice_attribute, "CU_DEVICE_ATTRIBUTE_" + name)
        device = cu.check(self._driver.cuCtxGetDevice(), self._where())
        return int(cu.check(self._driver.cuDeviceGetAttribute(which, device), self._where()))

    def _make_handle(self, metadata: Mapping[str, Any]) -> Handle:
        attributes = launcher.launch_attributes(metadata)
        self._attributes = (Attribute * len(attributes))(*attributes)
        maps = [record(m) for m in metadata.get("maps", ())]
        self._maps = (Map * len(maps))(*maps)
        config = Config(
            block=(self._threads, 1, 1), shared=self._shared,
            attributes=ctypes.addressof(self._attributes), attribute_count=len(attributes),
        )  # fmt: skip
        handle = Handle(
            int(self._function), int(self._device.context), config=config,
            map_count=len(maps), maps=ctypes.addressof(self._maps),
        )  # fmt: skip
        if self.asserts:
            handle.error = self._device.alloc(_ERROR_BYTES)
            weakref.finalize(self, self._device.free, handle.error)
            cu.check(self._driver.cuMemsetD32(handle.error, 0, _ERROR_BYTES // 4), self._where())
        return handle

    def unload(self) -> None:
        """Take the code off the device now; no launch and no recorded graph may use it again."""
        self._finalizer()

    # -- launching

    def programs_at_once(self) -> int:
        """Programs that one multiprocessor runs at the same time."""
        with self._device.current():
            found = self._driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(
                self._function, self._threads, self._shared
            )
        return int(cu.check(found, self._where()))

    # -- errors

    def error_text(self, code: int) -> str:
        return str(self.error(code))

    def error(self, code: int) -> Exception:
        """The exception for a non-zero result of the launch that failed last."""
        if code == launcher.ASSERTION:
            number, *program = self._handle.failure
            return self._assertion(number, tuple(program))
        grid = tuple(self._handle.grid)
        where = f"kernel `{self.entry}` on grid {grid} of {self._device.name}"
        if code >= launcher.MAP_ERROR:
            return self._map_error(where, code - launcher.MAP_ERROR)
        number = code - launcher.DRIVER_ERROR
        if number in _LAUNCH_REFUSED and (why := self._misfit(grid)):
            return GridError(f"{where}: {why}")
        needs = (
            f"{self._threads} threads with {self.facts['registers']} registers each and "
            f"{self._shared} bytes of shared memory a program"
        )
        return KernelError(f"{where} failed: {cu.describe(number)} ({needs})")

    def _misfit(self, grid: tuple[int, ...]) -> str:
        """What is wrong with a grid, if anything is."""
        if any(n > most for n, most in zip(grid, MAX_GRID)):
            return (
                f"a grid has at most {MAX_GRID} programs along its axes; put the longest axis "
                "first, or let each program do more"
            )
        if any(n % size for n, size in zip(grid, self._cluster)):
            return (
                f"the grid does not divide into clusters of {self._cluster} programs; round it up "
                "and let the surplus programs return"
            )
        return ""

    def _map_error(self, where: str, number: int) -> KernelError:
        return KernelError(
            f"{where}: {cu.describe(number)}. The tensor of descriptor {self._handle.failure[0]} "
            "(of those that the kernel makes for its parameters) cannot be copied in blocks: its "
            "base and its strides have to be multiples of 16 bytes, and strides positive and less "
            "than 2**40 bytes; tensor_copies=False does without"
        )

    def _assertion(self, number: int, program: tuple[int, ...]) -> DeviceAssertionError:
        known = 0 < number <= len(self.asserts)
        message = self.asserts[number - 1] if known else "(no message)"
        return DeviceAssertionError(
            f"device-side assertion failed in kernel '{self.entry}', program {program}: {message}"
        )

    def check_assertions(self) -> None:
        """Raise if an assertion failed in launches that could not wait, those of a graph."""
        words = (ctypes.c_uint32 * 4)()
        with self._device.current():
            error, driver = self._handle.error, self._driver
            address = ctypes.addressof(words)
            cu.check(driver.cuMemcpyDtoH(address, error, _ERROR_BYTES), self._where())
            if words[0]:
                cu.check(driver.cuMemsetD32(error, 0, _ERROR_BYTES // 4), self._where())
        if words[0]:
            raise self._assertion(words[0], tuple(words[1:]))


def check_code(artifact: Artifact) -> None:
    """Raise a `DeviceError` unless the driver can be given an artifact's code: it reads what the
    code's own tables say, and not how many bytes there are.
    """
    if check_intact(artifact, "cuda", KINDS):
        return
    if artifact.kind == "cubin":
        check_elf(artifact, _ELF_MACHINE)
    elif b"\0" in artifact.data or b".entry" not in artifact.data:
        raise damaged(artifact, "it is no text of a PTX module with an entry")
