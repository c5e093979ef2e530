"""Compiles kernels with the frontend alone and runs them on the numpy interpreter, without the
runtime.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tegula import ir
from tegula.frontend import DeviceFunction, compile_function
from tegula.interp import run_kernel
from tegula.tools.execute import run_on

jit = DeviceFunction
BACKEND = "interpreter"
"""Where `run` and `call` run kernels; the fixture `on_each_backend` changes it."""

_OF_NUMPY = {ir.numpy_dtype(t): t for t in ir.DTYPES.values() if t is not ir.f8e4b15}


def ir_type(value: Any) -> Any:
    """IR type of a runtime argument."""
    if isinstance(value, np.ndarray):
        return ir.Pointer(_OF_NUMPY[value.dtype])
    if isinstance(value, np.generic):
        return _OF_NUMPY[value.dtype]
    if isinstance(value, bool):
        return ir.i1
    if isinstance(value, int):
        return ir.i32 if -(2**31) <= value < 2**31 else ir.i64
    if isinstance(value, float):
        return ir.f32
    if isinstance(value, tuple):
        items = [ir_type(v) for v in value]
        return tuple(items) if type(value) is tuple else type(value)(*items)
    return None


def build(
    fn: DeviceFunction, args: Sequence[Any], options: dict[str, Any] | None = None
) -> ir.Module:
    """Verified IR of a kernel for these arguments; parameters annotated constexpr take theirs as
    constants.
    """
    types, constants = {}, {}
    for p, value in zip(fn.params, args, strict=False):
        t = None if p.is_constexpr else ir_type(value)
        if t is None:
            constants[p.name] = value
        else:
            types[p.name] = t
    module = compile_function(fn, types, constants, options=options)
    ir.verify(module)
    return module


def run(
    fn: DeviceFunction,
    *args: Any,
    grid: int | tuple[int, ...] = 1,
    options: dict[str, Any] | None = None,
) -> None:
    """Compile and run a kernel; arrays are changed in place."""
    module = build(fn, args, options)
    text = ir.print_module(module)
    assert ir.print_module(ir.parse_module(text)) == text
    values: list[Any] = []
    for p, value in zip(fn.params, args, strict=False):
        if not p.is_constexpr:
            values.extend(_flat(value))
    if BACKEND == "interpreter":
        run_kernel(module, grid, values)
    else:
        (kernel,) = module.kernels
        names = [p.name for p in kernel.body.args]
        run_on(module, grid, dict(zip(names, values, strict=True)), BACKEND)


def _flat(value: Any) -> list[Any]:
    if isinstance(value, tuple):
        return [v for item in value for v in _flat(item)]
    return [] if ir_type(value) is None else [value]


def call(fn: Callable[..., Any], *args: Any, shape: Any = 1, dtype: Any = np.float32) -> np.ndarray:
    """Run a kernel whose first argument is the output, and return that."""
    out = np.zeros(shape, dtype)
    run(fn, out, *args)  # type: ignore[arg-type]
    return out
