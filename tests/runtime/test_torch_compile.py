"""Launches in functions that `torch.compile` takes apart."""

from __future__ import annotations

from typing import Any

import pytest

import tegula
import tegula.language as tl
from tegula.config import config

torch = pytest.importorskip("torch")
pytest.importorskip("torch._dynamo")

N = 16


@tegula.jit
def plain(x, y, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)


@tegula.autotune(configs=[tegula.Config({"BLOCK": N})], key=[])
@tegula.heuristics({"n": lambda given: given["BLOCK"]})
@tegula.jit
def tuned(x, y, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("kernel", [plain, tuned], ids=["plain", "tuned"])
@pytest.mark.filterwarnings("ignore")
def test_launches_are_not_traced(kernel: Any, native: bool) -> None:
    options = {"n": N, "BLOCK": N} if kernel is plain else {}

    def doubled(x: Any) -> Any:
        y = torch.zeros_like(x)
        kernel[(1,)](x + 0, y, **options)
        return y + 1

    x = torch.arange(N, dtype=torch.float32)
    with config.scope(native_launch=native):
        if kernel is plain:
            plain.forget()
        compiled = torch.compile(doubled, backend="eager")
        for _ in range(2):
            assert torch.equal(compiled(x), 2 * x + 1)
    torch._dynamo.reset()
