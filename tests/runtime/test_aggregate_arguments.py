"""Aggregates made on the host as arguments of launches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tegula
import tegula.language as tl
from tegula.errors import ArgumentError


@pytest.fixture(autouse=True)
def device(backend_name):
    with tegula.use_device(backend_name):
        yield


@tegula.aggregate
class Matrix:
    data: tl.tensor
    stride: tl.tensor
    columns: tl.constexpr

    @tegula.jit
    def row(self, i):
        return self.data + i * self.stride + tl.arange(0, self.columns)


@tegula.aggregate
class Pair:
    source: Matrix
    target: Matrix
    scale: tl.tensor
    limits: tuple


@tegula.jit
def copy_row(pair, i):
    x = tl.load(pair.source.row(i)) * pair.scale + pair.limits[0] - pair.limits[1]
    tl.store(pair.target.row(i), x)


def pair(columns: int, scale: float, limits: tuple[Any, ...]) -> Pair:
    a = np.arange(24.0, dtype=np.float32).reshape(4, 6)
    b = np.zeros((4, 8), np.float32)
    return Pair(Matrix(a, 6, columns), Matrix(b, 8, columns), scale, limits)


@pytest.mark.parametrize("columns, scale, limits", [(6, 2.0, (3, 1)), (4, 1.0, (1.5, 7))])
def test_fields_are_arrays_numbers_tuples_and_aggregates(columns, scale, limits):
    p = pair(columns, scale, limits)
    for i in (1, 3):
        copy_row[(1,)](p, i)
    out, a = p.target.data, p.source.data
    expected = np.zeros((4, 8), np.float32)
    for i in (1, 3):
        expected[i, :columns] = a[i, :columns] * scale + limits[0] - limits[1]
    np.testing.assert_array_equal(out, expected)


def test_a_constexpr_field_makes_a_variant():
    first = copy_row[(1,)](pair(6, 2.0, (3, 2)), 3)
    assert copy_row[(1,)](pair(6, 4.0, (5, 9)), 2) is first
    assert copy_row[(1,)](pair(5, 4.0, (5, 9)), 2) is not first


@tegula.aggregate
class Optional:
    data: tl.tensor
    bias: Any
    one: tl.tensor


@tegula.jit
def add_bias(x):
    value = tl.load(x.data) + x.one
    if x.bias is not None:
        value += tl.load(x.bias)
    tl.store(x.data, value)


def test_none_and_one_are_constants():
    data, bias = np.zeros(1, np.float32), np.full(1, 10, np.float32)
    add_bias[(1,)](Optional(data, None, 1))
    assert data[0] == 1
    add_bias[(1,)](Optional(data, bias, 5))
    assert data[0] == 16


def test_errors_name_the_field():
    bad = Pair(Matrix([1.0], 6, 4), Matrix(np.zeros(4), 8, 4), 1.0, (1, 2))
    with pytest.raises(ArgumentError, match=r"argument 'pair\.source\.data' is of type .*list"):
        copy_row[(1,)](bad, 1)


def test_methods_are_part_of_what_is_cached():
    def made(sign: int) -> Any:
        @tegula.aggregate
        class Signed:
            x: tl.tensor

            @tegula.constexpr_function
            def sign(self):
                return sign

        return Signed

    out = np.zeros(1, np.int32)
    for sign in (1, -1):
        signs[(1,)](out, made(sign)(3))
        assert out[0] == 3 * sign


@tegula.jit
def signs(out, a):
    tl.store(out, a.x * a.sign())
