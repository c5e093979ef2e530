"""Compiles functions given as LLVM IR text for one of the targets that the host can run."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from tegula.plugin import Target
from tegula_cpu import target as targets
from tegula_cpu.pool import pool


@cache
def runnable_targets() -> tuple[Target, ...]:
    """The host, and every generic target whose instructions the host has."""
    host = targets.host()
    have = targets.vector_target(host).features
    same = [t for t in targets.known_targets() if t["family"] == host["family"] and t != host]
    return (host, *(t for t in same if targets.vector_target(t).features <= have))


def compile_for(target: Target, text: str, entry: str, arguments: int) -> Callable[..., None]:
    """Function `entry` of the text, which takes that many pointers or 64-bit integers."""
    import llvmlite.binding as llvm

    machine = targets.machine(target, opt=2)
    module = llvm.parse_assembly(text)
    module.triple = target["triple"]
    module.data_layout = str(machine.target_data)
    module.verify()
    library, addresses = pool().linker.link(machine.emit_object(module), (entry,), {})
    function: Any = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * arguments)(addresses[entry])

    def call(*given: Any) -> None:
        assert library is not None  # keeps the code loaded
        function(*(g.ctypes.data if isinstance(g, np.ndarray) else g for g in given))

    return call


def aligned(nbytes: int, fill: int = 0) -> np.ndarray:
    """A buffer of bytes on a cache line's border."""
    raw = np.full(nbytes + 64, fill, np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + nbytes]
