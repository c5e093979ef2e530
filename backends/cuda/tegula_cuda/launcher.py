"""The native launch function: its records, its text with all numbers filled in, and linking it."""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from tegula.config import config
from tegula.runtime import native, numbers
from tegula_cuda.tma import MAP_BYTES, Map

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
        ("grid", ctypes.c_uint32 * 3),
        ("block", ctypes.c_uint32 * 3),
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
        ("grid", ctypes.c_int32 * 3),  # of the launch that failed last
        ("map_count", ctypes.c_uint32),
        ("maps", ctypes.c_void_p),  # how to encode tensor maps
        ("graph", ctypes.c_void_p),
    )


class Graph(ctypes.Structure):
    """What the last launch was given, and the kernel as a graph of its own. Begins as the driver's
    CUDA_KERNEL_NODE_PARAMS; its stream is the one whose launches it serves.
    """

    _fields_ = (
        ("function", ctypes.c_void_p),
        ("grid", ctypes.c_uint32 * 3),
        ("block", ctypes.c_uint32 * 3),
        ("shared", ctypes.c_uint32),
        ("parameters", ctypes.c_void_p),
        ("extra", ctypes.c_void_p),
        ("kernel", ctypes.c_void_p),
        ("context", ctypes.c_void_p),
        ("slots", ctypes.c_void_p),  # what `parameters` points at
        ("maps", ctypes.c_void_p),
        ("stream", ctypes.c_void_p),
        ("graph", ctypes.c_void_p),
        ("node", ctypes.c_void_p),
        ("launchable", ctypes.c_void_p),  # the graph as it can be launched
        ("lock", ctypes.c_uint32),  # held by the launch that uses all this
        ("others", ctypes.c_int32),  # launches on other streams since the last on this one
        ("told", ctypes.c_uint32),  # whether the graph knows the parameters and the grid
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
    asked = {
        _CLUSTER: cluster if cluster != (1, 1, 1) else (),
        _COOPERATIVE: (1,) if metadata.get("launch_cooperative_grid") else (),
        _OVERLAP: (1,) if metadata.get("launch_pdl") else (),
    }
    return [Attribute(name, value=values) for name, values in asked.items() if values]


def cluster_of(metadata: Mapping[str, Any]) -> tuple[int, int, int]:
    """Programs of one cluster along each axis."""
    x, y, z = metadata.get("cluster_dims", (1, 1, 1))
    return int(x), int(y), int(z)


_OFTEN = 32
"""Launches on a stream after which a kernel's graph is made for it, or moves to it."""
_NO_STREAM = -1
_GRAPHS_AS_OF = (12, 6)
"""The version of CUDA since which drivers launch small graphs faster than kernels."""
_OBSERVERS = ("CUDA_INJECTION64_PATH", "CUDA_LAUNCH_BLOCKING")
"""Variables of profilers, which may show a graph where a kernel is asked for, and of debugging."""


def graphs_serve(version: tuple[int, int]) -> bool:
    """Whether kernels are launched as graphs, as settings, environment and driver are."""
    observed = any(os.environ.get(name, "0") not in ("", "0") for name in _OBSERVERS)
    return bool(config.graph_launch) and version >= _GRAPHS_AS_OF and not observed


class Replay:
    """The `Graph` of a kernel whose handle is complete, and the memory that it needs. It has no
    context, and so never a stream, where graphs do not serve the kernel.
    """

    def __init__(self, handle: Handle, slots: int, served: bool) -> None:
        count, at = handle.map_count, ctypes.addressof
        self._slots = (ctypes.c_int64 * slots)()
        self._maps = (ctypes.c_char * (MAP_BYTES * (count + 1)))()
        maps = -(-at(self._maps) // MAP_BYTES) * MAP_BYTES
        given = [at(self._slots) + 8 * i for i in range(slots)]
        given += [maps + MAP_BYTES * i for i in range(count)]
        given.append(at(handle) + Handle.error.offset)
        self._parameters = (ctypes.c_void_p * len(given))(*given)
        self.graph = Graph(
            handle.function, (0, 0, 0), handle.config.block, handle.config.shared,
            at(self._parameters), context=handle.context if served else None,
            slots=at(self._slots), maps=maps, stream=_NO_STREAM,
        )  # fmt: skip
        handle.graph = at(self.graph)


_RECORDS = {
    "handle": Handle, "config": Config, "graph": Graph, "map": Map, "number": numbers.Number,
}  # fmt: skip


def launcher_text() -> str:
    """The text of `launch.ll` with all numbers in their places."""
    text = Path(__file__).with_name("launch.ll").read_text(encoding="utf-8")
    for name, value in (("DRIVER", DRIVER_ERROR), ("MAP", MAP_ERROR), ("OFTEN", _OFTEN)):
        text = text.replace(f"${name}$", str(value))
    return native.with_fields(text, _RECORDS) + native.ADDRESSES + numbers.TEXT


def driver_functions() -> dict[str, int]:
    """The driver's functions that the text calls, and how many arguments each has."""
    declared = re.findall(r"declare i32 @(cu\w+)\((.*)\)", launcher_text())
    return {name: arguments.count(",") + 1 for name, arguments in declared}


def linked(driver: Mapping[str, int]) -> native.Library:
    """The launch function `ENTRY`, linked to these functions of the driver."""
    imports = {**driver, **native.c_functions(("memcmp", "memcpy"))}
    return native.load("tegula_cuda", launcher_text(), (ENTRY,), imports)


@cache
def linked_here() -> native.Library:
    """The process's launch function, linked to the driver that is loaded."""
    from tegula_cuda import cu

    return linked({name: cu.address(name) for name in driver_functions()})
