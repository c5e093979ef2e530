"""Integers as rows of bits."""

from __future__ import annotations

from tegula.ir.types import DType, i32, i64, u32, u64

from .number import Number, maximum, minimum, where

UNSIGNED: dict[DType, DType] = {i32: u32, i64: u64, u32: u32, u64: u64}


def _unsigned(x: Number) -> Number:
    return x.bits(UNSIGNED[x.elem])


def _repeat(pattern: int, bits: int) -> int:
    """A byte's pattern over a whole word."""
    return sum(pattern << k for k in range(0, bits, 8))


def popc(x: Number) -> Number:
    """How many bits are set, added up in fields of 2, 4 and 8 bits."""
    x, width = _unsigned(x), x.elem.bits
    x = x - ((x >> 1) & _repeat(0x55, width))
    x = (x & _repeat(0x33, width)) + ((x >> 2) & _repeat(0x33, width))
    x = (x + (x >> 4)) & _repeat(0x0F, width)
    return ((x * _repeat(1, width)) >> (width - 8)).to(i32)


def clz(x: Number) -> Number:
    """How many zeros are above the highest bit that is set."""
    x, width = _unsigned(x), x.elem.bits
    shift = 1
    while shift < width:
        x = x | (x >> shift)
        shift *= 2
    return popc(~x)


def ffs(x: Number) -> Number:
    """The place of the lowest bit that is set, counted from 1; 0 if there is none."""
    lowest = popc((x & -x) - 1) + 1
    return where(x == 0, lowest.like(0), lowest)


def brev(x: Number) -> Number:
    """The bits in reverse order: halves swap, then their halves, and so on."""
    elem, width = x.elem, x.elem.bits
    x = _unsigned(x)
    half = width // 2
    while half:
        mask = sum(((1 << half) - 1) << k for k in range(0, width, 2 * half))
        x = ((x >> half) & mask) | ((x & mask) << half)
        half //= 2
    return x.bits(elem)


def byte_perm(x: Number, y: Number, selector: Number) -> Number:
    """Four of the eight bytes of y and x, chosen by three bits in each of four hex digits."""
    both = (_unsigned(y).to(u64) << 32) | _unsigned(x).to(u64)
    chosen = _unsigned(selector).to(u64)
    result = both.like(0)
    for place in range(4):
        byte = (both >> (((chosen >> (4 * place)) & 7) << 3)) & 0xFF
        result = result | (byte << (8 * place))
    return result.to(u32).bits(x.elem)


def mulhi(x: Number, y: Number) -> Number:
    """The upper half of the product."""
    return x.emit("mulhi", y)


def mul24(x: Number, y: Number) -> Number:
    """The lower 32 bits of the product of the lower 24 bits."""
    return ((x << 8) >> 8) * ((y << 8) >> 8)


def sad(x: Number, y: Number, z: Number) -> Number:
    """|x - y| + z."""
    return _unsigned(maximum(x, y) - minimum(x, y)).bits(x.elem) + z.bits(x.elem)


def hadd(x: Number, y: Number) -> Number:
    """(x + y) / 2 rounded down, without overflow."""
    return (x & y) + ((x ^ y) >> 1)


def rhadd(x: Number, y: Number) -> Number:
    """(x + y + 1) / 2 rounded down, without overflow."""
    return (x | y) - ((x ^ y) >> 1)


def high_word(x: Number) -> Number:
    """The upper half of a double's bits."""
    return (x.as_uint() >> 32).to(u32).bits(i32)


def low_word(x: Number) -> Number:
    """The lower half of a double's bits."""
    return x.as_uint().to(u32).bits(i32)


def double_of_words(high: Number, low: Number) -> Number:
    """The double with these halves."""
    return ((_unsigned(high).to(u64) << 32) | _unsigned(low).to(u64)).as_float()
