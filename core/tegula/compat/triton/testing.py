"""Names of `triton.testing` that are not names of `tegula.testing`."""

from __future__ import annotations

from typing import Any


def do_bench_cudagraph(fn: Any, rep: float = 20, grad_to_none: Any = None, **kwargs: Any) -> Any:
    """`do_bench`; there are no graphs to replay."""
    from tegula.testing import do_bench

    return do_bench(fn, warmup=rep / 4, rep=rep, grad_to_none=grad_to_none, **kwargs)


do_bench_proton = do_bench_cudagraph


def _of_a_gpu(name: str, what: str) -> Any:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(f"triton.testing.{name}: {what} of a GPU is not known to Tegula")

    refuse.__name__ = refuse.__qualname__ = name
    refuse.__doc__ = f"Would give {what}; refused when it is called."
    return refuse


cuda_memcheck = _of_a_gpu("cuda_memcheck", "the memory checker")
get_dram_gbps = _of_a_gpu("get_dram_gbps", "the bandwidth")
get_max_simd_tflops = _of_a_gpu("get_max_simd_tflops", "the arithmetic rate")
get_max_tensorcore_tflops = _of_a_gpu("get_max_tensorcore_tflops", "the matrix rate")
nvsmi = _of_a_gpu("nvsmi", "the state")
set_gpu_clock = _of_a_gpu("set_gpu_clock", "the clock")

__all__ = [
    "cuda_memcheck",
    "do_bench_cudagraph",
    "do_bench_proton",
    "get_dram_gbps",
    "get_max_simd_tflops",
    "get_max_tensorcore_tflops",
    "nvsmi",
    "set_gpu_clock",
]
