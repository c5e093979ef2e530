"""Arithmetic and conversions rounded toward zero, down or up.

The machine rounds to nearest; what that lost is computed exactly, at least its sign, and moves the
result to its neighbour where the other rounding lies there. Operands are first brought near 1, so
that the lost part can itself never be lost. The lost part of a fused multiply-add is found as by S.
Boldo and J.-M. Muller, "Exact and approximated error of the FMA" (2011).
"""

from __future__ import annotations

from collections.abc import Callable

from tegula.ir.types import DType, f32, f64

from .double import fast_two_sum, two_product, two_sum
from .number import Number, fma, load_exponent, maximum, minimum, split_exponent, where

MODES = ("rn", "rz", "rd", "ru")
"""To nearest even, toward zero, down, up."""


def neighbour(x: Number, up: Number) -> Number:
    """The next float in a direction; no step beyond infinity is asked for."""
    bits = x.as_int()
    away = up ^ (bits < 0)
    step = where(away, bits + 1, bits - 1)
    least = where(up, bits.like(1), bits.like(x.e.int_elem.min_value + 1))
    return where(x == 0.0, least, step).as_float()


def directed(r: Number, below: Number, above: Number, mode: str) -> Number:
    """r, or its neighbour: `below` and `above` say on which side of r the exact value lies."""
    down = where(below, neighbour(r, _no(below)), r)
    up = where(above, neighbour(r, ~_no(above)), r)
    if mode == "rd":
        return down
    if mode == "ru":
        return up
    return where(r > 0.0, down, where(r < 0.0, up, r)) if mode == "rz" else r


def _no(like: Number) -> Number:
    return like ^ like


def _side(r: Number, error: Number, finite: Number, mode: str) -> Number:
    """`directed` by the error, exact value minus r. Infinity out of finite numbers is too large."""
    overflow = ~r.finite() & finite
    below = where(overflow, r > 0.0, error < 0.0)
    above = where(overflow, r < 0.0, error > 0.0)
    return directed(r, below, above, mode)


def add(a: Number, b: Number, mode: str) -> Number:
    """a + b, which is not fused with a product before it."""
    if mode == "rn":
        return fma(a, 1.0, b)
    s = two_sum(a, b)
    result = _side(s.hi, s.lo, a.finite() & b.finite(), mode)
    if mode == "rd":  # a sum of 0 is -0 but for two positive zeros
        zero = where((a.as_int() | b.as_int()) == 0, result.like(0.0), result.like(-0.0))
        result = where(s.hi == 0.0, zero, result)
    return result


def sub(a: Number, b: Number, mode: str) -> Number:
    return add(a, -b, mode)


def mul(a: Number, b: Number, mode: str) -> Number:
    """a · b, which is not fused with a sum behind it."""
    if mode == "rn":
        return fma(a, b, -0.0)
    p = a * b
    (m, i), (n, j) = split_exponent(a), split_exponent(b)
    error = fma(m, n, -load_exponent(p, -(i + j)))
    return _side(p, error, a.finite() & b.finite(), mode)


def div(a: Number, b: Number, mode: str) -> Number:
    q = a / b
    if mode == "rn":
        return q
    (m, i), (n, j) = split_exponent(a), split_exponent(b)
    error = fma(-load_exponent(q, j - i), n, m)
    error = where(n < 0.0, -error, error)
    return _side(q, error, a.finite() & b.finite() & (b != 0.0), mode)


def rcp(x: Number, mode: str) -> Number:
    return div(x.like(1.0), x, mode)


def sqrt(x: Number, mode: str) -> Number:
    s = x.sqrt()
    if mode == "rn":
        return s
    k = x.e.bias - 7
    small = x < 1.0
    m, t = where(small, x * 2.0 ** (k - k % 2), x), where(small, s * 2.0 ** (k // 2), s)
    return _side(s, fma(-t, t, m), x.finite(), mode)


def multiply_add(a: Number, b: Number, c: Number, mode: str) -> Number:
    r = fma(a, b, c)
    if mode == "rn":
        return r
    limit = 2 * (a.e.mantissa + 8)
    (m, i), (n, j), (k, l) = split_exponent(a), split_exponent(b), split_exponent(c)
    exponent = i + j
    apart = where(c == 0.0, exponent.like(0), exponent - l)
    # Where one of product and c is far below the other, only its sign counts.
    near = minimum(maximum(apart, -limit), limit)
    scale = where(apart < -limit, limit - l, -exponent)
    error = _lost(m, n, load_exponent(k, -near), load_exponent(r, scale))
    nothing = (a == 0.0) | (b == 0.0)
    error = where(nothing, error.like(0.0), error)
    result = _side(r, error, a.finite() & b.finite() & c.finite(), mode)
    if mode == "rd":  # a sum of 0 is -0 but for two positive zeros
        either = (a.as_int() ^ b.as_int()) | c.as_int()
        zero = where(either < 0, result.like(-0.0), result.like(0.0))
        result = where((r == 0.0) & (error == 0.0), zero, result)
    return result


def _lost(a: Number, b: Number, c: Number, r: Number) -> Number:
    """The sign of a · b + c - r for r = fma(a, b, c), as that of a float."""
    u = two_product(a, b)
    low = two_sum(c, u.lo)
    high = two_sum(u.hi, low.hi)
    top = (high.hi - r) + high.lo
    rest = fast_two_sum(top, low.lo)
    return where(top == 0.0, low.lo, rest.hi)


def from_integer(x: Number, elem: DType, mode: str) -> Number:
    """An integer as a float of the formula's type."""
    r = x.to(elem)
    if mode == "rn":
        return r
    # What rounds up to a power of two beyond the integer's type saturates on the way back.
    too_large = r >= float(2 ** (x.elem.bits - x.elem.is_signed))
    back = r.to(x.elem)
    return directed(r, (x < back) | too_large, (x > back) & ~too_large, mode)


def narrow(x: Number, elem: DType, mode: str) -> Number:
    """f64 as f32; the formula's type is f32."""
    assert x.elem is f64 and elem is f32
    r = x.to(f32)
    if mode == "rn":
        return r
    back = r.to(f64)
    return directed(r, x < back, x > back, mode)


TO_WHOLE: dict[str, Callable[[Number], Number]] = {
    "rn": lambda x: x.emit("rint"),
    "rz": lambda x: x.emit("trunc"),
    "rd": lambda x: x.emit("floor"),
    "ru": lambda x: x.emit("ceil"),
}


def to_integer(x: Number, elem: DType, mode: str) -> Number:
    """A float as an integer: saturated, NaN as 0."""
    return TO_WHOLE[mode](x).to(elem)
