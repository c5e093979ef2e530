"""A unit for products that no matrix instruction makes: every lane multiplies a few elements.

Lanes form a grid over the result; each reads the rows and columns that cross in its elements, so
that factors are copied along the grid. Everything else is as with a matrix instruction.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from math import prod
from typing import TYPE_CHECKING

from tegula.codegen.simt.layout import Layout, log2
from tegula.codegen.simt.matrix import MatrixUnit
from tegula.ir.types import DType, f32, f64

if TYPE_CHECKING:
    from tegula.codegen.loops.text import Val, Writer

SIDE = 4
"""Rows and columns of one lane."""
DEPTH = 4
"""Elements along the common axis that are read at once."""


def plain_unit(e: DType, shape: Sequence[int], lanes: int, warps: int, longest: int
               ) -> MatrixUnit | None:
    """The unit for a product [.., m, n, k] whose sums are of type `e`; None where a thread would
    have more than `longest` multiplications."""
    *batch, m, n, k = shape
    if e.is_float and e not in (f32, f64):
        return None
    share = max(1, prod(batch) * m * n // (lanes * warps))
    if share * k > longest:
        return None
    columns = min(SIDE, share, n)
    rows = min(SIDE, max(1, share // columns), m)
    total = log2(lanes)
    down = min(log2(m // rows), (total + 1) // 2)
    across = min(log2(n // columns), total - down)
    down = min(log2(m // rows), total - across)
    return _unit(e, log2(rows), log2(columns), down, across, total, log2(min(DEPTH, k)))


@lru_cache(maxsize=128)
def _unit(e: DType, rows: int, columns: int, down: int, across: int, lanes: int, deep: int
          ) -> MatrixUnit:
    """`rows`, `columns` and `deep`: bits of the number of a lane's registers; `down` and `across`:
    bits of the lane's number."""
    m, n, k = rows + down, columns + across, deep
    in_row = [1 << i for i in range(max(m, n, k))]

    def along(shift: int, first: int, count: int) -> list[int]:
        return [x << shift for x in in_row[first : first + count]]

    rest = (0,) * (lanes - down - across)
    still_down, still_across = (0,) * down, (0,) * across
    a = Layout((1 << m, 1 << k), (*along(0, 0, k), *along(k, 0, rows)),
               (*still_across, *along(k, rows, down), *rest), ())
    b = Layout((1 << k, 1 << n), (*along(0, 0, columns), *along(n, 0, k)),
               (*along(0, columns, across), *still_down, *rest), ())
    c = Layout((1 << m, 1 << n), (*along(0, 0, columns), *along(n, 0, rows)),
               (*along(0, columns, across), *along(n, rows, down), *rest), ())
    emit = partial(_multiply, 1 << rows, 1 << columns, 1 << deep)
    return MatrixUnit("plain", (e, e), e, a, b, c, emit, packs=False)


def _multiply(rows: int, columns: int, deep: int, w: Writer, a: Sequence[Val], b: Sequence[Val],
              c: Sequence[Val]) -> list[Val]:
    out = list(c)
    for k in range(deep):
        for i in range(rows):
            for j in range(columns):
                x, y, at = a[i * deep + k], b[k * columns + j], i * columns + j
                out[at] = _add_product(w, x, y, out[at])
    return out


def _add_product(w: Writer, x: Val, y: Val, z: Val) -> Val:
    if z.ty.startswith("i"):
        return w.add(z, w.mul(x, y))
    return w.call(f"llvm.fma.{'f32' if z.ty == 'float' else 'f64'}", z.ty, x, y, z)
