"""Loads and stores of lanes: contiguous, the same for all, or scattered, under a mask or not."""

from __future__ import annotations

from tegula.codegen.loops.lanes import (
    Lane,
    Lanes,
    Lin,
    Uni,
    Vec,
    mem_type,
    reg_type,
    size_of,
    suffix,
    vector,
)
from tegula.codegen.loops.text import Scope, Val
from tegula.ir.types import DType, Pointer, ScalarType

ZEROS = "@tegula.zeros"
"""64 zero bytes, read in place of what a mask forbids to touch."""

CLOSE = (2, 3, 4)
"""Strides for which whole vectors are read and written rather than single elements."""


def zero(l: Lanes, e: ScalarType, n: int) -> Val:
    """Zero of an element type, in `n` lanes."""
    ty = vector(n, mem_type(e))
    text = "zeroinitializer" if n > 1 else "null" if ty == "ptr" else (
        "0.0" if ty in ("half", "float", "double") else "0")
    return l.w.literal(text, ty)


def to_reg(l: Lanes, x: Val, e: ScalarType) -> Val:
    """What was read from memory as a register value (a byte as i1)."""
    if not (isinstance(e, DType) and e.bits == 1):
        return x
    n = l.n if x.ty.startswith("<") else 1
    null = l.w.literal("zeroinitializer" if n > 1 else "0", x.ty)
    return l.w.pure(vector(n, "i1"), f"icmp ne {x.ty} {{}}, {{}}", x, null)


def to_mem(l: Lanes, x: Val, e: ScalarType) -> Val:
    """A register value as memory holds it."""
    if not (isinstance(e, DType) and e.bits == 1):
        return x
    if x.const is not None:
        n = l.n if x.ty.startswith("<") else 1
        byte = l.w.const(int(x.const), "i8")
        return byte if n == 1 else l.splat_text(byte)
    ty = x.ty.replace("i1", "i8")
    return l.w.pure(ty, f"zext {x.ty} {{}} to {ty}", x)


def both(l: Lanes, a: Val | None, b: Val | None) -> Val | None:
    """Conjunction of two masks that may be absent."""
    if a is None or a.const == 1:
        return b
    if b is None or b.const == 1:
        return a
    return l.w.pure(a.ty, f"and {a.ty} {{}}, {{}}", a, b)


def mask_vector(l: Lanes, mask: Lane | None, exec_mask: Val | None) -> Val | None:
    """The lanes that may be touched; None for all."""
    if mask is None or (isinstance(mask, Uni) and mask.val.const == 1):
        return exec_mask
    return both(l, l.vec(mask, _I1), exec_mask)


def _i1() -> DType:
    from tegula.ir.types import i1

    return i1


_I1 = _i1()


def load(l: Lanes, ptr: Lane, mask: Lane | None, other: Lane | None, e: DType,
         exec_mask: Val | None, scope: Scope | None = None, volatile: bool = False) -> Lane:
    """Read elements of dtype `e`; lanes that are masked off give `other` or 0.

    A load that is the same for all lanes goes to `scope` if that is given.
    """
    word = "load volatile" if volatile else "load"
    if isinstance(ptr, Uni) and not isinstance(mask, Vec | Lin) and not isinstance(
            other, Vec | Lin):
        return _uniform_load(l, ptr.val, mask, other, e, scope, word)
    m = mask_vector(l, mask, exec_mask)
    if l.n == 1:
        lane_mask = Uni(m) if m is not None else None
        default = Uni(l.vec(other, e)) if other is not None else None
        x = _uniform_load(l, l.vec(ptr, Pointer(e)), lane_mask, default, e, None, word)
        return Vec(x.val)
    if m is not None and m.const == 0:
        return other if other is not None else Uni(to_reg(l, zero(l, e, 1), e))
    # Lanes switched off by the position alone may give anything.
    default = l.w.literal("poison", vector(l.n, mem_type(e)))
    if mask is not None and m is not exec_mask:
        default = zero(l, e, l.n) if other is None else to_mem(l, l.vec(other, e), e)
    x = _vector_load(l, ptr, m, default, e, word)
    return Vec(to_reg(l, x, e))


def _uniform_load(l: Lanes, p: Val, mask: Lane | None, other: Lane | None, e: DType,
                  scope: Scope | None, word: str) -> Uni:
    w, ty = l.w, mem_type(e)
    guard = mask.val if isinstance(mask, Uni) and mask.val.const != 1 else None
    if guard is not None:
        if guard.const == 0:
            return Uni(other.val if isinstance(other, Uni) else to_reg(l, zero(l, e, 1), e))
        p = w.select(guard, p, w.literal(ZEROS, "ptr"))
    place = scope
    if place is not None:
        for part in (p, *((guard,) if guard is not None else ())):
            if part.scope.depth > place.depth:
                place = part.scope
    x = to_reg(l, w.here(ty, f"{word} {ty}, ptr {p.text}, align 1", place), e)
    if guard is not None and isinstance(other, Uni):
        x = w.select(guard, x, other.val)
    return Uni(x)


def _vector_load(l: Lanes, ptr: Lane, m: Val | None, default: Val, e: DType, word: str) -> Val:
    w, n = l.w, l.n
    et = mem_type(e)
    ty = vector(n, et)
    pe = Pointer(e)
    if isinstance(ptr, Lin) and ptr.m == 1:
        return _contiguous_load(l, l.at_pos(ptr, pe), m, default, ty, et, word)
    if isinstance(ptr, Lin) and ptr.m == -1:
        last = w.gep(et, l.at_pos(ptr, pe), w.const(1 - n, "i64"))
        flipped = None if m is None else reverse(l, m)
        x = _contiguous_load(l, last, flipped, reverse(l, default), ty, et, word)
        return reverse(l, x)
    if m is None and isinstance(ptr, Lin) and ptr.m in CLOSE and n >= 4:
        return _close_load(l, l.at_pos(ptr, pe), int(ptr.m), ty, et, word)
    pv = l.vec(ptr, pe)
    full = m if m is not None else l.splat_text(w.const(1, "i1"))
    name = f"llvm.masked.gather.{suffix(n, et)}.v{n}p0"
    w.declare(name, f"{ty} (<{n} x ptr>, <{n} x i1>, {ty})")
    return w.here(ty, f"call {ty} @{name}(<{n} x ptr> align 1 {pv.text}, <{n} x i1> {full.text}, "
                      f"{ty} {default.text})")


def _close_load(l: Lanes, p: Val, step: int, ty: str, et: str, word: str) -> Val:
    """Every second, third or fourth element: whole vectors, of which the last one ends with the
    last element wanted, so nothing is touched beyond it."""
    w, n = l.w, l.n
    span = step * (n - 1) + 1
    starts = [*range(0, span - n, n), span - n]
    picked: Val | None = None
    for i, start in enumerate(starts):
        at = w.gep(et, p, w.const(start, "i64"))
        x = w.here(ty, f"{word} {ty}, ptr {at.text}, align 1")
        if picked is None:
            picked = x
            lanes = [step * k if step * k < n else -1 for k in range(n)]
            order = ", ".join(f"i32 {j}" if j >= 0 else "i32 poison" for j in lanes)
            picked = w.pure(ty, f"shufflevector {ty} {{}}, {ty} poison, <{n} x i32> <{order}>", x)
            continue
        first = starts[i - 1] + n  # elements before it are there already
        order = ", ".join(
            f"i32 {n + step * k - start}" if first <= step * k < start + n else f"i32 {k}"
            for k in range(n))
        picked = w.pure(ty, f"shufflevector {ty} {{}}, {ty} {{}}, <{n} x i32> <{order}>",
                        picked, x)
    assert picked is not None
    return picked


def _close_store(l: Lanes, p: Val, x: Val, step: int, ty: str, et: str) -> None:
    """Every second, third or fourth element: vectors with gaps under constant masks."""
    w, n = l.w, l.n
    name = f"llvm.masked.store.{suffix(n, et)}.p0"
    w.declare(name, f"void ({ty}, ptr, <{n} x i1>)")
    for start in range(0, step * (n - 1) + 1, n):
        hits = [(start + i) % step == 0 and (start + i) // step < n for i in range(n)]
        if sum(hits) == 1:  # never a mask of one lane: see `_store_first_lanes`
            i = hits.index(True)
            one = w.pure(et, f"extractelement {ty} {{}}, i64 {(start + i) // step}", x)
            at = w.gep(et, p, w.const(start + i, "i64"))
            w.do(f"store {et} {one.text}, ptr {at.text}, align 1")
            continue
        order = ", ".join(f"i32 {(start + i) // step}" if hit else "i32 poison"
                          for i, hit in enumerate(hits))
        part = w.pure(ty, f"shufflevector {ty} {{}}, {ty} poison, <{n} x i32> <{order}>", x)
        at = w.gep(et, p, w.const(start, "i64"))
        w.do(f"call void @{name}({ty} {part.text}, ptr align 1 {at.text}, "
             f"<{n} x i1> {l.mask(hits).text})")


def _contiguous_load(l: Lanes, p: Val, m: Val | None, default: Val, ty: str, et: str,
                     word: str) -> Val:
    w, n = l.w, l.n
    if m is None:
        return w.here(ty, f"{word} {ty}, ptr {p.text}, align 1")
    name = f"llvm.masked.load.{suffix(n, et)}.p0"
    w.declare(name, f"{ty} (ptr, <{n} x i1>, {ty})")
    return w.here(ty, f"call {ty} @{name}(ptr align 1 {p.text}, <{n} x i1> {m.text}, "
                      f"{ty} {default.text})")


def reverse(l: Lanes, x: Val) -> Val:
    """The lanes in the opposite order."""
    if x.text in ("poison", "zeroinitializer") or x.text.startswith("splat"):
        return x
    order = ", ".join(f"i32 {i}" for i in reversed(range(l.n)))
    return l.w.pure(x.ty, f"shufflevector {x.ty} {{}}, {x.ty} poison, <{l.n} x i32> <{order}>", x)


def store(l: Lanes, ptr: Lane, value: Lane, mask: Lane | None, e: DType,
          exec_mask: Val | None) -> None:
    """Write elements of dtype `e` where the mask is set."""
    w, n = l.w, l.n
    uniform = isinstance(ptr, Uni) and isinstance(value, Uni)
    if n == 1 or (uniform and exec_mask is None and (mask is None or isinstance(mask, Uni))):
        _scalar_store(l, ptr, value, mask, e)
        return
    m = mask_vector(l, mask, exec_mask)
    if m is not None and m.const == 0:
        return
    et = mem_type(e)
    ty = vector(n, et)
    pe = Pointer(e)
    x = to_mem(l, l.vec(value, e), e)
    if isinstance(ptr, Lin) and ptr.m in (1, -1):
        p = l.at_pos(ptr, pe)
        if ptr.m == -1:
            p = w.gep(et, p, w.const(1 - n, "i64"))
            x = reverse(l, x)
            m = None if m is None else reverse(l, m)
        if m is None and l.bypass and ptr.m == 1:
            size = n * size_of(e)
            w.do(f"store {ty} {x.text}, ptr {p.text}, align {size}, !nontemporal !0")
            return
        if m is None:
            w.do(f"store {ty} {x.text}, ptr {p.text}, align 1")
            return
        if _store_first_lanes(l, p, x, m, et):
            return
        name = f"llvm.masked.store.{suffix(n, et)}.p0"
        w.declare(name, f"void ({ty}, ptr, <{n} x i1>)")
        w.do(f"call void @{name}({ty} {x.text}, ptr align 1 {p.text}, <{n} x i1> {m.text})")
        return
    if m is None and isinstance(ptr, Lin) and ptr.m in CLOSE and n >= 4:
        _close_store(l, l.at_pos(ptr, pe), x, int(ptr.m), ty, et)
        return
    pv = l.vec(ptr, pe)
    full = m if m is not None else l.splat_text(w.const(1, "i1"))
    name = f"llvm.masked.scatter.{suffix(n, et)}.v{n}p0"
    w.declare(name, f"void ({ty}, <{n} x ptr>, <{n} x i1>)")
    w.do(f"call void @{name}({ty} {x.text}, <{n} x ptr> align 1 {pv.text}, "
         f"<{n} x i1> {full.text})")


def _store_first_lanes(l: Lanes, p: Val, x: Val, m: Val, et: str) -> bool:
    """Store the lanes of a constant mask, if those are the first 1, 2, 4, ... ones.

    Besides being shorter this avoids what LLVM 22 makes of a truncated vector under a mask of one
    lane on x86: a store of the untruncated element.
    """
    w, count = l.w, l.w.prefixes.get(m.text)
    if count is None or count & (count - 1):
        return False
    if count == 1:
        one = w.pure(et, f"extractelement {x.ty} {{}}, i64 0", x)
        w.do(f"store {et} {one.text}, ptr {p.text}, align 1")
        return True
    order = ", ".join(f"i32 {i}" for i in range(count))
    ty = vector(count, et)
    part = w.pure(ty, f"shufflevector {x.ty} {{}}, {x.ty} poison, <{count} x i32> <{order}>", x)
    w.do(f"store {ty} {part.text}, ptr {p.text}, align 1")
    return True


def _scalar_store(l: Lanes, ptr: Lane, value: Lane, mask: Lane | None, e: DType) -> None:
    w = l.w
    one = l if l.n == 1 else None

    def scalar(x: Lane, t: ScalarType) -> Val:
        if isinstance(x, Uni):
            return x.val
        assert one is not None
        return one.vec(x, t)

    p = scalar(ptr, Pointer(e))
    x = to_mem(l, scalar(value, e), e)
    text = f"store {x.ty} {x.text}, ptr {p.text}, align 1"
    guard = scalar(mask, _I1) if mask is not None else None
    if guard is not None and guard.const == 0:
        return
    if guard is None or guard.const == 1:
        w.do(text)
        return
    branch = w.begin_if(guard)
    w.do(text)
    w.end_if(branch)


__all__ = ["ZEROS", "both", "load", "mask_vector", "reg_type", "store"]
