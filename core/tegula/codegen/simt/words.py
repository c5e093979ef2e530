"""Neighbouring elements as registers of whole words, in which accesses to memory carry them."""

from __future__ import annotations

from collections.abc import Sequence

from tegula.codegen.loops.text import Val, Writer

_BITS = {"half": 16, "float": 32, "double": 64}


def bits_of(ty: str) -> int:
    """Bits of an LLVM scalar type."""
    return _BITS.get(ty) or int(ty[1:])


def word_shape(bits: int, count: int) -> tuple[int, int]:
    """Width and number of the registers of one access; a byte travels in one of 16 bits."""
    if bits == 64:
        return 64, count
    total = bits * count
    return (32, total // 32) if total >= 32 else (16, 1)


def packed_words(w: Writer, values: Sequence[Val], word: int, n: int) -> list[Val]:
    """Elements as registers of `word` bits."""
    each = len(values) // n
    out = []
    for i in range(n):
        part = values[i * each : (i + 1) * each]
        ty = part[0].ty
        if each == 1:
            x = part[0]
            bits = bits_of(ty)
            if not ty.startswith("i"):
                x = w.pure(f"i{bits}", f"bitcast {ty} {{}} to i{bits}", x)
            out.append(w.resize(x, f"i{word}", False))
            continue
        vec = f"<{each} x {ty}>"
        v = w.literal("poison", vec)
        for j, x in enumerate(part):
            v = w.pure(vec, f"insertelement {vec} {{}}, {ty} {{}}, i32 {j}", v, x)
        out.append(w.pure(f"i{word}", f"bitcast {vec} {{}} to i{word}", v))
    return out


def elements(w: Writer, words: Sequence[Val], ty: str, count: int) -> list[Val]:
    """The elements that words hold."""
    each = count // len(words)
    bits = bits_of(ty)
    out = []
    for x in words:
        if each == 1:
            x = w.resize(x, f"i{bits}", False)
            if not ty.startswith("i"):
                x = w.pure(ty, f"bitcast i{bits} {{}} to {ty}", x)
            out.append(x)
            continue
        vec = f"<{each} x {ty}>"
        v = w.pure(vec, f"bitcast {x.ty} {{}} to {vec}", x)
        out += [w.pure(ty, f"extractelement {vec} {{}}, i32 {j}", v) for j in range(each)]
    return out
