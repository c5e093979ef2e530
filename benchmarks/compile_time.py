"""Cold compile time of every benchmark kernel, with a small tile and with one 64 times as large;
and the first launch of each in a process that finds it in the disk cache.

    python benchmarks/compile_time.py                      cold compile and launch
    python benchmarks/compile_time.py hits 15 out.json     cache hits: 15 processes for each kernel

Uses an empty cache folder. The time is that of the first call, so it includes specialisation, the
frontend, all passes, code generation, loading, and one run. The launch cost of a one-program
kernel with seven arguments follows, for numpy and, where it is installed, torch.

A cache hit is measured in a process of its own, after the import and the launch of one other
kernel; it too includes loading and one run.
"""

from __future__ import annotations

import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HIT = "--hit"
"""The argument of a child process, before the name of its kernel; the cache folder is given."""

if HIT not in sys.argv:
    os.environ["TEGULA_CACHE_DIR"] = tempfile.mkdtemp()
os.environ["IMPL"] = "tegula"
sys.path.insert(0, str(Path(__file__).parent))

import kernels as K  # noqa: E402
import numpy as np  # noqa: E402


def first_calls(scale: int) -> dict[str, Callable[[], Any]]:
    """One launch of each kernel on tiles `scale` (a square number) times the smallest."""
    x, y = (np.random.default_rng(i).standard_normal(1 << 20).astype("f4") for i in range(2))
    o, bins, counts = np.empty_like(x), np.zeros(1000, "i4"), np.zeros(1000, "i4")
    c, side = 512 * scale, round(scale**0.5)
    t, b = 16 * side, 32 * side
    strides = (64, 1, b, 1, b, 1)

    def attention(causal: bool) -> Callable[[], Any]:
        return lambda: K.attention_fwd_kernel[(1, 1)](
            x, y, x, o, o, 0.1, b, D=64, BM=b, BN=b, CAUSAL=causal
        )

    return {
        "noop": lambda: K.noop_kernel[(1,)](x, y, o, x, y, c, c, BLOCK=c),
        "add": lambda: K.add_kernel[(1,)](x, y, o, 1000, BLOCK=2 * c),
        "softmax": lambda: K.softmax_kernel[(1,)](o, x, c, c, c, BLOCK=c),
        "layer norm": lambda: K.layernorm_kernel[(1,)](
            x, o, y, y, o[:1], o[1:2], c, c, 1e-5, BLOCK=c
        ),
        "dropout": lambda: K.dropout_kernel[(1,)](x, o, 1000, 0.3, 3, BLOCK=c),
        "cumsum": lambda: K.cumsum_kernel[(1,)](x, o, c, BLOCK=c),
        "transpose": lambda: K.transpose_kernel[(1, 1)](x, o, t, t, BM=t, BN=t),
        "histogram": lambda: K.atomic_hist_kernel[(1,)](bins, counts, 1000, BLOCK=2 * c),
        "matmul": lambda: K.matmul_kernel[(1,)](
            x, y, o, b, b, 64, *strides, BM=b, BN=b, BK=32, GROUP=8
        ),
        "matmul, descriptors": lambda: K.matmul_desc_persistent_kernel[(1,)](
            x, y, o, b, b, 64, BM=b, BN=b, BK=32, GROUP=8, NUM_SMS=1, SUB=2
        ),
        "attention": attention(False),
        "attention, causal": attention(True),
    }


def milliseconds(f: Callable[[], Any]) -> float:
    start = time.perf_counter()
    f()
    return (time.perf_counter() - start) * 1e3


def launch_us(arrays: list[Any], n: int = 100_000) -> float:
    """Microseconds of one launch through `kernel[(1,)](...)`."""
    K.noop_kernel[(1,)](*arrays, 1024, 77, BLOCK=64)
    start = time.perf_counter()
    for _ in range(n):
        K.noop_kernel[(1,)](*arrays, 1024, 77, BLOCK=64)
    return (time.perf_counter() - start) / n * 1e6


def hit(name: str) -> float:
    """Milliseconds of a kernel's first launch in this process, after that of another one; NaN if it
    was compiled.
    """
    from tegula.runtime import cache

    calls = first_calls(1)
    calls["add" if name != "add" else "noop"]()
    misses = cache.counts.misses
    ms = milliseconds(calls[name])
    return ms if cache.counts.misses == misses else math.nan


def hits(name: str, processes: int) -> list[float]:
    """`hit` in fresh processes; those that have to compile do not count."""
    command = [sys.executable, __file__, HIT, name]
    found: list[float] = []
    for _ in range(2 * processes + 5):
        ms = float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        if not math.isnan(ms):
            found.append(ms)
        if len(found) == processes:
            break
    return found


def report_hits(processes: int, file: str | None) -> None:
    """A line for each kernel: how long a cache hit takes; all figures in a file."""
    found: dict[str, list[float]] = {}
    for name in first_calls(1):
        ms = found[name] = sorted(hits(name, processes))
        print(
            f"{name:30} median {statistics.median(ms):5.2f} ms   "
            f"{ms[0]:5.2f} to {ms[-1]:5.2f} in {processes} processes",
            flush=True,
        )
    if file is not None:
        rounded = {name: [round(t, 3) for t in ms] for name, ms in found.items()}
        lines = [f"  {json.dumps(name)}: {json.dumps(ms)}" for name, ms in rounded.items()]
        Path(file).write_text("{\n" + ",\n".join(lines) + "\n}\n")


def report() -> None:
    """Cold compile times, and the cost of a launch."""
    warm = np.zeros(64, "f4")
    first = milliseconds(lambda: K.add_kernel[(1,)](warm, warm.copy(), warm.copy(), 64, BLOCK=64))
    print(f"{'first kernel of the process':30} {first:7.1f} ms")
    small, large = first_calls(1), first_calls(64)
    for name in small:
        a, b = milliseconds(small[name]), milliseconds(large[name])
        print(f"{name:30} {a:7.1f} ms   64-times tile {b:7.1f} ms   ratio {b / a:.2f}")
    print(f"{'launch, numpy':30} {launch_us([np.zeros(64, 'f4') for _ in range(5)]):7.2f} us")
    try:
        import torch
    except ImportError:
        return
    print(f"{'launch, torch':30} {launch_us([torch.zeros(64) for _ in range(5)]):7.2f} us")


def main(args: list[str]) -> None:
    if args[:1] == [HIT]:
        print(hit(args[1]))
    elif args[:1] == ["hits"]:
        report_hits(int(args[1]) if len(args) > 1 else 9, args[2] if len(args) > 2 else None)
    else:
        report()


if __name__ == "__main__":
    main(sys.argv[1:])
