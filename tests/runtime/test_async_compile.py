"""Warm-ups in an executor."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import tegula
import tegula.language as tl
from tegula.runtime.async_compile import FutureKernel


@tegula.jit
def fill(x, VALUE: tl.constexpr):
    tl.store(x, VALUE)


@tegula.jit
def broken(x):
    tl.static_assert(False, "never")


def test_warmups_are_compiled_when_the_block_ends() -> None:
    x = np.zeros(1, np.float32)
    with ThreadPoolExecutor(2) as pool:
        with tegula.AsyncCompileMode(pool):
            kernels = [fill.warmup(np.dtype("float32"), n, grid=(1,)) for n in (11, 12)]
            assert all(isinstance(k, FutureKernel) for k in kernels)
        assert all(k.future.done() for k in kernels)
    for n, kernel in zip((11, 12), kernels):
        kernel[(1,)](x, n)
        assert x[0] == n and kernel.name == "fill"
    assert not isinstance(fill.warmup(np.dtype("float32"), 13, grid=(1,)), FutureKernel)


def test_what_is_no_executor_is_refused() -> None:
    with pytest.raises(TypeError, match="takes an executor, such as a ThreadPoolExecutor, not int"):
        tegula.AsyncCompileMode(3)  # type: ignore[arg-type]


def test_errors_come_when_the_block_ends_or_are_ignored() -> None:
    with ThreadPoolExecutor(1) as pool:
        never = pytest.raises(tegula.errors.CompilationError, match="never")
        with never, tegula.AsyncCompileMode(pool):
            broken.warmup(np.dtype("float32"), grid=(1,))
        with tegula.AsyncCompileMode(pool, ignore_errors=True):
            kernel = broken.warmup(np.dtype("float32"), grid=(1,))
        assert kernel.result(ignore_errors=True) is None
        twice = pytest.raises(RuntimeError, match="active already")
        with twice, tegula.AsyncCompileMode(pool), tegula.AsyncCompileMode(pool):
            pass


def test_other_threads_are_not_in_the_mode() -> None:
    made: list[object] = []

    def warm() -> None:
        made.append(fill.warmup(np.dtype("float32"), 21, grid=(1,)))

    with ThreadPoolExecutor(1) as pool, tegula.AsyncCompileMode(pool):
        thread = threading.Thread(target=warm)
        thread.start()
        thread.join()
    assert isinstance(made[0], tegula.CompiledKernel)
