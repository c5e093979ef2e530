"""Counter-based random numbers (Philox 4x32-10 and 4x64-10; Salmon et al., SC'11), written in the
kernel language.

A number depends on the seed and the offset alone: not on the tile, the grid or the device.
"""

from __future__ import annotations

from typing import Any

from tegula.frontend.function import device_function

from .builtin import constexpr_function
from .creation import to_tensor
from .debug import static_assert, static_range
from .dtypes import dtype as Dtype
from .elementwise import cos, log, maximum, sin, sqrt, umulhi, where
from .values import constexpr

N_ROUNDS_DEFAULT = constexpr(10)
"""Rounds of Philox, as its authors recommend."""

_int32, _int64 = Dtype("int32"), Dtype("int64")
_uint32, _uint64 = Dtype("uint32"), Dtype("uint64")

# Multipliers of a round and the steps of the keys, for words of 32 and of 64 bits.
_CONSTANTS = {
    32: (0xD2511F53, 0xCD9E8D57, 0x9E3779B9, 0xBB67AE85),
    64: (0xD2E7470EE14C6C93, 0xCA5A826395121157, 0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B),
}
_TWO_PI = constexpr(6.283185307179586)
# The largest scales that keep the biggest integer below 1.0 after rounding to float32.
_SCALE32 = constexpr(4.6566127342e-10)
_SCALE64 = constexpr(1.0842020432385337e-19)


@constexpr_function
def _constants(width: int) -> tuple[int, ...]:
    return _CONSTANTS[width]


@device_function
def philox_impl(
    c0: Any, c1: Any, c2: Any, c3: Any, k0: Any, k1: Any, n_rounds: Any = N_ROUNDS_DEFAULT
) -> Any:
    """`n_rounds` rounds of Philox on the counter (c0, c1, c2, c3) with the key (k0, k1)."""
    multiplier0, multiplier1, step0, step1 = _constants(c0.dtype.primitive_bitwidth)
    for _ in static_range(n_rounds):
        high0, low0 = umulhi(c0, multiplier0), c0 * multiplier0
        high1, low1 = umulhi(c2, multiplier1), c2 * multiplier1
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
        k0 = k0 + step0
        k1 = k1 + step1
    return c0, c1, c2, c3


@device_function
def philox(seed: Any, c0: Any, c1: Any, c2: Any, c3: Any, n_rounds: Any = N_ROUNDS_DEFAULT) -> Any:
    """Philox on four counters of 32 or 64 bits; the seed is taken as 64 bits."""
    key = to_tensor(seed)
    static_assert(key.dtype.is_int(), "the seed of random numbers must be an integer")
    key = key.to(_uint64)
    c0, c1, c2, c3 = to_tensor(c0), to_tensor(c1), to_tensor(c2), to_tensor(c3)
    if c0.dtype.primitive_bitwidth == 32:
        word = _uint32
        k0, k1 = key.to(_uint32), (key >> 32).to(_uint32)
    else:
        word = _uint64
        k0, k1 = key, to_tensor(0).to(_uint64)
    c0, c1 = c0.to(word, bitcast=True), c1.to(word, bitcast=True)
    c2, c3 = c2.to(word, bitcast=True), c3.to(word, bitcast=True)
    return philox_impl(c0, c1, c2, c3, k0, k1, n_rounds)


@device_function
def randint4x(seed: Any, offset: Any, n_rounds: Any = N_ROUNDS_DEFAULT) -> Any:
    """Four blocks of random uint32, the cheapest way to get four."""
    offset = to_tensor(offset)
    low = offset.to(_uint32)
    zero = low * 0
    high = zero
    if offset.dtype.primitive_bitwidth > 32:
        high = (offset >> 32).to(_uint32)
    return philox(seed, low, high, zero, zero, n_rounds)


@device_function
def randint(seed: Any, offset: Any, n_rounds: Any = N_ROUNDS_DEFAULT) -> Any:
    """Random uint32, one for each offset."""
    return randint4x(seed, offset, n_rounds)[0]


@device_function
def uint_to_uniform_float(x: Any) -> Any:
    """Random integers to floats of [0, 1)."""
    if x.dtype.primitive_bitwidth == 32:
        bits = x.to(_int32, bitcast=True)
        return where(bits < 0, -bits - 1, bits) * _SCALE32
    wide = x.to(_int64, bitcast=True)
    return where(wide < 0, -wide - 1, wide) * _SCALE64


@device_function
def rand(seed: Any, offset: Any, n_rounds: Any = N_ROUNDS_DEFAULT) -> Any:
    """Random float32 of [0, 1), one for each offset."""
    return uint_to_uniform_float(randint(seed, offset, n_rounds))


@device_function
def rand4x(seed: Any, offset: Any, n_rounds: Any = N_ROUNDS_DEFAULT) -> Any:
    """Four blocks of random float32 of [0, 1)."""
    i0, i1, i2, i3 = randint4x(seed, offset, n_rounds)
    return (
        uint_to_uniform_float(i0),
        uint_to_uniform_float(i1),
        uint_to_uniform_float(i2),
        uint_to_uniform_float(i3),
    )


@device_function
def pair_uniform_to_normal(u1: Any, u2: Any) -> Any:
    """Two uniform numbers to two normal ones (Box and Muller)."""
    radius = sqrt(-2.0 * log(maximum(1.0e-7, u1)))
    angle = _TWO_PI * u2
    return radius * cos(angle), radius * sin(angle)


@device_function
def randn(seed: Any, offset: Any, n_rounds: Any = N_ROUNDS_DEFAULT) -> Any:
    """Normally distributed float32, one for each offset."""
    i0, i1, _, _ = randint4x(seed, offset, n_rounds)
    return pair_uniform_to_normal(uint_to_uniform_float(i0), uint_to_uniform_float(i1))[0]


@device_function
def randn4x(seed: Any, offset: Any, n_rounds: Any = N_ROUNDS_DEFAULT) -> Any:
    """Four blocks of normally distributed float32."""
    u0, u1, u2, u3 = rand4x(seed, offset, n_rounds)
    n0, n1 = pair_uniform_to_normal(u0, u1)
    n2, n3 = pair_uniform_to_normal(u2, u3)
    return n0, n1, n2, n3
