
"""Tiles are indexed and sliced as numpy's arrays are."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_runner import call, jit

import tegula.language as tl

pytestmark = pytest.mark.usefixtures("on_each_backend")

ROWS, COLUMNS = 6, 8


@jit
def store_all(out, x):
    flat = tl.ravel(x)
    tl.store(out + tl.arange(0, flat.shape[0]), flat)


@jit
def slices(out, x, which: tl.constexpr, n):
    R: tl.constexpr = 6
    C: tl.constexpr = 8
    tile = tl.load(x + tl.arange(0, R)[:, None] * C + tl.arange(0, C)[None, :])
    if which == 0:
        y = tile[1:4, ::2]
    elif which == 1:
        y = tile[-1, :]
    elif which == 2:
        y = tile[:, 3]
    elif which == 3:
        y = tile[::-1, 7:2:-2]
    elif which == 4:
        y = tile[2]
    elif which == 5:
        y = tile[..., -2:]
    elif which == 6:
        y = tile[2:3, None, 5]
    elif which == 7:
        y = tile[n, 1:]
    elif which == 8:
        y = tile[n - 5, n][None]
    elif which == 9:
        y = tile[..., None, 4]
    elif which == 10:
        y = (tile * 2.0 + 1)[1:5, 1:][:, ::3]
    elif which == 11:
        y = tile[4][2:6][::-1]
    store_all(out, y)


EXPECTED = [
    lambda t, n: t[1:4, ::2],
    lambda t, n: t[-1, :],
    lambda t, n: t[:, 3],
    lambda t, n: t[::-1, 7:2:-2],
    lambda t, n: t[2],
    lambda t, n: t[..., -2:],
    lambda t, n: t[2:3, None, 5],
    lambda t, n: t[n, 1:],
    lambda t, n: t[n - 5, n][None],
    lambda t, n: t[..., None, 4],
    lambda t, n: (t * 2 + 1)[1:5, 1:][:, ::3],
    lambda t, n: t[4][2:6][::-1],
]


@pytest.mark.parametrize("which", range(len(EXPECTED)))
@pytest.mark.parametrize("n", [0, 4])
def test_tiles_are_indexed_as_arrays_are(which, n):
    tile = np.random.default_rng(which).standard_normal((ROWS, COLUMNS)).astype(np.float32)
    expected = np.ravel(EXPECTED[which](tile, n))
    np.testing.assert_array_equal(
        call(slices, tile, which, n, shape=expected.size), expected, strict=True
    )


@jit
def elements(out, n):
    x = tl.arange(0, 5) * 10
    total = 0
    for i in range(n):
        total += x[i]
    tl.store(out, total)
    tl.store(out + 1, x[3] + x[-1])
    tl.store(out + 2, x[n])  # the nearer end where it is outside
    tl.store(out + 3, x[n.to(tl.uint8)])
    tl.store(out + 4, x[-n])


def test_elements_of_a_vector():
    assert call(elements, 5, shape=5, dtype=np.int32).tolist() == [100, 70, 40, 40, 0]


@jit
def stencil(out, x, N: tl.constexpr):
    t = tl.load(x + tl.arange(0, N))
    tl.store(out + tl.arange(0, N - 2), t[:-2] + t[1:-1] * 2 + t[2:])


def test_a_stencil_of_slices():
    x = np.arange(37, dtype=np.float32) ** 2
    np.testing.assert_array_equal(call(stencil, x, 37, shape=35), x[:-2] + 2 * x[1:-1] + x[2:])


@jit
def pointers(out, x):
    p = (x + tl.arange(0, 8))[::2]
    tl.store(out + tl.arange(0, 4), tl.load(p))


def test_tiles_of_pointers_are_sliced():
    x = np.arange(8, dtype=np.float32)
    np.testing.assert_array_equal(call(pointers, x, shape=4), x[::2])


@jit
def columns(out, x, M: tl.constexpr, N: tl.constexpr):
    t = tl.load(x + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :])
    total = tl.zeros((M,), tl.float32)
    for j in tl.static_range(N):
        total += t[:, j] * (j + 1)
    tl.store(out + tl.arange(0, M), total)


def test_columns_one_by_one():
    x = np.random.default_rng(0).standard_normal((16, 4)).astype(np.float32)
    expected = x @ np.arange(1, 5, dtype=np.float32)
    np.testing.assert_allclose(call(columns, x, 16, 4, shape=16), expected, rtol=1e-5)
