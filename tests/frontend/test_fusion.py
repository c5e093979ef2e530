"""`enable_fp_fusion`: products that are added are rounded once, alike on all backends, if asked."""

from __future__ import annotations

import numpy as np
import pytest

import tegula
import tegula.language as tl


@pytest.fixture(autouse=True)
def device(backend_name):
    with tegula.use_device(backend_name):
        yield


@tegula.jit
def combined(out, x, y, z, KIND: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    a, b, c = tl.load(x + i), tl.load(y + i), tl.load(z + i)
    if KIND == "sum":
        tl.store(out + i, a * b + c)
    elif KIND == "difference":
        tl.store(out + i, c - a * b)
    else:
        product = a * b
        tl.store(out + i, (product + c) * product)


def operands(dtype):
    rng = np.random.default_rng(3)
    x, y = (rng.standard_normal(64).astype(dtype) for _ in range(2))
    return x, y, -(x * y)  # what is left is the rounding error of the product


def results(kind, operands, **options):
    out = np.empty_like(operands[0])
    combined[(1,)](out, *operands, kind, 64, **options)
    return out


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("options", [{}, {"enable_fp_fusion": False}], ids=["default", "off"])
def test_products_round_twice_unless_asked(dtype, options):
    x, y, z = operands(dtype)
    assert not results("sum", (x, y, z), **options).any()
    np.testing.assert_array_equal(results("difference", (x, y, z), **options), z - x * y)


def test_fused_products_round_once():
    x, y, z = operands(np.float32)
    exact = x.astype(np.float64) * y
    fused = results("sum", (x, y, z), enable_fp_fusion=True)
    np.testing.assert_array_equal(fused, (exact + z).astype(np.float32))
    assert fused.any()
    fused = results("difference", (x, y, z), enable_fp_fusion=True)
    np.testing.assert_array_equal(fused, (z - exact).astype(np.float32))
    assert not results("twice", (x, y, z), enable_fp_fusion=True).any()  # the product is a value


@tegula.jit
def sines(out, x, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.sin(tl.load(x + i)) + tl.exp(tl.load(x + i)))


def test_functions_keep_their_own_roundings():
    x = np.linspace(-20, 20, 256, dtype=np.float32)
    plain, fused = np.empty_like(x), np.empty_like(x)
    sines[(1,)](plain, x, 256)
    sines[(1,)](fused, x, 256, enable_fp_fusion=True)
    np.testing.assert_array_equal(plain, fused)
