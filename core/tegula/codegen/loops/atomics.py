"""Atomic read-modify-write and compare-and-swap on one element."""

from __future__ import annotations

from tegula.codegen.loops.convert import bitcast, from_f32, to_f32
from tegula.codegen.loops.lanes import Lanes, mem_type, reg_type
from tegula.codegen.loops.text import Scope, Val
from tegula.ir.core import Op
from tegula.ir.types import DType, Pointer, elem_of, f32, f64

ORDER = {"relaxed": "monotonic", "acquire": "acquire", "release": "release", "acq_rel": "acq_rel"}
_INT_KINDS = {"add": "add", "and": "and", "or": "or", "xor": "xor", "xchg": "xchg"}


def pointee(op: Op) -> DType:
    e = elem_of(op.operands[0].type)
    assert isinstance(e, Pointer)
    return e.elem


def emit(l: Lanes, op: Op, args: list[Val]) -> Val:
    """One atomic op on scalar operands; gives the old value, 0 where the mask is off."""
    e, w = pointee(op), l.w
    mask = args[2] if op.name == "atomic_rmw" and len(args) == 3 else None
    if mask is not None and mask.const == 1:
        mask = None
    if mask is None:
        return _one(l, op, e, args)
    branch = w.begin_if(mask)
    old = _one(l, op, e, args)
    zero = w.literal("0.0" if old.ty in ("half", "float", "double") else "0", old.ty)
    w.begin_else(branch)
    (out,) = w.end_if(branch, [old], [zero])
    return out


def _one(l: Lanes, op: Op, e: DType, args: list[Val]) -> Val:
    order = ORDER[op.attrs["sem"]]
    if op.name == "atomic_cas":
        return _cas(l, e, args[0], args[1], args[2], order)
    kind = op.attrs["kind"]
    p, x = args[0], args[1]
    ty = reg_type(e)
    if e.bits == 1:
        return _by_swapping(l, e, p, x, kind, order)
    if e.is_int and (kind in _INT_KINDS or kind in ("max", "min")):
        verb = kind if kind in _INT_KINDS else ("" if e.is_signed else "u") + kind
        return l.w.here(ty, f"atomicrmw {verb} ptr {p.text}, {ty} {x.text} {order}, "
                            f"align {e.itemsize}")
    if kind == "xchg":
        bits = f"i{e.bits}"
        old = l.w.here(bits, f"atomicrmw xchg ptr {p.text}, {bits} {_bits(l, x, bits).text} "
                             f"{order}, align {e.itemsize}")
        return _from_bits(l, old, e)
    if kind == "add" and e in (f32, f64):
        return l.w.here(ty, f"atomicrmw fadd ptr {p.text}, {ty} {x.text} {order}, "
                            f"align {e.itemsize}")
    return _by_swapping(l, e, p, x, kind, order)


def _bits(l: Lanes, x: Val, ty: str) -> Val:
    if x.ty == ty:
        return x
    if x.ty == "i1":
        return l.w.pure(ty, f"zext i1 {{}} to {ty}", x)
    return l.w.pure(ty, f"bitcast {x.ty} {{}} to {ty}", x)


def _from_bits(l: Lanes, x: Val, e: DType) -> Val:
    ty = reg_type(e)
    if x.ty == ty:
        return x
    if ty == "i1":
        return l.w.pure(ty, f"icmp ne {x.ty} {{}}, 0", x)
    return l.w.pure(ty, f"bitcast {x.ty} {{}} to {ty}", x)


def _cas(l: Lanes, e: DType, p: Val, cmp: Val, new: Val, order: str) -> Val:
    """Compare the bits and swap."""
    w, bits = l.w, f"i{8 * e.itemsize}"
    a, b = _bits(l, cmp, bits), _bits(l, new, bits)
    fail = {"acq_rel": "acquire", "release": "monotonic"}.get(order, order)
    pair = w.here(f"{{ {bits}, i1 }}", f"cmpxchg ptr {p.text}, {bits} {a.text}, {bits} {b.text} "
                                       f"{order} {fail}, align {e.itemsize}")
    return _from_bits(l, w.here(bits, f"extractvalue {pair.ty} {pair.text}, 0"), e)


def _by_swapping(l: Lanes, e: DType, p: Val, x: Val, kind: str, order: str) -> Val:
    """A loop around compare-and-swap, for what the processor has no instruction for."""
    w, bits = l.w, f"i{8 * e.itemsize}"
    fail = {"acq_rel": "acquire", "release": "monotonic"}.get(order, order)
    first = w.here(bits, f"load atomic {bits}, ptr {p.text} monotonic, align {e.itemsize}")
    pre, outer = w.scope.block, w.scope
    head = w.new_block("swap")
    pre.term = f"br label %{head.label}"
    w.scope = Scope(outer, head)
    seen = Val(w.name(), bits, w.scope)
    new = _bits(l, _combined(l, e, _from_bits(l, seen, e), x, kind), bits)
    pair = w.here(f"{{ {bits}, i1 }}", f"cmpxchg ptr {p.text}, {bits} {seen.text}, "
                                       f"{bits} {new.text} {order} {fail}, align {e.itemsize}")
    now = w.here(bits, f"extractvalue {pair.ty} {pair.text}, 0")
    done = w.here("i1", f"extractvalue {pair.ty} {pair.text}, 1")
    end = w.new_block("swapped")
    latch = w.scope.block
    head.phis.append(f"  {seen.text} = phi {bits} [ {first.text}, %{pre.label} ], "
                     f"[ {now.text}, %{latch.label} ]")
    latch.term = f"br i1 {done.text}, label %{end.label}, label %{head.label}"
    outer.block = end
    w.scope = outer
    return _from_bits(l, Val(now.text, bits, outer), e)


def _combined(l: Lanes, e: DType, old: Val, x: Val, kind: str) -> Val:
    w = l.w
    if e.bits == 1:
        if kind == "xchg":
            return x
        verb = {"add": "xor", "max": "or", "min": "and"}.get(kind, kind)
        return w.pure("i1", f"{verb} i1 {{}}, {{}}", old, x)
    wide = e if e in (f32, f64) else f32
    a, b = (old, x) if e is wide else (to_f32(l, old, e), to_f32(l, x, e))
    ty = reg_type(wide)
    if kind == "add":
        y = w.pure(ty, f"fadd {ty} {{}}, {{}}", a, b)
    else:
        short = "f32" if ty == "float" else "f64"
        y = w.call(f"llvm.{kind}imumnum.{short}", ty, a, b)
    return y if e is wide else from_f32(l, y, e)


__all__ = ["bitcast", "emit", "mem_type"]
