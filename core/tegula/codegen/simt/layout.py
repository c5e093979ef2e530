"""Layouts: which element of a tile each register of each thread holds.

A layout is a linear map over F2 from the bits of (register, lane, warp) to the bits of a tile's
coordinates: the bit numbers are added without carry.  The paper is "Linear Layouts: Robust Code
Generation of Efficient Tensor Computation Using F2" (arXiv 2505.23819).

Coordinates are written as one number, the row-major index of the element.  With sizes that are
powers of two the index is the coordinates' bits side by side, so reshaping a tile leaves the
numbers alone and permuting its axes permutes their bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import prod


def log2(n: int) -> int:
    """The exponent of a power of two."""
    if n <= 0 or n & (n - 1):
        raise ValueError(f"{n} is no power of two")
    return n.bit_length() - 1


def combine(bases: Sequence[int], index: int) -> int:
    """The image of `index`: the bases of its set bits, added without carry."""
    out = 0
    for i, basis in enumerate(bases):
        if index >> i & 1:
            out ^= basis
    return out


class Span:
    """A subspace that grows by vectors; finds how a vector is made of those that were added."""

    def __init__(self, vectors: Iterable[int] = ()) -> None:
        self._rows: dict[int, tuple[int, int]] = {}  # leading bit -> (vector, combination)
        self.count = 0
        for v in vectors:
            self.add(v)

    def _reduce(self, v: int) -> tuple[int, int]:
        how = 0
        while v:
            row = self._rows.get(v.bit_length())
            if row is None:
                break
            v ^= row[0]
            how ^= row[1]
        return v, how

    def add(self, v: int) -> bool:
        """Add a vector; False if it was in the span already."""
        rest, how = self._reduce(v)
        number = self.count
        self.count += 1
        if rest:
            self._rows[rest.bit_length()] = (rest, how | 1 << number)
        return bool(rest)

    def solve(self, v: int) -> int | None:
        """Which added vectors make `v`, as a bit set; None if it is not in the span."""
        rest, how = self._reduce(v)
        return None if rest else how

    def __contains__(self, v: int) -> bool:
        return not self._reduce(v)[0]

    @property
    def rank(self) -> int:
        return len(self._rows)


@dataclass(frozen=True)
class Layout:
    """Element of a tile of `shape` that bit i of the register, lane or warp number adds.

    A basis of 0 means that the element does not depend on that bit: several threads hold copies.
    Register bases are never 0.
    """

    shape: tuple[int, ...]
    register: tuple[int, ...]
    lane: tuple[int, ...]
    warp: tuple[int, ...]

    @cached_property
    def _hash(self) -> int:
        return hash((self.shape, self.register, self.lane, self.warp))

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        def part(name: str, bases: tuple[int, ...]) -> str:
            return name + "[" + " ".join(map(str, bases)) + "]"

        return " ".join(
            (part("reg", self.register), part("lane", self.lane), part("warp", self.warp))
        )

    @property
    def registers(self) -> int:
        """Number of registers a thread."""
        return 1 << len(self.register)

    @property
    def rank(self) -> int:
        return len(self.shape)

    @cached_property
    def offsets(self) -> tuple[int, ...]:
        """What each register adds to the thread's index."""
        out = [0]
        for basis in self.register:
            out += [x ^ basis for x in out]
        return tuple(out)

    @property
    def threads(self) -> tuple[int, ...]:
        """The bases of the thread number: lanes, then warps."""
        return self.lane + self.warp

    @cached_property
    def free(self) -> int:
        """Bits of the thread number that do not change the element, as a bit set.

        Only where the register and thread bases are independent otherwise do the threads that have
        none of these bits set hold each element once.
        """
        span, out = Span(self.register), 0
        for i, basis in enumerate(self.threads):
            if not span.add(basis):
                out |= 1 << i
        return out

    def check(self) -> None:
        """Every element is held somewhere; ValueError if not."""
        span = Span(self.register + self.threads)
        if span.rank != log2(prod(self.shape)) or 0 in self.register:
            raise ValueError(f"{self} does not cover {self.shape}")

    # -- other shapes

    def mapped(self, shape: Sequence[int], f: Callable[[int], int]) -> Layout:
        """The layout whose every basis went through `f`; register bases that vanish are dropped."""
        return Layout(
            tuple(shape),
            tuple(y for y in map(f, self.register) if y),
            tuple(map(f, self.lane)),
            tuple(map(f, self.warp)),
        )

    def reshape(self, shape: Sequence[int]) -> Layout:
        """The same elements under another shape of the same size."""
        return Layout(tuple(shape), self.register, self.lane, self.warp)

    def permute(self, dims: Sequence[int]) -> Layout:
        """The layout of the tile whose axis i is axis `dims[i]` of this one."""
        fields = axis_fields(self.shape)
        shape = tuple(self.shape[d] for d in dims)
        target = axis_fields(shape)

        def moved(x: int) -> int:
            out = 0
            for (to, _), d in zip(target, dims):
                shift, bits = fields[d]
                out |= (x >> shift & (1 << bits) - 1) << to
            return out

        return self.mapped(shape, moved)

    def without(self, axis: int) -> Layout:
        """The layout of what is left when an axis is reduced: a slice of this layout."""
        shift, bits = axis_fields(self.shape)[axis]
        shape = self.shape[:axis] + self.shape[axis + 1 :]

        def dropped(x: int) -> int:
            return (x >> shift + bits << shift) | (x & (1 << shift) - 1)

        return independent(self.mapped(shape, dropped))

    def squeezed(self, axes: Iterable[int]) -> Layout:
        """The layout with the named axes shrunk to size 1."""
        out = self
        for axis in axes:
            shape = out.shape
            out = out.without(axis).reshape((*shape[:axis], 1, *shape[axis + 1 :]))
        return out

    def stacked(self, axis: int = -1) -> Layout:
        """The layout of two such tiles joined along a new axis of size 2: one register bit more,
        the first, says which."""
        axis %= self.rank + 1
        shape = (*self.shape[:axis], 2, *self.shape[axis:])
        low = prod(self.shape[axis:])

        def spread(x: int) -> int:
            return (x & low - 1) | (x & ~(low - 1)) << 1

        out = self.mapped(shape, spread)
        return Layout(shape, (low, *out.register), out.lane, out.warp)

    def coordinates(self, index: int) -> tuple[int, ...]:
        """The coordinates of an element from its index."""
        return tuple(index >> shift & (1 << bits) - 1 for shift, bits in axis_fields(self.shape))


@lru_cache(maxsize=4096)
def axis_fields(shape: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    """Where each axis' coordinate lies in the index: (shift, number of bits)."""
    out, shift = [], 0
    for size in reversed(shape):
        bits = log2(size)
        out.append((shift, bits))
        shift += bits
    return tuple(reversed(out))


def index_of(shape: tuple[int, ...], coordinates: Sequence[int]) -> int:
    """The index of an element from its coordinates."""
    return sum(c << shift for c, (shift, _) in zip(coordinates, axis_fields(shape)))


def independent(layout: Layout) -> Layout:
    """The same map without register bits that others make up already."""
    span = Span()
    kept = tuple(b for b in layout.register if span.add(b))
    return Layout(layout.shape, kept, layout.lane, layout.warp)


def register_map(source: Layout, target: Layout) -> list[int] | None:
    """For each register of `target` the register of `source` in the same thread that holds the same
    element; None where an element lies in another thread."""
    if source is target or source == target:
        return list(range(source.registers))
    if source.threads != target.threads:
        return None
    span, images = Span(source.register), []
    for basis in target.register:
        how = span.solve(basis)
        if how is None:
            return None
        images.append(how)
    out = [0]
    for how in images:
        out += [x ^ how for x in out]
    return out


# -- constructors


def blocked(
    shape: Sequence[int],
    vector: int,
    lanes: int,
    warps: int,
    order: Sequence[int] | None = None,
    rows: int = 1,
) -> Layout:
    """Threads side by side along the fastest axis, each with `vector` neighbouring elements.

    `order` lists the axes from the fastest on (default: the last axis first). `lanes` and `warps`
    are numbers of threads; what they do not cover is repeated in registers, and where there are
    more of them than elements several hold copies. `rows` elements along the second axis go to one
    thread as well.
    """
    shape = tuple(shape)
    order = tuple(order) if order is not None else tuple(reversed(range(len(shape))))
    fields = axis_fields(shape)
    left = {a: [1 << (fields[a][0] + i) for i in range(fields[a][1])] for a in order}

    def take(axis: int, count: int) -> list[int]:
        taken, left[axis] = left[axis][:count], left[axis][count:]
        return taken

    register = take(order[0], log2(vector)) if order else []
    if len(order) > 1 and rows > 1:
        register += take(order[1], log2(rows))

    def spread(count: int) -> list[int]:
        bits: list[int] = []
        for axis in order:
            bits += take(axis, count - len(bits))
        return bits + [0] * (count - len(bits))

    lane, warp = spread(log2(lanes)), spread(log2(warps))
    for axis in order:
        register += left[axis]
    return Layout(shape, tuple(register), tuple(lane), tuple(warp))


def replicated(shape: Sequence[int], lanes: int, warps: int) -> Layout:
    """Every thread holds the whole tile."""
    bits = log2(prod(shape))
    return Layout(
        tuple(shape), tuple(1 << i for i in range(bits)), (0,) * log2(lanes), (0,) * log2(warps)
    )


def expanded(layout: Layout, axis: int) -> Layout:
    """The layout of the tile with a new axis of size 1."""
    return layout.reshape((*layout.shape[:axis], 1, *layout.shape[axis:]))
