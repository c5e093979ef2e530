"""Optimal transport. References are dense formulas in float64.

The package wants tensors on a GPU: it is told that these are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from case import Cases, compare, randn
from flash_sinkhorn.kernels import apply_flash, apply_ott
from flash_sinkhorn.kernels import c_transform_sqeuclid as c_transform
from flash_sinkhorn.kernels import sinkhorn_blocksparse_sqeuclid as blocksparse
from flash_sinkhorn.kernels import sinkhorn_flashstyle_sqeuclid as flashstyle
from flash_sinkhorn.kernels import sinkhorn_splitn_sqeuclid as splitn
from flash_sinkhorn.kernels import sinkhorn_triton_apply_fused_sqeuclid as fused
from flash_sinkhorn.kernels import sinkhorn_triton_grad_sqeuclid as grad
from flash_sinkhorn.kernels import sinkhorn_triton_ott_sqeuclid as ott
from flash_sinkhorn.multiscale import block_mask, mask_refine, sparse_step
from host import OnGPU

cases = Cases()
SIZES = ((100, 70, 3), (257, 190, 20), (64, 300, 70))
FLOATS = (torch.float16, torch.float32)
EXACT = {"allow_tf32": False}
WIDE = 3e-5
"""Tolerance of exponentials of sums of products: f32 all the way."""


@dataclass
class Problem:
    """Points, weights and potentials; `p` is the plan, `c` the costs, in float64."""

    x: torch.Tensor
    y: torch.Tensor
    a: torch.Tensor
    b: torch.Tensor
    f: torch.Tensor
    g: torch.Tensor
    eps: float
    half: float

    @property
    def c(self) -> torch.Tensor:
        return self.half * torch.cdist(self.x.double(), self.y.double()) ** 2

    @property
    def shifted(self) -> tuple[torch.Tensor, torch.Tensor]:
        return (self.f - self.half * (self.x.float() ** 2).sum(1),
                self.g - self.half * (self.y.float() ** 2).sum(1))  # fmt: skip

    @property
    def logs(self) -> tuple[torch.Tensor, torch.Tensor]:
        return self.a.log(), self.b.log()

    @property
    def p(self) -> torch.Tensor:
        power = (self.f[:, None].double() + self.g[None, :].double() - self.c) / self.eps
        return self.a[:, None].double() * self.b[None, :].double() * power.exp()


def problem(sizes: tuple[int, int, int], dtype: torch.dtype = torch.float32,
            half: float = 1.0, eps: float = 0.5) -> Problem:  # fmt: skip
    n, m, d = sizes
    x, y = (randn(k, d, seed=s).div(d**0.5).to(dtype) for k, s in ((n, 1), (m, 2)))
    a, b = (torch.softmax(randn(k, seed=s), 0) for k, s in ((n, 3), (m, 4)))
    return Problem(x, y, a, b, randn(n, seed=5) * 0.2, randn(m, seed=6) * 0.2, eps, half)


# -- steps of the iteration


def softmin(scores: torch.Tensor, eps: float, damping: float = 1.0) -> torch.Tensor:
    return -eps * damping * scores.logsumexp(1)


def scores(t: Problem, flip: bool = False) -> torch.Tensor:
    """What the potentials of one side are the softmin of."""
    x, y, hat, log = (t.y, t.x, t.shifted[0], t.logs[0]) if flip else (
        t.x, t.y, t.shifted[1], t.logs[1])  # fmt: skip
    return (2 * t.half * x.double() @ y.double().T + hat.double()[None, :]) / t.eps + log[None, :]


@cases.over(sizes=SIZES, half=(0.5, 1.0), exp2=(False, True), tune=(False, True))
def lse(sizes: Any, half: float, exp2: bool, tune: bool) -> None:
    t = problem(sizes, half=half)
    options = {"cost_scale": half, "use_exp2": exp2, "autotune": tune, "damping": 0.9, **EXACT}
    want = softmin(scores(t), t.eps, 0.9)
    bias = t.shifted[1] / t.eps + t.logs[1]
    compare(flashstyle.flashsinkhorn_lse(t.x, t.y, bias, t.eps, **options), want, WIDE)
    got = flashstyle.flashsinkhorn_lse_fused(t.x, t.y, t.shifted[1], t.logs[1], t.eps, **options)
    compare(got, want, WIDE, "fused")


@cases.over(sizes=SIZES, labels=(False, True), exp2=(False, True), tune=(False, True))
def symmetric_step(sizes: Any, labels: bool, exp2: bool, tune: bool) -> None:
    t = problem(sizes)
    rows, columns, extra = scores(t), scores(t, flip=True), {}
    if labels:
        of_x, of_y = torch.arange(sizes[0]) % 4, torch.arange(sizes[1]) % 3
        table = randn(4, 4).abs()
        extra = {"label_x": of_x, "label_y": of_y, "label_cost_matrix": table, "lambda_y": 0.3}
        cost = 0.3 * table.double()[of_x][:, of_y] / t.eps
        rows, columns = rows - cost, columns - cost.T
    got = flashstyle.flashsinkhorn_symmetric_step(
        t.x, t.y, *t.shifted, *t.logs, t.eps, alpha=0.4, use_exp2=exp2, autotune=tune,
        **EXACT, **extra,
    )  # fmt: skip
    for new, old, s in zip(got, t.shifted, (rows, columns)):
        compare(new, 0.6 * old.double() + 0.4 * softmin(s, t.eps), WIDE)


@cases.over(sizes=SIZES, splits=(1, 3, 7), exp2=(False, True))
def split_lse(sizes: Any, splits: int, exp2: bool) -> None:
    t = problem(sizes)
    bias = t.shifted[1] / t.eps + t.logs[1]
    got = splitn.flashsinkhorn_lse_splitn(
        t.x, t.y, bias, t.eps, num_splits=splits, use_exp2=exp2, **EXACT
    )
    compare(got, softmin(scores(t), t.eps), WIDE)


@cases.over(sizes=SIZES, axis=(0, 1), weighted=(False, True), exp2=(False, True),
            tune=(False, True))  # fmt: skip
def ott_lse(sizes: Any, axis: int, weighted: bool, exp2: bool, tune: bool) -> None:
    t = problem(sizes)
    vec = randn(sizes[1 if axis == 1 else 0], seed=8) if weighted else None
    got, sign = ott.apply_lse_kernel_sqeuclid(
        t.x, t.y, t.f, t.g, t.eps, axis, vec=vec, use_exp2=exp2, autotune=tune, **EXACT
    )
    power = ((t.f[:, None].double() + t.g[None, :].double() - t.c) / t.eps).exp()
    power = power if axis == 1 else power.T
    total = power.sum(1) if vec is None else power @ vec.double()
    compare(sign, total.sign())
    want = t.eps * total.abs().log() - (t.f if axis == 1 else t.g).double()
    compare(got, want, 1e-3 if weighted else WIDE)  # sums of both signs cancel


@cases.over(sizes=SIZES, dtype=FLOATS, tune=(False, True))
def nearest(sizes: Any, dtype: torch.dtype, tune: bool) -> None:
    t = problem(sizes, dtype)
    bias = (t.y.float() ** 2).sum(1) - t.g
    value, index = c_transform.c_transform_kernel(
        t.x, t.y, bias, cost_scale=1.0, autotune=tune, allow_tf32=False
    )
    everything = -2 * t.x.double() @ t.y.double().T + bias.double()[None, :]
    compare(value, everything.amin(1), WIDE)
    compare(everything.gather(1, index[:, None])[:, 0], everything.amin(1), WIDE)


# -- applying the plan


@cases.over(sizes=SIZES, dtype=FLOATS, axis=(0, 1), exp2=(False, True))
def plan_times_vector(sizes: Any, dtype: torch.dtype, axis: int, exp2: bool) -> None:
    t = problem(sizes, dtype, half=0.5)
    vec = randn(sizes[1 if axis == 1 else 0], seed=8)
    got = apply_flash.apply_plan_vec_flashstyle(
        t.x, t.y, *t.shifted, *t.logs, vec, eps=t.eps, axis=axis, cost_scale=0.5, use_exp2=exp2
    )
    compare(got, (t.p if axis == 1 else t.p.T) @ vec.double(), 1e-4)


@cases.over(sizes=SIZES, dtype=FLOATS, axis=(0, 1), tune=(False, True))
def plan_times_matrix(sizes: Any, dtype: torch.dtype, axis: int, tune: bool) -> None:
    t = problem(sizes, dtype)
    rows = sizes[1 if axis == 1 else 0]
    mat = randn(rows, sizes[2], seed=8)
    scale = randn(rows, seed=9) if axis == 1 else None
    got = apply_flash.apply_plan_mat_flashstyle(
        t.x, t.y, *t.shifted, *t.logs, mat, eps=t.eps, axis=axis, scale=scale, autotune=tune
    )
    given = mat.double() if scale is None else mat.double() * scale.double()[:, None]
    compare(got, (t.p if axis == 1 else t.p.T) @ given, 1e-4)


def check_mat5(sizes: Any, dtype: torch.dtype, tune: bool) -> None:
    t = problem(sizes, dtype)
    t.a, t.b = torch.ones_like(t.a), torch.ones_like(t.b)
    wide = randn(sizes[0], sizes[2], seed=8)
    got = apply_ott.mat5_sqeuclid(t.x, t.y, t.f, t.g, wide, eps=t.eps, autotune=tune)
    weights = t.p * (wide.double() @ t.y.double().T)
    compare(got, -4 / t.eps * weights @ t.y.double(), 1e-4)


@cases.over(sizes=(*SIZES[:2], (64, 300, 60)), tune=(False, True))
def mat5(sizes: Any, tune: bool) -> None:
    check_mat5(sizes, torch.float32, tune)


@cases.over(sizes=SIZES[2:])
def mat5_wide(sizes: Any) -> None:
    check_mat5(sizes, torch.float32, False)


@cases.over(fault="multiplies blocks of two dtypes, which Triton refuses too", sizes=SIZES[:1])
def mat5_of_16_bits(sizes: Any) -> None:
    check_mat5(sizes, torch.float16, False)


@cases.over(
    fault="looks for the width among positional arguments, and tunes with too narrow blocks",
    sizes=SIZES[2:],
)  # fmt: skip
def mat5_tuned_wide(sizes: Any) -> None:
    kernel = apply_ott._mat5_axis1_kernel_autotune
    kernel.configs = [c for c in kernel.all_configs if c.kwargs["BLOCK_D"] == 64][:1]
    check_mat5(sizes, torch.float32, True)


@cases.over(sizes=((40, 64, 5), (64, 50, 30), (100, 70, 3)), exp2=(False, True))
def fused_matvec(sizes: Any, exp2: bool) -> None:
    """Programs wait for each other here, so all have to run at once: two, on two threads."""
    t = problem(sizes)
    t.a, t.b = torch.ones_like(t.a), torch.ones_like(t.b)
    z, diagonal, denominator = (randn(k, seed=s).abs() + 0.5 for k, s in
                                ((sizes[1], 7), (sizes[0], 8), (sizes[1], 9)))  # fmt: skip
    got, middle = fused.fused_schur_matvec_sqeuclid(
        t.x, t.y, t.f, t.g, z, diagonal, denominator, eps=t.eps, use_exp2=exp2
    )
    first = t.p @ z.double()
    compare(middle, first, 1e-4)
    compare(got, denominator * z - t.p.T @ (first / diagonal.double()), 1e-4)


# -- gradients


@cases.over(sizes=(*SIZES, (70, 50, 300)), dtype=FLOATS, labels=(False, True), exp2=(False, True))
def gradients(sizes: Any, dtype: torch.dtype, labels: bool, exp2: bool) -> None:
    t = problem(sizes, dtype)
    cost, extra = t.c, {}
    if labels:
        of_x, of_y = torch.arange(sizes[0]) % 4, torch.arange(sizes[1]) % 3
        table = randn(4, 4).abs()
        extra = {"label_x": of_x, "label_y": of_y, "label_cost_matrix": table, "lambda_y": 0.3}
        cost = cost + 0.3 * table.double()[of_x][:, of_y]
    got = grad.sinkhorn_geomloss_online_grad_sqeuclid(
        t.x, t.y, t.a, t.b, t.f, t.g, eps=t.eps, use_exp2=exp2, **EXACT, **extra
    )
    x, y = t.x.double(), t.y.double()
    of_rows = ((t.g[None, :].double() - cost) / t.eps + t.logs[1][None, :]).softmax(1)
    of_columns = ((t.f[:, None].double() - cost) / t.eps + t.logs[0][:, None]).softmax(0)
    compare(got[0], 2 * t.a.double()[:, None] * (x - of_rows @ y), 1e-4)
    compare(got[1], 2 * t.b.double()[:, None] * (y - of_columns.T @ x), 1e-4)


# -- sparse blocks

BLOCKED = ((256, 384, 3, 64), (512, 256, 20, 128))


def mask(n: int, m: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Which pairs of blocks count: dense, and as compressed rows. The last row is empty."""
    dense = torch.rand(n, m, generator=torch.Generator().manual_seed(1)) < 0.6
    dense[:, 0] = True
    dense[-1] = False
    return dense, *compressed(dense)


def compressed(dense: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    starts = torch.cat([torch.zeros(1, dtype=torch.int64), dense.sum(1).cumsum(0)]).int()
    return starts, dense.nonzero()[:, 1].int()


def expanded(dense: torch.Tensor, block: int) -> torch.Tensor:
    return dense.repeat_interleave(block, 0).repeat_interleave(block, 1)


@cases.over(sizes=BLOCKED, exp2=(False, True))
def sparse_lse(sizes: Any, exp2: bool) -> None:
    *shape, block = sizes
    t = problem(tuple(shape))
    dense, rows, columns = mask(shape[0] // block, shape[1] // block)
    got = blocksparse.blocksparse_lse_fused(
        t.x, t.y, t.shifted[1], t.logs[1], t.eps, 1.0, rows, columns, block_m=block,
        block_n=block, use_exp2=exp2, **EXACT,
    )  # fmt: skip
    want = softmin(scores(t).masked_fill(~expanded(dense, block), -torch.inf), t.eps)
    compare(got[:-block], want[:-block], WIDE)


@cases.over(sizes=BLOCKED, exp2=(False, True))
def sparse_step_and_repair(sizes: Any, exp2: bool) -> None:
    *shape, block = sizes
    t = problem(tuple(shape))
    dense, rows, columns = mask(shape[0] // block, shape[1] // block)
    got = sparse_step.sparse_symmetric_step(
        t.x, t.y, *t.shifted, *t.logs, t.eps, rows, columns, *compressed(dense.T), block=block,
        use_exp2=exp2, **EXACT,
    )  # fmt: skip
    full = torch.where(dense.any(1, keepdim=True), dense, True)  # empty rows are computed densely
    for new, old, s, kept in zip(got, t.shifted, (scores(t), scores(t, flip=True)),
                                 (full, dense.T)):  # fmt: skip
        want = softmin(s.masked_fill(~expanded(kept, block), -torch.inf), t.eps)
        compare(new, 0.5 * old.double() + 0.5 * want, WIDE)


@cases.over(rows=(50, 700, 1100), exp2=(False, True))
def dense_rows(rows: int, exp2: bool) -> None:
    t = problem((rows, 900, 5))
    got = sparse_step.dense_lse_rows(
        t.x, t.y, t.shifted[1], t.logs[1], t.eps, 0.8, use_exp2=exp2, **EXACT
    )
    compare(got, softmin(scores(t), t.eps, 0.8), WIDE)


@cases.over(sizes=BLOCKED, scores_too=(False, True), budget=(1e-2, 1e-6))
def refined_mask(sizes: Any, scores_too: bool, budget: float) -> None:
    *shape, block = sizes
    t = problem(tuple(shape), eps=0.05)
    n, m = shape[0] // block, shape[1] // block
    dense, rows, columns = mask(n, m)
    got = mask_refine.refine_mask_exact(
        t.x, t.y, *t.shifted, *t.logs, t.eps, rows, columns, B=block, delta_rel=budget,
        return_scores=scores_too, **EXACT,
    )  # fmt: skip
    f, g = (v.double() for v in t.shifted)
    pairs = 2 * t.x.double() @ t.y.double().T + f[:, None] + g[None, :]
    most = pairs.view(n, block, m, block).amax((1, 3))
    mass = [v.double().view(-1, block).logsumexp(1) for v in t.logs]
    limit = t.eps * (torch.tensor(budget).log() - torch.maximum(mass[0][:, None], mass[1][None, :]))
    want = compressed(dense & (most > limit))
    compare(got[0], want[0])
    compare(got[1], want[1])
    if scores_too:
        compare(got[2], most[dense], WIDE)


@cases.over(sizes=((256, 384, 3, 32), (640, 25600, 5, 32)), budget=(1e-1, 1e-6))
def box_screen(sizes: Any, budget: float) -> None:
    *shape, block = sizes
    t = problem(tuple(shape), eps=0.02)
    n, m = shape[0] // block, shape[1] // block
    order_x, order_y = t.x[:, 0].argsort(), t.y[:, 0].argsort()
    t.x, t.y = t.x[order_x], t.y[order_y]
    boxes = [v.view(k, block, -1) for v, k in ((t.x, n), (t.y, m))]
    corners = [edge.contiguous() for v in boxes for edge in (v.amin(1), v.amax(1))]
    alpha, beta = ((v**2).sum(1) for v in (t.x, t.y))
    got = block_mask.build_block_mask_csr(
        corners[0].as_subclass(OnGPU), *corners[1:], *t.shifted, alpha, beta, *t.logs, t.eps,
        B=block, delta_rel=budget,
    )  # fmt: skip
    low_x, high_x, low_y, high_y = (v.double() for v in corners)
    gap = torch.maximum(low_x[:, None] - high_y[None], low_y[None] - high_x[:, None]).clamp(min=0)
    bounds = [(h + s).double().view(-1, block).amax(1) for h, s in zip(t.shifted, (alpha, beta))]
    mass = [v.double().view(-1, block).logsumexp(1) for v in t.logs]
    share = torch.maximum(mass[0][:, None], mass[1][None]) - torch.tensor(budget).log()
    limit = bounds[0][:, None] + bounds[1][None] + t.eps * share
    want = compressed((gap**2).sum(-1) < limit)
    compare(got[0], want[0])
    compare(got[1], want[1])
