"""Launches from many threads: one compilation, right results, and no state that one thread leaves
for another.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from types import ModuleType
from typing import Any

import numpy as np

import tegula
import tegula.language as tl

THREADS = 16


def together(work: Any, count: int = THREADS) -> list[Any]:
    """Run `work(i)` in threads that start at the same time, with the settings of this one."""
    barrier = threading.Barrier(count)
    contexts = [copy_context() for _ in range(count)]

    def run(i: int) -> Any:
        barrier.wait()
        return contexts[i].run(work, i)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))


def test_concurrent_first_launches_compile_once(recording: ModuleType) -> None:
    @tegula.jit
    def fresh(x, n, BLOCK: tl.constexpr):
        pass

    x = np.zeros(64, np.float32)

    def work(i: int) -> Any:
        with tegula.use_device("recording"):
            return fresh[(1,)](x, 16, BLOCK=8)

    compiled = together(work)
    assert len({id(c) for c in compiled}) == 1
    assert len(recording.compilations) == 1


def test_variants_bound_by_many_threads(recording: ModuleType) -> None:
    @tegula.jit
    def many(x, n, BLOCK: tl.constexpr):
        pass

    x = np.zeros(64, np.float32)

    def work(i: int) -> dict[int, Any]:
        out = {}
        with tegula.use_device("recording"):
            for step in range(200):
                block = (i * 7 + step) % 40
                compiled = many[(1,)](x, 16, BLOCK=block)
                assert compiled.request.constants["BLOCK"] == block
                assert out.setdefault(block, compiled) is compiled
        return out

    results = together(work)
    for block in range(40):
        assert len({id(r[block]) for r in results if block in r}) == 1


def test_devices_of_threads_are_their_own(recording: ModuleType) -> None:
    @tegula.jit
    def where(x):
        pass

    x = np.zeros(64, np.float32)
    names = ["interpreter", "recording"]

    def work(i: int) -> bool:
        name = names[i % 2]
        with tegula.use_device(name):
            return all(where[(1,)](x).request.context.backend.name == name for _ in range(100))

    assert all(together(work, 4))


def test_globals_edited_while_others_launch(recording: ModuleType) -> None:
    @tegula.jit
    def reads_global(x):
        tl.store(x, 1.0 * EDITED)

    x = np.zeros(64, np.float32)
    stop = threading.Event()

    def launch(i: int) -> int:
        count = 0
        with tegula.use_device("recording"):
            while not stop.is_set():
                reads_global[(1,)](x)
                count += 1
        return count

    with ThreadPoolExecutor(3) as pool:
        running = [pool.submit(launch, i) for i in range(3)]
        for value in range(30):
            globals()["EDITED"] = tl.constexpr(float(value))
        stop.set()
        assert all(r.result() > 0 for r in running)


EDITED = tl.constexpr(1.0)
