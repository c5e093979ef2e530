"""NVIDIA's matrix units whose operands lie in registers: `mma.sync`, by architecture.

The layouts are those of the fragments in the PTX manual, written as what each bit of the register
and lane number adds. Lanes are eight groups of four.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial

from tegula.codegen.loops.text import Val, Writer
from tegula.codegen.simt.hooks import unpacked
from tegula.codegen.simt.layout import Layout, index_of
from tegula.codegen.simt.matrix import MatrixUnit
from tegula.ir.types import DType, bf16, f16, f32, f64, i8, i32, u8, u32

_CONSTRAINTS = {"i32": "r", "float": "f", "double": "d"}


def _mma(name: str, w: Writer, a: Sequence[Val], b: Sequence[Val], c: Sequence[Val]) -> list[Val]:
    """One instruction; all lanes of the warp take part, so it must not move under a branch."""
    if ".e4m3." in name or ".e5m2." in name:
        a, b = ([x if x.const is None else _hidden(w, x) for x in words] for words in (a, b))
    elif "k8.row.col.f32.f16" in name or "k8.row.col.f32.bf16" in name:
        b = [_hidden(w, x) for x in b]
    count, ty = len(c), c[0].ty
    numbers = iter(range(count + len(a) + len(b) + count))
    groups = [
        "{" + ", ".join(f"${next(numbers)}" for _ in group) + "}" for group in (c, a, b, c)
    ]
    given = [*a, *b, *c]
    constraints = ["=" + _CONSTRAINTS[ty]] * count + [_CONSTRAINTS[x.ty] for x in given]
    result = "{ " + ", ".join([ty] * count) + " }"
    operands = ", ".join(f"{x.ty} {x.text}" for x in given)
    all_ = w.here(
        result,
        f'call {result} asm "mma.sync.aligned.{name} {", ".join(groups)};", '
        f'"{",".join(constraints)}"({operands}) convergent nounwind memory(none)',
    )
    return unpacked(w, all_, ty, count)


def _hidden(w: Writer, x: Val) -> Val:
    """A number that ptxas does not see as a constant. Of constant factors of 8 bits it takes other
    bytes where the hardware has no such products and it multiplies f16; two negative numbers of 16
    bits it takes for one of 32, where it leaves the sign to the instruction, which negates both
    (seen up to CUDA 13.0).
    """
    zero = w.pure("i32", 'call i32 asm "mov.u32 $0, %lanemask_lt; shr.b32 $0, $0, 31;", "=r"()')
    return zero if x.const == 0 else w.pure("i32", "or i32 {}, {}", zero, x)


def _shorten(w: Writer, x: Val) -> Val:
    """f32 rounded to the 11 bits of tf32, halves away from zero."""
    bits = w.call("llvm.nvvm.f2tf32.rna", "i32", x)
    return w.pure("float", "bitcast i32 {} to float", bits)


def _fragment(shape: tuple[int, int], register: Sequence[tuple[int, int]],
              lane: Sequence[tuple[int, int]]) -> Layout:  # fmt: skip
    return Layout(
        shape,
        tuple(index_of(shape, at) for at in register),
        tuple(index_of(shape, at) for at in lane),
        (),
    )


def _columns(*steps: int) -> list[tuple[int, int]]:
    return [(0, n) for n in steps]


def _rows(*steps: int) -> list[tuple[int, int]]:
    return [(n, 0) for n in steps]


_GROUPS = (1, 2, 4)


def _unit(name: str, factors: tuple[DType, DType], acc: DType, m: int, k: int, per_word: int,
          shorten: Callable[[Writer, Val], Val] | None = None) -> MatrixUnit:  # fmt: skip
    """An instruction for m x 8 x k whose lanes hold `per_word` neighbours along k at a time."""
    word = [1 << i for i in range(per_word.bit_length() - 1)]
    line = [per_word, 2 * per_word]
    more = [4 * per_word << i for i in range((k // (4 * per_word)).bit_length() - 1)]
    tall = _rows(8) if m == 16 else []
    a = _fragment((m, k), [*_columns(*word), *tall, *_columns(*more)],
                  [*_columns(*line), *_rows(*_GROUPS)])  # fmt: skip
    b = _fragment((k, 8), _rows(*word, *more), [*_rows(*line), *_columns(*_GROUPS)])
    c = _fragment((m, 8), [(0, 1), *tall], [*_columns(2, 4), *_rows(*_GROUPS)])
    return MatrixUnit(name, factors, acc, a, b, c, partial(_mma, name), shorten)


@cache
def units(features: frozenset[str]) -> dict[tuple[str, str, str], tuple[MatrixUnit, ...]]:
    """The instructions of an architecture, by the names of the factors' and the sums' types."""
    out: dict[tuple[str, str, str], list[MatrixUnit]] = {}

    def enter(size: str, factors: tuple[DType, DType], acc: DType, per_word: int,
              names: str, shorten: Callable[[Writer, Val], Val] | None = None) -> None:  # fmt: skip
        m, k = int(size[1 : size.index("n")]), int(size[size.index("k") + 1 :])
        unit = _unit(f"{size}.row.col.{names}", factors, acc, m, k, per_word, shorten)
        key = (factors[0].name, factors[1].name, acc.name)
        out.setdefault(key, []).append(unit)

    if "bf16" in features:
        enter("m16n8k16", (f16, f16), f32, 2, "f32.f16.f16.f32")
        enter("m16n8k16", (bf16, bf16), f32, 2, "f32.bf16.bf16.f32")
        enter("m16n8k8", (bf16, bf16), f32, 2, "f32.bf16.bf16.f32")
    if "mma_f16" in features:
        enter("m16n8k8", (f16, f16), f32, 2, "f32.f16.f16.f32")
    if "tf32" in features:
        enter("m16n8k8", (f32, f32), f32, 1, "f32.tf32.tf32.f32", _shorten)
        enter("m16n8k4", (f32, f32), f32, 1, "f32.tf32.tf32.f32", _shorten)
    if "mma_fp8" in features:
        for x, left in _FLOAT8.items():
            for y, right in _FLOAT8.items():
                enter("m16n8k32", (x, y), f32, 4, f"f32.{left}.{right}.f32")
    for factor, name in ((i8, "s8"), (u8, "u8")):
        for acc in (i32, u32):
            names = f"s32.{name}.{name}.s32"
            if "bf16" in features:
                enter("m16n8k32", (factor, factor), acc, 4, names)
                enter("m16n8k16", (factor, factor), acc, 4, names)
            elif "mma_i8" in features:
                enter("m8n8k16", (factor, factor), acc, 4, names)
    if "mma_f64" in features:
        enter("m8n8k4", (f64, f64), f64, 1, "f64.f64.f64.f64")
    if "mma_f64_wide" in features:
        for k in (16, 8, 4):
            enter(f"m16n8k{k}", (f64, f64), f64, 1, "f64.f64.f64.f64")
    return {key: tuple(found) for key, found in out.items()}


def _float8() -> dict[DType, str]:
    from tegula.ir.types import DTYPES

    return {DTYPES["f8e4nv"]: "e4m3", DTYPES["f8e5"]: "e5m2"}


_FLOAT8 = _float8()
