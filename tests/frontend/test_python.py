
"""Python's own functions, tuples, dictionaries and operators in kernels."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_runner import call, jit

import tegula.language as tl

pytestmark = pytest.mark.usefixtures("on_each_backend")


@jit
def sequences(out, n, k):
    t = (n, k, 3)
    i = 0
    for x in t:
        tl.store(out + i, x)
        i += 1
    for j, x in enumerate(t, 3):
        tl.store(out + j, x * 2)
    for a, b in zip(t, reversed(t)):
        tl.store(out + i + 3, a - b)
        i += 1
    tl.store(out + 9, sum(t) + sum([x * y for x in t for y in (1, 10) if y > 1]))
    tl.store(out + 10, max(t) * 100 + min(n, k))
    tl.store(out + 11, len(t) + sorted((3, 1, 2))[0] + abs(-n))
    tl.store(out + 12, any([n > 5, k > 5]) + 2 * all([n > 0, k > 0, True]))
    tl.store(out + 13, (n in (1, 4)) + 2 * (k not in (7, 9)))
    first, *rest = t
    *others, last = t
    tl.store(out + 14, first * 100 + rest[1] * 10 + len(others) + last)
    a = b = n + 1
    a += 1
    tl.store(out + 15, a * 10 + b)
    q, r = divmod(n, k)
    tl.store(out + 16, q * 10 + r)
    chosen = t if n > k else (k, n, 7)
    tl.store(out + 17, chosen[0] * 100 + chosen[1] * 10 + chosen[2])
    tl.store(out + 18, 1 if 0 < n < 5 <= k else 2)
    tl.store(out + 19, (not n) + 2 * (not 0) + 4 * (not k - k))


@pytest.mark.parametrize("n, k", [(4, 7), (9, 2)])
def test_sequences(n, k):
    t = (n, k, 3)
    chosen = t if n > k else (k, n, 7)
    expected = [
        *t, *(2 * x for x in t), *(a - b for a, b in zip(t, t[::-1], strict=True)),
        11 * sum(t) - sum(t) + sum(t), max(t) * 100 + min(n, k), 3 + 1 + n,
        (n > 5 or k > 5) + 2, (n in (1, 4)) + 2 * (k not in (7, 9)),
        n * 100 + 30 + 2 + 3, (n + 2) * 10 + n + 1, n // k * 10 + n % k,
        chosen[0] * 100 + chosen[1] * 10 + chosen[2], 1 if 0 < n < 5 <= k else 2, 6,
    ]  # fmt: skip
    assert call(sequences, n, k, shape=20, dtype=np.int32).tolist() == expected


@jit
def tables(out, n, KIND: tl.constexpr):
    table = {"add": 3, "mul": 5, **{"sub": 7}}
    total = n * table[KIND]
    for name, factor in table.items():
        if name == KIND:
            continue
        total += factor
    tl.store(out, total + len(table) + ("div" in table))


def test_dictionaries_of_constants():
    assert call(tables, 2, "mul", dtype=np.int32) == 10 + 10 + 3


@jit
def powers(out, x, y, N: tl.constexpr):
    i = tl.arange(0, N)
    a, b = tl.load(x + i), tl.load(y + i)
    tl.store(out + i, a**b)
    tl.store(out + N + i, a**3 + a**0 + a**-2)
    tl.store(out + 2 * N + i, abs(a) ** 0.5)
    tl.store(out + 3 * N + i, 2.0**b)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_powers_of_floats(dtype):
    x = np.array([2, -2, -2, 0.5, 3, 1, -1, 7.25], dtype)
    y = np.array([3, 3, 0.5, -7, 0, np.nan, 4, 2.5], dtype)
    with np.errstate(all="ignore"):
        expected = [x**y, x**3 + 1 + 1 / x**2, np.abs(x) ** 0.5, 2**y]
    out = call(powers, x, y, 8, shape=(4, 8), dtype=dtype)
    np.testing.assert_allclose(out, expected, rtol=1e-6 if dtype == np.float32 else 1e-13)


@jit
def integer_powers(out, n):
    tl.store(out, n**5)
    tl.store(out + 1, 2**n)
    tl.store(out + 2, n**1 + n**0)
    tl.store(out + 3, (n**2.0).to(tl.int32))


def test_powers_of_integers():
    assert call(integer_powers, 7, shape=4, dtype=np.int32).tolist() == [7**5, 128, 8, 49]


@jit
def matmul(out, x, y, M: tl.constexpr, K: tl.constexpr, N: tl.constexpr):
    m, k, n = tl.arange(0, M), tl.arange(0, K), tl.arange(0, N)
    a = tl.load(x + m[:, None] * K + k)
    b = tl.load(y + k[:, None] * N + n)
    tl.store(out + m[:, None] * N + n, a @ b)


@pytest.mark.parametrize("dtype, result", [(np.float32, np.float32), (np.int8, np.int32)])
def test_matmul_operator(dtype, result):
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-9, 9, s).astype(dtype) for s in ((16, 32), (32, 8)))
    out = call(matmul, a, b, 16, 32, 8, shape=(16, 8), dtype=result)
    np.testing.assert_array_equal(out, a.astype(result) @ b.astype(result))
