"""Every f32 there is, on the CPU backend: `pytest -m slow tests/math`, a minute a function."""

from __future__ import annotations

import numpy as np
import pytest

import tegula
import tegula.language as tl
from tegula import ir
from tegula.codegen.math import FUNCTIONS
from tegula.codegen.math.measure import exact, worst

CHUNK = 1 << 22


@tegula.jit
def apply(x, y, function: tl.constexpr, size: tl.constexpr):
    i = tl.program_id(0) * size + tl.arange(0, size)
    tl.store(y + i, function(tl.load(x + i)))


@pytest.mark.slow
@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_f32_is_within_the_declared_bound(name: str) -> None:
    y = np.empty(CHUNK, np.float32)
    largest, at = 0.0, 0.0
    with tegula.use_device("cpu"):
        for start in range(0, 1 << 32, CHUNK):
            x = np.arange(start, start + CHUNK, dtype=np.uint64).astype(np.uint32).view(np.float32)
            apply[(CHUNK // 4096,)](x, y, getattr(tl, name), 4096)
            error, index = worst(y, exact(name, x))
            if error > largest:
                largest, at = error, float(x[index])

    assert largest <= FUNCTIONS[name].bound(ir.f32), f"{name}({at!r}) is {largest} ulp off"
