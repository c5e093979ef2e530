# ruff: noqa: B007 (kernels under test)
"""Aggregates: classes that group values in kernels, and functions whose result has to be used."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from kernel_runner import build, call, jit

import tegula
import tegula.language as tl
from tegula.errors import CompilationError
from tegula.frontend import source_key

pytestmark = pytest.mark.usefixtures("on_each_backend")


@tl.aggregate
class Pair:
    first: tl.tensor
    second: tl.tensor
    scale: tl.constexpr = 2

    @jit
    def weighted(self):
        return self.first * self.scale + self.second

    @jit
    def swapped(self):
        return Pair(self.second, self.first, self.scale)

    @jit
    def __add__(self, other):
        return Pair(self.first + other.first, self.second + other.second, self.scale)

    @jit
    def __mul__(self, factor):
        return tl.aggregate_replace(self, first=self.first * factor, second=self.second * factor)

    @jit
    def __rmul__(self, factor):
        return self * factor

    @jit
    def __lt__(self, other):
        return self.first < other.first

    @jit
    def __neg__(self):
        return Pair(-self.first, -self.second, scale=self.scale)

    def __getitem__(self, index: tl.constexpr, _semantic=None):
        return self.first if index == 0 else self.second

    def middle(self):
        return (self.first + self.second) // 2

    @staticmethod
    def of(x):
        return Pair(x, x + 1)


@tl.aggregate
class Triple(Pair):
    third: tl.tensor = 100

    @jit
    def all_of_it(self):
        return self.weighted() + self.third


@tl.aggregate
class Window:
    pair: Pair
    shape: tl.tuple
    rank: tl.constexpr

    def __init__(self, pair, *shape):
        self.pair = pair
        self.shape = shape
        self.rank = len(shape)


@tl.aggregate
class Counted:
    total: tl.tensor
    turns: tl.tensor

    @jit
    def __init__(self, start):
        self.total = start * 10
        self.turns = 0

    @jit
    def step(self, x):
        return tl.aggregate_replace(self, total=self.total + x, turns=self.turns + 1)


@jit
def methods(out, n):
    p = Pair(n, 7)
    tl.store(out, p.weighted())
    tl.store(out + 1, p.swapped().weighted())
    q = p + Pair.of(n) * 3
    tl.store(out + 2, q.first)
    tl.store(out + 3, (2 * q)[1])
    tl.store(out + 4, p < q)
    tl.store(out + 5, (-p).first)
    tl.store(out + 6, p.middle())
    t = Triple(n, 1, second=5) if False else Triple(n, 5)
    tl.store(out + 7, t.all_of_it())
    w = Window(p, 4, 8)
    tl.store(out + 8, w.pair.first * w.rank + w.shape[1])
    tl.store(out + 9, isinstance(t, Pair) + 2 * isinstance(p, Triple) + 4 * hasattr(p, "scale"))
    tl.store(out + 10, getattr(p, "second"))  # noqa: B009


def test_fields_methods_and_operators():
    n = 5
    expected = [17, 19, 20, 50, 1, -5, 6, 115, 18, 5, 7]
    assert call(methods, n, shape=11, dtype=np.int32).tolist() == expected


@jit
def control_flow(out, n, B: tl.constexpr):
    c = Counted(n)
    for i in range(n):
        if i % 2 == 0:
            c = c.step(i)
        if c.total > 58:
            break
    best = Pair(tl.zeros((B,), tl.float32), 0) if n > 100 else Pair(tl.arange(0, B) * 1.5, n)
    while c.turns < 6:
        c = c.step(100)
        best = Pair(best.first + 1, best.second)
    tl.store(out, c.total)
    tl.store(out + 1, c.turns)
    tl.store(out + 2 + tl.arange(0, B), best.first + best.second)


def test_aggregates_in_loops_and_branches():
    out = call(control_flow, 5, 4, shape=6)
    assert out.tolist() == [50 + 2 + 4 + 300, 6, *(np.arange(4) * 1.5 + 3 + 5)]


@jit
def first_set_in_a_loop(out, n):
    for i in range(n):
        last = Pair(i, i * i)
        if i == 4:
            break
    tl.store(out, last.first + last.second)


@pytest.mark.parametrize("n", [0, 3, 9])
def test_an_aggregate_first_set_in_a_loop(n):
    i = min(n - 1, 4)
    assert call(first_set_in_a_loop, n, dtype=np.int32) == (i + i * i if n else 0)


@jit
def halve(p):
    if p.first > 10:
        return Pair(p.first // 2, p.second)
    return p


@jit
def through_calls(out, n):
    p = halve(halve(Pair(n, 1)))
    tl.store(out, p.first)


def test_aggregates_are_passed_and_returned():
    assert call(through_calls, 48, dtype=np.int32) == 12


@tl.aggregate
class Filled:
    value: tl.tensor
    size: tl.constexpr

    @tl.constexpr_function
    def __init__(self, value, size):
        self.value = value
        self.size = size * 2


@jit
def fill_by_constexpr_function(out, n):
    f = Filled(n, 3)
    tl.store(out, f.value * 3 + f.size)


def test_fields_may_be_set_by_host_python():
    assert call(fill_by_constexpr_function, 5, dtype=np.int32) == 21


class Shape(NamedTuple):
    x: int
    y: int


def test_aggregates_on_the_host():
    @tegula.aggregate
    class State:
        shape: tl.tuple
        x: tl.constexpr
        y: tl.constexpr = 42

        @tl.constexpr_function
        def area(self):
            return self.shape.x * self.shape.y

    state = State(Shape(3, 4), 5)
    assert isinstance(state.y, tl.constexpr) and state.y.value == 42
    assert state.area().value == 12
    other = tl.aggregate_replace(state, x=6)
    assert (state.x.value, other.x.value, other.shape) == (5, 6, state.shape)
    with pytest.raises(AttributeError, match="cannot assign to field 'x' on immutable aggregate"):
        state.x = 7
    with pytest.raises(TypeError, match="has no field 'z'; its fields are: shape, x, y"):
        tl.aggregate_replace(state, z=1)
    with pytest.raises(TypeError, match="expects an aggregate instance"):
        tl.aggregate_replace(3, x=1)
    with pytest.raises(TypeError, match="needs a value for its field `x`"):
        State(Shape(1, 2))
    with pytest.raises(TypeError, match="takes a tuple"):
        State(3, 4)


def test_aggregates_inherit_from_aggregates_only():
    class Plain:
        pass

    with pytest.raises(TypeError, match="Aggregates can only inherit from other aggregates"):

        @tl.aggregate
        class Wrong(Plain):
            x: tl.tensor


def test_the_key_of_a_kernel_covers_the_methods_of_its_classes():
    def make(value):
        @tl.aggregate
        class Box:
            x: tl.tensor

            @jit
            def get(self):
                return self.x + value

        @jit
        def kernel(out):
            tl.store(out, Box(1).get())

        return kernel

    assert source_key(make(tl.constexpr(1))) != source_key(make(tl.constexpr(2)))
    assert source_key(make(tl.constexpr(1))) == source_key(make(tl.constexpr(1)))


def rejected(fn, *args):
    with pytest.raises(CompilationError) as caught:
        build(jit(fn), args)
    return str(caught.value)


def assigns_field(out, n):
    p = Pair(n, n)
    p.first = n


def wrong_field(out, n):
    p = Window(n, 1)


def runtime_constant(out, n):
    p = Pair(n, n, n)


def no_such_member(out, n):
    p = Pair(n, n)
    tl.store(out, p.frist)


def no_operator(out, n):
    p = Pair(n, n) - 1


def constant_field_changes(out, n):
    p = Pair(n, n, 1)
    for i in range(n):
        p = Pair(n, n, 2)
    tl.store(out, p.weighted())


@pytest.mark.parametrize(
    "fn, text",
    [
        (assigns_field, "cannot assign to field 'first' on immutable aggregate Pair"),
        (wrong_field, "field `pair` of `Window` takes a `Pair`"),
        (runtime_constant, "field `scale` of `Pair` is a compile-time value"),
        (no_such_member, "has no field or method `frist`; did you mean 'first'?"),
        (no_operator, "have no operator `__sub__`"),
        (constant_field_changes, "an aggregate `Pair` before the loop"),
    ],
)
def test_errors(fn, text):
    assert text in rejected(fn, np.zeros(1, np.int32), 3)


@jit
def pure(x):
    return x + 1


pure.must_use_result = "it changes nothing"  # type: ignore[attr-defined]


def drops_result(out, n):
    tl.store(out, pure(n))
    pure(n)


def test_a_result_that_has_to_be_used():
    text = rejected(drops_result, np.zeros(1, np.int32), 3)
    assert "the result of `pure` has to be used: it changes nothing" in text
