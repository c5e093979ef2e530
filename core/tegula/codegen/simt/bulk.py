"""Blocks of tensors that the machine copies on its own, between global and shared memory.

One thread begins the copies of a stage; they arrive at a barrier in shared memory, one for each
copy of the buffers, whose phase ends when all bytes are there. Everybody waits for the phase's
parity. The parities are kept in shared memory from one run of a loop to the next.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from tegula.codegen.loops.text import Val, Writer
from tegula.codegen.simt.buffers import place, pointer
from tegula.codegen.simt.registry import lowers, shared_size
from tegula.codegen.simt.swizzle import way_of
from tegula.codegen.simt.tensormaps import TensorMap, map_of, parts
from tegula.codegen.simt.transfer import put_tile
from tegula.ir.builder import Builder
from tegula.ir.core import Block, Cloner, Function, Op, Value
from tegula.ir.opdef import SCHEDULED
from tegula.ir.patterns import constant_value
from tegula.ir.types import elem_of, i32

if TYPE_CHECKING:
    from tegula.codegen.simt.buffers import Buffer
    from tegula.codegen.simt.kernel import Emitter

WORD = 8
"""Bytes of a barrier in shared memory."""
_NOWHERE = -(1 << 30)
"""A place outside of every tensor."""


class BulkCopies(Protocol):
    """How a machine copies blocks of tensors. Barriers and places in shared memory are pointers;
    one thread calls what begins something."""

    parameter: str
    """The LLVM type, with attributes, of the parameter that describes a tensor."""

    def elected(self, w: Writer) -> Val | None:
        """Of the threads of a warp, which call this together, whether this is the one that begins
        something, always the same; None if the machine has no way to choose it."""

    def start(self, w: Writer, barrier: Val) -> None:
        """Make a barrier at which one thread arrives."""

    def started(self, w: Writer) -> None:
        """Barriers that were made are there for copies."""

    def expect(self, w: Writer, barrier: Val, nbytes: int) -> None:
        """Arrive at a barrier; its phase ends when so many bytes have arrived too."""

    def load(self, w: Writer, to: Val, tensor: Val, places: Sequence[Val], barrier: Val) -> None:
        """Begin to copy a block; places begin at the innermost axis."""

    def wait(self, w: Writer, barrier: Val, parity: Val) -> None:
        """Wait until the barrier's phase of this parity is over."""

    def store(self, w: Writer, tensor: Val, places: Sequence[Val], source: Val) -> None:
        """Begin to copy a block from shared memory to a tensor."""

    def commit(self, w: Writer) -> None:
        """Close the group of stores."""

    def stored(self, w: Writer, done: bool) -> None:
        """Wait until all of this thread's groups of stores are read from shared memory or done."""


@dataclass(frozen=True, eq=False)
class Arrivals:
    """Barriers in shared memory, one for each copy of a loop's buffers, and a word of parities."""

    count: int

    @property
    def nbytes(self) -> int:
        return (self.count + 1) * WORD


@dataclass
class Bulk:
    """What the kernel's text needs of its bulk copies: where the barriers lie, and the maps in the
    order of the parameters."""

    arrivals: dict[Arrivals, int] = field(default_factory=dict)
    maps: dict[TensorMap, str] = field(default_factory=dict)
    stores: bool = False


def find(function: Function) -> Bulk:
    """The bulk copies of a kernel."""
    out = Bulk()
    for op in function.body.walk():
        if op.name == "bulk_begin":
            out.arrivals[op.attrs["arrivals"]] = 0
        used = [m for m, _ in op.attrs["loads"]] if op.name == "bulk_copy" else []
        if op.name == "bulk_store":
            used, out.stores = [op.attrs["map"]], True
        for m in used:
            out.maps.setdefault(m, f"%tensor{len(out.maps)}")
    return out


# -- making the ops


def inside(b: Builder, made: Op, offsets: Sequence[Value], value: Cloner) -> list[Value]:
    """Where a block begins; nowhere for tensors without elements, which have no map."""
    out = []
    for at, size in zip(offsets, made.group("shape")):
        known = constant_value(size)
        if known is None:
            n = value.value(size)
            some = b.cmp(n, b.constant(0, n.type), pred="gt")
            at = b.select(some, at, b.constant(_NOWHERE, i32))
        elif known <= 0:
            at = b.constant(_NOWHERE, i32)
        out.append(at)
    return out


def store_blocks(function: Function, apart: bool) -> Function:
    """The kernel with bulk stores for the descriptor stores that are left. If `apart`, every store
    has a buffer of its own."""
    shared: dict[object, Buffer] = {}
    before = _before(function, apart)

    def hook(op: Op, cloner: Cloner) -> Sequence[Value] | None:
        if op.name != "desc_store":
            return None
        made = op.operands[0].owner
        assert made is not None
        m = map_of(made, function)
        assert m is not None
        key = op if apart else (m.flat, m.elem)
        buffer = shared.setdefault(key, m.buffer(1))
        b = appending(cloner, op)
        offsets = inside(b, made, cloner.values(op.group("offsets")), cloner)
        base, x = cloner.values((made.operands[0], op.operands[1]))
        if m.flat != m.block:
            x = b.create("reshape", x, shape=m.flat)
        attrs = {"map": m, "buffer": buffer, "before": before[op]}
        emit(b, "bulk_store", [base, x, *offsets], attrs, (1, 1, len(offsets)))
        return []

    return Cloner(hook).function(function)


def _before(function: Function, apart: bool) -> dict[Op, str]:
    """What each store has to wait for: stores of one block that are known to write different places
    wait for nothing but their buffer."""
    out: dict[Op, str] = {}
    for block in _blocks(function.body):
        earlier: list[Op] = []
        for op in block.ops:
            if op.regions:
                earlier = []
            if op.name != "desc_store":
                continue
            distinct = earlier and all(_distinct(op, o) for o in earlier)
            out[op] = ("" if apart else "read") if distinct else "done"
            earlier.append(op)
    return out


def _blocks(block: Block) -> list[Block]:
    return [block, *(b for op in block.ops for r in op.regions for b in _blocks(r))]


def _distinct(a: Op, b: Op) -> bool:
    """Whether two stores to one tensor cannot meet: their places differ by a block or more."""
    x, y = (op.operands[0].owner for op in (a, b))
    assert x is not None and y is not None
    if x is not y:
        return False
    sides = x.attrs["block_shape"]
    for v, w, side in zip(a.group("offsets"), b.group("offsets"), sides):
        (base, low), (other, high) = _split(v), _split(w)
        if base is other and side <= abs(low - high) < 1 << 30:
            return True
    return False


def _split(v: Value) -> tuple[Value | None, int]:
    """An integer as another one plus a constant."""
    known = constant_value(v)
    if known is not None:
        return None, int(known)
    if v.owner is not None and v.owner.name == "add":
        for x, y in (v.owner.operands, v.owner.operands[::-1]):
            known = constant_value(y)
            if known is not None:
                return x, int(known)
    return v, 0


def appending(cloner: Cloner, op: Op) -> Builder:
    """A builder that appends where the cloner does."""
    block = Block()
    block.ops = cloner.out
    return Builder(block, op.loc)


def emit(b: Builder, name: str, operands: Sequence[Value], attrs: Mapping[str, object],
         segments: tuple[int, ...] = ()) -> Op:
    """Append a scheduled op."""
    d = SCHEDULED[name]
    op = Op(d, operands, segments, dict(attrs), (), ())
    op = Op(d, operands, segments, dict(attrs), (), d.infer(op))
    b.block.ops.append(op)
    return op


# -- their text


def _copies(k: Emitter) -> BulkCopies:
    found = k.simt.bulk_copies
    assert found is not None
    return found


def begin(k: Emitter) -> None:
    """At the kernel's start: make all barriers. Each `bulk_begin` waits for all threads."""
    if not k.bulk.arrivals:
        return
    w, copies = k.w, _copies(k)
    branch = w.begin_if(_elected(k), "first")
    for arrivals in k.bulk.arrivals:
        for slot in range(arrivals.count):
            copies.start(w, _barrier(k, arrivals, k.i32(slot)))
        _keep(k, arrivals, k.i32(0))
    copies.started(w)
    w.end_if(branch)


def end(k: Emitter) -> None:
    """At the kernel's end: shared memory stays until the stores have read it."""
    if k.bulk.stores:
        _copies(k).stored(k.w, True)


def _elected(k: Emitter) -> Val:
    one = _copies(k).elected(k.w)
    if one is None:
        return k.w.icmp("eq", k.thread, k.i32(0))
    first = k.w.icmp("ult", k.thread, k.i32(k.simt.warp_size))
    return k.both(first, one) or first


def _barrier(k: Emitter, arrivals: Arrivals, slot: Val) -> Val:
    return k.shared_at(k.bulk.arrivals[arrivals], k.w.mul(slot, k.i32(WORD)))


def _word(k: Emitter, arrivals: Arrivals) -> Val:
    return _barrier(k, arrivals, k.i32(arrivals.count))


def _keep(k: Emitter, arrivals: Arrivals, parities: Val) -> None:
    k.put(_word(k, arrivals), [parities], i32)


@lowers("bulk_begin")
def _bulk_begin(k: Emitter, op: Op) -> None:
    if op.attrs["waits"]:
        k.simt.shared_fence(k.w)
        k.barrier()
    k.set(op.results[0], k.get(_word(k, op.attrs["arrivals"]), 1, i32))


@lowers("bulk_end")
def _bulk_end(k: Emitter, op: Op) -> None:
    _keep(k, op.attrs["arrivals"], k.scalar(op.operands[0]))  # all threads say the same


@lowers("bulk_wait")
def _bulk_wait(k: Emitter, op: Op) -> None:
    w = k.w
    slot, parities = (k.scalar(v) for v in op.operands)
    shifted = w.pure("i32", "lshr i32 {}, {}", parities, slot)
    parity = w.pure("i32", "and i32 {}, {}", shifted, k.i32(1))
    _copies(k).wait(w, _barrier(k, op.attrs["arrivals"], slot), parity)
    bit = w.pure("i32", "shl i32 {}, {}", k.i32(1), slot)
    k.set(op.results[0], [w.pure("i32", "xor i32 {}, {}", parities, bit)])


@lowers("bulk_copy")
def _bulk_copy(k: Emitter, op: Op) -> None:
    w, copies = k.w, _copies(k)
    slot, runs = (k.scalar(v) for v in op.operands[:2])
    offsets = [k.scalar(v) for v in op.group("offsets")]
    loads: list[tuple[TensorMap, Buffer]] = op.attrs["loads"]
    barrier = _barrier(k, op.attrs["arrivals"], slot)
    starts = [place(k, buffer, slot) for _, buffer in loads]
    branch = w.begin_if(k.both(_elected(k), runs) or runs, "copy")
    copies.expect(w, barrier, sum(m.nbytes for m, _ in loads))
    for (m, _), start in zip(loads, starts):
        mine, offsets = offsets[: len(m.block)], offsets[len(m.block) :]
        for places, at in _parts(k, m, mine):
            to = pointer(k, w.add(start, k.i32(at)))
            copies.load(w, to, _tensor(k, m), places, barrier)
    w.end_if(branch)


def _parts(k: Emitter, m: TensorMap, offsets: Sequence[Val]) -> list[tuple[list[Val], int]]:
    """Where each copy of a block begins, innermost axis first, and its place in the buffer."""
    inner, *outer = offsets[::-1]
    return [([k.w.add(inner, k.i32(along)), *outer], at) for along, at in parts(m)]


def _tensor(k: Emitter, m: TensorMap) -> Val:
    return k.w.literal(k.bulk.maps[m], "ptr")


@lowers("bulk_store")
def _bulk_store(k: Emitter, op: Op) -> None:
    w, copies = k.w, _copies(k)
    m, buffer, x = op.attrs["map"], op.attrs["buffer"], op.operands[1]
    if op.attrs["before"]:
        copies.stored(w, op.attrs["before"] == "done")
    k.barrier()
    layout, start = k.layout(x), place(k, buffer, None)
    way = way_of(buffer, layout, shared_size(buffer.elem), k.simt.matrix_stores)
    put_tile(k, pointer(k, start), buffer, way, layout, k.regs(x), elem_of(x.type))
    k.simt.shared_fence(w)
    k.barrier()
    branch = w.begin_if(_elected(k), "copy")
    for places, at in _parts(k, m, [k.scalar(v) for v in op.group("offsets")]):
        copies.store(w, _tensor(k, m), places, pointer(k, w.add(start, k.i32(at))))
    copies.commit(w)
    w.end_if(branch)


