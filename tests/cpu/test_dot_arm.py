"""Matrix micro-kernels and transposes for AArch64, run by an emulator where one is installed."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from cpu.matrices import DTYPES, assert_product, pack_a, pack_b, random

from tegula.codegen.loops.dot import plan_dot
from tegula.codegen.loops.transpose import emit_transpose
from tegula_cpu import target as targets

EMULATOR = shutil.which("qemu-aarch64")
ASSEMBLER = shutil.which("aarch64-linux-gnu-as")  # llvmlite's parses the host's assembly only
LINKER = shutil.which("aarch64-linux-gnu-ld")
pytestmark = pytest.mark.skipif(
    not (EMULATOR and ASSEMBLER and LINKER),
    reason="needs qemu-aarch64 and binutils for aarch64-linux-gnu",
)

SIZES = [(1, 1, 1), (3, 5, 7), (33, 41, 18), (2, 70, 9)]
SIGNATURES = [
    ("f32", "f32", "f32"),
    ("f64", "f64", "f64"),
    ("bf16", "bf16", "f32"),
    ("i8", "i8", "i32"),
    ("u8", "u8", "i32"),
    ("i8", "u8", "i32"),
    ("i16", "i16", "i32"),
    ("i64", "i64", "i64"),
]


SYSTEM_CALLS = """
    .text
    .globl _start
_start:
    bl main
    mov x0, #0
    mov x8, #93
    svc #0
emit:
    mov x2, x1
    mov x1, x0
    mov x0, #1
    mov x8, #64
    svc #0
    ret
"""


class Program:
    """A freestanding program that calls functions on constant data and writes the results."""

    def __init__(self) -> None:
        self.heads: dict[str, None] = {}
        self.functions: dict[str, str] = {}
        self.globals: list[str] = []
        self.body: list[str] = []

    def data(self, values: np.ndarray) -> str:
        """A global with these values."""
        text = "".join(f"\\{byte:02X}" for byte in values.tobytes())
        name = f"@g{len(self.globals)}"
        self.globals.append(f'{name} = global [{values.nbytes} x i8] c"{text}", align 64')
        return name

    def add(self, name: str, declares: tuple[str, ...], text: str) -> None:
        self.heads |= dict.fromkeys(declares)
        self.functions[name] = text

    def write(self, name: str, nbytes: int) -> None:
        self.body.append(f"call void @emit(ptr {name}, i64 {nbytes})")

    def run(self, target_name: str, folder: Path) -> bytes:
        import llvmlite.binding as llvm

        text = "\n".join([*self.heads, *self.globals, *self.functions.values()])
        text += "\ndeclare void @emit(ptr, i64)\ndefine void @main() {\n  "
        text += "\n  ".join(self.body) + "\n  ret void\n}\n"
        target = targets.resolve(target_name)
        machine = targets.machine(target)
        module = llvm.parse_assembly(text)
        module.triple = target["triple"]
        module.data_layout = str(machine.target_data)
        (folder / "program.s").write_text(machine.emit_assembly(module) + SYSTEM_CALLS)
        assert ASSEMBLER and LINKER and EMULATOR
        assemble = [ASSEMBLER, "-march=armv8.6-a", "-o", "program.o", "program.s"]
        subprocess.run(assemble, cwd=folder, check=True)
        subprocess.run([LINKER, "-o", "program", "program.o"], cwd=folder, check=True)
        done = subprocess.run(
            [EMULATOR, "-cpu", "max", "./program"], cwd=folder, check=True, capture_output=True
        )
        return done.stdout


@pytest.mark.parametrize("target", ["aarch64", "aarch64-v8.6a"])
@pytest.mark.parametrize("names", SIGNATURES, ids="-".join)
def test_dot_on_arm(names: tuple[str, str, str], target: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    program, cases = Program(), []
    for m, n, k in SIZES:
        plan = plan_dot(m, n, k, *names, targets.vector_target(targets.resolve(target)))
        a, b = random((m, k), names[0], rng), random((k, n), names[1], rng)
        out = np.full(plan.c.bytes, 0xFF, np.uint8).view(DTYPES[plan.c.elem])
        at = plan.c.ld * np.arange(m)[:, None] + np.arange(n)
        start = random((m, n), plan.c.elem, rng)
        out[at] = start
        program.add(plan.name, plan.declares, plan.text)
        result = program.data(out)
        with np.errstate(all="ignore"):
            operands = (program.data(pack_a(plan, a)), program.data(pack_b(plan, b)))
        program.body.append(plan.call(*operands, result))
        program.write(result, out.nbytes)
        cases.append((a, b, start, at, out))
    text = program.run(target, tmp_path)
    for a, b, start, at, out in cases:
        got = np.frombuffer(text[: out.nbytes], out.dtype)
        text = text[out.nbytes :]
        assert_product(got[at], a, b, start)
    assert not text


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_transpose_on_arm(bits: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(bits)
    program, wanted = Program(), []
    for rows, cols in ((1, 1), (16, 16), (17, 33), (32, 9)):
        vector = targets.vector_target(targets.resolve("aarch64"))
        plan = emit_transpose(rows, cols, f"i{bits}", vector)
        source = rng.integers(0, 256, (rows, cols * bits // 8), np.uint8).view(f"u{bits // 8}")
        result = program.data(np.zeros((cols, rows), source.dtype))
        program.add(plan.name, plan.declares, plan.text)
        program.body.append(plan.call(program.data(source), cols, result, rows))
        program.write(result, source.nbytes)
        wanted.append(source.T.tobytes())
    assert program.run("aarch64", tmp_path) == b"".join(wanted)
