"""Atomics that a machine has no instruction for: loops around a compare-and-swap of the word that
holds the element.
"""

from __future__ import annotations

from collections.abc import Callable

from tegula.codegen.loops.convert import from_f32, to_f32
from tegula.codegen.loops.elementwise import minmax
from tegula.codegen.loops.lanes import Lanes, Position, mem_type
from tegula.codegen.loops.text import Scope, Val, Writer
from tegula.codegen.simt.elementwise import from_memory, to_memory
from tegula.ir.types import DType, f32, f64


def read_modify_write(w: Writer, kind: str, ptr: Val, value: Val, e: DType, order: str) -> Val:
    """The old element, as it lies in memory; `order` is LLVM's text of scope and ordering."""
    if kind == "xchg":
        bits = _raw(w, value)
        return _cooked(w, _swapping(w, ptr, e.itemsize, lambda _: bits, order), value.ty)

    def updated(old: Val) -> Val:
        x = from_memory(w, _cooked(w, old, mem_type(e)), e)
        new = combined(w, kind, x, from_memory(w, value, e), e)
        return _raw(w, to_memory(w, new, e))

    return _cooked(w, _swapping(w, ptr, e.itemsize, updated, order), value.ty)


def combined(w: Writer, kind: str, a: Val, b: Val, e: DType) -> Val:
    """What an atomic leaves in memory, computed on values in registers."""
    l = Lanes(w, 1, Position(None, 0, 1, 1))
    if e.bits == 1:
        verb = {"add": "xor", "max": "or", "min": "and"}.get(kind, kind)
        return w.pure("i1", f"{verb} i1 {{}}, {{}}", a, b)
    if kind in ("max", "min"):
        return minmax(l, kind, False, e, a, b)
    if not e.is_float:
        return w.pure(a.ty, f"{kind} {a.ty} {{}}, {{}}", a, b)
    if e in (f32, f64):
        return w.pure(a.ty, f"fadd {a.ty} {{}}, {{}}", a, b)
    total = w.pure("float", "fadd float {}, {}", to_f32(l, a, e), to_f32(l, b, e))
    return from_f32(l, total, e)


def compare_and_swap(w: Writer, ptr: Val, cmp: Val, value: Val, size: int, order: str) -> Val:
    """The old bits of an element of `size` bytes."""
    if size >= 4:
        return _exchange(w, ptr, cmp, value, order)[0]

    def updated(old: Val) -> Val:
        return w.select(w.icmp("eq", old, cmp), value, old)

    return _swapping(w, ptr, size, updated, order)


def _exchange(w: Writer, ptr: Val, cmp: Val, value: Val, order: str) -> tuple[Val, Val]:
    """One instruction: the old word, and whether it was swapped."""
    words = order.split()
    failing = {"acq_rel": "acquire", "release": "monotonic"}.get(words[-1], words[-1])
    pair = f"{{ {value.ty}, i1 }}"
    both = w.here(
        pair,
        f"cmpxchg {ptr.ty} {ptr.text}, {cmp.ty} {cmp.text}, {value.ty} {value.text} "
        f"{order} {failing}, align {int(value.ty[1:]) // 8}",
    )
    old = w.here(value.ty, f"extractvalue {pair} {both.text}, 0")
    return old, w.here("i1", f"extractvalue {pair} {both.text}, 1")


def _swapping(w: Writer, ptr: Val, size: int, updated: Callable[[Val], Val], order: str) -> Val:
    """Replace the bits of an element by what `updated` makes of them; gives the old bits."""
    word, ty = (_Word(w, ptr, size), "i32") if size < 4 else (None, f"i{8 * size}")
    place = word.ptr if word is not None else ptr
    first = w.here(ty, f"load {ty}, {place.ty} {place.text}, align {int(ty[1:]) // 8}")
    pre, outer = w.scope.block, w.scope
    head = w.new_block("swap")
    pre.term = f"br label %{head.label}"
    w.scope = Scope(outer, head)
    seen = Val(w.name(), ty, w.scope)
    old = word.part(seen) if word is not None else seen
    new = updated(old)
    whole = word.with_part(seen, new) if word is not None else new
    now, done = _exchange(w, place, seen, whole, order)
    end = w.new_block("swapped")
    latch = w.scope.block
    head.phis.append(
        f"  {seen.text} = phi {ty} [ {first.text}, %{pre.label} ], [ {now.text}, %{latch.label} ]"
    )
    latch.term = f"br i1 {done.text}, label %{end.label}, label %{head.label}"
    outer.block = end
    w.scope = outer
    return Val(old.text, old.ty, outer)


class _Word:
    """The aligned word of 32 bits that a smaller element lies in."""

    def __init__(self, w: Writer, ptr: Val, size: int) -> None:
        self.w, self.ty = w, f"i{8 * size}"
        address = w.pure("i64", f"ptrtoint {ptr.ty} {{}} to i64", ptr)
        inside = w.pure("i64", "and i64 {}, 3", address)
        back = w.pure("i64", "sub i64 0, {}", inside)
        self.ptr = w.pure(ptr.ty, f"getelementptr i8, {ptr.ty} {{}}, i64 {{}}", ptr, back)
        self.shift = w.pure("i32", "shl i32 {}, 3", w.resize(inside, "i32", False))
        mask = w.const((1 << 8 * size) - 1, "i32")
        self.hole = w.pure(
            "i32", "xor i32 {}, -1", w.pure("i32", "shl i32 {}, {}", mask, self.shift)
        )

    def part(self, word: Val) -> Val:
        """The element's bits."""
        down = self.w.pure("i32", "lshr i32 {}, {}", word, self.shift)
        return self.w.resize(down, self.ty, False)

    def with_part(self, word: Val, part: Val) -> Val:
        """The word with other bits for the element."""
        up = self.w.pure("i32", "shl i32 {}, {}", self.w.resize(part, "i32", False), self.shift)
        rest = self.w.pure("i32", "and i32 {}, {}", word, self.hole)
        return self.w.pure("i32", "or i32 {}, {}", rest, up)


def _raw(w: Writer, x: Val) -> Val:
    """A value's bits."""
    size = {"half": 16, "float": 32, "double": 64}.get(x.ty)
    return x if size is None else w.pure(f"i{size}", f"bitcast {x.ty} {{}} to i{size}", x)


def _cooked(w: Writer, x: Val, ty: str) -> Val:
    """Bits as a value."""
    return x if x.ty == ty else w.pure(ty, f"bitcast {x.ty} {{}} to {ty}", x)
