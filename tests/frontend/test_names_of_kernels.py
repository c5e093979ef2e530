"""Kernels may be called what they like."""

from __future__ import annotations

import numpy as np
import pytest

import tegula
import tegula.language as tl


@tegula.jit
def fmod(x, y, out, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(out + i, tl.load(x + i) % tl.load(y + i))


@tegula.jit
def memset(x, out, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(out + i, tl.load(x + i) * 0 + 7)


@tegula.jit
def größe(x, out, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(out + i, tl.load(x + i))


def test_a_kernel_named_like_a_function_that_its_code_calls(backend_name):
    x, y = np.linspace(-5, 5, 8, dtype="f4"), np.full(8, 1.5, "f4")
    out = np.zeros(8, "f4")
    fmod[(1,)](x, y, out, 8, device=backend_name)
    np.testing.assert_array_equal(out, np.fmod(x, y))


@pytest.mark.parametrize("size", [8, 4096])
def test_a_kernel_named_like_a_function_of_the_c_library(backend_name, size):
    out = np.zeros(size, "i4")
    memset[(1,)](np.zeros(size, "i4"), out, size, device=backend_name)
    assert (out == 7).all()


def test_letters_beyond_ascii(backend_name):
    x, out = np.arange(8), np.zeros(8, int)
    größe[(1,)](x, out, 8, device=backend_name)
    np.testing.assert_array_equal(out, x)
