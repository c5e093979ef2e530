"""Layout conversions: a tile moves to other registers and threads.

Nothing, a choice of registers, an exchange between lanes, or a way through shared memory. What is
read from there at places that are known only at run time lies in rows that are shifted a little
(`write_tile`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tegula.codegen.loops.text import Val
from tegula.codegen.simt.layout import Layout, register_map
from tegula.codegen.simt.registry import Context, lowers, shared_size
from tegula.codegen.simt.shuffles import Shuffles, moved, shuffles
from tegula.codegen.simt.swizzle import Exchange, exchange
from tegula.codegen.simt.transfer import Waiting, get_tile, put_tile
from tegula.ir.core import Op
from tegula.ir.types import ScalarType, elem_of

if TYPE_CHECKING:
    from tegula.codegen.simt.kernel import Emitter

PAD_EVERY = 128
"""Bytes after which a row of shared memory is shifted by one wide access, against conflicts."""
PAD = 16


def way_through(source: Layout, target: Layout, e: ScalarType, ctx: Context) -> Exchange:
    """How a tile moves through shared memory."""
    simt = ctx.simt
    return exchange(source, target, shared_size(e), simt.matrix_loads, simt.matrix_stores)


BARRIER_COST = 40
"""What waiting for all threads and for memory costs, in instructions."""


def way_inside(source: Layout, target: Layout, e: ScalarType, ctx: Context) -> Shuffles | None:
    """How a tile moves between the lanes of warps, where that is cheaper than shared memory."""
    way = shuffles(source, target, 8 * shared_size(e))
    if way is None or len(source.lane) != len(target.lane):
        return None
    through = way_through(source, target, e, ctx)
    cost = through.write.cost + through.read.cost + BARRIER_COST
    return way if way.cost(source.registers) * max(1, shared_size(e) // 4) <= cost else None


def _scratch(op: Op, ctx: Context) -> int:
    x, (v,) = op.operands[0], op.results
    source, target = ctx.layouts[x], ctx.layouts[v]
    if register_map(source, target) is not None:
        return 0
    if way_inside(source, target, elem_of(x.type), ctx) is not None:
        return 0
    return way_through(source, target, elem_of(x.type), ctx).memory.nbytes


@lowers("convert_layout", scratch=_scratch)
def _convert(k: Emitter, op: Op) -> None:
    x, (v,) = op.operands[0], op.results
    source, target = k.layout(x), k.layout(v)
    regs = k.regs(x)
    picks = register_map(source, target)
    if picks is not None:
        k.set(v, [regs[i] for i in picks])
        return
    e = elem_of(x.type)
    inside = way_inside(source, target, e, k.ctx)
    if inside is not None:
        k.set(v, moved(k, regs, inside))
        return
    way = way_through(source, target, e, k.ctx)
    base = k.shared(k.scratch(op))
    put_tile(k, base, way.memory, way.write, source, regs, e)
    if op in k.plan.later:
        k.waiting[v] = Waiting(k, base, way.memory, way.read, target, e)
        return
    k.barrier()
    k.set(v, get_tile(k, base, way.memory, way.read, target, e))


def padded_bytes(count: int, e: ScalarType) -> int:
    """Bytes that a tile takes in shared memory."""
    size = count * shared_size(e)
    return size + (size - 1) // PAD_EVERY * PAD


def byte_of(k: Emitter, index: Val, e: ScalarType) -> Val:
    """Where the element with an index lies, in bytes (i32)."""
    w, size = k.w, shared_size(e)
    linear = w.mul(index, k.i32(size))
    per_row = PAD_EVERY // size
    row = w.pure("i32", "lshr i32 {}, {}", index, k.i32(per_row.bit_length() - 1))
    return w.add(linear, w.mul(row, k.i32(PAD)))


def run_length(layout: Layout, e: ScalarType) -> int:
    """How many neighbouring elements the first registers hold, up to one wide access."""
    limit, n = PAD // shared_size(e), 0
    while n < len(layout.register) and layout.register[n] == 1 << n and 1 << n + 1 <= limit:
        n += 1
    return 1 << n


def write_tile(k: Emitter, place: int, layout: Layout, regs: Sequence[Val], e: ScalarType) -> None:
    """Put a tile into shared memory; one of the threads that hold an element writes it."""
    n = run_length(layout, e)
    owner = k.owner(layout)
    indices = k.indices(layout)
    addresses = [k.shared_at(place, byte_of(k, indices[r], e)) for r in range(0, len(regs), n)]
    branch = k.w.begin_if(owner) if owner is not None else None
    for i, address in enumerate(addresses):
        k.put(address, regs[i * n : i * n + n], e)
    if branch is not None:
        k.w.end_if(branch)


def read_tile(k: Emitter, place: int, layout: Layout, e: ScalarType) -> list[Val]:
    """A tile from shared memory in any layout."""
    n = run_length(layout, e)
    indices = k.indices(layout)
    out: list[Val] = []
    for r in range(0, layout.registers, n):
        out += k.get(k.shared_at(place, byte_of(k, indices[r], e)), n, e)
    return out
