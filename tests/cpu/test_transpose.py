"""Transposes through registers, on every vector width that the host can run."""

from __future__ import annotations

import ctypes
import itertools
import mmap

import numpy as np
import pytest
from cpu.native import compile_for, runnable_targets

from tegula.codegen.loops.transpose import block_size, emit_transpose
from tegula.codegen.loops.vector import VectorTarget
from tegula.plugin import Target
from tegula_cpu import target as targets

SIZES = [(1, 1), (16, 16), (5, 3), (17, 33), (64, 40), (32, 9), (1, 50), (50, 1)]


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
@pytest.mark.parametrize("target", runnable_targets(), ids=str)
def test_transpose_moves_every_element_and_nothing_else(bits: int, target: Target) -> None:
    dtype = np.dtype(f"u{bits // 8}")
    rng = np.random.default_rng(bits)
    for rows, cols in SIZES:
        plan = emit_transpose(rows, cols, f"i{bits}", targets.vector_target(target))
        lds, ldd = cols + 3, rows + 5
        text = "\n".join(plan.declares) + "\n" + plan.text
        call = plan.call("%s", lds, "%d", ldd)
        text += f"define void @entry(ptr %s, ptr %d) {{\n{call}\nret void\n}}"
        function = compile_for(target, text, "entry", 2)
        source = rng.integers(0, 1 << bits, (rows, lds), dtype=np.uint64).astype(dtype)
        result = rng.integers(0, 1 << bits, (cols, ldd), dtype=np.uint64).astype(dtype)
        want = result.copy()
        want[:, :rows] = source[:, :cols].T
        function(source, result)
        np.testing.assert_array_equal(result, want)


def test_transpose_at_the_end_of_a_page_touches_nothing_behind_it() -> None:
    target = runnable_targets()[0]
    plan = emit_transpose(19, 21, "f32", targets.vector_target(target))
    text = "\n".join(plan.declares) + "\n" + plan.text
    text += f"define void @entry(ptr %s, ptr %d) {{\n{plan.call('%s', 21, '%d', 19)}\nret void\n}}"
    function = compile_for(target, text, "entry", 2)
    size = mmap.PAGESIZE
    memory = np.frombuffer(mmap.mmap(-1, 4 * size), np.uint8)
    protect = ctypes.CDLL(None).mprotect
    protect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    pages = [memory[i * size : (i + 1) * size] for i in range(4)]
    for i in (1, 3):
        assert protect(pages[i].ctypes.data, size, 0) == 0
    try:
        source, result = (pages[i][size - 4 * 19 * 21 :].view(np.uint32) for i in (0, 2))
        source[:] = np.arange(19 * 21)
        function(source, result)
        assert (result.reshape(21, 19) == np.arange(19 * 21).reshape(19, 21).T).all()
    finally:
        for i in (1, 3):
            protect(pages[i].ctypes.data, size, mmap.PROT_READ | mmap.PROT_WRITE)


def test_blocks_fit_the_registers() -> None:
    wide = VectorTarget("x86-64", 512, frozenset({"avx512f", "avx512vl"}))
    assert [block_size(bits, wide) for bits in (8, 16, 32, 64)] == [16, 16, 16, 8]
    narrow = VectorTarget("x86-64", 256, frozenset({"avx2"}))
    assert [block_size(bits, narrow) for bits in (8, 16, 32, 64)] == [8, 8, 8, 4]


def test_code_does_not_grow_with_the_tile() -> None:
    target = targets.vector_target(targets.resolve("x86-64-v4"))
    lengths = [
        len(emit_transpose(rows, cols, "bf16", target).text.splitlines())
        for rows, cols in itertools.product((64, 512), repeat=2)
    ]
    assert len(set(lengths)) == 1
