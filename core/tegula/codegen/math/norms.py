"""Lengths of vectors and their inverses, without overflow in between."""

from __future__ import annotations

import math

from .double import Pair, two_product
from .number import Number, maximum, scaled, split_exponent, where


def _length(values: tuple[Number, ...]) -> tuple[Pair, Number, Number, Number]:
    """The length as a pair times 2**n, with n; the largest size; whether one is infinite."""
    largest = abs(values[0])
    for v in values[1:]:
        largest = maximum(largest, abs(v))
    n = split_exponent(largest)[1]
    parts = [scaled(v, -n) for v in values]
    total = two_product(parts[0], parts[0])
    for p in parts[1:]:
        total = total + two_product(p, p)
    return total.sqrt(), n, largest, largest == math.inf


def norm(*values: Number) -> Number:
    """√(a² + b² + ...); infinite if one is, also beside NaN."""
    length, n, _, infinite = _length(values)
    result = scaled(length.sum(), n)
    return where(infinite, result.like(math.inf), result)


def inverse_norm(*values: Number) -> Number:
    """1 / √(a² + b² + ...)."""
    length, n, largest, infinite = _length(values)
    result = scaled((1.0 / length).sum(), -n)
    total = values[0] - values[0]
    for v in values[1:]:
        total = total + (v - v)
    result = where(largest == 0.0, total + math.inf, result)
    return where(infinite, result.like(0.0), result)
