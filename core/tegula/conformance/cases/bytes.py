"""The 8-bit float that the host has no dtype for: compared as bytes, by formulas of its own."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from tegula.conformance.case import Case, Sketch, Spec
from tegula.conformance.cases.elementwise import apply, flat_case
from tegula.conformance.values import ordinary, wide_range
from tegula.ir import DType
from tegula.ir.types import f8e4b15, f16, f32, i1

LARGEST = 1.875


def decoded() -> np.ndarray:
    """What the 256 bytes stand for: no infinity, no NaN, 15 as the exponent's bias."""
    byte = np.arange(256)
    exponent, fraction = (byte >> 3) & 15, byte & 7
    normal = (1 + fraction / 8) * 2.0 ** (exponent - 15)
    size = np.where(exponent == 0, fraction * 2.0**-17, normal)
    return np.where(byte & 128, -size, size)


def encoded(x: np.ndarray, toward_zero: bool = False) -> np.ndarray:
    """The byte nearest to each number, the even one of two, limited to the largest."""
    sizes = decoded()[:128]
    exact = np.minimum(np.abs(x.astype(np.float64)), LARGEST)
    above = np.searchsorted(sizes, exact, side="left")
    below = np.where(sizes[above] == exact, above, np.maximum(above - 1, 0))
    gap_up, gap_down = sizes[above] - exact, exact - sizes[below]
    up = (gap_up < gap_down) | ((gap_up == gap_down) & (above % 2 == 0))
    byte = np.where(up & ~np.asarray(toward_zero), above, below)
    return (byte | (np.signbit(x).astype(np.int64) << 7)).astype(np.uint8)


def _decode(to: DType) -> Case:
    byte = np.arange(256).astype(np.uint8)
    return flat_case([(f8e4b15, byte)], to, apply("cast", to=to), decoded())


def _encode(source: DType, rounding: str) -> Case:
    x = np.concatenate([decoded(), ordinary(f32, 300), wide_range(f32, 200)])
    between = (decoded()[:127] + decoded()[1:128]) / 2
    x = np.concatenate([x, between, -between, between * (1 + 2.0**-9), between * (1 - 2.0**-9)])
    with np.errstate(all="ignore"):
        x = x.astype(np.float32 if source is f32 else np.float16)
    x = x[~np.isnan(x)]
    expected = encoded(x, rounding == "rtz")
    return flat_case([(source, x)], f8e4b15, apply("cast", to=f8e4b15, rounding=rounding), expected)


def _arithmetic(name: str) -> Case:
    a, b = np.repeat(np.arange(0, 256, 5), 52), np.tile(np.arange(0, 256, 5), 52)
    f = {"add": np.add, "sub": np.subtract, "mul": np.multiply}[name]
    values = decoded()
    expected = encoded(f(values[a], values[b]))
    inputs = [(f8e4b15, a.astype(np.uint8)), (f8e4b15, b.astype(np.uint8))]
    return flat_case(inputs, f8e4b15, apply(name), expected)


def _moves() -> Case:
    """Elements are moved as they are."""
    s = Sketch()
    x = np.arange(48).astype(np.uint8) * 5
    keep = ordinary(i1, 48)
    tile = s.load(s.buffer("x", f8e4b15, x), (6, 8))
    mask = s.load(s.buffer("keep", i1, keep), (6, 8))
    turned = s.b.permute(tile, dims=(1, 0))
    s.store(s.out("turned", f8e4b15, x.reshape(6, 8).T), turned)
    chosen = s.b.select(mask, tile, s.b.flip(tile, axis=1))
    expected = np.where(keep.reshape(6, 8), x.reshape(6, 8), x.reshape(6, 8)[:, ::-1])
    s.store(s.out("chosen", f8e4b15, expected), chosen)
    return s.case()


def specs() -> Iterator[Spec]:
    """All cases of this module."""
    for t in (f32, f16):
        yield Spec(f"cast.f8e4b15.{t}", partial(_decode, t), ("cast",), (f8e4b15, t))
        for rounding in ("rtne", "rtz"):
            label = f"cast.{t}.f8e4b15" + (".rtz" if rounding == "rtz" else "")
            yield Spec(label, partial(_encode, t, rounding), ("cast",), (t, f8e4b15))
    for name in ("add", "sub", "mul"):
        yield Spec(f"arith.{name}.f8e4b15", partial(_arithmetic, name), (name,), (f8e4b15,))
    yield Spec("shape.moves.f8e4b15", _moves, ("permute", "select", "flip"), (f8e4b15,))
