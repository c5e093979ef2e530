"""Comparing arrays of any library."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

_RTOL = {"float64": 1e-7, "float32": 1e-5, "float16": 1e-2, "bfloat16": 2e-2}
"""Relative tolerance by the coarser of the two dtypes; that of float8 is 0.15, of ints 0."""


def assert_close(
    x: Any, y: Any, atol: float | None = None, rtol: float | None = None, err_msg: str = ""
) -> None:
    """Raise AssertionError, with the worst place, unless `|x - y| <= atol + rtol * |y|` everywhere.

    Arrays of numpy, torch, or anything numpy can read. NaN equals NaN. Without tolerances, those
    that fit the dtypes are taken.
    """
    names = [_dtype_name(v) for v in (x, y)]
    a, b = to_numpy(x), to_numpy(y)
    if a.size > 1 or b.size > 1:
        if a.shape != b.shape:
            raise AssertionError(f"{err_msg}\nshapes differ: {a.shape} and {b.shape}".lstrip())
    if rtol is None:
        rtol = max(map(_default_rtol, names))
    if atol is None:
        atol = rtol / 10
    a, b = np.broadcast_arrays(a, b)
    bad = ~np.isclose(a, b, rtol=rtol, atol=atol, equal_nan=True)
    if not bad.any():
        return
    with np.errstate(invalid="ignore"):
        error = np.where(bad, np.nan_to_num(np.abs(a - b), nan=np.inf, posinf=np.inf), -1.0)
    at = np.unravel_index(int(error.argmax()), error.shape)
    place = f" at {tuple(int(i) for i in at)}" if at else ""
    raise AssertionError(
        f"{err_msg}\n{int(bad.sum())} of {bad.size} elements differ by more than atol={atol:g}, "
        f"rtol={rtol:g}; most{place}: {a[at]!r} and {b[at]!r}".lstrip()
    )


def to_numpy(value: Any) -> np.ndarray:
    """The value as a numpy array of float64, or of ints or bools as they are."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        value = value.detach().cpu()
        value = value.double() if value.is_floating_point() else value
        return np.asarray(value.numpy())
    array = np.asarray(value)
    if array.dtype.kind in "biu":
        return array
    return np.asarray(array, dtype=np.complex128 if array.dtype.kind == "c" else np.float64)


def _dtype_name(value: Any) -> str:
    return str(getattr(value, "dtype", type(value).__name__)).rsplit(".", 1)[-1]


def _default_rtol(name: str) -> float:
    if "float8" in name:
        return 0.15
    return _RTOL.get(name, 0.0)
