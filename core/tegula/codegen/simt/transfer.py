"""Registers to shared memory and back, in the ways that `swizzle` finds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tegula.codegen.loops.text import Val
from tegula.codegen.simt.elementwise import from_memory, memory_type, to_memory
from tegula.codegen.simt.hooks import SHARED, packed
from tegula.codegen.simt.layout import Layout, log2
from tegula.codegen.simt.swizzle import Arrangement, Way
from tegula.ir.types import ScalarType

if TYPE_CHECKING:
    from tegula.codegen.simt.kernel import Emitter


def put_tile(k: Emitter, base: Val, memory: Arrangement, way: Way, layout: Layout,
             regs: Sequence[Val], e: ScalarType) -> None:
    """Write a tile to the place that `base` points at; one of the threads that hold an element
    writes it."""
    owner = k.owner(layout)
    pointers = places(k, base, memory, way, layout)
    branch = k.w.begin_if(owner) if owner is not None else None
    for p, numbers in zip(pointers, accesses(way)):
        values = [regs[n] for n in numbers]
        if way.kind == "plain":
            k.put(p, values, e)
        else:
            words = _words(k, [to_memory(k.w, x, e) for x in values], way)
            k.simt.store_matrices(k.w, p, words, way.kind == "transposed")
    if branch is not None:
        k.w.end_if(branch)


def get_tile(k: Emitter, base: Val, memory: Arrangement, way: Way, layout: Layout,
             e: ScalarType) -> list[Val]:
    """The registers of a tile from the place that `base` points at."""
    tile = Waiting(k, base, memory, way, layout, e)
    return [tile[r] for r in range(layout.registers)]


class Waiting:
    """The registers of a tile that are read from shared memory when they are asked for."""

    def __init__(self, k: Emitter, base: Val, memory: Arrangement, way: Way, layout: Layout,
                 e: ScalarType) -> None:
        self.k, self.way, self.e = k, way, e
        self.known: dict[int, Val] = {}
        self.access = {
            n: (p, numbers)
            for p, numbers in zip(places(k, base, memory, way, layout), accesses(way))
            for n in numbers
        }

    def __len__(self) -> int:
        return len(self.access)

    def __getitem__(self, number: int) -> Val:
        found = self.known.get(number)
        if found is None:
            p, numbers = self.access[number]
            self.known |= zip(numbers, self._read(p, len(numbers)))
            found = self.known[number]
        return found

    def _read(self, p: Val, count: int) -> list[Val]:
        k, way, e = self.k, self.way, self.e
        if way.kind == "plain":
            return k.get(p, count, e)
        words = k.simt.load_matrices(k.w, p, way.count, way.kind == "transposed")
        return [from_memory(k.w, x, e) for x in _elements(k, words, memory_type(e))]


def accesses(way: Way) -> list[tuple[int, ...]]:
    """The registers of each instruction's elements."""
    size = way.count << way.vector
    return [way.registers[i : i + size] for i in range(0, len(way.registers), size)]


def pointing(way: Way, layout: Layout) -> tuple[int, ...]:
    """What each bit of the number of a thread adds to the index at which it points."""
    if way.kind == "plain":
        return layout.threads
    word = way.vector
    matrix = layout.register[word : word + log2(way.count)]
    if way.kind == "matrix":
        row = layout.lane[2:5]
    else:
        row = (layout.register[0], *layout.lane[:2])
    return (*row, *matrix, *(0 for _ in range(2 - len(matrix))), *layout.warp)


def places(k: Emitter, base: Val, memory: Arrangement, way: Way, layout: Layout) -> list[Val]:
    """Where each instruction of a thread points."""
    w = k.w
    bases = [memory.offset(b) for b in pointing(way, layout)]
    used = 0
    for b in bases:
        used |= b
    mine = k.mine(bases)
    out = []
    for numbers in accesses(way):
        at = memory.offset(layout.offsets[numbers[0]])
        here = mine
        if at & used:
            here = w.pure("i32", "xor i32 {}, {}", mine, k.i32(at & used))
        p = w.pure(SHARED, f"getelementptr i8, {SHARED} {{}}, i32 {{}}", base, here)
        if at & ~used:
            p = w.pure(SHARED, f"getelementptr i8, {SHARED} {{}}, i32 {at & ~used}", p)
        out.append(p)
    return out


def _words(k: Emitter, values: Sequence[Val], way: Way) -> list[Val]:
    """Neighbouring elements as words of 32 bits."""
    w, n = k.w, 1 << way.vector
    out = []
    for i in range(0, len(values), n):
        v = packed(w, values[i : i + n])
        out.append(v if v.ty == "i32" else w.pure("i32", f"bitcast {v.ty} {{}} to i32", v))
    return out


def _elements(k: Emitter, words: Sequence[Val], ty: str) -> list[Val]:
    """The elements of words."""
    w = k.w
    n = {"half": 2, "i16": 2, "i8": 4}.get(ty, 1)
    if n == 1:
        return [x if ty == "i32" else w.pure(ty, f"bitcast i32 {{}} to {ty}", x) for x in words]
    vec, out = f"<{n} x {ty}>", []
    for x in words:
        v = w.pure(vec, f"bitcast i32 {{}} to {vec}", x)
        out += [w.pure(ty, f"extractelement {vec} {{}}, i32 {i}", v) for i in range(n)]
    return out
