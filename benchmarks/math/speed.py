"""Time per element of every math function on the CPU backend, beside numpy and torch.

    TEGULA_NUM_THREADS=1 python benchmarks/math/speed.py [names]

Arrays stay in the cache, everything runs on one thread and in turns, and the best time of each
counts. Large angles are a row of their own, since they take another way.
"""

from __future__ import annotations

import ctypes
import os
import sys
import time
from collections.abc import Callable

import numpy as np

from tegula import ir
from tegula.codegen.math import FUNCTIONS
from tegula.codegen.math.measure import BLOCK, elementwise_kernel
from tegula.conformance.session import Session

SIZE = 4 * BLOCK
ROUNDS, REPEATS = 40, 5


ENTRY = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, *[ctypes.c_int] * 3,
    ctypes.c_void_p,
)  # fmt: skip


def compiled(name: str, x: np.ndarray) -> Callable[[], object]:
    """The function on the CPU backend, with its arguments packed beforehand."""
    session = Session("cpu")
    dtype = ir.f32 if x.dtype == np.float32 else ir.f64
    kernel = session.device.load(session.compile(elementwise_kernel(name, dtype)))
    y = np.empty_like(x)
    slots = np.array([x.ctypes.data, y.ctypes.data, SIZE], np.int64)
    entry, address = ENTRY(kernel.launch_address or 0), slots.ctypes.data
    keep = (kernel, x, y, slots)
    return lambda keep=keep: entry(kernel.handle, address, 3, SIZE // BLOCK, 1, 1, None)


def rivals(name: str, x: np.ndarray) -> dict[str, Callable[[], object]]:
    """The same function by other libraries, without allocation where they can."""
    found: dict[str, Callable[[], object]] = {}
    out = np.empty_like(x)
    if hasattr(np, name):
        found["numpy"] = lambda: getattr(np, name)(x, out=out)
    try:
        import torch
    except ImportError:
        return found
    torch.set_num_threads(1)
    source, target = torch.from_numpy(x), torch.from_numpy(out)
    found["torch"] = lambda: getattr(torch, name)(source, out=target)
    return found


def best_times(calls: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Nanoseconds per element."""
    best = dict.fromkeys(calls, float("inf"))
    for _ in range(ROUNDS):
        for key, call in calls.items():
            start = time.perf_counter()
            for _ in range(REPEATS):
                call()
            spent = (time.perf_counter() - start) / REPEATS
            best[key] = min(best[key], spent / SIZE * 1e9)
    return best


def main() -> None:
    os.environ.setdefault("TEGULA_NUM_THREADS", "1")
    names = sys.argv[1:] or list(FUNCTIONS)
    rng = np.random.default_rng(0)
    print(f"{'function':16}{'tegula':>8}{'numpy':>8}{'torch':>8}   ns per element")
    for dtype in (ir.f32, ir.f64):
        for name in names:
            spreads = {"": 4.0, " large": 1e12} if name in ("sin", "cos") else {"": 4.0}
            for label, spread in spreads.items():
                x = (rng.uniform(0.01, 1, SIZE) * spread).astype(ir.numpy_dtype(dtype))
                times = best_times({"tegula": compiled(name, x), **rivals(name, x)})
                cells = [f"{times[k]:8.3f}" if k in times else " " * 8 for k in
                         ("tegula", "numpy", "torch")]  # fmt: skip
                print(f"{dtype} {name + label:12}{''.join(cells)}", flush=True)


if __name__ == "__main__":
    main()
