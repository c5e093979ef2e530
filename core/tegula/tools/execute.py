"""Running a module of tile IR on a backend, without a kernel written in Python around it."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Mapping, Sequence
from typing import Any

from tegula.errors import KernelError
from tegula.interp.interpreter import normal_grid
from tegula.interp.memory import Buffer
from tegula.ir.core import Function, Module
from tegula.ir.types import DType, Pointer, numpy_dtype

_LAUNCH = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, *[ctypes.c_int] * 3,
    ctypes.c_void_p,
)  # fmt: skip


def backend_names() -> list[str]:
    """Backends that have a device here and reach host memory, the interpreter first."""
    from tegula.plugin.registry import registry

    names = [b.name for b in registry.usable() if b.available and b.spec.kind == "cpu"]
    return sorted(names, key=lambda name: (name != "interpreter", name))


def compile_for(
    module: Module, backend: str, options: Mapping[str, Any] | None = None, *, index: int = 0
) -> Any:
    """The module's kernel, loaded on a device of a backend, the first unless told otherwise."""
    from tegula.plugin.registry import registry

    found = registry.backend(backend)
    context = found.context(found.info(index).target, options or {})
    lowered = found.pipeline(context).run(module)
    artifact = found.compiler.emit(lowered, context.target, context.options)
    return found.device(index).load(artifact)


def run_on(
    module: Module,
    grid: Sequence[int] | int,
    args: Mapping[str, Any],
    backend: str,
    options: Mapping[str, Any] | None = None,
) -> None:
    """Compile the module's only kernel for a backend and run it on numpy arrays, in place."""
    (kernel,) = module.kernels
    launch(compile_for(module, backend, options), kernel, grid, args)


def launch(
    loaded: Any, kernel: Function, grid: Sequence[int] | int, args: Mapping[str, Any]
) -> None:
    """Launch a loaded kernel with arguments by name."""
    gx, gy, gz = normal_grid(grid)
    given = [(p, args[p.name or ""]) for p in kernel.body.args]
    if loaded.launch_address is None:
        from tegula.plugin.records import MemoryRange

        buffers = [Buffer.of_array(a, p.name or "") for p, a in given if hasattr(a, "ctypes")]
        memory = [MemoryRange(b.address, b.nbytes, b.name, b.writable, b.shape) for b in buffers]
        values = [a.ctypes.data if hasattr(a, "ctypes") else a for _, a in given]
        loaded.launch((gx, gy, gz), values, memory=memory)
        return
    slots = b"".join(_slot(p.type, a) for p, a in given)
    raw = ctypes.create_string_buffer(slots, max(8, len(slots)))
    enter = _LAUNCH(loaded.launch_address)
    code = enter(loaded.handle, ctypes.addressof(raw), len(given), gx, gy, gz, None)
    if code:
        raise KernelError(loaded.error_text(code))


def _slot(t: Any, value: Any) -> bytes:
    """An argument in its 8-byte slot."""
    import numpy as np

    if isinstance(t, Pointer):
        address = value.ctypes.data if hasattr(value, "ctypes") else int(value or 0)
        return struct.pack("<Q", address)
    assert isinstance(t, DType)
    number = np.asarray(value).astype(numpy_dtype(t))
    if t.is_float:
        return number.tobytes().ljust(8, b"\0")
    return struct.pack("<q" if t.is_signed else "<Q", int(number))
