"""NVIDIA's matrix instructions on a device of another kind with subgroups of 32, by shuffles.

`mma.sync` is carried out from the layouts of its fragments, `ldmatrix` and `stmatrix` from what the
hooks say of them, so that the code around them runs as it does on a GPU.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from tegula.codegen.loops.convert import cast
from tegula.codegen.loops.lanes import Lanes, Position
from tegula.codegen.loops.text import Val, Writer
from tegula.codegen.simt.hooks import Simt
from tegula.codegen.simt.layout import Layout, Span, index_of
from tegula.codegen.simt.matrix import MatrixUnit
from tegula.ir.types import DType

LANE_BITS = 31


def shifted(w: Writer, x: Val, by: int) -> Val:
    return w.pure(x.ty, f"lshr {x.ty} {{}}, {by}", x) if by else x


def masked(w: Writer, x: Val, mask: int) -> Val:
    return w.pure(x.ty, f"and {x.ty} {{}}, {mask}", x)


def xored(w: Writer, x: Val, y: Val) -> Val:
    return w.pure(x.ty, f"xor {x.ty} {{}}, {{}}", x, y)


def shuffled(simt: Simt, w: Writer, x: Val, lane: Val) -> Val:
    """A value of 32 or 64 bits from another lane."""
    ty = {"float": "i32", "double": "i64", "ptr addrspace(3)": "i64"}.get(x.ty, x.ty)
    verbs = ("ptrtoint", "inttoptr") if x.ty.startswith("ptr") else ("bitcast", "bitcast")
    raw = x if x.ty == ty else w.pure(ty, f"{verbs[0]} {x.ty} {{}} to {ty}", x)
    if ty == "i32":
        raw = simt.shuffle(w, raw, "idx", lane)
    else:
        low, high = (
            simt.shuffle(w, w.pure("i32", "trunc i64 {} to i32", shifted(w, raw, by)), "idx", lane)
            for by in (0, 32)
        )
        top = w.pure("i64", "shl i64 {}, 32", w.resize(high, "i64", False))
        raw = w.pure("i64", "or i64 {}, {}", top, w.resize(low, "i64", False))
    return raw if x.ty == ty else w.pure(x.ty, f"{verbs[1]} {ty} {{}} to {x.ty}", raw)


class Emulated:
    """A matrix instruction made of shuffles and single multiplications."""

    def __init__(self, simt: Simt, unit: MatrixUnit) -> None:
        self.simt = simt
        self.unit = unit

    def lane(self, w: Writer) -> Val:
        return masked(w, self.simt.thread_id(w), LANE_BITS)

    def __call__(self, w: Writer, a: Sequence[Val], b: Sequence[Val], c: Sequence[Val]
                 ) -> list[Val]:  # fmt: skip
        unit = self.unit
        m, n, depth = unit.shape
        left, right = (self.elements(w, x, e) for x, e in zip((a, b), unit.factors))
        down = [unit.c.coordinates(x)[0] for x in unit.c.lane]
        across = [unit.c.coordinates(x)[1] for x in unit.c.lane]
        seen: dict[tuple[str, int, int], Val] = {}

        def element(side: str, line: int, k: int) -> Val:
            if (side, line, k) not in seen:
                if side == "a":
                    at, moves = index_of((m, depth), (line, k)), [x * depth for x in down]
                    found = self.fetch(w, unit.a, left, at, moves)
                else:
                    at = index_of((depth, n), (k, line))
                    found = self.fetch(w, unit.b, right, at, across)
                seen[side, line, k] = found
            return seen[side, line, k]

        out = list(c)
        for r, offset in enumerate(unit.c.offsets):
            i, j = unit.c.coordinates(offset)
            for k in range(depth):
                x, y, z = element("a", i, k), element("b", j, k), out[r]
                if z.ty == "i32":
                    out[r] = w.add(z, w.mul(x, y))
                else:
                    name = "llvm.fma.f64" if z.ty == "double" else "llvm.fma.f32"
                    out[r] = w.call(name, z.ty, x, y, z)
        return out

    def elements(self, w: Writer, words: Sequence[Val], e: DType) -> list[Val]:
        """Words as elements of the sums' type."""
        count, acc = 32 // e.bits if e.bits < 32 else 1, self.unit.acc
        ty = {"f16": "half", "bf16": "i16"}.get(e.name, "i8")
        lanes = Lanes(w, 1, Position(None, 0, 1, 1))
        out: list[Val] = []
        for x in words:
            if count == 1:
                given = x.ty == "i32" and e.is_float
                out.append(w.pure("float", "bitcast i32 {} to float", x) if given else x)
                continue
            v = w.pure(f"<{count} x {ty}>", f"bitcast i32 {{}} to <{count} x {ty}>", x)
            for i in range(count):
                part = w.pure(ty, f"extractelement <{count} x {ty}> {{}}, i32 {i}", v)
                out.append(cast(lanes, part, e, acc))
        return out

    def fetch(self, w: Writer, fragment: Layout, regs: Sequence[Val], at: int,
              moves: Sequence[int]) -> Val:  # fmt: skip
        """The element `at`, plus for each bit of the lane's number what it moves by."""
        span, bits = Span((*fragment.register, *fragment.lane)), len(fragment.register)
        how = span.solve(at)
        assert how is not None
        lane = w.const(how >> bits, "i32")
        for i, move in enumerate(moves):
            there = span.solve(move)
            assert there is not None and not there & (1 << bits) - 1
            if there:
                bit = masked(w, shifted(w, self.lane(w), i), 1)
                lane = xored(w, lane, w.mul(bit, w.const(there >> bits, "i32")))
        return shuffled(self.simt, w, regs[how & (1 << bits) - 1], lane)


def shorten(w: Writer, x: Val) -> Val:
    """f32 rounded to the 11 bits of tf32."""
    raw = w.pure("i32", "add i32 {}, 4096", w.pure("i32", "bitcast float {} to i32", x))
    return w.pure("float", "bitcast i32 {} to float", masked(w, raw, -8192))


class MatrixMachine:
    """A mixin: the matrix instructions of an NVIDIA architecture for another `Simt`."""

    matrix_loads = True
    matrix_stores = True
    known: dict[tuple[str, str, str], tuple[MatrixUnit, ...]]
    used: list[str]

    def matrix_units(self, a: DType, b: DType, acc: DType) -> Sequence[MatrixUnit]:
        made = self.__dict__.setdefault("_made", {})
        out = []
        for unit in self.known.get((a.name, b.name, acc.name), ()):
            if unit not in made:
                made[unit] = dataclasses.replace(
                    unit,
                    emit=Emulated(self, unit),  # type: ignore[arg-type]
                    shorten=shorten if unit.shorten else None,
                )
            out.append(made[unit])
        return out

    def places(self, w: Writer, ptr: Val, number: int, transposed: bool) -> list[Val]:
        """Where this lane's word of a matrix lies, or each half of it."""
        simt: Simt = self  # type: ignore[assignment]
        lane = masked(w, simt.thread_id(w), LANE_BITS)
        group, line = shifted(w, lane, 2), masked(w, lane, 3)
        if not transposed:
            rows = [w.add(group, w.const(8 * number, "i32"))]
            nbytes = w.mul(line, w.const(4, "i32"))
        else:
            first = w.mul(line, w.const(2, "i32"))
            rows = [w.add(first, w.const(8 * number + half, "i32")) for half in (0, 1)]
            nbytes = w.mul(group, w.const(2, "i32"))
        return [
            w.pure(ptr.ty, f"getelementptr i8, {ptr.ty} {{}}, i32 {{}}",
                   shuffled(simt, w, ptr, row), nbytes)
            for row in rows
        ]  # fmt: skip

    def load_matrices(self, w: Writer, ptr: Val, count: int, transposed: bool) -> list[Val]:
        self.used.append("load" + " transposed" * transposed)
        out = []
        for number in range(count):
            found = self.places(w, ptr, number, transposed)
            ty = "i16" if transposed else "i32"
            parts = [w.here(ty, f"load {ty}, {p.ty} {p.text}") for p in found]
            word = w.resize(parts[0], "i32", False)
            if transposed:
                high = w.pure("i32", "shl i32 {}, 16", w.resize(parts[1], "i32", False))
                word = w.pure("i32", "or i32 {}, {}", word, high)
            out.append(word)
        return out

    def store_matrices(self, w: Writer, ptr: Val, words: Sequence[Val], transposed: bool) -> None:
        self.used.append("store" + " transposed" * transposed)
        for number, word in enumerate(words):
            for half, p in enumerate(self.places(w, ptr, number, transposed)):
                x = word
                if transposed:
                    x = w.pure("i16", "trunc i32 {} to i16", shifted(w, word, 16 * half))
                w.do(f"store {x.ty} {x.text}, {p.ty} {p.text}")
