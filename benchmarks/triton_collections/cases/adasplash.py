"""Sparse attention with entmax. References find the threshold by bisection in float64.

`get_next_block` of the second version is inline assembly for NVIDIA (`fns.b32`). Cases of that
version put a function in its place that does the same with shifts; see `packages.py`.
"""

from __future__ import annotations

import importlib
import math
from typing import Any

import torch
import triton
import triton.language as tl
from case import TOLERANCE, Cases, compare, randn

cases = Cases()
FLOATS = (torch.float16, torch.bfloat16, torch.float32)

old = importlib.import_module("adasplash.triton_entmax")
new = importlib.import_module("adasplash.triton_entmax_v2")


class Entmax(torch.autograd.Function):
    """The exact function over the last dimension, and its gradient."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, alpha: float) -> torch.Tensor:
        x = x * (alpha - 1)
        low, high = x.amax(-1, keepdim=True) - 1, x.amax(-1, keepdim=True)
        for _ in range(80):
            middle = (low + high) / 2
            enough = ((x - middle).relu() ** (1 / (alpha - 1))).sum(-1, keepdim=True) >= 1
            low, high = torch.where(enough, middle, low), torch.where(enough, high, middle)
        p = (x - low).relu() ** (1 / (alpha - 1))
        ctx.save_for_backward(p)
        ctx.alpha = alpha
        return p

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None]:
        (p,) = ctx.saved_tensors
        weight = torch.where(p > 0, p ** (2 - ctx.alpha), 0)
        mean = (grad * weight).sum(-1, keepdim=True) / weight.sum(-1, keepdim=True)
        return weight * (grad - mean), None


ROWS = ((4, 200), (3, 1000), (5, 33), (2, 2048))


def check_entmax(function: Any, shape: tuple[int, int], dtype: torch.dtype, alpha: float,
                 backward: bool = True) -> None:  # fmt: skip
    x = randn(*shape, dtype=dtype).requires_grad_(backward)
    exact = x.detach().double().requires_grad_(backward)
    got, want = function(x), Entmax.apply(exact, alpha)
    tolerance = max(TOLERANCE[dtype], 1e-3)
    compare(got, want, tolerance)
    if backward:
        grad = randn(*shape, dtype=dtype, seed=1)
        got.backward(grad)
        want.backward(grad.double())
        compare(x.grad, exact.grad, 3 * tolerance, "gradient")


@cases.over(shape=ROWS, alpha=(1.3, 1.5, 2.0), fast_math=(False, True))
def entmax(shape: tuple[int, int], alpha: float, fast_math: bool) -> None:
    check_entmax(lambda x: old._entmax_triton.apply(x, alpha, 12, fast_math), shape,
                 torch.float32, alpha)  # fmt: skip


@cases.over(shape=ROWS, dtype=(torch.float16, torch.bfloat16), alpha=(1.3, 1.5))
def entmax_forward(shape: tuple[int, int], dtype: torch.dtype, alpha: float) -> None:
    check_entmax(lambda x: old._entmax_triton.apply(x, alpha, 12, False), shape, dtype, alpha,
                 backward=False)  # fmt: skip


@cases.over(shape=ROWS, alpha=(1.5, 2.0), histogram=(True, False))
def entmax_v2(shape: tuple[int, int], alpha: float, histogram: bool) -> None:
    check_entmax(
        lambda x: new._entmax_triton.apply(x, alpha, 3 if histogram else 12, histogram, False),
        shape, torch.float32, alpha,
    )  # fmt: skip


@cases.over(shape=ROWS, alpha=(1.3, 1.75))
def entmax_v2_any_alpha(shape: tuple[int, int], alpha: float) -> None:
    check_entmax(lambda x: new.triton_entmax(x, alpha), shape, torch.float32, alpha)


@cases.over(shape=ROWS, dtype=(torch.float16, torch.bfloat16), alpha=(1.5, 2.0))
def entmax_v2_forward(shape: tuple[int, int], dtype: torch.dtype, alpha: float) -> None:
    check_entmax(lambda x: new.triton_entmax(x, alpha, 3), shape, dtype, alpha, backward=False)


@cases.over(
    fault="takes `tl.sqrt` and `tl.log2` of 16-bit floats, which Triton refuses too",
    dtype=(torch.float16, torch.bfloat16), version=(1, 2),
)  # fmt: skip
def entmax_backward_of_16_bits(dtype: torch.dtype, version: int) -> None:
    function = old._entmax_triton if version == 1 else new.triton_entmax
    function = function if version == 2 else lambda x: old._entmax_triton.apply(x, 1.5, 12, False)
    check_entmax(function, (4, 200), dtype, 1.5)


@cases.over(
    fault="starts from bounds that need not hold the root; the package's own callers avoid it",
    alpha=(1.75,),
)  # fmt: skip
def entmax_v2_histogram_of_any_alpha(alpha: float) -> None:
    check_entmax(lambda x: new._entmax_triton.apply(x, alpha, 12, True, False), (4, 200),
                 torch.float32, alpha)  # fmt: skip


@triton.jit
def generic(out, hist, start, N: tl.constexpr):
    counts = tl.load(hist + tl.arange(0, N))
    tl.store(out, new.hist_init_tau_generic(counts, tl.load(start), 1.75, 8, 8))


@cases.over(start=(0.25, -3.0))
def generic_start(start: float) -> None:
    out = torch.zeros(1)
    generic[(1,)](out, torch.zeros(16, dtype=torch.int64), torch.tensor([start]), 16)
    compare(out, torch.tensor([start]), 0.0)


@triton.jit
def secant(out, low, high, shift, hist, N: tl.constexpr, BINS: tl.constexpr):
    """The one function that no kernel of the package calls."""
    counts = tl.load(hist + tl.arange(0, N))
    guess = new.hist_init_tau_secant(tl.load(low), tl.load(high), tl.load(shift), counts, BINS, 8)
    tl.store(out, guess)


@cases.over(seed=(0, 1))
def secant_start(seed: int) -> None:
    counts = torch.randint(0, 5, (16, 8), generator=torch.Generator().manual_seed(seed))
    packed = (counts << (torch.arange(8) * 8)).sum(1)
    low, high, shift = torch.tensor([0.6]), torch.tensor([0.9]), torch.tensor([0.1])
    out = torch.zeros(1)
    secant[(1,)](out, low, high, shift, packed, 16, 8)

    def f(tau: torch.Tensor) -> torch.Tensor:
        centres = shift.double() + (torch.arange(8) + 0.5) / 8
        return (counts.sum(0) * (centres - tau).relu() ** 2).sum() - 1

    a, b = low.double(), high.double()
    compare(out, torch.clamp(b - f(b) * (b - a) / (f(b) - f(a)), a, b), 1e-4)


# -- attention


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, alpha: float, causal: bool,
              lengths: torch.Tensor | None) -> torch.Tensor:  # fmt: skip
    """In float64, with rows behind a sequence's end zero."""
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    size = q.shape[2]
    if causal:
        scores = scores.masked_fill(torch.ones(size, size).triu(1).bool(), -1e9)
    if lengths is not None:
        inside = torch.arange(size)[None, :] < lengths[:, None]
        scores = scores.masked_fill(~inside[:, None, None, :], -1e9)
    out = Entmax.apply(scores, alpha) @ v
    return out if lengths is None else out * inside[:, None, :, None]


def check_attention(function: Any, sizes: tuple[int, ...], dtype: torch.dtype, alpha: float,
                    causal: bool, lengths: torch.Tensor | None) -> None:  # fmt: skip
    batch, heads, kv, length, width = sizes
    q = randn(batch, heads, length, width, dtype=dtype)
    k, v = (randn(batch, kv, length, width, dtype=dtype, seed=s) for s in (1, 2))
    inputs = [t.clone().requires_grad_() for t in (q, k, v)]
    exact = [t.double().requires_grad_() for t in (q, k, v)]
    got, want = function(*inputs), attention(*exact, alpha, causal, lengths)
    grad = randn(*got.shape, dtype=dtype, seed=3)
    if lengths is not None:
        grad = grad * (torch.arange(length)[None, :] < lengths[:, None])[:, None, :, None]
    got.backward(grad)
    want.backward(grad.double())
    tolerance = {torch.float32: 2e-3, torch.float16: 1e-2}.get(dtype, 4e-2)
    compare(got, want, tolerance)
    for name, a, b in zip("qkv", inputs, exact):
        compare(a.grad, b.grad, 3 * tolerance, f"gradient of {name}")


SIZES = ((1, 2, 2, 128, 32), (2, 1, 1, 256, 64))


@cases.over(version=("adasplash_block_mask", "adasplash_no_block_mask"), sizes=SIZES,
            dtype=FLOATS, alpha=(1.5, 1.333), causal=(False, True))  # fmt: skip
def attention_v1(version: str, sizes: tuple[int, ...], dtype: torch.dtype, alpha: float,
                 causal: bool) -> None:  # fmt: skip
    module = importlib.import_module(f"adasplash.{version}")
    check_attention(lambda q, k, v: module._sparse_attention.apply(q, k, v, alpha, causal),
                    sizes, dtype, alpha, causal, None)  # fmt: skip


@cases.over(version=("adasplash_block_mask", "adasplash_no_block_mask"), dtype=FLOATS,
            causal=(False, True))  # fmt: skip
def varlen_v1(version: str, dtype: torch.dtype, causal: bool) -> None:
    module = importlib.import_module(f"adasplash.{version}")
    lengths = torch.tensor([256, 133])
    check_attention(
        lambda q, k, v: module._sparse_attention.apply(q, k, v, 1.5, causal, lengths),
        (2, 2, 2, 256, 32), dtype, 1.5, causal, lengths,
    )  # fmt: skip


@cases.over(
    fault="reads 64 rows of the queries without a mask: past the end of shorter ones",
    version=("adasplash_block_mask", "adasplash_no_block_mask"),
)  # fmt: skip
def short_attention_v1(version: str) -> None:
    import tegula

    with tegula.use_device("interpreter"):  # which says so
        attention_v1(version, (1, 2, 2, 32, 32), torch.float32, 1.5, False)


@triton.jit
def nth_set_bit(bits, n):
    """Which bit is the n-th that is set, from 0; -1 if there is none."""
    seen = 0
    place = -1
    for bit in range(32):
        one = (bits >> bit) & 1
        seen += one
        place = tl.where((one == 1) & (seen == n + 1), bit, place)
    return place


@cases.over(sizes=(*SIZES, (1, 4, 2, 128, 16)), dtype=FLOATS, varlen=(False, True))
def attention_v2(sizes: tuple[int, ...], dtype: torch.dtype, varlen: bool) -> None:
    module = importlib.import_module("adasplash.adasplash_v2")
    module.get_next_block = nth_set_bit
    lengths = torch.tensor([97, 200][: sizes[0]]) if varlen else None
    check_attention(lambda q, k, v: module._sparse_attention.apply(q, k, v, 3, lengths),
                    sizes, dtype, 1.5, True, lengths)  # fmt: skip
