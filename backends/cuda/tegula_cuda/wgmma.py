"""Matrix products by Hopper's warpgroup instructions, which read shared memory on their own.

Facts from the PTX ISA, "Asynchronous Warpgroup Level Matrix Multiply-Accumulate Instructions": four
neighbouring warps make 64 rows; a thread's accumulators are those of row 16 * warp + lane / 4 (+ 8)
and columns 2 * (lane % 4) + {0, 1} + 8 * j; 64-bit numbers describe matrices in shared memory.
"""

from __future__ import annotations

from dataclasses import dataclass

from tegula.codegen.loops.text import Val, wrap
from tegula.codegen.simt.buffers import PIECE, Buffer
from tegula.codegen.simt.kernel import Emitter
from tegula.codegen.simt.layout import Layout, log2
from tegula.codegen.simt.products import Factor, SharedUnit
from tegula.codegen.simt.words import packed_words
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
    def groups(self) -> int:  # type: ignore[override]
        return self.down * self.across

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
        text = _Assembly(acc, fresh)
        deep, tiles_m = depth // self.depth, m // (ROWS * self.down)
        words = {
            (tm, step): text.take("r", self._fragment_words(k, a, tm, step))
            for step in range(deep) for tm in range(tiles_m)
        } if a.regs else {}  # fmt: skip
        starts = {"b": text.take("l", [self._start(k, "b", b, w.mul(
            column_group, k.i32(n // self.across)))])[0]}  # fmt: skip
        if not a.regs:
            start = self._start(k, "a", a, w.mul(row_group, k.i32(ROWS)))
            starts["a"] = text.take("l", [start])[0]
        text.say("wgmma.fence.sync.aligned;")
        tiles_n, each = n // (self.width * self.across), self.width // 2
        for step in range(deep):
            for tm in range(tiles_m):
                for tn in range(tiles_n):
                    at = (tm * tiles_n + tn) * each
                    if a.regs:
                        left = "{" + ", ".join(words[tm, step]) + "}"
                    else:
                        moved = self._distance("a", a, tm * ROWS * self.down, step)
                        left = text.advanced("da", starts["a"], moved)
                    moved = self._distance("b", b, tn * self.width, step)
                    right = text.advanced("db", starts["b"], moved)
                    accs = ", ".join(f"${i}" for i in range(at, at + each))
                    more = int(not fresh or step > 0)
                    text.say(f"{self._verb} {{{accs}}}, {left}, {right}, {more}"
                             f"{self._tail(a, b)};")
        text.say("wgmma.commit_group.sync.aligned;")
        if not asynchronous:
            text.say("wgmma.wait_group.sync.aligned 0;")
        return text.call(k)

    def wait(self, k: Emitter, acc: list[Val], pending: int) -> list[Val]:
        text = _Assembly(acc, False)
        text.say(f"wgmma.wait_group.sync.aligned {pending};")
        return text.call(k)

    @property
    def _verb(self) -> str:
        kinds = (self.acc.name.replace("i", "s"), _TYPES[self.a.name], _TYPES[self.b.name])
        shape = f"m64n{self.width}k{self.depth}"
        return f"wgmma.mma_async.sync.aligned.{shape}.{'.'.join(kinds)}"

    def _tail(self, a: Factor, b: Factor) -> str:
        """Signs, and for 16 bits which factors lie across k."""
        tail = "" if self.acc.is_int else ", 1, 1"
        if self.a.bits == 16:
            tail += "" if a.regs else f", {int(not a.along_k)}"
            tail += f", {int(b.along_k)}"
        return tail

    def _fragment_words(self, k: Emitter, a: Factor, tm: int, step: int) -> list[Val]:
        """The four registers of a step's left factor."""
        at = tm * (self.shape[2] // 2) + step * 8
        return packed_words(k.w, [k.raw(x) for x in a.regs[at : at + 8]], 32, 4)

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
        at = w.pure("i32", "and i32 {}, {}", at, k.i32(0x3FFF))  # above: whose, in a cluster
        low = w.pure("i32", "or i32 {}, {}", at, k.i32(wrap(fixed & 0xFFFFFFFF, "i32")))
        if f.slot is not None:  # no carry: all copies lie within those 18 bits of an address
            low = w.add(low, w.mul(f.slot, k.i32(buffer.nbytes // PIECE)))
        wide = w.resize(low, "i64", False)
        high = wrap(fixed >> 32 << 32, "i64")
        return w.pure("i64", "or i64 {}, {}", wide, w.const(high, "i64"))

    def _along_k(self, side: str, f: Factor) -> bool:
        return f.along_k if side == "a" else not f.along_k

    def _distance(self, side: str, f: Factor, first: int, step: int) -> int:
        """From the beginning of a factor to a row (column) and step of k, as descriptors count."""
        assert f.buffer is not None
        buffer = f.buffer
        if self._along_k(side, f):
            panel, place = divmod(32 * step, buffer.row_bytes)
            nbytes = panel * buffer.panel_bytes + place + first * buffer.row_bytes
        else:
            per_panel = buffer.row_bytes // self.a.itemsize
            nbytes = step * self.depth * buffer.row_bytes + first // per_panel * buffer.panel_bytes
        return nbytes // PIECE


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


class _Assembly:
    """One statement of inline assembly around accumulators: what stands between the fence and the
    wait belongs together, and LLVM takes long over each of its many operands.
    """

    def __init__(self, acc: list[Val], fresh: bool) -> None:
        self.acc = acc
        letter = "r" if acc[0].ty == "i32" else "f"
        self.constraints = [f"=&{letter}"] * len(acc)
        self.operands = [] if fresh else list(acc)
        if not fresh:
            self.constraints += [str(i) for i in range(len(acc))]
        self.lines: list[str] = []

    def take(self, letter: str, values: list[Val]) -> list[str]:
        """Add operands; gives their names."""
        first = len(self.constraints)
        self.constraints += [letter] * len(values)
        self.operands += values
        return [f"${first + i}" for i in range(len(values))]

    def say(self, line: str) -> None:
        self.lines.append(line)

    def advanced(self, name: str, start: str, by: int) -> str:
        """A descriptor moved on, under a name."""
        if not by:
            return start
        self.say(f"add.s64 {name}, {start}, {by};")
        return name

    def call(self, k: Emitter) -> list[Val]:
        """Write the statement; gives the accumulators after it."""
        w, types = k.w, [x.ty for x in self.acc]
        record = f"%{types[0]}x{len(types)}"
        k.w.declares.setdefault(record, f"{record} = type {{ {', '.join(types)} }}")
        args = ", ".join(f"{x.ty} {x.text}" for x in self.operands)
        body = "{ .reg .b64 da, db; " + " ".join(self.lines) + " }"
        constraints = ",".join([*self.constraints, "~{memory}"])
        got = w.here(record, f'call {record} asm sideeffect "{body}", "{constraints}"({args}) '
                             "convergent")
        return [w.here(t, f"extractvalue {record} {got.text}, {i}") for i, t in enumerate(types)]
