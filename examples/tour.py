"""A tour of Tegula on the best device found: real kernels, checked, timed and compared.

    python examples/tour.py [--device NAME] [--quick]

Exits with 1 if any result is wrong. Errors are relative to a reference in higher precision. The
last column is the peer's time over Tegula's: above 1 means that Tegula is faster. The peer is
PyTorch where it is installed, else numpy.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

for _name in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):  # let numpy choose its fastest kernels
    os.environ.pop(_name, None)
import kernels as K
import numpy as np
import place
from place import Place, torch
from rich.console import Console
from rich.table import Table

import tegula


@dataclass
class Stop:
    """One stop of the tour: run it, check it, and what to compare with."""

    name: str
    size: str
    run: Callable[[], Any]
    error: Callable[[], float]
    tolerance: float
    peer: Callable[[], Any]
    peer_name: str
    work: float
    unit: str  # "GB/s" or "GFLOP/s"


def relative(got: np.ndarray, want: np.ndarray) -> float:
    """Norm of the difference over the norm of the reference, in f64; a wrong shape or NaN gives
    infinity.
    """
    got, want = np.asarray(got, np.float64), np.asarray(want, np.float64)
    if got.shape != want.shape or not np.isfinite(got).all():
        return float("inf")
    return float(np.linalg.norm(got - want) / max(np.linalg.norm(want), 1e-30))


def vector_add(at: Place, rng: np.random.Generator, quick: bool) -> Stop:
    n = 1 << (20 if quick else 24)
    x, y = rng.standard_normal(n, np.float32), rng.standard_normal(n, np.float32)
    out, theirs = np.empty_like(x), np.empty_like(x)
    peer = _torch(
        at, lambda t: torch.add(t(x), t(y), out=t(theirs)), lambda: np.add(x, y, out=theirs)
    )
    block = 8192 if at.on_host else 1024
    dx, dy, do = map(at.put, (x, y, out))
    return Stop(
        "vector add",
        f"{n:,} f32",
        lambda: K.add_kernel[(tegula.cdiv(n, block),)](dx, dy, do, n, BLOCK=block),
        lambda: relative(at.get(out), x.astype(np.float64) + y),
        1e-7,
        *peer,
        12 * n,
        "GB/s",
    )


def softmax(at: Place, rng: np.random.Generator, quick: bool) -> Stop:
    rows, cols = (512, 1000) if quick else (8192, 1000)
    x = rng.standard_normal((rows, cols), np.float32)
    out = np.empty_like(x)

    def reference() -> np.ndarray:
        e = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
        return e / e.sum(1, keepdims=True)

    def in_numpy() -> np.ndarray:
        e = np.exp(x - x.max(1, keepdims=True))
        return e / e.sum(1, keepdims=True)

    peer = _torch(at, lambda t: torch.softmax(t(x), 1), in_numpy)
    dx, do = map(at.put, (x, out))
    return Stop(
        "fused softmax",
        f"{rows} x {cols} f32",
        lambda: K.softmax_kernel[(rows,)](dx, do, cols, cols, BLOCK=1024),
        lambda: relative(at.get(out), reference()),
        1e-6,
        *peer,
        8 * rows * cols,
        "GB/s",
    )


def layer_norm(at: Place, rng: np.random.Generator, quick: bool) -> Stop:
    rows, cols = (256, 4000) if quick else (2048, 4000)
    x = rng.standard_normal((rows, cols), np.float32) * 3 + 1
    w, b = rng.standard_normal(cols, np.float32), rng.standard_normal(cols, np.float32)
    out = np.empty_like(x)

    def norm(x: np.ndarray) -> np.ndarray:
        d = x - x.mean(1, keepdims=True)
        return d / np.sqrt((d * d).mean(1, keepdims=True) + 1e-5) * w + b

    peer = _torch(
        at,
        lambda t: torch.nn.functional.layer_norm(t(x), (cols,), t(w), t(b), 1e-5),
        lambda: norm(x),
    )
    dx, dw, db, do = map(at.put, (x, w, b, out))
    return Stop(
        "layer norm",
        f"{rows} x {cols} f32",
        lambda: K.layernorm_kernel[(rows,)](dx, dw, db, do, cols, cols, 1e-5, BLOCK=4096),
        lambda: relative(at.get(out), norm(x.astype(np.float64))),
        1e-6,
        *peer,
        8 * rows * cols,
        "GB/s",
    )


def dropout(at: Place, rng: np.random.Generator, quick: bool) -> Stop:
    n, p, seed = 1 << (18 if quick else 22), 0.25, 1234
    block = 4096 if at.on_host else 1024
    x, out = rng.standard_normal(n, np.float32), np.empty(n, np.float32)

    def error() -> float:
        keep = philox_uniform(seed, np.arange(n, dtype=np.uint32)) > np.float32(p)
        return relative(at.get(out), np.where(keep, x.astype(np.float64) / (1 - p), 0))

    peer = _torch(
        at,
        lambda t: torch.nn.functional.dropout(t(x), p),
        lambda: np.where(rng.random(n, np.float32) > p, x / np.float32(1 - p), 0),
    )
    dx, do = map(at.put, (x, out))
    return Stop(
        "dropout (Philox)",
        f"{n:,} f32",
        lambda: K.dropout_kernel[(tegula.cdiv(n, block),)](dx, do, n, p, seed, BLOCK=block),
        error,
        1e-6,
        *peer,
        8 * n,
        "GB/s",
    )


def matmul(at: Place, rng: np.random.Generator, quick: bool) -> Stop:
    m, n, k = (250, 300, 200) if quick else (1024, 1024, 1024)
    a, b = rng.standard_normal((m, k), np.float32), rng.standard_normal((k, n), np.float32)
    c, theirs = np.empty((m, n), np.float32), np.empty((m, n), np.float32)
    bm, bn, bk = (128, 256, 64) if at.on_host else (32, 32, 32) if at.for_tests else (128, 128, 32)
    da, db, dc = map(at.put, (a, b, c))
    warps = 4 if at.for_tests else 8
    grid = (tegula.cdiv(m, bm), tegula.cdiv(n, bn))
    peer = _torch(
        at, lambda t: torch.mm(t(a), t(b), out=t(theirs)), lambda: np.matmul(a, b, out=theirs)
    )
    return Stop(
        "matmul",
        f"{m} x {n} x {k} {_products(at)}",
        lambda: K.matmul_kernel[grid](
            da, db, dc, m, n, k, k, 1, n, 1, n, 1, BM=bm, BN=bn, BK=bk, num_warps=warps
        ),
        lambda: relative(at.get(c), a.astype(np.float64) @ b.astype(np.float64)),
        1e-5 if at.exact_products else 2e-3,
        *peer,
        2 * m * n * k,
        "GFLOP/s",
    )


def attention(at: Place, rng: np.random.Generator, quick: bool) -> Stop:
    heads, s, d = (2, 200, 64) if quick else (8, 1024, 64)
    q, k, v = (rng.standard_normal((heads, s, d), np.float32) for _ in range(3))
    out, scale = np.empty_like(q), d**-0.5
    bm = bn = 32 if at.for_tests else 64
    dq, dk, dv, do = map(at.put, (q, k, v, out))

    def exact(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
        w = np.where(np.tri(s, dtype=bool), q @ k.transpose(0, 2, 1) * scale, -np.inf)
        w = np.exp(w - w.max(-1, keepdims=True))
        return (w / w.sum(-1, keepdims=True)) @ v

    peer = _torch(
        at,
        lambda t: torch.nn.functional.scaled_dot_product_attention(
            t(q)[None], t(k)[None], t(v)[None], is_causal=True
        ),
        lambda: exact(q, k, v),
    )
    return Stop(
        "flash attention, causal",
        f"{heads} heads, {s} x {d} {_products(at)}",
        lambda: K.attention_kernel[(tegula.cdiv(s, bm), heads)](
            dq, dk, dv, do, scale, s, D=d, BM=bm, BN=bn
        ),
        lambda: relative(at.get(out), exact(*(t.astype(np.float64) for t in (q, k, v)))),
        1e-5 if at.exact_products else 2e-3,
        *peer,
        2 * heads * s * s * d,
        "GFLOP/s",
    )


def histogram(at: Place, rng: np.random.Generator, quick: bool) -> Stop:
    n, bins, block = 1 << (18 if quick else 22), 1024, 4096 if at.on_host else 1024
    x, out = rng.integers(0, bins, n, np.int32), np.zeros(bins, np.int32)
    dx, do = map(at.put, (x, out))

    def run() -> None:
        K.zero_kernel[(1,)](do, bins, BLOCK=1024)
        K.histogram_kernel[(tegula.cdiv(n, block),)](dx, do, n, BLOCK=block)

    peer = _torch(
        at, lambda t: torch.bincount(t(x), minlength=bins), lambda: np.bincount(x, minlength=bins)
    )
    return Stop(
        "histogram (atomics)",
        f"{n:,} into {bins}",
        run,
        lambda: relative(at.get(out), np.bincount(x, minlength=bins)),
        0.0,
        *peer,
        4 * n,
        "GB/s",
    )


STOPS = (vector_add, softmax, layer_norm, dropout, matmul, attention, histogram)


def philox_uniform(seed: int, offset: np.ndarray) -> np.ndarray:
    """tl.rand in numpy: Philox 4x32, 10 rounds (Salmon et al., SC 2011), first word as a float in
    [0, 1).
    """
    c = [offset.astype(np.uint64)] + [np.zeros(offset.shape, np.uint64)] * 3
    key = [seed & 0xFFFFFFFF, seed >> 32]
    low = np.uint64(0xFFFFFFFF)
    for _ in range(10):
        p0, p1 = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        c = [
            (p1 >> np.uint64(32)) ^ c[1] ^ np.uint64(key[0]),
            p1 & low,
            (p0 >> np.uint64(32)) ^ c[3] ^ np.uint64(key[1]),
            p0 & low,
        ]
        key = [(key[0] + 0x9E3779B9) & 0xFFFFFFFF, (key[1] + 0xBB67AE85) & 0xFFFFFFFF]
    word = c[0].astype(np.uint32).view(np.int32)
    return np.where(word < 0, -word - 1, word).astype(np.float32) * np.float32(4.6566127342e-10)


def _torch(
    at: Place, with_torch: Callable[[Any], Any], with_numpy: Callable[[], Any]
) -> tuple[Callable[[], Any], str]:
    """The peer's call and name; numpy arrays become torch tensors, on the same memory if they are
    the host's.
    """
    if torch is None:
        return with_numpy, "numpy"
    where = "" if at.on_host or at.torch_device is not None else ", host"
    return lambda: with_torch(at.tensor), f"torch{where}"


def _products(at: Place) -> str:
    return "f32" if at.exact_products else "f32 (tf32)"


def main() -> int:
    parser = argparse.ArgumentParser(description="A tour of Tegula on the best device found.")
    parser.add_argument(
        "--device", help="device to run on, such as cpu (default: the best one found)"
    )
    parser.add_argument("--quick", action="store_true", help="small sizes, for slow devices")
    options = parser.parse_args()
    if options.device:
        tegula.use_device(options.device)
    # A pipe has no width; the table needs about 120 columns.
    console = Console(width=None if sys.stdout.isatty() else 120)
    rng, wrong = np.random.default_rng(0), 0
    at = place.best()
    quick = options.quick or at.for_tests
    table = Table(title=f"Tegula {tegula.__version__} on {at.id}, {at.selection.info.name}")
    for column in (
        "kernel",
        "size",
        "error",
        "first call",
        "time",
        "rate",
        "peer",
        "peer / Tegula",
    ):
        table.add_column(
            column, justify="left" if column in ("kernel", "size", "peer") else "right"
        )
    for make in STOPS:
        stop = make(at, rng, quick)
        start = time.perf_counter()
        stop.run()
        at.wait()
        first, error = time.perf_counter() - start, stop.error()
        wrong += not error <= stop.tolerance  # also when the error is NaN
        ours, peer = at.interleaved(stop.run, stop.peer, 3 if quick else 15)
        right = error <= stop.tolerance
        shown = f"{error:.1e}" if right else f"[red]WRONG {error:.1e}"
        rate = f"{stop.work / ours / 1e9:.1f} {stop.unit}"
        cells = (f"{first * 1e3:.0f} ms", f"{ours * 1e3:.3f} ms", rate)
        table.add_row(stop.name, stop.size, shown, *cells, stop.peer_name, f"{peer / ours:.2f}")
    console.print(table)
    wrong += not show_kmeans(at, console)
    return 1 if wrong else 0


def show_kmeans(at: Place, console: Console) -> bool:
    """Cluster scikit-learn's digits; true if the result agrees with scikit-learn's."""
    import kmeans

    result = kmeans.compare(at)
    table = Table(title="k-means on scikit-learn's digits", show_header=False)
    for name, value in result.items():
        table.add_row(name, f"{value:g}")
    console.print(table)
    agrees = (
        abs(result["inertia"] / result["sklearn inertia"] - 1) < 1e-4
        and result["labels equal"] > 0.999
    )
    console.print("agrees with scikit-learn" if agrees else "[red]differs from scikit-learn")
    return agrees


if __name__ == "__main__":
    sys.exit(main())
