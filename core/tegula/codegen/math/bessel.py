"""Bessel functions.

The modified ones of order 0 and 1: polynomials in x² up to 8, then e**x / √x times one in 1/x.
Those of the first and second kind, in f64 always: polynomials in x² up to 8 (the second kind beside
its logarithm), then amplitudes of cosine and sine of x less a multiple of π/4, after H. Hankel.
Higher orders follow by the recurrence, J below the order downward and scaled by the sum of all
even ones, after J. C. P. Miller.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

from tegula.ir.core import Block, Value
from tegula.ir.types import f64, i32, shape_of

from . import library_coefficients as tables
from .double import Pair, fast_two_sum, two_product
from .emitter import Emitter
from .exponents import EXP_RANGE, exp_parts, limit
from .number import Number, copysign, fma, maximum, polynomial, scaled, where, widened

# --- modified, order 0 and 1


def _modified(x: Number, order: int) -> Number:
    """I0(|x|) or I1(|x|)."""
    name = x.elem.name
    below = (tables.I0_BELOW, tables.I1_BELOW)[order][name]
    above = (tables.I0_ABOVE, tables.I1_ABOVE)[order][name]
    a = limit(abs(x), 0.0, EXP_RANGE[name][1] + 4.0)
    small = where(a < 8.0, a, a.like(1.0))
    z = two_product(small, small)
    near = polynomial(z.hi, below)
    # What the square lacks counts several times; the slope by a bound on I(v + 1) / I(v) that D. E.
    # Amos gave (1974).
    slope = 0.5 / ((z.hi + (order + 1.5) ** 2).sqrt() + (order + 0.5))
    near = fma(near, slope * z.lo, near)
    if order:
        near = near * a
    far_a = where(a < 8.0, a.like(8.0), a)
    t = fma(1.0 / far_a, 16.0, -1.0)
    lowest, *rest = above
    p = fast_two_sum(t.like(lowest), t * polynomial(t, rest))
    u, n = exp_parts(far_a)
    size = (p * (u + 1.0) / Pair(far_a, far_a.like(0.0)).sqrt()).sum()
    value = where(a < 8.0, near, scaled(size, n))
    return where(x == x, value, x)


def i0(x: Number) -> Number:
    """I0."""
    return _modified(x, 0)


def i1(x: Number) -> Number:
    """I1."""
    value = copysign(_modified(x, 1), x)
    return where(abs(x) < 2.0 ** -(x.e.mantissa // 2 + 2), x * 0.5, value)


# --- first and second kind, order 0 and 1

Table = dict[str, tuple[float, ...]]
_J = ((tables.J0_NEAR, tables.J0_FAR), (tables.J1_NEAR, tables.J1_FAR))
_Y = ((tables.Y0_NEAR, tables.Y0_FAR), (tables.Y1_NEAR, tables.Y1_FAR))


class _Waves:
    """J and Y of one order for a > 0, in f64."""

    def __init__(self, a: Number) -> None:
        self.a = a
        self.below = a < 8.0
        self.near = a < 4.0
        square = a * a
        self.u = where(self.near, fma(square, 0.125, -1.0), (square - 40.0) * (1.0 / 24.0))
        far = where(self.below, a.like(8.0), a)
        self.inverse = 1.0 / far
        self.w = self.inverse * self.inverse * 64.0
        self.size = (self.inverse * (1.0 / math.pi)).sqrt()
        sine, cosine = far.emit("sin"), far.emit("cos")
        # √2 times cosine and sine of x - π/4; of x - 3π/4: the latter and minus the former.
        self.cosine, self.sine = cosine + sine, sine - cosine

    def piecewise(self, near: Table, far: Table) -> Number:
        """The polynomial of the piece that holds the argument."""
        u = self.u
        both = itertools.zip_longest(near["f64"], far["f64"], fillvalue=0.0)
        chosen = [where(self.near, u.like(c), d) for c, d in both]
        result = chosen[-1]
        for c in reversed(chosen[:-1]):
            result = fma(result, u, c)
        return result

    def amplitudes(self, order: int) -> tuple[Number, Number]:
        p = polynomial(self.w, (tables.P0, tables.P1)[order]["f64"])
        q = polynomial(self.w, (tables.Q0, tables.Q1)[order]["f64"]) * self.inverse
        return p * self.size, q * self.size

    def j(self, order: int) -> Number:
        near = self.piecewise(*_J[order])
        p, q = self.amplitudes(order)
        if order:
            return where(self.below, near * self.a, fma(p, self.sine, q * self.cosine))
        return where(self.below, near, fma(p, self.cosine, -(q * self.sine)))

    def y(self, order: int) -> Number:
        rest = self.piecewise(*_Y[order])
        a = where(self.below, self.a, self.a.like(1.0))
        logarithm = a.emit("log") * (2.0 / math.pi)
        j = self.piecewise(*_J[order])
        p, q = self.amplitudes(order)
        if order:
            near = fma(fma(logarithm, j, rest), a, (-2.0 / math.pi) / a)
            return where(self.below, near, fma(q, self.sine, -(p * self.cosine)))
        return where(self.below, fma(logarithm, j, rest), fma(p, self.sine, q * self.cosine))


def _widened(f: Callable[[Number], Number]) -> Callable[[Number], Number]:
    """The function computed in f64, if the machine has it."""

    def build(x: Number) -> Number:
        wide = widened(x)
        return f(wide).to(x.elem)

    return build


def _first_kind(x: Number, order: int) -> Number:
    a = abs(x)
    value = _Waves(where(a < math.inf, a, a.like(1.0))).j(order)
    value = where(a < math.inf, value, where(a == math.inf, a.like(0.0), a))
    value = where(a < 1e-9, a * 0.5 if order else a.like(1.0), value)
    return where(x.negative(), -value, value) if order else value


def _second_kind(x: Number, order: int) -> Number:
    usual = where((x > 0.0) & (x < math.inf), x, x.like(1.0))
    value = _Waves(usual).y(order)
    value = where(x == math.inf, x.like(0.0), value)
    return where(x > 0.0, value, where(x == 0.0, x.like(-math.inf), x.like(math.nan)))


j0 = _widened(lambda x: _first_kind(x, 0))
j1 = _widened(lambda x: _first_kind(x, 1))
y0 = _widened(lambda x: _second_kind(x, 0))
y1 = _widened(lambda x: _second_kind(x, 1))


# --- higher orders


def _largest(e: Emitter, n: Number) -> Value:
    """The largest of a tile of i32, as a scalar."""
    value = n.value
    shape = shape_of(value.type)
    if not shape:
        return value
    if len(shape) > 1:
        value = e.reshape(value, shape=(math.prod(shape),))
    combine = Block([i32, i32])
    b = Emitter(f64, combine)
    b.create("yield", [b.max(*combine.args)])
    (result,) = e.reduce([value], combine, axis=0)
    scalar: Value = result
    return scalar


def _loop(
    e: Emitter, count: Value, carried: list[Number], step: Callable[..., list[Number]],
    descending: bool = False,
) -> list[Number]:  # fmt: skip
    """Steps for k = 1 ... count - 1, or for k = count ... 1; `step` is given k as a scalar."""
    body = Block([i32, *(x.value.type for x in carried)])
    inner = Emitter(carried[0].value.type, body, e.loc)
    counter, *arguments = body.args
    k = counter
    if descending:
        k = inner.sub(inner.add(count, inner.constant(1, i32)), counter)
    values = [Number(inner, v) for v in arguments]
    inner.create("yield", [x.value for x in step(inner, k, *values)])
    one = e.constant(1, i32)
    end = e.add(count, one) if descending else count
    return [Number(e, v) for v in e.for_(one, end, one, [x.value for x in carried], body)]


def _spread(e: Emitter, k: Value, like: Number) -> tuple[Number, Number]:
    """A scalar as a tile like another one: as i32, and in its type."""
    shape = shape_of(like.value.type)
    whole = e.splat(k, shape=shape) if shape else k
    number = Number(e, whole)
    return number, number.to(like.elem)


def _recur(m: Number, a: Number, before: Number, last: Number, upward: Number) -> Number:
    """The function of order m, by the recurrence upward from orders 0 and 1."""
    e = a.e
    twice = 2.0 / a

    def step(b: Emitter, k: Value, before: Number, last: Number) -> list[Number]:
        order, f = _spread(b, k, a)
        # An infinite value stays.
        active = (order < m_in(b)) & (abs(last) < math.inf)
        after = f * Number(b, twice.value) * last - before
        return [where(active, last, before), where(active, after, last)]

    def m_in(b: Emitter) -> Number:
        return Number(b, m.value)

    bounded = where(upward, m, m.like(0))
    return _loop(e, _largest(e, bounded), [before, last], step)[1]


def _by_order(n: Number) -> tuple[Number, Number]:
    """|n|, and whether it is odd."""
    m = where(n < 0, -n, n)
    return m, (m & 1) == 1


def _of_order(m: Number, zero: Number, one: Number, higher: Number) -> Number:
    return where(m == 0, zero, where(m == 1, one, higher))


def yn(n: Number, x: Number) -> Number:
    """Y of order n."""
    wide = widened(x)
    m, odd = _by_order(n)
    zero, one = _second_kind(wide, 0), _second_kind(wide, 1)
    usual = where(wide > 0.0, wide, wide.like(1.0))
    value = _of_order(m, zero, one, _recur(m, usual, zero, one, m == m))
    value = where((n < 0) & odd, -value, value)
    return value.to(x.elem)


def jn(n: Number, x: Number) -> Number:
    """J of order n."""
    wide = widened(x)
    m, odd = _by_order(n)
    a = abs(wide)
    zero, one = _first_kind(a, 0), _first_kind(a, 1)
    usual = where((a > 0.0) & (a < math.inf), a, a.like(1.0))
    upward = m.to(usual.elem) <= usual
    higher = where(upward, _recur(m, usual, zero, one, upward), _downward(m, usual, ~upward))
    higher = where((a > 0.0) & (a < math.inf), higher, where(a == a, a.like(0.0), a))
    value = _of_order(m, zero, one, higher)
    flip = odd & ((n < 0) ^ wide.negative())
    return where(flip, -value, value).to(x.elem)


_BIG = {"f32": 2.0**60, "f64": 2.0**400}


def _downward(m: Number, a: Number, active: Number) -> Number:
    """J of order m > a by the recurrence from far above, where any start dies away."""
    e = a.e
    start = m + (m.to(a.elem) * 80.0).sqrt().to(i32) + 16
    start = where(active, start, start.like(0))
    twice = 2.0 / a

    def step(
        b: Emitter, k: Value, above: Number, here: Number, total: Number, found: Number
    ) -> list[Number]:
        order, f = _spread(b, k, a)
        running = order <= Number(b, start.value)
        below = f * Number(b, twice.value) * here - above  # of order k - 1
        found = where(order == Number(b, m.value), here, found)
        total = where((order & 1) == 0, total + here, total)
        big = _BIG[below.elem.name]
        factor = where(abs(below) > big, below.like(1.0 / big), below.like(1.0))
        moved = [here * factor, below * factor, total * factor, found * factor]
        return [
            where(running, x, y) for x, y in zip(moved, (above, here, total, found), strict=True)
        ]

    nothing = a.like(0.0)
    first = a.like(1.0 / _BIG[a.elem.name])
    _, zero, total, found = _loop(
        e, _largest(e, maximum(start, 1)), [nothing, first, nothing, nothing], step, descending=True
    )
    return found / (zero + total * 2.0)
