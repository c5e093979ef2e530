"""The kernels of the tour, as one would write them in a project of one's own."""

from __future__ import annotations

import tegula
import tegula.language as tl


@tegula.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """out = x + y, one block of elements per program."""
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    total = tl.load(x_ptr + offs, mask=mask) + tl.load(y_ptr + offs, mask=mask)
    tl.store(out_ptr + offs, total, mask=mask)


@tegula.jit
def softmax_kernel(x_ptr, out_ptr, stride, n_cols, BLOCK: tl.constexpr):
    """Softmax of one row per program; the row is read once and written once."""
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * stride + cols, mask=mask, other=-float("inf"))
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + row * stride + cols, e / tl.sum(e, axis=0), mask=mask)


@tegula.jit
def layernorm_kernel(x_ptr, w_ptr, b_ptr, out_ptr, stride, n_cols, eps, BLOCK: tl.constexpr):
    """Layer normalisation of one row per program, with scale and shift."""
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * stride + cols, mask=mask, other=0.0)
    mean = tl.sum(x, axis=0) / n_cols
    d = tl.where(mask, x - mean, 0.0)
    rstd = 1.0 / tl.sqrt(tl.sum(d * d, axis=0) / n_cols + eps)
    w = tl.load(w_ptr + cols, mask=mask)
    b = tl.load(b_ptr + cols, mask=mask)
    tl.store(out_ptr + row * stride + cols, d * rstd * w + b, mask=mask)


@tegula.jit
def dropout_kernel(x_ptr, out_ptr, n, p, seed, BLOCK: tl.constexpr):
    """Zero each element with probability p; the same seed always drops the same elements."""
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    x = tl.load(x_ptr + offs, mask=mask)
    keep = tl.rand(seed, offs) > p
    tl.store(out_ptr + offs, tl.where(keep, x / (1 - p), 0.0), mask=mask)


@tegula.jit
def matmul_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K, sam, sak, sbk, sbn, scm, scn,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """C = A @ B for any strides and sizes; one BM x BN tile of C per program."""
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    a = a_ptr + rm[:, None] * sam + rk[None, :] * sak
    b = b_ptr + rk[:, None] * sbk + rn[None, :] * sbn
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BK)):
        inside = K - k * BK
        at = tl.load(a, mask=(rm[:, None] < M) & (rk[None, :] < inside), other=0.0)
        bt = tl.load(b, mask=(rk[:, None] < inside) & (rn[None, :] < N), other=0.0)
        acc = tl.dot(at, bt, acc)
        a += BK * sak
        b += BK * sbk
    c = c_ptr + rm[:, None] * scm + rn[None, :] * scn
    tl.store(c, acc.to(c_ptr.dtype.element_ty), mask=(rm[:, None] < M) & (rn[None, :] < N))


@tegula.jit
def attention_kernel(
    q_ptr, k_ptr, v_ptr, o_ptr, scale, S,
    D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """Flash attention, forward and causal: online softmax, so the S x S matrix never exists.

    Tensors are contiguous [heads, S, D]; a program makes BM rows of one head. S may be any length.
    """
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rd = tl.arange(0, D)
    rn = tl.arange(0, BN)
    base = tl.program_id(1).to(tl.int64) * S * D
    q = tl.load(q_ptr + base + rm[:, None] * D + rd[None, :], mask=rm[:, None] < S, other=0.0)
    highest = tl.full((BM,), -float("inf"), dtype=tl.float32)
    total = tl.zeros((BM,), dtype=tl.float32)
    acc = tl.zeros((BM, D), dtype=tl.float32)
    scale *= 1.44269504  # base 2: exp(x) = exp2(x * log2(e))
    for n in range(0, min((tl.program_id(0) + 1) * BM, S), BN):
        at = base + (n + rn)[:, None] * D + rd[None, :]
        k = tl.load(k_ptr + at, mask=(n + rn)[:, None] < S, other=0.0)
        s = tl.dot(q, tl.trans(k)) * scale
        s = tl.where(rm[:, None] >= (n + rn)[None, :], s, -1.0e30)
        higher = tl.maximum(highest, tl.max(s, 1))
        p = tl.exp2(s - higher[:, None])
        shrink = tl.exp2(highest - higher)
        total = total * shrink + tl.sum(p, 1)
        v = tl.load(v_ptr + at, mask=(n + rn)[:, None] < S, other=0.0)
        acc = tl.dot(p.to(v.dtype), v, acc * shrink[:, None])
        highest = higher
    o = acc / total[:, None]
    tl.store(o_ptr + base + rm[:, None] * D + rd[None, :], o, mask=rm[:, None] < S)


@tegula.jit
def zero_kernel(out_ptr, n, BLOCK: tl.constexpr):
    """out = 0, one block of elements per program."""
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offs, 0, mask=offs < n)


@tegula.jit
def histogram_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """Count values with atomic additions; programs share the counters."""
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    bins = tl.load(x_ptr + offs, mask=mask, other=0)
    tl.atomic_add(out_ptr + bins, 1, mask=mask)


@tegula.jit
def assign_kernel(
    x_ptr, centre_ptr, label_ptr, cost_ptr, n,
    K: tl.constexpr, D: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """For each point the nearest of K centres and the squared distance to it."""
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    dims = tl.arange(0, D)
    ids = tl.arange(0, K)
    x = tl.load(x_ptr + rows[:, None] * D + dims[None, :], mask=rows[:, None] < n, other=0.0)
    c = tl.load(centre_ptr + ids[:, None] * D + dims[None, :])
    # |x - c|^2 = |x|^2 - 2 x.c + |c|^2, so that the work is one matrix product.
    cross = tl.dot(x, tl.trans(c), input_precision="ieee")
    distance = tl.sum(x * x, axis=1)[:, None] - 2.0 * cross + tl.sum(c * c, axis=1)[None, :]
    tl.store(label_ptr + rows, tl.argmin(distance, axis=1), mask=rows < n)
    tl.store(cost_ptr + rows, tl.min(distance, axis=1), mask=rows < n)


@tegula.jit
def accumulate_kernel(
    x_ptr, label_ptr, sum_ptr, count_ptr, n, D: tl.constexpr, BLOCK: tl.constexpr
):
    """Add each point to the running sum of its cluster, and count it."""
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    dims = tl.arange(0, D)
    mask = rows < n
    label = tl.load(label_ptr + rows, mask=mask, other=0)
    x = tl.load(x_ptr + rows[:, None] * D + dims[None, :], mask=mask[:, None], other=0.0)
    tl.atomic_add(sum_ptr + label[:, None] * D + dims[None, :], x, mask=mask[:, None])
    tl.atomic_add(count_ptr + label, 1, mask=mask)
