# ruff: noqa: RUF059 (kernels under test)
"""Random numbers against an independent Philox, bit for bit, and against their distributions."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_runner import call, jit

import tegula.language as tl
from tegula.errors import CompilationError

M0, M1 = 0xD2511F53, 0xCD9E8D57
W0, W1 = 0x9E3779B9, 0xBB67AE85

pytestmark = pytest.mark.usefixtures("on_each_backend")


def philox4x32(seed: int, counters: np.ndarray, rounds: int = 10) -> np.ndarray:
    """Philox 4x32 after the paper (Salmon et al. 2011), on Python integers."""
    out = np.zeros((4, len(counters)), np.uint32)
    for column, c in enumerate(counters.tolist()):
        x = [c & 0xFFFFFFFF, (c >> 32) & 0xFFFFFFFF, 0, 0]
        k = [seed & 0xFFFFFFFF, (seed >> 32) & 0xFFFFFFFF]
        for _ in range(rounds):
            p0, p1 = M0 * x[0], M1 * x[2]
            x = [
                (p1 >> 32) ^ x[1] ^ k[0],
                p1 & 0xFFFFFFFF,
                (p0 >> 32) ^ x[3] ^ k[1],
                p0 & 0xFFFFFFFF,
            ]
            k = [(k[0] + W0) & 0xFFFFFFFF, (k[1] + W1) & 0xFFFFFFFF]
        out[:, column] = x
    return out


def test_the_reference_knows_the_published_vectors():
    # Known-answer tests of Random123: counter and key 0, and all bits set.
    zero = philox4x32(0, np.zeros(1, np.uint64))
    assert [hex(v) for v in zero[:, 0]] == ["0x6627e8d5", "0xe169c58d", "0xbc57ac4c", "0x9b00dbd8"]


@jit
def randint_kernel(out, seed, start, N: tl.constexpr, four: tl.constexpr):
    i = tl.arange(0, N)
    offset = start + i
    if four:
        a, b, c, d = tl.randint4x(seed, offset)
        tl.store(out + i, a)
        tl.store(out + N + i, b)
        tl.store(out + 2 * N + i, c)
        tl.store(out + 3 * N + i, d)
    else:
        tl.store(out + i, tl.randint(seed, offset))


@pytest.mark.parametrize(
    "seed", [0, 42, 124, 54, 0xFFFFFFFF, 0x0000000FCAFEB0BA, -5 & 0x7FFFFFFFFFFFFFFF]
)
@pytest.mark.parametrize("start", [np.int32(0), np.int64(2**33 + 5)])
def test_randint_is_philox(seed, start):
    got = call(randint_kernel, np.int64(seed), start, 33, True, shape=(4, 33), dtype=np.uint32)
    expected = philox4x32(seed, int(start) + np.arange(33, dtype=np.uint64))

    np.testing.assert_array_equal(got, expected)
    one = call(randint_kernel, np.int64(seed), start, 33, False, shape=33, dtype=np.uint32)
    np.testing.assert_array_equal(one, expected[0])


@jit
def constant_seed(out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.randint(7, i, 5))


def test_the_seed_must_be_an_integer():
    with pytest.raises(CompilationError, match="seed of random numbers must be an integer"):
        call(randint_kernel, 1.5, 0, 4, False, shape=4, dtype=np.uint32)


def test_constant_seed_and_rounds():
    got = call(constant_seed, 9, shape=9, dtype=np.uint32)
    np.testing.assert_array_equal(got, philox4x32(7, np.arange(9, dtype=np.uint64), rounds=5)[0])


@jit
def uniform(out, seed, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.rand(seed, i))


@jit
def normal(out, seed, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.randn(seed, i))


@jit
def limits(out, x, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.uint_to_uniform_float(tl.load(x + i)))


def test_rand_is_uniform():
    n = 20000
    got = np.sort(call(uniform, 3, n, shape=n))
    assert got[0] >= 0 and got[-1] < 1
    assert np.abs(got - np.arange(n) / n).max() < 0.015  # Kolmogorov-Smirnov


def test_randn_is_normal():
    got = call(normal, 3, 20000, shape=20000)
    assert abs(got.mean()) < 0.02 and abs(got.std() - 1) < 0.02


def test_uniform_floats_stay_below_one():
    x = np.array([0, 2**31 - 1, 2**31, 2**32 - 1], np.uint32)
    got = call(limits, x, 4, shape=4)
    assert got.min() >= 0 and got.max() < 1
    x64 = np.array([0, 2**63 - 1, 2**63, 2**64 - 1], np.uint64)
    assert call(limits, x64, 4, shape=4).max() < 1


@jit
def four_at_once(out, N: tl.constexpr):
    i = tl.arange(0, N)
    a, b, c, d = tl.rand4x(1, i)
    e, f, g, h = tl.randn4x(1, i)
    tl.store(out + i, a + b + c + d)
    tl.store(out + N + i, e + f + g + h)


def test_blocks_of_four():
    got = call(four_at_once, 4000, shape=(2, 4000))
    assert abs(got[0].mean() - 2) < 0.05 and abs(got[1].std() - 2) < 0.1


@jit
def philox64(out, seed, N: tl.constexpr):
    i = tl.arange(0, N).to(tl.uint64)
    a, b, c, d = tl.philox(seed, i, i * 0, i * 0, i * 0)
    tl.store(out + i, a)


def test_philox_of_64_bits():
    # First output of Random123's philox4x64-10 for counter 0 and key 0.
    assert int(call(philox64, 0, 1, shape=1, dtype=np.uint64)[0]) == 0x16554D9ECA36314C
