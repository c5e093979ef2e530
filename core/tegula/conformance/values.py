"""Test values per dtype, and how results are compared with what was expected."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tegula.ir.types import DType, f32, i1, numpy_dtype


def storage(t: DType) -> np.dtype:
    """numpy dtype of an element in memory: a truth value is a byte, and so is what numpy lacks."""
    return np.dtype(np.uint8) if t is i1 or not has_meaning(t) else numpy_dtype(t)


def has_meaning(t: DType) -> bool:
    """Whether the host has a dtype of these values."""
    try:
        numpy_dtype(t)
    except TypeError:
        return False
    return True


def bits_of(x: np.ndarray) -> np.ndarray:
    """The raw bits of each element as unsigned integers."""
    x = np.ascontiguousarray(x)
    return x.view(np.dtype(f"u{x.dtype.itemsize}"))


def from_bits(bits: Any, t: DType) -> np.ndarray:
    """Elements of a dtype from their raw bits."""
    kept = storage(t)
    return np.asarray(bits, np.dtype(f"u{kept.itemsize}")).view(kept)


def edge_bits(t: DType) -> list[int]:
    """Raw bits of the values where implementations go wrong."""
    if t.is_int:
        low, high, mask = t.min_value, t.max_value, (1 << max(t.bits, 1)) - 1
        some = [0, 1, 2, 3, 5, 7, -1, -2, -3, -7, 10, 100, -100, low, low + 1, high, high - 1]
        some += [high // 2, high // 2 + 1, 0x55555555, 0x33333333, 127, 128, 255, 256, 32767, 65535]
        return list(dict.fromkeys(v & mask for v in some))
    m, e = t.mantissa, t.bits - 1 - t.mantissa
    sign = 1 << (t.bits - 1)
    top = (1 << e) - 1
    one = t.exponent_bias << m
    magnitudes = [
        0, 1, (1 << m) - 1, 1 << m, (1 << m) + 1, one, one + 1, one - 1, one + (1 << (m - 1)),
        one + (1 << m), one + (1 << m) + (1 << (m - 1)), one - (1 << m), one - (2 << m),
        one + (3 << m) + 1, (top << m) - 1, (top << m) - (1 << m), top << m, (top << m) | 1,
        (top << m) | (1 << (m - 1)), (top << m) | ((1 << m) - 1),
    ]  # fmt: skip
    return list(dict.fromkeys(b for v in magnitudes if 0 <= v < sign for b in (v, v | sign)))


def edges(t: DType) -> np.ndarray:
    """The edge values of a dtype: zeros of both signs, denormals, extremes, infinities, NaN."""
    return from_bits(edge_bits(t), t)


def ordinary(t: DType, count: int, seed: int = 0) -> np.ndarray:
    """Values of everyday size."""
    rng = np.random.default_rng([seed, t.bits, ord(t.name[0])])
    if t is i1:
        return rng.integers(0, 2, count).astype(np.uint8)
    if t.is_float:
        spread = 2.0 if t.bits == 8 else 6.0
        values = rng.standard_normal(count) * spread
        return values.astype(np.float32).astype(storage(t))
    low, high = max(t.min_value, -1000), min(t.max_value, 1000)
    return rng.integers(low, high, count, endpoint=True).astype(storage(t))


def wide_range(t: DType, count: int, seed: int = 0) -> np.ndarray:
    """Values with uniformly random bits: every magnitude is as likely as any other."""
    rng = np.random.default_rng([seed, 77, t.bits])
    bits = rng.integers(0, 1 << t.bits, count, dtype=np.uint64)
    return from_bits(bits.astype(f"u{storage(t).itemsize}"), t)


def small_integers(t: DType, count: int, seed: int = 0, limit: int = 3) -> np.ndarray:
    """Integers so small that sums of products are exact in any order."""
    rng = np.random.default_rng([seed, 5, t.bits])
    low = 0 if t.kind == "uint" else -limit
    high = 1 if t is i1 else limit
    return rng.integers(low, high, count, endpoint=True).astype(np.float32).astype(storage(t))


# -------------------------------------------------------------------------------------------------
# Comparing


@dataclass(frozen=True)
class Rule:
    """How close a result has to be. NaN matches any NaN; the sign of zero counts when exact."""

    ulp: float = 0.0
    """Largest error in units in the last place of the expected value; 0 asks for the same value."""
    relative: float = 0.0
    """Error allowed besides, relative to `scale` (for sums whose order is free)."""
    scale: float = 0.0
    zero_sign: bool = True

    @property
    def exact(self) -> bool:
        return self.ulp == 0 and self.relative == 0


EXACT = Rule()


@dataclass(frozen=True)
class Difference:
    """Where a result is wrong, and by how much."""

    count: int
    index: int
    expected: str
    actual: str
    max_ulp: float

    def __str__(self) -> str:
        ulp = "" if not np.isfinite(self.max_ulp) else f", at most {self.max_ulp:.3g} ulp off"
        return (
            f"{self.count} element(s) differ{ulp}; the first is element {self.index}: "
            f"expected {self.expected}, got {self.actual}"
        )


def ulp_error(expected: np.ndarray, actual: np.ndarray, t: DType) -> np.ndarray:
    """Error of each element in units in the last place of the expected value."""
    wide = np.longdouble if t.bits == 64 else np.float64
    e, a = expected.astype(wide), actual.astype(wide)
    with np.errstate(all="ignore"):
        exponent = np.frexp(np.abs(e))[1] - 1
        least = 1 - t.exponent_bias
        unit = np.ldexp(wide(1), np.maximum(exponent, least).astype(np.int64) - t.mantissa)
        error = np.abs(a - e) / unit
    same = (e == a) | (np.isnan(e) & np.isnan(a))
    return np.where(same, 0, np.where(np.isnan(error), np.inf, error)).astype(np.float64)


def compare(
    expected: np.ndarray, actual: np.ndarray, t: DType, rule: Rule = EXACT
) -> tuple[Difference | None, float]:
    """The difference between two flat arrays under a rule, and the largest error in ulp."""
    if expected.shape != actual.shape:
        raise ValueError(f"expected {expected.shape} elements, got {actual.shape}")
    if not t.is_float or not has_meaning(t):
        wrong = expected != actual
        worst = np.inf if wrong.any() else 0.0
    else:
        error = ulp_error(expected, actual, t)
        worst = float(error.max(initial=0.0))
        allowed = rule.ulp
        wrong = error > allowed
        if rule.relative:
            with np.errstate(all="ignore"):
                gap = np.abs(actual.astype(np.float64) - expected.astype(np.float64))
            wrong &= ~(gap <= rule.relative * rule.scale)
        if rule.exact and rule.zero_sign and t.name not in ("f8e5b16", "f8e4b8"):
            with np.errstate(all="ignore"):
                zero = expected.astype(np.float64) == 0
            wrong |= zero & (bits_of(expected) != bits_of(actual))
    if not wrong.any():
        return None, worst
    index = int(np.argmax(wrong))
    shown = (show(expected[index], t), show(actual[index], t))
    return Difference(int(wrong.sum()), index, *shown, worst), worst


def show(value: Any, t: DType) -> str:
    """A value for a message: with its bits where it is a float."""
    if not t.is_float or not has_meaning(t):
        return str(int(value))
    raw = int(bits_of(np.asarray([value], storage(t)))[0])
    number = float(np.asarray(value).astype(np.float64))
    digits = 9 if t.bits <= f32.bits else 17
    return f"{number:.{digits}g} (0x{raw:0{t.bits // 4}x})"
