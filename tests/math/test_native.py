"""Formulas as machine code, for every vector unit that the host can run, against the interpreter.

Every operation in them is exactly rounded, so the results have to be the same to the last bit.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from cpu.native import compile_for, runnable_targets

from tegula import ir
from tegula.codegen.loops.kernel import symbol_of
from tegula.codegen.loops.lower import lower
from tegula.codegen.math import FUNCTIONS, ExpandMath
from tegula.codegen.math.measure import BLOCK, elementwise_kernel, samples
from tegula.interp import run_kernel
from tegula.passes import PassContext, default_pipeline
from tegula_cpu.target import vector_target

DTYPES = {"f32": ir.f32, "f64": ir.f64}


def kernel(name: str, dtype: ir.DType) -> ir.Module:
    """y[i] = f(x[i]), through all passes."""
    module = default_pipeline().run(elementwise_kernel(name, dtype))
    return ExpandMath().run(module, PassContext())


@cache
def expected(name: str, dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """Arguments and results on the interpreter."""
    x = samples(name, DTYPES[dtype], 4000 if dtype == "f32" else 1000)
    y = np.zeros_like(x)
    with np.errstate(all="ignore"):
        run_kernel(kernel(name, DTYPES[dtype]), -(-x.size // BLOCK), [x, y, x.size])
    return x, y


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_machine_code_agrees_with_the_interpreter(name: str, dtype: str) -> None:
    x, wanted = expected(name, dtype)
    module = kernel(name, DTYPES[dtype])
    for target in runnable_targets():
        code = lower(module, vector_target(target))
        call = compile_for(target, code.text, symbol_of(name), 8)
        y = np.zeros_like(x)
        slots = np.array([x.ctypes.data, y.ctypes.data, x.size], np.int64)
        for program in range(-(-x.size // BLOCK)):
            call(slots, 0, program, 0, 0, -(-x.size // BLOCK), 1, 1)

        np.testing.assert_array_equal(y, wanted, err_msg=str(target))
        zero = wanted == 0
        np.testing.assert_array_equal(np.signbit(y[zero]), np.signbit(wanted[zero]))
