"""Conversions inside of warps."""

from __future__ import annotations

import random

import numpy as np
import pytest

pytest.importorskip("tegula_cuda")

from simt import machine

from tegula.codegen.simt.layout import Layout, blocked
from tegula.codegen.simt.matrix import result_layout, tiling
from tegula.codegen.simt.shuffles import Shuffles, _beside, shuffles
from tegula_cuda.matrix import units
from tegula_cuda.target import features_of, resolve

UNITS = units(features_of(resolve("sm_90a")))


def carried_out(way: Shuffles, registers: np.ndarray) -> np.ndarray:
    """What the exchange makes of registers [threads, registers]."""
    x = registers.copy()
    threads = np.arange(len(x))
    for i, j in way.swaps:
        upper = (threads >> i & 1)[:, None] == 1
        low = [n for n in range(x.shape[1]) if not n >> j & 1]
        high = [n | 1 << j for n in low]
        got = np.where(upper, x[:, low], x[:, high])[threads ^ 1 << i]
        x[:, low], x[:, high] = np.where(upper, got, x[:, low]), np.where(upper, x[:, high], got)
    if way.fetch is not None:
        lane = sum((threads >> i & 1) * f for i, f in enumerate(way.fetch))
        x = x[(threads & ~31) | lane]
    return x[:, list(way.picks)]


def check(source: Layout, target: Layout, bits: int) -> Shuffles:
    way = shuffles(source, target, bits)
    assert way is not None
    assert (carried_out(way, machine.held(source)) == machine.held(target)).all()
    groups = {tuple(_beside(n, way)) for n in range(source.registers)
              if not any(n >> j & 1 for j in way.together)}  # fmt: skip
    assert sorted(n for g in groups for n in g) == list(range(source.registers))
    assert len(groups) == source.registers >> len(way.together)
    return way


@pytest.mark.parametrize("seed", range(30))
def test_elements_reach_their_lane(seed: int) -> None:
    rng = random.Random(seed)
    more = rng.randint(0, 4)
    places = [1 << i for i in range(5 + 2 + more)]
    warp = tuple(places.pop(rng.randrange(len(places))) for _ in range(2))
    one, other = (rng.sample(places, len(places)) for _ in range(2))
    shape = (1 << 7 + more,)
    source = Layout(shape, tuple(one[5:]), tuple(one[:5]), warp)
    target = Layout(shape, tuple(other[5:]), tuple(other[:5]), warp)
    way = check(source, target, rng.choice([8, 16, 32, 64]))
    assert len(way.swaps) == len(set(one[:5]) & set(other[5:]))


def test_copies_are_made_by_fetching() -> None:
    source = Layout((8,), (), (1, 2, 4, 0, 0), (0,))
    target = Layout((8,), (), (0, 0, 1, 2, 4), (0,))
    assert check(source, target, 32).swaps == ()


def test_factors_of_8_bits_from_results() -> None:
    unit = UNITS["f8e4nv", "f8e4nv", "f32"][0]
    scores = result_layout(unit, (64, 64), 4, True)
    cut = tiling(unit, result_layout(unit, (64, 64), 4, True), 64)
    assert cut is not None
    way = check(scores, cut.a, 8)
    assert len(way.swaps) == 1
    assert len(way.together) == 2


def test_other_warps_are_out_of_reach() -> None:
    assert shuffles(blocked((64, 64), 4, 32, 4), blocked((64, 64), 4, 32, 4, (0, 1)), 16) is None
    source = Layout((8,), (4,), (1, 2, 0, 0, 0), ())
    assert shuffles(source, Layout((8,), (5,), (1, 2, 0, 0, 0), ()), 32) is None
