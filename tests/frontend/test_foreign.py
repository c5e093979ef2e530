"""What only some targets can do is refused by name, with a remedy."""

from __future__ import annotations

import kernel_runner
import numpy as np
import pytest
from kernel_runner import build, jit, run

import tegula.language as tl
from tegula import ir
from tegula.errors import CompilationError, TegulaError

pytestmark = pytest.mark.usefixtures("on_each_backend")


@jit
def assembly(out, x, N: tl.constexpr):
    at = tl.arange(0, N)
    y = tl.inline_asm_elementwise(
        "shf.l.wrap.b32 $0, $1, $2, 4;",
        "=r,r,r",
        [tl.load(x + at), 3],
        dtype=tl.int32,
        is_pure=True,
        pack=1,
    )
    tl.store(out + at, y)


def test_inline_assembly_is_a_capability():
    x = np.arange(4, dtype=np.int32)
    with pytest.raises(TegulaError, match="no inline assembly; write the operation") as error:
        run(assembly, np.zeros_like(x), x, 4)
    assert kernel_runner.BACKEND in str(error.value)
    assert "inline_asm" in str(error.value)


@jit
def two_results(out, x, N: tl.constexpr):
    at = tl.arange(0, N)
    a, b = tl.inline_asm_elementwise(
        "...", "=r,=r,r", [tl.load(x + at)], dtype=(tl.int32, tl.float32), is_pure=False, pack=2
    )
    tl.store(out + at, a + b.to(tl.int32))


def test_types_of_results():
    module = build(two_results, (np.zeros(4, np.int32), np.zeros(4, np.int32), 4))
    (op,) = [op for op in module.kernels[0].body.walk() if op.name == "inline_asm"]
    assert [str(r.type) for r in op.results] == ["i32[4]", "f32[4]"]
    assert op.attrs["pack"] == 2
    text = ir.print_module(module)
    assert ir.print_module(ir.parse_module(text)) == text


@jit
def unknown_text(x):
    tl.inline_asm_elementwise(5, "=r", [], dtype=tl.int32, is_pure=True, pack=1)


@jit
def bad_pack(x):
    tl.inline_asm_elementwise("", "=r", [], dtype=tl.int32, is_pure=True, pack=0)


@pytest.mark.parametrize(
    "fn, message", [(unknown_text, "asm must be a compile-time text"), (bad_pack, "pack is a")]
)
def test_mistakes(fn, message):
    with pytest.raises(CompilationError, match=message):
        build(fn, (np.zeros(4, np.int32),))


@jit
def expected_zeros(out, x, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out + at, tl.expect_zero(tl.load(x + at), at >= 2))


def test_expected_zeros():
    x, out = np.array([1, 2, 0, 0], np.float32), np.ones(4, np.float32)
    run(expected_zeros, out, x, 4, options={"debug": True})
    np.testing.assert_array_equal(out, x)
    x[3] = 5
    with pytest.raises(RuntimeError, match="expected zero"):
        run(expected_zeros, out, x, 4, options={"debug": True})
    run(expected_zeros, out, x, 4)
    np.testing.assert_array_equal(out, [1, 2, 0, 0])
