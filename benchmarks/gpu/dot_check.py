"""Matrix products on a GPU against torch in float64: dtypes, shapes, warps, memory orders.

    python benchmarks/gpu/dot_check.py [--quick] [--registers] [--only f16,i8]

`--registers` leaves out matrix units that read shared memory, so that those whose operands are
registers are tried on devices that have both. Prints a line for each dtype and precision with the
worst error, as a part of what rounding each product may cost, and every failure; the exit code is
the number of failures (at most 100).
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections.abc import Iterator

import torch

import tegula
import tegula.language as tl
from tegula.config import config

F8 = {"f8e4nv": torch.float8_e4m3fn, "f8e5": torch.float8_e5m2}
TYPES = {
    "f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "f64": torch.float64,
    "i8": torch.int8, "u8": torch.uint8, **F8,
}  # fmt: skip
JOBS = [
    # dtype, precision, dtype of sums, error allowed (as a part of sum |a| |b|)
    ("f16", "ieee", "f32", 2.0**-20),
    ("bf16", "ieee", "f32", 2.0**-20),
    ("f16", "ieee", "f16", 2.0**-10),
    ("f32", "tf32", "f32", 2.0**-10),
    ("f32", "tf32x3", "f32", 2.0**-19),
    ("f32", "bf16x3", "f32", 2.0**-14),
    ("f32", "bf16x6", "f32", 2.0**-19),
    ("f32", "ieee", "f32", 2.0**-20),
    ("f8e4nv", "ieee", "f32", 2.0**-11),  # the units keep some 14 bits of a sum
    ("f8e5", "ieee", "f32", 2.0**-11),
    ("i8", "ieee", "i32", 0.0),
    ("u8", "ieee", "i32", 0.0),
    ("f64", "ieee", "f64", 2.0**-49),
]
SHAPES = [(16, 16, 16), (64, 64, 64), (128, 64, 32), (32, 128, 64), (16, 8, 128), (128, 128, 64),
          (4, 2, 8), (1, 1, 1), (8, 16, 4)]  # fmt: skip
BATCHES = [(2, 16, 16, 16), (4, 32, 16, 32)]
LOOPS = [(128, 128, 32), (64, 64, 64), (64, 128, 16), (16, 64, 32)]


@tegula.jit
def whole(a_ptr, b_ptr, c_ptr, sam, sak, sbk, sbn, M: tl.constexpr, N: tl.constexpr,
          K: tl.constexpr, PRECISION: tl.constexpr, OUT: tl.constexpr):  # fmt: skip
    """One product of whole tiles."""
    rm = tl.arange(0, M)
    rn = tl.arange(0, N)
    rk = tl.arange(0, K)
    a = tl.load(a_ptr + rm[:, None] * sam + rk[None, :] * sak)
    b = tl.load(b_ptr + rk[:, None] * sbk + rn[None, :] * sbn)
    c = tl.dot(a, b, input_precision=PRECISION, out_dtype=OUT)
    tl.store(c_ptr + rm[:, None] * N + rn[None, :], c)


@tegula.jit
def batched(a_ptr, b_ptr, c_ptr, B: tl.constexpr, M: tl.constexpr, N: tl.constexpr,
            K: tl.constexpr, PRECISION: tl.constexpr, OUT: tl.constexpr):  # fmt: skip
    """A product of stacks of matrices."""
    i = tl.arange(0, B)[:, None, None]
    rm = tl.arange(0, M)
    rn = tl.arange(0, N)
    rk = tl.arange(0, K)
    a = tl.load(a_ptr + i * (M * K) + rm[None, :, None] * K + rk[None, None, :])
    b = tl.load(b_ptr + i * (K * N) + rk[None, :, None] * N + rn[None, None, :])
    c = tl.dot(a, b, input_precision=PRECISION, out_dtype=OUT)
    tl.store(c_ptr + i * (M * N) + rm[None, :, None] * N + rn[None, None, :], c)


@tegula.jit
def looped(a_ptr, b_ptr, c_ptr, M, N, K, sam, sak, sbk, sbn, BM: tl.constexpr, BN: tl.constexpr,
           BK: tl.constexpr, PRECISION: tl.constexpr, OUT: tl.constexpr):  # fmt: skip
    """The usual loop over blocks of the common axis, masked on every side."""
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), dtype=OUT)
    for k in range(0, tl.cdiv(K, BK)):
        left = K - k * BK
        at = a_ptr + rm[:, None] * sam + (k * BK + rk)[None, :] * sak
        bt = b_ptr + (k * BK + rk)[:, None] * sbk + rn[None, :] * sbn
        a = tl.load(at, mask=(rm[:, None] < M) & (rk[None, :] < left), other=0)
        b = tl.load(bt, mask=(rk[:, None] < left) & (rn[None, :] < N), other=0)
        acc = tl.dot(a, b, acc, input_precision=PRECISION, out_dtype=OUT)
    inside = (rm[:, None] < M) & (rn[None, :] < N)
    tl.store(c_ptr + rm[:, None] * N + rn[None, :], acc, mask=inside)


@tegula.jit
def attention(q_ptr, k_ptr, v_ptr, o_ptr, N: tl.constexpr, D: tl.constexpr,
              PRECISION: tl.constexpr):  # fmt: skip
    """Two products with a softmax between them: results become factors."""
    rn = tl.arange(0, N)
    rd = tl.arange(0, D)
    at = rn[:, None] * D + rd[None, :]
    q = tl.load(q_ptr + at)
    k = tl.load(k_ptr + at)
    v = tl.load(v_ptr + at)
    s = tl.dot(q, tl.trans(k), input_precision=PRECISION)
    s = tl.exp(s - tl.max(s, axis=1)[:, None])
    p = s / tl.sum(s, axis=1)[:, None]
    o = tl.dot(p.to(v.dtype), v, input_precision=PRECISION)
    tl.store(o_ptr + at, o)


def made(shape: tuple[int, ...], name: str, seed: int) -> torch.Tensor:
    g = torch.Generator().manual_seed(seed)
    if name in ("i8", "u8"):
        low, high = (-128, 128) if name == "i8" else (0, 256)
        return torch.randint(low, high, shape, generator=g).to(TYPES[name]).cuda()
    return torch.randn(shape, generator=g, dtype=torch.float64).to(TYPES[name]).cuda()


def laid(x: torch.Tensor, columns: bool) -> torch.Tensor:
    """The same matrix, by rows or by columns in memory."""
    if not columns:
        return x
    return (
        x.view(torch.uint8).t().contiguous().t().view(x.dtype)
        if x.element_size() == 1
        else (x.t().contiguous().t())
    )


class Table:
    def __init__(self) -> None:
        self.worst: dict[str, tuple[float, int]] = {}
        self.failures: list[str] = []

    def check(self, row: str, case: str, out: torch.Tensor, a: torch.Tensor, b: torch.Tensor,
              allowed: float) -> None:  # fmt: skip
        x, y = a.to(torch.float32).double(), b.to(torch.float32).double()
        if a.dtype == torch.float64:
            x, y = a, b
        exact, size = x @ y, x.abs() @ y.abs()
        found = ((out.double() - exact).abs() / size.clamp(min=1e-30)).max().item()
        bad = not found <= allowed
        worst, count = self.worst.get(row, (0.0, 0))
        self.worst[row] = (max(worst, found), count + 1)
        if bad:
            self.failures.append(f"{row}: {case}: error {found:.3g}, {allowed:.3g} allowed")

    def fail(self, row: str, case: str, error: Exception) -> None:
        self.worst.setdefault(row, (0.0, 0))
        text = str(error).splitlines()[0] if str(error) else ""
        self.failures.append(f"{row}: {case}: {type(error).__name__}: {text[:300]}")


def cases(quick: bool) -> Iterator[tuple[str, tuple[int, ...], dict[str, int]]]:
    warps = (4,) if quick else (1, 2, 4, 8)
    orders = [(False, False), (False, True)]
    if not quick:
        orders += [(True, False), (True, True)]
    for shape, n, (ta, tb) in itertools.product(SHAPES[:6] if quick else SHAPES, warps, orders):
        if shape[0] * shape[1] // n <= 128 * 64:
            yield "whole", shape, {"num_warps": n, "ta": ta, "tb": tb}
    for shape, n in itertools.product(BATCHES, warps):
        yield "batched", shape, {"num_warps": n}
    for shape, n, stages in itertools.product(LOOPS, (4, 8), (1, 3)):
        for ta, tb in orders[:2]:
            yield "looped", shape, {"num_warps": n, "num_stages": stages, "ta": ta, "tb": tb}


def run(job, kind: str, shape: tuple[int, ...], how: dict[str, int], table: Table) -> None:  # type: ignore[no-untyped-def]
    name, precision, sums, allowed = job
    row = f"{name} {precision} -> {sums}"
    case = f"{kind} {'x'.join(map(str, shape))} {how}"
    how = dict(how)
    ta, tb = how.pop("ta", False), how.pop("tb", False)
    out_type = {"f32": tl.float32, "f16": tl.float16, "f64": tl.float64, "i32": tl.int32}[sums]
    torch_out = {**TYPES, "i32": torch.int32}[sums]
    given = {"PRECISION": precision, "OUT": out_type, **how}
    try:
        if kind == "whole":
            m, n, k = shape
            a, b = laid(made((m, k), name, 1), ta), laid(made((k, n), name, 2), tb)
            out = torch.empty((m, n), dtype=torch_out, device="cuda")
            whole[(1,)](a, b, out, *a.stride(), *b.stride(), M=m, N=n, K=k, **given)
        elif kind == "batched":
            count, m, n, k = shape
            a, b = made((count, m, k), name, 1), made((count, k, n), name, 2)
            out = torch.empty((count, m, n), dtype=torch_out, device="cuda")
            batched[(1,)](a, b, out, B=count, M=m, N=n, K=k, **given)
        else:
            bm, bn, bk = shape
            m, n, k = 2 * bm - 3 * (bm > 16), 2 * bn - 5, 5 * bk - 1
            if not ta:
                k += 1
            a, b = laid(made((m, k), name, 1), ta), laid(made((k, n), name, 2), tb)
            out = torch.empty((m, n), dtype=torch_out, device="cuda")
            given |= {"BM": bm, "BN": bn, "BK": bk}
            looped[(2, 2)](a, b, out, m, n, k, *a.stride(), *b.stride(), **given)
        torch.cuda.synchronize()
        table.check(row, case, out, a, b, allowed)
    except Exception as error:
        table.fail(row, case, error)


def attend(table: Table, quick: bool) -> None:
    for name, precision, allowed in (("f16", "ieee", 4e-3), ("bf16", "ieee", 3e-2),
                                     ("f32", "tf32", 4e-3), ("f32", "ieee", 1e-5)):  # fmt: skip
        for n, d, warps in ((64, 64, 4), (128, 32, 4), (32, 64, 2), (64, 128, 8), (16, 16, 1)):
            row, case = f"attention {name} {precision}", f"{n}x{d} num_warps={warps}"
            q, k, v = (made((n, d), name, i) for i in range(3))
            out = torch.empty((n, d), dtype=torch.float32, device="cuda")
            try:
                attention[(1,)](q * 0.25, k * 0.25, v, out, N=n, D=d, PRECISION=precision,
                                num_warps=warps)  # fmt: skip
                torch.cuda.synchronize()
                x, y, z = (q * 0.25).double(), (k * 0.25).double(), v.double()
                exact = torch.softmax(x @ y.t(), 1) @ z
                found = (out.double() - exact).abs().max().item()
                worst, count = table.worst.get(row, (0.0, 0))
                table.worst[row] = (max(worst, found), count + 1)
                if not found <= allowed:
                    table.failures.append(f"{row}: {case}: error {found:.3g}")
            except Exception as error:
                table.fail(row, case, error)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer shapes, warps and orders")
    parser.add_argument("--registers", action="store_true",
                        help="without units that read shared memory")  # fmt: skip
    parser.add_argument("--only", default="", help="dtypes, separated by commas")
    given = parser.parse_args()
    if given.registers:
        from tegula_cuda.simt import CudaSimt

        CudaSimt.shared_unit = lambda *_: None  # type: ignore[method-assign]
    only = given.only.split(",") if given.only else list(TYPES)
    table, start = Table(), time.time()
    with config.scope(cache=False):
        for job in JOBS:
            if job[0] in only:
                for case in cases(given.quick):
                    run(job, *case, table)
        attend(table, given.quick)
    for row, (worst, count) in table.worst.items():
        failed = sum(f.startswith(row + ":") for f in table.failures)
        note = f", {failed} FAILED" if failed else ""
        print(f"{row:28} {count:4} cases, worst error {worst:9.3g}{note}")
    for line in table.failures[:200]:
        print("FAILED", line)
    total = sum(count for _, count in table.worst.values())
    print(f"{total} products, {len(table.failures)} failures, {time.time() - start:.0f} s")
    return min(100, len(table.failures))


if __name__ == "__main__":
    sys.exit(main())
