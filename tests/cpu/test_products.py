"""Matrix products of whole kernels on `cpu`: operands in memory, packed, masked, prefetched."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import tegula
import tegula.language as tl
from tegula.config import config
from tegula.runtime import stages


@tegula.jit
def product(a_ptr, b_ptr, c_ptr, M, N, K, sam, sak, sbk, sbn,
            BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):  # fmt: skip
    rm = (tl.program_id(0) * BM + tl.arange(0, BM)) % M
    rn = (tl.program_id(1) * BN + tl.arange(0, BN)) % N
    rk = tl.arange(0, BK)
    a = a_ptr + rm[:, None] * sam + rk[None, :] * sak
    b = b_ptr + rk[:, None] * sbk + rn[None, :] * sbn
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BK)):
        x = tl.load(a, mask=rk[None, :] < K - k * BK, other=0.0)
        y = tl.load(b, mask=rk[:, None] < K - k * BK, other=0.0)
        acc = tl.dot(x, y, acc)
        a += BK * sak
        b += BK * sbk
    om = tl.program_id(0) * BM + tl.arange(0, BM)
    on = tl.program_id(1) * BN + tl.arange(0, BN)
    tl.store(c_ptr + om[:, None] * N + on[None, :], acc,
             mask=(om[:, None] < M) & (on[None, :] < N))  # fmt: skip


@pytest.fixture
def texts():
    """The LLVM texts of what a test compiles, none of which comes from a cache."""
    found: list[str] = []
    config.set(cache=False)
    with stages.recording(lambda name, text: found.append(text) if name == "llir" else None):
        yield found
    config.set(cache=None)


def check(m: int, n: int, k: int, block: tuple[int, int, int], dtype: type = np.float32,
          order_a: str = "C", order_b: str = "C") -> None:  # fmt: skip
    rng = np.random.default_rng(m + n + k)
    a = np.asarray(rng.standard_normal((m, k)).astype(dtype), order=order_a)
    b = np.asarray(rng.standard_normal((k, n)).astype(dtype), order=order_b)
    c = np.full((m, n), np.nan, np.float32)
    strides = [s // a.itemsize for s in (*a.strides, *b.strides)]
    grid = (-(-m // block[0]), -(-n // block[1]))
    product[grid](a, b, c, m, n, k, *strides, *block)
    want = a.astype(np.float64) @ b.astype(np.float64)
    bound = (k + 1) * 2.0**-24 * (np.abs(a).astype(np.float64) @ np.abs(b).astype(np.float64))
    assert (np.abs(c - want) <= bound).all()


@pytest.mark.parametrize(
    "size", [(128, 64, 128), (100, 70, 200), (33, 64, 63), (1, 1, 64), (64, 64, 1)]
)
@pytest.mark.parametrize("block", [(32, 64, 64), (48, 32, 64), (16, 16, 128)])
def test_rows_in_memory_and_at_edges(
    size: tuple[int, int, int], block: tuple[int, int, int]
) -> None:
    check(*size, block)


@pytest.mark.parametrize("order_a", ["C", "F"])
@pytest.mark.parametrize("order_b", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_every_order_of_the_operands(order_a: str, order_b: str, dtype: type) -> None:
    check(70, 50, 130, (32, 32, 64), dtype, order_a, order_b)


def test_long_rows_are_read_where_they_lie(texts: list[str]) -> None:
    check(64, 64, 192, (64, 64, 96))
    (text,) = texts
    assert "_rows(" in text
    assert "@llvm.prefetch" in text


def test_short_rows_are_packed(texts: list[str]) -> None:
    check(64, 64, 64, (64, 64, 16))
    (text,) = texts
    assert "@dot_" in text and "_rows(" not in text


@tegula.jit
def chained(x_ptr, y_ptr, z_ptr, o_ptr, S: tl.constexpr):
    i = tl.arange(0, S)
    at = i[:, None] * S + i[None, :]
    x = tl.load(x_ptr + at)
    first = tl.dot(x, tl.load(y_ptr + at))
    tl.store(x_ptr + at, x + 1)
    tl.store(o_ptr + at, tl.dot(x, first) + tl.dot(first, tl.load(z_ptr + at)))


def test_operand_that_is_overwritten_after_its_load() -> None:
    rng = np.random.default_rng(3)
    x, y, z = (rng.standard_normal((64, 64)).astype(np.float32) for _ in range(3))
    out = np.zeros((64, 64), np.float32)
    old = x.copy()
    chained[(1,)](x, y, z, out, 64)
    first = old.astype(np.float64) @ y
    np.testing.assert_allclose(out, old @ first + first @ z, rtol=1e-4, atol=1e-3)
    np.testing.assert_array_equal(x, old + 1)


@tegula.jit
def walked(a_ptr, b_ptr, steps_ptr, c_ptr, n, S: tl.constexpr, BK: tl.constexpr):
    i, k = tl.arange(0, S), tl.arange(0, BK)
    a = tl.load(a_ptr + i[:, None] * BK + k[None, :])
    b = b_ptr + k[:, None] * S + i[None, :]
    acc = tl.zeros((S, S), dtype=tl.float32)
    for t in range(n):
        acc = tl.dot(a, tl.load(b), acc)
        tl.store(steps_ptr + t, t + 1)
        b += tl.load(steps_ptr + t) * (BK * S)
    tl.store(c_ptr + i[:, None] * S + i[None, :], acc)


def test_step_that_is_stored_before_it_is_read() -> None:
    rng = np.random.default_rng(4)
    a = rng.standard_normal((32, 64)).astype(np.float32)
    b = rng.standard_normal((4 * 64, 32)).astype(np.float32)
    steps, out = np.full(3, 1000, np.int32), np.zeros((32, 32), np.float32)
    walked[(1,)](a, b, steps, out, 3, 32, 64)
    want = sum(a.astype(np.float64) @ b[64 * at : 64 * at + 64] for at in (0, 1, 3))
    np.testing.assert_allclose(out, want, rtol=1e-5, atol=1e-4)
