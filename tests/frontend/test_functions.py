# ruff: noqa: B007 (kernels under test)
"""Functions as values, and every kind of parameter."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from kernel_runner import build, call, jit

import tegula
import tegula.language as tl
from tegula.errors import CompilationError
from tegula.frontend import DeviceFunction

pytestmark = pytest.mark.usefixtures("on_each_backend")


@jit
def double(x):
    return x * 2


@jit
def increment(x, *, by=1):
    return x + by


class Step(NamedTuple):
    function: object
    times: int


@jit
def apply_all(x, steps):
    for step in steps:
        for _ in tl.static_range(step.times):
            x = step.function(x)
    return x


@jit
def total(*xs, scale: tl.constexpr = 1):
    out = 0
    for x in xs:
        out += x * scale
    return out


class Point(NamedTuple):
    x: object
    y: object


@jit
def moved(p, dx):
    return Point(p.x + dx, p.y)


@jit
def functions(out, n, p, F: tl.constexpr):
    tl.store(out, apply_all(n, (Step(double, 3), Step(increment, 2))))
    tl.store(out + 1, total(n, *(1, 2), scale=10) + total())
    chosen = double if F == "double" else increment
    tl.store(out + 2, chosen(n))
    q = moved(p, n)
    for i in range(n):
        q = moved(q, dx=1)
        if q.x > 100:
            break
    tl.store(out + 3, q.x * 10 + q.y)
    tl.store(out + 4, increment(n, by=q.y))
    text: tl.constexpr = f"{F}:{q.y if False else 3:02d}"
    tl.store(out + 5, len(text))


@pytest.mark.parametrize("name", ["double", "increment"])
def test_functions_and_named_tuples(name):
    n = 4
    out = call(functions, n, Point(7, 2), name, shape=6, dtype=np.int32)
    chosen = n * 2 if name == "double" else n + 1
    assert out.tolist() == [n * 8 + 2, (n + 3) * 10, chosen, 150 + 2, n + 2, len(name) + 3]


def _kept(x):
    return x * 3


kept = DeviceFunction(_kept, noinline=True)


@jit
def calls_kept(out, n):
    tl.store(out, kept(n))


def test_functions_that_are_not_inlined():
    module = build(calls_kept, (np.zeros(1, np.int32), 2))
    (callee,) = [f for f in module.functions.values() if f.kind == "func"]
    assert callee.attrs["noinline"]
    assert call(calls_kept, 5, dtype=np.int32) == 15


@jit
def tree_sum(x):
    if x.shape[0] == 1:
        return tl.item(x)
    return tree_sum(x[0 : x.shape[0] // 2]) + tree_sum(x[x.shape[0] // 2 :])


@jit
def recursion(out, N: tl.constexpr):
    tl.store(out, tree_sum(tl.arange(0, N)))


def test_recursion_that_shapes_end():
    assert call(recursion, 13, dtype=np.int32) == sum(range(13))


@tl.aggregate
class Scaled:
    value: tl.tensor
    factor: tl.constexpr

    @tl.constexpr_function
    def squared(self):
        return self.factor * self.factor


@jit
def constant_method(out, n):
    s = Scaled(n, 5)
    tl.static_assert(s.squared() == 25)
    tl.store(out, s.value * s.squared())


def test_constant_methods_of_aggregates_with_runtime_fields():
    assert call(constant_method, 2, dtype=np.int32) == 50


@jit
def host_sizes(out, N: tl.constexpr, BLOCK: tl.constexpr):
    parts = 0
    for _ in range(tegula.cdiv(N, BLOCK)):
        parts += 1
    tl.store(out, parts)
    tl.store(out + 1, tl.sum(tl.arange(0, tegula.next_power_of_2(N))))


@jit
def host_size_of_runtime(out, n):
    tl.store(out, tegula.cdiv(n, 4))


def test_sizes_for_launching_are_known_at_compile_time_too():
    out = call(host_sizes, 13, 4, shape=2, dtype=np.int32)
    np.testing.assert_array_equal(out, [4, 15 * 16 // 2])


def test_host_function_of_runtime_values_names_its_namesake():
    with pytest.raises(CompilationError, match=r"cdiv.*runs at compile time(.|\n)*use tl\.cdiv"):
        call(host_size_of_runtime, 9, dtype=np.int32)
