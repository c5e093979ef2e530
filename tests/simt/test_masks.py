"""Neighbours share a comparison where their answers are the same, and nowhere else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tegula_cuda")

from cuda_ptx import ptx_of

import tegula
import tegula.language as tl
from tegula.codegen.simt import masks
from tegula.config import config
from tegula.ir.types import Pointer, f32, i32

F, I = Pointer(f32), Pointer(i32)
N = 2048


@tegula.jit
def by_bound(x, o, n, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    tl.store(o + i, tl.where(i < n, v, -v))


@tegula.jit
def by_quotient(x, o, n, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(o + i, tl.where((i - 4) // 4 == n, x + 0.0, 1.0))


@tegula.jit
def by_rows(x, o, n, N: tl.constexpr):
    r, c = tl.arange(0, 16)[:, None], tl.arange(0, N)[None, :]
    tl.store(o + r * N + c, tl.where((r < n) & (c * 4 < n), 1.0, x + 0.0))


@tegula.jit
def loaded(x, o, n, N: tl.constexpr):
    """Elements whose place, four before the program's first, has the quotient n."""
    i = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(o + i, tl.load(x + i, mask=(i - 4) // 4 == n, other=-1.0))


def comparisons(kernel: Any, aligned: bool = True, **types: Any) -> int:
    ptx = ptx_of(kernel, {"N": N // 16 if kernel is by_rows else N}, aligned=aligned, **types)
    return len(re.findall(r"setp\.\w+\.[bsu]32", ptx))


def test_masks_by_a_multiple_are_compared_once_for_neighbours() -> None:
    """16 elements a thread, in groups of 4."""
    assert comparisons(by_bound, x=F, o=F, n=i32) == 4
    assert comparisons(by_bound, aligned=False, x=F, o=F, n=i32) == 16


def test_quotients_of_what_may_be_negative_are_compared_one_by_one() -> None:
    assert comparisons(by_quotient, x=f32, o=F, n=i32) >= 16


def test_rows_are_compared_by_their_own_runs() -> None:
    assert comparisons(by_rows, x=f32, o=F, n=i32) < 16


def test_the_device_below_shares_comparisons(
    device_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tegula.codegen.simt import kernel

    shared: list[int] = []
    monkeypatch.setattr(
        kernel, "repeated", lambda *args: shared.append(masks.repeated(*args)) or shared[-1]
    )
    ran(by_bound, device_name, np.zeros(N, np.float32), 16)
    ran(by_quotient, device_name, 7.0, 0)
    assert shared[0] > 0 and shared[1:] == [0]


@pytest.mark.parametrize("n", [0, 16, 2032, 2048, -16, 5, 2047])
def test_bounds(n: int, device_name: str) -> None:
    x = np.arange(1, N + 1, dtype=np.float32)
    out = ran(by_bound, device_name, x, n)
    np.testing.assert_array_equal(out, np.where(np.arange(N) < n, x, -x))


@pytest.mark.parametrize("n", [-1, 0, 1, 2])
def test_quotients_are_cut_toward_zero(n: int, device_name: str) -> None:
    out = ran(by_quotient, device_name, 7.0, n)
    quotient = np.trunc((np.arange(N) - 4) / 4).astype(int)
    np.testing.assert_array_equal(out, np.where(quotient == n, 7.0, 1.0))


@pytest.mark.parametrize("n", [-1, 0, 1, 2])
def test_loads_under_quotients(n: int, device_name: str) -> None:
    x = np.arange(N, dtype=np.float32)
    out = ran(loaded, device_name, x, n)
    quotient = np.trunc((np.arange(N) - 4) / 4).astype(int)
    np.testing.assert_array_equal(out, np.where(quotient == n, x, -1.0))


def test_loads_are_wide_where_neighbours_surely_share_the_mask() -> None:
    ptx = ptx_of(loaded, {"N": N}, x=F, o=F, n=i32)
    assert "ld.global.b32" in ptx and "ld.global.v" not in ptx and "st.global.v4" in ptx
    assert "ld.global.v4" in ptx_of(by_bound, {"N": N}, x=F, o=F, n=i32)


@pytest.mark.parametrize("n", [0, 3, 16, 64])
def test_rows(n: int, device_name: str) -> None:
    out = ran(by_rows, device_name, 2.0, n, N // 16).reshape(16, -1)
    r, c = np.ogrid[:16, : N // 16]
    np.testing.assert_array_equal(out, np.where((r < n) & (c * 4 < n), 1.0, 2.0))


@pytest.fixture
def device_name(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A device whose code is written op by op, as that for GPUs is."""
    pytest.importorskip("tegula_xpu")
    from simt.written_out import AsOnGpus, missing

    from tegula_xpu import simt

    if missing():
        pytest.skip(missing())

    class Machine(AsOnGpus, simt.XpuSimt):
        by_register = False

    monkeypatch.setattr(simt, "XpuSimt", Machine)
    with config.scope(cache=False):
        yield "xpu"
    for kernel in (by_bound, by_quotient, by_rows, loaded):
        kernel.forget()


def ran(kernel: Any, device: str, x: Any, n: int, columns: int = N) -> np.ndarray:
    given = tegula.asarray(x, device=device) if isinstance(x, np.ndarray) else x
    out = tegula.asarray(np.zeros(N, np.float32), device=device)
    kernel[(1,)](given, out, n, N=columns, num_warps=2)
    return out.numpy()
