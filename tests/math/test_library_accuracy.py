"""Errors of the device library's functions, against other implementations with more digits."""

from __future__ import annotations

import math

import numpy as np
import pytest
from library_samples import BACKENDS, function, same_bits

from tegula.codegen.math.library import EXACT, LibraryFunction, library
from tegula.codegen.math.measure import wide_enough
from tegula.codegen.math.references import expected, has_reference, is_exhaustive, samples
from tegula.codegen.math.trial import library_errors, runner
from tegula.ir.types import f32

pytest.importorskip("scipy")
pytest.importorskip("mpmath")

INF, NAN = math.inf, math.nan
SLOW_REFERENCES = {
    "erfinv", "erfcinv", "normcdfinv", "lgamma", "jn", "yn", "j0", "j1", "y0", "y1", "erfc",
    "erfcx", "normcdf", "tgamma", "cyl_bessel_i0", "cyl_bessel_i1", "erf",
}  # fmt: skip
CASES = [
    pytest.param(f, i, id=f"{f.name}-{s.arguments[-1].name}")
    for f in library().values()
    if has_reference(f.name)
    for i, s in enumerate(f.signatures)
]


def _thinned(x: list[np.ndarray], most: int) -> list[np.ndarray]:
    """Some of the rows. Interpreting takes its time, and so do values to forty digits."""
    step = max(1, len(x[0]) // most)
    return [np.ascontiguousarray(a[::step]) for a in x]


@pytest.mark.parametrize(("f", "index"), CASES)
def test_error_is_within_the_declared_bound(f: LibraryFunction, index: int) -> None:
    s = f.signatures[index]
    single = s.float_type is f32
    if not single and not wide_enough():
        pytest.skip("long double has no more bits than f64 here")
    x = samples(f, s, 3000 if single else 1000)
    x = _thinned(x, 250 if f.name in SLOW_REFERENCES and not single else 20_000)
    actual = function(f.name, index, "cpu")(*x)
    error, at = library_errors(f, s, actual, expected(f, s, x))

    place = ", ".join(repr(a[at]) for a in x)
    assert error <= f.bound(s.float_type).ulp, f"{f.name}({place}) is {error} ulp off"
    interpreted = function(f.name, index, "interpreter")(*_thinned(x, 300))
    assert same_bits(interpreted, *_thinned([actual], 300)).all(), "the backends differ"


@pytest.mark.parametrize("f", [f for f in library().values() if has_reference(f.name)],
                         ids=lambda f: f.name)  # fmt: skip
def test_fusing_products_and_sums_keeps_the_bound(f: LibraryFunction) -> None:
    """Backends may round a product and its sum once, where a kernel's options let them."""
    (s, *_) = [s for s in f.signatures if s.float_type is f32]
    x = _thinned(samples(f, s, 3000), 20_000)
    actual = runner(f, s, "cpu", {"enable_fp_fusion": True})(*x)
    error, at = library_errors(f, s, actual, expected(f, s, x))

    place = ", ".join(repr(a[at]) for a in x)
    assert error <= f.bound(f32).ulp, f"{f.name}({place}) is {error} ulp off"


def test_every_name_is_exact_or_has_a_reference() -> None:
    for f in library().values():
        exact = f.f32_bound is EXACT and f.f64_bound is EXACT
        assert exact or has_reference(f.name), f.name


# Arguments and value where that is exact or known.
SPECIAL: dict[str, list[tuple[tuple[float, ...], float]]] = {
    "exp10": [((0,), 1), ((INF,), INF), ((-INF,), 0), ((2,), 100)],
    "expm1": [((0,), 0), ((-0.0,), -0.0), ((INF,), INF), ((-INF,), -1), ((-1000,), -1)],
    "sinh": [((0,), 0), ((-0.0,), -0.0), ((INF,), INF), ((-INF,), -INF)],
    "cosh": [((0,), 1), ((INF,), INF), ((-INF,), INF)],
    "log10": [((1,), 0), ((0,), -INF), ((-0.0,), -INF), ((-1,), NAN), ((INF,), INF),
              ((1000,), 3), ((10,), 1)],
    "log1p": [((0,), 0), ((-0.0,), -0.0), ((-1,), -INF), ((-2,), NAN), ((INF,), INF)],
    "asinh": [((0,), 0), ((-0.0,), -0.0), ((INF,), INF), ((-INF,), -INF)],
    "acosh": [((1,), 0), ((0.5,), NAN), ((INF,), INF), ((-INF,), NAN)],
    "atanh": [((0,), 0), ((-0.0,), -0.0), ((1,), INF), ((-1,), -INF), ((1.5,), NAN)],
    "cbrt": [((0,), 0), ((-0.0,), -0.0), ((-27,), -3), ((INF,), INF), ((-INF,), -INF)],
    "rcbrt": [((0,), INF), ((-0.0,), -INF), ((-8,), -0.5), ((INF,), 0), ((-INF,), -0.0)],
    "tan": [((0,), 0), ((-0.0,), -0.0), ((INF,), NAN), ((-INF,), NAN)],
    "sinpi": [((0,), 0), ((-0.0,), -0.0), ((1,), 0), ((-1,), -0.0), ((0.5,), 1), ((-0.5,), -1),
              ((1e30,), 0), ((INF,), NAN)],
    "cospi": [((0,), 1), ((1,), -1), ((0.5,), 0), ((1.5,), 0), ((-0.5,), 0), ((1e30,), 1),
              ((INF,), NAN)],
    "atan": [((0,), 0), ((-0.0,), -0.0)],
    "asin": [((0,), 0), ((-0.0,), -0.0), ((1.5,), NAN), ((INF,), NAN)],
    "acos": [((1,), 0), ((1.5,), NAN), ((-INF,), NAN)],
    "erfc": [((0,), 1), ((INF,), 0), ((-INF,), 2)],
    "erfcx": [((0,), 1), ((INF,), 0), ((-INF,), INF), ((-30,), INF)],
    "normcdf": [((0,), 0.5), ((INF,), 1), ((-INF,), 0)],
    "erfinv": [((0,), 0), ((-0.0,), -0.0), ((1,), INF), ((-1,), -INF), ((1.5,), NAN)],
    "erfcinv": [((1,), 0), ((0,), INF), ((2,), -INF), ((-1,), NAN), ((2.5,), NAN)],
    "normcdfinv": [((0.5,), 0), ((0,), -INF), ((1,), INF), ((-1,), NAN), ((2,), NAN)],
    "lgamma": [((1,), 0), ((2,), 0), ((0,), INF), ((-0.0,), INF), ((-3,), INF), ((INF,), INF),
               ((-INF,), INF)],
    "tgamma": [((1,), 1), ((2,), 1), ((3,), 2), ((5,), 24), ((0,), INF), ((-0.0,), -INF),
               ((-3,), NAN), ((INF,), INF), ((-INF,), NAN)],
    "cyl_bessel_i0": [((0,), 1), ((INF,), INF), ((-INF,), INF)],
    "cyl_bessel_i1": [((0,), 0), ((-0.0,), -0.0), ((INF,), INF), ((-INF,), -INF)],
    "j0": [((0,), 1), ((INF,), 0)],
    "j1": [((0,), 0), ((-0.0,), -0.0), ((INF,), 0)],
    "y0": [((0,), -INF), ((-1,), NAN), ((INF,), 0)],
    "y1": [((0,), -INF), ((-1,), NAN), ((INF,), 0)],
    "hypot": [((3, 4), 5), ((INF, NAN), INF), ((NAN, -INF), INF), ((0, -0.0), 0), ((1, NAN), NAN)],
    "rhypot": [((3, 4), 0.2), ((INF, NAN), 0), ((0, -0.0), INF), ((1, NAN), NAN), ((0, NAN), NAN)],
    "norm3d": [((1, 2, 2), 3), ((1, INF, NAN), INF), ((0, 0, NAN), NAN)],
    "rnorm3d": [((1, 2, 2), 1 / 3), ((1, INF, NAN), 0), ((0, 0, 0), INF), ((0, NAN, 0), NAN)],
    "norm4d": [((1, 1, 1, 1), 2), ((1, -INF, 0, NAN), INF), ((0, 0, NAN, 1), NAN)],
    "rnorm4d": [((1, 1, 1, 1), 0.5), ((1, -INF, 0, NAN), 0), ((0, 0, 0, 0), INF)],
}  # fmt: skip


@pytest.mark.parametrize("index", [0, 1], ids=["f32", "f64"])
@pytest.mark.parametrize("name", SPECIAL)
def test_special_values(name: str, index: int) -> None:
    rows, values = zip(*SPECIAL[name], strict=True)
    columns = [np.array(c, [np.float32, np.float64][index]) for c in zip(*rows, strict=True)]
    wanted = np.array(values).astype(columns[0].dtype)
    nan = [c * NAN for c in columns]
    for backend in BACKENDS:
        run = function(name, index, backend)
        actual = run(*columns)

        assert same_bits(actual, wanted).all(), f"{backend}: {list(zip(rows, actual, wanted))}"
        assert np.isnan(run(*nan)).all()


def _pairs(dtype: type) -> list[np.ndarray]:
    values = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 3.0, -3.0, 1e30, -1e30, 2.0**24 + 2, INF,
              -INF, NAN]  # fmt: skip
    left, right = np.meshgrid(np.array(values, dtype), np.array(values, dtype))
    return [left.ravel(), right.ravel()]


@pytest.mark.parametrize("index", [0, 1], ids=["f32", "f64"])
@pytest.mark.parametrize(("name", "first"), [("pow", 2), ("atan2", 0)])
def test_special_pairs(name: str, first: int, index: int) -> None:
    f = library()[name]
    s = f.signatures[first + index]
    x = _pairs([np.float32, np.float64][index])
    wanted = expected(f, s, x)
    error, at = library_errors(f, s, function(name, first + index, "interpreter")(*x), wanted)

    assert error <= f.bound(s.float_type).ulp, f"{name}({x[0][at]}, {x[1][at]}) is {error} off"


def test_whole_powers() -> None:
    x = np.array([2, -2, 0, -0.0, 0, -0.0, INF, -INF, NAN, 1.5, 1, NAN], np.float32)
    n = np.array([10, 3, 0, 3, -2, -3, -1, 3, 0, -(2**31), 2**31 - 1, 1], np.int32)
    wanted = np.array([1024, -8, 1, -0.0, INF, -INF, 0, -INF, 1, 0, 1, NAN], np.float32)

    assert same_bits(function("pow", 0, "interpreter")(x, n), wanted).all()


def test_orders_of_bessel_functions() -> None:
    n = np.array([0, 1, -1, 2, -2, 3, -3, 100, 5, 5], np.int32)
    x = np.array([1.5, 1.5, 1.5, -2.5, 2.5, -2.5, 2.5, 1.0, 0.0, INF])
    import scipy.special

    for backend in BACKENDS:
        actual = function("jn", 1, backend)(n, x)
        np.testing.assert_allclose(actual[:-1], scipy.special.jv(n, x)[:-1], rtol=1e-12)
        assert actual[-1] == 0
    wanted = [-INF, -INF, INF, NAN]
    n, x = np.array([0, 5, -3, 2], np.int32), np.array([0.0, 0.0, 0.0, -1.0])
    np.testing.assert_array_equal(function("yn", 1, "interpreter")(n, x), wanted)


EXHAUSTIVE = [
    f for f in library().values()
    if has_reference(f.name) and any(is_exhaustive(s) for s in f.signatures)
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("f", EXHAUSTIVE, ids=lambda f: f.name)
def test_every_f32_is_within_the_declared_bound(f: LibraryFunction) -> None:
    """Minutes a function: `pytest -m slow tests/math/test_library_accuracy.py`."""
    (s,) = [s for s in f.signatures if is_exhaustive(s)]
    run = runner(f, s, "cpu")
    chunk = 1 << 20
    for start in range(0, 1 << 32, chunk):
        x = np.arange(start, start + chunk, dtype=np.uint64).astype(np.uint32).view(np.float32)
        error, at = library_errors(f, s, run(x), expected(f, s, [x]))

        assert error <= f.f32_bound.ulp, f"{f.name}({x[at]!r}) is {error} ulp off"


def test_log_gamma_between_its_poles() -> None:
    """Below 0 it has zeros next to which f32 still has all its digits."""
    zeros = [-2.7476826467274127, -2.4570247382208006, -3.955294284858598, -3.14358088834998]
    for index, dtype in enumerate([np.float32, np.float64]):
        x = np.array(zeros, dtype)
        x = np.concatenate([x, np.nextafter(x, dtype(0)), np.nextafter(x, dtype(-9)), x * 1.001])
        x = x.astype(dtype)
        f = library()["lgamma"]
        wide = f.signatures[1]
        wanted = expected(f, wide, [x.astype(np.float64)])
        if index == 0:
            wanted = wanted.astype(np.float64)
        error, at = library_errors(
            f, f.signatures[index], function("lgamma", index, "cpu")(x), wanted
        )

        assert error <= f.bound(f.signatures[index].float_type).ulp, x[at]
