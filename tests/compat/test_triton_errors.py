"""Errors of Triton programs: what they look for in messages, and in the causes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tegula.compat.triton import install, uninstall
from tegula.config import config

install()
import triton  # noqa: E402
import triton.language as tl  # noqa: E402

uninstall()

SOME_GLOBAL = 42


@pytest.fixture(autouse=True)
def alias() -> Iterator[None]:
    install()
    yield
    uninstall()


def error_of(kernel: Any, signature: dict[str, str] | None = None) -> triton.CompilationError:
    source = triton.compiler.ASTSource(fn=kernel, signature=signature or {}, constexprs={})
    with pytest.raises(triton.CompilationError) as caught:
        triton.compile(source)
    return caught.value


@triton.must_use_result("It has no effect.")
@triton.jit
def pure(x):
    return x * x


@triton.jit
def drops():
    pure(tl.zeros((4,), tl.float32))


@triton.aggregate
class Square:
    x: tl.tensor

    @triton.must_use_result
    @triton.constexpr_function
    def power(self):
        return 2


@triton.jit
def drops_of_method():
    a = Square(tl.zeros((4,), tl.float32))
    a.power()


@triton.jit
def reads_global():
    a = SOME_GLOBAL


@triton.jit
def unequal_groups():
    a = tl.full((32, 64), 0, tl.uint8)
    b = tl.full((64, 32), 0, tl.uint8)
    tl.dot_scaled(
        a, tl.full((32, 4), 0, tl.uint8), "e5m2", b, tl.full((32, 2), 0, tl.uint8), "e5m2"
    )


@triton.jit
def far_axis():
    tl.expand_dims(tl.zeros((4,), tl.float32), 5)


@triton.jit
def same_axis():
    tl.expand_dims(tl.zeros((4,), tl.float32), (0, -3))


@triton.jit
def fourth_axis():
    tl.program_id(3)


@triton.jit
def slice_of_scalar(n):
    n[1:]


@triton.jit
def half():
    tl.exp(tl.zeros((4,), tl.float16))


@pytest.mark.parametrize(
    "kernel, words",
    [
        (far_axis, "invalid axis 5"),
        (same_axis, "duplicate axes, normalized axes = [0, 0]"),
        (fourth_axis, "program_id axis must be 0, 1, or 2 but got 3"),
        (half, "Expected dtype fp32 or fp64 but got"),
        (drops, "The result of pure is not being used. It has no effect."),
        (drops_of_method, "The result of a.power is not being used."),
        (reads_global, "Cannot access global variable SOME_GLOBAL"),
        (unequal_groups, "Operands must have the same scale factor; (lhs: 16 vs rhs: 32)"),
    ],
    ids=lambda x: getattr(x, "__name__", None),
)
def test_the_last_line_and_the_cause_have_the_words(kernel: Any, words: str) -> None:
    error = error_of(kernel)
    assert str(error).split("\n")[-1].startswith(words)
    assert str(error.__cause__).startswith(words)
    uninstall()
    with pytest.raises(triton.CompilationError) as caught:
        kernel[(1,)]()
    assert words not in str(caught.value) and caught.value.__cause__ is None


@triton.jit
def two_shapes(n):
    if n == 0:
        return tl.arange(0, 4)
    else:
        return tl.arange(0, 8)


@triton.jit
def calls_two_shapes(n):
    two_shapes(n)


def test_results_that_differ_are_shown_at_the_call_and_at_the_def() -> None:
    error = error_of(calls_two_shapes, {"n": "i32"})
    assert "at 2:4:" in str(error)
    assert "at 1:0:" in str(error.__cause__)
    assert "at 2:4:" in str(error.__cause__.__cause__)


@triton.jit
def prints(n):
    tl.static_print(tl.arange(0, 8), n)


def test_static_print_shows_types_and_sizes(capsys: pytest.CaptureFixture[str]) -> None:
    with config.scope(cache=False):  # what is found in the cache prints nothing
        triton.compile(triton.compiler.ASTSource(fn=prints, signature={"n": "i64"}, constexprs={}))
    assert capsys.readouterr().out == "int32[constexpr[8]] int64[]\n"


def test_slices_of_scalars() -> None:
    error = error_of(slice_of_scalar, {"n": "i32"})
    assert "unsupported tensor index" in str(error)
