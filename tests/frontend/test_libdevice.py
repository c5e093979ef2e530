"""The device library in kernels: `tegula.language.extra.libdevice`."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_runner import build, jit, run

import tegula.language as tl
from tegula.codegen.math.library import library
from tegula.errors import CompilationError
from tegula.interp import run_kernel
from tegula.language.extra import libdevice
from tegula.language.extra.libdevice import fast_dividef as quotient
from tegula.passes import PassContext
from tegula.passes.contract import Contract

pytestmark = pytest.mark.usefixtures("on_each_backend")


def test_functions_are_builtins_with_their_declared_documentation() -> None:
    assert set(libdevice.__all__) == set(library()) and len(library()) == 198
    for name, function in library().items():
        assert getattr(libdevice, name).__doc__ == function.doc
    with pytest.raises(AttributeError, match="has no 'atan3'; did you mean 'atan'"):
        libdevice.atan3  # noqa: B018


def test_tiles_scalars_numbers_and_other_names() -> None:
    @jit
    def kernel(x, out, n: tl.constexpr):
        i = tl.arange(0, n)
        v = tl.load(x + i)
        tl.store(out + i, libdevice.hypot(v, 4.0) + tl.extra.libdevice.ldexp(v, 2))
        tl.store(out + n + i, quotient(v, libdevice.cbrt(tl.load(x + 5))))
        tl.store(out + 2 * n + i, libdevice.pow(v, 2) + tl.tanh(v) - tl.math.tanh(v))

    x = np.array([0, 3, -3, 7.5, 1, 27, 8, 2], np.float32)
    out = np.zeros(24, np.float32)
    run(kernel, x, out, 8)

    np.testing.assert_allclose(out[:8], np.hypot(x, 4) + 4 * x, rtol=1e-6)
    np.testing.assert_allclose(out[8:16], x / 3, rtol=1e-6)
    np.testing.assert_allclose(out[16:], x * x, rtol=1e-6)


def test_types_of_results() -> None:
    @jit
    def kernel(out):
        wide = tl.full((2, 1), 1.0, tl.float64)
        tl.static_assert(libdevice.clz(tl.full((4,), 1, tl.int64)).dtype == tl.int32)
        tl.static_assert(libdevice.isnan(tl.full((4,), 1.0, tl.float64)).dtype == tl.int1)
        tl.static_assert(libdevice.float2ull_rn(1.0).dtype == tl.int64)
        tl.static_assert(
            libdevice.double2float_rz(tl.full((), 1.0, tl.float64)).dtype == tl.float32
        )
        tl.static_assert(libdevice.ilogb(tl.full((2, 3), 1.0, tl.float64)).dtype == tl.int32)
        tl.static_assert(libdevice.popc(tl.full((4,), 1, tl.uint32)).dtype == tl.int32)
        tl.static_assert(libdevice.atan2(wide, 2.0).dtype == tl.float64)
        tl.static_assert(libdevice.fma(wide, tl.full((1, 4), 1.0, tl.float32), 2).shape[1] == 4)

    build(kernel, [np.zeros(1, np.float32)])


def test_types_that_no_signature_takes_name_those_that_do() -> None:
    @jit
    def kernel(x):
        v = tl.load(x).to(tl.float16)
        tl.store(x, libdevice.erfc(v))

    with pytest.raises(CompilationError, match=r"erfc does not take .*fp16") as caught:
        build(kernel, [np.zeros(1, np.float32)])
    assert "f32 -> f32; f64 -> f64" in str(caught.value)


def test_a_tile_of_several_dimensions_has_its_orders_counted() -> None:
    """Bessel functions of order n loop as often as the largest order wants."""
    scipy_special = pytest.importorskip("scipy.special")

    @jit
    def kernel(n, x, out):
        i = tl.arange(0, 2)[:, None] * 4 + tl.arange(0, 4)[None, :]
        tl.store(out + i, libdevice.jn(tl.load(n + i), tl.load(x + i)))
        tl.store(out + 8, libdevice.yn(3, tl.load(x)))

    n = np.arange(8, dtype=np.int32)
    x = np.linspace(0.5, 20, 8)
    out = np.zeros(9)
    run(kernel, n, x, out)

    np.testing.assert_allclose(out[:8], scipy_special.jn(n, x), rtol=1e-12)
    np.testing.assert_allclose(out[8], scipy_special.yn(3, 0.5), rtol=1e-12)


def test_rounded_products_and_sums_are_never_fused() -> None:
    @jit
    def kernel(x, out):
        a, b, c = tl.load(x), tl.load(x + 1), tl.load(x + 2)
        tl.store(out, libdevice.add_rn(a * b, c))
        tl.store(out + 1, libdevice.mul_rn(a, b) + c)
        tl.store(out + 2, libdevice.sub_rn(a * b, -c))
        tl.store(out + 3, a * b + c)

    x = np.array([1 + 2.0**-12, 1 + 2.0**-12, -1], np.float32)
    out = np.zeros(4, np.float32)
    module = Contract().run(build(kernel, [x, out]), PassContext())
    run_kernel(module, 1, [x, out])
    rounded = x[0] * x[1] + x[2]

    assert out.tolist() == [rounded, rounded, rounded, rounded + np.float32(2.0**-24)]
