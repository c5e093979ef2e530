"""Matrix units: products whose factors and sums lie in registers, spread over the lanes of a warp.

An instruction multiplies small matrices; which element a lane's register holds is a layout of that
matrix (a *fragment*). A product of tiles is cut into such instructions. Its result decides how: the
layouts of both factors follow from the result's, so that an instruction finds its operands in the
warp that needs them. Sizes below those of an instruction are filled up: rows and columns by copies,
the common axis by zeros.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING

from tegula.codegen.simt.layout import Layout, axis_fields, log2
from tegula.ir.core import Op, Value
from tegula.ir.types import DType, bf16, elem_of, f16, f32, shape_of

if TYPE_CHECKING:
    from tegula.codegen.loops.text import Val, Writer
    from tegula.codegen.simt.hooks import Simt

Emit = Callable[["Writer", Sequence["Val"], Sequence["Val"], Sequence["Val"]], "list[Val]"]


@dataclass(frozen=True)
class MatrixUnit:
    """One instruction: c [m, n] += a [m, k] @ b [k, n], by the lanes of one warp.

    `a`, `b` and `c` are layouts without warps, every basis one bit of one axis. `emit` takes and
    gives registers in their order: the factors as words of 32 bits with the elements of the first
    registers side by side (elements of 32 bits and more by themselves, as they are), the sums as
    scalars of type `acc`. `shorten` rounds an f32 to what the instruction looks at.
    """

    name: str
    factors: tuple[DType, DType]
    acc: DType
    a: Layout
    b: Layout
    c: Layout
    emit: Emit
    shorten: Callable[[Writer, Val], Val] | None = None
    packs: bool = True
    """Whether `emit` takes words; else it takes elements."""

    @property
    def shape(self) -> tuple[int, int, int]:
        """m, n and k."""
        return (*self.c.shape, self.a.shape[1])  # type: ignore[return-value]


@dataclass(frozen=True)
class Product:
    """How a product of tiles is made by a unit: each factor is a sum of `parts` shorter numbers, of
    which the pairs in `terms` are multiplied, the smallest first."""

    unit: MatrixUnit
    parts: int = 1
    terms: tuple[tuple[int, int], ...] = ((0, 0),)


_TERMS = {1: ((0, 0),), 2: ((1, 0), (0, 1), (0, 0)),
          3: ((2, 0), (1, 1), (0, 2), (1, 0), (0, 1), (0, 0))}
_SHORTENED = {"tf32": (f32, 1), "tf32x3": (f32, 2), "bf16x3": (bf16, 2), "bf16x6": (bf16, 3)}
"""For each precision of f32: the type that the unit multiplies, and in how many parts."""


def choose(simt: Simt, a: DType, b: DType, acc: DType, precision: str, shape: Sequence[int],
           warps: int) -> Product | None:
    """The way to multiply factors of these types; None where no unit does it right. `shape` is the
    product's [.., m, n, k]."""
    from tegula.codegen.simt.plain_unit import plain_unit

    found = _native(simt, a, b, acc, precision, shape)
    if found is None:
        wide = f32 if acc.is_float and acc.bits < 32 else acc
        unit = plain_unit(wide, shape, simt.warp_size, warps, simt.products_written_out)
        found = Product(unit) if unit else None
    return found


def _native(simt: Simt, a: DType, b: DType, acc: DType, precision: str, shape: Sequence[int]
            ) -> Product | None:
    """The same, by matrix instructions only."""
    wide = f32 if acc.is_float and acc.bits < 32 else acc
    if a is f32 and acc.is_float:
        if precision not in _SHORTENED or wide is not f32:
            return None
        factor, parts = _SHORTENED[precision]
        unit = _best(simt.matrix_units(factor, factor, f32), shape)
        return Product(unit, parts, _TERMS[parts]) if unit else None
    unit = _best(simt.matrix_units(a, b, wide), shape)
    if unit is None and a.is_float and a.bits == 8:
        unit = _best(simt.matrix_units(f16, f16, wide), shape)  # exact for every kind
    return Product(unit) if unit else None


def _best(units: Sequence[MatrixUnit], shape: Sequence[int]) -> MatrixUnit | None:
    """The unit that wastes least, the largest of these."""

    def work(unit: MatrixUnit) -> int:
        return prod(max(have, size) for have, size in zip(shape[-3:], unit.shape))

    return min(units, key=lambda u: (work(u), -prod(u.shape)), default=None)


# -- tiles out of instructions


def placed(fragment: Layout, shape: Sequence[int], basis: int) -> int:
    """A basis of a fragment as one of a tile whose last two axes begin with it; 0 where the tile
    is smaller than the fragment."""
    i, j = basis >> log2(fragment.shape[1]), basis & fragment.shape[1] - 1
    rows, columns = shape[-2:]
    if i >= rows or j >= columns:
        return 0
    return i << log2(columns) | j


def split_warps(rows: int, columns: int, unit: MatrixUnit, warps: int, tall: bool
                ) -> tuple[int, int]:
    """How many of the warp's bits go to rows and to columns: so that the warps read least of the
    factors together, or all of them to rows."""
    m, n, _ = unit.shape
    row_bits, column_bits = log2(max(1, rows // m)), log2(max(1, columns // n))
    bits = min(log2(warps), row_bits + column_bits)
    choices = [
        (i, bits - i) for i in range(bits + 1) if i <= row_bits and bits - i <= column_bits
    ]
    if tall:
        return choices[-1]
    return min(choices, key=lambda c: ((rows >> c[0]) + (columns >> c[1]), -c[0]))


@lru_cache(maxsize=256)
def result_layout(unit: MatrixUnit, shape: tuple[int, ...], warps: int, tall: bool) -> Layout:
    """The layout of a product [.., m, n]. With `tall` a warp has whole rows where it can."""
    m, n, _ = unit.shape
    *batch, rows, columns = shape
    register = [x for b in unit.c.register if (x := placed(unit.c, shape, b))]
    lane = [placed(unit.c, shape, b) for b in unit.c.lane]
    (row_shift, row_bits), (_, column_bits) = axis_fields(shape)[-2:]
    over_rows = [1 << row_shift + i for i in range(log2(m), row_bits)]
    over_columns = [1 << i for i in range(log2(n), column_bits)]
    over_batch = [1 << row_shift + row_bits + i for i in range(log2(prod(batch)))]
    count = min(log2(warps), len(over_batch))
    to_rows, to_columns = split_warps(rows, columns, unit, warps >> count, tall)
    warp = [*over_rows[:to_rows], *over_columns[:to_columns], *over_batch[:count]]
    warp += [0] * (log2(warps) - len(warp))
    register += [*over_columns[to_columns:], *over_rows[to_rows:], *over_batch[count:]]
    return Layout(shape, tuple(register), tuple(lane), tuple(warp))


@dataclass(frozen=True)
class Tiling:
    """A product cut into instructions.

    `tiles` are what the register bits of the result beyond those of one fragment add to the result;
    number t of an instruction's result is made of its bits. `a_bits` and `b_bits` are the bits of t
    that change the factor.
    """

    unit: MatrixUnit
    a: Layout
    b: Layout
    c: Layout
    tiles: tuple[int, ...]
    a_bits: tuple[int, ...]
    b_bits: tuple[int, ...]
    depth_bits: int
    """Bits of the number of an instruction along the common axis."""


@lru_cache(maxsize=256)
def tiling(unit: MatrixUnit, c: Layout, depth: int) -> Tiling | None:
    """The tiling that belongs to a result's layout; None where the unit does not give it."""
    shape = c.shape
    *batch, rows, columns = shape
    first = [x for b in unit.c.register if (x := placed(unit.c, shape, b))]
    if list(c.register[: len(first)]) != first:
        return None
    if c.lane != tuple(placed(unit.c, shape, b) for b in unit.c.lane):
        return None
    tiles = c.register[len(first) :]
    n_bits, m_bits, k_bits = log2(columns), log2(rows), log2(depth)
    of_columns, of_rows = (1 << n_bits) - 1, (1 << m_bits) - 1 << n_bits
    if any(x & of_columns and x & ~of_columns for x in tiles):
        return None
    if any(x & of_rows and x & ~of_rows for x in tiles):
        return None

    def to_a(x: int) -> int:
        return x >> n_bits << k_bits

    def to_b(x: int) -> int:
        return x & of_columns | x >> n_bits + m_bits << n_bits + k_bits

    k = unit.shape[2]
    deep = [k << i for i in range(log2(max(1, depth // k)))]
    a_bits = tuple(i for i, x in enumerate(tiles) if to_a(x))
    b_bits = tuple(i for i, x in enumerate(tiles) if to_b(x))
    a = _factor(unit.a, (*batch, rows, depth), deep, [to_a(tiles[i]) for i in a_bits],
                map(to_a, c.warp))
    b = _factor(unit.b, (*batch, depth, columns), [x << n_bits for x in deep],
                [to_b(tiles[i]) for i in b_bits], map(to_b, c.warp))
    return Tiling(unit, a, b, c, tiles, a_bits, b_bits, len(deep))


def _factor(fragment: Layout, shape: tuple[int, ...], deep: Sequence[int], tiles: Sequence[int],
            warp: object) -> Layout:
    register = [x for b in fragment.register if (x := placed(fragment, shape, b))]
    lane = [placed(fragment, shape, b) for b in fragment.lane]
    return Layout(shape, (*register, *tiles, *deep), tuple(lane), tuple(warp))  # type: ignore[arg-type]


def product_of(op: Op, simt: Simt, warps: int) -> Product | None:
    """How a unit makes the op's product; None where none does."""
    a, b, acc = (elem_of(v.type) for v in op.operands)
    assert isinstance(a, DType) and isinstance(b, DType) and isinstance(acc, DType)
    shape = (*shape_of(op.operands[2].type), shape_of(op.operands[0].type)[-1])
    if 0 in shape:
        return None
    return choose(simt, a, b, acc, op.attrs["precision"], shape, warps)


def planned(op: Op, simt: Simt, layout: Layout) -> tuple[Product, Tiling] | None:
    """How a unit makes the op's product where its result has this layout."""
    product = product_of(op, simt, 1 << len(layout.warp))
    if product is None:
        return None
    found = tiling(product.unit, layout, shape_of(op.operands[0].type)[-1])
    return None if found is None else (product, found)


def feeds_rows(op: Op, uses: Mapping[Value, Sequence[Op]]) -> bool:
    """Whether whole rows of the op's result are wanted in one warp: a later product takes it as its
    left factor, or a reduction runs along its rows."""
    last = len(shape_of(op.results[0].type)) - 1
    seen: set[Value] = set()
    todo = [op.results[0]]
    while todo:
        v = todo.pop()
        if v in seen or len(seen) > _FOLLOWED:
            continue
        seen.add(v)
        for user in uses.get(v, ()):
            if user.name == "dot" and user.operands[0] is v:
                return True
            if user.name == "reduce" and user.attrs["axis"] == last:
                return True
            if user.opdef.elementwise:
                todo += user.results
    return False


_FOLLOWED = 64
"""Values that `feeds_rows` looks at."""

__all__ = ["MatrixUnit", "Product", "Tiling", "choose", "feeds_rows", "planned", "product_of",
           "result_layout", "split_warps", "tiling"]
