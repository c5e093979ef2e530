"""The yardstick itself."""

from __future__ import annotations

import numpy as np
import pytest

from tegula import ir
from tegula.codegen.math import FUNCTIONS
from tegula.codegen.math.measure import binade_edges, exact, samples, ulp_errors, worst

INF, NAN = np.inf, np.nan


def errors(actual: list[float], expected: list[float]) -> list[float]:
    return ulp_errors(np.array(actual, np.float32), np.array(expected, np.float64)).tolist()


def test_distance_counts_in_last_places_of_the_exact_value() -> None:
    one_up = 1 + 2.0**-23

    assert errors([one_up, one_up, 1.0], [1.0, 1 + 2.0**-24, 1 - 2.0**-24]) == [1.0, 0.5, 1.0]
    assert errors([2.0**-149, 0.0], [2.0**-150, 2.0**-150]) == [0.5, 0.5]


def test_what_is_simply_wrong_is_infinitely_far() -> None:
    assert errors([NAN, 1.0, -0.0, 1.0, INF], [1.0, NAN, 0.0, INF, -INF]) == [INF] * 5
    assert errors([0.0], [-0.0]) == [INF]


def test_specials_that_agree() -> None:
    assert errors([NAN, INF, -INF, -0.0], [NAN, INF, -INF, -0.0]) == [0.0] * 4


def test_overflow_is_where_rounding_puts_it() -> None:
    largest = float(np.finfo(np.float32).max)
    half_way = largest + 2.0**103

    assert errors([INF, largest], [half_way, half_way]) == [0.0, 0.5]
    assert errors([INF], [largest]) == [1.0]
    assert errors([INF], [largest / 2]) > [1e6]


def test_worst_names_the_place() -> None:
    y = np.array([1.0, 1 + 2.0**-22, 1.0], np.float32)

    assert worst(y, np.ones(3)) == (2.0, 1)
    assert worst(y[:1], np.ones(1)) == (0.5, 0)


@pytest.mark.parametrize("x", [-6.6, -2.5, -1e-3, 0.0, 0.3, 1.0, 3.7, 5.9])
def test_exact_erf_is_that_of_the_standard_library(x: float) -> None:
    from math import erf

    (value,) = exact("erf", np.array([x]))

    assert float(value) == pytest.approx(erf(x), rel=3e-16, abs=0)


def test_samples_reach_every_binade_and_every_special_value() -> None:
    for t in (ir.f32, ir.f64):
        edges = binade_edges(t)
        finite = np.abs(edges[np.isfinite(edges) & (edges != 0)]).astype(np.float64)
        exponents = np.unique(np.frexp(finite)[1])

        assert np.isinf(edges).sum() == 2 and (edges == 0).sum() == 2 and np.isnan(edges).any()
        assert exponents[-1] == t.exponent_bias + 1
        assert exponents.size >= 2 * t.exponent_bias
    assert all(np.isnan(samples(name, ir.f32, 10)).any() for name in FUNCTIONS)
