"""Where a tile's elements lie in shared memory while it moves from one layout to another.

The way from an element's place to its index is linear over F2, like a layout. Banks are what must
not be met twice: 32 of 4 bytes each, in rows of 128 bytes. Threads that access memory at the same
time (those of a *phase*: 32 for accesses of up to 4 bytes, 8 for 16 bytes) must differ in the place
within a row. That holds for a subspace of elements if none of them but 0 lies in the subspace of
those that differ by whole rows; and such a subspace of rows that suits two phases at once always
exists: sums of a vector from each, and what is in neither.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import prod
from typing import Protocol

from tegula.codegen.simt.layout import Layout, Span, log2

ROW = 128
"""Bytes of all banks side by side."""
WIDE = 16
"""Bytes of the widest access of a thread."""
BANK = 4


class Arrangement(Protocol):
    """A tile in shared memory."""

    def offset(self, index: int) -> int:
        """Bytes from the tile's start to the element with an index; linear over F2."""
        ...


@dataclass(frozen=True)
class Arranged:
    """A tile of elements of `size` bytes; `bases` are the indices that the bits of an element's
    place add."""

    size: int
    bases: tuple[int, ...]

    @cached_property
    def _span(self) -> Span:
        return Span(self.bases)

    def offset(self, index: int) -> int:
        place = self._span.solve(index)
        assert place is not None
        return place * self.size

    @property
    def nbytes(self) -> int:
        return self.size << len(self.bases)


@dataclass(frozen=True)
class Way:
    """How the registers of a layout meet shared memory.

    `plain`: accesses of `vector` bits of elements, by every thread for itself. `matrix`: lanes pass
    rows of 16 bytes to each other, a word of each to four lanes; `transposed`: its elements go to
    different groups of four. `picks` are the register bits (as sums of them) that number
    the elements of one access, then the accesses; `count` of these make one instruction.
    """

    kind: str
    vector: int
    picks: tuple[int, ...]
    count: int
    cost: float

    @cached_property
    def registers(self) -> tuple[int, ...]:
        """The register for each element of each access."""
        out = [0]
        for p in self.picks:
            out += [x ^ p for x in out]
        return tuple(out)


@dataclass(frozen=True)
class Exchange:
    """A tile's way through shared memory."""

    memory: Arranged
    write: Way
    read: Way


# -- subspaces


def intersection(a: Sequence[int], b: Sequence[int]) -> list[int]:
    """A basis of what two subspaces have in common."""
    span, kept = Span(), []
    for v in a:
        if span.add(v):
            kept.append(v)
    first, out = len(kept), Span()
    both = Span(kept)
    added: list[int] = []
    for v in b:
        how = both.solve(v)
        if how is not None:
            # v = some of a + some of the b before it: the part from a is in both.
            common = 0
            for i in range(first):
                if how >> i & 1:
                    common ^= kept[i]
            if common:
                out.add(common)
        else:
            added.append(v)
        if how is None:
            both.add(v)
    return _basis(out)


def _basis(span: Span) -> list[int]:
    return sorted(row for row, _ in span._rows.values())


def completion(vectors: Iterable[int], space: Iterable[int]) -> list[int]:
    """Vectors of `space` that make up what `vectors` lack of it."""
    span = Span(vectors)
    return [v for v in space if span.add(v)]


def apart(p: Sequence[int], q: Sequence[int], space: Sequence[int], count: int) -> list[int]:
    """`count` independent vectors whose span has nothing but 0 in common with those of p and q."""
    common = intersection(p, q)
    only_p, only_q = completion(common, p), completion(common, q)
    rest = completion([*p, *q], space)
    mixed = [x ^ y for x, y in zip(only_p, only_q)]
    found = [*mixed, *rest]
    assert len(found) >= count, (p, q, count)
    # Prefer what is in neither: it makes for plain addresses.
    return [*rest, *mixed][:count]


# -- one side


def way_of(memory: Arrangement, layout: Layout, size: int, matrices: bool) -> Way:
    """The best way between registers and memory. `matrices` allows the lanes to pass rows."""
    found = [_plain(memory, layout, size)]
    if matrices:
        found += filter(None, (_matrix(memory, layout, size), _transposed(memory, layout, size)))
    return min(found, key=lambda way: way.cost)


def _plain(memory: Arrangement, layout: Layout, size: int) -> Way:
    span = Span(memory.offset(b) for b in layout.register)
    picks: list[int] = []
    while size << len(picks) + 1 <= WIDE:
        how = span.solve(size << len(picks))
        if how is None:
            break
        picks.append(how)
    vector = len(picks)
    picks += completion(picks, (1 << i for i in range(len(layout.register))))
    accesses = 1 << len(layout.register) - vector
    return Way("plain", vector, tuple(picks), 1, accesses * (1 + max(1, (size << vector) / BANK)))


def _matrix(memory: Arrangement, layout: Layout, size: int) -> Way | None:
    if size > BANK or len(layout.lane) != 5:
        return None
    word = log2(BANK // size)
    at = [memory.offset(b) for b in (*layout.register, *layout.lane)]
    lanes = at[len(layout.register) :]
    inside = [*at[:word], *lanes[:2]]
    others = [*at[word : len(layout.register)], *lanes[2:]]
    if len(layout.register) < word or inside != [size << i for i in range(word + 2)]:
        return None
    return _rows(layout, word, others, [memory.offset(b) for b in layout.warp], "matrix")


def _transposed(memory: Arrangement, layout: Layout, size: int) -> Way | None:
    if size != 2 or len(layout.lane) != 5 or not layout.register:
        return None
    at = [memory.offset(b) for b in (*layout.register, *layout.lane)]
    lanes = at[len(layout.register) :]
    if lanes[2:] != [2, 4, 8]:
        return None
    others = [*at[: len(layout.register)], *lanes[:2]]
    return _rows(layout, 1, others, [memory.offset(b) for b in layout.warp], "transposed")


def _rows(layout: Layout, word: int, others: Sequence[int], warps: Sequence[int], kind: str
          ) -> Way | None:
    if any(x % WIDE for x in (*others, *warps)):
        return None
    more = len(layout.register) - word
    count = 1 << min(2, more)
    matrices = 1 << more
    picks = tuple(1 << i for i in range(len(layout.register)))
    return Way(kind, word, picks, count, matrices + matrices // count)


# -- both sides


@lru_cache(maxsize=512)
def exchange(source: Layout, target: Layout, size: int, loads: bool, stores: bool) -> Exchange:
    """The cheapest way without bank conflicts from one layout to another. `loads` and `stores`
    say whether lanes can pass rows to each other when they read and write."""
    stores = stores and not source.free & (1 << len(source.lane)) - 1
    found = []
    for low in _beginnings(source, target, size, loads, stores):
        memory = arranged(source, target, size, low)
        write = way_of(memory, source, size, stores)
        read = way_of(memory, target, size, loads)
        found.append(Exchange(memory, write, read))
    return min(found, key=lambda x: x.write.cost + x.read.cost)


def _beginnings(source: Layout, target: Layout, size: int, loads: bool, stores: bool
                ) -> list[list[int]]:
    """What 16 bytes may consist of: elements that a thread holds on both sides, or on one, or that
    lanes can pass to each other."""
    limit = log2(WIDE // size)
    common = intersection(source.register, target.register)
    out = []
    for side in (source, target):
        both = [b for b in side.register if b in common]
        both += completion(both, common)
        out.append([*both, *completion(both, side.register)][:limit])
    for allowed, side in ((loads, target), (stores, source)):
        if not allowed or len(side.lane) != 5 or size > BANK:
            continue
        word = log2(BANK // size)
        out.append([*side.register[:word], *side.lane[:2]])
        if size == 2:
            out.append(list(side.lane[2:]))
    unique = {tuple(x): x for x in out if Span(x).rank == len(x)}
    return list(unique.values())


def arranged(source: Layout, target: Layout, size: int, low: Sequence[int]) -> Arranged:
    """The arrangement that begins with `low`, free of bank conflicts on both sides."""
    bits = log2(prod(source.shape))
    space = [1 << i for i in range(bits)]
    row = log2(ROW // size)
    if bits <= row:
        return Arranged(size, (*low, *completion(low, space)))
    p, q = (_phase(side, size, low) for side in (source, target))
    rows = apart(p, q, space, bits - row)
    banks = completion([*low, *rows], [*source.threads, *target.threads, *space])
    return Arranged(size, (*low, *banks, *rows))


def _phase(side: Layout, size: int, low: Sequence[int]) -> list[int]:
    """A basis of the elements that are accessed at the same time, those beside them in their bank
    included."""
    word = log2(max(1, BANK // size))
    limit = log2(WIDE // size)
    span = Span(side.register)
    vector = 0
    while vector < len(low) and low[vector] in span:
        vector += 1
    out = list(low[: max(vector, word)])
    lanes = side.lane
    if len(low) == limit and vector < limit and len(side.lane) == 5:
        passing = set(low) - set(side.register[:word])
        if passing == set(lanes[:2]):
            return _independent([*low, *lanes[2:]])
        if passing == set(lanes[2:]) and size == 2:
            return _independent([*low, *side.register[:1], *lanes[:2]])
    taken = len(lanes) - log2(max(1, (size << vector) // BANK))
    return _independent([*out, *lanes[:taken]])


def _independent(vectors: Iterable[int]) -> list[int]:
    span = Span()
    return [v for v in vectors if span.add(v)]
