"""A small model of threads and shared memory: carries out the ways that `swizzle` finds."""

from __future__ import annotations

from collections import Counter

import numpy as np

from tegula.codegen.simt.layout import Layout, combine
from tegula.codegen.simt.swizzle import Arrangement, Way
from tegula.codegen.simt.transfer import accesses, pointing

LANES = 32


def held(layout: Layout) -> np.ndarray:
    """The index of the element in each register of each thread: [threads, registers]."""
    threads = 1 << len(layout.threads)
    base = np.array([combine(layout.threads, t) for t in range(threads)])
    return base[:, None] ^ np.array(layout.offsets)[None, :]


def pointers(memory: Arrangement, way: Way, layout: Layout) -> np.ndarray:
    """Where each thread points for each instruction: [threads, instructions]."""
    bases = [memory.offset(b) for b in pointing(way, layout)]
    used = 0
    for b in bases:
        used |= b
    threads = 1 << len(layout.threads)
    mine = np.array([combine(bases, t) for t in range(threads)])
    at = np.array([memory.offset(layout.offsets[n[0]]) for n in accesses(way)])
    return (mine[:, None] ^ (at & used)[None, :]) + (at & ~used)[None, :]


def cells(memory: Arrangement, way: Way, layout: Layout, size: int) -> np.ndarray:
    """The byte address that each register of each thread meets: [threads, registers]."""
    out = np.full((1 << len(layout.threads), layout.registers), -1)
    at = pointers(memory, way, layout)
    per_word = max(1, 4 // size)
    thread = np.arange(len(out))
    lane = thread % LANES
    for i, numbers in enumerate(accesses(way)):
        for j, n in enumerate(numbers):
            if way.kind == "plain":
                out[:, n] = at[:, i] + j * size
                continue
            number, inside = divmod(j, per_word)
            if way.kind == "matrix":
                row, place = lane // 4, 4 * (lane % 4) + inside * size
            else:
                row, place = 2 * (lane % 4) + inside, lane // 4 * size
            out[:, n] = at[thread - lane + 8 * number + row, i] + place
    return out


def conflicts(memory: Arrangement, way: Way, layout: Layout, size: int) -> int:
    """How often banks are met once more than needed, over all phases of the first warp."""
    nbytes = size << way.vector if way.kind == "plain" else 16
    words = max(1, nbytes // 4)
    phase = LANES // words
    lanes = LANES if way.kind == "plain" else 8 * way.count
    extra = 0
    for column in pointers(memory, way, layout)[:lanes].T:
        for first in range(0, lanes, phase):
            start = np.unique(column[first : first + phase] // 4)
            every = np.unique((start[:, None] + np.arange(words)[None, :]).reshape(-1))
            extra += np.bincount(every % 32).max() - 1
    return int(extra)


def multiplied(layout: Layout, values: np.ndarray) -> np.ndarray:
    """A tile's elements in the registers of threads."""
    return values.reshape(-1)[held(layout)]


def gathered(layout: Layout, registers: np.ndarray) -> np.ndarray:
    """The tile whose elements these registers are; all copies have to agree."""
    where = held(layout)
    out = np.zeros(int(np.prod(layout.shape)), registers.dtype)
    out[where.reshape(-1)] = registers.reshape(-1)
    assert (out[where] == registers).all()
    assert set(Counter(where.reshape(-1).tolist())) == set(range(len(out)))
    return out.reshape(layout.shape)
