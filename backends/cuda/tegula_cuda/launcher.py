"""The native launch function: its records, its text with all numbers filled in, and linking it."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from tegula.runtime import native, numbers
from tegula_cuda.tma import MAP_BYTES, Map, records

ENTRY = "tegula_cuda_launch"
DRIVER_ERROR = 1000
"""Results of a launch from here on are the driver's errors plus this."""
MAP_ERROR = 100_000
"""Results from here on are the driver's errors about a tensor map, plus this."""
ASSERTION = 2
"""The other result, besides 0."""


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


class Handle(ctypes.Structure):
    """What `Kernel.handle` points to."""

    _fields_ = (
        ("function", ctypes.c_void_p),
        ("context", ctypes.c_void_p),
        ("error", ctypes.c_uint64),  # the device's buffer for a failed assertion, or 0
        ("config", Config),  # of every launch, but for grid and stream
        ("failure", ctypes.c_uint32 * 4),  # message number plus 1, program
        ("grid_x", ctypes.c_int32),  # of the launch that failed last
        ("grid_y", ctypes.c_int32),
        ("grid_z", ctypes.c_int32),
        ("map_count", ctypes.c_uint32),
        ("map_lock", ctypes.c_uint32),  # held by the launch that uses the three below
        ("maps", ctypes.c_void_p),  # how to encode them
        ("map_slots", ctypes.c_void_p),  # the slots that the encoded ones were made from
        ("map_cache", ctypes.c_void_p),
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
_RECORDS = {"handle": Handle, "config": Config, "map": Map, "number": numbers.Number}


def launcher_text() -> str:
    """The text of `launch.ll` with all numbers in their places."""
    text = Path(__file__).with_name("launch.ll").read_text(encoding="utf-8")
    text = text.replace("$DRIVER$", str(DRIVER_ERROR)).replace("$MAP$", str(MAP_ERROR))
    return native.with_fields(text, _RECORDS) + numbers.TEXT


def linked(driver: Mapping[str, int]) -> native.Library:
    """The launch function `ENTRY`, linked to these functions of the driver."""
    imports = {**driver, **native.c_functions(("memcmp", "memcpy"))}
    return native.load("tegula_cuda", launcher_text(), (ENTRY,), imports)


@cache
def launcher() -> native.Library:
    """The process's launch function, linked to the driver that is loaded."""
    from tegula_cuda import cu

    return linked({name: cu.address(name) for name in _DRIVER})
