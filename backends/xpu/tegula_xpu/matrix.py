"""Matrix units of Intel GPUs (DPAS): eight rows of a product by the lanes of a subgroup.

Lane l has column l of the right factor and of the product, and of each row of the left factor the
elements that fill 16 bits (subgroups of 16) or 32 bits (subgroups of 8).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial

from tegula.codegen.loops.text import Val, Writer
from tegula.codegen.simt.hooks import packed
from tegula.codegen.simt.layout import Layout, log2
from tegula.codegen.simt.matrix import MatrixUnit
from tegula.ir.types import DType, bf16, f16, f32, i8, i32, u8

ROWS, WORDS = 8, 8
"""Rows of the left factor and the product; words of 32 bits of the right factor in a lane."""

_PACKED = {"f16": 0x400, "bf16": 0x1000, "i8": 0x10, "u8": 0x10}
"""SPIR-V's flag for what the left factor's words hold; the right factor's is the next bit."""
_SIGNED = 0x1


@lru_cache(maxsize=16)
def units(columns: int) -> dict[tuple[DType, DType, DType], MatrixUnit]:
    """The instructions of a device whose products have so many columns."""
    out = {(e, e, f32): _unit(e, e, f32, columns) for e in (f16, bf16)}
    out |= {(a, b, i32): _unit(a, b, i32, columns) for a in (i8, u8) for b in (i8, u8)}
    return out


def _unit(left: DType, right: DType, acc: DType, columns: int) -> MatrixUnit:
    per_word = 32 // left.bits
    depth = WORDS * per_word
    beside = depth // columns
    row = [depth << i for i in range(log2(ROWS))]
    a = Layout((ROWS, depth), (*_bits(1, beside), *row), _bits(beside, columns), ())
    b = Layout((depth, columns), _bits(columns, depth), _bits(1, columns), ())
    c = Layout((ROWS, columns), _bits(columns, ROWS), _bits(1, columns), ())
    flags = _PACKED[left.name] | _PACKED[right.name] << 1
    flags |= _SIGNED * left.is_signed * left.is_int | _SIGNED * right.is_signed * right.is_int << 1
    ty = f"i{beside * left.bits}"
    emit = partial(_multiply, depth, ty, flags)
    return MatrixUnit(f"dpas{columns}.{left}.{right}", (left, right), acc, a, b, c, emit)


def _bits(first: int, count: int) -> tuple[int, ...]:
    """Bases of a number below `count` whose elements are `first` apart."""
    return tuple(first << i for i in range(log2(count)))


def _multiply(
    depth: int, ty: str, flags: int, w: Writer, a: Sequence[Val], b: Sequence[Val],
    c: Sequence[Val],
) -> list[Val]:  # fmt: skip
    """One instruction; all lanes of the subgroup take part, so it stays where it is put."""
    words, left = packed(w, a), f"<{ROWS} x {ty}>"
    if words.ty != left:
        words = w.pure(left, f"bitcast {words.ty} {{}} to {left}", words)
    right, sums = packed(w, b), packed(w, c)
    letters = {"i16": "s", "i32": "i", "float": "f"}
    parts = (ty, "i32", c[0].ty)
    name = "_Z45__spirv_SubgroupMatrixMultiplyAccumulateINTELi"
    name += "".join(f"Dv8_{letters[t]}" for t in parts) + "i"
    w.declare(name, f"{sums.ty} (i32, {left}, {right.ty}, {sums.ty}, i32)")
    made = w.here(
        sums.ty,
        f"call spir_func {sums.ty} @{name}(i32 {depth}, {left} {words.text}, "
        f"{right.ty} {right.text}, {sums.ty} {sums.text}, i32 {flags})",
    )
    return [w.pure(c[0].ty, f"extractelement {sums.ty} {{}}, i32 {i}", made) for i in range(ROWS)]


def load_block(
    w: Writer, side: str, e: DType, base: Val, surface: Sequence[Val], place: Sequence[Val],
    columns: int,
) -> list[Val]:  # fmt: skip
    """A block of 16 bits an element by one instruction, which leaves it in memory of the lane:
    eight rows of the left factor, or all rows of the right one, two of them in a word."""
    left = side == "a"
    kind, rows = ("", ROWS) if left else ("Transform", 2 * WORDS)
    demangled = f"__spirv_Subgroup2DBlockLoad{kind}INTEL"
    name = f"_Z{len(demangled)}{demangled}iiiiPU3AS1viiiDv2_iPv"
    types = f"i32, i32, i32, i32, {base.ty}, i32, i32, i32, <2 x i32>, ptr"
    w.declare(name, f"void ({types})")
    lane = w.local(f"[{rows} x i16]", 64)
    numbers = f"i32 2, i32 {columns}, i32 {rows}, i32 1, {base.ty} {base.text}"
    numbers += "".join(f", i32 {x.text}" for x in surface)
    at = packed(w, place)
    w.do(f"call spir_func void @{name}({numbers}, {at.ty} {at.text}, ptr {lane})")
    ty = {"f16": "half"}.get(e.name, "i16")
    v = w.here(f"<{rows} x {ty}>", f"load <{rows} x {ty}>, ptr {lane}, align 32")
    return [w.pure(ty, f"extractelement {v.ty} {{}}, i32 {i}", v) for i in range(rows)]
