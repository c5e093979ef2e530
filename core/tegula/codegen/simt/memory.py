"""Access to global memory: as wide as the addresses allow, predicated where there is a mask."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tegula.analysis.axisinfo import power_of_two
from tegula.codegen.loops.evaluate import Unsupported
from tegula.codegen.loops.text import Scope, Val
from tegula.codegen.simt.convert import padded_bytes, read_tile, write_tile
from tegula.codegen.simt.elementwise import from_memory, memory_type, to_memory
from tegula.codegen.simt.hooks import Access
from tegula.codegen.simt.layout import Layout, axis_fields
from tegula.codegen.simt.registry import Context, lowers, shared_size
from tegula.ir.core import Op, Value
from tegula.ir.types import DType, Pointer, elem_of, shape_of

if TYPE_CHECKING:
    from tegula.codegen.simt.kernel import Emitter


def pointee(v: Value) -> DType | Pointer:
    """What a pointer or tile of pointers points to."""
    p = elem_of(v.type)
    assert isinstance(p, Pointer)
    return p.elem


def access_length(k: Emitter, op: Op, layout: Layout, mask: Value | None) -> tuple[int, int]:
    """How many registers one access takes, and its alignment in bytes: the first registers must
    be neighbours along an axis along which the addresses are."""
    ptr = op.operands[0]
    size = shared_size(pointee(ptr))
    info = k.axes.of(k.origin(ptr))
    if not layout.register:
        return 1, _alignment(info.every(), size)
    limit = k.simt.vector_bits // 8 // size
    best, align = 1, _alignment(info.every(), size)
    for axis, (shift, bits) in enumerate(axis_fields(layout.shape)):
        n = 0
        while n < min(bits, len(layout.register)) and layout.register[n] == 1 << shift + n:
            n += 1
        run = min(1 << n, limit)
        if run > 1:
            allowed = k.axes.vector_length(k.origin(ptr), None, axis)
            if mask is not None:
                alike = k.axes.exact.of(k.origin(mask)).constancy[axis]
                allowed = min(allowed, power_of_two(alike))
            run = min(run, power_of_two(allowed))
            if run > best:
                best, align = run, run * size
    return best, align


def _alignment(every: int, size: int) -> int:
    return max(1, min(size, power_of_two(every))) if every > 1 else size


def _behaviour(op: Op) -> Access:
    a = op.attrs
    return Access(a.get("cache") or "", a.get("evict") or "", bool(a.get("volatile")))


def _predicates(k: Emitter, mask: Value | None, count: int) -> list[Val | None]:
    return list(k.regs(mask)) if mask is not None else [None] * count


@lowers("load")
def _load(k: Emitter, op: Op) -> None:
    w = k.w
    ptr, mask, other = op.operands[0], op.operand("mask"), op.operand("other")
    (v,) = op.results
    layout, e = k.layout(v), elem_of(v.type)
    ptrs = k.regs(ptr)
    preds = _predicates(k, mask, len(ptrs))
    others = [to_memory(w, x, e) for x in k.regs(other)] if other is not None else None
    n, align = access_length(k, op, layout, mask)
    out: list[Val] = []
    for r in range(0, len(ptrs), n):
        rest = others[r : r + n] if others is not None else None
        xs = k.simt.load(w, ptrs[r], memory_type(e), n, preds[r], rest, _behaviour(op), align)
        out += [from_memory(w, x, e) for x in xs]
    k.set(v, out)


@lowers("store")
def _store(k: Emitter, op: Op) -> None:
    w = k.w
    ptr, value, mask = op.operands[0], op.operands[1], op.operand("mask")
    layout, e = k.layout(ptr), elem_of(value.type)
    ptrs = k.regs(ptr)
    values = [to_memory(w, x, e) for x in k.regs(value)]
    preds = _predicates(k, mask, len(ptrs))
    owner = k.owner(layout)
    n, align = access_length(k, op, layout, mask)
    for r in range(0, len(ptrs), n):
        pred = k.both(owner, preds[r])
        k.simt.store(w, ptrs[r], values[r : r + n], pred, _behaviour(op), align)


def load_one(k: Emitter, op: Op, values: Sequence[Val]) -> Val:
    """A load of one register, whose operands are given; see `chains`."""
    w, e = k.w, elem_of(op.results[0].type)
    given = dict(zip(op.operands, values))
    mask, other = op.operand("mask"), op.operand("other")
    rest = [to_memory(w, given[other], e)] if other is not None else None
    _, align = access_length(k, op, k.layout(op.results[0]), mask)
    pred = given[mask] if mask is not None else None
    (x,) = k.simt.load(w, values[0], memory_type(e), 1, pred, rest, _behaviour(op), align)
    return from_memory(w, x, e)


def store_one(k: Emitter, op: Op, values: Sequence[Val]) -> None:
    """A store of one register."""
    mask = op.operand("mask")
    layout = k.layout(op.operands[0])
    _, align = access_length(k, op, layout, mask)
    pred = k.both(k.owner(layout), values[2] if mask is not None else None)
    raw = to_memory(k.w, values[1], elem_of(op.operands[1].type))
    k.simt.store(k.w, values[0], [raw], pred, _behaviour(op), align)


# -- atomics


def _result_scratch(op: Op, ctx: Context) -> int:
    """Results of atomics that one thread makes for several go through shared memory."""
    if not op.results:
        return 0
    (v,) = op.results
    if not shape_of(v.type):
        return 16
    layout = ctx.layouts[v]
    if not layout.free:
        return 0
    return padded_bytes(1 << len(layout.register) + len(layout.threads), elem_of(v.type))


def _each(k: Emitter, op: Op, act: Callable[[int, str], Val | None], mask: Value | None) -> None:
    """Run `act(register, order)` under the mask in the thread that owns the element, then share the
    results with the threads that hold copies.

    Where a thread has several, a fence before all of them and one behind do what orders of their
    own would, each of which waits for memory.
    """
    layout = k.layout(op.operands[0])
    sem = op.attrs["sem"]
    fenced = sem != "relaxed" and layout.registers > 1
    fence = f"fence {k.simt.order('acq_rel', op.attrs['scope'])}"
    if fenced and sem != "acquire":
        k.w.do(fence)
    owner = k.owner(layout)
    preds = _predicates(k, mask, layout.registers)
    zeros = [k.constant(0, elem_of(v.type)) for v in op.results]

    def one(r: int) -> list[Val]:
        """The results of one element: one, or none."""
        pred = k.both(owner, preds[r])
        if pred is not None and pred.const == 0:
            return zeros
        branch = k.w.begin_if(pred) if pred is not None and pred.const is None else None
        made = act(r, "relaxed" if fenced else sem)
        there = [made] if made is not None else []
        return k.w.end_if(branch, there, zeros) if branch is not None else there

    out = [x for r in range(layout.registers) for x in one(r)]
    if fenced and sem != "release":
        k.w.do(fence)
    if not op.results:
        return
    if owner is not None:
        out = _shared_out(k, op, layout, out)
    k.set(op.results[0], out)


def _shared_out(k: Emitter, op: Op, layout: Layout, regs: list[Val]) -> list[Val]:
    e = elem_of(op.results[0].type)
    place = k.scratch(op)
    write_tile(k, place, layout, regs, e)
    k.barrier()
    return read_tile(k, place, layout, e)


@lowers("atomic_rmw", scratch=_result_scratch)
def _rmw(k: Emitter, op: Op) -> None:
    ptr, value = (k.regs(v) for v in op.operands[:2])
    e = elem_of(op.operands[1].type)
    assert isinstance(e, DType)
    kind, scope = op.attrs["kind"], op.attrs["scope"]

    def act(r: int, sem: str) -> Val:
        old = k.simt.atomic_rmw(k.w, kind, ptr[r], to_memory(k.w, value[r], e), e, sem, scope)
        return from_memory(k.w, old, e)

    _each(k, op, act, op.operand("mask"))


@lowers("atomic_cas", scratch=_result_scratch)
def _cas(k: Emitter, op: Op) -> None:
    ptr, cmp, value = (k.regs(v) for v in op.operands[:3])
    e = elem_of(op.operands[1].type)
    assert isinstance(e, DType)
    scope = op.attrs["scope"]

    def act(r: int, sem: str) -> Val:
        old, new = (k.raw(to_memory(k.w, x[r], e)) for x in (cmp, value))
        seen = k.simt.atomic_cas(k.w, ptr[r], old, new, e, sem, scope)
        return from_memory(k.w, k.cooked(seen, memory_type(e)), e)

    _each(k, op, act, None)


@lowers("atomic_load", scratch=_result_scratch)
def _atomic_load(k: Emitter, op: Op) -> None:
    ptr = k.regs(op.operands[0])
    e = elem_of(op.results[0].type)
    scope, ty = op.attrs["scope"], memory_type(e)

    def act(r: int, sem: str) -> Val:
        raw = k.simt.atomic_load(k.w, ptr[r], f"i{shared_size(e) * 8}", sem, scope)
        return from_memory(k.w, k.cooked(raw, ty), e)

    _each(k, op, act, op.operand("mask"))


@lowers("atomic_store")
def _atomic_store(k: Emitter, op: Op) -> None:
    ptr, value = (k.regs(v) for v in op.operands[:2])
    e = elem_of(op.operands[1].type)
    scope = op.attrs["scope"]

    def act(r: int, sem: str) -> None:
        k.simt.atomic_store(k.w, ptr[r], k.raw(to_memory(k.w, value[r], e)), sem, scope)

    _each(k, op, act, op.operand("mask"))


def _poll_scratch(op: Op, ctx: Context) -> int:
    """A poll that waits for ever has one result only."""
    return 0 if op.operand("timeout") is None else _result_scratch(op, ctx)


@lowers("atomic_poll", scratch=_poll_scratch)
def _atomic_poll(k: Emitter, op: Op) -> None:
    """One thread looks at memory until it has the value or the time is over."""
    ptr, expected, timeout = op.operands[0], op.operands[1], op.operand("timeout")
    if timeout is not None and not k.simt.clocked:
        raise Unsupported(op, "waiting with a timeout: the device has no clock")
    e = elem_of(expected.type)
    assert isinstance(e, DType)
    wanted = k.raw(to_memory(k.w, k.scalar(expected), e))
    if timeout is not None:
        limit = k.scalar(timeout)
        _each(k, op, lambda *_: _polled(k, op, k.scalar(ptr), wanted, limit), None)
        return
    owner = k.owner(k.layout(ptr))
    branch = k.w.begin_if(owner) if owner is not None and owner.const is None else None
    _polled(k, op, k.scalar(ptr), wanted, None)
    if branch is not None:
        k.w.end_if(branch)
    k.barrier()
    k.set(op.results[0], [k.constant(1, elem_of(op.results[0].type))])


def _polled(k: Emitter, op: Op, ptr: Val, wanted: Val, limit: Val | None) -> Val:
    w = k.w
    start = k.simt.clock(w) if limit is not None else None
    outer, head = w.scope, w.new_block("poll")
    outer.block.term = f"br label %{head.label}"
    w.scope = Scope(outer, head)
    now = k.simt.atomic_load(w, ptr, wanted.ty, op.attrs["sem"], op.attrs["scope"])
    same = stop = w.here("i1", f"icmp eq {now.ty} {now.text}, {wanted.text}")
    if start is not None and limit is not None:
        gone = w.sub(k.simt.clock(w), start)
        stop = w.pure("i1", "or i1 {}, {}", same, w.icmp("sge", gone, limit))
    end = w.new_block("polled")
    w.scope.block.term = f"br i1 {stop.text}, label %{end.label}, label %{head.label}"
    outer.block, w.scope = end, outer
    return Val(same.text, "i1", outer)
