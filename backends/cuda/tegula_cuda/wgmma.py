"""Matrix products by Hopper's warpgroup instructions, which read shared memory on their own.

Facts from the PTX ISA, "Asynchronous Warpgroup Level Matrix Multiply-Accumulate Instructions": four
neighbouring warps make 64 rows; a thread's accumulators are those of row 16 * warp + lane / 4 (+ 8)
and columns 2 * (lane % 4) + {0, 1} + 8 * j; 64-bit numbers describe matrices in shared memory.
"""

from __future__ import annotations

from dataclasses import dataclass

from tegula.codegen.loops.text import Val
from tegula.codegen.simt.buffers import PIECE, Buffer
from tegula.codegen.simt.kernel import Emitter
from tegula.codegen.simt.layout import Layout, log2
from tegula.codegen.simt.products import Factor, SharedUnit
from tegula.ir.types import DType

ROWS = 64
GROUP = 4
"""Warps of a warpgroup."""
WIDEST = 256

_TYPES = {"f16": "f16", "bf16": "bf16", "f32": "tf32", "f8e4nv": "e4m3", "f8e5": "e5m2",
          "i8": "s8", "u8": "u8"}  # fmt: skip
_SWIZZLE = {128: 1, 64: 2, 32: 3}


def wgmma_unit(
    a: DType, b: DType, acc: DType, shape: tuple[int, int, int], precision: str, warps: int
) -> Wgmma | None:
    """The unit for a product, or None where the instruction does not do it."""
    m, n, k = shape
    if warps % GROUP or m < ROWS or n < 8 or a.name not in _TYPES or b.name not in _TYPES:
        return None
    if a.is_int != b.is_int or (a is not b and a.bits != 8):
        return None
    if acc.name != ("i32" if a.is_int else "f32"):
        return None
    if a.name == "f32" and precision != "tf32":
        return None
    if k * a.itemsize < 32:
        return None
    groups = warps // GROUP
    down = min(groups, m // ROWS)
    across = groups // down
    if n // across < 8:
        return None
    return Wgmma(a, b, acc, shape, down, across)


@dataclass(frozen=True)
class Wgmma(SharedUnit):
    """One product [m, k] @ [k, n] by `down` x `across` warpgroups."""

    a: DType
    b: DType
    acc: DType
    shape: tuple[int, int, int]
    down: int
    across: int

    @property
    def width(self) -> int:
        """Columns of one instruction."""
        return min(WIDEST, self.shape[1] // self.across)

    @property
    def depth(self) -> int:
        """How much of k one instruction takes: 32 bytes."""
        return 32 // self.a.itemsize

    @property
    def layout(self) -> Layout:  # type: ignore[override]
        m, n, _ = self.shape
        return _fragment((m, n), self.width, self.down, self.across)

    @property
    def a_registers(self) -> Layout | None:  # type: ignore[override]
        m, _, k = self.shape
        if self.a.bits != 16 or self.across != 1 or k < 16:
            return None
        return _fragment((m, k), k, self.down, 1)

    def reads(self, side: str, buffer: Buffer, transposed: bool) -> bool:
        along_k = (buffer.fast == (1 if side == "a" else 0)) != transposed
        if buffer.row_bytes not in _SWIZZLE:
            return False
        if along_k:
            return buffer.shape[1 - buffer.fast] >= 8
        aligned = side == "a" or self.shape[1] // self.across >= 64
        rows = buffer.shape[1 - buffer.fast]
        return self.a.bits == 16 and buffer.row_bytes == 128 and rows >= 16 and aligned

    def fast(self, side: str, wanted: int) -> int:
        along_k = 1 if side == "a" else 0
        m, n, k = self.shape
        other = m if side == "a" else n // self.across
        if wanted != along_k and self.a.bits == 16 and other >= 64 and k >= 16:
            return wanted
        return along_k

    # -- instructions

    def emit(
        self, k: Emitter, acc: list[Val], a: Factor, b: Factor, asynchronous: bool
    ) -> list[Val]:
        w = k.w
        group = _uniform(k, w.pure("i32", "lshr i32 {}, {}", k.warp, k.i32(2)))
        row_group = w.pure("i32", "and i32 {}, {}", group, k.i32(self.down - 1))
        column_group = w.pure("i32", "lshr i32 {}, {}", group, k.i32(log2(self.down)))
        m, n, depth = self.shape
        fresh = all(x.const == 0 for x in acc)
        words = [self._fragment_words(k, a, tm, step) for tm in range(m // (ROWS * self.down))
                 for step in range(depth // self.depth)] if a.regs else []  # fmt: skip
        out = _fenced(k, [] if fresh else acc, [x for group in words for x in group])
        if fresh:
            out = [w.literal("undef", x.ty) for x in acc]
        tiles_m, tiles_n = m // (ROWS * self.down), n // (self.width * self.across)
        each = self.width // 2
        starts = {
            "a": self._start(k, "a", a, w.mul(row_group, k.i32(ROWS))) if not a.regs else None,
            "b": self._start(k, "b", b, w.mul(column_group, k.i32(n // self.across))),
        }
        for step in range(depth // self.depth):
            for tm in range(tiles_m):
                for tn in range(tiles_n):
                    at = (tm * tiles_n + tn) * each
                    left = (
                        words[tm * (depth // self.depth) + step] if a.regs else
                        [self._moved(k, starts["a"], "a", a, tm * ROWS * self.down, step)]
                    )
                    right = self._moved(k, starts["b"], "b", b, tn * self.width, step)
                    more = not fresh or step > 0
                    out[at : at + each] = self._one(k, out[at : at + each], left, right, a, b, more)
        _asm(k, "wgmma.commit_group.sync.aligned;")
        return _waited(k, out, self.acc, 1 if asynchronous else 0)

    def wait(self, k: Emitter, acc: list[Val]) -> list[Val]:
        return _waited(k, acc, self.acc, 0)

    def _one(
        self, k: Emitter, acc: list[Val], left: list[Val], right: Val, a: Factor, b: Factor,
        more: bool,
    ) -> list[Val]:  # fmt: skip
        """One instruction; it overwrites the accumulators unless there are products before it."""
        count, letter = len(acc), "r" if self.acc.is_int else "f"
        kind = _TYPES[self.a.name], _TYPES[self.b.name]
        regs = ", ".join(f"${i}" for i in range(count))
        first = 2 * count
        if a.regs:
            left_text = "{" + ", ".join(f"${first + i}" for i in range(4)) + "}"
            second = first + 4
        else:
            left_text, second = f"${first}", first + 1
        tail = "" if self.acc.is_int else ", 1, 1"
        if self.a.bits == 16:
            if not a.regs:
                tail += f", {int(not a.along_k)}"
            tail += f", {int(b.along_k)}"
        text = (
            f"wgmma.mma_async.sync.aligned.m64n{self.width}k{self.depth}"
            f".{self.acc.name.replace('i', 's')}.{kind[0]}.{kind[1]} "
            f"{{{regs}}}, {left_text}, ${second}, {int(more)}{tail};"
        )
        ties = ",".join([f"={letter}"] * count + [str(i) for i in range(count)])
        given = ",".join(["r" if a.regs else "l"] * len(left) + ["l"])
        operands = [*acc, *left, right]
        return _call(k, text, f"{ties},{given}", operands, [x.ty for x in acc])

    def _fragment_words(self, k: Emitter, a: Factor, tm: int, step: int) -> list[Val]:
        """The four registers of a step's left factor."""
        w = k.w
        per_tile = self.shape[2] // 2
        at = tm * per_tile + step * 8
        words = []
        for i in range(4):
            low, high = (k.raw(x) for x in a.regs[at + 2 * i : at + 2 * i + 2])
            v = w.pure("<2 x i16>", "insertelement <2 x i16> poison, i16 {}, i32 0", low)
            v = w.pure("<2 x i16>", "insertelement <2 x i16> {}, i16 {}, i32 1", v, high)
            words.append(w.pure("i32", "bitcast <2 x i16> {} to i32", v))
        return words

    # -- descriptors

    def _start(self, k: Emitter, side: str, f: Factor, first: Val) -> Val:
        """The descriptor of a factor from a row of a (column of b) on."""
        w = k.w
        assert f.buffer is not None and f.address is not None
        buffer = f.buffer
        if self._along_k(side, f):
            moved = w.mul(first, k.i32(buffer.row_bytes))
            leading, stride = 1, 8 * buffer.row_bytes // PIECE
        else:
            per_panel = buffer.row_bytes // self.a.itemsize
            panel = w.pure("i32", "lshr i32 {}, {}", first, k.i32(log2(per_panel)))
            moved = w.mul(panel, k.i32(buffer.panel_bytes))
            leading, stride = buffer.panel_bytes // PIECE, 8 * buffer.row_bytes // PIECE
        fixed = _SWIZZLE[buffer.row_bytes] << 62 | stride << 32 | leading << 16
        at = w.add(w.add(k.shared_base, f.address), moved)
        at = w.pure("i32", "lshr i32 {}, {}", at, k.i32(4))
        at = w.pure("i32", "and i32 {}, {}", at, k.i32(0x3FFF))
        wide = w.resize(at, "i64", False)
        bits = fixed - (1 << 64) if fixed >> 63 else fixed
        return w.pure("i64", "or i64 {}, {}", wide, w.const(bits, "i64"))

    def _along_k(self, side: str, f: Factor) -> bool:
        return f.along_k if side == "a" else not f.along_k

    def _moved(self, k: Emitter, start: Val | None, side: str, f: Factor, first: int, step: int
               ) -> Val:
        """A descriptor moved to another row (column) and step of k."""
        assert f.buffer is not None and start is not None
        buffer = f.buffer
        if self._along_k(side, f):
            panel, place = divmod(32 * step, buffer.row_bytes)
            nbytes = panel * buffer.panel_bytes + place + first * buffer.row_bytes
        else:
            per_panel = buffer.row_bytes // self.a.itemsize
            nbytes = step * self.depth * buffer.row_bytes + first // per_panel * buffer.panel_bytes
        if not nbytes:
            return start
        return k.w.pure("i64", "add i64 {}, {}", start, k.w.const(nbytes // PIECE, "i64"))


def _fragment(shape: tuple[int, int], width: int, down: int, across: int) -> Layout:
    """The accumulators' layout: instructions of 64 x width, warpgroups down and across."""
    m, n = shape
    row = n  # what one row adds to an index
    register = [1, 8 * row]
    register += [1 << i for i in range(3, log2(width))]
    register += [1 << i for i in range(log2(width), log2(n // across))]
    register += [row << i for i in range(log2(ROWS * down), log2(m))]
    lane = (2, 4, row, 2 * row, 4 * row)
    warp = [16 * row, 32 * row]
    warp += [row << i for i in range(log2(ROWS), log2(ROWS * down))]
    warp += [1 << i for i in range(log2(n // across), log2(n))]
    return Layout(shape, tuple(register), lane, tuple(warp))


def _uniform(k: Emitter, x: Val) -> Val:
    """A number that is the same in all lanes, told to the machine: descriptors live in uniform
    registers."""
    return k.simt.shuffle(k.w, x, "idx", k.i32(0))


def _asm(k: Emitter, text: str) -> None:
    k.w.do(f'call void asm sideeffect "{text}", "~{{memory}}"() convergent')


def _call(k: Emitter, text: str, constraints: str, operands: list[Val], types: list[str]
          ) -> list[Val]:
    w = k.w
    args = ", ".join(f"{x.ty} {x.text}" for x in operands)
    result = _record(k, types) if len(types) > 1 else types[0]
    call = f'call {result} asm sideeffect "{text}", "{constraints}"({args}) convergent'
    got = w.here(result, call)
    if len(types) == 1:
        return [got]
    return [w.here(t, f"extractvalue {result} {got.text}, {i}") for i, t in enumerate(types)]


def _record(k: Emitter, types: list[str]) -> str:
    """A named struct of one type many times: its name is short, and is written often."""
    name = f"%{types[0]}x{len(types)}"
    k.w.declares.setdefault(name, f"{name} = type {{ {', '.join(types)} }}")
    return name


def _fenced(k: Emitter, acc: list[Val], words: list[Val]) -> list[Val]:
    """The accumulators, after a fence between whatever wrote them and the left factor's registers
    and the instructions that use them."""
    letter = "r" if acc and acc[0].ty == "i32" else "f"
    ties = [f"={letter}"] * len(acc) + [str(i) for i in range(len(acc))] + ["r"] * len(words)
    text = "wgmma.fence.sync.aligned;"
    if not acc:
        args = ", ".join(f"{x.ty} {x.text}" for x in words)
        constraints = ",".join([*ties, "~{memory}"])
        k.w.do(f'call void asm sideeffect "{text}", "{constraints}"({args}) convergent')
        return []
    return _call(k, text, ",".join(ties), [*acc, *words], [x.ty for x in acc])


def _waited(k: Emitter, acc: list[Val], e: DType, pending: int) -> list[Val]:
    """The accumulators once at most `pending` groups are under way; they pass through, so that
    nothing uses them earlier."""
    letter = "r" if e.is_int else "f"
    ties = ",".join([f"={letter}"] * len(acc) + [str(i) for i in range(len(acc))])
    text = f"wgmma.wait_group.sync.aligned {pending};"
    return _call(k, text, ties, acc, [x.ty for x in acc])
