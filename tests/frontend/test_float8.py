"""Conversions of 8-bit floats, bit for bit, and arithmetic on them, on every backend."""

from __future__ import annotations

import kernel_runner
import ml_dtypes
import numpy as np
import pytest
from kernel_runner import BACKEND, build, jit

import tegula.language as tl
from tegula import ir
from tegula.codegen.float8 import ExpandFloat8
from tegula.frontend import compile_function
from tegula.interp import run_kernel
from tegula.passes import PassContext
from tegula.tools.execute import run_on

pytestmark = pytest.mark.usefixtures("on_each_backend")
assert BACKEND

# kind: exponent bias, mantissa bits, bits of the largest finite number, bits that are NaN, infinity
KINDS = {
    "f8e5": (15, 2, 0x7B, (0x7D, 0x7E, 0x7F), 0x7C),
    "f8e5b16": (16, 2, 0x7F, (0x80,), None),
    "f8e4nv": (7, 3, 0x7E, (0x7F,), None),
    "f8e4b8": (8, 3, 0x7F, (0x80,), None),
    "f8e4b15": (15, 3, 0x7F, (), None),
}


def magnitudes(kind):
    """The finite numbers without their sign, by their bits."""
    bias, mantissa, top, _, _ = KINDS[kind]
    bits = np.arange(top + 1)
    exponent, fraction = bits >> mantissa, (bits & ((1 << mantissa) - 1)) / 2.0**mantissa
    normal = (1 + fraction) * 2.0 ** (exponent - bias)
    return np.where(exponent == 0, fraction * 2.0 ** (1 - bias), normal)


def decoded(bits, kind):
    """f64 values of bytes."""
    _, _, top, nan, infinity = KINDS[kind]
    size = np.minimum(bits & 0x7F, top)
    value = np.where(bits & 0x80, -1.0, 1.0) * magnitudes(kind)[size]
    if infinity is not None:
        value = np.where(bits & 0x7F == infinity, np.where(bits & 0x80, -np.inf, np.inf), value)
    test = bits if nan == (0x80,) else bits & 0x7F
    return np.where(np.isin(test, nan), np.nan, value)


def encoded(x, kind, rounding):
    """Bytes of f64 values: rounded once, limited to the finite range; NaN as -1."""
    known, x = magnitudes(kind), np.asarray(x, np.float64)
    top = known.size - 1
    size = np.minimum(np.abs(x), known[-1])
    size = np.where(np.isnan(size), 0, size)
    low = np.clip(np.searchsorted(known, size, side="right") - 1, 0, top)
    high = np.minimum(low + 1, top)
    if rounding == "rtne":
        below, above = size - known[low], known[high] - size
        up = (above < below) | ((above == below) & (low % 2 == 1))
        low = np.where(up & (size != known[low]), high, low)
    sign = np.where(np.signbit(x), 0x80, 0)
    if KINDS[kind][3] == (0x80,):
        sign = np.where(low == 0, 0, sign)
    bits = low | sign
    nan = KINDS[kind][3]
    return np.where(np.isnan(x), -1 if nan else 0x7F | sign, bits)


def launch(fn, types, arrays, expand=False):
    """Run a kernel on bytes and floats with the given IR types of the pointers."""
    names = [p.name for p in fn.params][: len(arrays)]
    pointers = {n: ir.Pointer(ir.DTYPES[t]) for n, t in zip(names, types, strict=True)}
    constants = {p.name: arrays[-1].size for p in fn.params if p.name == "N"}
    module = compile_function(fn, pointers, constants)
    ir.verify(module)
    if expand:
        module = ExpandFloat8().run(module, PassContext())
        ir.verify(module)
        assert "f8" not in str(module)
    if kernel_runner.BACKEND == "interpreter":
        run_kernel(module, 1, arrays)
    else:
        run_on(module, 1, dict(zip(names, arrays, strict=True)), kernel_runner.BACKEND)


@jit
def convert(out, x, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out + at, tl.load(x + at).to(out.dtype.element_ty))


@jit
def convert_to_zero(out, x, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out + at, tl.load(x + at).to(out.dtype.element_ty, fp_downcast_rounding="rtz"))


WIDE = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64}


@pytest.mark.parametrize("expand", [False, True])
@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize("to", list(WIDE))
def test_every_byte_widened(kind, to, expand):
    x = np.arange(256).astype(np.uint8)
    out = np.zeros(256, WIDE[to])
    launch(convert, (to, kind), (out, x), expand)
    np.testing.assert_array_equal(out.astype(np.float64), decoded(x, kind))
    np.testing.assert_array_equal(np.signbit(out)[out == 0], (x >= 0x80)[out == 0])


def inputs(kind, source):
    """Every number of 16 bits; of more bits what lies around the numbers of the kind, the middles
    between them, and the ends of the range.
    """
    if source in ("f16", "bf16"):
        return np.arange(65536).astype(np.uint16).view(WIDE[source])
    known = magnitudes(kind)
    middle = (known[:-1] + known[1:]) / 2
    around = np.concatenate([known, middle, [known[-1] * 1.0625, 1e30, np.inf, np.nan]])
    near = [around, np.nextafter(around, np.inf), np.nextafter(around, 0)]
    near = [v.astype(WIDE[source]) for v in near]
    x = np.concatenate([*near, np.nextafter(near[0], WIDE[source](0))])
    return np.concatenate([x, -x])


@pytest.mark.parametrize("expand", [False, True])
@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize("source", list(WIDE))
@pytest.mark.parametrize("rounding", ["rtne", "rtz"])
def test_narrowing(kind, source, rounding, expand):
    with np.errstate(all="ignore"):
        x = inputs(kind, source)
    out = np.zeros(x.size, np.uint8)
    launch(convert if rounding == "rtne" else convert_to_zero, (kind, source), (out, x), expand)
    expected = encoded(x.astype(np.float64), kind, rounding)
    made = np.where(np.isnan(decoded(out, kind)), -1, out.astype(np.int64))
    np.testing.assert_array_equal(made, expected)


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize("source", ["i8", "u8", "i32", "u32", "i64", "u64"])
def test_integers(kind, source):
    dtype = np.dtype(f"{source[0]}{int(source[1:]) // 8}")
    info = np.iinfo(dtype)
    x = np.concatenate([np.arange(-100, 127), [info.min, info.max, 57344, 61439, 61440, 449]])
    x = np.array([int(v) for v in x if info.min <= int(v) <= info.max], dtype)
    out = np.zeros(x.size, np.uint8)
    launch(convert, (kind, source), (out, x))
    np.testing.assert_array_equal(out, encoded(x.astype(np.float64), kind, "rtne"))


@jit
def arithmetic(out, x, y, N: tl.constexpr):
    at = tl.arange(0, N)
    a, b = tl.load(x + at), tl.load(y + at)
    tl.static_assert((a + b).dtype == x.dtype.element_ty)
    tl.static_assert((a / b).dtype == tl.float32)
    tl.store(out + at, tl.where(a < b, a + b, tl.maximum(a * b, 1.0)))


@pytest.mark.parametrize("expand", [False, True])
@pytest.mark.parametrize("kind", list(KINDS))
def test_arithmetic(kind, expand):
    rng = np.random.default_rng(3)
    x, y = (rng.integers(0, 0x60, 500).astype(np.uint8) | rng.choice([0, 0x80], 500).astype(
        np.uint8) for _ in range(2))  # fmt: skip
    if KINDS[kind][3] == (0x80,):
        x, y = np.where(x == 0x80, 0, x), np.where(y == 0x80, 0, y)
    out = np.zeros(500, np.uint8)
    launch(arithmetic, (kind, kind, kind), (out, x, y), expand)
    a, b = decoded(x, kind), decoded(y, kind)
    product = decoded(encoded(a * b, kind, "rtne"), kind)
    expected = np.where(a < b, a + b, np.maximum(product, 1.0))
    np.testing.assert_array_equal(out, encoded(expected, kind, "rtne"))


@jit
def products(out, a, b, N: tl.constexpr):
    rows = tl.arange(0, 16)
    x = tl.load(a + rows[:, None] * 16 + rows)
    y = tl.load(b + rows[:, None] * 16 + rows)
    tl.store(out + rows[:, None] * 16 + rows, tl.dot(x, y))


@pytest.mark.parametrize("expand", [False, True])
@pytest.mark.parametrize("kinds", [(k, k) for k in KINDS] + [("f8e5", "f8e4nv")])
def test_products(kinds, expand):
    rng = np.random.default_rng(4)
    a, b = (rng.integers(0x30, 0x40, 256).astype(np.uint8) for _ in range(2))
    out = np.zeros(256, np.float32)
    launch(products, ("f32", *kinds), (out, a, b), expand)
    x, y = (decoded(v, k).reshape(16, 16) for v, k in zip((a, b), kinds, strict=True))
    np.testing.assert_allclose(out.reshape(16, 16), x @ y, rtol=1e-5)


@jit
def constants(out, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out + at, tl.full((N,), 0.3, tl.float32).to(out.dtype.element_ty))


@pytest.mark.parametrize("kind", list(KINDS))
def test_constants(kind):
    out = np.zeros(3, np.uint8)
    launch(constants, (kind,), (out,))
    np.testing.assert_array_equal(out, encoded(np.full(3, np.float32(0.3)), kind, "rtne"))


@jit
def mixed(x, y):
    tl.load(x) + tl.load(y)


def test_promotions():
    assert build
    for a, b, expected in (
        ("f8e5", "f8e4nv", "f16"), ("f8e5", "f16", "f16"), ("f8e5", "bf16", "f32"),
        ("f8e5", "f32", "f32"),
    ):  # fmt: skip
        types = {"x": ir.Pointer(ir.DTYPES[a]), "y": ir.Pointer(ir.DTYPES[b])}
        module = compile_function(mixed, types, {})
        sums = [op for op in module.kernels[0].body.walk() if op.name == "add"]
        assert str(sums[0].results[0].type) == expected
