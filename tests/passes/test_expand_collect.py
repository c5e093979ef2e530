"""What `expand-collect` puts in place of an op computes the same, on every backend."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from kernel_runner import build as build_kernel
from kernel_runner import jit

import tegula.language as tl
from tegula import ir
from tegula.codegen.collecting import FORMULAS, ExpandCollect
from tegula.interp import run_kernel
from tegula.passes import PassContext, default_pipeline
from tegula.tools.execute import run_on

RNG = np.random.default_rng(8)


@jit
def sorting(
    out, place, x, M: tl.constexpr, N: tl.constexpr, AXIS: tl.constexpr, DOWN: tl.constexpr
):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)
    values, indices = tl.sort(tl.load(x + at), AXIS, DOWN, return_indices=True)
    tl.store(out + at, values)
    tl.store(place + at, indices)


@jit
def picking(out, x, index, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, AXIS: tl.constexpr):
    value = tl.load(x + tl.arange(0, M)[:, None] * N + tl.arange(0, N))
    if AXIS == 0:
        at = tl.arange(0, K)[:, None] * N + tl.arange(0, N)
    else:
        at = tl.arange(0, M)[:, None] * K + tl.arange(0, K)
    tl.store(out + at, tl.flip(tl.gather(value, tl.load(index + at), AXIS), AXIS))


@jit
def counting(out, x, n, N: tl.constexpr, BINS: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out + tl.arange(0, BINS), tl.histogram(tl.load(x + at), BINS, at < n))


def compare(fn, arrays, rest, backend):
    """The kernel expanded and as it is, on copies of the arrays."""
    module = default_pipeline().run(build_kernel(fn, (*arrays, *rest)))
    expanded = ExpandCollect().run(module, PassContext())
    ir.verify(expanded)
    assert not {op.name for op in expanded.kernels[0].body.walk()} & FORMULAS.keys()
    scalars = [v for p, v in zip(fn.params, (*arrays, *rest), strict=True)
               if not p.is_constexpr and not isinstance(v, np.ndarray)]  # fmt: skip
    plain, other = ([a.copy() for a in arrays] for _ in range(2))
    run_kernel(module, 1, [*plain, *scalars])
    values = [*other, *scalars]
    if backend == "interpreter":
        run_kernel(expanded, 1, values)
    else:
        names = [a.name for a in expanded.kernels[0].body.args]
        run_on(expanded, 1, dict(zip(names, values, strict=True)), backend)
    for a, b in zip(plain, other, strict=True):
        if a.dtype.kind not in "iub":  # numpy does not know all kinds of NaN
            a, b = a.astype(np.float64), b.astype(np.float64)
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("dtype", ["int8", "uint32", "float64", ml_dtypes.bfloat16])
@pytest.mark.parametrize("shape, axis", [((1, 1), 1), ((3, 7), 1), ((13, 2), 0)])
@pytest.mark.parametrize("down", [False, True])
def test_sorts(dtype, shape, axis, down, backend_name):
    x = RNG.integers(-4, 5, shape).astype(dtype)
    if x.dtype.kind not in "iu" and x.size > 4:
        x.reshape(-1)[:4] = [np.nan, -0.0, np.inf, -np.inf]
    compare(sorting, (np.zeros_like(x), np.zeros(shape, np.int32), x), (*shape, axis, down),
            backend_name)  # fmt: skip


@pytest.mark.parametrize("dtype", ["int8", "float16", "float64", "bool"])
@pytest.mark.parametrize("index_type", ["int32", "uint64"])
@pytest.mark.parametrize("axis", [0, 1])
def test_gathers(dtype, index_type, axis, backend_name):
    x = RNG.integers(-3, 3, (4, 6)).astype(dtype)
    if x.dtype.kind == "f":
        x[0, :3] = [-0.0, np.nan, np.inf]
    shape = (9, 6) if axis == 0 else (4, 9)
    index = RNG.integers(-2, 9, shape).astype(index_type)
    compare(picking, (np.zeros(shape, dtype), x, index), (4, 6, 9, axis), backend_name)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint64"])
def test_histograms(dtype, backend_name):
    x = RNG.integers(-5, 30, 77).astype(dtype)
    compare(counting, (np.zeros(20, np.int32), x), (50, 77, 20), backend_name)


def test_what_is_native_stays():
    module = build_kernel(counting, (np.zeros(4, np.int32), np.zeros(4, np.int32), 4, 4, 4))
    kept = ExpandCollect("histogram flip").run(module, PassContext())
    assert kept is module or str(kept) == str(module)
    with pytest.raises(ValueError, match="names 'dot'"):
        ExpandCollect("dot")
