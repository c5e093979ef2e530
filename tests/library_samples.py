"""Arguments for functions of the device library, and what tests share about them."""

from __future__ import annotations

import itertools
from functools import cache

import numpy as np

from tegula import ir
from tegula.codegen.math.library import Signature, library
from tegula.codegen.math.trial import runner

BACKENDS = ("interpreter", "cpu")


def special_floats(dtype: np.dtype) -> np.ndarray:
    """Zeros, ends of the denormal and the normal numbers, neighbours of 1, infinities and NaN."""
    info = np.finfo(dtype)
    one = dtype.type(1)
    positive = [
        0.0, info.smallest_subnormal, info.smallest_normal - info.smallest_subnormal,
        info.smallest_normal, 2 * info.smallest_normal, 0.5, np.nextafter(one, one * 0), 1.0,
        np.nextafter(one, one * 2), 1.5, 2.0, 2.5, 3.0, 1e10, 2.0 ** info.nmant, 2.0**31,
        2.0**63, info.max / 2, info.max, np.inf, np.nan,
    ]  # fmt: skip
    return np.concatenate([np.array(positive, dtype), -np.array(positive, dtype)])


def special_integers(dtype: np.dtype) -> np.ndarray:
    info = np.iinfo(dtype)
    values = [0, 1, 2, 3, 5, 16, 255, 2**24 - 1, 2**24 + 1, info.max // 2, info.max - 1, info.max]
    values += [info.min, info.min + 1]
    values += [-k for k in (1, 2, 3, 2**24 + 1) if info.min < 0]
    return np.array(values, dtype)


def arguments(signature: Signature, count: int = 1500, seed: int = 0) -> list[np.ndarray]:
    """All combinations of special values, numbers of random bits, and numbers near 1."""
    rng = np.random.default_rng(seed)
    types = [ir.numpy_dtype(t) for t in signature.arguments]
    specials = [special_floats(t) if t.kind == "f" else special_integers(t) for t in types]
    if len(types) > 2:  # a random part of the combinations
        rows = [rng.choice(s, 4000) for s in specials]
    else:
        rows = [np.array(c) for c in zip(*itertools.product(*specials), strict=True)]
    out = []
    for t, row in zip(types, rows, strict=True):
        wild = rng.integers(0, 256, count * t.itemsize, dtype=np.uint8).view(t)
        if t.kind == "f":
            near = (rng.uniform(-1, 1, count) * 2.0 ** rng.integers(-3, 4, count)).astype(t)
        else:
            near = rng.integers(-40 if t.kind == "i" else 0, 40, count).astype(t)
        out.append(np.concatenate([row.astype(t), wild, near]))
    return out


@cache
def function(name: str, index: int, backend: str):  # type: ignore[no-untyped-def]
    """One signature of a function, compiled once."""
    f = library()[name]
    return runner(f, f.signatures[index], backend)


def same_bits(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Equal to the last bit, all NaN being one."""
    bits = np.dtype(f"u{a.dtype.itemsize}")
    return (a.view(bits) == b.view(bits)) | ((a != a) & (b != b))
