"""Selects that branch around an unlikely operand, in every place that an expression can stand."""

from __future__ import annotations

import numpy as np
import pytest

import tegula
import tegula.language as tl

ANGLES = np.array([0.5, -3.0, 1e4, 7e8, -1e30, np.inf, np.nan, -0.0, 3e38, 1e-40], np.float32)


@tegula.jit
def scalar(x, y):
    i = tl.program_id(0)
    tl.store(y + i, tl.sin(tl.load(x + i)))


@tegula.jit
def of_a_row_broadcast(x, y, n: tl.constexpr):
    i = tl.arange(0, n)
    column = tl.sin(tl.load(x + i)[:, None])
    row = tl.cos(tl.load(x + i)[None, :])
    tl.store(y + i[:, None] * n + i[None, :], column + row)


@tegula.jit
def carried_by_a_loop(x, y, n: tl.constexpr, steps):
    i = tl.arange(0, n)
    v = tl.load(x + i)
    total = tl.zeros((n,), tl.float32)
    for _ in range(steps):
        v = v * 8192.0
        total = total * 0.5 + tl.sin(v)
    tl.store(y + i, total + tl.cos(v))


@tegula.jit
def shared_with_other_uses(x, y, n: tl.constexpr):
    i = tl.arange(0, n)
    v = tl.load(x + i)
    size = tl.abs(v)
    tl.store(y + i, tl.where(size > 1e5, tl.sin(size) * 2, tl.sin(v)) + tl.sin(v))


@tegula.jit
def under_a_mask(x, y, n: tl.constexpr, count):
    i = tl.arange(0, n)
    v = tl.load(x + i, mask=i < count, other=1e20)
    tl.store(y + i, tl.sin(v) + tl.sum(tl.cos(v)), mask=i < count)


@tegula.jit
def the_same_everywhere(x, y, n: tl.constexpr):
    i = tl.arange(0, n)
    tl.store(y + i, tl.sin(tl.full((n,), 1.0, tl.float32) * tl.load(x + 3)))


@pytest.mark.parametrize(
    ("kernel", "grid", "rest", "size"),
    [
        (scalar, 10, (), 10),
        (of_a_row_broadcast, 1, (10,), 100),
        (carried_by_a_loop, 1, (10, 3), 10),
        (shared_with_other_uses, 1, (10,), 10),
        (under_a_mask, 1, (10, 5), 10),
        (the_same_everywhere, 1, (10,), 10),
    ],
)
def test_results_are_those_of_the_interpreter(kernel, grid, rest, size) -> None:
    results = []
    for device in ("cpu", "interpreter"):
        y = np.zeros(size, np.float32)
        with tegula.use_device(device), np.errstate(all="ignore"):
            kernel[(grid,)](ANGLES.copy(), y, *rest)
        results.append(y)

    # The interpreter knows the exact functions: a few roundings apart, but never a branch apart.
    np.testing.assert_allclose(results[0], results[1], rtol=1e-3, atol=1e-5)


def test_code_branches_where_only_large_angles_need_it() -> None:
    y = np.zeros(10, np.float32)
    with tegula.use_device("cpu"):
        compiled = scalar[(10,)](ANGLES.copy(), y)

    assert "rare" in compiled.asm["llir"]
