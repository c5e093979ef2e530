"""Number formats, random bit flips and optical computing. References are the package's own, in
torch; random numbers are computed anew with numpy.

On tensors in host memory the package's entries choose its own torch code: the functions behind them
are called. The kernels round halves away from zero where the package's references round them to
even; here the references round as the kernels do.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from case import Cases, compare, randn
from mase_triton._mxfp_simple import fake as simple_fake
from mase_triton._mxfp_simple import meta as simple_meta
from mase_triton._mxfp_simple.kernels import cast as simple
from mase_triton.minifloat import fake as minifloat_fake
from mase_triton.minifloat import meta as minifloat_meta
from mase_triton.minifloat.kernels import cast as minifloat
from mase_triton.mxfp import fake as mxfp_fake
from mase_triton.mxfp import meta as mxfp_meta
from mase_triton.mxfp.kernels import cast as mxfp
from mase_triton.optical_compute.core.optical_transformer import fake as optical_fake
from mase_triton.optical_compute.core.optical_transformer import linear, matmul, quantize
from mase_triton.random_bitflip import core as bitflip
from philox import philox, uniform

cases = Cases()
FLOATS = (torch.float16, torch.bfloat16, torch.float32)


@contextlib.contextmanager
def halves_away() -> Iterator[None]:
    """Let torch round halves away from zero."""
    before = torch.Tensor.round
    torch.Tensor.round = lambda t: t.sign() * (t.abs() + 0.5).floor()  # type: ignore[assignment]
    try:
        yield
    finally:
        torch.Tensor.round = before  # type: ignore[method-assign]


def integers(t: torch.Tensor) -> torch.Tensor:
    return t.to(torch.int64)


# -- formats

FORMATS = ("FP8_E4M3_fn", "FP8_E5M2_fn", "FP6_E2M3_fn", "FP6_E3M2_fn", "FP4_E2M1_fn")


def spread(size: int, dtype: torch.dtype) -> torch.Tensor:
    """Numbers of many magnitudes, zeros among them."""
    x = randn(size) * 2.0 ** torch.randint(
        -12, 8, (size,), generator=torch.Generator().manual_seed(9)
    )
    x[5::17] = 0
    x[::32] = 1.5  # the first of a block is no zero: see below
    return x.to(dtype)


@cases.over(name=FORMATS, dtype=FLOATS, rounding=("rn", "ru", "rd", "rz"), size=(100, 1537))
def minifloats(name: str, dtype: torch.dtype, rounding: str, size: int) -> None:
    given = getattr(minifloat_meta, name)
    meta = minifloat_meta.MinifloatMeta(given.exp_bits, given.frac_bits, True, rounding)
    x = spread(size, dtype)
    got = minifloat.extract_minifloat_component(x, meta)
    with halves_away():
        want = minifloat_fake.extract_minifloat_component(x, meta)
    compare(integers(got), integers(want))
    values = minifloat.compose_minifloat_component(got, meta, dtype)
    compare(values, minifloat_fake.compose_minifloat_component(got, meta, dtype), 0.0)


@cases.over(bits=((4, 3), (5, 2)), dtype=FLOATS)
def minifloats_that_have_infinity(bits: tuple[int, int], dtype: torch.dtype) -> None:
    meta = minifloat_meta.MinifloatMeta(*bits, False, "rn")
    x = spread(500, dtype)
    got = minifloat.extract_minifloat_component(x, meta)
    with halves_away():
        want = minifloat_fake.extract_minifloat_component(x, meta)
    compare(integers(got), integers(want))
    values = minifloat.compose_minifloat_component(got, meta, dtype)
    compare(values, minifloat_fake.compose_minifloat_component(got, meta, dtype), 0.0)


@cases.over(
    fault="makes NaN of infinity and infinity of NaN, and loses their signs", bits=((4, 3),)
)  # fmt: skip
def infinity(bits: tuple[int, int]) -> None:
    meta = minifloat_meta.MinifloatMeta(*bits, False, "rn")
    x = torch.tensor([torch.inf, -torch.inf])
    got = minifloat.extract_minifloat_component(x, meta)
    compare(minifloat.compose_minifloat_component(got, meta, torch.float32), x)


BLOCKS = ("MXFP8_E4M3_fn", "MXFP8_E5M2_fn", "OCP_MXFP6_E2M3", "OCP_MXFP6_E3M2", "OCP_MXFP4_E2M1")


@cases.over(name=BLOCKS, dtype=FLOATS, size=(32, 1504))
def blocks(name: str, dtype: torch.dtype, size: int) -> None:
    meta = getattr(mxfp_meta, name)
    x = spread(size, dtype)
    scales, elements = mxfp.extract_mxfp_components(x, meta)
    with halves_away():
        want = mxfp_fake.extract_mxfp_components(x, meta)
    compare(integers(scales), integers(want[0]), what="scales")
    compare(integers(elements), integers(want[1]), what="elements")
    got = mxfp.compose_mxfp_tensor(scales, elements, meta, dtype)
    compare(got, mxfp_fake.compose_mxfp_tensor(scales, elements, meta, dtype), 0.0)


@cases.over(
    fault="the scale of a block becomes 0 if the block's first element is 0, whatever follows",
    name=BLOCKS[:1],
)  # fmt: skip
def blocks_that_start_with_zero(name: str) -> None:
    meta = getattr(mxfp_meta, name)
    x = spread(32, torch.float32)
    x[0] = 0
    scales, _ = mxfp.extract_mxfp_components(x, meta)
    compare(integers(scales), integers(mxfp_fake.extract_mxfp_components(x, meta)[0]))


OLD_BLOCKS = (
    "OCP_MXFP8_E4M3",
    "OCP_MXFP8_E5M2",
    "OCP_MXFP6_E2M3",
    "OCP_MXFP6_E3M2",
    "OCP_MXFP4_E2M1",
)


@cases.over(name=OLD_BLOCKS, size=(32, 160, 1504))
def simple_blocks(name: str, size: int) -> None:
    meta = getattr(simple_meta, name)
    x = randn(size, dtype=torch.bfloat16)
    scales, elements = simple.extract_mxfp_components(x, meta)
    want = simple_fake.extract_mxfp_components(x, meta)
    compare(integers(scales), integers(want[0]), what="scales")
    compare(integers(elements), integers(want[1]), what="elements")
    got = simple.compose_mxfp_tensor(scales, elements, meta)
    compare(got, simple_fake.compose_mxfp_tensor(scales, elements, meta).flatten(), 0.0)


# -- random bits


WORDS = {torch.float32: np.uint32, torch.float16: np.uint16, torch.bfloat16: np.uint16}
SIGN_AND_EXPONENT = {torch.float32: 0xFF800000, torch.float16: 0xFC00, torch.bfloat16: 0xFF80}


def flips(size: int, halves: int, seed: int, word: Any) -> np.ndarray:
    """The bits to flip: each with a probability of 0.5**halves."""
    rounds = bitflip._get_philox_n_rounds(halves)
    bits = np.full(size, np.iinfo(word).max, word)
    for turn in range(halves // 4 + 1):
        words = philox(seed + turn, np.arange(size), rounds)
        for w in words if turn < halves // 4 else words[: halves % 4]:
            bits &= w.astype(word)
    return bits


def flipped(x: torch.Tensor, exponent: int | None, fraction: int | None) -> torch.Tensor:
    word, mask = WORDS[x.dtype], SIGN_AND_EXPONENT[x.dtype]
    signed = {2: torch.int16, 4: torch.int32}[x.element_size()]
    bits = x.view(signed).numpy().view(word).copy()
    if exponent is not None:
        bits ^= flips(x.numel(), exponent, 11, word) & word(mask)
    if fraction is not None:
        bits ^= flips(x.numel(), fraction, 12, word) & word(np.iinfo(word).max ^ mask)
    return torch.from_numpy(bits.view(bits.dtype.str.replace("u", "i"))).view(x.dtype)


HALVES = ((1, 2), (5, None), (None, 7), (14, 20))


@cases.over(halves=HALVES, dtype=FLOATS, threshold=(None, 1.5), size=(100, 3001))
def random_bitflip(halves: tuple[int | None, int | None], dtype: torch.dtype,
                   threshold: float | None, size: int) -> None:  # fmt: skip
    x, grad = randn(size, dtype=dtype), randn(size, dtype=dtype, seed=1)
    got, *_ = bitflip.random_bitflip_fn._init_fn(x, *halves, 11, 12, threshold)
    want = flipped(x, *halves)
    if threshold is not None:
        active = want.abs() < threshold
        back = bitflip._random_bitflip_backward._init_fn(x, grad, *halves, 11, 12, threshold)
        compare(back, torch.where(active, grad, 0), 0.0, "gradient")
        want = torch.where(active, want, 0)
    compare(got, want, 0.0)


# -- optical computing


def noise(seed: int, count: int) -> torch.Tensor:
    """Random numbers that a kernel adds before it rounds."""
    return torch.from_numpy(uniform(seed, np.arange(count)) - 0.5)


def quantised(x: torch.Tensor, levels: int, low: float, high: float, least: float | None,
              seed: int | None, each: bool = False) -> torch.Tensor:  # fmt: skip
    """The package's reference, in float64, with the kernel's random numbers: one, or one each."""
    if seed is None:
        return optical_fake._quantize_forward_fn_fake(
            x.double(), 0, levels, low, high, least, "det"
        )[0]
    scaled = (x.double().clamp(low, high) - low) / (high - low) * (levels - 1)
    out = (
        torch.round(scaled + noise(seed, scaled.numel() if each else 1))
        / (levels - 1)
        * (high - low)
        + low
    )
    if least is not None:
        out = torch.where((out < least * high) & (out > 0), least * high, out)
        out = torch.where((out > -least * abs(low)) & (out < 0), -least * abs(low), out)
    return out


@cases.over(mode=("det", "rand"), dtype=FLOATS, least=(None, 0.1), size=(100, 3001))
def optical_quantize(mode: str, dtype: torch.dtype, least: float | None, size: int) -> None:
    x = randn(size, dtype=dtype)
    got, _ = quantize.ot_quantize_fn._init_fn(x, 7, 64, -1.5, 1.5, least, mode)
    want = quantised(x, 64, -1.5, 1.5, least, 7 if mode == "rand" else None, each=True)
    compare(got, want, 1e-2, mismatches=0.05 if dtype != torch.float32 else 0.002)


SIZES = ((16, 24, 32), (65, 130, 100))


LEVELS = {torch.float32: 1.02, torch.float16: 4.04, torch.bfloat16: 12.0}
"""How many levels apart a result may be: the kernels quantise in the dtype of their arguments."""


@cases.over(sizes=SIZES, dtype=FLOATS, bias=(False, True), exact=(True, False))
def optical_linear(sizes: tuple[int, ...], dtype: torch.dtype, bias: bool, exact: bool) -> None:
    m, n, k = sizes
    x, w = randn(m, k, dtype=dtype), randn(n, k, dtype=dtype, seed=1)
    b = randn(n, dtype=dtype) if bias else None
    got, _ = linear.ot_qlinear_fn._init_fn(
        x, w, b, -3.0, 3.0, -2.0, 2.0, None if exact else 0.05, -40.0, 40.0, 256, 5, exact
    )
    if not exact:
        x, w = (quantised(t, 256, -r, r, least, None) for t, r, least in
                ((x, 3.0, None), (w, 2.0, 0.05)))  # fmt: skip
    want = x.double() @ w.double().T
    if not exact:
        want = quantised(want, 256, -40.0, 40.0, None, 5)
    want = want if b is None else want + b.double()
    step = 80 / 255 / float(want.abs().max())
    compare(got, want, 1e-2 if exact else LEVELS[dtype] * step)


@cases.over(sizes=SIZES, dtype=FLOATS, exact=(True, False))
def optical_matmul(sizes: tuple[int, ...], dtype: torch.dtype, exact: bool) -> None:
    m, n, k = sizes
    a, b = randn(2, m, k, dtype=dtype), randn(2, k, n, dtype=dtype, seed=1)
    got, _ = matmul.ot_qmatmul_fn._init_fn(
        a, b, -3.0, 3.0, -2.0, 2.0, None if exact else 0.05, -40.0, 40.0, 256, 5, exact
    )
    if not exact:
        a, b = (quantised(t, 256, -r, r, least, None) for t, r, least in
                ((a, 3.0, None), (b, 2.0, 0.05)))  # fmt: skip
    want = a.double() @ b.double()
    if not exact:
        want = quantised(want, 256, -40.0, 40.0, None, 5)
    step = 80 / 255 / float(want.abs().max())
    compare(got, want, 1e-2 if exact else LEVELS[dtype] * step)
