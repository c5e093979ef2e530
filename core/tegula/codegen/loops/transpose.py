"""Transposes of tiles in memory, through blocks that are turned in registers.

`emit_transpose` writes one LLVM function for a tile of fixed size and any leading dimensions.  A
block of ``n x n`` elements is loaded as n row vectors, turned by log2(n) rounds of n two-input
shuffles, and stored as n rows.  The shuffles are those that processors do cheaply: interleaving
within 128-bit lanes first, whole lanes last.

Packing B for a `dot` from rows that are contiguous along K is a transpose too: of words that hold
one group of K, from ``[N][K / group]`` to a panel ``[K / group][nr]``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache

from tegula.codegen.loops.vector import VectorTarget
from tegula.ir.types import DTYPES

_LANE_BITS = 128


@dataclass(frozen=True)
class Transpose:
    """A function ``name(src, lds, dst, ldd)``: ``dst[c * ldd + r] = src[r * lds + c]``."""

    name: str
    declares: tuple[str, ...]
    text: str

    def call(self, src: str, lds: str | int, dst: str, ldd: str | int) -> str:
        """The instruction that calls it; leading dimensions count elements."""
        return f"call void @{self.name}(ptr {src}, i64 {lds}, ptr {dst}, i64 {ldd})"


def block_size(bits: int, target: VectorTarget) -> int:
    """Rows and columns of the block that is turned in registers; 1 where there is no gain."""
    limit = 16 if target.vector_registers == 32 else 8
    return max(1, min(target.vector_bits // bits, limit))


@lru_cache(maxsize=256)
def emit_transpose(rows: int, cols: int, elem: str, target: VectorTarget) -> Transpose:
    """A function that transposes a tile of `rows` by `cols` elements of the dtype called `elem`.

    It reads and writes nothing outside the tile.  Source and destination must not overlap.  Only
    the size of the elements matters: equal sizes give one function.
    """
    bits = DTYPES[elem].itemsize * 8
    writer = _Writer(rows, cols, bits, target)
    text = writer.function()
    return Transpose(writer.name, tuple(sorted(writer.declares)), text)


def transpose_block(rows: list[str], elem: str, let: Callable[[str], str]) -> list[str]:
    """Turn a square block that is held in row vectors; returns the column vectors.

    `rows` are ``n`` values of type ``<n x elem>``, n a power of two; `let` names the value of an
    instruction and returns its name.
    """
    n = len(rows)
    bits = {"float": 32, "double": 64, "half": 16, "bfloat": 16}.get(elem) or int(elem[1:])
    lane = min(n, max(1, _LANE_BITS // bits))
    type_ = f"<{n} x {elem}>"

    def shuffle(a: str, b: str, picks: list[int]) -> str:
        mask = ", ".join(f"i32 {p}" for p in picks)
        return let(f"shufflevector {type_} {a}, {type_} {b}, <{n} x i32> <{mask}>")

    def interleave(a: str, b: str, high: bool) -> str:
        """Unpack the low or high halves of every lane of two vectors."""
        picks = []
        for start in range(0, n, lane):
            for i in range(lane // 2):
                at = start + i + (lane // 2 if high else 0)
                picks += [at, n + at]
        return shuffle(a, b, picks)

    def every_other_lane(a: str, b: str, odd: int) -> str:
        picks = [s + i for s in range(odd * lane, n, 2 * lane) for i in range(lane)]
        return shuffle(a, b, picks + [n + p for p in picks])

    def turn_lane(group: list[str]) -> list[str]:
        """Turn the blocks of `lane` rows inside every lane at once."""
        half = len(group) // 2
        size = 1
        while size < lane:
            group = [
                interleave(group[i], group[i + half], high)
                for i in range(half)
                for high in (False, True)
            ]
            size *= 2
        return group

    def turn_lanes(group: list[str]) -> list[str]:
        """Turn a block whose elements are whole lanes."""
        if len(group) == 1:
            return group
        pairs = list(zip(group[::2], group[1::2]))
        evens = turn_lanes([every_other_lane(a, b, 0) for a, b in pairs])
        odds = turn_lanes([every_other_lane(a, b, 1) for a, b in pairs])
        return [value for pair in zip(evens, odds) for value in pair]

    turned = [turn_lane(rows[i : i + lane]) for i in range(0, n, lane)]
    columns = [turn_lanes([group[e] for group in turned]) for e in range(lane)]
    return [columns[e][q] for q in range(n // lane) for e in range(lane)]


class _Writer:
    """Writes the text of one transpose function."""

    def __init__(self, rows: int, cols: int, bits: int, target: VectorTarget) -> None:
        self.rows, self.cols, self.bits = rows, cols, bits
        self.block = block_size(bits, target)
        self.masks = target.has("avx512vl", "avx512bw") or (target.has("avx2") and bits >= 32)
        self.name = f"transpose_{rows}x{cols}_i{bits}_b{self.block}" + "m" * self.masks
        self.elem = f"i{bits}"
        self.lines: list[str] = []
        self.declares: set[str] = set()
        self.counter = 0
        self.label = "entry"

    def let(self, expression: str) -> str:
        self.counter += 1
        self.lines.append(f"  %v{self.counter} = {expression}")
        return f"%v{self.counter}"

    def function(self) -> str:
        """The whole function."""
        n = self.block
        self.lines.append(
            f"define internal void @{self.name}"
            "(ptr noalias %src, i64 %lds, ptr noalias %dst, i64 %ldd) nounwind noinline {"
        )
        self.lines.append("entry:")
        whole_rows, whole_cols = self.rows // n * n, self.cols // n * n
        if not self.masks:
            self.area(0, whole_rows, 0, whole_cols, n, n)
            self.area(whole_rows, self.rows, 0, self.cols, 1, 1)
            self.area(0, whole_rows, whole_cols, self.cols, 1, 1)
        else:
            bottom, right = self.rows - whole_rows, self.cols - whole_cols
            self.area(0, whole_rows, 0, whole_cols, n, n)
            self.area(whole_rows, self.rows, 0, whole_cols, bottom, n)
            self.area(0, whole_rows, whole_cols, self.cols, n, right)
            self.area(whole_rows, self.rows, whole_cols, self.cols, bottom, right)
        self.lines += ["  ret void", "}"]
        return "\n".join(self.lines) + "\n"

    def area(self, r0: int, r1: int, c0: int, c1: int, height: int, width: int) -> None:
        """Transpose rows r0 to r1 and columns c0 to c1 in blocks of `height` by `width`."""
        if r0 >= r1 or c0 >= c1:
            return
        with self.loop(c0, c1, width) as c, self.loop(r0, r1, height) as r:
            src = self.address("%src", r, "%lds", c)
            dst = self.address("%dst", c, "%ldd", r)
            if height == width == 1:
                value = self.let(f"load {self.elem}, ptr {src}")
                self.lines.append(f"  store {self.elem} {value}, ptr {dst}")
            else:
                self.turn(src, dst, height, width)

    @contextmanager
    def loop(self, start: int, stop: int, step: int) -> Iterator[str]:
        """A loop over block corners; one trip is written without a loop."""
        if stop - start <= step:
            yield str(start)
            return
        self.counter += 1
        head, before = f"loop{self.counter}", self.label
        self.lines += [f"  br label %{head}", f"{head}:", ""]
        self.label, slot = head, len(self.lines) - 1
        yield f"%{head}.i"
        after = self.let(f"add nuw nsw i64 %{head}.i, {step}")
        more = self.let(f"icmp ult i64 {after}, {stop}")
        self.lines[slot] = (
            f"  %{head}.i = phi i64 [ {start}, %{before} ], [ {after}, %{self.label} ]"
        )
        self.lines += [f"  br i1 {more}, label %{head}, label %{head}.end", f"{head}.end:"]
        self.label = f"{head}.end"

    def address(self, base: str, major: str, stride: str, minor: str) -> str:
        row = self.let(f"mul i64 {major}, {stride}")
        at = self.let(f"add i64 {row}, {minor}")
        return self.let(f"getelementptr {self.elem}, ptr {base}, i64 {at}")

    def turn(self, src: str, dst: str, height: int, width: int) -> None:
        """One block: `height` rows of `width` elements become `width` rows of `height`."""
        values = []
        for i in range(self.block):
            if i >= height:
                values.append("poison")
                continue
            values.append(self.load(src, width))
            if i + 1 < height:
                src = self.let(f"getelementptr {self.elem}, ptr {src}, i64 %lds")
        for i, value in enumerate(transpose_block(values, self.elem, self.let)[:width]):
            if i:
                dst = self.let(f"getelementptr {self.elem}, ptr {dst}, i64 %ldd")
            self.store(value, dst, height)

    def load(self, pointer: str, count: int) -> str:
        type_, align = f"<{self.block} x {self.elem}>", self.bits // 8
        if count == self.block:
            return self.let(f"load {type_}, ptr {pointer}, align {align}")
        function = f"llvm.masked.load.v{self.block}{self.elem}.p0"
        bools = f"<{self.block} x i1>"
        self.declares.add(f"declare {type_} @{function}(ptr, {bools}, {type_})")
        return self.let(
            f"call {type_} @{function}(ptr align {align} {pointer}, {self.first(count)}, "
            f"{type_} poison)"
        )

    def store(self, value: str, pointer: str, count: int) -> None:
        type_, align = f"<{self.block} x {self.elem}>", self.bits // 8
        if count == self.block:
            self.lines.append(f"  store {type_} {value}, ptr {pointer}, align {align}")
            return
        function = f"llvm.masked.store.v{self.block}{self.elem}.p0"
        self.declares.add(f"declare void @{function}({type_}, ptr, <{self.block} x i1>)")
        self.lines.append(
            f"  call void @{function}({type_} {value}, ptr align {align} {pointer}, "
            f"{self.first(count)})"
        )

    def first(self, count: int) -> str:
        """A mask of the first `count` elements."""
        bits = ", ".join(f"i1 {'true' if i < count else 'false'}" for i in range(self.block))
        return f"<{self.block} x i1> <{bits}>"
