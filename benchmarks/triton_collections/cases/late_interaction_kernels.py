"""Scores of queries and documents by their best matching tokens. References are the package's own,
in torch, with gradients by autograd.
"""

from __future__ import annotations

from typing import Any

import torch
from case import Cases, compare, randn
from late_interaction_kernels import (
    autograd,
    fp8,
    fused_head,
    plaid,
    reference,
    score_pairs,
    varlen,
)
from late_interaction_kernels.backward import lowmem, unified

cases = Cases()
FLOATS = (torch.float16, torch.bfloat16, torch.float32)
SIZES = ((2, 3, 16, 64, 64), (3, 2, 13, 77, 48), (1, 4, 33, 20, 128), (2, 2, 5, 40, 600))
"""Queries, documents, tokens of each, width."""
TOLERANCE = {torch.float16: 4e-3, torch.bfloat16: 2e-2, torch.float32: 2e-3}


def batch(sizes: tuple[int, ...], dtype: torch.dtype, grad: bool = False) -> tuple[Any, ...]:
    """Queries and documents, scaled as embeddings are."""
    queries, documents, tokens, others, width = sizes
    q = torch.nn.functional.normalize(randn(queries, tokens, width), dim=-1)
    d = torch.nn.functional.normalize(randn(documents, others, width, seed=1), dim=-1)
    return q.to(dtype).requires_grad_(grad), d.to(dtype).requires_grad_(grad)


def masks(sizes: tuple[int, ...]) -> tuple[torch.Tensor, torch.Tensor]:
    queries, documents, tokens, others, _ = sizes
    keep_q = torch.arange(tokens)[None, :] < torch.arange(queries)[:, None] + tokens - 2
    keep_d = torch.arange(others)[None, :] < torch.arange(documents)[:, None] * 5 + others - 12
    return keep_q, keep_d


def exact(*tensors: torch.Tensor) -> list[torch.Tensor]:
    """The same in float64, as new leaves."""
    return [t.detach().double().requires_grad_(t.requires_grad) for t in tensors]


def gradients(
    got: torch.Tensor, want: torch.Tensor, inputs: Any, leaves: Any, tolerance: float
) -> None:
    """Compare results, and the gradients of their weighted sums."""
    compare(got, want, tolerance)
    weight = randn(*got.shape, seed=5)
    (got * weight).sum().backward()
    (want * weight.double()).sum().backward()
    # Tokens that match nearly as well as the best may win after rounding.
    ties = 0.05 if inputs[0].dtype == torch.bfloat16 else 0.003
    for number, (a, b) in enumerate(zip(inputs, leaves)):
        compare(a.grad, b.grad, 3 * tolerance, f"gradient {number}", mismatches=ties)


@cases.over(sizes=SIZES, dtype=FLOATS, masked=(False, True), normalize=(False, True))
def forward(sizes: Any, dtype: torch.dtype, masked: bool, normalize: bool) -> None:
    q, d = batch(sizes, dtype)
    keep = masks(sizes) if masked else (None, None)
    got = autograd.maxsim(q, d, *keep, normalize=normalize)
    want = reference.maxsim_reference(*exact(q, d), *keep, normalize=normalize)
    compare(got, want, TOLERANCE[dtype])


@cases.over(sizes=SIZES, dtype=FLOATS, masked=(False, True), method=("unified", "lowmem"))
def backward(sizes: Any, dtype: torch.dtype, masked: bool, method: str) -> None:
    q, d = batch(sizes, dtype, grad=True)
    keep = masks(sizes) if masked else (None, None)
    leaves = exact(q, d)
    got = autograd._MaxSimFn.apply(
        q, d, *(None if k is None else k.to(torch.int8) for k in keep), False, method, False
    )
    want = reference.maxsim_reference(*leaves, *keep)
    gradients(got, want, (q, d), leaves, TOLERANCE[dtype])


@cases.over(sizes=SIZES, method=(unified.maxsim_backward_unified, lowmem.maxsim_backward_lowmem))
def backward_alone(sizes: Any, method: Any) -> None:
    """Against the package's own formula for the gradients."""
    queries, documents, tokens, *_ = sizes
    q, d = batch(sizes, torch.float32)
    grad = randn(queries, documents)
    best = torch.einsum("ild,jtd->ijlt", q, d).argmax(-1).int().view(-1, tokens)
    want = unified.maxsim_backward_unified_reference(grad, q, d, best)
    for a, b in zip(method(grad, q, d, best), want):
        compare(a, b, 2e-3)


@cases.over(sizes=SIZES, masked=(False, True), each=(False, True))
def eight_bits(sizes: Any, masked: bool, each: bool) -> None:
    fp8._hopper_or_newer = fp8._fp8_dtype_supported = lambda *_: True
    quantize = fp8.quantize_fp8_per_token if each else fp8.quantize_fp8_per_tensor
    read = fp8.dequantize_fp8_per_token if each else fp8.dequantize_fp8_per_tensor
    (q, of_q), (d, of_d) = (quantize(t) for t in batch(sizes, torch.float32))
    keep = masks(sizes) if masked else (None, None)
    got = fp8.maxsim_inference_fp8(q, d, scale_Q=of_q, scale_D=of_d, q_mask=keep[0], d_mask=keep[1])
    want = reference.maxsim_reference(read(q, of_q).double(), read(d, of_d).double(), *keep)
    compare(got, want, 2e-3)


def packed(lengths: tuple[int, ...], width: int, dtype: torch.dtype, seed: int) -> tuple[Any, ...]:
    """Token embeddings one after another, and where each text starts."""
    tokens = torch.nn.functional.normalize(randn(sum(lengths), width, seed=seed), dim=-1)
    starts = torch.tensor([0, *lengths]).cumsum(0).int()
    return tokens.to(dtype).requires_grad_(), starts


LENGTHS = (((5, 33, 1), (70, 8, 40, 17)), ((16, 16), (64, 64)))


@cases.over(lengths=LENGTHS, width=(48, 128), dtype=FLOATS)
def ragged(lengths: Any, width: int, dtype: torch.dtype) -> None:
    q, of_q = packed(lengths[0], width, dtype, 0)
    d, of_d = packed(lengths[1], width, dtype, 1)
    leaves = exact(q, d)
    got = varlen.maxsim_varlen(q, d, of_q, of_d)
    want = torch.stack([
        torch.stack([(a @ b.T).amax(-1).sum() for b in leaves[1].split(lengths[1])])
        for a in leaves[0].split(lengths[0])
    ])  # fmt: skip
    gradients(got, want, (q, d), leaves, TOLERANCE[dtype])


@cases.over(lengths=LENGTHS, width=(48, 128), dtype=FLOATS)
def pairs(lengths: Any, width: int, dtype: torch.dtype) -> None:
    q, of_q = packed(lengths[0], width, dtype, 0)
    d, of_d = packed(lengths[1], width, dtype, 1)
    leaves = exact(q, d)
    chosen = torch.tensor([[0, 1], [1, 0], [1, 1], [0, 0], [1, 0]], dtype=torch.int32)
    got = score_pairs.score_pairs_packed(q, d, of_q, of_d, chosen[:, 0], chosen[:, 1])
    rows, columns = leaves[0].split(lengths[0]), leaves[1].split(lengths[1])
    want = torch.stack([(rows[i] @ columns[j].T).amax(-1).sum() for i, j in chosen.tolist()])
    gradients(got, want, (q, d), leaves, TOLERANCE[dtype])


@cases.over(tokens=(16, 21), longest=(30, 100))
def approximate(tokens: int, longest: int) -> None:
    table = randn(50, tokens)
    codes = torch.randint(0, 50, (6, longest), generator=torch.Generator().manual_seed(1))
    lengths = torch.tensor([longest, 1, 7, longest - 3, 0, 19])
    got = plaid.plaid_approx_score(table, codes, lengths)
    compare(got, reference.plaid_approx_score_reference(table, codes, lengths), 1e-5)


def residuals(width: int, bits: int, lengths: torch.Tensor, dtype: torch.dtype) -> tuple[Any, ...]:
    """Compressed documents: centroids, and bits of what is added to them."""
    g = torch.Generator().manual_seed(bits)
    most = int(lengths.max())
    codes = torch.randint(0, 20, (len(lengths), most), generator=g)
    rest = torch.randint(0, 256, (len(lengths), most, -(-width * bits // 8)), generator=g).byte()
    return codes, rest, lengths, randn(20, width, dtype=dtype), randn(1 << bits, seed=3) * 0.3


@cases.over(width=(64, 96), bits=(2, 4, 8), dtype=FLOATS, normalize=(False, True))
def compressed(width: int, bits: int, dtype: torch.dtype, normalize: bool) -> None:
    q = randn(2, 13, width, dtype=dtype).requires_grad_()
    given = residuals(width, bits, torch.tensor([40, 7, 33]), dtype)
    leaf = q.detach().float().requires_grad_()
    got = plaid.maxsim_residual(q, *given, bits, normalize=normalize)
    want = reference.maxsim_residual_reference(leaf, *given, bits, normalize=normalize)
    gradients(got, want.double(), (q,), (leaf,), max(TOLERANCE[dtype], 4e-3))


@cases.over(width=(64, 96), bits=(2, 4, 8), dtype=FLOATS)
def compressed_ragged(width: int, bits: int, dtype: torch.dtype) -> None:
    q, lengths = randn(2, 13, width, dtype=dtype), torch.tensor([40, 7, 33])
    codes, rest, _, centroids, weights = residuals(width, bits, lengths, dtype)
    inside = torch.arange(40)[None, :] < lengths[:, None]
    starts = torch.tensor([0, *lengths.tolist()]).cumsum(0).int()
    got = plaid.maxsim_residual_varlen(
        q, codes[inside], rest[inside], starts, centroids, weights, bits
    )
    want = reference.maxsim_residual_reference(q, codes, rest, lengths, centroids, weights, bits)
    compare(got, want, max(TOLERANCE[dtype], 4e-3))


@cases.over(sizes=((2, 3, 16, 40, 64), (1, 2, 9, 33, 48)), dtype=FLOATS, bias=(False, True),
            normalize=(False, True), masked=(False, True))  # fmt: skip
def from_hidden(sizes: Any, dtype: torch.dtype, bias: bool, normalize: bool, masked: bool) -> None:
    q = batch(sizes, dtype, grad=True)[0]
    hidden = randn(sizes[1], sizes[3], 160, dtype=dtype).requires_grad_()
    w = (randn(sizes[4], 160) / 12).to(dtype).requires_grad_()
    b = randn(sizes[4], dtype=dtype).requires_grad_() if bias else None
    inputs = [t for t in (q, hidden, w, b) if t is not None]
    leaves = exact(*inputs)
    keep = masks(sizes)[1] if masked else None
    got = fused_head.maxsim_from_hidden(q, hidden, w, b, d_mask=keep, normalize=normalize)
    projected = leaves[1] @ leaves[2].T + (leaves[3] if bias else 0)
    if normalize:
        projected = torch.nn.functional.normalize(projected, dim=-1)
    want = reference.maxsim_reference(leaves[0], projected, d_mask=keep)
    gradients(got, want, inputs, leaves, 3 * TOLERANCE[dtype])
