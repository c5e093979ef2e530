"""Indices that leave their type along a row: values, masks, addresses, whole tiles."""

from __future__ import annotations

import numpy as np
import pytest
from cpu.lowering import Maker, check, normal, zeros

from tegula import ir
from tegula.ir import Value
from tegula.ir.types import DTYPES

LARGEST = (1 << 31) - 1
N = 70
STARTS = [0, 1000, LARGEST - 200, LARGEST - 69, LARGEST - 68, LARGEST - 40, LARGEST - 5, LARGEST]
NARROW = {"i8": np.int8, "i16": np.int16, "u8": np.uint8, "u16": np.uint16, "u32": np.uint32}


def line(b: Maker, start: Value, step: int = 1, n: int = N) -> Value:
    """start + step * (0, 1, 2, ...)"""
    t = start.type
    i = b.cast(b.index((n,)), to=t) if t is not ir.i32 else b.index((n,))
    i = i if step == 1 else b.mul(i, b.full(step, (n,), t))
    return b.add(b.splat(start, shape=(n,)), i)


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("step", [1, 3, -1, 1 << 25, 1 << 30])
def test_values(start: int, step: int) -> None:
    """What is widened after it has wrapped around, as a sum, difference, product and shift."""
    def body(b, o, s):
        i = line(b, s if step > 0 else b.neg(s), step)
        forms = [
            i,
            b.sub(b.full(-5, (N,), ir.i32), i),
            b.mul(i, b.splat(s, shape=(N,))),
            b.shl(i, b.full(3, (N,), ir.i32)),
        ]
        for k, v in enumerate(forms):
            b.put(b.addptr(o, b.constant(k * N, ir.i32)), b.cast(v, to=ir.i64))

    check({"o": zeros(4 * N, np.int64), "s": start}, body)


@pytest.mark.parametrize("name", NARROW)
def test_narrow_values(name: str) -> None:
    t, dtype = ir.DTYPES[name], NARROW[name]
    for start in (t.max_value - 30, t.min_value, 100):

        def body(b, o, s):
            i = line(b, s)
            b.put(o, b.cast(i, to=ir.i64))
            b.put(b.addptr(o, b.constant(N, ir.i32)),
                  b.cast(b.mul(i, b.splat(s, shape=(N,))), to=ir.i64))
            low = b.cast(b.cast(i, to=ir.i32), to=ir.i64)
            b.put(b.addptr(o, b.constant(2 * N, ir.i32)), low)

        check({"o": zeros(3 * N, np.int64), "s": dtype(start)}, body)


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("pred", ["lt", "le", "gt", "ge"])
def test_masks(start: int, pred: str) -> None:
    """A mask of an index that is not the address."""
    for limit in (-LARGEST, 0, LARGEST - 20, LARGEST):

        def body(b, x, o, s, n):
            mask = b.cmp(line(b, s), b.splat(n, shape=(N,)), pred=pred)
            v = b.load(b.at(x, b.index((N,))), mask=mask, other=b.full(7.0, (N,), ir.f32))
            b.put(o, v)
            b.put(b.addptr(o, b.constant(N, ir.i32)), v, mask=mask)
            b.put(b.addptr(o, b.constant(2 * N, ir.i32)), b.cast(mask, to=ir.f32))

        check({"x": normal(N), "o": zeros(3 * N), "s": start, "n": limit}, body)


WIDE = [0, (1 << 63) - 1, (1 << 63) - 40, -(1 << 63), -(1 << 62) - 9, (1 << 62) + 5]


@pytest.mark.parametrize("start", WIDE)
@pytest.mark.parametrize("pred", ["lt", "le", "gt", "ge"])
def test_masks_of_64_bits(start: int, pred: str) -> None:
    for limit in WIDE:
        for step in (1, 3):

            def body(b, x, o, s, n, step=step):
                mask = b.cmp(line(b, s, step), b.splat(n, shape=(N,)), pred=pred)
                b.put(o, b.load(b.at(x, b.index((N,))), mask=mask), mask=mask)

            check({"x": normal(N), "o": zeros(N), "s": np.int64(start), "n": np.int64(limit)}, body)


@pytest.mark.parametrize("start", [LARGEST - 69, LARGEST - 68, LARGEST - 40, LARGEST])
@pytest.mark.parametrize("first", [False, True])
def test_addresses(start: int, first: bool) -> None:
    """Pointers moved as far as the offset lies, so that one side of the wrap is in the buffer."""
    def body(b, x, o, s):
        for k, cast in enumerate((False, True)):
            i = line(b, s)
            zero = b.full(0, (N,), ir.i32)
            mask = b.cmp(i, zero, pred="ge" if first else "lt")
            back = -(LARGEST - N) if first else LARGEST + 1
            offset = b.cast(i, to=ir.i64) if cast else i
            p = b.at(b.addptr(x, b.constant(back, ir.i64)), offset)
            v = b.load(p, mask=mask, other=b.full(-1.0, (N,), ir.f32))
            b.put(b.addptr(o, b.constant(k * N, ir.i32)), v)
            b.store(p, b.add(v, v), mask=mask)

    check({"x": normal(2 * N), "o": zeros(2 * N), "s": start}, body)


@pytest.mark.parametrize("stride", [1, 1 << 28, (1 << 30) + 1, -(1 << 29)])
def test_strides(stride: int) -> None:
    """A stride known only when the kernel runs: lanes that wrap to 0, the others masked off."""
    def body(b, x, o, s):
        i = b.mul(b.index((N,)), b.splat(s, shape=(N,)))
        mask = b.and_(b.cmp(i, b.full(0, (N,), ir.i32), pred="ge"),
                      b.cmp(i, b.full(N, (N,), ir.i32), pred="lt"))
        b.put(o, b.load(b.at(x, i), mask=mask))
        b.put(b.addptr(o, b.constant(N, ir.i32)), b.cast(b.cast(i, to=ir.i64), to=ir.f32))

    check({"x": normal(N), "o": zeros(2 * N), "s": stride}, body)


@pytest.mark.parametrize("row", [0, LARGEST - 12, LARGEST - 3, LARGEST])
@pytest.mark.parametrize("col", [0, LARGEST - 35, LARGEST - 10])
def test_two_dimensions(row: int, col: int) -> None:
    def body(b, x, o, r, c, n):
        shape = (13, 36)
        i = b.broadcast(b.expand_dims(line(b, r, 1, 13), axis=1), shape=shape)
        j = b.broadcast(b.expand_dims(line(b, c, 1, 36), axis=0), shape=shape)
        limit = b.splat(n, shape=shape)
        mask = b.and_(b.cmp(i, limit, pred="lt"), b.cmp(j, limit, pred="lt"))
        v = b.load(b.at(x, b.index(shape)), mask=mask)
        b.put(o, v, mask=mask)
        whole = b.addptr(o, b.constant(500, ir.i32))
        b.put(whole, b.cast(b.cast(b.add(i, j), to=ir.i64), to=ir.f32))

    for n in (100, LARGEST - 6, LARGEST):
        check({"x": normal(468), "o": zeros(1000), "r": row, "c": col, "n": n}, body)


@pytest.mark.parametrize("start", [3, LARGEST - 36, LARGEST - 35, LARGEST - 17])
def test_rows_that_begin_anywhere(start: int) -> None:
    """Rows from memory: each is looked at by itself."""
    shape = (9, 36)

    def body(b, x, rows, o, s):
        begin = b.broadcast(b.expand_dims(b.get(rows, (9,)), axis=1), shape=shape)
        j = b.broadcast(b.expand_dims(b.index((36,)), axis=0), shape=shape)
        at = b.add(begin, b.add(j, b.splat(s, shape=shape)))
        mask = b.cmp(at, b.full(0, shape, ir.i32), pred="lt")
        p = b.at(b.addptr(x, b.constant(LARGEST + 1, ir.i64)), at)
        b.put(o, b.load(p, mask=mask, other=b.full(-3.0, shape, ir.f32)))
        q = b.at(b.addptr(x, b.neg(b.cast(s, to=ir.i64))), at)
        b.put(b.addptr(o, b.constant(324, ir.i32)),
              b.load(q, mask=b.cmp(at, b.splat(s, shape=shape), pred="ge")))

    rows = np.array([0, 5, 17, 36, 1, 80, 30, 2, 19], np.int32)
    check({"x": normal(150), "rows": rows, "o": zeros(648), "s": start}, body)


def turned(b: Maker, i: Value, j: Value, shape: tuple[int, int]) -> tuple[Value, Value]:
    return (b.broadcast(b.expand_dims(i, axis=1), shape=shape),
            b.broadcast(b.expand_dims(j, axis=0), shape=shape))


@pytest.mark.parametrize("start", [0, 20, LARGEST - 31, LARGEST - 10])
def test_transposition(start: int) -> None:
    """Tiles that are moved by blocks, with rows or columns that wrap around."""
    shape = (32, 32)

    def body(b, x, o, s, n):
        k = b.rem(line(b, b.rem(s, n), 1, 32), b.splat(n, shape=(32,)))
        for q, (rows, cols) in enumerate(((k, b.index((32,))), (b.index((32,)), k))):
            i, j = turned(b, rows, cols, shape)
            at = b.add(b.mul(i, b.full(64, shape, ir.i32)), j)
            v = b.permute(b.load(b.at(x, at)), dims=(1, 0))
            b.put(b.addptr(o, b.constant(1024 * q, ir.i32)), v)
        i, j = turned(b, line(b, s, 1, 32), b.index((32,)), shape)
        at = b.add(b.mul(i, b.full(64, shape, ir.i32)), j)
        mask = b.cmp(b.cast(at, to=ir.u32), b.full(4096, shape, ir.u32), pred="lt")
        v = b.permute(b.load(b.at(x, at), mask=mask), dims=(1, 0))
        b.put(b.addptr(o, b.constant(2048, ir.i32)), v)

    check({"x": normal(4096), "o": zeros(3072), "s": start, "n": 40}, body)


@pytest.mark.parametrize("start", [0, LARGEST - 63, LARGEST - 30])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_operands_of_products(start: int, dtype: type) -> None:
    """What is packed, and rows that are read in place."""

    def body(b, x, o, s):
        p = b.addptr(x, b.constant(LARGEST + 1, ir.i64))
        tiles = []
        for shape in ((4, 64), (64, 32)):
            i, j = turned(b, b.index((shape[0],)), line(b, s, 1, shape[1]), shape)
            mask = b.cmp(j, b.full(0, shape, ir.i32), pred="lt")
            q = b.addptr(b.at(p, b.mul(i, b.full(64, shape, ir.i32))), j)
            tiles.append(b.load(q, mask=mask))
        b.put(o, b.dot(tiles[0], tiles[1], b.full(0.0, (4, 32), ir.f32)))

    x = np.random.default_rng(0).integers(-3, 4, 64 * 65).astype(dtype)
    check({"x": x, "o": zeros(128), "s": start}, body)


@pytest.mark.parametrize("columns", ["backwards", "bytes", "remainder", "forwards"])
@pytest.mark.parametrize(("m", "k", "n"), [(4, 64, 32), (6, 128, 64), (2, 256, 16)])
def test_rows_of_products_that_are_no_neighbours(columns: str, m: int, k: int, n: int) -> None:
    """A's rows are read in place only if they lie in memory as they are multiplied."""
    shape = (m, k)

    def body(b, x, y, o, s):
        j = b.index((k,))
        if columns == "backwards":
            j = b.sub(b.full(k - 1, (k,), ir.i32), j)
        elif columns == "bytes":
            j = b.add(b.cast(j, to=ir.u8), b.splat(b.cast(s, to=ir.u8), shape=(k,)))
            j = b.cast(j, to=ir.i32)
        elif columns == "remainder":
            j = b.rem(b.add(j, b.splat(s, shape=(k,))), b.full(250, (k,), ir.i32))
        i, j = turned(b, b.index((m,)), j, shape)
        a = b.load(b.at(x, b.add(b.mul(i, b.full(300, shape, ir.i32)), j)))
        b.put(o, b.dot(a, b.get(y, (k, n)), b.full(0.0, (m, n), ir.f32)))

    rng = np.random.default_rng(0)
    x, y = (rng.integers(-3, 4, size).astype(np.float32) for size in (300 * m + 300, k * n))
    check({"x": x, "y": y, "o": zeros(m * n), "s": 200}, body)


@pytest.mark.parametrize("start", [0, LARGEST - 60, LARGEST - 100])
def test_interleaved_tiles(start: int) -> None:
    def body(b, x, o, s):
        i = line(b, s, 1, 64)
        mask = b.cmp(i, b.full(0, (64,), ir.i32), pred="lt")
        p = b.at(b.addptr(x, b.constant(LARGEST + 1, ir.i64)), i)
        v = b.load(p, mask=mask)
        b.put(o, b.reshape(b.join(v, b.neg(v)), shape=(128,)))

    check({"x": normal(64), "o": zeros(128), "s": start}, body)


@pytest.mark.parametrize("start", [0, 5, LARGEST - 20, LARGEST - 95])
def test_tiles_flattened(start: int) -> None:
    """A tile of offsets read as one row."""
    shape = (6, 16)

    def body(b, x, o, s):
        i, j = turned(b, b.index((6,)), line(b, s, 1, 16), shape)
        at = b.add(b.mul(i, b.full(16, shape, ir.i32)), j)
        mask = b.cmp(at, b.full(0, shape, ir.i32), pred="lt")
        p = b.at(b.addptr(x, b.constant(LARGEST + 1, ir.i64)), at)
        flat = [b.reshape(v, shape=(96,)) for v in (p, mask)]
        b.put(o, b.load(flat[0], mask=flat[1]))
        b.put(b.addptr(o, b.constant(96, ir.i32)),
              b.cast(b.cast(b.reshape(at, shape=(96,)), to=ir.i64), to=ir.f32))

    check({"x": normal(200), "o": zeros(192), "s": start}, body)


def test_remainders_of_large_steps() -> None:
    def body(b, o, n):
        for k, step in enumerate((1 << 27, 1 << 31 - 1, 3)):
            i = b.mul(b.index((N,)), b.full(step, (N,), ir.i32))
            b.put(b.addptr(o, b.constant(k * N, ir.i32)), b.rem(i, b.splat(n, shape=(N,))))

    for n in (7, LARGEST, 1 << 30):
        check({"o": zeros(3 * N, np.int32), "n": n}, body)


def test_loops_that_advance_an_index() -> None:
    def body(b, o, s):
        def turn(i, at):
            b.store(b.at(o, b.add(b.index((N,)), b.splat(b.mul(i, b.constant(N, ir.i32)),
                                                         shape=(N,)))), b.cast(at, to=ir.i64))
            return b.add(at, b.full(30, (N,), ir.i32))

        block = b.region([ir.i32, ir.Tile((N,), ir.i32)], turn)
        b.for_(b.constant(0, ir.i32), b.constant(4, ir.i32), b.constant(1, ir.i32),
               [line(b, s)], block)

    check({"o": zeros(4 * N, np.int64), "s": LARGEST - 100}, body)


@pytest.mark.parametrize("kind", ["f32", "bf16"])
@pytest.mark.parametrize("n", [20, 33, 70, 100, 127, 128, 130])
def test_columns_of_products_repeat(n: int, kind: str) -> None:
    """Columns whose indices start again anywhere in the panels that a product packs."""
    depth, shape, e = 16, (16, 256), DTYPES[kind]

    def body(b, x, y, o, count):
        rows, columns = turned(b, b.index((depth,)), b.rem(
            b.index((shape[1],)), b.splat(count, shape=(shape[1],))), shape)
        right = b.load(b.at(y, b.add(b.mul(rows, b.splat(count, shape=shape)), columns)))
        left = b.get(x, (depth, depth))
        b.put(o, b.dot(b.cast(left, to=e), b.cast(right, to=e), b.full(0.0, shape, ir.f32)))

    check({"x": normal(depth * depth), "y": normal(depth * n), "o": zeros(shape[0] * shape[1]),
           "count": n}, body, tolerance=1e-5)
