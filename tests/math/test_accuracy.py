"""Errors of the formulas over the whole range of arguments, against wider arithmetic."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from tegula import ir
from tegula.codegen.math import FUNCTIONS, ExpandMath
from tegula.codegen.math.measure import (
    BLOCK,
    elementwise_kernel,
    exact,
    samples,
    ulp_errors,
    wide_enough,
)
from tegula.interp import run_kernel
from tegula.passes import PassContext

DTYPES = {"f32": ir.f32, "f64": ir.f64}
INF, NAN = np.inf, np.nan

# Argument and value where both are exact, or a rounding is known. NaN gives NaN everywhere.
SPECIAL: dict[str, list[tuple[float, float]]] = {
    "exp": [(0, 1), (-0.0, 1), (INF, INF), (-INF, 0), (1e4, INF), (-1e4, 0)],
    "exp2": [(0, 1), (-0.0, 1), (INF, INF), (-INF, 0), (10, 1024), (-3, 0.125), (1e5, INF),
             (-1e5, 0), (-140, 2.0**-140)],
    "log": [(1, 0), (0, -INF), (-0.0, -INF), (INF, INF), (-1, NAN), (-INF, NAN), (-1e-40, NAN)],
    "log2": [(1, 0), (0, -INF), (-0.0, -INF), (INF, INF), (-1, NAN), (-INF, NAN), (1024, 10),
             (2.0**-140, -140)],
    "sin": [(0, 0), (-0.0, -0.0), (INF, NAN), (-INF, NAN)],
    "cos": [(0, 1), (-0.0, 1), (INF, NAN), (-INF, NAN)],
    "tanh": [(0, 0), (-0.0, -0.0), (INF, 1), (-INF, -1), (30, 1), (-30, -1)],
    "erf": [(0, 0), (-0.0, -0.0), (INF, 1), (-INF, -1), (7, 1), (-7, -1)],
    "rsqrt": [(4, 0.5), (0, INF), (-0.0, -INF), (INF, 0), (-1, NAN), (2.0**-140, 2.0**70)],
}  # fmt: skip


@cache
def kernel(name: str, dtype: ir.DType) -> ir.Module:
    """y[i] = f(x[i]), expanded."""
    module = ExpandMath().run(elementwise_kernel(name, dtype), PassContext())
    ir.verify(module)
    return module


def evaluate(name: str, dtype: ir.DType, x: Any) -> np.ndarray:
    """The formula on the interpreter."""
    x = np.ascontiguousarray(x, ir.numpy_dtype(dtype))
    y = np.zeros_like(x)
    with np.errstate(all="ignore"):
        run_kernel(kernel(name, dtype), -(-x.size // BLOCK), [x, y, x.size])
    return y


def worst(name: str, dtype: ir.DType, x: np.ndarray) -> tuple[float, float]:
    """The largest error in ulp, and where."""
    errors = ulp_errors(evaluate(name, dtype, x), exact(name, x))
    at = int(np.argmax(errors))
    return float(errors[at]), float(x[at])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_error_is_within_the_declared_bound(name: str, dtype: str) -> None:
    if dtype == "f64" and not wide_enough():
        pytest.skip("long double has no more bits than f64 here")
    t = DTYPES[dtype]
    error, at = worst(name, t, samples(name, t, 20_000 if dtype == "f32" else 4_000))

    assert error <= FUNCTIONS[name].bound(t), f"{name}({at!r}) is {error} ulp off"


@pytest.mark.parametrize("name", FUNCTIONS)
def test_bounds_are_not_idle(name: str) -> None:
    """A bound far above what happens would hide mistakes."""
    error, _ = worst(name, ir.f32, samples(name, ir.f32, 50_000))

    assert error >= 0.8 * FUNCTIONS[name].bound(ir.f32)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_special_values(name: str, dtype: str) -> None:
    arguments, expected = zip(*SPECIAL[name], strict=True)
    actual = evaluate(name, DTYPES[dtype], arguments)

    np.testing.assert_array_equal(actual, np.array(expected, actual.dtype))
    np.testing.assert_array_equal(np.signbit(actual[actual == 0]),
                                  np.signbit(np.array(expected)[actual == 0]))  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_kind_of_nan_stays_nan(name: str, dtype: str) -> None:
    t = DTYPES[dtype]
    bits_type = np.uint32 if dtype == "f32" else np.uint64
    quiet = ((1 << t.bits - 1) - 1) ^ ((1 << t.mantissa - 1) - 1)
    payloads = [quiet, quiet | 1, quiet | 0xFF, quiet | ((1 << t.mantissa - 1) - 1)]
    bits = np.array([*payloads, *(p | 1 << t.bits - 1 for p in payloads)], bits_type)

    assert np.isnan(evaluate(name, t, bits.view(ir.numpy_dtype(t)))).all()


@pytest.mark.parametrize("name", ["sin", "cos"])
def test_huge_angles_that_come_close_to_a_zero(name: str) -> None:
    """Arguments near multiples of π/2 leave the fewest bits of the fraction of a turn."""
    close = {
        "f32": ["0x1.47d0fep+34", "0x1.6ac5b2p+77", "0x1.f37a8ep+120", "0x1.fffffep+127"],
        "f64": ["0x1.6ac5b262ca1ffp+849", "0x1.fffffffffffffp+1023", "0x1.2bb5a6c3c5e8p+300"],
    }
    for dtype, texts in close.items():
        if dtype == "f64" and not wide_enough():
            continue
        t = DTYPES[dtype]
        x = np.array([float.fromhex(s) for s in texts], ir.numpy_dtype(t))
        error, at = worst(name, t, np.concatenate([x, -x, np.nextafter(x, 0)]))

        assert error <= FUNCTIONS[name].bound(t), f"{name}({at!r}) is {error} ulp off"
