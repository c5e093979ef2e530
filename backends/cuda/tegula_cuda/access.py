"""Accesses to global memory that LLVM has no instruction for: under a predicate, or with a hint for
the caches.
"""

from __future__ import annotations

from collections.abc import Sequence

from tegula.codegen.loops.text import Val, Writer
from tegula.codegen.simt.hooks import Access, unpacked, zero_of
from tegula.codegen.simt.words import bits_of, elements, packed_words, word_shape
from tegula_cuda.native import WORDS


def special(access: Access) -> bool:
    """Whether an access says more than what to read or write."""
    return bool(access.cache or access.evict or access.volatile)


def load(
    w: Writer, ptr: Val, ty: str, count: int, pred: Val | None, other: Sequence[Val] | None,
    access: Access, align: int,
) -> list[Val]:  # fmt: skip
    """`count` neighbouring elements; where `pred` is false, those of `other` or zeros."""
    bits = bits_of(ty)
    step = align * 8 // bits
    if step < count:  # less aligned than wide: several accesses
        out: list[Val] = []
        for i in range(0, count, max(1, step)):
            rest = other[i : i + max(1, step)] if other else None
            at = _advance(w, ptr, ty, i)
            out += load(w, at, ty, max(1, step), pred, rest, access, max(align, bits // 8))
        return out
    word, n = word_shape(bits, count)
    letter, regs = WORDS[word], ", ".join(f"${i}" for i in range(n))
    operands, constraints = [], [f"={letter}"] * n
    text = f"ld{_hints(access, 'ld')}{_vector(n)}.b{min(word, bits * count)} "
    text += f"{{{regs}}}" if n > 1 else regs
    text += f", [${n}];"
    constraints.append("l")
    operands.append(f"{ptr.ty} {ptr.text}")
    if pred is not None:
        text = f"@${n + 1} {text}"
        constraints.append("b")
        operands.append(f"i1 {pred.text}")
        begin = list(other) if other else [zero_of(w, ty)] * count
        for i, x in enumerate(packed_words(w, begin, word, n)):
            constraints.append(str(i))
            operands.append(f"i{word} {x.text}")
    result = f"i{word}" if n == 1 else "{ " + ", ".join([f"i{word}"] * n) + " }"
    got = w.here(
        result,
        f'call {result} asm sideeffect "{text}", "{",".join(constraints)}"({", ".join(operands)})',
    )
    words = [got] if n == 1 else unpacked(w, got, f"i{word}", n)
    return elements(w, words, ty, count)


def store(
    w: Writer, ptr: Val, values: Sequence[Val], pred: Val | None, access: Access, align: int
) -> None:
    """Store neighbouring elements where `pred` holds."""
    ty, count = values[0].ty, len(values)
    bits = bits_of(ty)
    step = max(1, align * 8 // bits)
    if step < count:
        for i in range(0, count, step):
            at = _advance(w, ptr, ty, i)
            store(w, at, values[i : i + step], pred, access, max(align, bits // 8))
        return
    word, n = word_shape(bits, count)
    regs = ", ".join(f"${i + 1}" for i in range(n))
    text = f"st{_hints(access, 'st')}{_vector(n)}.b{min(word, bits * count)} [$0], "
    text += f"{{{regs}}};" if n > 1 else f"{regs};"
    constraints = ["l", *[WORDS[word]] * n]
    operands = [f"{ptr.ty} {ptr.text}"]
    operands += [f"i{word} {x.text}" for x in packed_words(w, values, word, n)]
    if pred is not None:
        text = f"@${n + 1} {text}"
        constraints.append("b")
        operands.append(f"i1 {pred.text}")
    w.do(f'call void asm sideeffect "{text}", "{",".join(constraints)}"({", ".join(operands)})')


def _advance(w: Writer, ptr: Val, ty: str, count: int) -> Val:
    if count == 0:
        return ptr
    return w.pure(ptr.ty, f"getelementptr {ty}, {ptr.ty} {{}}, i32 {count}", ptr)


def _vector(n: int) -> str:
    return f".v{n}" if n > 1 else ""


def _hints(access: Access, verb: str) -> str:
    if access.volatile:
        return ".volatile.global"
    if access.evict in ("evict_first", "evict_last"):
        return f".global.L1::{access.evict}"
    return f".global{access.cache}"
