"""Timing."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

MODES: Final[dict[str, Callable[[Sequence[float]], Any]]] = {
    "mean": statistics.fmean,
    "median": statistics.median,
    "min": min,
    "max": max,
    "all": list,
}


def do_bench(
    fn: Callable[[], Any],
    warmup: float = 25,
    rep: float = 100,
    grad_to_none: Sequence[Any] | None = None,
    quantiles: Sequence[float] | None = None,
    return_mode: str = "mean",
) -> Any:
    """Time of `fn()` in ms.

    warmup, rep: ms to spend before measuring, and measuring; `fn` runs at least once for each.
    grad_to_none: arrays whose `.grad` is set to None before each run. quantiles: which of the
    measured times to return, 0.5 for the median. return_mode: `mean`, `median`, `min`, `max`, or
    `all` for a list of every time; ignored if there are quantiles.
    """
    if return_mode not in MODES:
        raise ValueError(f"return_mode is one of {', '.join(MODES)}, not {return_mode!r}")
    wait = _synchronizer()
    fn()  # what a first call does besides: compiling, touching memory
    estimate = max(_run(fn, wait), 1e-6)
    if estimate < min(warmup, rep) / 5:
        estimate = max(statistics.median(_run(fn, wait) for _ in range(5)), 1e-6)
    for _ in range(max(1, int(warmup / estimate)) if estimate < warmup else 0):
        fn()
    times = []
    for _ in range(max(1, int(rep / estimate))):
        for tensor in grad_to_none or ():
            tensor.grad = None
        times.append(_run(fn, wait))
    if quantiles is not None:
        found = [float(t) for t in np.quantile(times, quantiles)]
        return found[0] if len(found) == 1 else found
    return MODES[return_mode](times)


def _run(fn: Callable[[], Any], wait: Callable[[], Any]) -> float:
    wait()
    start = time.perf_counter()
    fn()
    wait()
    return 1e3 * (time.perf_counter() - start)


def _synchronizer() -> Callable[[], Any]:
    """Waits for launches to finish; launches on host memory have finished when they return."""
    from tegula.plugin import select

    device = select.select_device([], None).open()
    return getattr(device, "synchronize", lambda: None)
