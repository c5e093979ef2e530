"""Random matrices, their packed forms, and the check of a product."""

from __future__ import annotations

import dataclasses

import ml_dtypes
import numpy as np
from cpu.native import aligned

from tegula.codegen.loops.dot import DotPlan

DTYPES = {
    "f8e5": ml_dtypes.float8_e5m2,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f32": np.float32,
    "f64": np.float64,
    "i8": np.int8,
    "u8": np.uint8,
    "i16": np.int16,
    "i32": np.int32,
    "i64": np.int64,
}


def random(shape: tuple[int, ...], name: str, rng: np.random.Generator) -> np.ndarray:
    dtype = np.dtype(DTYPES[name])
    if name[0] in "fb":
        return rng.standard_normal(shape).astype(dtype)
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max, shape, dtype=dtype, endpoint=True)


def pack_a(plan: DotPlan, a: np.ndarray) -> np.ndarray:
    """A in its layout; what the layout calls zero is zero, all the rest is junk."""
    layout, (rows, depth) = dataclasses.replace(plan.a, table=False), a.shape
    buffer = aligned(layout.bytes, fill=0xFF).view(DTYPES[layout.elem])
    m, k = np.arange(rows)[:, None], np.arange(layout.k_padded)
    buffer[layout.index(m, k)] = 0
    stored = a.astype(buffer.dtype)
    if layout.bias:
        stored = stored + buffer.dtype.type(layout.bias)
    buffer[layout.index(m, k[:depth])] = stored
    return buffer


def pack_b(plan: DotPlan, b: np.ndarray) -> np.ndarray:
    layout, (depth, columns) = plan.b, b.shape
    buffer = aligned(layout.bytes, fill=0xFF).view(DTYPES[layout.elem])
    k, n = np.arange(layout.k_padded)[:, None], np.arange(columns)
    buffer[layout.index(k, n)] = 0
    buffer[layout.index(k[:depth], n)] = b.astype(buffer.dtype)
    return buffer


def assert_product(got: np.ndarray, a: np.ndarray, b: np.ndarray, start: np.ndarray) -> None:
    """Check that `got` is start + a @ b: integers modulo their range, floats within a bound."""
    if got.dtype.kind == "f":
        a64, b64 = a.astype(np.float64), b.astype(np.float64)
        bound = np.abs(a64) @ np.abs(b64) + np.abs(start)
        error = np.abs(got - (start + a64 @ b64))
        # k + 1 roundings, each at most half an ulp of the sum of magnitudes
        assert (error <= (a.shape[1] + 1) * 0.5 * np.finfo(got.dtype).eps * bound).all()
    else:
        with np.errstate(over="ignore"):
            want = start + a.astype(start.dtype) @ b.astype(start.dtype)
        np.testing.assert_array_equal(got, want)
