"""The language's random numbers, with numpy."""

from __future__ import annotations

import numpy as np


def philox(seed: int, counter: np.ndarray, rounds: int) -> list[np.ndarray]:
    """Four words for each counter."""
    words = [counter.astype(np.uint64), *(np.zeros_like(counter, np.uint64) for _ in range(3))]
    low, high, keep = seed & 0xFFFFFFFF, seed >> 32, np.uint64(0xFFFFFFFF)
    for _ in range(rounds):
        a = words[0] * np.uint64(0xD2511F53)
        b = words[2] * np.uint64(0xCD9E8D57)
        words = [(b >> np.uint64(32)) ^ words[1] ^ np.uint64(low), b & keep,
                 (a >> np.uint64(32)) ^ words[3] ^ np.uint64(high), a & keep]  # fmt: skip
        low, high = (low + 0x9E3779B9) & 0xFFFFFFFF, (high + 0xBB67AE85) & 0xFFFFFFFF
    return [w.astype(np.uint32) for w in words]


def uniform(seed: int, counter: np.ndarray) -> np.ndarray:
    """What `tl.rand` gives: numbers from 0 up to 1."""
    words = philox(seed, counter, 10)[0].view(np.int32).astype(np.float64)
    return np.where(words < 0, -words - 1, words) * 4.6566127342e-10
