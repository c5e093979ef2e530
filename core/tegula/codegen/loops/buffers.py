"""Scratch memory of a kernel: where tiles lie that are kept, and reuse of space that is free."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from tegula.codegen.loops.lanes import size_of
from tegula.codegen.loops.text import Val, Writer
from tegula.ir.types import ScalarType

LINE = 64
"""Alignment of buffers, and what rows are padded to, in bytes."""


def round_up(value: int, step: int) -> int:
    return -(-value // step) * step


def row_length(n: int, size: int) -> int:
    """Elements from one row to the next: whole vectors may be read and written past the end."""
    lanes = LINE // size
    if n >= lanes:
        return round_up(n, lanes)
    return max(1 << max(0, n - 1).bit_length(), 16 // size)


def strides_for(shape: tuple[int, ...], size: int, fastest: int | None = None) -> tuple[int, ...]:
    """Row-major strides, with another dimension moved to the end if asked for."""
    order = [d for d in range(len(shape)) if d != fastest]
    if fastest is not None:
        order.append(fastest)
    strides = [0] * len(shape)
    step = 1
    for d in reversed(order):
        strides[d] = step
        step *= row_length(shape[d], size) if d == order[-1] else shape[d]
    return tuple(strides)


@dataclass(eq=False)
class Buffer:
    """A tile in memory: element (i, ...) at ``base + sum(i * stride)``, strides in elements."""

    base: Val
    elem: ScalarType
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = -1
    nbytes: int = 0
    padded: bool = True
    """Whole vectors may be written past the end of a row; not so for a part of another buffer."""

    def unit_dim(self) -> int | None:
        """The dimension along which elements are neighbours."""
        found = [d for d, s in enumerate(self.strides) if s == 1 and self.shape[d] != 1]
        return found[-1] if found else None


class Arena:
    """Hands out pieces of the scratch area; all sizes are known when compiling."""

    def __init__(self, w: Writer) -> None:
        self.w = w
        self.size = 0
        self.free: list[tuple[int, int]] = []

    def take(self, nbytes: int) -> int:
        """Offset of a free piece: the smallest that is large enough, else fresh space."""
        need = max(LINE, round_up(nbytes, LINE))
        fits = [(size, at) for at, size in self.free if size >= need]
        if fits:
            size, at = min(fits)
            self.free.remove((at, size))
            if size > need:
                self.free.append((at + need, size - need))
            return at
        at = self.size
        self.size += need
        return at

    def give(self, offset: int, nbytes: int) -> None:
        """Return a piece; neighbours that are free as well are joined."""
        at, size = offset, max(LINE, round_up(nbytes, LINE))
        for other in list(self.free):
            if other[0] + other[1] == at:
                self.free.remove(other)
                at, size = other[0], size + other[1]
            elif at + size == other[0]:
                self.free.remove(other)
                size += other[1]
        self.free.append((at, size))

    def address(self, offset: int) -> Val:
        w = self.w
        return w.gep("i8", Val("%scratch", "ptr", w.root), w.const(offset, "i64"))

    def tile(self, shape: tuple[int, ...], elem: ScalarType, fastest: int | None = None) -> Buffer:
        """A buffer for a tile."""
        size = size_of(elem)
        strides = strides_for(shape, size, fastest)
        order = sorted(range(len(shape)), key=lambda d: strides[d])
        rows = prod(shape[d] for d in order[1:])
        count = rows * row_length(shape[order[0]], size)
        return self.raw(count * size, elem, shape, strides)

    def raw(
        self, nbytes: int, elem: ScalarType, shape: tuple[int, ...], strides: tuple[int, ...]
    ) -> Buffer:
        """A buffer of a given layout."""
        nbytes = max(LINE, nbytes)
        offset = self.take(nbytes)
        return Buffer(self.address(offset), elem, shape, strides, offset, nbytes)

    def release(self, buffer: Buffer) -> None:
        if buffer.offset >= 0:
            self.give(buffer.offset, buffer.nbytes)
