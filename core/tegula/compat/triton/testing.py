"""Names of `triton.testing` that are not names of `tegula.testing`."""

from __future__ import annotations

from typing import Any


def do_bench_cudagraph(fn: Any, rep: float = 20, grad_to_none: Any = None, **kwargs: Any) -> Any:
    """`do_bench`; there are no graphs to replay."""
    from tegula.testing import do_bench

    return do_bench(fn, warmup=rep / 4, rep=rep, grad_to_none=grad_to_none, **kwargs)


do_bench_proton = do_bench_cudagraph

__all__ = ["do_bench_cudagraph", "do_bench_proton"]
