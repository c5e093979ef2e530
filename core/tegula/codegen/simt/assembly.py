"""Assembly of the target that kernels bring along, on every element or on several at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tegula.codegen.loops.evaluate import Unsupported
from tegula.codegen.loops.text import Val
from tegula.codegen.simt.elementwise import from_memory, memory_type, to_memory
from tegula.codegen.simt.kernel import bits_of
from tegula.codegen.simt.registry import lowers, shared_size
from tegula.ir.core import Op, Value
from tegula.ir.types import ScalarType, elem_of

if TYPE_CHECKING:
    from tegula.codegen.simt.kernel import Emitter

_WORD = 32
"""Bits of a register; elements of fewer bits share one where an instruction takes several."""


@lowers("inline_asm")
def _inline_asm(k: Emitter, op: Op) -> None:
    parts = [p.strip() for p in op.attrs["constraints"].split(",") if p.strip()]
    outputs = [p for p in parts if p.startswith("=")]
    inputs = [p for p in parts if not p.startswith(("=", "~"))]
    pack = op.attrs["pack"]
    wanted = sum(_words(elem_of(v.type), pack) for v in op.results)
    given = sum(_words(elem_of(v.type), pack) for v in op.operands)
    if (len(outputs), len(inputs)) != (wanted, given):
        raise Unsupported(
            op, f"the constraints name {len(outputs)} results and {len(inputs)} arguments; for "
            f"{pack} element(s) at a time it takes {wanted} and {given}",
        )
    types = [_type(k, op, p) for p in outputs]
    columns = [k.regs(v) for v in op.operands]
    results: list[list[Val]] = [[] for _ in op.results]
    count = k.layout(op.results[0]).registers
    for start in range(0, count, pack):
        numbers = [min(start + i, count - 1) for i in range(pack)]
        words = [
            word
            for v, column in zip(op.operands, columns)
            for word in _packed(k, v, [column[n] for n in numbers])
        ]
        arguments = [
            k.cooked(k.w.resize(x, f"i{bits_of(ty)}", False), ty)
            for x, ty in zip(words, (_type(k, op, p, types) for p in inputs))
        ]
        made = iter(_call(k, op, types, arguments, ",".join(parts)))
        for v, out in zip(op.results, results):
            e = elem_of(v.type)
            out += _unpacked(k, e, [next(made) for _ in range(_words(e, pack))], pack)
    for v, out in zip(op.results, results):
        k.set(v, out[:count])


def _share(e: ScalarType, pack: int) -> int:
    """Elements in one register."""
    return min(pack, max(1, _WORD // (8 * shared_size(e))))


def _words(e: ScalarType, pack: int) -> int:
    return -(-pack // _share(e, pack))


def _type(k: Emitter, op: Op, constraint: str, outputs: Sequence[str] = ()) -> str:
    """The LLVM type of what a constraint names: a letter, or the number of a result."""
    letter = constraint.lstrip("=&+%")
    if letter.isdecimal() and int(letter) < len(outputs):
        return outputs[int(letter)]
    if letter not in k.simt.assembly:
        raise Unsupported(
            op, f"the constraint {constraint!r}; there are {', '.join(k.simt.assembly)}"
        )
    return k.simt.assembly[letter]


def _packed(k: Emitter, v: Value, elements: Sequence[Val]) -> list[Val]:
    """Elements as integers, several in one where they are narrow."""
    w, e = k.w, elem_of(v.type)
    bits, share = 8 * shared_size(e), _share(e, len(elements))
    raws = [k.raw(to_memory(w, x, e)) for x in elements]
    ty, out = f"i{bits * share}", []
    for i in range(0, len(raws), share):
        word = w.resize(raws[i], ty, False)
        for j, x in enumerate(raws[i + 1 : i + share], 1):
            moved = w.pure(ty, f"shl {ty} {{}}, {bits * j}", w.resize(x, ty, False))
            word = w.pure(ty, f"or {ty} {{}}, {{}}", word, moved)
        out.append(word)
    return out


def _unpacked(k: Emitter, e: ScalarType, words: Sequence[Val], pack: int) -> list[Val]:
    w, bits, share = k.w, 8 * shared_size(e), _share(e, pack)
    out = []
    for word in map(k.raw, words):
        for j in range(share):
            x = w.pure(word.ty, f"lshr {word.ty} {{}}, {bits * j}", word) if j else word
            x = k.cooked(w.resize(x, f"i{bits}", False), memory_type(e))
            out.append(from_memory(w, x, e))
    return out


def _call(
    k: Emitter, op: Op, types: Sequence[str], arguments: Sequence[Val], constraints: str
) -> list[Val]:
    w = k.w
    result = "{ " + ", ".join(types) + " }" if len(types) > 1 else types[0]
    effects = "" if op.attrs["pure"] else "sideeffect "
    passed = ", ".join(f"{x.ty} {x.text}" for x in arguments)
    made = w.here(
        result, f'call {result} asm {effects}"{_quoted(op.attrs["asm"])}", '
        f'"{constraints}"({passed})',
    )  # fmt: skip
    if len(types) == 1:
        return [made]
    return [
        w.here(ty, f"extractvalue {result} {made.text}, {i}") for i, ty in enumerate(types)
    ]


def _quoted(text: str) -> str:
    """A text between quotation marks in LLVM's notation."""
    return "".join(c if " " <= c <= "~" and c not in '"\\' else f"\\{ord(c):02X}" for c in text)
