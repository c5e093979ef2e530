"""Tiles in shared memory that outlive an op: where each element lies.

The way from an element's index to its place is linear over F2, like a layout: rows of at most 128
bytes, whose 16-byte pieces are exchanged from row to row so that neither reading along rows nor
across them meets a bank twice. This is the arrangement that matrix units and bulk copies expect.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING

from tegula.codegen.loops.text import Val
from tegula.codegen.simt.hooks import SHARED
from tegula.codegen.simt.layout import Layout, axis_fields
from tegula.codegen.simt.registry import lowers, shared_size
from tegula.codegen.simt.swizzle import way_of
from tegula.codegen.simt.transfer import Waiting
from tegula.ir.core import Op
from tegula.ir.types import DType, elem_of

if TYPE_CHECKING:
    from tegula.codegen.simt.kernel import Emitter

ALIGNMENT = 1024
"""Bytes after which the pattern of exchanged pieces repeats."""
ROW = 128
PIECE = 16

_NUMBERS = count(1)


def next_number() -> int:
    """A number that no buffer has."""
    return next(_NUMBERS)


@dataclass(frozen=True)
class Buffer:
    """`copies` tiles of two axes in shared memory. Elements along the axis `fast` are neighbours,
    in rows of `row_bytes`; a longer axis continues in another panel of rows."""

    shape: tuple[int, ...]
    elem: DType
    fast: int
    copies: int = 1
    number: int = field(default_factory=next_number)
    """Tells buffers apart that are alike."""

    @property
    def row_bytes(self) -> int:
        return min(ROW, self.shape[self.fast] * shared_size(self.elem))

    @property
    def nbytes(self) -> int:
        """Bytes of one copy."""
        size = self.shape[0] * self.shape[1] * shared_size(self.elem)
        return (size + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT

    @property
    def panel_bytes(self) -> int:
        return self.shape[1 - self.fast] * self.row_bytes

    def offset(self, index: int) -> int:
        """Bytes from the start of a copy to the element with a row-major index."""
        fields = axis_fields(self.shape)
        row, column = (index >> fields[a][0] & (1 << fields[a][1]) - 1
                       for a in (1 - self.fast, self.fast))
        size = shared_size(self.elem)
        panel, place = divmod(column * size, self.row_bytes)
        plain = panel * self.panel_bytes + row * self.row_bytes + place
        return plain ^ (plain >> 7 & self.row_bytes // PIECE - 1) << 4


def vector_of(buffer: Buffer, layout: Layout, limit: int = PIECE) -> int:
    """How many of the first registers lie side by side in the buffer."""
    size, n = shared_size(buffer.elem), 0
    while n < len(layout.register) and (2 << n) * size <= limit:
        if buffer.offset(layout.register[n]) != size << n:
            break
        n += 1
    return 1 << n


def addresses(k: Emitter, buffer: Buffer, layout: Layout, base: Val, step: int) -> list[Val]:
    """Pointers to every `step`-th register's element; what is constant about one comes last, where
    accesses take it as it is."""
    w = k.w
    bases = [buffer.offset(b) for b in layout.threads]
    mine = k.mine(bases)
    used = 0
    for b in bases:
        used |= b
    out = []
    for r in range(0, layout.registers, step):
        o = buffer.offset(layout.offsets[r])
        here = mine
        if o & used:
            here = w.pure("i32", "xor i32 {}, {}", mine, k.i32(o & used))
        p = pointer(k, w.add(here, base))
        if o & ~used:
            p = w.pure(SHARED, f"getelementptr i8, {SHARED} {{}}, i32 {o & ~used}", p)
        out.append(p)
    return out


def place(k: Emitter, buffer: Buffer, slot: Val | None) -> Val:
    """Where one copy of a buffer begins, in bytes from the start of shared memory."""
    w = k.w
    start = k.i32(k.plan.buffers[buffer])
    if slot is None or buffer.copies == 1:
        return start
    return w.add(start, w.mul(slot, k.i32(buffer.nbytes)))


def pointer(k: Emitter, offset: Val) -> Val:
    """A place in shared memory as a pointer."""
    return k.shared_at(0, offset)


def put_tile(k: Emitter, buffer: Buffer, base: Val, layout: Layout, regs: Sequence[Val]) -> None:
    """Write a tile's registers into a buffer."""
    n = vector_of(buffer, layout)
    owner = k.owner(layout)
    ats = addresses(k, buffer, layout, base, n)
    branch = k.w.begin_if(owner) if owner is not None else None
    for i, at in enumerate(ats):
        k.put(at, regs[i * n : i * n + n], buffer.elem)
    if branch is not None:
        k.w.end_if(branch)


@lowers("shared_load")
def _shared_load(k: Emitter, op: Op) -> None:
    buffer = op.attrs["buffer"]
    (v,) = op.results
    layout = k.layout(v)
    way = way_of(buffer, layout, shared_size(buffer.elem), k.simt.matrix_loads)
    base = pointer(k, place(k, buffer, k.scalar(op.operands[0])))
    tile = Waiting(k, base, buffer, way, layout, elem_of(v.type))
    if op in k.plan.later:
        k.waiting[v] = tile
    else:
        k.set(v, [tile[r] for r in range(len(tile))])


@lowers("shared_put")
def _shared_put(k: Emitter, op: Op) -> None:
    buffer, (x,) = op.attrs["buffer"], op.operands
    put_tile(k, buffer, place(k, buffer, None), k.layout(x), k.regs(x))
    k.simt.shared_fence(k.w)
    k.barrier()


@lowers("async_copy")
def _async_copy(k: Emitter, op: Op) -> None:
    buffer, ptr, mask = op.attrs["buffer"], op.operands[0], op.operand("mask")
    layout = k.layout(ptr)
    size = shared_size(buffer.elem)
    n = min(vector_of(buffer, layout), copy_length(k, op, layout))
    base = place(k, buffer, k.scalar(op.operands[1]))
    owner = k.owner(layout)
    ptrs = k.regs(ptr)
    masks = k.regs(mask) if mask is not None else None
    ats = addresses(k, buffer, layout, base, n)
    branch = k.w.begin_if(owner) if owner is not None else None
    for i, at in enumerate(ats):
        pred = masks[i * n] if masks is not None else None
        k.simt.async_copy(k.w, at, ptrs[i * n], n * size, pred)
    if branch is not None:
        k.w.end_if(branch)


def copy_length(k: Emitter, op: Op, layout: Layout) -> int:
    """How many registers one asynchronous copy takes."""
    from tegula.codegen.simt.memory import access_length

    n, _ = access_length(k, op, layout, op.operand("mask"))
    return n


@lowers("async_commit")
def _commit(k: Emitter, op: Op) -> None:
    k.simt.async_commit(k.w)


@lowers("async_wait")
def _wait(k: Emitter, op: Op) -> None:
    k.simt.async_wait(k.w, op.attrs["pending"])


@lowers("barrier")
def _barrier(k: Emitter, op: Op) -> None:
    k.barrier()
