"""Conversions through shared memory: every element arrives, and no bank is met twice."""

from __future__ import annotations

import random

import pytest

pytest.importorskip("tegula_cuda")

from simt import machine

from tegula.codegen.simt.layout import Layout, Span, blocked, replicated
from tegula.codegen.simt.matrix import result_layout, tiling
from tegula.codegen.simt.swizzle import Exchange, apart, completion, exchange, intersection, way_of
from tegula_cuda.matrix import units
from tegula_cuda.target import features_of, resolve

UNITS = units(features_of(resolve("sm_90a")))


def layouts_of(shape: tuple[int, int], size: int, warps: int) -> dict[str, Layout]:
    """Layouts of all sorts for a tile."""
    rows, columns = shape
    out = {}
    for vector in (1, 2, 16 // size):
        for order in ((1, 0), (0, 1)):
            if vector <= shape[order[0]]:
                out[f"blocked{vector}{order}"] = blocked(shape, vector, 32, warps, order)
    out["replicated"] = replicated(shape, 32, warps)
    names = {2: "f16", 1: "i8", 4: "f32", 8: "f64"}[size]
    sums = {"i8": "i32", "f64": "f64"}.get(names, "f32")
    unit = UNITS[names, names, sums][0]
    for tall in (False, True):
        out[f"c{tall}"] = result_layout(unit, shape, warps, tall)
        found = tiling(unit, result_layout(unit, (rows, 32), warps, tall), columns)
        assert found is not None
        out[f"a{tall}"] = found.a
        found = tiling(unit, result_layout(unit, (32, columns), warps, tall), rows)
        assert found is not None
        out[f"b{tall}"] = found.b
    return out


def check(source: Layout, target: Layout, size: int, loads: bool, stores: bool) -> Exchange:
    way = exchange(source, target, size, loads, stores)
    written = machine.cells(way.memory, way.write, source, size)
    read = machine.cells(way.memory, way.read, target, size)
    there = dict(zip(written.reshape(-1).tolist(), machine.held(source).reshape(-1).tolist()))
    assert len(there) == len(set(there.values()))
    arrived = [there[p] for p in read.reshape(-1).tolist()]
    assert arrived == machine.held(target).reshape(-1).tolist()
    assert max(there) < way.memory.nbytes
    return way


@pytest.mark.parametrize("size", [1, 2, 4, 8])
@pytest.mark.parametrize("shape", [(64, 32), (16, 128), (8, 8), (128, 64)])
def test_every_element_arrives_without_conflicts(shape: tuple[int, int], size: int) -> None:
    layouts = layouts_of(shape, size, 4)
    pairs = [(a, b) for a in layouts for b in layouts if a != b]
    for one, other in random.Random(size).sample(pairs, 20):
        source, target = layouts[one], layouts[other]
        for rows in (False, True):
            way = check(source, target, size, rows, rows)
            for side, layout in ((way.write, source), (way.read, target)):
                found = machine.conflicts(way.memory, side, layout, size)
                assert found == 0, (one, other, side)


@pytest.mark.parametrize("seed", range(12))
def test_layouts_of_any_kind(seed: int) -> None:
    rng = random.Random(seed)
    bits = rng.randint(3, 11)
    size = rng.choice([1, 2, 4, 8])

    def made() -> Layout:
        while True:
            vectors = [rng.randrange(1 << bits) for _ in range(bits + 7)]
            register = [v for v in vectors[: rng.randint(0, bits)] if v]
            if Span(register).rank < len(register):
                continue
            lane = vectors[len(register) : len(register) + 5]
            warp = vectors[len(register) + 5 : len(register) + 7]
            found = Layout((1 << bits,), tuple(register), tuple(lane), tuple(warp))
            if Span((*register, *lane, *warp)).rank == bits:
                return found

    check(made(), made(), size, True, True)


def test_factors_of_16_bits_come_by_matrix_loads() -> None:
    unit = UNITS["f16", "f16", "f32"][0]
    found = tiling(unit, result_layout(unit, (128, 128), 4, False), 64)
    assert found is not None
    loaded = blocked((128, 64), 8, 32, 4)
    assert exchange(loaded, found.a, 2, True, True).read.kind == "matrix"
    assert exchange(loaded, found.a, 2, True, True).write.vector == 3
    loaded = blocked((64, 128), 8, 32, 4)
    assert exchange(loaded, found.b, 2, True, True).read.kind == "transposed"
    loaded = blocked((64, 128), 8, 32, 4, (0, 1))
    assert exchange(loaded, found.b, 2, True, True).read.kind == "matrix"


def test_results_of_16_bits_leave_by_matrix_stores() -> None:
    unit = UNITS["f16", "f16", "f32"][0]
    made = result_layout(unit, (128, 128), 4, False)
    way = exchange(made, blocked((128, 128), 8, 32, 4), 2, True, True)
    assert (way.write.kind, way.read.vector) == ("matrix", 3)
    way = exchange(made, blocked((128, 128), 8, 32, 4), 2, True, False)
    assert (way.write.kind, way.read.vector) == ("plain", 3)


def test_subspaces() -> None:
    rng = random.Random(1)
    for _ in range(100):
        p = [rng.randrange(1, 256) for _ in range(rng.randint(1, 4))]
        q = [rng.randrange(1, 256) for _ in range(rng.randint(1, 4))]
        common = intersection(p, q)
        both = {x for x in range(256) if x in Span(p) and x in Span(q)}
        assert both == {x for x in range(256) if x in Span(common)}
        count = 8 - max(Span(p).rank, Span(q).rank)
        p, q = (completion((), vectors) for vectors in (p, q))
        rows = apart(p, q, [1 << i for i in range(8)], count)
        assert Span(rows).rank == count
        assert intersection(rows, p) == intersection(rows, q) == []


def test_way_of_a_given_arrangement() -> None:
    from tegula.codegen.simt.buffers import Buffer
    from tegula.ir.types import f16

    unit = UNITS["f16", "f16", "f32"][0]
    found = tiling(unit, result_layout(unit, (128, 128), 4, False), 64)
    assert found is not None
    for layout, fast, kind in ((found.a, 1, "matrix"), (found.b, 1, "transposed"),
                               (found.b, 0, "matrix")):  # fmt: skip
        buffer = Buffer(layout.shape, f16, fast)
        way = way_of(buffer, layout, 2, True)
        assert way.kind == kind
        assert machine.conflicts(buffer, way, layout, 2) == 0
        cells = machine.cells(buffer, way, layout, 2)
        expected = [buffer.offset(i) for i in machine.held(layout).reshape(-1).tolist()]
        assert cells.reshape(-1).tolist() == expected
