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
from typing import NamedTuple, Protocol

from tegula.codegen.simt.layout import Layout, Span, combine, log2

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
    """`count` independent vectors of a space whose span has nothing but 0 in common with those of
    p and q, two subspaces of it; where there are not so many, others join them."""
    common = intersection(p, q)
    mixed = [x ^ y for x, y in zip(completion(common, p), completion(common, q))]
    # What is in neither comes first: it makes for plain addresses.
    found = [*completion([*p, *q], space), *mixed]
    return [*found, *completion(found, space)][:count]


# -- one side


def way_of(memory: Arrangement, layout: Layout, size: int, matrices: bool) -> Way:
    """The best way between registers and memory. `matrices` allows the lanes to pass rows."""
    found = [_plain(memory, layout, size)]
    if matrices:
        found += filter(None, (_matrix(memory, layout, size), _transposed(memory, layout, size)))
    return min(found, key=lambda way: way.cost)


def _plain(memory: Arrangement, layout: Layout, size: int) -> Way:
    at = [memory.offset(b) for b in layout.register]
    threads = [memory.offset(b) for b in layout.threads]
    span = Span(at)
    picks: list[int] = []
    while size << len(picks) + 1 <= WIDE:
        how = span.solve(size << len(picks))
        if how is None or any(x % (size << len(picks) + 1) for x in threads):
            break
        picks.append(how)
    vector, low = len(picks), picks[:]
    for pick in completion(low, (1 << i for i in range(len(at)))):
        inside = combine(at, pick) // size & (1 << vector) - 1
        picks.append(pick ^ combine(low, inside))
    accesses = 1 << len(at) - vector
    words = max(1, (size << vector) // BANK)
    met = _meetings(threads[: len(layout.lane) - log2(words)])
    return Way("plain", vector, tuple(picks), 1, accesses * (1 + words * met))


def _meetings(phase: Sequence[int]) -> int:
    """How many words of one bank the lanes of a phase want, from what the bits of their numbers
    add."""
    words = [x // BANK for x in phase]
    return 1 << Span(words).rank - Span(x & ROW // BANK - 1 for x in words).rank


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
    warps = [memory.offset(b) for b in layout.warp]
    return _rows(layout, word, others, lanes[2:], warps, "matrix")


def _transposed(memory: Arrangement, layout: Layout, size: int) -> Way | None:
    if size != 2 or len(layout.lane) != 5 or not layout.register:
        return None
    at = [memory.offset(b) for b in (*layout.register, *layout.lane)]
    lanes = at[len(layout.register) :]
    if lanes[2:] != [2, 4, 8]:
        return None
    others = [*at[: len(layout.register)], *lanes[:2]]
    warps = [memory.offset(b) for b in layout.warp]
    return _rows(layout, 1, others, [at[0], *lanes[:2]], warps, "transposed")


def _rows(layout: Layout, word: int, others: Sequence[int], phase: Sequence[int],
          warps: Sequence[int], kind: str) -> Way | None:
    if any(x % WIDE for x in (*others, *warps)):
        return None
    more = len(layout.register) - word
    count = 1 << min(2, more)
    # A little cheaper than wide accesses, whose pieces belong to instructions further apart.
    cost = (1 << more) * _meetings(phase) + (1 << more) // count - 0.5
    return Way(kind, word, tuple(1 << i for i in range(len(layout.register))), count, cost)


# -- both sides


@lru_cache(maxsize=512)
def exchange(source: Layout, target: Layout, size: int, loads: bool, stores: bool) -> Exchange:
    """The cheapest way from one layout to another. `loads` and `stores` say whether lanes can pass
    rows to each other when they read and write."""
    stores = stores and not source.free & (1 << len(source.lane)) - 1
    found = []
    for begin in _beginnings(source, target, size, loads, stores):
        memory = arranged(source, target, size, begin)
        write = way_of(memory, source, size, stores)
        read = way_of(memory, target, size, loads)
        found.append(Exchange(memory, write, read))
    return min(found, key=lambda x: (x.write.cost + x.read.cost, x.read.cost))


class Beginning(NamedTuple):
    """What neighbouring elements are: `low`, from one of both layouts. `phase` are the bits of that
    one's lanes (or registers) that differ within a phase."""

    low: tuple[int, ...]
    phase: tuple[int, ...]
    side: Layout


def _beginnings(source: Layout, target: Layout, size: int, loads: bool, stores: bool
                ) -> list[Beginning]:
    """What 16 bytes may consist of: elements that a thread holds on both sides, or on one, or that
    lanes can pass to each other."""
    limit = log2(WIDE // size)
    common = intersection(source.register, target.register)
    out = []
    for side, passes in ((source, stores), (target, loads)):
        both = [b for b in side.register if b in common]
        both += completion(both, common)
        wide = [*both, *completion(both, side.register)][:limit]
        for n in sorted({0, len(both[:limit]), log2(max(1, BANK // size)), len(wide)}):
            out.append(Beginning(tuple(wide[:n]), _lanes(side, size << n), side))
        if not passes or len(side.lane) != 5 or size > BANK:
            continue
        word, lane = log2(BANK // size), side.lane
        out.append(Beginning((*side.register[:word], *lane[:2]), lane[2:], side))
        if size == 2:
            out.append(Beginning(lane[2:], (*side.register[:1], *lane[:2]), side))
    return [x for x in out if Span(x.low).rank == len(x.low)]


def _lanes(side: Layout, nbytes: int) -> tuple[int, ...]:
    """The lanes' bits that differ within a phase of accesses of so many bytes."""
    return side.lane[: len(side.lane) - log2(max(1, nbytes // BANK))]


def arranged(source: Layout, target: Layout, size: int, begin: Beginning) -> Arranged:
    """An arrangement of that beginning with as few bank conflicts as may be.

    Everything else that the beginning's layout tells apart lies whole pieces of it further on.
    """
    low, phase, side = begin
    bits = log2(prod(side.shape))
    row = log2(ROW // size)
    further = completion(low, (*side.threads, *side.register))
    assert len(low) + len(further) == bits
    if bits <= row:
        return Arranged(size, (*low, *further))
    other = source if side is target else target
    shared = 0
    span = Span(other.register)
    while shared < len(low) and low[shared] in span:
        shared += 1
    word = log2(max(1, BANK // size))
    theirs = [*low[: max(shared, word)], *_lanes(other, size << shared)]
    p = intersection(_independent([*low, *phase]), further)
    q = intersection(_independent(theirs), further)
    rows = apart(p, q, further, bits - row)
    banks = completion(rows, further)
    return Arranged(size, (*low, *banks, *rows))


def _independent(vectors: Iterable[int]) -> list[int]:
    span = Span()
    return [v for v in vectors if span.add(v)]
