"""Every f32 there is, on the CPU backend: `pytest -m slow tests/math`, a minute a function."""

from __future__ import annotations

import numpy as np
import pytest

from tegula import ir
from tegula.codegen.math import FUNCTIONS
from tegula.codegen.math.measure import exact, on_backend, worst

CHUNK = 1 << 20


@pytest.mark.slow
@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_f32_is_within_the_declared_bound(name: str) -> None:
    function = on_backend(name, ir.f32, "cpu")
    largest, at = 0.0, 0.0
    for start in range(0, 1 << 32, CHUNK):
        x = np.arange(start, start + CHUNK, dtype=np.uint64).astype(np.uint32).view(np.float32)
        error, index = worst(function(x), exact(name, x))
        if error > largest:
            largest, at = error, float(x[index])

    assert largest <= FUNCTIONS[name].bound(ir.f32), f"{name}({at!r}) is {largest} ulp off"
