"""Minimax polynomials with coefficients that are floats of a given precision.

The exchange algorithm of Remez on a dense grid, in mpmath. Coefficients are rounded one after the
other, and those not yet rounded are fitted again each time, which wins back most of what rounding
loses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import mpmath as mp

mp.mp.prec = 240

Number = mp.mpf
Function = Callable[[Number], Number]


@dataclass(frozen=True)
class Fit:
    """Find c with max |weight(x) (target(x) - sum of c[k] x**k)| least over [low, high].

    `fixed` gives the lowest coefficients where they are not free. The grid does not contain 0;
    where the target is a quotient that is hard to compute near 0, the interval starts above it.
    """

    target: Function
    weight: Function
    low: Number
    high: Number
    degree: int
    precision: int
    fixed: dict[int, Number]

    def solve(self) -> tuple[list[float], float]:
        """The rounded coefficients by rising power, and log2 of the error they leave."""
        grid = _chebyshev(self.low, self.high, max(400, 40 * (self.degree + 1)))
        targets = [self.target(x) for x in grid]
        weights = [self.weight(x) for x in grid]
        known = dict(self.fixed)
        for power in range(self.degree + 1):
            if power in known:
                continue
            # Divided by x**power, what is left to fit spans all polynomials again, and the errors
            # alternate also across 0.
            rest = [(t - _evaluate(known, x)) / x**power for t, x in zip(targets, grid)]
            scaled = [abs(w * x**power) for w, x in zip(weights, grid)]
            first = _exchange(grid, rest, scaled, self.degree + 1 - power)[0]
            known[power] = rounded(first, self.precision)
        error = max(abs(w * (t - _evaluate(known, x))) for w, t, x in zip(weights, targets, grid))
        return [float(known[k]) for k in sorted(known)], float(mp.log(error, 2))


def rounded(x: Number, precision: int) -> Number:
    """The nearest number with so many significant bits."""
    with mp.workprec(precision):
        return +mp.mpf(x)


def split(x: Number, *precisions: int) -> list[float]:
    """Floats of these precisions whose sum approaches x."""
    return _parts(x, precisions, rounded)


def truncated_split(x: Number, *precisions: int) -> list[float]:
    """The same for x > 0 with all parts positive."""

    def truncated(x: Number, precision: int) -> Number:
        scale = mp.mpf(2) ** (precision - mp.frexp(x)[1])
        return mp.floor(x * scale) / scale

    return _parts(x, precisions, truncated)


def _parts(
    x: Number, precisions: Sequence[int], to_float: Callable[[Number, int], Number]
) -> list[float]:
    parts = []
    for p in precisions:
        part = to_float(x, p)
        parts.append(float(part))
        x = x - part
    return parts


def _evaluate(coefficients: dict[int, Number], x: Number) -> Number:
    return mp.fsum(c * x**k for k, c in coefficients.items())


def _chebyshev(low: Number, high: Number, n: int) -> list[Number]:
    middle, half = (low + high) / 2, (high - low) / 2
    inner = [middle - half * mp.cos(mp.pi * (2 * i + 1) / (2 * n)) for i in range(n)]
    return [low, *inner[1:-1], high]


def _exchange(
    grid: Sequence[Number], targets: Sequence[Number], weights: Sequence[Number], n: int
) -> list[Number]:
    """Coefficients of the weighted minimax polynomial with n terms over the grid."""
    basis = [[x**k for k in range(n)] for x in grid]
    last = len(grid) - 1
    chosen = [round(last * (1 - mp.cos(mp.pi * i / n)) / 2) for i in range(n + 1)]
    best: list[Number] = []
    for _ in range(30):
        system = mp.matrix(n + 1, n + 1)
        right = mp.matrix(n + 1, 1)
        for row, i in enumerate(chosen):
            for column in range(n):
                system[row, column] = weights[i] * basis[i][column]
            system[row, n] = (-1) ** row
            right[row] = weights[i] * targets[i]
        solution = mp.lu_solve(system, right)
        best = [solution[k] for k in range(n)]
        errors = [w * (t - mp.fdot(best, b)) for w, t, b in zip(weights, targets, basis)]
        extrema = _alternating(errors, n + 1)
        if len(extrema) <= n or extrema == chosen:
            break
        chosen = extrema
    return best


def _alternating(errors: Sequence[Number], count: int) -> list[int]:
    """Where the error peaks between its changes of sign; the least go if there are more."""
    peaks: list[int] = []
    for i, e in enumerate(errors):
        if not peaks or (e > 0) != (errors[peaks[-1]] > 0):
            peaks.append(i)
        elif abs(e) > abs(errors[peaks[-1]]):
            peaks[-1] = i
    size = [abs(e) for e in errors]
    while len(peaks) > count:
        least = min(range(len(peaks)), key=lambda k: size[peaks[k]])
        if least in (0, len(peaks) - 1):
            peaks.pop(least)
        elif len(peaks) == count + 1:
            peaks.pop(0 if size[peaks[0]] < size[peaks[-1]] else -1)
        else:  # a small ripple: two neighbours go, so that signs still alternate
            other = min(least - 1, least + 1, key=lambda k: size[peaks[k]])
            del peaks[min(least, other) : max(least, other) + 1]
    return peaks
