"""Functions of the device library applied to whole arrays, on the interpreter or a backend."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tegula.ir.builder import Builder
from tegula.ir.core import Block, Function, Module, Value
from tegula.ir.types import DType, Pointer, f64, i32, numpy_dtype

from .library import LibraryFunction, Signature
from .measure import BLOCK, Array, ulp_errors


def library_kernel(
    function: LibraryFunction, signature: Signature, block: int = BLOCK, widest: DType = f64
) -> Module:
    """y[i] = f(a[i], b[i], ...) for i < n, a block of elements to a program."""
    types = [*signature.arguments, signature.result]
    params = [Value(Pointer(t), f"p{i}") for i, t in enumerate(types)]
    body = Block([*params, Value(i32, "n")])
    *arguments, y, n = body.args
    b = Builder(body)
    start = b.mul(b.program_id(axis=0), b.constant(block, i32))
    index = b.add(b.splat(start, shape=(block,)), b.arange(start=0, end=block))
    mask = b.cmp(index, b.splat(n, shape=(block,)), pred="lt")
    tiles = [b.load(b.addptr(b.splat(p, shape=(block,)), index), mask=mask) for p in arguments]
    value = function.expand(signature, tiles, body, None, widest)
    b.store(b.addptr(b.splat(y, shape=(block,)), index), value, mask=mask)
    b.return_([])
    return Module([Function(f"apply_{function.name}", body)])


def runner(
    function: LibraryFunction,
    signature: Signature,
    backend: str = "interpreter",
    options: dict[str, Any] | None = None,
    widest: DType = f64,
) -> Callable[..., Array]:
    """The function for arrays of any size; `options` are those of compiled backends. `widest` is
    the widest float that it may compute in."""
    module = library_kernel(function, signature, widest=widest)
    types = [numpy_dtype(t) for t in signature.arguments]
    result = numpy_dtype(signature.result)
    if backend == "interpreter":
        launch = _on_interpreter(module)
    else:
        launch = _on_backend(module, backend, options or {})

    def run(*arguments: Array) -> Array:
        arrays = [np.ascontiguousarray(a, t) for a, t in zip(arguments, types, strict=True)]
        y = np.empty(arrays[0].shape, result)
        launch([*arrays, y], y.size, -(-y.size // BLOCK))
        return y

    return run


def library_errors(
    function: LibraryFunction, signature: Signature, actual: Array, expected: Array
) -> tuple[float, int]:
    """The largest error in units in the last place, and where it is."""
    bound = function.bound(signature.float_type)
    errors = ulp_errors(actual, expected)
    if bound.unit_at:
        # The unit of small results is that of `unit_at`.
        unit = np.spacing(actual.dtype.type(bound.unit_at)).astype(expected.dtype)
        small = np.abs(expected) < bound.unit_at
        with np.errstate(all="ignore"):
            distance = np.abs(actual.astype(expected.dtype) - expected) / unit
        distance = np.where(small, distance, np.inf).astype(np.float64)
        errors = np.minimum(errors, distance)
    at = int(np.argmax(errors))
    return float(errors[at]), at


def _on_interpreter(module: Module) -> Callable[[list[Array], int, int], None]:
    from tegula.interp import run_kernel
    from tegula.passes import PassContext, default_pipeline

    from .expand import ExpandMath

    # Expanded, the ops are computed as on a backend.
    module = ExpandMath().run(default_pipeline().run(module), PassContext())

    def launch(arrays: list[Array], size: int, programs: int) -> None:
        with np.errstate(all="ignore"):
            run_kernel(module, programs, [*arrays, size])

    return launch


def _on_backend(
    module: Module, backend: str, options: dict[str, Any]
) -> Callable[[list[Array], int, int], None]:
    from tegula.conformance.case import Launch
    from tegula.conformance.session import Session, enter
    from tegula.plugin import MemoryRange

    session = Session(backend)
    kernel = session.device.load(session.compile(module, options))

    def launch(arrays: list[Array], size: int, programs: int) -> None:
        arguments: list[Any] = [*(a.ctypes.data for a in arrays), size]
        memory = [MemoryRange(a.ctypes.data, a.nbytes, "array", True) for a in arrays]
        enter(kernel, Launch(module, arguments, (programs, 1, 1)), arguments, memory)
        session.device.synchronize()

    return launch
