"""Checks of integer overflow in debugging, and assertions in combining functions."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_runner import build, jit, run

import tegula.language as tl

pytestmark = pytest.mark.usefixtures("on_each_backend")
DEBUG = {"debug": True}


@jit
def compute(out, x, y, OP: tl.constexpr):
    a, b = tl.load(x), tl.load(y)
    if OP == "add":
        c = a + b
    elif OP == "sub":
        c = a - b
    else:
        c = a * b
    tl.store(out, c)


CASES = [
    ("add", "int32", -(2**31), -1, True), ("add", "int32", 2**31 - 1, 100, True),
    ("add", "int32", -(2**31), 2, False), ("add", "int16", 2**15 - 1, 1, True),
    ("add", "uint32", 2**32 - 1, 1, True), ("add", "uint8", 200, 55, False),
    ("add", "int64", 2**63 - 1, 1, False), ("sub", "int32", -(2**31), 1, True),
    ("sub", "int32", 2**31 - 1, 1, False), ("sub", "uint32", 1, 2, True),
    ("mul", "int32", 2**30, 4, True), ("mul", "int32", -(2**30), 2, False),
    ("mul", "uint32", 2**16, 2**16, True), ("mul", "uint32", 2**16, 2**16 - 1, False),
    ("mul", "int8", -128, -1, True),
]  # fmt: skip


@pytest.mark.parametrize("op, dtype, a, b, overflows", CASES)
@pytest.mark.parametrize("debug", [False, True])
def test_operators(op, dtype, a, b, overflows, debug):
    x, y = np.array([a], dtype), np.array([b], dtype)
    out = np.zeros(1, dtype)
    options = {"debug": debug}
    if overflows and debug:
        symbol = {"add": r"\+", "sub": "-", "mul": r"\*"}[op]
        with pytest.raises(RuntimeError, match=f"device-side assert.*`{symbol}` overflows {dtype}"):
            run(compute, out, x, y, op, options=options)
        run(compute, out, x, y, op, options={**options, "sanitize_overflow": False})
    else:
        run(compute, out, x, y, op, options=options)
    with np.errstate(all="ignore"):
        expected = {"add": x + y, "sub": x - y, "mul": x * y}[op]
    np.testing.assert_array_equal(out, expected)


@jit
def opted_out(out, x):
    a = tl.load(x)
    tl.store(out, tl.add(a, a, sanitize_overflow=False))
    tl.store(out + 1, tl.mul(a, 2, sanitize_overflow=False))
    tl.store(out + 2, tl.sub(-1 - a, a, sanitize_overflow=False))


def test_functions_may_opt_out():
    out = np.zeros(3, np.int32)
    run(opted_out, out, np.array([2**31 - 1], np.int32), options=DEBUG)
    assert out.tolist() == [-2, -2, 1]


@jit
def tiles(out, x, N: tl.constexpr):
    at = tl.arange(0, N)
    value = tl.load(x + at, mask=at < N - 1, other=0)
    tl.store(out + at, value * value)


def test_tiles():
    x, out = np.full(33, 40000, np.int32), np.zeros(33, np.int32)
    run(tiles, out, x, 33, options=DEBUG)
    x[5] = 50000
    with pytest.raises(RuntimeError, match=r"test_sanitizer.py:\d+:\d+.*overflows int32"):
        run(tiles, out, x, 33, options=DEBUG)


@jit
def checked_sum(a, b):
    tl.device_assert((a >= 0) & (b >= 0), "negative")
    return a + b


@jit
def branching(a, b):
    if a > b:
        c = a
    else:
        c = b
    return c


@jit
def combined(
    out, x, M: tl.constexpr, N: tl.constexpr, AXIS: tl.constexpr, F: tl.constexpr,
    SCAN: tl.constexpr,
):  # fmt: skip
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)
    value = tl.load(x + at)
    if SCAN:
        tl.store(out + at, tl.associative_scan(value, AXIS, F, reverse=SCAN == 2))
    elif AXIS is None:
        tl.store(out, tl.reduce(value, None, F))
    else:
        total = tl.reduce(value, AXIS, F)
        tl.store(out + tl.arange(0, total.numel), total)


@pytest.mark.parametrize("fn, ufunc", [(checked_sum, np.add), (branching, np.maximum)])
@pytest.mark.parametrize("axis", [0, 1, None])
@pytest.mark.parametrize("dtype", ["int32", "float16"])
def test_reductions_with_effects(fn, ufunc, axis, dtype):
    x = np.random.default_rng(1).integers(0, 9, (5, 11)).astype(dtype)
    expected = ufunc.reduce(x.reshape(-1) if axis is None else x, axis or 0)
    out = np.zeros(np.size(expected), dtype)
    run(combined, out, x, 5, 11, axis, fn, 0, options=DEBUG)
    np.testing.assert_array_equal(out, np.reshape(expected, -1))


@pytest.mark.parametrize("fn, ufunc", [(checked_sum, np.add), (branching, np.maximum)])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("scan", [1, 2])
def test_scans_with_effects(fn, ufunc, axis, scan):
    x = np.random.default_rng(1).integers(0, 9, (5, 11)).astype(np.int32)
    out = np.zeros_like(x)
    run(combined, out, x, 5, 11, axis, fn, scan, options=DEBUG)
    turned = np.flip(x, axis) if scan == 2 else x
    expected = ufunc.accumulate(turned, axis)
    np.testing.assert_array_equal(out, np.flip(expected, axis) if scan == 2 else expected)


def test_a_failed_assertion_in_a_reduction():
    assert build
    x = np.ones((5, 11), np.int32)
    x[3, 3] = -1
    with pytest.raises(RuntimeError, match="negative"):
        run(combined, np.zeros(5, np.int32), x, 5, 11, 1, checked_sum, 0, options=DEBUG)
