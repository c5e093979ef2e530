"""Double-word arithmetic: a number as an unevaluated sum of two floats, for twice the digits.

The exact sums and products are those of T. J. Dekker, "A floating-point technique for extending the
available precision" (1971) and D. E. Knuth; the operations on pairs those analysed by M. Joldes,
J.-M. Muller and V. Popescu, "Tight and rigorous error bounds for basic building blocks of
double-word arithmetic" (2017). Everything here expects finite numbers away from overflow.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias, Union

from .number import Number, fma, polynomial, where

PairOperand: TypeAlias = Union["Pair", Number, float]


class Pair:
    """hi + lo, with |lo| at most half a unit in the last place of hi."""

    __slots__ = ("hi", "lo")

    def __init__(self, hi: Number, lo: Number) -> None:
        self.hi = hi
        self.lo = lo

    def pair(self, other: PairOperand) -> Pair:
        if isinstance(other, Pair):
            return other
        other = self.hi.like(other)
        return Pair(other, other.like(0.0))

    def __neg__(self) -> Pair:
        return Pair(-self.hi, -self.lo)

    def __add__(self, other: PairOperand) -> Pair:
        if isinstance(other, Pair):
            s, t = two_sum(self.hi, other.hi), two_sum(self.lo, other.lo)
            s = fast_two_sum(s.hi, s.lo + t.hi)
            return fast_two_sum(s.hi, s.lo + t.lo)
        s = two_sum(self.hi, self.hi.like(other))
        return fast_two_sum(s.hi, s.lo + self.lo)

    def __radd__(self, other: PairOperand) -> Pair:
        return self + other

    def __sub__(self, other: PairOperand) -> Pair:
        return self + -other

    def __rsub__(self, other: PairOperand) -> Pair:
        return -self + other

    def __mul__(self, other: PairOperand) -> Pair:
        if isinstance(other, Pair):
            p = two_product(self.hi, other.hi)
            low = fma(self.hi, other.lo, self.lo * other.hi)
        else:
            other = self.hi.like(other)
            p, low = two_product(self.hi, other), self.lo * other
        return fast_two_sum(p.hi, p.lo + low)

    def __rmul__(self, other: PairOperand) -> Pair:
        return self * other

    def __truediv__(self, other: PairOperand) -> Pair:
        d = self.pair(other)
        q = self.hi / d.hi
        rest = fma(-q, d.hi, self.hi) + fma(-q, d.lo, self.lo)
        return fast_two_sum(q, rest / d.hi)

    def __rtruediv__(self, other: PairOperand) -> Pair:
        return self.pair(other) / self

    def times(self, factor: float | Number) -> Pair:
        """The product with a power of two."""
        return Pair(self.hi * factor, self.lo * factor)

    def sqrt(self) -> Pair:
        """The square root; 0 of 0."""
        s = self.hi.sqrt()
        rest = fma(-s, s, self.hi) + self.lo
        return fast_two_sum(s, where(s > 0.0, rest / (s + s), s.like(0.0)))

    def square(self) -> Pair:
        p = two_product(self.hi, self.hi)
        return fast_two_sum(p.hi, fma(self.hi + self.hi, self.lo, p.lo))

    def sum(self) -> Number:
        """The nearest single float."""
        return self.hi + self.lo


def two_sum(a: Number, b: Number | float) -> Pair:
    """a + b exactly."""
    b = a.like(b)
    s = a + b
    other = s - a
    return Pair(s, (a - (s - other)) + (b - other))


def fast_two_sum(a: Number, b: Number) -> Pair:
    """a + b exactly, if a is the larger one or 0."""
    s = a + b
    return Pair(s, b - (s - a))


def two_product(a: Number, b: Number | float) -> Pair:
    """a · b exactly, unless the lower half underflows."""
    b = a.like(b)
    p = a * b
    return Pair(p, fma(a, b, -p))


def constant(like: Number, parts: Sequence[float]) -> Pair:
    """A constant given as two floats of the type."""
    return Pair(like.like(parts[0]), like.like(parts[1]))


def choose(condition: Number, a: Pair, b: Pair) -> Pair:
    """a where the condition holds, else b."""
    return Pair(where(condition, a.hi, b.hi), where(condition, a.lo, b.lo))


def series(x: Number, lowest: Sequence[Sequence[float]], rest: Sequence[float]) -> Pair:
    """A polynomial. Its `lowest` coefficients, of two floats each, are added up as pairs; to the
    last of them comes x times the polynomial of the rest.
    """
    *lower, last = lowest
    c = constant(x, last)
    result = fast_two_sum(c.hi, fma(x, polynomial(x, rest), c.lo))
    for parts in reversed(lower):
        result = result * x + constant(x, parts)
    return result
