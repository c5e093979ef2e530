"""Atomic read-modify-write and compare-and-swap on one element."""

from __future__ import annotations

from tegula.codegen.loops.convert import bitcast, from_f32, to_f32
from tegula.codegen.loops.evaluate import Evaluation
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


NAMES = frozenset({"atomic_rmw", "atomic_cas", "atomic_load", "atomic_store", "atomic_poll"})
UNMASKED = frozenset({"atomic_cas", "atomic_poll"})


def emit(l: Lanes, op: Op, args: list[Val]) -> Val | None:
    """One atomic op on scalar operands; gives the old value, 0 where the mask is off."""
    e, w = pointee(op), l.w
    mask = None
    if op.name not in UNMASKED and op.operand("mask") is not None:
        mask = args[-1]
        if mask.const == 1:
            mask = None
    if mask is None:
        return _one(l, op, e, args)
    branch = w.begin_if(mask)
    old = _one(l, op, e, args)
    if old is None:
        w.end_if(branch)
        return None
    zero = w.literal("0.0" if old.ty in ("half", "float", "double") else "0", old.ty)
    w.begin_else(branch)
    (out,) = w.end_if(branch, [old], [zero])
    return out


def _one(l: Lanes, op: Op, e: DType, args: list[Val]) -> Val | None:
    order = ORDER[op.attrs["sem"]]
    if op.name == "atomic_load":
        return _from_bits(l, _read(l, e, args[0], order), e)
    if op.name == "atomic_store":
        bits = f"i{8 * e.itemsize}"
        l.w.do(f"store atomic {bits} {_bits(l, args[1], bits).text}, ptr {args[0].text} {order}, "
               f"align {e.itemsize}")
        return None
    if op.name == "atomic_poll":
        return _poll(l, e, args, order)
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


def _read(l: Lanes, e: DType, p: Val, order: str) -> Val:
    bits = f"i{8 * e.itemsize}"
    return l.w.here(bits, f"load atomic {bits}, ptr {p.text} {order}, align {e.itemsize}")


POLL = """
define internal i1 @{name}(ptr %p, {ty} %expected, i64 %timeout) nounwind {{
entry:
  %clock = alloca {{ i64, i64 }}
  %timed = icmp sge i64 %timeout, 0
  br i1 %timed, label %start, label %look
start:
  %rc0 = call i32 @clock_gettime(i32 1, ptr %clock)
  %s0 = load i64, ptr %clock
  %ns0.p = getelementptr i64, ptr %clock, i64 1
  %ns0 = load i64, ptr %ns0.p
  br label %look
look:
  %second = phi i64 [ 0, %entry ], [ %s0, %start ], [ %second, %wait ], [ %second, %late ]
  %nano = phi i64 [ 0, %entry ], [ %ns0, %start ], [ %nano, %wait ], [ %nano, %late ]
  %now = load atomic {ty}, ptr %p {order}, align {size}
  %same = icmp eq {ty} %now, %expected
  br i1 %same, label %done, label %wait
wait:
  br i1 %timed, label %late, label %look
late:
  %rc1 = call i32 @clock_gettime(i32 1, ptr %clock)
  %s1 = load i64, ptr %clock
  %ns1.p = getelementptr i64, ptr %clock, i64 1
  %ns1 = load i64, ptr %ns1.p
  %ds = sub i64 %s1, %second
  %dns = sub i64 %ns1, %nano
  %ds.ns = mul i64 %ds, 1000000000
  %gone = add i64 %ds.ns, %dns
  %over = icmp sge i64 %gone, %timeout
  br i1 %over, label %done, label %look
done:
  ret i1 %same
}}
"""


def _poll(l: Lanes, e: DType, args: list[Val], order: str) -> Val:
    """Look at memory until it has the value, or (timeout not negative) the time is over."""
    w, ty = l.w, f"i{8 * e.itemsize}"
    name = f"poll_{ty}_{order}"
    assert isinstance(l, Evaluation)
    l.k.add_function(name, POLL.format(name=name, ty=ty, order=order, size=e.itemsize),
                     ("declare i32 @clock_gettime(i32, ptr)",))
    timeout = args[2].text if len(args) == 3 else "-1"
    return w.here("i1", f"call i1 @{name}(ptr {args[0].text}, {ty} {_bits(l, args[1], ty).text}, "
                        f"i64 {timeout})")


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
