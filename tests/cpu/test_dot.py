"""Matrix micro-kernels against numpy, on every vector width that the host can run."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest
from cpu.matrices import DTYPES, assert_product, pack_a, pack_b, random
from cpu.native import aligned, compile_for, runnable_targets

from tegula.codegen.loops.dot import Blocking, DotPlan, choose_scheme, plan_dot, split_rows
from tegula.codegen.loops.vector import VectorTarget
from tegula.plugin import Target
from tegula_cpu import target as targets

SIGNATURES = [
    ("f32", "f32", "f32"),
    ("f64", "f64", "f64"),
    ("f32", "f32", "f64"),
    ("f16", "f16", "f32"),
    ("f16", "f16", "f16"),
    ("bf16", "bf16", "f32"),
    ("bf16", "bf16", "bf16"),
    ("f8e5", "bf16", "f32"),
    ("f8e5", "f16", "f32"),
    ("i8", "i8", "i32"),
    ("u8", "i8", "i32"),
    ("i8", "u8", "i32"),
    ("u8", "u8", "i32"),
    ("i16", "i16", "i32"),
    ("i32", "i32", "i32"),
    ("i8", "i8", "i64"),
    ("i64", "i64", "i64"),
]
SIZES = [(1, 1, 1), (3, 5, 7), (33, 70, 19), (2, 130, 32)]
EVERY_TARGET = pytest.mark.parametrize("target", runnable_targets(), ids=str)


def row_addresses(plan: DotPlan, a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A table of addresses of rows that lie apart and in no order, and what holds the rows."""
    rows = np.full((a.shape[0] + 1, a.shape[1] + 3), 77, a.dtype)
    order = np.random.default_rng(1).permutation(a.shape[0])
    rows[order, : a.shape[1]] = a
    return rows.ctypes.data + order * rows.strides[0], rows


def run(plan: DotPlan, a: np.ndarray, b: np.ndarray, c: np.ndarray, target: Target) -> np.ndarray:
    """C after the plan's function has run; checks that it kept to its buffers."""
    text = "\n".join(plan.declares) + "\n" + plan.text
    call = plan.call("%a", "%b", "%c")
    text += f"define void @entry(ptr %a, ptr %b, ptr %c) {{\n{call}\nret void\n}}"
    function = compile_for(target, text, "entry", 3)
    guard = 64
    raw = aligned(plan.c.bytes + guard, fill=0xFF)
    out = raw[: plan.c.bytes].view(DTYPES[plan.c.elem])
    at = plan.c.ld * np.arange(plan.c.rows)[:, None] + np.arange(c.shape[1])
    out[at] = c
    with np.errstate(all="ignore"):
        packed_a, packed_b = pack_a(plan, a), pack_b(plan, b)
    if plan.a.table:
        packed_a, _rows = row_addresses(plan, a)
    before_a, before_b = packed_a.tobytes(), packed_b.tobytes()
    function(packed_a, packed_b, raw)
    assert (raw[plan.c.bytes :] == 0xFF).all()
    assert packed_a.tobytes() == before_a and packed_b.tobytes() == before_b
    return out[at]


def check(
    m: int, n: int, k: int, names: tuple[str, str, str], target: Target, **options: object
) -> DotPlan:
    rng = np.random.default_rng(m * 10007 + n * 101 + k)
    plan = plan_dot(m, n, k, *names, targets.vector_target(target), **options)
    a, b = random((m, k), names[0], rng), random((k, n), names[1], rng)
    c = random((m, n), plan.c.elem, rng)
    got = run(plan, a, b, c, target)
    assert_product(got, a, b, c if options.get("accumulate", True) else np.zeros_like(c))
    return plan


@EVERY_TARGET
@pytest.mark.parametrize("names", SIGNATURES, ids="-".join)
def test_dot_of_every_dtype(names: tuple[str, str, str], target: Target) -> None:
    for m, n, k in SIZES:
        check(m, n, k, names, target)


@EVERY_TARGET
@pytest.mark.parametrize("names", [("f32",) * 3, ("bf16", "bf16", "f32"), ("i8", "i8", "i32")])
def test_dot_without_accumulation_ignores_c(names: tuple[str, str, str], target: Target) -> None:
    for m, n, k in SIZES:
        check(m, n, k, names, target, accumulate=False)


@EVERY_TARGET
def test_dot_of_every_small_size(target: Target) -> None:
    for m, n, k in itertools.product((1, 4, 5), (1, 3, 9, 33), (1, 2, 5)):
        check(m, n, k, ("f32", "f32", "f32"), target)


def test_dot_of_nothing() -> None:
    target = runnable_targets()[0]
    check(4, 20, 0, ("f32", "f32", "f32"), target)
    check(4, 20, 0, ("f32", "f32", "f32"), target, accumulate=False)
    check(0, 20, 3, ("f32", "f32", "f32"), target)
    check(4, 0, 3, ("f32", "f32", "f32"), target)


@EVERY_TARGET
def test_dot_with_given_leading_dimensions(target: Target) -> None:
    check(9, 40, 11, ("f32", "f32", "f32"), target, lda=29, ldc=57)
    check(9, 40, 11, ("f32", "f32", "f32"), target, b_row_major=True)
    check(9, 37, 11, ("f64", "f64", "f64"), target, b_row_major=True, ldb=61, ldc=51)


@EVERY_TARGET
def test_dot_with_rows_of_a_anywhere(target: Target) -> None:
    check(9, 40, 11, ("f32", "f32", "f32"), target, a_rows=True)
    check(21, 17, 4, ("f64", "f64", "f64"), target, a_rows=True)
    if choose_scheme("bf16", "bf16", "f32", targets.vector_target(target)).name == "bf16":
        check(21, 70, 22, ("bf16", "bf16", "f32"), target, a_rows=True)


@pytest.mark.parametrize("shape", [(1, 1, 16), (6, 4, 16), (12, 2, 16), (3, 5, 8), (2, 2, 4)])
def test_dot_with_other_blockings(shape: tuple[int, int, int]) -> None:
    target = runnable_targets()[0]
    if shape[2] * 32 > target["vector_bits"]:
        pytest.skip("wider than the host's vectors")
    check(29, 150, 13, ("f32", "f32", "f32"), target, blocking=Blocking(*shape))


def test_wrong_leading_dimensions_are_refused() -> None:
    target = VectorTarget("x86-64", 512, frozenset({"avx512f", "avx512vl", "avx512bf16"}))
    with pytest.raises(ValueError, match="leading dimension is too small"):
        plan_dot(4, 17, 8, "f32", "f32", "f32", target, ldc=17)
    with pytest.raises(ValueError, match="leading dimension is too small"):
        plan_dot(4, 16, 8, "f32", "f32", "f32", target, lda=7)
    with pytest.raises(ValueError, match="cannot be row-major"):
        plan_dot(4, 16, 8, "bf16", "bf16", "f32", target, b_row_major=True)
    with pytest.raises(ValueError, match="needs A packed"):
        plan_dot(4, 16, 7, "bf16", "bf16", "f32", target, a_rows=True)


def test_split_rows_covers_every_row_with_two_heights() -> None:
    for rows, limit in itertools.product(range(70), range(1, 20)):
        parts = split_rows(rows, limit)
        at = 0
        for start, height, count in parts:
            assert start == at and 0 < height <= limit and count > 0
            at += height * count
        assert at == rows and len(parts) <= 2


def test_code_does_not_grow_with_the_tile() -> None:
    target = targets.vector_target(targets.resolve("x86-64-v4"))
    small = plan_dot(64, 128, 64, "f32", "f32", "f32", target)
    large = plan_dot(512, 1024, 512, "f32", "f32", "f32", target)
    assert len(large.text.splitlines()) <= len(small.text.splitlines())


@pytest.mark.parametrize("name", ["aarch64", "aarch64-v8.6a"])
def test_code_for_arm_uses_its_matrix_instructions(name: str) -> None:
    target = targets.resolve(name)
    import llvmlite.binding as llvm

    machine = targets.machine(target)
    expected = {("f32",) * 3: "fmla", ("f64",) * 3: "fmla", ("i32",) * 3: "mla"}
    if name != "aarch64":
        expected |= {("bf16", "bf16", "f32"): "bfdot", ("i8", "i8", "i32"): "sdot"}
        expected |= {("u8", "u8", "i32"): "udot"}
    for names, instruction in expected.items():
        plan = plan_dot(13, 40, 9, *names, targets.vector_target(target))
        text = "\n".join(plan.declares) + "\n" + plan.text.replace("internal ", "")
        module = llvm.parse_assembly(text)
        module.triple = target["triple"]
        assembly = machine.emit_assembly(module)
        assert f"\t{instruction}\t" in assembly
        assert "Spill" not in assembly


@pytest.mark.parametrize("name", ["x86-64", "x86-64-v3", "x86-64-v4"])
@pytest.mark.parametrize("names", [("f32",) * 3, ("f64",) * 3, ("i16", "i16", "i32")])
def test_accumulators_stay_in_registers(name: str, names: tuple[str, str, str]) -> None:
    import llvmlite.binding as llvm

    target = targets.resolve(name)
    plan = plan_dot(100, 200, 64, *names, targets.vector_target(target))
    text = "\n".join(plan.declares) + "\n" + plan.text.replace("internal ", "")
    module = llvm.parse_assembly(text)
    module.triple = target["triple"]
    assembly = targets.machine(target).emit_assembly(module)
    vectors = ("xmm", "ymm", "zmm")
    spills = [line for line in assembly.splitlines() if "-byte " in line]
    assert not [line for line in spills if any(v in line for v in vectors)], plan.name


def test_schemes_follow_the_features() -> None:
    def scheme(a: str, b: str, acc: str, *features: str, arch: str = "x86-64") -> tuple[str, int]:
        chosen = choose_scheme(a, b, acc, VectorTarget(arch, 128, frozenset(features)))
        return chosen.name, chosen.bias

    vnni = ("avx512f", "avx512vl", "avx512vnni")
    assert scheme("i8", "i8", "i32", *vnni) == ("i8", 128)
    assert scheme("u8", "i8", "i32", *vnni) == ("i8", 0)
    assert scheme("i8", "u8", "i32", *vnni) == ("i16", 0)
    assert scheme("i8", "i8", "i32") == ("i16", 0)
    assert scheme("i8", "i8", "i32", arch="aarch64") == ("imul", 0)
    assert scheme("i8", "i8", "i32", "dotprod", arch="aarch64") == ("i8", 0)
    assert scheme("bf16", "bf16", "f32") == ("fma", 0)
    assert scheme("bf16", "bf16", "f32", "avx512vl", "avx512bf16") == ("bf16", 0)
    assert scheme("bf16", "f16", "f32", "avx512vl", "avx512bf16") == ("fma", 0)
    assert scheme("f32", "f32", "f64") == ("fma", 0)


def test_plans_of_equal_code_are_one() -> None:
    target = VectorTarget("x86-64", 256, frozenset({"avx2", "fma"}))
    one = plan_dot(8, 8, 8, "f16", "f16", "f32", target)
    two = plan_dot(8, 8, 8, "f32", "f32", "f32", target)
    assert one.name == two.name and one.text == two.text
    other = plan_dot(8, 8, 8, "f32", "f32", "f32", dataclasses.replace(target, vector_bits=128))
    assert other.name != one.name
