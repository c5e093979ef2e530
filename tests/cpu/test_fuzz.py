"""Random tile programs: the backend `cpu` computes what the interpreter says.

The first test keeps to ops whose result is unique, and compares bits.  The second allows sums of
floats and approximated functions; elements whose value depends on the order of a sum even on the
interpreter (a rounded sum can tip a comparison) are left out, the others compared to rounding.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from strategies import FEATURES, Program, programs

from tegula.interp import combine, run_kernel
from tegula.tools.execute import run_on

SEARCH = settings(
    max_examples=20,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
UNIQUE = FEATURES - {"math", "dot", "float sums"}
DIGITS = {np.dtype(np.float16): 4e-3, np.dtype(np.float32): 1e-4, np.dtype(np.float64): 1e-6}


def arrays(args: dict[str, Any]) -> dict[str, np.ndarray]:
    return {name: a for name, a in args.items() if isinstance(a, np.ndarray)}


def interpreted(program: Program) -> dict[str, np.ndarray]:
    """What the interpreter leaves in memory."""
    args = program.arguments()
    run_kernel(program.module, program.grid, args)
    return arrays(args)


def compiled(program: Program) -> dict[str, np.ndarray]:
    """What the backend leaves in memory."""
    args = program.arguments()
    run_on(program.module, program.grid, args, "cpu", {"enable_fp_fusion": False})
    return arrays(args)


def wide(x: np.ndarray) -> np.ndarray:
    return x.astype(np.float64) if x.dtype.kind not in "iub" else x


@SEARCH
@given(programs(UNIQUE))
def test_unique_results_are_equal_to_the_bit(program: Program) -> None:
    expected, actual = interpreted(program), compiled(program)

    for name, want in expected.items():
        got = actual[name]
        is_float = want.dtype.kind not in "iub"
        assert np.array_equal(wide(want), wide(got), equal_nan=is_float), name
        if is_float:
            zeros = wide(want) == 0
            assert np.array_equal(np.signbit(wide(want)[zeros]), np.signbit(wide(got)[zeros]))


@SEARCH
@given(program=programs())
def test_other_results_are_close(program: Program) -> None:
    expected = interpreted(program)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(combine, "_fits", lambda ufunc, dtype: False)  # sums in another order
        again = interpreted(program)
    actual = compiled(program)

    for name, want in expected.items():
        got = actual[name]
        if want.dtype.kind in "iub":
            if not program.used & {"math", "float sums"}:
                assert np.array_equal(want, got), name
            continue
        digits = DIGITS.get(want.dtype, 4e-2)
        stable = np.isclose(wide(want), wide(again[name]), digits / 10, 1e-9, equal_nan=True)
        stable &= np.abs(wide(want)) < 1e4  # sines of huge arguments and the like
        assert np.allclose(wide(want)[stable], wide(got)[stable], digits, digits, equal_nan=True), (
            name
        )
