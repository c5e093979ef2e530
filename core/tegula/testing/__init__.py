"""Measuring kernels and comparing their results."""

from __future__ import annotations

from tegula.testing.bench import do_bench
from tegula.testing.compare import assert_close
from tegula.testing.report import Benchmark, Mark, perf_report

__all__ = ["Benchmark", "Mark", "assert_close", "do_bench", "perf_report"]
