"""sin and cos.

x = n π/2 + r with |r| <= π/4; the quadrant n says which of ±sin(r), ±cos(r) is wanted. Up to some
size of x, n π/2 is subtracted in three parts. Beyond, the fraction of x · 2/π is computed with
integers from the bits of 2/π that matter for x's exponent: exact for every finite x, but long, so
that whoever can branch computes it only where a large x occurs.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from tegula.ir.core import Value

from .coefficients import COS, HALF_PI_PARTS, SIN, TWO_OVER_PI
from .emitter import Emitter

Reduced = tuple[Value, Value]
"""n in the lowest bits of an integer, and r."""

# Up to here the parts of π/2 are enough.
LARGE = {"f32": 2.0**16, "f64": 2.0**28}


def sin(e: Emitter, x: Value) -> Value:
    """Sine."""

    def wave(reduced: Reduced) -> Value:
        n, r = reduced
        # The sign of x goes on last, for the sake of -0.
        return _wave(e, n, r, e.xor(_half_turn(e, n), e.as_int(x)))

    return _by_size(e, x, wave)


def cos(e: Emitter, x: Value) -> Value:
    """Cosine."""

    def wave(reduced: Reduced) -> Value:
        n, r = reduced
        n = e.add(n, e.i(1))
        return _wave(e, n, r, _half_turn(e, n))

    return _by_size(e, x, wave)


def _by_size(e: Emitter, x: Value, wave: Callable[[Reduced], Value]) -> Value:
    """The function by the short reduction, or for large x by the exact one."""
    size = e.abs(x)
    large = e.gt(size, e.f(LARGE[e.elem.name]))
    usual = wave(_reduce(e, size))
    result: Value = e.select(large, wave(_reduce_exactly(e, size)), usual, unlikely=True)
    return result


def _half_turn(e: Emitter, n: Value) -> Value:
    """The second bit of n in the place of a sign."""
    return e.shift_left(n, e.width - 2)


def _wave(e: Emitter, n: Value, r: Value, sign: Value) -> Value:
    """sin(r), or cos(r) if n is odd, negated by the top bit of `sign`."""
    z = e.mul(r, r)
    s = e.fma(e.mul(r, z), e.polynomial(z, SIN[e.elem.name]), r)
    c = e.fma(z, e.polynomial(z, (-0.5, *COS[e.elem.name])), e.f(1.0))
    odd = e.lt(e.shift_left(n, e.width - 1), e.i(0))
    top = e.and_(sign, e.i(e.int_elem.min_value))
    return e.as_float(e.xor(e.as_int(e.select(odd, c, s)), top))


def _reduce(e: Emitter, x: Value) -> Reduced:
    """n in the low bits of an integer, and x - n π/2, for x up to LARGE."""
    magic = e.f(1.5 * 2.0**e.mantissa)
    t = e.fma(x, e.f(2.0 / math.pi), magic)
    n, r = e.sub(t, magic), x
    for part in HALF_PI_PARTS[e.elem.name]:
        r = e.fma(n, e.f(-part), r)
    return e.as_int(t), r


def _fraction(e: Emitter, x: Value) -> tuple[Value, Value, Value, Value]:
    """n modulo 4 for x above 1; -1 if x is below n π/2, else 0; |x - n π/2| / (π/2) in two words.

    x = M · 2**p with an integer M. Bits of 2/π that 2**p lifts to 4 and above only add whole
    turns, so the product starts below them: two words of x · 2/π modulo 4 from three words of 2/π.
    """
    w = e.width
    bits = e.as_uint(x)
    top = 1 << e.mantissa
    m = e.or_(e.and_(bits, e.u(top - 1)), e.u(top))
    # The window starts at the bit of 2/π that p lifts to 2; a word of zeros goes in front.
    start = e.sub(e.shift_right(bits, e.mantissa), e.u(e.bias + e.mantissa + 2 - w))
    a, b, c = _window(e, start)
    low = e.mul(m, b)
    sum_low = e.add(low, e.mulhi(m, c))
    carry = e.select(e.lt(sum_low, low), e.u(1), e.u(0))
    high = e.add(e.add(e.mul(m, a), e.mulhi(m, b)), carry)
    # Two bits of quadrant, then the fraction of a quadrant, taken to the nearest whole one.
    fraction = e.or_(e.shift_left(high, 2), e.shift_right(sum_low, w - 2))
    above = e.shift_right(e.as_int(fraction), w - 1)  # -1 where the fraction is 1/2 or more
    n = e.sub(e.as_int(e.shift_right(high, w - 2)), above)
    flip = e.as_uint(above)
    return n, above, e.xor(fraction, flip), e.xor(e.shift_left(sum_low, 2), flip)


def _reduce_exactly(e: Emitter, x: Value) -> Reduced:
    """n modulo 4 and x - n π/2 for x above 1; NaN for infinity and NaN."""
    n, above, high, low = _fraction(e, x)
    top, rest = _sum_of_words(e, high, low)
    first, second = (e.f(p) for p in HALF_PI_PARTS[e.elem.name][:2])
    r = e.fma(top, first, e.fma(top, second, e.mul(rest, first)))
    r = e.as_float(e.or_(e.as_int(r), e.and_(above, e.i(e.int_elem.min_value))))
    return n, e.fma(x, e.f(0.0), r)


def reduce_to_pair(e: Emitter, x: Value) -> tuple[Value, Value, Value]:
    """n modulo 4 and x - n π/2 as the sum of two floats, for finite x above 1."""
    n, above, high, low = _fraction(e, x)
    top, rest = _sum_of_words(e, high, low)
    first, second = (e.f(p) for p in HALF_PI_PARTS[e.elem.name][:2])
    r = e.mul(top, first)
    lost = e.fma(top, first, e.neg(r))
    lost = e.add(lost, e.fma(top, second, e.mul(rest, first)))
    total = e.add(r, lost)
    lost = e.sub(lost, e.sub(total, r))
    sign = e.and_(above, e.i(e.int_elem.min_value))
    hi, lo = (e.as_float(e.xor(e.as_int(v), sign)) for v in (total, lost))
    return n, hi, lo


def _window(e: Emitter, start: Value) -> tuple[Value, Value, Value]:
    """Three words of 0.2/π from bit `start`, counted from a word before the point.

    The word is chosen by halving: each bit of its index selects among the candidates left.
    """
    index = e.shift_right(start, e.width.bit_length() - 1)
    words: list[Value] = [e.u(v) for v in (0, *TWO_OVER_PI[e.elem.name])]
    step = 1 << (len(words) - 4).bit_length() - 1
    while step:
        chosen = e.cmp(e.and_(index, e.u(step)), e.u(0), pred="ne")
        needed = step + 3
        words = [
            e.select(chosen, words[i + step], words[i]) if i + step < len(words) else words[i]
            for i in range(min(needed, len(words)))
        ]
        step //= 2
    left = e.and_(start, e.u(e.width - 1))
    right = e.sub(e.u(e.width), left)
    a, b, c = (e.or_(e.shl(words[i], left), e.shr(words[i + 1], right)) for i in range(3))
    return a, b, c


def _sum_of_words(e: Emitter, high: Value, low: Value) -> tuple[Value, Value]:
    """A fraction below 1/2 given as two words: the sum of two floats."""
    half = e.width // 2
    upper = e.mul(e.to_float(e.as_int(e.shift_right(high, half))), e.f(2.0**-half))
    mask = e.u((1 << half) - 1)
    middle = e.mul(e.to_float(e.as_int(e.and_(high, mask))), e.f(2.0**-e.width))
    lower = e.mul(e.to_float(low), e.f(2.0 ** (-2 * e.width)))
    top = e.add(upper, middle)
    return top, e.add(e.add(e.sub(upper, top), middle), lower)
