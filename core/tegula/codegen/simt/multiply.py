"""Products by a matrix unit: one instruction for each small piece, sums kept in registers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tegula.codegen.loops.convert import cast
from tegula.codegen.loops.text import Val, wrap
from tegula.codegen.simt.hooks import packed, zero_of
from tegula.codegen.simt.layout import Layout
from tegula.codegen.simt.matrix import MatrixUnit, Product, Tiling, placed
from tegula.ir.core import Op, Value
from tegula.ir.types import DType, bf16, elem_of, f32

if TYPE_CHECKING:
    from tegula.codegen.simt.kernel import Emitter


def multiply(k: Emitter, op: Op, product: Product, tiling: Tiling) -> list[Val]:
    """The registers of acc + a @ b, all operands in the layouts of the tiling."""
    a, b, acc = op.operands
    unit, e = product.unit, elem_of(acc.type)
    assert isinstance(e, DType)
    sums = Sums(unit, tiling, [cast(k.l, x, e, unit.acc) for x in k.regs(acc)])
    left = Factor(k, product, a, unit.a, tiling.a, len(tiling.a_bits), 0)
    right = Factor(k, product, b, unit.b, tiling.b, len(tiling.b_bits), 1)
    for deep in range(1 << tiling.depth_bits):
        for i, j in product.terms:
            for tile in range(1 << len(tiling.tiles)):
                x = left.words(deep, _picked(tile, tiling.a_bits), i)
                y = right.words(deep, _picked(tile, tiling.b_bits), j)
                sums.put(tile, unit.emit(k.w, x, y, sums.get(tile)))
    return [cast(k.l, x, unit.acc, e) for x in sums.regs]


def _picked(number: int, bits: Sequence[int]) -> int:
    """The named bits of a number, side by side."""
    return sum((number >> b & 1) << i for i, b in enumerate(bits))


def _kept(fragment: Layout, shape: tuple[int, ...]) -> list[int | None]:
    """For each register bit of a fragment its number in the tile's layout, None where the tile is
    smaller."""
    out: list[int | None] = []
    for basis in fragment.register:
        there = placed(fragment, shape, basis)
        out.append(sum(x is not None for x in out) if there else None)
    return out


class Sums:
    """The registers of the result, by instructions."""

    def __init__(self, unit: MatrixUnit, tiling: Tiling, regs: list[Val]) -> None:
        self.regs = regs
        kept = _kept(unit.c, tiling.c.shape)
        bits = sum(x is not None for x in kept)
        self.size = 1 << bits
        self.numbers = [
            sum((r >> i & 1) << at for i, at in enumerate(kept) if at is not None)
            for r in range(unit.c.registers)
        ]

    def get(self, tile: int) -> list[Val]:
        return [self.regs[tile * self.size + n] for n in self.numbers]

    def put(self, tile: int, values: Sequence[Val]) -> None:
        for n, x in reversed(list(zip(self.numbers, values))):
            self.regs[tile * self.size + n] = x


class Factor:
    """A factor's registers as the words that instructions take."""

    def __init__(self, k: Emitter, product: Product, v: Value, fragment: Layout, layout: Layout,
                 tile_bits: int, side: int) -> None:
        self.k = k
        self.product = product
        e, to = elem_of(v.type), product.unit.factors[side]
        assert isinstance(e, DType)
        self.source, self.dtype = e, to
        self.v = v
        self.kept = _kept(fragment, layout.shape)
        self.bits = sum(x is not None for x in self.kept)
        self.tile_bits = tile_bits
        self.fragment = fragment
        self.missing = [
            self._deep(fragment, b, side) and not placed(fragment, layout.shape, b)
            for b in fragment.register
        ]
        self.idle = sum(
            1 << i for i, b in enumerate(fragment.lane)
            if self._deep(fragment, b, side) and not placed(fragment, layout.shape, b)
        )
        self._parts: dict[int, list[Val]] = {}
        self._words: dict[tuple[int, int], list[list[Val]]] = {}

    @staticmethod
    def _deep(fragment: Layout, basis: int, side: int) -> bool:
        """Whether a basis runs along the common axis."""
        along_last = basis < fragment.shape[1]
        return bool(basis) and along_last == (side == 0)

    def words(self, deep: int, tile: int, part: int) -> list[Val]:
        """The words of one instruction."""
        key = (deep, tile)
        if key not in self._words:
            number = tile << self.bits | deep << self.bits + self.tile_bits
            columns = [self._element(number, r) for r in range(self.fragment.registers)]
            self._words[key] = [
                self._packed([c[i] for c in columns]) for i in range(self.product.parts)
            ]
        return self._words[key][part]

    def _packed(self, values: Sequence[Val]) -> list[Val]:
        return words_of(self.k, values) if self.product.unit.packs else list(values)

    def _element(self, number: int, register: int) -> list[Val]:
        """The parts of one element of a fragment."""
        for i, at in enumerate(self.kept):
            if register >> i & 1:
                if at is not None:
                    number |= 1 << at
                elif self.missing[i]:
                    zero = zero_of(self.k.w, self._parts_of(0)[0].ty)
                    return [zero] * self.product.parts
        return self._parts_of(number)

    def _parts_of(self, number: int) -> list[Val]:
        found = self._parts.get(number)
        if found is None:
            (x,) = self.k.some(self.v, [number])
            x = cast(self.k.l, x, self.source, self._first())
            found = parts_of(self.k, x, self.product, self.dtype)
            if self.idle:
                w = self.k.w
                here = w.pure("i32", "and i32 {}, {}", self.k.thread, self.k.i32(self.idle))
                inside = w.icmp("eq", here, self.k.i32(0))
                found = [w.select(inside, y, zero_of(w, y.ty)) for y in found]
            self._parts[number] = found
        return found

    def _first(self) -> DType:
        """The type that is cut into parts."""
        cut = self.product.unit.shorten is not None or self.product.parts > 1
        return f32 if cut else self.dtype


def parts_of(k: Emitter, x: Val, product: Product, to: DType) -> list[Val]:
    """A number as a sum of shorter ones, the largest first; just the number where nothing is to be
    shortened."""
    short = product.unit.shorten
    if product.parts == 1:
        return [short(k.w, x) if short is not None else x]
    w, out, rest = k.w, [], x
    shorten: Callable[[Val], tuple[Val, Val]]
    if to is bf16:
        def shorten(y: Val) -> tuple[Val, Val]:
            low = cast(k.l, y, f32, bf16)
            return low, cast(k.l, low, bf16, f32)
    else:
        assert short is not None

        def shorten(y: Val) -> tuple[Val, Val]:
            low = short(w, y)
            return low, low

    for number in range(product.parts):
        part, value = shorten(rest)
        out.append(part)
        if number + 1 < product.parts:
            left = w.pure("float", "fsub float {}, {}", rest, value)
            # What is left of an infinity is nothing, not a NaN.
            rest = w.select(w.pure("i1", "fcmp uno float {}, {}", left, left),
                            zero_of(w, "float"), left)
    return out


def words_of(k: Emitter, values: Sequence[Val]) -> list[Val]:
    """Elements side by side in words of 32 bits; wider ones by themselves."""
    w, (first, *_) = k.w, values
    per_word = {"half": 2, "i16": 2, "i8": 4}.get(first.ty, 1)
    if per_word == 1:
        return [k.raw(x) if x.ty == "float" else x for x in values]
    out = []
    for i in range(0, len(values), per_word):
        if all(x.ty[0] == "i" and x.const is not None for x in values[i : i + per_word]):
            out.append(w.const(_constant_word(values[i : i + per_word]), "i32"))
            continue
        v = packed(w, values[i : i + per_word])
        out.append(w.pure("i32", f"bitcast {v.ty} {{}} to i32", v))
    return out


def _constant_word(values: Sequence[Val]) -> int:
    bits = 32 // len(values)
    word = sum((int(x.const or 0) & (1 << bits) - 1) << i * bits for i, x in enumerate(values))
    return wrap(word, "i32")
