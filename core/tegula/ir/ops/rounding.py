"""Roundings that numpy and ml_dtypes do not get right in one step."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from ..types import DType, numpy_dtype


def narrow(x: Any, to: np.dtype) -> Any:
    """f64 rounded once to a narrower float. ml_dtypes goes through f32 and would round twice.

    Into 8 bits everything beyond the largest finite number, infinities included, becomes that.
    """
    x = np.asarray(x, np.float64)
    if to in (np.float16, np.float32):
        return x.astype(to)
    return limited(_odd_f32(x), to).astype(to)


def limited(x: Any, to: np.dtype) -> Any:
    """Numbers within the finite range of an 8-bit float; all numbers for wider floats."""
    if to.itemsize > 1:
        return x
    import ml_dtypes

    top = x.dtype.type(ml_dtypes.finfo(to).max)
    return np.clip(x, -top, top)  # NaN stays


def float8_bits(value: float, kind: DType) -> int:
    """The byte that holds a number as an 8-bit float, of any of the five kinds."""
    if kind.name != "f8e4b15":
        with np.errstate(all="ignore"):
            return int(narrow(value, numpy_dtype(kind)).view(np.uint8))
    if value != value:
        return 0x7F
    sign, size = (0x80 if math.copysign(1.0, value) < 0 else 0), abs(value)
    if size < 2.0**-14:
        return sign | round(size * 2.0**17)
    if size >= 1.9375:
        return sign | 0x7F
    exponent = math.frexp(size)[1] - 1
    steps = round(size * 2.0 ** (3 - exponent))  # 8 to 16: carries into the exponent
    return sign | min(0x7F, ((exponent + 15) << 3) + steps - 8)


def _odd_f32(x: Any) -> Any:
    """f64 to f32 rounded to odd: a later rounding to fewer bits comes out as if made at once."""
    y = x.astype(np.float32)
    error = x - y.astype(np.float64)
    bits = y.view(np.int32)
    inexact = (error != 0) & np.isfinite(error) & ((bits & 1) == 0)
    toward = np.where((error > 0) == (y > 0), 1, -1).astype(np.int32)
    # An inexact result of 0 is a tiny number of the sign of x.
    tiny = inexact & (y == 0)
    smallest = np.copysign(np.float32(1e-45), x.astype(np.float32))
    return np.where(tiny, smallest, np.where(inexact, bits + toward, bits).view(np.float32))


def exact_f64(x: Any) -> Any:
    """Numbers as f64; integers of more than 53 bits keep a sticky last bit for later roundings."""
    x = np.asarray(x)
    if x.dtype.kind not in "iu" or x.dtype.itemsize < 8:
        return x.astype(np.float64)
    negative = x < 0
    magnitude = np.where(negative, np.negative(x), x).astype(np.uint64)
    low = magnitude & np.uint64(0xFFFF)
    sticky = (magnitude >> np.uint64(16)) | (low != 0).astype(np.uint64)
    large = np.ldexp(sticky.astype(np.float64), 16)
    out = np.where(magnitude >> np.uint64(53) != 0, large, magnitude.astype(np.float64))
    return np.where(negative, -out, out)


def toward_zero(x: Any, to: np.dtype) -> Any:
    """Float narrowing toward zero: round to nearest, then step back where the magnitude grew.

    A finite value never becomes more than the largest finite one.
    """
    x = limited(np.asarray(x), to)
    y = x.astype(to)
    back, wide = y.astype(np.float64), np.abs(x.astype(np.float64))
    lost = np.isnan(back) & np.isfinite(wide)
    grew = (np.abs(back) > wide) & ~lost
    bits = y.view(f"u{to.itemsize}")
    stepped = np.where(grew, bits - np.asarray(1, bits.dtype), bits).astype(bits.dtype).view(to)
    values = stepped.astype(np.float64)
    # Some fp8 kinds have no negative zero: its pattern, where a step may end, is their NaN.
    values = np.where(grew & (bits & (2 ** (8 * to.itemsize - 1) - 1) == 1), 0.0, values)
    values = np.copysign(values, x.astype(np.float64))
    if lost.any():
        import ml_dtypes

        values = np.where(lost, np.copysign(float(ml_dtypes.finfo(to).max), values), values)
    return values.astype(to)


def round_to_odd_sum(p: Any, c: Any) -> Any:
    """p + c in f64, the last bit set when the sum is inexact (for one final rounding)."""
    s = p + c
    t = s - p
    error = (p - (s - t)) + (c - t)
    bits = np.asarray(s).view(np.int64)
    inexact = (error != 0) & np.isfinite(s) & np.isfinite(error) & ((bits & 1) == 0)
    toward = np.where((error > 0) == (s > 0), 1, -1)
    return np.where(inexact, bits + toward, bits).view(np.float64)


def fma_f64(a: Any, b: Any, c: Any) -> Any:
    """a * b + c of f64, rounded once.

    The product is split into two f64 without error, the three terms are added exactly but for a
    last rounding to odd, and that is rounded to nearest (Boldo and Melquiond). Where an exponent
    is extreme the splitting fails, and rational numbers take over.
    """
    a, b, c = np.broadcast_arrays(a, b, c)
    product = a * b
    high, low = product, _product_error(a, b, product)
    t_high, t_low = _two_sum(c, low)
    v_high, v_low = _two_sum(high, t_high)
    out = v_high + round_to_odd_sum(t_low, v_low)
    finite = np.isfinite(a) & np.isfinite(b) & np.isfinite(c)
    out = np.where(finite, out, product + c)
    out = np.where(np.isinf(c) & np.isfinite(a) & np.isfinite(b), c, out)
    sizes = [np.abs(v) for v in (a, b, c, product)]
    usual = np.ones(a.shape, bool)
    for size in sizes:
        usual &= (size == 0) | ((size > 2.0**-900) & (size < 2.0**900))
    usual &= (product != 0) | (a == 0) | (b == 0)  # a product that vanished still has a sign
    for index in zip(*np.nonzero(np.atleast_1d(finite & ~usual)), strict=True):
        at = index if a.ndim else ()
        out[at] = _fma_exact(float(a[at]), float(b[at]), float(c[at]))
    zero = finite & usual & (out == 0)  # the sign of an exact zero is that of an ordinary sum
    return np.where(zero & ((product == 0) | (product == -c)), product + c, out)


def _two_sum(a: Any, b: Any) -> tuple[Any, Any]:
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def _product_error(a: Any, b: Any, p: Any) -> Any:
    """a * b - p, by Dekker's splitting."""
    ah, al = _halves(a)
    bh, bl = _halves(b)
    return ((ah * bh - p) + ah * bl + al * bh) + al * bl


def _halves(x: Any) -> tuple[Any, Any]:
    t = x * 134217729.0
    high = t - (t - x)
    return high, x - high


def _fma_exact(a: float, b: float, c: float) -> float:
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:
        return a * b + c if a * b != 0 or c == 0 else c
    try:
        return exact.numerator / exact.denominator
    except OverflowError:
        return float("inf") if exact > 0 else float("-inf")
