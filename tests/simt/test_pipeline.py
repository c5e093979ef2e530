"""Pipelined loops and products from shared memory, on a device that has no copies of its own and no
such matrix unit: both are written out here with ordinary instructions.
"""

from __future__ import annotations

import functools

import numpy as np
import pytest

import tegula
import tegula.language as tl
from tegula.codegen.simt import lower as lowering
from tegula.config import config

pytest.importorskip("tegula_xpu")

from simt.written_out import missing, written_out

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing() or "-")


@pytest.fixture(params=["copies", "copies and unit"])
def machine(request, monkeypatch):
    """The device with asynchronous copies that are finished at once, and perhaps the unit."""
    from tegula_xpu import simt

    machine = written_out(simt.XpuSimt, request.param == "copies and unit")
    monkeypatch.setattr(simt, "XpuSimt", machine)

    def stages(n: int) -> None:
        whole = functools.partial(lowering.lower, num_stages=n)
        monkeypatch.setattr(lowering, "lower", whole)

    with config.scope(cache=False):
        yield stages


def _on_device(x):
    return tegula.asarray(x, device="xpu")


def _matmul():
    @tegula.jit
    def kernel(a, b, c, M, N, K, ta: tl.constexpr, tb: tl.constexpr, BM: tl.constexpr,
               BN: tl.constexpr, BK: tl.constexpr):  # fmt: skip
        rm = tl.program_id(0) * BM + tl.arange(0, BM)
        rn = tl.program_id(1) * BN + tl.arange(0, BN)
        rk = tl.arange(0, BK)
        acc = tl.zeros((BM, BN), dtype=tl.float32)
        for k in range(0, K, BK):
            if ta:
                x = tl.load(a + (k + rk)[:, None] * M + rm[None, :],
                            mask=((k + rk)[:, None] < K) & (rm[None, :] < M), other=0.0).T
            else:
                x = tl.load(a + rm[:, None] * K + (k + rk)[None, :],
                            mask=(rm[:, None] < M) & ((k + rk)[None, :] < K), other=0.0)
            if tb:
                y = tl.load(b + rn[:, None] * K + (k + rk)[None, :],
                            mask=(rn[:, None] < N) & ((k + rk)[None, :] < K), other=0.0).T
            else:
                y = tl.load(b + (k + rk)[:, None] * N + rn[None, :],
                            mask=((k + rk)[:, None] < K) & (rn[None, :] < N), other=0.0)
            acc = tl.dot(x, y, acc, input_precision="ieee")
        tl.store(c + rm[:, None] * N + rn[None, :], acc,
                 mask=(rm[:, None] < M) & (rn[None, :] < N))

    return kernel


@pytest.mark.parametrize("transposed", [(False, False), (True, False), (False, True)])
@pytest.mark.parametrize("size", [(32, 32, 64), (40, 24, 100), (16, 16, 8), (8, 8, 0)])
def test_results_do_not_depend_on_the_number_of_stages(machine, size, transposed):
    M, N, K = size
    rng = np.random.default_rng(0)
    a, b = rng.integers(-4, 5, (M, K)).astype("f4"), rng.integers(-4, 5, (K, N)).astype("f4")
    given = [np.ascontiguousarray(x.T if t else x) for x, t in zip((a, b), transposed)]
    for n in (1, 2, 3, 4):
        machine(n)
        c = _on_device(np.full((M, N), np.nan, "f4"))
        grid = (-(-M // 16), -(-N // 16))
        _matmul()[grid](*map(_on_device, given), c, M, N, K, *transposed, 16, 16, 16)
        np.testing.assert_array_equal(c.numpy(), a @ b, err_msg=f"stages {n}")


def test_loops_around_a_pipelined_one(machine):
    @tegula.jit
    def kernel(a, b, c, TILES, K, B: tl.constexpr):
        r = tl.arange(0, B)
        for tile in range(TILES):
            acc = tl.zeros((B, B), dtype=tl.float32)
            for k in range(0, K, B):
                x = tl.load(a + tile * B * K + r[:, None] * K + k + r[None, :])
                y = tl.load(b + (k + r)[:, None] * B + r[None, :])
                acc = tl.dot(x, y, acc, input_precision="ieee")
            tl.store(c + tile * B * B + r[:, None] * B + r[None, :], tl.trans(acc))

    machine(3)
    rng = np.random.default_rng(1)
    a, b = rng.integers(-4, 5, (48, 64)).astype("f4"), rng.integers(-4, 5, (64, 16)).astype("f4")
    c = _on_device(np.zeros((3, 16, 16), "f4"))
    kernel[(1,)](_on_device(a), _on_device(b), c, 3, 64, 16)
    np.testing.assert_array_equal(c.numpy().transpose(0, 2, 1).reshape(48, 16), a @ b)


def test_a_factor_from_outside_of_the_loop_and_one_from_the_loop_itself(machine):
    @tegula.jit
    def kernel(q, k, v, o, S, B: tl.constexpr):
        r = tl.arange(0, B)
        x = tl.load(q + r[:, None] * B + r[None, :])
        acc = tl.zeros((B, B), dtype=tl.float32)
        for n in range(0, S, B):
            y = tl.load(k + (n + r)[:, None] * B + r[None, :])
            z = tl.load(v + (n + r)[:, None] * B + r[None, :])
            s = tl.dot(x, tl.trans(y), input_precision="ieee")
            acc = tl.dot(tl.where(s > 0, s, 0.0), z, acc, input_precision="ieee")
        tl.store(o + r[:, None] * B + r[None, :], acc)

    rng = np.random.default_rng(2)
    q = rng.integers(-3, 4, (16, 16)).astype("f4")
    k, v = (rng.integers(-3, 4, (64, 16)).astype("f4") for _ in range(2))
    for n in (2, 3, 4):
        machine(n)
        o = _on_device(np.zeros((16, 16), "f4"))
        kernel[(1,)](*map(_on_device, (q, k, v)), o, 64, 16)
        np.testing.assert_array_equal(o.numpy(), np.maximum(q @ k.T, 0) @ v)


@pytest.mark.parametrize("early", [False, True])
def test_sums_that_change_between_products(machine, early):
    """A product may run until the next iteration's first one, if its sum is needed after that."""

    @tegula.jit
    def kernel(q, k, v, o, S, B: tl.constexpr, EARLY: tl.constexpr):
        r = tl.arange(0, B)
        x = tl.load(q + r[:, None] * B + r[None, :])
        acc = tl.zeros((B, B), dtype=tl.float32)
        for n in range(0, S, B):
            y = tl.load(k + (n + r)[:, None] * B + r[None, :])
            z = tl.load(v + (n + r)[:, None] * B + r[None, :])
            if EARLY:
                acc = acc * 2 - 1
            s = tl.dot(x, tl.trans(y), input_precision="ieee")
            if not EARLY:
                acc = acc * 2 - 1
            acc = tl.dot(s, z, acc, input_precision="ieee")
        tl.store(o + r[:, None] * B + r[None, :], acc)

    rng = np.random.default_rng(4)
    q, k, v = (rng.integers(-2, 3, (n, 16)).astype("f4") for n in (16, 64, 64))
    wanted = np.zeros((16, 16), "f4")
    for n in range(0, 64, 16):
        wanted = wanted * 2 - 1 + (q @ k[n : n + 16].T) @ v[n : n + 16]
    for n in (2, 3):
        machine(n)
        o = _on_device(np.zeros((16, 16), "f4"))
        kernel[(1,)](*map(_on_device, (q, k, v)), o, 64, 16, early)
        np.testing.assert_array_equal(o.numpy(), wanted)


def test_copies_move_four_bytes_even_where_each_thread_has_less(machine):
    @tegula.jit
    def kernel(a, b, c, K, B: tl.constexpr):
        r = tl.arange(0, B)
        acc = tl.zeros((B, B), dtype=tl.int32)
        for k in range(0, K, B):
            x = tl.load(a + r[:, None] * K + k + r[None, :])
            y = tl.load(b + (k + r)[:, None] * B + r[None, :])
            acc = tl.dot(x, y, acc)
        tl.store(c + r[:, None] * B + r[None, :], acc)

    machine(3)
    rng = np.random.default_rng(3)
    a, b = (rng.integers(-9, 9, s).astype("i1") for s in ((16, 64), (64, 16)))
    c = _on_device(np.zeros((16, 16), "i4"))
    kernel[(1,)](_on_device(a), _on_device(b), c, 64, 16, num_warps=8)
    np.testing.assert_array_equal(c.numpy(), a.astype("i4") @ b.astype("i4"))
