"""Tensor descriptors on a GPU against torch: dtypes, odd sizes, stages, ranks, who makes them.

    python benchmarks/gpu/descriptor_check.py [--quick] [--only f16,f32,ranks]

Each product is made with and without the tensor memory accelerator (`tensor_copies`) and with
several numbers of stages: all results have to be the same, bit by bit, and close to torch's. Prints
a line for each group of cases and every failure; the exit code is the number of failures (at most
100).
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections.abc import Callable

import torch

import tegula
import tegula.language as tl

TYPES = {
    # dtype, dtype of results, error allowed (as a part of the norm)
    "f16": (torch.float16, torch.float16, 2e-3), "bf16": (torch.bfloat16, torch.bfloat16, 1e-2),
    "f32": (torch.float32, torch.float32, 2e-3), "i8": (torch.int8, torch.int32, 0.0),
    "f8e4nv": (torch.float8_e4m3fn, torch.float16, 2e-3),
    "f8e5": (torch.float8_e5m2, torch.float32, 2e-3),
}  # fmt: skip
SHAPES = [(256, 384, 512), (304, 208, 112), (16, 48, 32), (128, 128, 16), (1040, 528, 1008)]
BLOCKS = [(128, 128, 64, 4), (128, 256, 64, 8), (64, 64, 128, 4), (64, 32, 32, 2), (16, 16, 64, 1)]


@tegula.jit
def blocks(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
           GRID: tl.constexpr, TRANS: tl.constexpr, ACC: tl.constexpr):  # fmt: skip
    """C = A @ B (or B^T) by programs that take one block after the other."""
    for tile in range(tl.program_id(0), tl.cdiv(M, BM) * tl.cdiv(N, BN), GRID):
        om = tile // tl.cdiv(N, BN) * BM
        on = tile % tl.cdiv(N, BN) * BN
        acc = tl.zeros((BM, BN), dtype=ACC)
        for k in range(0, K, BK):
            x = a.load([om, k])
            if TRANS:
                y = b.load([on, k]).T
            else:
                y = b.load([k, on])
            acc = tl.dot(x, y, acc)
        c.store([om, on], acc.to(c.dtype))


@tegula.jit
def device_made(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
                GRID: tl.constexpr, TRANS: tl.constexpr, ACC: tl.constexpr):  # fmt: skip
    a = tl.make_tensor_descriptor(a_ptr, [M, K], [K, 1], [BM, BK])
    if TRANS:
        b = tl.make_tensor_descriptor(b_ptr, [N, K], [K, 1], [BN, BK])
    else:
        b = tl.make_tensor_descriptor(b_ptr, [K, N], [N, 1], [BK, BN])
    c = tl.make_tensor_descriptor(c_ptr, [M, N], [N, 1], [BM, BN])
    blocks(a, b, c, M, N, K, BM, BN, BK, GRID, TRANS, ACC)


@tegula.jit
def host_made(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
              GRID: tl.constexpr, TRANS: tl.constexpr, ACC: tl.constexpr):  # fmt: skip
    blocks(a, b, c, M, N, K, BM, BN, BK, GRID, TRANS, ACC)


@tegula.jit
def ranked(a_ptr, b_ptr, c_ptr, S, M, N, K, RANK: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
           BK: tl.constexpr):  # fmt: skip
    """A stack of products through descriptors of 3 to 5 axes, some of one element."""
    if RANK == 3:
        a = tl.make_tensor_descriptor(a_ptr, [S, M, K], [M * K, K, 1], [1, BM, BK])
        b = tl.make_tensor_descriptor(b_ptr, [S, K, N], [K * N, N, 1], [1, BK, BN])
        c = tl.make_tensor_descriptor(c_ptr, [S, M, N], [M * N, N, 1], [1, BM, BN])
    elif RANK == 4:
        a = tl.make_tensor_descriptor(a_ptr, [1, S, M, K], [S * 16, M * K, K, 1], [1, 1, BM, BK])
        b = tl.make_tensor_descriptor(b_ptr, [1, S, K, N], [S * 16, K * N, N, 1], [1, 1, BK, BN])
        c = tl.make_tensor_descriptor(c_ptr, [1, S, M, N], [S * 16, M * N, N, 1], [1, 1, BM, BN])
    else:
        a = tl.make_tensor_descriptor(a_ptr, [1, 1, S, M, K], [16, 16, M * K, K, 1],
                                      [1, 1, 1, BM, BK])
        b = tl.make_tensor_descriptor(b_ptr, [1, 1, S, K, N], [16, 16, K * N, N, 1],
                                      [1, 1, 1, BK, BN])
        c = tl.make_tensor_descriptor(c_ptr, [1, 1, S, M, N], [16, 16, M * N, N, 1],
                                      [1, 1, 1, BM, BN])
    s = tl.program_id(0)
    om = tl.program_id(1) * BM
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        if RANK == 3:
            x = a.load([s, om, k]).reshape(BM, BK)
            y = b.load([s, k, 0]).reshape(BK, BN)
        elif RANK == 4:
            x = a.load([0, s, om, k]).reshape(BM, BK)
            y = b.load([0, s, k, 0]).reshape(BK, BN)
        else:
            x = a.load([0, 0, s, om, k]).reshape(BM, BK)
            y = b.load([0, 0, s, k, 0]).reshape(BK, BN)
        acc = tl.dot(x, y, acc)
    if RANK == 3:
        c.store([s, om, 0], acc.to(c.dtype).reshape(1, BM, BN))
    elif RANK == 4:
        c.store([0, s, om, 0], acc.to(c.dtype).reshape(1, 1, BM, BN))
    else:
        c.store([0, 0, s, om, 0], acc.to(c.dtype).reshape(1, 1, 1, BM, BN))


@tegula.jit
def attention(q_ptr, k_ptr, v_ptr, o_ptr, S, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    """Softmax between two products, by descriptors."""
    q = tl.make_tensor_descriptor(q_ptr, [S, D], [D, 1], [BM, D])
    kd = tl.make_tensor_descriptor(k_ptr, [S, D], [D, 1], [BN, D])
    vd = tl.make_tensor_descriptor(v_ptr, [S, D], [D, 1], [BN, D])
    o = tl.make_tensor_descriptor(o_ptr, [S, D], [D, 1], [BM, D])
    start = tl.program_id(0) * BM
    x = q.load([start, 0])
    top = tl.full((BM,), -float("inf"), dtype=tl.float32)
    total = tl.zeros((BM,), dtype=tl.float32)
    acc = tl.zeros((BM, D), dtype=tl.float32)
    for n in range(0, S, BN):
        s = tl.dot(x, kd.load([n, 0]).T)
        s = tl.where((n + tl.arange(0, BN))[None, :] < S, s, -float("inf"))
        up = tl.maximum(top, tl.max(s, 1))
        p = tl.exp(s - up[:, None])
        scale = tl.exp(top - up)
        total = total * scale + tl.sum(p, 1)
        acc = tl.dot(p.to(v_ptr.dtype.element_ty), vd.load([n, 0]), acc * scale[:, None])
        top = up
    o.store([start, 0], (acc / total[:, None]).to(o_ptr.dtype.element_ty))


@tegula.jit
def twice(a_ptr, b_ptr, c_ptr, M, K, BM: tl.constexpr, BK: tl.constexpr):
    """Two results for one place: the later one counts."""
    a = tl.make_tensor_descriptor(a_ptr, [M, K], [K, 1], [BM, BK])
    b = tl.make_tensor_descriptor(b_ptr, [M, K], [K, 1], [BM, BK])
    c = tl.make_tensor_descriptor(c_ptr, [M, BM], [BM, 1], [BM, BM])
    for times in range(1, 4):
        acc = tl.zeros((BM, BM), dtype=tl.float32)
        for k in range(0, K, BK):
            acc = tl.dot(a.load([0, k]), b.load([0, k]).T, acc)
        c.store([0, 0], (acc * 0).to(c.dtype))
        c.store([0, 0], (acc * times).to(c.dtype))


FAILURES: list[str] = []


def made(shape: tuple[int, ...], dtype: torch.dtype, seed: int) -> torch.Tensor:
    g = torch.Generator(device="cuda").manual_seed(seed)
    if dtype == torch.int8:
        return torch.randint(-128, 128, shape, generator=g, device="cuda").to(dtype)
    return torch.randn(shape, generator=g, device="cuda").to(dtype)


def error(x: torch.Tensor, y: torch.Tensor) -> float:
    if not y.numel():
        return 0.0
    found = ((x.double() - y.double()).norm() / y.double().norm().clamp(min=1e-30)).item()
    return found if found == found else float("inf")


def check(what: str, got: torch.Tensor, want: torch.Tensor, allowed: float) -> float:
    found = error(got, want)
    if found > allowed:
        FAILURES.append(what)
        print(f"FAIL {what}: error {found:.2g}", flush=True)
    return found


def group(name: str, body: Callable[[], tuple[int, float]]) -> None:
    start = time.perf_counter()
    try:
        count, worst = body()
        torch.cuda.synchronize()
    except Exception as e:
        FAILURES.append(name)
        print(f"FAIL {name}: {type(e).__name__}: {str(e)[:300]}", flush=True)
        return
    print(f"{name:24} {count:4} launches, worst error {worst:8.2g}, "
          f"{time.perf_counter() - start:5.1f} s", flush=True)  # fmt: skip


def product(name: str, shape: tuple[int, ...], block: tuple[int, ...], trans: bool, host: bool,
            stages: list[int]) -> tuple[int, float]:  # fmt: skip
    dtype, out, allowed = TYPES[name]
    (m, n, k), (bm, bn, bk, warps) = shape, block
    a, b = made((m, k), dtype, 1), made((n, k) if trans else (k, n), dtype, 2)
    want = a.double() @ (b.double().T if trans else b.double())
    first: dict[int, torch.Tensor] = {}
    worst, count = 0.0, 0
    # Which unit makes products of f32 may depend on whether factors are copied ahead.
    apart = name == "f32" and not trans
    for copies, s in itertools.product((False, True), stages):
        c = torch.full((m + 1, n), 77, device="cuda").to(out)
        args = [a, b, c[:m]]
        if host:
            sides = [(bm, bk), (bn, bk) if trans else (bk, bn), (bm, bn)]
            args = [tegula.TensorDescriptor.from_tensor(x, [*side]) for x, side in zip(args, sides)]
        kernel = host_made if host else device_made
        acc = tl.int32 if name == "i8" else tl.float32
        kernel[(3,)](*args, m, n, k, BM=bm, BN=bn, BK=bk, GRID=3, TRANS=trans, ACC=acc,
                     num_warps=warps, num_stages=s, tensor_copies=copies)  # fmt: skip
        what = f"{name} {shape} {block} trans={trans} host={host} copies={copies} stages={s}"
        worst = max(worst, check(what, c[:m], want.to(out), allowed))
        if not bool((c[m] == torch.full((n,), 77, device="cuda").to(out)).all()):
            FAILURES.append(what)
            print(f"FAIL {what}: wrote out of bounds")
        other = first.setdefault(s if apart else 0, c)
        if not torch.equal(other.view(torch.uint8), c.view(torch.uint8)):
            FAILURES.append(what)
            print(f"FAIL {what}: differs from the same in another way")
        count += 1
    return count, worst


def products(name: str, quick: bool) -> tuple[int, float]:
    count, worst = 0, 0.0
    cases = list(itertools.product(SHAPES, BLOCKS, (True, False)))
    for i, (shape, block, trans) in enumerate(cases):
        if quick and (i + len(name)) % 4:
            continue
        if TYPES[name][0].itemsize == 4:
            block = (block[0], min(128, block[1]), block[2] // 2, block[3])
        stages = [2, 3] if i % 3 else [1, 4]
        n, e = product(name, shape, block, trans, i % 2 == 0, stages)
        count, worst = count + n, max(worst, e)
    return count, worst


def empty() -> tuple[int, float]:
    """Tensors without elements: nothing is read and nothing written."""
    for m, n, k in ((0, 64, 64), (64, 0, 64), (64, 64, 0), (0, 0, 0)):
        product("f16", (m, n, k), BLOCKS[2], True, True, [3])
        product("f16", (m, n, k), BLOCKS[2], False, False, [3])
    return 16, 0.0


def ranks() -> tuple[int, float]:
    worst = 0.0
    a, b = made((5, 200, 136), torch.float16, 1), made((5, 136, 64), torch.float16, 2)
    for rank, copies in itertools.product((3, 4, 5), (False, True)):
        c = torch.empty(5, 200, 64, device="cuda", dtype=torch.float16)
        ranked[(5, 2)](a, b, c, 5, 200, 64, 136, RANK=rank, BM=128, BN=64, BK=32,
                       tensor_copies=copies)  # fmt: skip
        want = (a.double() @ b.double()).half()
        worst = max(worst, check(f"rank {rank} copies={copies}", c, want, 2e-3))
    return 6, worst


def attentions() -> tuple[int, float]:
    worst = 0.0
    for s, d, copies in itertools.product((512, 200), (64, 128), (False, True)):
        q, k, v = (made((s, d), torch.float16, i) for i in range(3))
        o = torch.empty_like(q)
        attention[(tegula.cdiv(s, 64),)](q, k, v, o, s, D=d, BM=64, BN=64, tensor_copies=copies)
        want = torch.softmax(q.double() @ k.double().T, -1) @ v.double()
        worst = max(worst, check(f"attention {s} {d} copies={copies}", o, want.half(), 5e-3))
    return 8, worst


def order() -> tuple[int, float]:
    """Later stores to the same place win; what a kernel writes over its input is seen."""
    a, b = made((64, 256), torch.float16, 1), made((64, 256), torch.float16, 2)
    c = torch.empty(64, 64, device="cuda", dtype=torch.float16)
    for _ in range(20):
        twice[(1,)](a, b, c, 64, 256, BM=64, BK=64)
    worst = check("stores in order", c, (3 * (a.double() @ b.double().T)).half(), 2e-3)
    x = made((64, 64), torch.float16, 3)
    want = (x.double() @ x.double().T).half()
    device_made[(1,)](x, x, x, 64, 64, 64, BM=64, BN=64, BK=64, GRID=1, TRANS=True, ACC=tl.float32)
    return 21, max(worst, check("in place", x, want, 2e-3))


def graphs() -> tuple[int, float]:
    """A recorded launch keeps its tensors; launches with changing tensors do not mix them up."""
    def go(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> None:
        device_made[(4,)](x, y, z, 256, 256, 256, BM=128, BN=128, BK=64, GRID=4, TRANS=True,
                          ACC=tl.float32)  # fmt: skip

    xs = [made((256, 256), torch.float16, i) for i in range(4)]
    zs = [torch.empty_like(x) for x in xs]
    go(xs[0], xs[1], zs[0])
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for i in range(4):
            go(xs[i], xs[(i + 1) % 4], zs[i])
    for z in zs:
        z.zero_()
    graph.replay()
    torch.cuda.synchronize()
    worst = 0.0
    for i in range(4):
        want = (xs[i].double() @ xs[(i + 1) % 4].double().T).half()
        worst = max(worst, check(f"graph {i}", zs[i], want, 2e-3))
    return 5, worst


def launches() -> tuple[int, float]:
    """Time of a launch: with the same tensors, and with others each time."""
    xs = [made((64, 64), torch.float16, i) for i in range(2)]
    z = torch.empty_like(xs[0])

    def go(x: torch.Tensor, copies: bool) -> None:
        device_made[(1,)](x, x, z, 64, 64, 64, BM=64, BN=64, BK=64, GRID=1, TRANS=True,
                          ACC=tl.float32, tensor_copies=copies)  # fmt: skip

    ways = (("pointers", False, 0), ("same maps", True, 0), ("new maps", True, 1))
    for name, copies, step in ways:
        best = float("inf")
        for _ in range(20):
            torch.cuda.synchronize()
            start = time.perf_counter()
            for i in range(100):
                go(xs[i * step % 2], copies)
            best = min(best, (time.perf_counter() - start) / 100)
        print(f"a launch, {name}: {best * 1e6:.2f} us", flush=True)
    return 6000, 0.0


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    others = {f.__name__: f for f in (empty, ranks, attentions, order, graphs, launches)}
    parser.add_argument("--only", default=",".join([*TYPES, *others]))
    options = parser.parse_args()
    print(torch.cuda.get_device_name())
    for name in options.only.split(","):
        if name in others:
            group(name, others[name])
        else:
            group(f"products of {name}", lambda name=name: products(name, options.quick))
    print(f"{len(FAILURES)} failures")
    return min(100, len(FAILURES))


if __name__ == "__main__":
    sys.exit(main())
