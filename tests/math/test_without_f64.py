"""Functions of f32 that compute in f64 do without it where a machine has none."""

from __future__ import annotations

import numpy as np
import pytest

from tegula.codegen.math.library import LibraryFunction, Signature, library
from tegula.codegen.math.references import expected, samples
from tegula.codegen.math.trial import library_errors, library_kernel, runner
from tegula.ir.types import Pointer, elem_of, f32, f64

pytest.importorskip("scipy")
pytest.importorskip("mpmath")

WIDE = [f for f in library().values() if f.f64_inside]
MOST = {"j0": 3e-7, "j1": 3e-7, "y0": 4e-7, "y1": 4e-7, "jn": 1e-6, "yn": 5e-6}
"""Largest errors beside 1, or beside the value where it is larger."""


def of_f32(f: LibraryFunction) -> list[Signature]:
    return [s for s in f.signatures if f64 not in (*s.arguments, s.result)]


def names(f: LibraryFunction) -> str:
    return f.name


@pytest.mark.parametrize("f", [f for f in library().values() if of_f32(f)], ids=names)
def test_no_value_is_f64(f: LibraryFunction) -> None:
    for s in of_f32(f):
        (function,) = library_kernel(f, s, widest=f32).kernels
        for op in function.body.walk():
            for v in (*op.operands, *op.results):
                e = elem_of(v.type)
                assert (e.elem if isinstance(e, Pointer) else e) is not f64, (f.name, op)


@pytest.mark.parametrize("f", [f for f in WIDE if f.name in MOST], ids=names)
def test_bessel_functions_are_close(f: LibraryFunction) -> None:
    (s,) = of_f32(f)
    x = samples(f, s, 3000)
    x = [np.ascontiguousarray(a[:: max(1, len(x[0]) // 2000)]) for a in x]
    actual, exact = runner(f, s, "cpu", widest=f32)(*x), expected(f, s, x).astype(np.float64)
    with np.errstate(all="ignore"):
        error = np.abs(actual.astype(np.float64) - exact) / np.maximum(np.abs(exact), 1)
        same = np.isnan(actual) == np.isnan(exact)
        same &= np.isinf(actual) == np.isinf(exact.astype(np.float32))
    assert same.all()
    assert np.nanmax(np.where(np.isinf(actual), 0, error)) <= MOST[f.name]


def test_lgamma_keeps_its_bound() -> None:
    f = library()["lgamma"]
    (s,) = of_f32(f)
    x = samples(f, s, 3000)
    x = [np.ascontiguousarray(a[:: max(1, len(x[0]) // 4000)]) for a in x]
    error, at = library_errors(f, s, runner(f, s, "cpu", widest=f32)(*x), expected(f, s, x))
    assert error <= f.bound(f32).ulp, x[0][at]


def test_inverse_roots_are_correctly_rounded() -> None:
    """Both are compared on a part of the numbers from 1 to 4, two hard ones, and special ones."""
    f = library()["rsqrt_rn"]
    (s,) = of_f32(f)
    spread = np.arange(0x3F800000, 0x40800000, 37, dtype=np.uint32).view(np.float32)
    hard = np.array([2.1552868, 2.907769, 0.0, -0.0, np.inf, np.nan, -1, 1e-45, 1e-40, 3.4e38],
                    np.float32)  # fmt: skip
    x = np.concatenate([spread, hard, hard * np.float32(2.0**-40)])
    wide, narrow = runner(f, s, "cpu")(x), runner(f, s, "cpu", widest=f32)(x)
    np.testing.assert_array_equal(narrow.view(np.uint32) << 1, wide.view(np.uint32) << 1)
