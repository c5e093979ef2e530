"""The native launch function: its records, its text with all numbers filled in, and linking it."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from tegula.runtime import native, numbers
from tegula_cuda.tma import MAP_BYTES, Map, records

DRIVER_ERROR = 1000
"""Results of a launch from here on are the driver's errors plus this."""
ASSERTION, GRID_TOO_LARGE, NO_WHOLE_CLUSTERS = 2, 4, 5
"""The other results, besides 0."""
MAP_ERROR = 100_000
"""Results from here on are the driver's errors about a tensor map, plus this."""


class Handle(ctypes.Structure):
    """What `Kernel.handle` points to."""

    _fields_ = (
        ("function", ctypes.c_void_p),
        ("context", ctypes.c_void_p),
        ("block", ctypes.c_uint32),  # threads of one program
        ("shared", ctypes.c_uint32),  # bytes
        ("attribute_count", ctypes.c_uint32),
        ("cluster_x", ctypes.c_uint32),
        ("cluster_y", ctypes.c_uint32),
        ("cluster_z", ctypes.c_uint32),
        ("attributes", ctypes.c_void_p),
        ("error", ctypes.c_uint64),  # the device's buffer for a failed assertion, or 0
        ("failure", ctypes.c_uint32 * 4),  # message number plus 1, program
        ("grid", ctypes.c_int32 * 3),  # of the launch that failed last
        ("map_count", ctypes.c_uint32),
        ("map_lock", ctypes.c_uint32),  # held by the launch that uses the three below
        ("maps", ctypes.c_void_p),  # how to encode them
        ("map_slots", ctypes.c_void_p),  # the slots that the encoded ones were made from
        ("map_cache", ctypes.c_void_p),
    )


class Config(ctypes.Structure):
    """The driver's CUlaunchConfig."""

    _fields_ = (
        ("grid_x", ctypes.c_uint32),
        ("grid_y", ctypes.c_uint32),
        ("grid_z", ctypes.c_uint32),
        ("block_x", ctypes.c_uint32),
        ("block_y", ctypes.c_uint32),
        ("block_z", ctypes.c_uint32),
        ("shared", ctypes.c_uint32),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.c_void_p),
        ("attribute_count", ctypes.c_uint32),
    )


class Attribute(ctypes.Structure):
    """The driver's CUlaunchAttribute; the ones used here hold up to three numbers."""

    _fields_ = (
        ("id", ctypes.c_int32),
        ("pad", ctypes.c_int32),
        ("value", ctypes.c_uint32 * 16),
    )


_COOPERATIVE, _CLUSTER, _OVERLAP = 2, 4, 6
"""Numbers of launch attributes."""


def launch_attributes(metadata: Mapping[str, Any]) -> list[Attribute]:
    """The attributes that an artifact's metadata ask for."""
    cluster = cluster_of(metadata)
    made = []
    if cluster != (1, 1, 1):
        made.append(_attribute(_CLUSTER, *cluster))
    if metadata.get("launch_cooperative_grid"):
        made.append(_attribute(_COOPERATIVE, 1))
    if metadata.get("launch_pdl"):
        made.append(_attribute(_OVERLAP, 1))
    return made


def cluster_of(metadata: Mapping[str, Any]) -> tuple[int, int, int]:
    """Programs of one cluster along each axis."""
    x, y, z = metadata.get("cluster_dims", (1, 1, 1))
    return int(x), int(y), int(z)


def _attribute(number: int, *values: int) -> Attribute:
    attribute = Attribute(number)
    attribute.value[: len(values)] = values
    return attribute


class Maps:
    """The tensor maps of a kernel: how to encode them, and room for encoded ones."""

    def __init__(self, given: Sequence[Mapping[str, Any]], slots: int) -> None:
        made = records(given)
        self._records = (Map * len(made))(*made)
        self._slots = (ctypes.c_int64 * slots)(*[-1] * slots)  # no base, so that nothing is known
        self._cache = (ctypes.c_char * (MAP_BYTES * len(made)))()

    def join(self, handle: Handle) -> None:
        """Tell a kernel's handle of them."""
        handle.map_count = len(self._records)
        handle.maps = ctypes.addressof(self._records)
        handle.map_slots = ctypes.addressof(self._slots)
        handle.map_cache = ctypes.addressof(self._cache)


_DRIVER = (
    "cuCtxGetCurrent", "cuCtxPushCurrent", "cuCtxPopCurrent", "cuLaunchKernelEx",
    "cuMemcpyDtoH", "cuMemsetD32Async", "cuStreamIsCapturing", "cuStreamSynchronize",
    "cuTensorMapEncodeTiled",
)  # fmt: skip
_PYTHON = (
    "PyLong_FromLong", "PyLong_AsVoidPtr", "PyObject_Vectorcall", "PyErr_Occurred", "Py_DecRef",
)  # fmt: skip
_EXPORTS = ("tegula_cuda_launch", "tegula_cuda_stream", "current_stream")


def launcher_text() -> str:
    """The text of `launch.ll` with offsets and numbers in their places."""
    known = {"handle": Handle, "config": Config, "map": Map, "number": numbers.Number}

    def place(match: re.Match[str]) -> str:
        record = known[match[1]]
        if match[2] == "size":
            return str(ctypes.sizeof(record))
        return str(getattr(record, match[2]).offset)

    text = Path(__file__).with_name("launch.ll").read_text(encoding="utf-8")
    text = text.replace("$DRIVER$", str(DRIVER_ERROR)).replace("$MAP$", str(MAP_ERROR))
    return re.sub(r"<(\w+)\.(\w+)>", place, text) + numbers.TEXT


class Launcher:
    """The linked code. Made once per process; needs the driver."""

    def __init__(self, driver: Mapping[str, int]) -> None:
        imports = {**driver, **native.python_functions(_PYTHON)}
        self._library = native.load("tegula_cuda", launcher_text(), _EXPORTS, imports)
        self.address = self._library["tegula_cuda_launch"]
        self._keep: Any = None

    def stream_function(self, current_stream: Any) -> int:
        """The native function that asks this Python function for the current stream."""
        self._keep = current_stream  # native code holds its address for ever
        ctypes.c_void_p.from_address(self._library["current_stream"]).value = id(current_stream)
        return self._library["tegula_cuda_stream"]


@cache
def launcher() -> Launcher:
    """The process's launcher, linked to the driver that is loaded."""
    from tegula_cuda import cu

    return Launcher({name: cu.address(name) for name in _DRIVER})
