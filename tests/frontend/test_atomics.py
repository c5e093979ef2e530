"""Atomic loads, stores, waiting, and compare-and-swap on tiles, on every backend."""

from __future__ import annotations

import kernel_runner
import ml_dtypes
import numpy as np
import pytest
from kernel_runner import build, jit, run

import tegula.language as tl
from tegula.errors import CompilationError
from tegula.interp import InterpreterError

RNG = np.random.default_rng(9)
pytestmark = pytest.mark.usefixtures("on_each_backend")
DTYPES = ["int8", "uint16", "int32", "int64", "float16", ml_dtypes.bfloat16, "float32", "float64"]


@jit
def copied(out, x, n, N: tl.constexpr, SEM: tl.constexpr, SCOPE: tl.constexpr):
    at = tl.arange(0, N)
    value = tl.atomic_load(x + at, mask=at < n, sem="acquire" if SEM else "relaxed", scope=SCOPE)
    tl.atomic_store(
        out + at, value + 1, mask=at < N - 1, sem="release" if SEM else "relaxed", scope=SCOPE
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("strong", [False, True])
@pytest.mark.parametrize("scope", ["cta", "gpu", "sys"])
def test_loads_and_stores(dtype, strong, scope):
    x = RNG.integers(0, 100, 20).astype(dtype)
    out = np.full(20, 7).astype(dtype)
    run(copied, out, x, 13, 20, strong, scope)
    expected = np.where(np.arange(20) < 13, x.astype(np.float64), 0) + 1
    expected[19] = 7
    np.testing.assert_array_equal(out.astype(np.float64), expected)


@jit
def one_by_one(out, x):
    tl.atomic_store(out, x.atomic_load() * 2)


def test_scalars():
    x, out = np.array([21], np.int32), np.zeros(1, np.int32)
    run(one_by_one, out, x)
    assert out[0] == 42


@jit
def waits(flag, out, wanted, timeout):
    tl.store(out, tl.atomic_poll(flag, wanted, timeout_ns=timeout).to(tl.int32) + 1)


@pytest.mark.parametrize("dtype", ["int16", "int32", "int64", "float32"])
@pytest.mark.parametrize("timeout", [None, 0, 20_000])
def test_waiting(dtype, timeout):
    flag, out = np.full(1, 3).astype(dtype), np.zeros(1, np.int32)
    run(waits, flag, out, 3, timeout)
    assert out[0] == 2
    if timeout is not None:
        run(waits, flag, out, 4, timeout)
        assert out[0] == 1


def test_waiting_for_ever():
    if kernel_runner.BACKEND == "interpreter":
        with pytest.raises(InterpreterError, match="atomic_poll waits for 5 and finds 3"):
            run(waits, np.full(1, 3), np.zeros(1, np.int32), 5, None)


@jit
def handed_over(flag, payload, out):
    if tl.program_id(0) == 0:
        tl.store(payload, 42)
        tl.atomic_xchg(flag, 1, sem="release")
    else:
        if tl.atomic_poll(flag, 1, timeout_ns=5_000_000_000):
            tl.store(out, tl.load(payload))


def test_a_program_that_waits_for_another():
    flag, payload, out = (np.zeros(1, np.int32) for _ in range(3))
    run(handed_over, flag, payload, out, grid=2)
    assert out[0] == 42


@jit
def swapped(old, x, cmp, new, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(old + at, tl.atomic_cas(x + at, tl.load(cmp + at), tl.load(new + at)))


@pytest.mark.parametrize("dtype", ["int16", "int32", "uint64", "float16", "float32", "float64"])
def test_swaps_of_tiles(dtype):
    x, new = (RNG.integers(0, 3, 37).astype(dtype) for _ in range(2))
    cmp = RNG.integers(0, 3, 37).astype(dtype)
    old, before = np.zeros_like(x), x.copy()
    run(swapped, old, x, cmp, new, 37)
    np.testing.assert_array_equal(old, before)
    np.testing.assert_array_equal(x, np.where(before == cmp, new, before))


@jit
def half_sums(x, N: tl.constexpr):
    tl.atomic_add(x + tl.arange(0, N) % 4, 1.5)


@pytest.mark.parametrize("dtype", ["float16", ml_dtypes.bfloat16])
def test_sums_of_16_bits(dtype):
    x = np.zeros(4, dtype)
    run(half_sums, x, 32, grid=3)
    np.testing.assert_array_equal(x.astype(np.float32), np.full(4, 36.0))


@jit
def bad_order(x):
    tl.atomic_load(x, sem="release")


@jit
def bad_store(x):
    tl.atomic_store(x, 1, sem="acq_rel")


@jit
def bad_scope(x):
    tl.atomic_add(x, 1, scope="cluster")


@jit
def poll_tile(x):
    tl.atomic_poll(x + tl.arange(0, 4), 1)


@jit
def negative_time(x):
    tl.atomic_poll(x, 1, timeout_ns=-1)


@jit
def narrow(x):
    tl.atomic_max(x.to(tl.pointer_type(tl.int16)), 1)


@pytest.mark.parametrize(
    "fn, message",
    [
        (bad_order, "sem is one of 'acquire', 'relaxed'"),
        (bad_store, "sem is one of 'release', 'relaxed'"),
        (bad_scope, "scope is one of"),
        (poll_tile, "waits for one element"),
        (negative_time, "timeout_ns must not be negative"),
        (narrow, "atomic_max does not work on int16"),
    ],
)
def test_mistakes(fn, message):
    with pytest.raises(CompilationError, match=message):
        build(fn, (np.zeros(4, np.int32),))
