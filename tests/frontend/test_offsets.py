"""Offsets whose parts provably leave 32 bits are computed in 64; others stay as written."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_runner import build, jit, run

import tegula.language as tl
from tegula import ir

X = np.zeros(1, np.int8)


def offset_types(fn, *args):
    """Element types of the offsets of the kernel's pointers, in order."""
    module = build(fn, (X, *args))
    return [
        str(ir.elem_of(op.operands[1].type))
        for op in module.kernels[0].body.walk()
        if op.name == "addptr"
    ]


@jit
def far_rows(x, n):
    rows = tl.arange(0, 4)[:, None] * 1_000_000_000
    p = x + (rows + tl.arange(0, 8)[None, :])
    tl.store(p, 1, mask=(rows == 0) & (n > 0))


@jit
def near_rows(x, n):
    rows = tl.arange(0, 2)[:, None] * 1_000_000_000
    tl.store(x + (rows + tl.arange(0, 8)[None, :]), 1, mask=rows > 0)


@jit
def unknown_rows(x, n):
    rows = tl.program_id(0) * n + tl.arange(0, 4)
    tl.store(x + rows * 1_000_000, 1, mask=rows < 0)


@jit
def far_counter(x, n):
    for i in range(100_000):
        tl.store(x + i * 100_000, 1, mask=i < n)


@jit
def near_counter(x, n):
    for i in range(0, 20_000, 3):
        tl.store(x + i * 100_000, 1, mask=i < n)


@jit
def shifted(x, n):
    tl.store(x + ((tl.arange(0, 16) << 28) - 5), 1, mask=tl.arange(0, 16) > n)


@jit
def partly_unknown(x, n):
    tl.store(x + (n + tl.arange(0, 64) * 100_000_000), 1, mask=tl.arange(0, 64) > n)


@jit
def wraps_back(x, n):
    far = tl.arange(0, 4) * 1_000_000_000
    tl.store(x + (far - far), 1, mask=far > n)


@pytest.mark.parametrize(
    "fn, expected",
    [
        (far_rows, "i64"),
        (near_rows, "i32"),
        (unknown_rows, "i32"),
        (far_counter, "i64"),
        (near_counter, "i32"),
        (shifted, "i64"),
        (partly_unknown, "i64"),
        (wraps_back, "i64"),
    ],
    ids=lambda x: getattr(x, "__name__", x),
)
def test_offsets_are_widened_where_overflow_is_proven(fn, expected):
    assert offset_types(fn, 1) == [expected]


@jit
def reads_far(out, n, B: tl.constexpr):
    rows = tl.arange(0, 2) * B  # the second row begins beyond 2**31 bytes
    p = (out.to(tl.int64) + 0).to(tl.pointer_type(tl.int8))
    far = (p + rows * 2).to(tl.int64) - out.to(tl.int64)
    tl.store(out.to(tl.pointer_type(tl.int64)) + tl.arange(0, 2), far)


@pytest.mark.usefixtures("on_each_backend")
def test_the_address_is_the_right_one():
    out = np.zeros(2, np.int64)
    run(reads_far, out, 1, 2_000_000_000)
    assert out.tolist() == [0, 4_000_000_000]


@jit
def in_a_branch_and_behind(out, x, n):
    offsets = tl.arange(0, 4) * 1_000_000_000
    if n > 0:
        tl.store(x + offsets, 1, mask=offsets == 0)
    tl.store(x + offsets, 2, mask=offsets == 0)
    for _ in range(n):
        tl.store(x + offsets, 3, mask=offsets == 0)


@pytest.mark.usefixtures("on_each_backend")
def test_an_offset_widened_in_a_branch_serves_behind_it_as_well():
    out, x = np.zeros(1, np.int8), np.zeros(1, np.int8)
    run(in_a_branch_and_behind, out, x, 0)
    assert x[0] == 2
    run(in_a_branch_and_behind, out, x, 2)
    assert x[0] == 3
