"""Conversions inside of a warp: lanes exchange registers.

A bit of the element's index that goes from the lane's number to the register's number changes
places with one that goes the other way: of each two registers a lane sends one and keeps one. What
is left is that lanes fetch from other lanes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from tegula.codegen.loops.text import Val
from tegula.codegen.simt.hooks import packed
from tegula.codegen.simt.layout import Layout, register_map

if TYPE_CHECKING:
    from tegula.codegen.simt.kernel import Emitter

WORD = 32


@dataclass(frozen=True)
class Shuffles:
    """Bits of the lane's number that change places with bits of the register's number, in order;
    then the lane from which each lane fetches, as what the bits of its number add (None: itself);
    then the register for each register of the result. `words` registers that always stay
    neighbours, the first ones, travel together."""

    swaps: tuple[tuple[int, int], ...]
    fetch: tuple[int, ...] | None
    picks: tuple[int, ...]
    together: tuple[int, ...]

    def cost(self, registers: int) -> float:
        """About as many instructions as the lanes issue."""
        words = registers >> len(self.together)
        return words * (2.0 * len(self.swaps) + (2.0 if self.fetch else 0.0))


@lru_cache(maxsize=512)
def shuffles(source: Layout, target: Layout, bits: int) -> Shuffles | None:
    """The way from one layout to another inside of each warp, for elements of so many bits; None
    where elements have to change warps, or not just places."""
    if source.warp != target.warp:
        return None
    lanes, registers = list(source.lane), list(source.register)
    there = [b for b in target.lane if b]
    known = [b for b in (*lanes, *registers) if b]
    wanted = [*there, *target.register]
    if len(set(known)) < len(known) or len(set(wanted)) < len(wanted):
        return None
    if not set(wanted) <= set(known):
        return None
    out = [b for b in lanes if b and b in target.register]
    into = [b for b in registers if b in there]
    if len(out) != len(into):
        return None
    swaps = []
    for b in into:
        place = target.lane.index(b)
        leaving = lanes[place] if lanes[place] in out else out[0]
        out.remove(leaving)
        i, j = lanes.index(leaving), registers.index(b)
        swaps.append((i, j))
        lanes[i], registers[j] = b, leaving
    fetch = tuple(1 << lanes.index(b) if b else 0 for b in target.lane)
    straight = all(f in (0, 1 << i) for i, f in enumerate(fetch)) and all(
        f or not lanes[i] for i, f in enumerate(fetch)
    )
    after = Layout(source.shape, tuple(registers), target.lane, target.warp)
    picks = register_map(after, target)
    if picks is None:
        return None
    moving = {j for _, j in swaps}
    stays = [j for j in range(len(registers)) if j not in moving]
    count = 0
    while bits << count + 1 <= WORD and count < len(stays):
        count += 1
    return Shuffles(tuple(swaps), None if straight else fetch, tuple(picks), tuple(stays[:count]))


def moved(k: Emitter, regs: Sequence[Val], way: Shuffles) -> list[Val]:
    """The registers of the result."""
    values = {n: _word(k, regs, n, way) for n in range(len(regs)) if not n & _mask(way)}
    w = k.w
    for i, j in way.swaps:
        upper = w.icmp("ne", k.bits(k.thread, i, 1), k.i32(0))
        for n in [n for n in values if not n >> j & 1]:
            low, high = values[n], values[n | 1 << j]
            got = k.shuffle(w.select(upper, low, high), "xor", k.i32(1 << i))
            values[n] = w.select(upper, got, low)
            values[n | 1 << j] = w.select(upper, high, got)
    if way.fetch is not None:
        lane = k.linear(k.lane, way.fetch)
        values = {n: k.shuffle(x, "idx", lane) for n, x in values.items()}
    out: dict[int, Val] = {}
    for n, x in values.items():
        out |= zip(_beside(n, way), _apart(k, x, regs[n].ty, 1 << len(way.together)))
    return [out[p] for p in way.picks]


def _mask(way: Shuffles) -> int:
    return sum(1 << j for j in way.together)


def _beside(number: int, way: Shuffles) -> list[int]:
    """The registers that travel with one."""
    out = [number]
    for j in way.together:
        out += [n | 1 << j for n in out]
    return out


def _word(k: Emitter, regs: Sequence[Val], number: int, way: Shuffles) -> Val:
    w = k.w
    values = [regs[n] for n in _beside(number, way)]
    if len(values) == 1:
        return values[0]
    if values[0].ty == "i1":
        values = [w.resize(x, "i8", False) for x in values]
    v = packed(w, values)
    bits = len(values) * (8 if values[0].ty == "i8" else 16)
    return w.pure(f"i{bits}", f"bitcast {v.ty} {{}} to i{bits}", v)


def _apart(k: Emitter, x: Val, ty: str, count: int) -> list[Val]:
    w = k.w
    if count == 1:
        return [x]
    part = "i8" if ty == "i1" else ty
    vec = f"<{count} x {part}>"
    v = w.pure(vec, f"bitcast {x.ty} {{}} to {vec}", x)
    values = [w.pure(part, f"extractelement {vec} {{}}, i32 {i}", v) for i in range(count)]
    return [w.icmp("ne", y, w.const(0, "i8")) for y in values] if ty == "i1" else values
