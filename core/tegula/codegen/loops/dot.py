"""Matrix micro-kernels: one LLVM function that computes ``C += A @ B`` on tiles held in memory.

`plan_dot` chooses how the three tiles lie in their buffers and writes the function that
multiplies them.  The caller packs A and B into the layouts of the plan (`RowLayout`,
`PanelLayout`), keeps C in a `CLayout` buffer, and calls the function.  The scheme of a plan is
the innermost instruction:

==========  =======================  =====  ==============================================
scheme      stored elements          group  instruction
==========  =======================  =====  ==============================================
``fma``     f32, f64                 1      fused multiply-add of a broadcast and a vector
``bf16``    bf16                     2      AVX512-BF16 ``vdpbf16ps``, AArch64 ``bfdot``
``i8``      u8 by i8                 4      VNNI ``vpdpbusd``, AArch64 ``sdot``/``udot``
``i16``     i16                      2      ``vpdpwssd``, or ``pmaddwd`` and an add
``imul``    i32, i64                 1      multiply and add, modulo 2**bits
==========  =======================  =====  ==============================================

Rounding.  Products and sums are those of the accumulator type; f16 and bf16 accumulators are kept
in f32 and rounded once, when the caller leaves the buffer.  ``vdpbf16ps`` treats subnormal inputs
and results as zero and fuses each product's addition, rounding to nearest even; ``bfdot`` may
round the sum of a pair to odd before adding it.  Integers wrap.

Speed.  A micro-kernel keeps a block of ``rows x vectors`` accumulators in registers and walks K;
per step it loads ``vectors`` vectors of B and broadcasts ``rows`` elements of A.  The rows of a
tile are split into nearly equal blocks, so at most two heights of micro-kernel exist and none is
a sliver.  Only those and a second pair for a last, narrower panel are emitted: the size of the
code does not depend on the sizes of the tile.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from tegula.codegen.loops.dot_layout import (
    BITS,
    LLVM,
    Blocking,
    CLayout,
    PanelLayout,
    RowLayout,
    Scheme,
    choose_blocking,
    choose_scheme,
    round_up,
    split_rows,
)
from tegula.codegen.loops.vector import VectorTarget

__all__ = [
    "Blocking",
    "CLayout",
    "DotPlan",
    "PanelLayout",
    "RowLayout",
    "Scheme",
    "choose_blocking",
    "choose_scheme",
    "plan_dot",
    "split_rows",
]

K_UNROLL = 2
"""Steps along K that one trip of the inner loop takes."""

PREFETCH_STEPS = 16
"""Least number of steps for which C is prefetched."""


@dataclass(frozen=True)
class DotPlan:
    """Layouts of the operands, and the function that multiplies them."""

    name: str
    scheme: Scheme
    a: RowLayout
    b: PanelLayout
    c: CLayout
    declares: tuple[str, ...]
    text: str

    def call(self, a: str, b: str, c: str) -> str:
        """The instruction that calls the function on three pointers."""
        return f"call void @{self.name}(ptr {a}, ptr {b}, ptr {c})"


@lru_cache(maxsize=1024)
def plan_dot(
    m: int,
    n: int,
    k: int,
    a: str,
    b: str,
    acc: str,
    target: VectorTarget,
    *,
    accumulate: bool = True,
    lda: int | None = None,
    b_row_major: bool = False,
    ldb: int | None = None,
    a_rows: bool = False,
    ldc: int | None = None,
    blocking: Blocking | None = None,
) -> DotPlan:
    """Plan ``C[m, n] += A[m, k] @ B[k, n]`` (``=`` without `accumulate`) for tiles in buffers.

    `a`, `b` and `acc` are names of dtypes.  `lda`, `ldb` and `ldc` fix leading dimensions where the
    matrix already lies somewhere; `b_row_major` reads B as plain rows, which needs a scheme with
    groups of one.  `a_rows` takes a table of row addresses for A, whose rows then need no packing:
    they must hold whole groups of the stored dtype, without bias.
    """
    scheme = choose_scheme(a, b, acc, target)
    if b_row_major and scheme.group != 1:
        raise ValueError(
            f"{scheme.name} multiplies groups of {scheme.group} values of K: "
            "B cannot be row-major; pack it into panels"
        )
    shape = blocking or choose_blocking(m, n, scheme, target)
    k_padded = round_up(k, scheme.group)
    n_padded = round_up(n, shape.lanes)
    nr = shape.vectors * shape.lanes
    if a_rows and (scheme.bias or k % scheme.group):
        raise ValueError(f"{scheme.name} needs A packed: it stores groups of {scheme.group} values "
                         f"of K (K = {k}) with a bias of {scheme.bias}")  # fmt: skip
    row = RowLayout(m, scheme.a, lda or k_padded, scheme.group, k_padded, scheme.bias, a_rows)
    panel = PanelLayout(
        scheme.b,
        nr,
        scheme.group,
        -(-n // nr),
        k_padded,
        b_row_major,
        (ldb or n_padded) if b_row_major else 0,
    )
    out = CLayout(m, scheme.c, ldc or n_padded, n_padded)
    if row.ld < k_padded or out.ld < n_padded or (b_row_major and panel.ld < n_padded):
        raise ValueError(
            f"dot of {m}x{n}x{k}: a leading dimension is too small (A {row.ld} for "
            f"{k_padded}, B {panel.ld}, C {out.ld} for {n_padded} columns)"
        )
    name = (
        f"dot_{m}x{n}x{k}_{scheme.name}_{scheme.a}_{scheme.b}_{scheme.c}_r{shape.rows}"
        f"v{shape.vectors}x{shape.lanes}_a{row.ld}_b{panel.ld}_c{out.ld}"
        + ("" if accumulate else "_set")
        + ("_bias" if scheme.bias else "")
        + ("_rows" if a_rows else "")
    )
    writer = _Writer(name, n, scheme, shape, row, panel, out, accumulate, target)
    text = writer.function()
    return DotPlan(name, scheme, row, panel, out, tuple(sorted(writer.declares)), text)


class _Writer:
    """Writes the text of one dot function."""

    def __init__(
        self,
        name: str,
        n: int,
        scheme: Scheme,
        shape: Blocking,
        a: RowLayout,
        b: PanelLayout,
        c: CLayout,
        accumulate: bool,
        target: VectorTarget,
    ) -> None:
        self.name, self.n, self.scheme, self.shape = name, n, scheme, shape
        self.a, self.b, self.c = a, b, c
        self.accumulate, self.target = accumulate, target
        self.lines: list[str] = []
        self.declares: set[str] = set()
        self.counter = 0
        self.label = "entry"
        lanes = shape.lanes
        self.acc_type = f"<{lanes} x {LLVM[scheme.c]}>"
        self.b_type = f"<{lanes * scheme.group} x {LLVM[scheme.b]}>"
        self.word = f"i{scheme.group * BITS[scheme.a]}" if scheme.group > 1 else LLVM[scheme.a]
        self.a_step = scheme.group * BITS[scheme.a] // 8
        self.b_step = b.step_stride * BITS[scheme.b] // 8
        self.b_vector = lanes * scheme.group * BITS[scheme.b] // 8
        self.c_vector = lanes * BITS[scheme.c] // 8
        self.c_row = c.ld * BITS[scheme.c] // 8
        self.a_row = 8 if a.table else a.ld * BITS[scheme.a] // 8
        self.a_rows: list[str] = []

    # -- text

    def emit(self, line: str) -> None:
        self.lines.append("  " + line)

    def fresh(self) -> str:
        self.counter += 1
        return f"%v{self.counter}"

    def let(self, expression: str) -> str:
        name = self.fresh()
        self.lines.append(f"  {name} = {expression}")
        return name

    def begin(self, label: str) -> None:
        self.lines.append(f"{label}:")
        self.label = label

    def offset(self, pointer: str, amount: int | str) -> str:
        """`pointer` moved by `amount` bytes."""
        if amount == 0 or amount == "0":
            return pointer
        return self.let(f"getelementptr i8, ptr {pointer}, i64 {amount}")

    def counted(self, stem: str, count: int, body: Callable[[str], None]) -> None:
        """A loop of `count` trips around `body(trip)`; a single trip is written without a loop."""
        if count == 1:
            body("0")
            return
        self.counter += 1
        head, exit_ = f"{stem}{self.counter}", f"{stem}{self.counter}.end"
        trip, after = f"%{head}.i", f"%{head}.next"
        before = self.label
        self.emit(f"br label %{head}")
        self.begin(head)
        slot = len(self.lines)
        self.lines.append("")
        body(trip)
        self.emit(f"{after} = add nuw nsw i64 {trip}, 1")
        done = self.let(f"icmp eq i64 {after}, {count}")
        self.emit(f"br i1 {done}, label %{exit_}, label %{head}")
        self.lines[slot] = f"  {trip} = phi i64 [ 0, %{before} ], [ {after}, %{self.label} ]"
        self.begin(exit_)

    # -- structure

    def function(self) -> str:
        """The whole function."""
        self.lines.append(
            f"define internal void @{self.name}"
            "(ptr noalias %a, ptr noalias %b, ptr noalias %c) nounwind noinline {"
        )
        self.begin("entry")
        columns = -(-self.n // self.shape.lanes)
        full, rest = divmod(columns, self.shape.vectors)
        if full and self.a.rows:
            self.counted("panel", full, lambda trip: self.panel(trip, self.shape.vectors))
        if rest and self.a.rows:
            self.panel(str(full), rest)
        self.emit("ret void")
        return "\n".join(self.lines) + "\n}\n"

    def panel(self, trip: str, vectors: int) -> None:
        """All rows of A against one panel of B."""
        b = self.scaled("%b", trip, self.b.panel_stride * BITS[self.scheme.b] // 8)
        c = self.scaled("%c", trip, self.b.nr * BITS[self.scheme.c] // 8)
        for start, height, count in split_rows(self.a.rows, self.shape.rows):
            a0 = self.offset("%a", start * self.a_row)
            c0 = self.offset(c, start * self.c_row)

            def block(trip: str, a0: str = a0, c0: str = c0, height: int = height) -> None:
                self.micro_kernel(
                    self.scaled(a0, trip, height * self.a_row),
                    b,
                    self.scaled(c0, trip, height * self.c_row),
                    height,
                    vectors,
                )

            self.counted("rows", count, block)

    def scaled(self, pointer: str, trip: str, stride: int) -> str:
        """`pointer` moved by `trip` strides of `stride` bytes."""
        if trip.isdigit():
            return self.offset(pointer, int(trip) * stride)
        return self.offset(pointer, self.let(f"mul nuw nsw i64 {trip}, {stride}"))

    def micro_kernel(self, a: str, b: str, c: str, height: int, vectors: int) -> None:
        """One block of accumulators: the loop over K, then the update of C."""
        if self.a.table:
            self.a_rows = [
                self.let(f"load ptr, ptr {self.offset(a, i * self.a_row)}") for i in range(height)
            ]
            a = "0"
        steps = self.a.k_padded // self.scheme.group
        slots = height * vectors + (vectors if self.scheme.bias else 0)
        acc = ["zeroinitializer"] * slots
        if self.accumulate and steps >= PREFETCH_STEPS:
            self.prefetch(c, height, vectors)
        trips, rest = divmod(steps, K_UNROLL)
        if trips > 1:
            a, b, acc = self.k_loop(a, b, acc, trips, height, vectors)
        else:
            rest = steps
        for step in range(rest):
            acc = self.step(a, b, acc, step, height, vectors)
        self.update(c, acc, height, vectors)

    def prefetch(self, c: str, height: int, vectors: int) -> None:
        """Ask for the block of C, which is needed when the loop over K is through."""
        self.declares.add("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
        for i in range(height):
            for j in range(0, vectors * self.c_vector, 64):
                at = self.offset(c, i * self.c_row + j)
                self.emit(f"call void @llvm.prefetch.p0(ptr {at}, i32 1, i32 3, i32 1)")

    def k_loop(
        self, a: str, b: str, acc: list[str], trips: int, height: int, vectors: int
    ) -> tuple[str, str, list[str]]:
        """The loop over whole trips of K; returns the pointers and accumulators after it."""
        self.counter += 1
        head, before = f"k{self.counter}", self.label
        self.emit(f"br label %{head}")
        self.begin(head)
        slot = len(self.lines)
        phis = [f"%{head}.c{i}" for i in range(len(acc))]
        pa, pb, trip = f"%{head}.a", f"%{head}.b", f"%{head}.i"
        new = phis
        for step in range(K_UNROLL):
            new = self.step(pa, pb, new, step, height, vectors)
        if self.a.table:
            a_next = self.let(f"add nuw nsw i64 {pa}, {K_UNROLL * self.a_step}")
        else:
            a_next = self.offset(pa, K_UNROLL * self.a_step)
        b_next = self.offset(pb, K_UNROLL * self.b_step)
        trip_next = self.let(f"add nuw nsw i64 {trip}, 1")
        done = self.let(f"icmp eq i64 {trip_next}, {trips}")
        self.emit(f"br i1 {done}, label %{head}.end, label %{head}")

        def phi(name: str, type_: str, first: str, next_: str) -> str:
            return f"  {name} = phi {type_} [ {first}, %{before} ], [ {next_}, %{head} ]"

        self.lines[slot:slot] = [
            phi(trip, "i64", "0", trip_next),
            phi(pa, "i64" if self.a.table else "ptr", a, a_next),
            phi(pb, "ptr", b, b_next),
            *(phi(*names) for names in zip(phis, [self.acc_type] * len(acc), acc, new)),
        ]
        self.begin(f"{head}.end")
        return a_next, b_next, new

    def step(
        self, a: str, b: str, acc: list[str], step: int, height: int, vectors: int
    ) -> list[str]:
        """One group of K: every accumulator takes one multiply-add."""
        row = [
            self.load(
                self.b_type, self.offset(b, step * self.b_step + j * self.b_vector), self.scheme.b
            )
            for j in range(vectors)
        ]
        new = []
        for i in range(height):
            if self.a.table:
                at = self.offset(self.offset(self.a_rows[i], a), step * self.a_step)
            else:
                at = self.offset(a, i * self.a_row + step * self.a_step)
            left = self.broadcast(self.load(self.word, at, self.scheme.a))
            new += [self.multiply_add(acc[i * vectors + j], left, row[j]) for j in range(vectors)]
        if self.scheme.bias:
            ones = self.constant_bytes(self.scheme.bias)
            new += [
                self.multiply_add(acc[height * vectors + j], ones, row[j]) for j in range(vectors)
            ]
        return new

    def update(self, c: str, acc: list[str], height: int, vectors: int) -> None:
        """Add the accumulators to C, or store them."""
        add = "fadd" if self.scheme.c[0] == "f" else "add"
        for i in range(height):
            for j in range(vectors):
                value = acc[i * vectors + j]
                if self.scheme.bias:
                    value = self.let(f"sub {self.acc_type} {value}, {acc[height * vectors + j]}")
                at = self.offset(c, i * self.c_row + j * self.c_vector)
                if self.accumulate:
                    old = self.load(self.acc_type, at, self.scheme.c)
                    value = self.let(f"{add} {self.acc_type} {old}, {value}")
                self.emit(
                    f"store {self.acc_type} {value}, ptr {at}, align {BITS[self.scheme.c] // 8}"
                )

    # -- instructions

    def load(self, type_: str, pointer: str, elem: str) -> str:
        return self.let(f"load {type_}, ptr {pointer}, align {BITS[elem] // 8}")

    def broadcast(self, word: str) -> str:
        """A vector of B's shape with one group of A in every lane."""
        lanes = self.shape.lanes
        type_ = f"<{lanes} x {self.word}>"
        first = self.let(f"insertelement {type_} poison, {self.word} {word}, i64 0")
        splat = self.let(
            f"shufflevector {type_} {first}, {type_} poison, <{lanes} x i32> zeroinitializer"
        )
        if self.scheme.group == 1:
            return splat
        return self.let(f"bitcast {type_} {splat} to {self.a_vector}")

    @property
    def a_vector(self) -> str:
        return f"<{self.shape.lanes * self.scheme.group} x {LLVM[self.scheme.a]}>"

    def constant_bytes(self, value: int) -> str:
        lanes = self.shape.lanes * self.scheme.group
        byte = value - 256 if value > 127 else value
        return "<" + ", ".join([f"i8 {byte}"] * lanes) + ">"

    def multiply_add(self, acc: str, left: str, right: str) -> str:
        """``acc + left * right`` in the way of the scheme."""
        name = self.scheme.name
        if name == "imul":
            product = self.let(f"mul {self.acc_type} {left}, {right}")
            return self.let(f"add {self.acc_type} {acc}, {product}")
        if name == "fma":
            suffix = f"v{self.shape.lanes}{self.scheme.c}"
            return self.intrinsic(
                f"llvm.fmuladd.{suffix}",
                [(self.acc_type, left), (self.acc_type, right), (self.acc_type, acc)],
            )
        function, product_only = self.group_intrinsic()
        operands = [(self.a_vector, left), (self.b_type, right)]
        if product_only:
            product = self.intrinsic(function, operands)
            return self.let(f"add {self.acc_type} {acc}, {product}")
        return self.intrinsic(function, [(self.acc_type, acc), *operands])

    def group_intrinsic(self) -> tuple[str, bool]:
        """Name of the instruction that multiplies groups, and whether it lacks the addition."""
        bits = self.shape.lanes * BITS[self.scheme.c]
        if self.target.arch == "aarch64":
            kind = {
                "bf16": "bfdot.v4f32.v8bf16",
                "i8": "sdot.v4i32.v16i8",
                "u8": "udot.v4i32.v16i8",
            }[self.scheme.a]
            return f"llvm.aarch64.neon.{kind}", False
        if self.scheme.name == "bf16":
            return f"llvm.x86.avx512bf16.dpbf16ps.{bits}", False
        if self.scheme.name == "i8":
            return f"llvm.x86.avx512.vpdpbusd.{bits}", False
        if self.target.has("avx512vnni", "avx512vl"):
            return f"llvm.x86.avx512.vpdpwssd.{bits}", False
        return {
            128: "llvm.x86.sse2.pmadd.wd",
            256: "llvm.x86.avx2.pmadd.wd",
            512: "llvm.x86.avx512.pmaddw.d.512",
        }[bits], True

    def intrinsic(self, function: str, operands: list[tuple[str, str]]) -> str:
        types = ", ".join(type_ for type_, _ in operands)
        self.declares.add(f"declare {self.acc_type} @{function}({types})")
        values = ", ".join(f"{type_} {value}" for type_, value in operands)
        return self.let(f"call {self.acc_type} @{function}({values})")
