"""What a launch costs on the host, import time, and the time of a disk-cache hit.

    python benchmarks/launch.py [--device cpu] [--json out.json]

All launch rows are timed in turn, round by round, so that one run compares them fairly; each figure
is the median of the rounds. The kernel has seven arguments and runs one program that does nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np

os.environ["IMPL"] = "tegula"
sys.path.insert(0, os.path.dirname(__file__))

import kernels

import tegula

ROUNDS = 15
CALLS = 5000


def interleaved(rows: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """Median nanoseconds a call of each function."""
    times: dict[str, list[float]] = {name: [] for name in rows}
    for call in rows.values():
        call()
        call()
    for _ in range(ROUNDS):
        for name, call in rows.items():
            start = time.perf_counter_ns()
            for _ in range(CALLS):
                call()
            times[name].append((time.perf_counter_ns() - start) / CALLS)
    return {name: statistics.median(values) for name, values in times.items()}


def launches() -> dict[str, Callable[[], Any]]:
    noop = kernels.noop_kernel
    a, b, c, d, e = (np.zeros(1024, np.float32) for _ in range(5))
    n, m = 1024, 77
    bound = noop[(1,)]

    def grid(meta: dict[str, Any]) -> tuple[int]:
        return (1,)

    rows: dict[str, Callable[[], Any]] = {
        "empty call": lambda: None,
        "numpy": lambda: noop[(1,)](a, b, c, d, e, n, m, BLOCK=128),
        "numpy, launcher kept": lambda: bound(a, b, c, d, e, n, m, BLOCK=128),
        "numpy, grid function": lambda: noop[grid](a, b, c, d, e, n, m, BLOCK=128),
        "numpy add, out=": lambda: np.add(a, b, out=c),
    }
    try:
        import torch
    except ImportError:
        return rows
    t, u, v, w, x = (torch.zeros(1024) for _ in range(5))
    rows["torch"] = lambda: noop[(1,)](t, u, v, w, x, n, m, BLOCK=128)
    rows["torch.add, out="] = lambda: torch.add(t, u, out=v)
    return rows


IMPORT = """
import time, sys
import numpy
start = time.perf_counter()
import tegula
from tegula import jit
first = time.perf_counter() - start
import tegula.language
print(first, time.perf_counter() - start, "torch" in sys.modules, "llvmlite" in sys.modules)
"""

HIT = """
import os, sys, time
os.environ["IMPL"] = "tegula"
sys.path.insert(0, {folder!r})
import numpy as np, tegula, kernels
from tegula.runtime import cache
x = np.zeros(4096, np.float32)
with tegula.use_device({device!r}):
    kernels.noop_kernel[(1,)](x, x, x, x, x, 3, 4, BLOCK=16)
    hits = cache.counts.hits
    start = time.perf_counter()
    kernels.add_kernel[(1,)](x, x, x, 4096, BLOCK=1024)
    first = time.perf_counter() - start
print(first, cache.counts.hits - hits)
"""


def python(text: str, repeats: int) -> list[list[str]]:
    """Outputs of fresh processes, after one that leaves caches (also of bytecode) behind."""
    with tempfile.TemporaryDirectory() as folder:
        env = {**os.environ, "PYTHONPYCACHEPREFIX": folder, "TEGULA_CACHE_DIR": folder}
        env.pop("PYTHONDONTWRITEBYTECODE", None)
        outputs = [
            subprocess.run(
                [sys.executable, "-c", text], capture_output=True, text=True, check=True, env=env
            ).stdout.split()
            for _ in range(repeats + 1)
        ]
    return outputs[1:]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--json", help="file for the figures")
    options = parser.parse_args()
    with tegula.use_device(options.device):
        figures = {f"launch: {k}, ns": v for k, v in interleaved(launches()).items()}
    imports = python(IMPORT, 7)
    for column, what in enumerate(("import tegula", "import tegula and its language")):
        figures[f"{what}, beyond numpy, ms"] = 1e3 * statistics.median(
            float(row[column]) for row in imports
        )
    assert all(row[2] == "False" for row in imports), "tegula imported torch"
    hit = HIT.format(folder=os.path.dirname(os.path.abspath(__file__)), device=options.device)
    runs = python(hit, 7)
    assert all(int(row[1]) >= 1 for row in runs), "the disk cache was not hit"
    figures["first launch on a cache hit, ms"] = 1e3 * statistics.median(
        float(row[0]) for row in runs
    )
    for name, value in figures.items():
        print(f"{name:50} {value:10.2f}")
    if options.json:
        with open(options.json, "w") as file:
            json.dump(figures, file, indent=1)


if __name__ == "__main__":
    main()
