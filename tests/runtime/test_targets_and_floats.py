"""Kernels ask at compile time what they are compiled for; arrays of 8-bit floats as arguments."""

from __future__ import annotations

import numpy as np

import tegula
import tegula.language as tl


@tegula.jit
def told_apart(out, NAME: tl.constexpr):
    if tl.target_info.is_backend(NAME):
        tl.store(out, 1)
    else:
        tl.store(out, 2)
    if tl.target_info.current_target().backend == NAME:
        tl.store(out + 1, 3)


def test_backends_are_told_apart(backend_name: str) -> None:
    out = np.zeros(2, np.int32)
    with tegula.use_device(backend_name):
        told_apart[(1,)](out, backend_name)
        assert out.tolist() == [1, 3]
        told_apart[(1,)](out, "another")
        assert out.tolist() == [2, 3]


@tegula.jit
def eight_bits(out, x, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out + at, tl.load(x + at).to(tl.float32))


def test_eight_bit_floats_of_arrays(backend_name: str) -> None:
    import ml_dtypes

    with tegula.use_device(backend_name):
        for name in ("float8_e5m2", "float8_e5m2fnuz", "float8_e4m3fn", "float8_e4m3fnuz"):
            x = np.array([0.5, -2, 96, 0.25]).astype(getattr(ml_dtypes, name))
            out = np.zeros(4, np.float32)
            eight_bits[(1,)](out, x, 4)
            np.testing.assert_array_equal(out, x.astype(np.float32))


def test_eight_bit_floats_of_torch(backend_name: str) -> None:
    import pytest

    torch = pytest.importorskip("torch")
    with tegula.use_device(backend_name):
        for dtype in (torch.float8_e5m2, torch.float8_e4m3fn, torch.float8_e4m3fnuz):
            x = torch.tensor([0.5, -2, 96, 0.25]).to(dtype)
            out = torch.zeros(4)
            eight_bits[(1,)](out, x, 4)
            assert torch.equal(out, x.float())


@tegula.jit
def of_bytes(out, x: "*fp8e4b15", N: tl.constexpr):  # noqa: F722
    at = tl.arange(0, N)
    tl.store(out + at, tl.load(x + at).to(tl.float32))


def test_eight_bit_floats_without_an_array_type(backend_name: str) -> None:
    x = np.array([0x00, 0x78, 0x7F, 0xF8], np.uint8)
    out = np.zeros(4, np.float32)
    with tegula.use_device(backend_name):
        of_bytes[(1,)](out, x, 4)
    np.testing.assert_array_equal(out, [0, 1, 1.875, -1])
