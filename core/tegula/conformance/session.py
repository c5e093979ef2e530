"""Compiles and launches kernels on one device of any backend, through the plugin contract alone.

Every buffer lies between guard bytes. A launch that changes a guard, or memory that the kernel may
only read, is an error whatever its results are.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tegula.conformance.case import Buffer, Launch
from tegula.errors import KernelError
from tegula.ir import DType, Module
from tegula.ir.types import numpy_dtype
from tegula.plugin.records import Artifact, Capabilities, MemoryRange

if TYPE_CHECKING:
    from tegula.plugin.backend import Backend
    from tegula.plugin.contract import Kernel

GUARD = 512
"""Guard bytes on each side of a buffer."""


class GuardError(AssertionError):
    """A kernel wrote where it must not."""


class Session:
    """One backend and one of its devices."""

    def __init__(self, backend: str, device: int = 0) -> None:
        from tegula.plugin.registry import registry

        self.backend: Backend = registry.backend(backend)
        self.index = device
        self.target = self.backend.info(device).target
        self._capabilities: Capabilities | None = None

    @property
    def capabilities(self) -> Capabilities:
        if self._capabilities is None:
            self._capabilities = self.backend.compiler.capabilities(self.target)
        return self._capabilities

    @property
    def device(self) -> Any:
        return self.backend.device(self.index)

    def compile(self, module: Module, options: Mapping[str, Any] | None = None) -> Artifact:
        """The artifact of a module's kernel, by the whole pipeline."""
        return compile_module(self.backend, self.target, module, options)

    def run(
        self, launch: Launch, options: Mapping[str, Any] | None = None, *, artifact: Any = None
    ) -> dict[str, np.ndarray]:
        """Compile, launch once and return what every buffer holds afterwards."""
        if artifact is None:
            artifact = self.compile(launch.module, options)
        return self.launch(self.device.load(artifact), artifact, launch)

    def launch(self, kernel: Kernel, artifact: Artifact, launch: Launch) -> dict[str, np.ndarray]:
        """Launch a loaded kernel on fresh buffers."""
        memory = DeviceBuffers(self.device, launch)
        try:
            enter(kernel, launch, memory.arguments(), memory.ranges())
            self.device.synchronize()
            return memory.download()
        finally:
            memory.free()


def compile_module(
    backend: Backend, target: Any, module: Module, options: Mapping[str, Any] | None = None
) -> Artifact:
    """One kernel through the shared passes, the backend's and its compiler."""
    context = backend.context(target, dict(options or {}))
    ready = backend.pipeline(context).run(module)
    return backend.compiler.emit(ready, context.target, context.options)


_NATIVE = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, *[ctypes.c_int] * 3,
    ctypes.c_void_p,
)  # fmt: skip


def enter(
    kernel: Kernel,
    launch: Launch,
    values: Sequence[Any],
    memory: Sequence[MemoryRange],
    stream: int = 0,
) -> None:
    """Start a loaded kernel in the way that its driver offers."""
    if kernel.launch_address is None:
        kernel.launch(launch.grid, values, stream=stream, memory=memory)
        return
    (function,) = launch.module.kernels
    params = [p.type for p in function.body.args]
    slots = b"".join(slot(t, value) for t, value in zip(params, values, strict=True))
    raw = ctypes.create_string_buffer(slots, max(8, len(slots)))
    native = _NATIVE(kernel.launch_address)
    code = native(kernel.handle, ctypes.addressof(raw), len(params), *launch.grid, stream or None)
    if code:
        error = getattr(kernel, "error", None)
        raise error(code) if error is not None else KernelError(kernel.error_text(code))


def slot(t: Any, value: Any) -> bytes:
    """An argument as its 8 bytes."""
    if isinstance(t, DType) and t.is_float:
        return np.asarray(value).astype(numpy_dtype(t)).tobytes().ljust(8, b"\0")
    return (int(value) % (1 << 64)).to_bytes(8, "little")


class DeviceBuffers:
    """The buffers of one launch in device memory."""

    def __init__(self, device: Any, launch: Launch) -> None:
        self.device = device
        self.launch = launch
        self.base: dict[str, int] = {}
        self.images: dict[str, np.ndarray] = {}
        try:
            for buffer in launch.buffers:
                if not buffer.alias_of:
                    self._upload(buffer)
        except BaseException:
            self.free()
            raise

    def _upload(self, buffer: Buffer) -> None:
        size = buffer.data.nbytes
        image = guard_bytes(2 * GUARD + buffer.shift + size)
        inside = slice(GUARD + buffer.shift, GUARD + buffer.shift + size)
        image[inside] = buffer.data.view(np.uint8)
        self.base[buffer.name] = self.device.alloc(image.nbytes)
        self.images[buffer.name] = image
        self.device.copy(self.base[buffer.name], image.ctypes.data, image.nbytes)
        self.device.synchronize()

    def address(self, buffer: Buffer) -> int:
        """Address of the buffer's first element."""
        return self.base[buffer.alias_of or buffer.name] + GUARD + buffer.shift

    def arguments(self) -> list[Any]:
        out: list[Any] = []
        for arg in self.launch.args:
            if isinstance(arg, Buffer):
                out.append(self.address(arg) + arg.start * arg.data.itemsize)
            else:
                out.append(arg)
        return out

    def ranges(self) -> list[MemoryRange]:
        return [
            MemoryRange(self.address(b), b.data.nbytes, b.name, b.writable)
            for b in self.launch.buffers
        ]

    def download(self) -> dict[str, np.ndarray]:
        """The contents of all buffers; raises GuardError if something else was written."""
        found: dict[str, np.ndarray] = {}
        aliases = {b.alias_of for b in self.launch.buffers if b.alias_of and b.writable}
        for buffer in self.launch.buffers:
            if buffer.alias_of:
                continue
            image = self.images[buffer.name]
            now = np.empty_like(image)
            self.device.copy(now.ctypes.data, self.base[buffer.name], now.nbytes)
            self.device.synchronize()
            start = GUARD + buffer.shift
            inside = slice(start, start + buffer.data.nbytes)
            found[buffer.name] = now[inside].copy().view(buffer.data.dtype)
            check_guards(buffer.name, image, now, inside)
            fixed = not buffer.writable and buffer.name not in aliases
            if fixed and not np.array_equal(image[inside], now[inside]):
                raise GuardError(f"buffer '{buffer.name}' may only be read and was changed")
        for buffer in self.launch.buffers:
            if buffer.alias_of:
                found[buffer.name] = found[buffer.alias_of]
        return found

    def free(self) -> None:
        for address in self.base.values():
            self.device.free(address)
        self.base.clear()


def guard_bytes(size: int) -> np.ndarray:
    """Bytes that no kernel writes by chance."""
    return (np.arange(size, dtype=np.uint32) * 37 + 0xA5).astype(np.uint8)


def check_guards(name: str, before: np.ndarray, after: np.ndarray, inside: slice) -> None:
    """Raise GuardError unless the bytes around `inside` are as they were."""
    changed = before != after
    changed[inside] = False
    if changed.any():
        where = int(np.argmax(changed))
        place = (
            f"{inside.start - where} byte(s) before its start"
            if where < inside.start
            else f"{where - inside.stop} byte(s) past its end"
        )
        raise GuardError(
            f"out-of-bounds write: {int(changed.sum())} byte(s) around buffer '{name}' changed, "
            f"the first {place}"
        )
