"""What a launch costs on the host with an NVIDIA GPU, and on the device between small kernels, and
what loading costs by ptxas and by the driver.

    python benchmarks/cuda_launch.py

The rows are timed in turn, round by round; each is the median of the rounds, in microseconds. A
round is a few hundred launches, then a wait that is not counted. For the device's time the host is
ahead from the beginning, and kernels add 132 blocks.
"""

from __future__ import annotations

import itertools
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("TEGULA_CACHE_DIR", tempfile.mkdtemp())
os.environ["IMPL"] = "tegula"
os.environ["CUDA_CACHE_DISABLE"] = "1"  # the driver assembles each time
sys.path.insert(0, os.path.dirname(__file__))

import kernels as K
import torch

import tegula
from tegula.config import config
from tegula.plugin.registry import registry

ROUNDS, CALLS = 15, 400


def interleaved(rows: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """Median microseconds a call of each function."""
    times: dict[str, list[float]] = {name: [] for name in rows}
    for call in rows.values():
        for _ in range(20):
            call()
    for _ in range(ROUNDS):
        for name, call in rows.items():
            torch.cuda.synchronize()
            start = time.perf_counter_ns()
            for _ in range(CALLS):
                call()
            times[name].append((time.perf_counter_ns() - start) / CALLS / 1e3)
    return {name: statistics.median(values) for name, values in times.items()}


def plainly(kernel: Any, *args: Any, **constants: Any) -> Any:
    """A copy of a kernel that is loaded so that it is never launched as a graph."""
    copy = tegula.jit(kernel.fn)
    with config.scope(graph_launch=False):
        copy[(1,)](*args, **constants)
    return copy


def between_kernels() -> None:
    """Time of the device from one small kernel to the next."""
    x = torch.zeros(132 * 4096, device="cuda")
    y = torch.zeros_like(x)
    one, other = tegula.jit(K.add_kernel.fn), tegula.jit(K.add_kernel.fn)
    plain = plainly(K.add_kernel, x, x, y, x.numel(), BLOCK=4096)[(132,)]

    rows = {
        "plainly": (plain,),
        "as a graph": (one[(132,)],),
        "two graphs in turn": (one[(132,)], other[(132,)]),
        "plainly and as a graph in turn": (plain, one[(132,)]),
    }

    def run(kernels: tuple[Any, ...]) -> None:
        for _ in range(CALLS // len(kernels)):
            for kernel in kernels:
                kernel(x, x, y, x.numel(), BLOCK=4096)

    for name, kernels in rows.items():
        run(kernels)  # often enough for a graph
        took = []
        for _ in range(ROUNDS):
            torch.cuda.synchronize()
            start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            torch.cuda._sleep(8_000_000)
            start.record()
            run(kernels)
            stop.record()
            torch.cuda.synchronize()
            took.append(1e3 * start.elapsed_time(stop) / CALLS)
        print(f"{statistics.median(took):8.2f} us of the device a small kernel, {name}")


def launches() -> dict[str, Callable[[], Any]]:
    """Launches of one kernel of seven arguments, and what they are compared with."""
    t = [torch.empty(16, device="cuda") for _ in range(5)]
    bound = K.noop_kernel[(1,)]
    compiled = bound(*t, 1024, 77, BLOCK=128)
    plain = plainly(K.noop_kernel, *t, 1024, 77, BLOCK=128)[(1,)]
    turn = itertools.cycle((t, t[1:] + t[:1], t[2:] + t[:2]))

    rows = {
        "tegula kernel[grid](...)": lambda: K.noop_kernel[(1,)](*t, 1024, 77, BLOCK=128),
        "tegula bound launcher": lambda: bound(*t, 1024, 77, BLOCK=128),
        "tegula with other arguments": lambda: bound(*next(turn), 1024, 77, BLOCK=128),
        "tegula plainly": lambda: plain(*t, 1024, 77, BLOCK=128),
        "tegula through Python": lambda: compiled[(1,)](*t, 1024, 77),
        "torch.add(out=)": lambda: torch.add(t[0], t[1], out=t[2]),
    }
    try:
        from triton import jit
    except ImportError:
        return rows
    import inspect

    scope: dict[str, Any] = {}
    source = inspect.getsource(K.noop_kernel.fn).replace("@triton.jit\n", "")
    with tempfile.NamedTemporaryFile("w", suffix=".py", delete=False) as file:
        file.write("import triton.language as tl\n" + source)
    exec(compile("import triton.language as tl\n" + source, file.name, "exec"), scope)
    other = jit(scope["noop_kernel"])
    rows["triton kernel[grid](...)"] = lambda: other[(1,)](*t, 1024, 77, BLOCK=128)
    return rows


def loading() -> None:
    """Time from LLVM text to a loaded kernel, by who assembles."""
    x = torch.zeros(1 << 20, device="cuda")
    jobs = {
        "add": lambda: K.add_kernel[(1,)](x, x, x, 1000, BLOCK=1024),
        "softmax": lambda: K.softmax_kernel[(1,)](x, x, 4096, 4096, 4096, BLOCK=4096),
        "matmul": lambda: K.matmul_kernel[(1,)](
            x, x, x, 64, 64, 64, 64, 1, 64, 1, 64, 1, BM=64, BN=64, BK=32, GROUP=8
        ),
    }
    for name, job in jobs.items():
        for who in ("ptxas", "driver", "ptxas", "driver"):
            kernel = getattr(K, f"{name}_kernel")
            kernel.forget()
            with config.scope(ptxas=who, cache=False):
                start = time.perf_counter()
                made = job()
                torch.cuda.synchronize()
            print(f"first launch of {name:8} assembled by {who:7} "
                  f"{1e3 * (time.perf_counter() - start):7.1f} ms, {made.n_regs} registers")


def main() -> None:
    print(registry.backend("cuda").info(0))
    for name, us in interleaved(launches()).items():
        print(f"{us:8.2f} us  {name}")
    between_kernels()
    loading()


if __name__ == "__main__":
    main()
