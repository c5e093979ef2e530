"""Builds small kernels, runs them on the interpreter and on `cpu`, and compares the memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from tegula import ir
from tegula.interp import run_kernel
from tegula.ir import Block, Builder, DType, Function, Module, Pointer, Tile, Value
from tegula.ir.types import numpy_dtype, with_shape
from tegula.tools.execute import run_on

OF_NUMPY = {numpy_dtype(t): t for t in ir.DTYPES.values() if t is not ir.f8e4b15}


class Maker(Builder):
    """A builder with shorthands for tiles in memory."""

    at_block = Builder.at

    def index(self, shape: tuple[int, ...], start: int = 0) -> Value:
        """Row-major positions as i32[shape]."""
        n = prod(shape)
        i = self.arange(start=start, end=start + n)
        return i if shape == (n,) else self.reshape(i, shape=shape)

    def at(self, p: Value, offsets: Value) -> Value:  # type: ignore[override]
        """Pointers at offsets from one pointer."""
        return self.addptr(self.splat(p, shape=offsets.type.shape), offsets)

    def get(self, p: Value, shape: tuple[int, ...], **named: Any) -> Value:
        """A contiguous tile."""
        return self.load(self.at(p, self.index(shape)), **named)

    def put(self, p: Value, value: Value, **named: Any) -> None:
        """Store a tile contiguously, or a scalar."""
        if isinstance(value.type, Tile):
            self.store(self.at(p, self.index(value.type.shape)), value, **named)
        else:
            self.store(p, value)

    def full(self, x: Any, shape: tuple[int, ...], t: DType) -> Value:
        return self.constant(x, with_shape(t, shape))

    def region(self, types: Sequence[Any], f: Callable[..., Any]) -> Block:
        """A block with arguments of these types that yields what `f(*args)` gives."""
        block = Block(types)
        saved, self.block = self.block, block
        out = f(*block.args)
        self.create("yield", list(out) if isinstance(out, tuple | list) else [out])
        self.block = saved
        return block


def kernel(args: Mapping[str, Any], f: Callable[..., None]) -> Module:
    """A module with one kernel `k` whose body is `f(maker, *params)`."""
    params = [Value(_type(a), name) for name, a in args.items()]
    body = Block(params)
    b = Maker(body)
    f(b, *params)
    b.create("return", [])
    module = Module([Function("k", body)])
    ir.verify(module)
    return module


def _type(a: Any) -> Any:
    if isinstance(a, np.ndarray):
        return Pointer(OF_NUMPY[a.dtype])
    if isinstance(a, np.generic):
        return OF_NUMPY[a.dtype]
    return ir.i32 if isinstance(a, int) else ir.f32


def check(args: Mapping[str, Any], f: Callable[..., None], grid: int | tuple[int, ...] = 1,
          tolerance: float = 0.0, **options: Any) -> dict[str, np.ndarray]:
    """Run on both and compare every array; gives what the interpreter left in memory."""
    return check_module(kernel(args, f), args, grid, tolerance, **options)


def check_module(module: Module, args: Mapping[str, Any], grid: int | tuple[int, ...] = 1,
                 tolerance: float = 0.0, **options: Any) -> dict[str, np.ndarray]:
    """`check` for a module that is there."""
    want, got = (
        {k: a.copy() if isinstance(a, np.ndarray) else a for k, a in args.items()}
        for _ in range(2)
    )
    run_kernel(module, grid, want)
    run_on(module, grid, got, "cpu", options)
    for name, expected in want.items():
        if isinstance(expected, np.ndarray):
            same(expected, got[name], tolerance, name)
    return {k: a for k, a in want.items() if isinstance(a, np.ndarray)}


def same(want: np.ndarray, got: np.ndarray, tolerance: float, name: str = "") -> None:
    """Equal arrays, NaN being equal to NaN; floats up to a relative error."""
    if want.dtype.kind in "iub":
        np.testing.assert_array_equal(got, want, name)
        return
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(got.astype(np.float64), want.astype(np.float64),
                                   rtol=tolerance, atol=tolerance, err_msg=name)


def zeros(n: int | tuple[int, ...], dtype: Any = np.float32) -> np.ndarray:
    return np.zeros(n, dtype)


def normal(n: int | tuple[int, ...], seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(n).astype(np.float32)
