"""The native thread pool that runs the programs of a launch.

`pool()` compiles `pool.ll` for the host at first need, and hands out the native launch
function.  Nothing of Python runs per program, and nothing per launch but the printing of records.
"""

from __future__ import annotations

import atexit
import ctypes
import hashlib
import os
import signal
import sys
import threading
import time
from collections.abc import Mapping
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from tegula.config import config
from tegula_cpu import target as targets
from tegula_cpu.pool_ir import PoolTuning, offset, pool_text
from tegula_cpu.printing import print_records

SOFT_FLOAT = (
    "__extendhfsf2", "__truncsfhf2", "__truncdfhf2", "__truncsfbf2", "__truncdfbf2"
)  # fmt: skip
"""Conversions that LLVM calls on processors without instructions for them."""

_PRINT = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)


def thread_count() -> int:
    """Threads for a launch: the setting `num_threads`, else the processors we may run on."""
    wanted = int(config.num_threads)
    if wanted > 0:
        return wanted
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return os.cpu_count() or 1


class Pool:
    """The process's one pool: JIT-compiled code that lives as long as the process."""

    def __init__(self, threads: int) -> None:
        self.linker = Linker()
        tuning = PoolTuning(
            set_mask=int(signal.SIG_SETMASK),
            sigbus=int(signal.SIGBUS),
            clock=int(time.CLOCK_MONOTONIC),
            apart=sys.platform == "linux",
        )
        names = ("tegula_cpu_launch", "tegula_cpu_print", "tegula_cpu_assert_fail",
                 "pool_init", "pool_forked", "pool_resize", "pool_last_arena", "state")  # fmt: skip
        host = targets.host()
        data = cached_object(pool_text(host["family"], tuning))
        self._library, self.addresses = self.linker.link(data, names, {})
        self._on_print = _PRINT(print_records)  # referenced for ever: native code holds its address
        self._forked = ctypes.CFUNCTYPE(None)(self.addresses["pool_forked"])
        self._resize = ctypes.CFUNCTYPE(None, ctypes.c_int32)(self.addresses["pool_resize"])
        self._last_arena = ctypes.CFUNCTYPE(ctypes.c_void_p)(self.addresses["pool_last_arena"])
        init = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int32, ctypes.c_void_p)(
            self.addresses["pool_init"]
        )
        self.threads = threads
        if init(threads, ctypes.cast(self._on_print, ctypes.c_void_p)) != 0:
            raise MemoryError("the thread pool could not be set up: no thread-specific key is left")
        os.register_at_fork(after_in_child=self._forked)
        atexit.register(self.resize, 1)
        config.on_change(self._follow_settings)

    @property
    def launch_address(self) -> int:
        """The native launch function of every CPU kernel."""
        return self.addresses["tegula_cpu_launch"]

    def symbols(self, data: bytes) -> Mapping[str, int]:
        """What the driver defines for the object `data` to call."""
        names = ("tegula_cpu_print", "tegula_cpu_assert_fail")
        own = {name: self.addresses[name] for name in names if name.encode() in data}
        if any(name.encode() in data for name in SOFT_FLOAT):
            own |= self._soft_float
        return own

    @cached_property
    def _soft_float(self) -> dict[str, int]:
        text = Path(__file__).with_name("soft_float.ll").read_text(encoding="utf-8")
        self._soft_library, addresses = self.linker.link(cached_object(text), SOFT_FLOAT, {})
        return addresses

    def resize(self, threads: int) -> None:
        """End the workers; the next launch starts `threads` - 1 new ones."""
        self.threads = max(1, threads)
        self._resize(self.threads)

    def _follow_settings(self) -> None:
        wanted = thread_count()
        if wanted != self.threads:
            self.resize(wanted)

    def started(self) -> int:
        """Workers that run at the moment."""
        address = self.addresses["state"] + offset("state", "started")
        return ctypes.c_int32.from_address(address).value

    def last_failure(self) -> tuple[str, tuple[int, int, int]] | None:
        """Message and program of the assertion that failed in this thread's last launch."""
        arena = self._last_arena()
        if not arena:
            return None
        message = ctypes.c_void_p.from_address(arena + offset("arena", "fail")).value
        if not message:
            return None
        x, y, z = (ctypes.c_int32 * 3).from_address(arena + offset("arena", "fail_pid"))
        return ctypes.string_at(message).decode("utf-8", "replace"), (x, y, z)


class Linker:
    """Loads native objects into the process."""

    def __init__(self) -> None:
        import llvmlite.binding as llvm

        self._llvm = llvm
        self._lock = threading.Lock()
        self._count = 0
        self._jit = llvm.create_lljit_compiler(
            targets.machine(targets.host()), use_jit_link=True, suppress_errors=True
        )

    def link(
        self, data: bytes, exports: tuple[str, ...], imports: Mapping[str, int]
    ) -> tuple[Any, dict[str, int]]:
        """Load an object; returns what keeps it loaded, and the addresses of `exports`."""
        builder = self._llvm.JITLibraryBuilder().add_object_img(data).add_current_process()
        for name, address in imports.items():
            builder.import_symbol(name, address)
        for name in exports:
            builder.export_symbol(name)
        with self._lock:
            self._count += 1
            library = builder.link(self._jit, f"tegula{self._count}")
        return library, {name: library[name] for name in exports}


def compile_text(text: str) -> bytes:
    """An object of LLVM IR text for the host."""
    import llvmlite.binding as llvm

    # A quarter of the time that optimising takes, and a launch costs some 20 ns either way.
    machine = targets.machine(targets.host(), opt=0)
    module = llvm.parse_assembly(text)
    module.triple = targets.host()["triple"]
    module.data_layout = str(machine.target_data)
    data: bytes = machine.emit_object(module)
    return data


def cached_object(text: str) -> bytes:
    """`compile_text`, kept in the disk cache: every process needs the pool."""
    import llvmlite

    from tegula.runtime import cache

    parts = (text, targets.host().digest(), llvmlite.__version__)
    key = hashlib.sha256("\0".join(parts).encode()).hexdigest()
    data = cache.load(key)
    if data is None:
        data = compile_text(text)
        cache.store(key, data)
    return data


_LOCK = threading.Lock()


def pool() -> Pool:
    """The process's pool."""
    with _LOCK:
        return _pool()


@cache
def _pool() -> Pool:
    return Pool(thread_count())
