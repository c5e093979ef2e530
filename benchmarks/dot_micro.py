"""Matrix micro-kernels of the CPU backend beside numpy and torch, measured in turn in one process.

    python benchmarks/dot_micro.py            # everything
    python benchmarks/dot_micro.py tiles      # the micro-kernels alone, on tiles in the caches
    python benchmarks/dot_micro.py matmul     # whole matrices, with a plain blocked driver
    python benchmarks/dot_micro.py --single matmul   # one thread, CPU time: for a busy machine

The first part prints each rate also as a share of the best tile's.
The driver of the second part packs A and B per block, as compiled kernels do, and runs its programs
on the backend's thread pool; results are checked before they are timed.
"""

from __future__ import annotations

import ctypes
import functools
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tegula.codegen.loops.dot import DotPlan, plan_dot
from tegula.codegen.loops.transpose import emit_transpose
from tegula.plugin import Artifact
from tegula_cpu import target as targets
from tegula_cpu.driver import CpuDriver, CpuKernel
from tegula_cpu.pool import pool

HOST = targets.vector_target(targets.host())
ROUNDS = 7
SINGLE = "--single" in sys.argv
clock = time.process_time if SINGLE else time.perf_counter
_LLVM = {"f32": "float", "f64": "double", "bf16": "bfloat", "i8": "i8", "u8": "i8", "i16": "i16"}


def compile_host(text: str) -> bytes:
    """An object of LLVM text for the host."""
    import llvmlite.binding as llvm

    machine = targets.machine(targets.host(), opt=3)
    module = llvm.parse_assembly(text)
    module.triple = targets.host()["triple"]
    module.data_layout = str(machine.target_data)
    module.verify()
    data: bytes = machine.emit_object(module)
    return data


_KEEP: list[Any] = []


def native(text: str, entry: str, arguments: int) -> Callable[..., None]:
    """Function `entry` of LLVM text, taking 64-bit integers or addresses."""
    library, addresses = pool().linker.link(compile_host(text), (entry,), {})
    _KEEP.append(library)
    kind = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * arguments)
    function: Callable[..., None] = kind(addresses[entry])
    return function


def aligned(nbytes: int) -> np.ndarray:
    raw = np.zeros(nbytes + 64, np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + nbytes]


def in_turn(functions: Mapping[str, Callable[[], object]], least: float = 0.05) -> dict[str, float]:
    """Median seconds a call, the functions taken in turn."""
    repeats = {}
    for name, function in functions.items():
        function()
        start = time.perf_counter()
        function()
        repeats[name] = max(1, int(least / max(time.perf_counter() - start, 1e-7)))
    seconds: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(ROUNDS):
        for name, function in functions.items():
            start = clock()
            for _ in range(repeats[name]):
                function()
            seconds[name].append((clock() - start) / repeats[name])
    return {name: statistics.median(values) for name, values in seconds.items()}


REPEAT = """
define void @repeat(ptr %a, ptr %b, ptr %c, i64 %n) {{
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %j, %loop ]
  {call}
  %j = add i64 %i, 1
  %more = icmp slt i64 %j, %n
  br i1 %more, label %loop, label %done
done:
  ret void
}}
"""


def repeated(declares: tuple[str, ...], text: str, call: str) -> Callable[..., None]:
    """``f(a, b, c, n)``: n calls of a function in a native loop."""
    return native("\n".join(declares) + "\n" + text + REPEAT.format(call=call), "repeat", 4)


def plan_runner(plan: DotPlan) -> tuple[Callable[..., None], list[np.ndarray], float]:
    """The repeated function of a plan, its buffers, and the milliseconds it took to compile."""
    start = time.perf_counter()
    function = repeated(plan.declares, plan.text, plan.call("%a", "%b", "%c"))
    elapsed = (time.perf_counter() - start) * 1e3
    return function, [aligned(layout.bytes) for layout in (plan.a, plan.b, plan.c)], elapsed


def tiles() -> None:
    """Rates on tiles that stay in the caches, beside the best of a tile within L1."""
    signatures = [("f32",) * 3, ("f64",) * 3, ("bf16", "bf16", "f32"), ("i8", "i8", "i32"),
                  ("u8", "i8", "i32"), ("i16", "i16", "i32"), ("i32",) * 3]  # fmt: skip
    sizes = [(16, 64, 64), (32, 32, 32), (64, 64, 64), (128, 256, 64), (128, 128, 256),
             (1, 256, 64), (4, 512, 64), (64, 8, 64), (256, 1, 64)]  # fmt: skip
    for names in signatures:
        rates = {}
        compiled = []
        for size in sizes:
            function, buffers, ms = plan_runner(plan_dot(*size, *names, HOST))
            work = 2 * np.prod(size)
            repeats = max(1, int(1e8 / work))
            addresses = [buffer.ctypes.data for buffer in buffers]
            call = lambda f=function, a=addresses, n=repeats: f(*a, n)  # noqa: E731
            rates[size] = work * repeats / min(in_turn({"": call}, 0.02).values()) / 1e9
            compiled.append(ms)
        top = max(rates.values())
        print(f"{'-'.join(names):14}  compile {statistics.median(compiled):4.1f} ms")
        for size, rate in rates.items():
            print(f"    {'x'.join(map(str, size)):12} {rate:7.1f} Gop/s  {rate / top:5.2f} of best")


def transposes() -> None:
    for bits in (8, 16, 32, 64):
        plan = emit_transpose(64, 64, f"i{bits}", HOST)
        function = repeated(plan.declares, plan.text, plan.call("%a", 64, "%b", 64))
        buffers = [aligned(64 * 64 * bits // 8) for _ in range(2)]
        seconds = in_turn(
            {"": lambda f=function, b=buffers: f(b[0].ctypes.data, b[1].ctypes.data, 0, 1000)}, 0.02
        )[""]
        rate = 64 * 64 * 1000 / seconds / 1e9
        print(f"transpose 64x64 of {bits:2}-bit elements: {rate:5.1f} Gelements/s")


class Text:
    """Writes counted loops."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.count = 0
        self.label = "entry"

    def let(self, expression: str) -> str:
        self.count += 1
        self.lines.append(f"  %t{self.count} = {expression}")
        return f"%t{self.count}"

    def do(self, line: str) -> None:
        self.lines.append("  " + line)

    def loop(self, trips: int, body: Callable[[str], None]) -> None:
        self.count += 1
        head, before = f"l{self.count}", self.label
        self.lines += [f"  br label %{head}", f"{head}:", ""]
        slot, self.label = len(self.lines) - 1, head
        body(f"%{head}.i")
        after = self.let(f"add i64 %{head}.i, 1")
        more = self.let(f"icmp slt i64 {after}, {trips}")
        self.lines[slot] = f"  %{head}.i = phi i64 [ 0, %{before} ], [ {after}, %{self.label} ]"
        self.lines += [f"  br i1 {more}, label %{head}, label %{head}.end", f"{head}.end:"]
        self.label = f"{head}.end"

    def at(self, base: str, *terms: tuple[str, int]) -> str:
        """`base` moved by index times stride in bytes, for each term."""
        for index, stride in terms:
            step = self.let(f"mul i64 {index}, {stride}")
            base = self.let(f"getelementptr i8, ptr {base}, i64 {step}")
        return base

    def prefetch(self, base: str, offset: int, nbytes: int) -> None:
        """Ask for a piece of the block that the next step packs."""
        for i in range(0, nbytes, 64):
            at = self.let(f"getelementptr i8, ptr {base}, i64 {offset + i}")
            self.do(f"call void @llvm.prefetch.p0(ptr {at}, i32 0, i32 2, i32 1)")


def matmul_kernel(size: int, bm: int, bn: int, bk: int, name: str, group: int) -> CpuKernel:
    """A blocked product of square matrices; every block divides the size."""
    plan = plan_dot(bm, bn, bk, name, name, "f32", HOST)
    item, elem = {"f32": 4, "bf16": 2}[name], _LLVM[name]
    a_at, b_at = 0, plan.a.bytes + 64 & -64
    c_at = b_at + plan.b.bytes + 64 & -64
    t = Text()
    for i, pointer in enumerate("abc"):
        slot = t.let(f"getelementptr i64, ptr %args, i64 {i}")
        t.do(f"%{pointer} = load ptr, ptr {slot}")
    blocks = size // bm
    in_group = group * (size // bn)
    t.do("%pid = zext i32 %x to i64")
    gid = t.let(f"udiv i64 %pid, {in_group}")
    first = t.let(f"mul i64 {gid}, {group}")
    rest = t.let(f"sub i64 {blocks}, {first}")
    rows = t.let(f"call i64 @llvm.smin.i64(i64 {rest}, i64 {group})")
    inside = t.let(f"urem i64 %pid, {in_group}")
    pm = t.let(f"add i64 {first}, {t.let(f'urem i64 {inside}, {rows}')}")
    pn = t.let(f"udiv i64 {inside}, {rows}")
    pack_a, pack_b, acc = (t.at("%scratch", ("1", at)) for at in (a_at, b_at, c_at))
    t.do(f"call void @llvm.memset.p0.i64(ptr {acc}, i8 0, i64 {plan.c.bytes}, i1 false)")

    def step(k: str) -> None:
        source_a = t.at("%a", (pm, bm * size * item), (k, bk * item))
        source_b = t.at("%b", (k, bk * size * item), (pn, bn * item))

        def row(m: str) -> None:
            to, source = t.at(pack_a, (m, plan.a.ld * item)), t.at(source_a, (m, size * item))
            value = t.let(f"load <{bk} x {elem}>, ptr {source}, align {item}")
            t.do(f"store <{bk} x {elem}> {value}, ptr {to}, align 64")
            t.prefetch(source, bk * item, bk * item)

        def panel(p: str) -> None:
            nr, g = plan.b.nr, plan.b.group

            def rows_of_b(kk: str) -> None:
                source = t.at(source_b, (p, nr * item), (kk, g * size * item))
                to = t.at(pack_b, (p, plan.b.panel_stride * item), (kk, nr * g * item))
                value = t.let(f"load <{nr} x {elem}>, ptr {source}, align {item}")
                if g == 2:
                    below = t.at(source, ("1", size * item))
                    other = t.let(f"load <{nr} x {elem}>, ptr {below}, align {item}")
                    mask = ", ".join(f"i32 {i}, i32 {i + nr}" for i in range(nr))
                    pair = f"<{nr} x {elem}> {value}, <{nr} x {elem}> {other}"
                    value = t.let(f"shufflevector {pair}, <{2 * nr} x i32> <{mask}>")
                t.do(f"store <{nr * g} x {elem}> {value}, ptr {to}, align 64")
                for row in range(g):
                    t.prefetch(source, (bk + row) * size * item, nr * item)

            t.loop(bk // g, rows_of_b)

        t.loop(bm, row)
        t.loop(bn // plan.b.nr, panel)
        t.do(plan.call(pack_a, pack_b, acc))

    t.loop(size // bk, step)

    def out(m: str) -> None:
        source = t.at(acc, (m, plan.c.ld * 4))
        to = t.at("%c", (pm, bm * size * item), (pn, bn * item), (m, size * item))
        value = t.let(f"load <{bn} x float>, ptr {source}, align 64")
        if name == "bf16":
            value = t.let(f"fptrunc <{bn} x float> {value} to <{bn} x bfloat>")
        t.do(f"store <{bn} x {elem}> {value}, ptr {to}, align {item}")

    t.loop(bm, out)
    prefetch = "declare void @llvm.prefetch.p0(ptr, i32, i32, i32)"
    head = "\n".join(
        (*sorted({*plan.declares, prefetch}), "declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)",
         "declare i64 @llvm.smin.i64(i64, i64)", plan.text,
         "define void @matmul(ptr %args, ptr %scratch, i32 %x, i32 %y, i32 %z, i32 %nx, i32 %ny,"
         " i32 %nz) {\nentry:")
    )  # fmt: skip
    text = head + "\n" + "\n".join(t.lines) + "\n  ret void\n}\n"
    artifact = Artifact("elf-object", compile_host(text), "matmul", ("ptr",) * 3,
                        {"scratch_bytes": c_at + plan.c.bytes})  # fmt: skip
    return CpuDriver().open(0).load(artifact)


BLOCKS = [(64, 64, 64), (128, 128, 64), (128, 128, 128), (128, 256, 64), (64, 256, 128),
          (128, 256, 128), (256, 256, 128), (64, 512, 128)]  # fmt: skip


def best_block(
    name: str, a: Any, b: Any, c: Any
) -> tuple[tuple[int, int, int], Callable[[], None]]:
    """The fastest block for these torch matrices, and the launch with it."""
    size = a.shape[0]
    want = a.double() @ b.double()
    found = {}
    for block in BLOCKS:
        kernel = matmul_kernel(size, *block, name, 8)
        grid = ((size // block[0]) * (size // block[1]), 1, 1)
        addresses = [m.data_ptr() for m in (a, b, c)]
        launch = functools.partial(kernel.launch, grid, addresses)
        launch()
        error = float((c.double() - want).norm() / want.norm())
        assert error < 1e-2, f"{name} {size} {block}: wrong result, error {error}"
        seconds = []
        for _ in range(5):
            start = clock()
            launch()
            seconds.append(clock() - start)
        found[block] = (min(seconds), launch)
    block = min(found, key=lambda b: found[b][0])
    return block, found[block][1]


def matmul() -> None:
    """Whole matrices beside numpy and torch."""
    for name, size in (("f32", 512), ("f32", 1024), ("f32", 2048), ("bf16", 1024), ("bf16", 2048)):
        if name == "bf16" and plan_dot(64, 64, 64, "bf16", "bf16", "f32", HOST).a.elem != "bf16":
            print("matmul bf16: this processor converts to f32, which this driver does not")
            return
        one_matmul(name, size)


def one_matmul(name: str, size: int) -> None:
    import torch
    from threadpoolctl import threadpool_limits

    if SINGLE:
        pool().resize(1)
        torch.set_num_threads(1)
        threadpool_limits(1)
    kind = {"f32": torch.float32, "bf16": torch.bfloat16}[name]
    torch.manual_seed(size)
    a, b = (torch.randn(size, size).to(kind) for _ in range(2))
    c = torch.empty(size, size, dtype=kind)
    block, launch = best_block(name, a, b, c)
    functions = {"tegula": launch, "torch": lambda: torch.mm(a, b, out=c)}
    if name == "f32":
        an, bn, cn = a.numpy(), b.numpy(), c.numpy()
        functions["numpy"] = lambda: np.matmul(an, bn, out=cn)
    rates = {k: 2 * size**3 / s / 1e9 for k, s in in_turn(functions).items()}
    share = rates["tegula"] / max(rate for k, rate in rates.items() if k != "tegula")
    shown = "  ".join(f"{k} {rate:6.1f}" for k, rate in rates.items())
    print(f"matmul {name} {size}: {shown} GFLOP/s; {share:.2f} of the best peer, block {block}")


if __name__ == "__main__":
    chosen = [a for a in sys.argv[1:] if a != "--single"] or ["tiles", "transposes", "matmul"]
    for part in chosen:
        {"tiles": tiles, "transposes": transposes, "matmul": matmul}[part]()
