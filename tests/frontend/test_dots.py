"""Matrix products of every rank and format, on every backend."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from kernel_runner import build, jit, run

import tegula.language as tl
from tegula.errors import CompilationError

RNG = np.random.default_rng(7)
pytestmark = pytest.mark.usefixtures("on_each_backend")

STORED = {
    "e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2, "bf16": ml_dtypes.bfloat16,
    "fp16": np.float16,
}  # fmt: skip
E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], np.float32)


@jit
def scaled_product(
    out, a, b, sa, sb,
    M: tl.constexpr, N: tl.constexpr, KA: tl.constexpr, KB: tl.constexpr, S: tl.constexpr,
    FA: tl.constexpr, FB: tl.constexpr,
):  # fmt: skip
    x = tl.load(a + tl.arange(0, M)[:, None] * KA + tl.arange(0, KA))
    y = tl.load(b + tl.arange(0, KB)[:, None] * N + tl.arange(0, N))
    if sa is not None:
        sa = tl.load(sa + tl.arange(0, M)[:, None] * S + tl.arange(0, S))
    if sb is not None:
        sb = tl.load(sb + tl.arange(0, N)[:, None] * S + tl.arange(0, S))
    c = tl.dot_scaled(x, sa, FA, y, sb, FB)
    tl.store(out + tl.arange(0, M)[:, None] * N + tl.arange(0, N), c)


def operand(shape, form, axis):
    """Bits as stored, and the numbers: e2m1 packs two neighbours along `axis`."""
    if form == "e2m1":
        codes = RNG.integers(0, 16, shape).astype(np.uint8)
        low, high = np.take(codes, range(0, shape[axis], 2), axis), np.take(
            codes, range(1, shape[axis], 2), axis)  # fmt: skip
        return low | (high << 4), E2M1[codes]
    x = RNG.standard_normal(shape).astype(STORED[form])
    stored = x.view(np.uint8) if x.itemsize == 1 else x
    return stored, x.astype(np.float32)


def scales(rows, count):
    bits = RNG.integers(120, 132, (rows, count)).astype(np.uint8)
    return bits, np.exp2(bits.astype(np.float32) - 127)


@pytest.mark.parametrize("fa", ["e2m1", *STORED])
@pytest.mark.parametrize("fb", ["e2m1", *STORED])
@pytest.mark.parametrize("which", ["lhs", "rhs", "both", "none"])
def test_formats(fa, fb, which):
    m, n, k = 12, 9, 64
    a, x = operand((m, k), fa, 1)
    b, y = operand((k, n), fb, 0)
    sa = sb = None
    if which in ("lhs", "both"):
        sa, factor = scales(m, k // 32)
        x = x * np.repeat(factor, 32, 1)
    if which in ("rhs", "both"):
        sb, factor = scales(n, k // 32)
        y = y * np.repeat(factor, 32, 1).T
    out = np.zeros((m, n), np.float32)
    run(scaled_product, out, a, b, sa, sb, m, n, a.shape[1], b.shape[0], k // 32, fa, fb)
    np.testing.assert_allclose(out, x @ y, rtol=2e-2, atol=1e-2)


def test_extreme_scales():
    a = np.full((1, 32), 0x38, np.uint8)  # 1.0 in e4m3
    b = np.full((32, 1), 2.0**-8, np.float16)
    out = np.zeros((1, 1), np.float32)
    for bits, scale in ((0, 2.0**-127), (1, 2.0**-126), (254, 2.0**127), (255, np.nan)):
        sa = np.array([[bits]], np.uint8)
        run(scaled_product, out, a, b, sa, None, 1, 1, 32, 32, 1, "e4m3", "fp16")
        np.testing.assert_array_equal(out, np.float32([[scale * 32 * 2.0**-8]]))


@jit
def fine_scales(out, a, b, sa, sb, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    x = tl.load(a + tl.arange(0, M // 2)[:, None] * K + tl.arange(0, K))
    y = tl.load(b + tl.arange(0, K)[:, None] * (N // 2) + tl.arange(0, N // 2))
    groups = tl.arange(0, K // 16)
    sa = tl.load(sa + tl.arange(0, M)[:, None] * (K // 16) + groups)
    sb = tl.load(sb + tl.arange(0, N)[:, None] * (K // 16) + groups)
    c = tl.dot_scaled(
        x,
        sa,
        "e2m1",
        y,
        sb,
        "e2m1",
        tl.full((M, N), 2, tl.float32),
        lhs_k_pack=False,
        rhs_k_pack=False,
    )
    tl.store(out + tl.arange(0, M)[:, None] * N + tl.arange(0, N), c)


def test_packed_along_the_other_dimension():
    m, n, k = 6, 4, 32
    a, x = operand((m, k), "e2m1", 0)
    b, y = operand((k, n), "e2m1", 1)
    sa, sb = (
        np.exp2(RNG.integers(-2, 3, (r, k // 16))).astype(ml_dtypes.float8_e4m3fn) for r in (m, n)
    )
    out = np.zeros((m, n), np.float32)
    run(fine_scales, out, a, b, sa, sb, m, n, k)
    x = x * np.repeat(sa.astype(np.float32), 16, 1)
    y = y * np.repeat(sb.astype(np.float32), 16, 1).T
    np.testing.assert_allclose(out, x @ y + 2, rtol=1e-5)


@jit
def signed_scales(out, a, b, scales, M: tl.constexpr, K: tl.constexpr):
    x = tl.load(a + tl.arange(0, M)[:, None] * K + tl.arange(0, K))
    y = tl.load(b + tl.arange(0, K)[:, None] * M + tl.arange(0, M))
    places = scales + tl.arange(0, M)[:, None] * (K // 32) + tl.arange(0, K // 32)
    signed = tl.load(places).to(tl.int8, bitcast=True)
    c = tl.dot_scaled(x, signed, "e5m2", y, tl.load(places), "e5m2")
    tl.store(out + tl.arange(0, M)[:, None] * M + tl.arange(0, M), c)


def test_exponents_may_be_signed_bytes():
    m, k = 4, 64
    a, x = operand((m, k), "e5m2", 0)
    b, y = operand((k, m), "e5m2", 0)
    scales = RNG.integers(120, 136, (m, k // 32)).astype(np.uint8)
    factors = np.repeat(np.exp2(scales.astype(np.float32) - 127), 32, 1)
    out = np.zeros((m, m), np.float32)
    run(signed_scales, out, a, b, scales, m, k)
    np.testing.assert_allclose(out, (x * factors) @ (y * factors.T), rtol=1e-5)


@jit
def unequal_groups(p):
    a = tl.full((32, 64), 0, tl.uint8)
    b = tl.full((64, 32), 0, tl.uint8)
    tl.dot_scaled(
        a, tl.full((32, 4), 0, tl.uint8), "e5m2", b, tl.full((32, 2), 0, tl.uint8), "e5m2"
    )


@jit
def unknown_format(p):
    a = tl.full((32, 64), 0, tl.uint8)
    tl.dot_scaled(a, None, "e3m4", a, None, "e5m2")


@jit
def wrong_bits(p):
    a = tl.full((32, 64), 0, tl.float32)
    tl.dot_scaled(a, None, "e4m3", a, None, "e5m2")


@jit
def wrong_scale(p):
    a = tl.full((32, 64), 0, tl.uint8)
    b = tl.full((64, 32), 0, tl.uint8)
    tl.dot_scaled(a, tl.full((32, 3), 0, tl.uint8), "e5m2", b, None, "e5m2")


@pytest.mark.parametrize(
    "fn, message",
    [
        (unequal_groups, "a scale belongs to 16 numbers of lhs and to 32 of rhs"),
        (unknown_format, "the format of lhs is one of"),
        (wrong_bits, "is fp8e4nv or uint8, not fp32"),
        (wrong_scale, "lhs_scale must have shape"),
    ],
)
def test_mistakes(fn, message):
    with pytest.raises(CompilationError, match=message):
        build(fn, (np.zeros(4, np.float32),))


# ---- ordinary products


@jit
def product(
    out, a, b, SA: tl.constexpr, SB: tl.constexpr, SC: tl.constexpr, OUT: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    x = tl.load(a + tl.arange(0, a_size(SA))).reshape(SA)
    y = tl.load(b + tl.arange(0, a_size(SB))).reshape(SB)
    c = tl.dot(x, y, input_precision=PRECISION, out_dtype=OUT)
    tl.store(out + tl.arange(0, a_size(SC)), c.reshape(a_size(SC)))


@tl.constexpr_function
def a_size(shape):
    return int(np.prod(shape))


@pytest.mark.parametrize("batch", [(), (3,), (2, 3), (1, 2, 2), (2, 1, 2, 1)])
@pytest.mark.parametrize("dtype", ["float32", "float16", "float64", "int8", "uint8"])
def test_ranks(batch, dtype):
    m, n, k = 5, 6, 7
    a, b = (RNG.integers(0, 9, (*batch, *s)).astype(dtype) for s in ((m, k), (k, n)))
    kind = {"float64": np.float64, "int8": np.int32, "uint8": np.int32}.get(dtype, np.float32)
    out = np.zeros((*batch, m, n), kind)
    run(product, out, a, b, a.shape, b.shape, out.shape, None, None)
    np.testing.assert_array_equal(out, a.astype(kind) @ b.astype(kind))


@pytest.mark.parametrize("dtype", [
    "float16", ml_dtypes.bfloat16, ml_dtypes.float8_e5m2, ml_dtypes.float8_e4m3fn,
    ml_dtypes.float8_e5m2fnuz, ml_dtypes.float8_e4m3fnuz,
])  # fmt: skip
@pytest.mark.parametrize("out_type", [tl.float32, tl.float16, tl.bfloat16])
def test_narrow_floats(dtype, out_type):
    a, b = (RNG.integers(-3, 4, s).astype(dtype) for s in ((17, 20), (20, 9)))
    kinds = {tl.float32: np.float32, tl.float16: np.float16, tl.bfloat16: ml_dtypes.bfloat16}
    out = np.zeros((17, 9), kinds[out_type])
    run(product, out, a, b, a.shape, b.shape, out.shape, out_type, None)
    exact = a.astype(np.float32) @ b.astype(np.float32)
    np.testing.assert_array_equal(out, exact.astype(out.dtype))


@pytest.mark.parametrize("precision", ["ieee", "tf32", "tf32x3", "bf16x3", "bf16x6"])
def test_precisions(precision):
    a, b = (RNG.standard_normal(s).astype(np.float32) for s in ((16, 32), (32, 16)))
    out = np.zeros((16, 16), np.float32)
    run(product, out, a, b, a.shape, b.shape, out.shape, None, precision)
    np.testing.assert_allclose(out, a @ b, rtol=2e-2, atol=2e-2)
