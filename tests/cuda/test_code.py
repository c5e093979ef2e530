"""The code that kernels become: facts about PTX, and that ptxas takes it. No device is needed."""

from __future__ import annotations

import re
from typing import Any

import pytest

pytest.importorskip("tegula_cuda")

from cuda_ptx import compiled, ptx_of

import tegula
import tegula.language as tl
from tegula.config import config
from tegula.ir import types as ir
from tegula.ir.types import Pointer
from tegula.plugin import UnsupportedError
from tegula_cuda import ptxas

OLD_AND_NEW = ["sm_75", "sm_80", "sm_90a", "sm_100a"]
needs_ptxas = pytest.mark.skipif(ptxas.find() is None, reason="ptxas is not installed")


F32, F16 = Pointer(ir.f32), Pointer(ir.f16)


@tegula.jit
def copy(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n), mask=i < n)


@tegula.jit
def copy_all(x, y, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i))


@tegula.jit
def copy_hinted(x, y, n, CACHE: tl.constexpr, EVICT: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n, cache_modifier=CACHE, eviction_policy=EVICT)
    tl.store(y + i, v, eviction_policy=EVICT)


@tegula.jit
def total(x, y, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(y, tl.sum(tl.load(x + i)))


@tegula.jit
def product(x, y, z, N: tl.constexpr):
    i = tl.arange(0, N)
    at = i[:, None] * N + i[None, :]
    tl.store(z + at, tl.dot(tl.load(x + at), tl.load(y + at)))


@tegula.jit
def atomics(x, v, o, KIND: tl.constexpr, SEM: tl.constexpr, SCOPE: tl.constexpr):
    i = tl.arange(0, 128)
    a = tl.load(v + i)
    if KIND == "cas":
        r = tl.atomic_cas(x + i, a, a, sem=SEM, scope=SCOPE)
    elif KIND == "xchg":
        r = tl.atomic_xchg(x + i, a, sem=SEM, scope=SCOPE)
    elif KIND == "max":
        r = tl.atomic_max(x + i, a, sem=SEM, scope=SCOPE)
    else:
        r = tl.atomic_add(x + i, a, sem=SEM, scope=SCOPE)
    tl.store(o + i, r)


@tegula.jit
def speaking(x):
    i = tl.arange(0, 4)
    v = tl.load(x + i)
    tl.device_print("100% of", v)
    tl.device_assert(v > 0, "not positive")


@pytest.mark.parametrize(("elem", "width"), [(ir.f32, ".v4.b32"), (ir.f16, ".v4.b32"),
                                             (ir.f64, ".v2.b64"), (ir.i8, ".v4.b32")])  # fmt: skip
def test_masked_accesses_are_wide_and_without_branches(elem: Any, width: str) -> None:
    p = Pointer(elem)
    ptx = ptx_of(copy, {"BLOCK": 4096}, x=p, y=p, n=ir.i32)
    assert re.search(rf"@%p\d+ ld\.global{width}", ptx)
    assert re.search(rf"@%p\d+ st\.global{width}", ptx)
    assert "bra" not in ptx


def test_what_is_not_known_to_be_aligned_is_read_one_by_one() -> None:
    ptx = ptx_of(copy, {"BLOCK": 1024}, x=F32, y=F32, n=ir.i32, aligned=False)
    assert ".v4" not in ptx and "ld.global.b32" in ptx


def test_accesses_without_a_mask_are_plain() -> None:
    ptx = ptx_of(copy_all, {"BLOCK": 1024}, x=F32, y=F32)
    assert "ld.global.v4.b32" in ptx and "st.global.v4.b32" in ptx
    assert "inline asm" not in ptx


@pytest.mark.parametrize(
    ("cache", "evict", "load", "store"),
    [
        (".cg", "", "ld.global.cg.v4.b32", "st.global.v4.b32"),
        (".cv", "", "ld.global.cv.v4.b32", "st.global.v4.b32"),
        ("", "evict_first", "ld.global.L1::evict_first.v4.b32", "st.global.L1::evict_first"),
        ("", "evict_last", "ld.global.L1::evict_last.v4.b32", "st.global.L1::evict_last"),
    ],
)
def test_hints_reach_the_instructions(cache: str, evict: str, load: str, store: str) -> None:
    constants = {"CACHE": cache, "EVICT": evict, "BLOCK": 512}
    ptx = ptx_of(copy_hinted, constants, x=F32, y=F32, n=ir.i32)
    assert load in ptx and store in ptx


@tegula.jit
def wrapping(x, y, first, base):
    i = tl.arange(0, 256)
    index = first + i
    tl.store(y + i, tl.load(x + base + index, mask=index < first))


def test_indices_that_may_wrap_around_are_no_neighbours() -> None:
    """Each index is extended to 64 bits on its own: their distance there may be another one."""
    ptx = ptx_of(wrapping, {}, x=F32, y=F32, first=ir.i32, base=ir.i64, aligned=False)
    loads = ptx[: ptx.index("st.global")]
    assert len(re.findall(r"mul\.wide\.s32|mad\.wide\.s32", loads)) == 2


@tegula.jit
def remainders(x, y, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(y + i, tl.abs(tl.load(x + i)) % tl.load(y + i))


@pytest.mark.parametrize(("elem", "word"), [(ir.i16, "s16"), (ir.i32, "s32"), (ir.i64, "s64")])
def test_magnitudes_may_be_negative(elem: Any, word: str) -> None:
    """That of the least integer is: ptxas forgets it where it sees `abs`."""
    ptx = ptx_of(remainders, {"BLOCK": 32}, x=Pointer(elem), y=Pointer(elem), num_warps=1)
    assert f"max.{word}" in ptx and "abs." not in ptx


@pytest.mark.parametrize("warps", [1, 4, 8])
def test_threads_and_registers_are_declared(warps: int) -> None:
    ptx = ptx_of(total, {"BLOCK": 1024}, x=F32, y=F32, num_warps=warps, maxnreg=40)
    assert f".reqntid {32 * warps}" in ptx and ".maxnreg 40" in ptx
    assert "shfl.sync.bfly.b32" in ptx
    assert ("bar.sync" in ptx or "barrier.sync" in ptx) == (warps > 1)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_100a"])
def test_products_of_f32_are_shortened_unless_told_otherwise(arch: str) -> None:
    given = dict(arch=arch, x=F32, y=F32, z=F32)
    assert ".tf32." in ptx_of(product, {"N": 64}, **given)
    exact = ptx_of(product, {"N": 64}, default_dot_precision="ieee", **given)
    assert "mma" not in exact and "fma.rn.f32" in exact


@pytest.mark.parametrize(("elem", "hidden"), [(ir.f8e4nv, True), (ir.f16, False)], ids=str)
def test_constant_factors_of_8_bits_are_hidden_from_ptxas(elem: Any, hidden: bool) -> None:
    """16 columns fill half of an instruction; the rest are zeros."""
    p = Pointer(elem)
    ptx = ptx_of(product, {"N": 16}, x=p, y=p, z=F32)
    assert "mma.sync" in ptx and ("%lanemask_lt" in ptx) == hidden


@tegula.jit
def by_a_constant(x, z, K: tl.constexpr):
    rows, deep, columns = tl.arange(0, 16), tl.arange(0, K), tl.arange(0, 8)
    a = tl.load(x + rows[:, None] * K + deep)
    c = tl.dot(a, tl.full((K, 8), -1.0, x.dtype.element_ty))
    tl.store(z + rows[:, None] * 8 + columns, c)


@pytest.mark.parametrize("elem", [ir.f16, ir.bf16], ids=str)
def test_constant_factors_of_short_products_are_hidden_from_ptxas(elem: Any) -> None:
    """It would take a pair of negative numbers for one number, and give only one of them a sign."""
    ptx = ptx_of(by_a_constant, {"K": 8}, x=Pointer(elem), z=F32)
    word = re.search(r"mma.*m16n8k8.*?}, {.*?}, {(%\w+)}", ptx)
    assert word and re.search(rf"or.b32\s+{word[1]}, %\w+, -\d+;", ptx)
    assert "%lanemask_lt" in ptx


def test_shared_memory_is_dynamic() -> None:
    with config.scope(ptxas="driver"):
        made = compiled(product, {"N": 64}, x=F32, y=F32, z=F32)
    assert re.search(r"\.extern \.shared \.align \d+ \.b8 tegula_shared\[\]", made.data.decode())
    assert made.metadata["shared_bytes"] >= 2 * 64 * 64 * 4


@tegula.jit
def shifted_by_hand(x, y, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.inline_asm_elementwise(
        "ld.global.b8 $0, [$1]; shl.b32 $0, $0, 3; st.global.b8 [$2], $0;", "=r,l,l",
        [x + i, y + i], dtype=tl.int8, is_pure=False, pack=1,
    )  # fmt: skip


def test_assembly_on_pointers_whose_result_nobody_needs() -> None:
    ptx = ptx_of(shifted_by_hand, {"BLOCK": 512}, x=Pointer(ir.i8), y=Pointer(ir.i8))
    assert ptx.count("st.global.b8") == 4  # 128 threads


@tegula.jit
def waits(flag, out, LIMIT: tl.constexpr):
    tl.store(out, tl.atomic_poll(flag, 1, timeout_ns=LIMIT))


def test_only_what_can_turn_out_either_way_goes_through_shared_memory() -> None:
    types = {"flag": Pointer(ir.i32), "out": Pointer(ir.i1)}
    with config.scope(ptxas="driver"):
        forever = compiled(waits, {"LIMIT": None}, **types)
        limited = compiled(waits, {"LIMIT": 1000}, **types)
    assert forever.metadata["shared_bytes"] == 0 < limited.metadata["shared_bytes"]
    ptx = forever.data.decode()
    assert ptx.index("ld.relaxed" if "ld.relaxed" in ptx else "ld.acquire") < ptx.index("bar.sync")
    assert ptx.index("bar.sync") < ptx.index("st.global.b8")


def test_prints_and_assertions_say_what_the_driver_needs() -> None:
    with config.scope(ptxas="driver"):
        made = compiled(speaking, {}, x=Pointer(ir.i32), debug=True)
    ptx = made.data.decode()
    assert made.metadata["prints"] and "vprintf" in ptx
    assert len(made.metadata["asserts"]) == 1 and "not positive" in made.metadata["asserts"][0]
    assert len(re.findall(r"\.param \S+.*speaking_param_", ptx)) == 2  # x and the buffer
    text = bytes(
        map(int, re.findall(r"\d+", ptx.split("tegula_text0")[1].split("{")[1].split("}")[0]))
    )
    assert text.startswith(b"pid (%d, %d, %d) idx (%1d) 100%% of")
    with config.scope(ptxas="driver"):
        quiet = compiled(copy_all, {"BLOCK": 128}, x=F32, y=F32)
    assert not quiet.metadata["prints"] and not quiet.metadata["asserts"]


@needs_ptxas
@pytest.mark.parametrize("arch", OLD_AND_NEW)
@pytest.mark.parametrize("elem", [ir.f16, ir.f32, ir.f64, ir.i32, ir.u64], ids=str)
def test_atomics_assemble(arch: str, elem: Any) -> None:
    p = Pointer(elem)
    kinds = ["add", "cas", "xchg", "max"] if elem.bits > 16 else ["add", "cas"]
    for kind in kinds:
        made = compiled(
            atomics, {"KIND": kind, "SEM": "acq_rel", "SCOPE": "gpu"}, arch, x=p, v=p, o=p
        )
        assert made.kind == "cubin" and made.metadata["spills"] == 0


@pytest.mark.parametrize("sem", ["relaxed", "acquire", "release", "acq_rel"])
@pytest.mark.parametrize("scope", ["cta", "gpu", "sys"])
@pytest.mark.parametrize("kind", ["add", "cas", "xchg"])
def test_atomics_have_their_order_and_scope(kind: str, sem: str, scope: str) -> None:
    p = Pointer(ir.i32)
    ptx = ptx_of(atomics, {"KIND": kind, "SEM": sem, "SCOPE": scope}, x=p, v=p, o=p)
    (found,) = re.findall(r"atom\.\S+", ptx)
    assert found.startswith(f"atom.{sem}.{scope}.global.")


@tegula.jit
def many_atomics(x, o, SEM: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(o + i, tl.atomic_add(x + i, 1, sem=SEM))


@pytest.mark.parametrize(
    ("sem", "fences"),
    [("relaxed", ""), ("acquire", "aaaaf"), ("release", "faaaa"), ("acq_rel", "faaaaf")],
)
def test_atomics_of_one_thread_share_their_fences(sem: str, fences: str) -> None:
    p = Pointer(ir.i32)
    ptx = ptx_of(many_atomics, {"SEM": sem, "N": 512}, x=p, o=p)
    found = re.findall(r"(atom\.\w+|fence\.\w+)\.gpu", ptx)
    assert set(found) <= {"atom.relaxed", "fence.acq_rel"}
    assert "".join(name[0] for name in found) == (fences or "aaaa")


def test_a_thread_with_one_atomic_needs_no_fence() -> None:
    p = Pointer(ir.i32)
    ptx = ptx_of(many_atomics, {"SEM": "acq_rel", "N": 128}, x=p, o=p)
    assert "fence" not in ptx and "atom.acq_rel" in ptx


@tegula.jit
def handed_over(x, flag, o, SEM: tl.constexpr, FLAGS: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(x + i, i)
    tl.atomic_xchg(flag + tl.arange(0, FLAGS), 1, sem=SEM)
    tl.store(o + i, tl.load(x + N + i))


@pytest.mark.parametrize("flags", [1, 512])
@pytest.mark.parametrize(
    ("sem", "order"), [("acq_rel", "sbabl"), ("release", "sba"), ("acquire", "abl")]
)
def test_an_order_is_the_whole_programs(sem: str, order: str, flags: int) -> None:
    """All threads have stored before one releases, and none loads before another acquires."""
    p = Pointer(ir.i32)
    ptx = ptx_of(handed_over, {"SEM": sem, "FLAGS": flags, "N": 512}, x=p, flag=p, o=p)
    found = re.findall(r"st\.global|bar\.sync|atom\.\w+|ld\.global", ptx)
    letters = re.sub(r"(.)\1+", r"\1", "".join(name[0] for name in found))
    assert order in letters


def test_who_polls_loads_only_afterwards() -> None:
    @tegula.jit
    def kernel(x, flag, o, N: tl.constexpr):
        i = tl.arange(0, N)
        tl.atomic_poll(flag, 1)
        tl.store(o + i, tl.load(x + i))

    p = Pointer(ir.i32)
    ptx = ptx_of(kernel, {"N": 512}, x=p, flag=p, o=p)
    found = re.findall(r"st\.global|bar\.sync|ld\.acquire|ld\.global", ptx)
    assert found == ["ld.acquire", "bar.sync", "ld.global", "st.global"]


def test_atomics_without_an_instruction_keep_their_order() -> None:
    ptx = ptx_of(atomics, {"KIND": "max", "SEM": "acq_rel", "SCOPE": "cta"}, x=F32, v=F32, o=F32)
    assert re.findall(r"atom\.\S+", ptx) == ["atom.acq_rel.cta.global.cas.b32"]


@needs_ptxas
@pytest.mark.parametrize("arch", OLD_AND_NEW)
def test_kernels_assemble(arch: str) -> None:
    for made in (
        compiled(total, {"BLOCK": 2048}, arch, x=F32, y=F32),
        compiled(product, {"N": 32}, arch, x=F16, y=F16, z=F32),
        compiled(speaking, {}, arch, x=Pointer(ir.i32), debug=True),
    ):
        assert made.kind == "cubin" and made.metadata["registers"] > 0


@tegula.jit
def with_assembly(x, y, z, ASM: tl.constexpr, CONSTRAINTS: tl.constexpr, PACK: tl.constexpr):
    i = tl.arange(0, 512)
    a, b = tl.load(x + i), tl.load(y + i)
    r = tl.inline_asm_elementwise(ASM, CONSTRAINTS, [a, b], dtype=a.dtype, is_pure=True, pack=PACK)
    tl.store(z + i, r)


@needs_ptxas
@pytest.mark.parametrize(
    ("elem", "asm", "constraints", "pack"),
    [
        (ir.i32, "shf.l.wrap.b32 $0, $1, $2, 3;", "=r, r, r", 1),
        (ir.f32, "{ .reg .f32 t; add.f32 t, $1, $2;\n neg.f32 $0, t; }", "=f,f,f", 1),
        (ir.i8, "vabsdiff4.u32.u32.u32 $0, $1, $2, $1;", "=r,r,r", 4),
        (ir.f16, "add.f16x2 $0, $1, $2;", "=r,r,r", 2),
        (ir.i64, "mul.hi.s64 $0, $1, $2;", "=l,l,l", 1),
    ],
    ids=["i32", "f32", "i8x4", "f16x2", "i64"],
)
def test_kernels_bring_assembly_along(elem: Any, asm: str, constraints: str, pack: int) -> None:
    p, constants = Pointer(elem), {"ASM": asm, "CONSTRAINTS": constraints, "PACK": pack}
    word = re.search(r"[a-z0-9.]+(?= \$0)", asm)
    assert word is not None
    ptx = ptx_of(with_assembly, constants, x=p, y=p, z=p)
    assert ptx.count(word[0]) == 4 // pack
    assert compiled(with_assembly, constants, x=p, y=p, z=p).kind == "cubin"


def test_constraints_that_do_not_fit_are_refused() -> None:
    constants = {"ASM": "mov.b32 $0, $1;", "CONSTRAINTS": "=r,r", "PACK": 1}
    p = Pointer(ir.i32)
    with pytest.raises(UnsupportedError, match="1 results and 1 arguments.*takes 1 and 2"):
        ptx_of(with_assembly, constants, x=p, y=p, z=p)
