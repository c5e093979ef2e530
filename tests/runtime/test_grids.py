"""Grids: what is one, what is not, and functions that compute one."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import tegula
import tegula.language as tl
from tegula.errors import ArgumentError, GridError, GridTypeError
from tegula.runtime import dispatch

pytestmark = pytest.mark.usefixtures("recording")


@tegula.jit
def kernel(x, n, BLOCK: tl.constexpr = 16, eps=0.5):
    pass


X = np.zeros(64, np.float32)


@pytest.mark.parametrize(
    ("grid", "seen"),
    [
        (3, [3, 1, 1]),
        ((3,), [3, 1, 1]),
        ([3, 2], [3, 2, 1]),
        ((4, 3, 2), [4, 3, 2]),
        ((np.int64(5), np.int32(2)), [5, 2, 1]),
        (np.int64(6), [6, 1, 1]),
        ((True,), [1, 1, 1]),
        ((2**31 - 1, 65535, 1), [2**31 - 1, 65535, 1]),
    ],
)
def test_grids(grid: Any, seen: list[int]) -> None:
    for _ in range(2):
        assert list(kernel[grid](X, 3).kernel.record.grid) == seen


@pytest.mark.parametrize(
    ("grid", "error", "message"),
    [
        ((7.0,), GridTypeError, r"dimension 0 of the grid .* is of type float.*cdiv"),
        (7.5, GridTypeError, r"is 7.5; it has to be an int, a tuple"),
        ("3", GridTypeError, r"is '3'; it has to be an int"),
        (None, GridTypeError, r"is None; it has to be"),
        ((1, None), GridTypeError, r"dimension 1 .* is of type NoneType"),
        ((-7,), GridError, r"dimension 0 of the grid \(-7,\) .* is negative"),
        ((), GridError, r"0 dimensions"),
        ((1, 1, 1, 1), GridError, r"4 dimensions, and one to three"),
        ((2**31,), GridError, r"above 2147483647"),
    ],
)
def test_wrong_grids(grid: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        kernel[grid](X, 3)
    with pytest.raises(error, match=message):
        kernel[lambda meta: grid](X, 3)


def test_a_float_is_no_grid_even_after_its_equal_was_used() -> None:
    kernel[(8,)](X, 3)
    for grid in ((8.0,), (np.float64(8),)):
        with pytest.raises(GridTypeError, match="type float"):
            kernel[grid](X, 3)
    assert kernel[(np.int64(8),)] is kernel[(8,)] is kernel[8] is kernel[(8, 1, 1)]


@pytest.mark.parametrize("grid", [(0,), (3, 0), (0, 0, 0), 0])
def test_zero_launches_nothing(grid: Any) -> None:
    compiled = kernel[(1,)](X, 3)
    count = compiled.kernel.record.count
    for _ in range(3):
        assert kernel[grid](X, 3) is compiled
    assert compiled.kernel.record.count == count


def test_zero_still_checks_the_arguments() -> None:
    with pytest.raises(ArgumentError, match="lacks argument 'n'"):
        kernel[(0,)](X)


def test_callable_grid_sees_arguments_constants_and_defaults() -> None:
    seen: list[dict[str, Any]] = []

    def grid(meta: dict[str, Any]) -> tuple[int, ...]:
        seen.append(dict(meta))
        return (tegula.cdiv(meta["n"], meta["BLOCK"]), 2)

    for _ in range(2):
        assert list(kernel[grid](X, n=33, BLOCK=8).kernel.record.grid) == [5, 2, 1]
    assert list(kernel[grid](X, 33).kernel.record.grid) == [3, 2, 1]
    assert seen[0] == {"x": seen[0]["x"], "n": 33, "BLOCK": 8, "eps": 0.5}
    assert seen[0]["x"] is X
    assert seen[2]["BLOCK"] == 16


def test_callable_grid_with_options(recording: ModuleType) -> None:
    compiled = kernel[lambda meta: (meta["num_warps"],)](X, 3, num_warps=2)
    assert list(compiled.kernel.record.grid) == [2, 1, 1]


def test_callable_grid_that_asks_for_something_unknown() -> None:
    with pytest.raises(ArgumentError, match=r"grid function of kernel `kernel` asks for 'M'"):
        kernel[lambda meta: (meta["M"],)](X, 3)
    with pytest.raises(ArgumentError, match=r"lacks argument 'n'"):
        kernel[lambda meta: (meta["n"],)](X)


def test_run_and_relaunch() -> None:
    compiled = kernel.run(X, 3, grid=(2,), BLOCK=4)
    assert list(compiled.kernel.record.grid) == [2, 1, 1]
    count = compiled.kernel.record.count
    compiled[(5,)](X, 9, 0.25)
    assert compiled.kernel.record.count == count + 1
    assert list(compiled.kernel.record.grid) == [5, 1, 1]
    assert compiled.kernel.slots[:2] == [X.ctypes.data, 9]
    compiled[(6,)](X, 11, 4, 0.25)  # with the constant, as all arguments
    assert compiled.kernel.slots[:2] == [X.ctypes.data, 11]
    with pytest.raises(ArgumentError, match="takes 3 runtime arguments, and 1 were given"):
        compiled[(1,)](X)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((X.astype("f8"), 3, 0.5), r"'x' .* has elements of type f64, and this variant takes f32"),
        ((X.astype("i4"), 3, 0.5), r"'x' .* has elements of type i32"),
        ((X[1:], 3, 0.5), r"'x' .* does not begin at a multiple of 16 bytes"),
        ((np.broadcast_to(X, (2, 64)), 3, 0.5), r"'x' .* is read-only"),
        ((X, X, 0.5), r"'n' .* is an array, and this variant takes i32"),
        ((X, 3.5, 0.5), r"'n' .* is 3.5, and this variant takes i32"),
        ((X, 1 << 40, 0.5), r"'n' .* is 1099511627776, and this variant takes i32"),
        ((X, "3", 0.5), r"'n' .* is of type str"),
        ((X, 3, X), r"'eps' .* is an array, and this variant takes f32"),
        ((None, 3, 0.5), r"'x' .* is of type NoneType"),
    ],
)
def test_a_relaunch_checks_its_arguments(args: tuple[Any, ...], message: str) -> None:
    compiled = kernel[(1,)](X, 3)
    with pytest.raises(ArgumentError, match=message + ".*launch the kernel itself"):
        compiled[(1,)](*args)
    compiled[(1,)](X, np.int64(3), 1)
    compiled[(1,)](X.ctypes.data, np.True_, np.float32(0.5))
    assert compiled.kernel.slots[1:] == [1, 0x3F000000]


def test_a_relaunch_keeps_to_multiples() -> None:
    compiled = kernel[(1,)](X, 32)
    compiled[(1,)](X, 48, 0.5)
    with pytest.raises(ArgumentError, match="'n' .* is 40, and this variant takes multiples of 16"):
        compiled[(1,)](X, 40, 0.5)


def test_warmup_compiles_and_launches_nothing(recording: ModuleType) -> None:
    torch = pytest.importorskip("torch")
    compiled = kernel.warmup(torch.float32, 3, BLOCK=32, grid=(1,))
    assert compiled._kernel is None
    assert [str(t) for t in compiled.request.types.values()] == ["ptr<f32>", "i32", "f32"]
    assert kernel[(1,)](X, 3, BLOCK=32) is compiled
    for stand_in in (np.float32, np.dtype("f4"), tl.float32, tegula.MockTensor("fp32"), "*fp32"):
        assert kernel.warmup(stand_in, 3, BLOCK=32, grid=(1,)) is compiled
    assert len(recording.compilations) == 1
    with pytest.raises(GridError):
        kernel.warmup(X, 3, grid=(-1,))


def test_pre_run_hooks_see_every_launch() -> None:
    @tegula.jit
    def hooked(x):
        pass

    calls: list[Any] = []
    hooked[(1,)](X)
    hooked.add_pre_run_hook(lambda *args, **kwargs: calls.append((args, kwargs)))
    for _ in range(3):
        hooked[(1,)](X)
    assert len(calls) == 3
    assert calls[0][0][0] is X
    with pytest.raises(TypeError, match="has to be callable"):
        hooked.add_pre_run_hook(3)  # type: ignore[arg-type]


def test_launchers_are_found_natively_as_in_python() -> None:
    kernel[(1,)](X, 3)
    if dispatch.native() is not None:
        assert type(tegula.JITFunction.__getitem__) is type(str.join)
    grids = [(3,), (3, 2), (1, 1, 1), 3, [3, 2], (True,), (np.int64(3),)]
    for grid in grids:
        assert kernel[grid] is kernel[grid] is kernel._launcher(grid)
    assert kernel[(3,)] is kernel[(3, 1, 1)]
    for wrong in ((3.0,), ([3],), ("3",), 3.0, {}, ()):
        with pytest.raises((GridError, GridTypeError)) as natively:
            kernel[wrong]
        with pytest.raises((GridError, GridTypeError)) as in_python:
            kernel._launcher(wrong)
        assert str(natively.value) == str(in_python.value)
    with pytest.raises(TypeError):
        tegula.JITFunction.__getitem__(object(), (1,))


def test_finding_a_launcher_keeps_nothing() -> None:
    launcher, grid = kernel[(3,)], (3,)
    for thing in (launcher, grid, kernel._bound):
        before = sys.getrefcount(thing)
        for _ in range(1000):
            kernel[grid]
        assert sys.getrefcount(thing) == before
