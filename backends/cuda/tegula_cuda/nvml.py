"""NVIDIA's management library: what devices there are, without starting CUDA.

Starting CUDA makes a thread, and processes forked afterwards cannot use it. So a probe asks here,
and asks the driver only where this library's answer could be another one than the driver's. The
library makes a thread as well: it is asked by a process of its own, which runs this file.
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from typing import Any, NamedTuple


class Seen(NamedTuple):
    """One device."""

    name: str
    major: int
    minor: int
    memory: int


_SECONDS = 20
"""What the other process may take."""


def look_elsewhere() -> tuple[tuple[int, int], list[Seen]] | None:
    """`look` in another process."""
    if _visible() == [] or _library() is None:
        return None
    if not sys.executable:
        return look()
    command = [sys.executable, "-I", "-S", __file__]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS)
        found = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None
    if found is None:
        return None
    (major, minor), devices = found
    return (major, minor), [Seen(*d) for d in devices]


def look() -> tuple[tuple[int, int], list[Seen]] | None:
    """The version of CUDA that the driver supports, and the devices in CUDA's order; None where
    only the driver can tell.
    """
    wanted = _visible()
    library = None if wanted == [] else _library()
    if library is None or library.nvmlInit_v2() != 0:
        return None
    try:
        return _look(library, wanted)
    except (OSError, AttributeError):
        return None
    finally:
        library.nvmlShutdown()


def _visible() -> list[int] | None:
    """The numbers in CUDA_VISIBLE_DEVICES; None: all; empty: it says something more difficult."""
    text = os.environ.get("CUDA_VISIBLE_DEVICES")
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",")]
    plain = all(part.isdecimal() for part in parts) and len(set(parts)) == len(parts)
    return [int(part) for part in parts] if plain else []


def _library() -> Any:
    try:
        return ctypes.CDLL("nvml.dll" if os.name == "nt" else "libnvidia-ml.so.1")
    except OSError:
        return None


def _look(library: Any, wanted: list[int] | None) -> tuple[tuple[int, int], list[Seen]] | None:
    version, count = ctypes.c_int(), ctypes.c_uint()
    _check(library.nvmlSystemGetCudaDriverVersion_v2(ctypes.byref(version)))
    _check(library.nvmlDeviceGetCount_v2(ctypes.byref(count)))
    seen = [_device(library, index) for index in range(count.value)]
    ordered = os.environ.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID"
    if not ordered and len({d.name for d in seen}) > 1:
        return None  # CUDA puts the fastest first
    if wanted is not None:
        if any(index >= len(seen) for index in wanted):
            return None
        seen = [seen[index] for index in wanted]
    return (version.value // 1000, version.value % 1000 // 10), seen


def _device(library: Any, index: int) -> Seen:
    device, name = ctypes.c_void_p(), ctypes.create_string_buffer(96)
    major, minor, memory = ctypes.c_int(), ctypes.c_int(), (ctypes.c_ulonglong * 3)()
    now, pending = ctypes.c_uint(), ctypes.c_uint()
    _check(library.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(device)))
    if library.nvmlDeviceGetMigMode(device, ctypes.byref(now), ctypes.byref(pending)) == 0:
        if now.value:
            raise OSError("the device is split into instances")
    _check(library.nvmlDeviceGetName(device, name, len(name)))
    _check(
        library.nvmlDeviceGetCudaComputeCapability(device, ctypes.byref(major), ctypes.byref(minor))
    )
    _check(library.nvmlDeviceGetMemoryInfo(device, ctypes.byref(memory)))
    return Seen(name.value.decode(), major.value, minor.value, memory[0])


def _check(result: int) -> None:
    if result != 0:
        raise OSError(f"NVML's error {result}")


if __name__ == "__main__":
    _answer = look()
    print(json.dumps(_answer))
