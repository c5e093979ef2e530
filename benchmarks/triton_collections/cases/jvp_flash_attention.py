"""Attention that is differentiated forwards and backwards. References are derivatives of plain
attention in float64, by torch.

The package takes descriptors on some GPUs only: it is told whether this is one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl
from case import Cases, compare, randn
from jvp_flash_attention import jvp_attention as module
from philox import uniform

cases = Cases()
FLOATS = (torch.float16, torch.bfloat16, torch.float32)
SIZES = ((1, 2, 64, 32), (2, 1, 96, 64), (1, 1, 32, 128))
TOLERANCE = {torch.float16: 4e-3, torch.bfloat16: 3e-2, torch.float32: 1e-4}
MASKS = ("none", "causal", "bool", "float")


def mask_for(
    kind: str, sizes: tuple[int, ...], dtype: torch.dtype, scale: float = 0.3
) -> torch.Tensor | None:
    """Which keys a query sees, or what is added to its scores; each sees half of them or more."""
    batch, heads, length, _ = sizes
    if kind in ("none", "causal"):
        return None
    g = torch.Generator().manual_seed(7)
    seen = torch.rand(batch, heads, length, length, generator=g) < 0.6
    seen[..., 0] = True
    if kind == "bool":
        return seen
    added = torch.randn(batch, heads, length, length, generator=g) * scale
    return torch.where(seen, added, module.MASK_CONST).to(dtype)


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, kind: str,
              mask: torch.Tensor | None) -> torch.Tensor:  # fmt: skip
    """The package adds a mask to products that have not been scaled yet."""
    products = q @ k.mT
    if kind == "float":
        products = products + mask.double()
    scores = products / q.shape[-1] ** 0.5
    if kind == "causal":
        scores = scores.masked_fill(torch.ones_like(scores).triu(1).bool(), -torch.inf)
    elif kind == "bool":
        scores = scores.masked_fill(~mask, -torch.inf)
    return scores.softmax(-1) @ v


def inputs(sizes: tuple[int, ...], dtype: torch.dtype, seed: int) -> list[torch.Tensor]:
    return [randn(*sizes, dtype=dtype, seed=seed + s) for s in range(3)]


@cases.over(sizes=SIZES[1:], dtype=FLOATS, kind=MASKS, descriptors=(False, True))
def forward(sizes: Any, dtype: torch.dtype, kind: str, descriptors: bool) -> None:
    run(sizes, dtype, kind, descriptors, tangents=False)


@cases.over(sizes=SIZES[:2], dtype=FLOATS, kind=MASKS, descriptors=(False, True))
def jvp(sizes: Any, dtype: torch.dtype, kind: str, descriptors: bool) -> None:
    run(sizes, dtype, kind, descriptors, tangents=True)


def run(sizes: Any, dtype: torch.dtype, kind: str, descriptors: bool, tangents: bool) -> None:
    module.supports_tma = lambda: descriptors
    values, directions = inputs(sizes, dtype, 0), inputs(sizes, dtype, 10)
    mask = mask_for(kind, sizes, dtype)
    given = directions if tangents else [None] * 3
    got, (got_tangent, *_) = module.JVPAttn.forward(
        *values, *given, mask, causal=kind == "causal", verify_attn_mask=False
    )
    want, want_tangent = torch.func.jvp(
        lambda *a: attention(*a, kind, mask),
        tuple(t.double() for t in values), tuple(t.double() for t in directions),
    )  # fmt: skip
    compare(got, want, TOLERANCE[dtype])
    if tangents:
        compare(got_tangent, want_tangent, 2 * TOLERANCE[dtype], "tangent")


def check_backward(sizes: Any, dtype: torch.dtype, kind: str, added: float) -> None:
    module.supports_tma = lambda: False
    values = [t.requires_grad_() for t in inputs(sizes, dtype, 0)]
    exact = [t.detach().double().requires_grad_() for t in values]
    mask = mask_for(kind, sizes, dtype, added)
    got = module.JVPAttn.fwd(*values, mask, causal=kind == "causal", verify_attn_mask=False)
    want = attention(*exact, kind, mask)
    grad = randn(*got.shape, dtype=dtype, seed=20)
    got.backward(grad)
    want.backward(grad.double())
    for name, a, b in zip("qkv", values, exact):
        compare(a.grad, b.grad, 5 * TOLERANCE[dtype], f"gradient of {name}")


@cases.over(sizes=SIZES, dtype=FLOATS, kind=MASKS)
def backward(sizes: Any, dtype: torch.dtype, kind: str) -> None:
    check_backward(sizes, dtype, kind, added=0.0)


@cases.over(
    fault="leaves out of the gradients what a mask adds to the scores of keys that are seen",
    dtype=(torch.float32,),
)  # fmt: skip
def backward_of_added_mask(dtype: torch.dtype) -> None:
    check_backward(SIZES[0], dtype, "float", added=0.3)


@triton.jit
def mask_alone(out, seed, offset, p, M: tl.constexpr, N: tl.constexpr):
    """The package refuses dropout before it comes to its kernels."""
    keep, scale = module.create_dropout_mask(seed, offset, p, M, N, N)
    place = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(out + place, tl.where(keep, scale, 0.0))


@cases.over(p=(0.1, 0.5), shape=((16, 32), (64, 16)))
def dropout_mask(p: float, shape: tuple[int, int]) -> None:
    out = torch.zeros(shape)
    mask_alone[(1,)](out, 123, 1000, p, *shape)
    drawn = torch.from_numpy(uniform(123, 1000 + np.arange(out.numel()))).view(shape)
    compare(out, torch.where(drawn > p, 1 / (1 - p), 0.0))
