"""`tegula.testing`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tegula import testing


def test_bench_gives_milliseconds() -> None:
    def sleep() -> None:
        time.sleep(0.004)

    assert 3.5 < testing.do_bench(sleep, warmup=1, rep=20) < 40
    assert 3.5 < testing.do_bench(sleep, warmup=1, rep=20, quantiles=[0.5]) < 40
    low, high = testing.do_bench(sleep, warmup=1, rep=20, quantiles=[0.0, 1.0])
    assert low <= high
    times = testing.do_bench(sleep, warmup=0, rep=20, return_mode="all")
    assert isinstance(times, list) and len(times) >= 2
    assert testing.do_bench(sleep, warmup=0, rep=8, return_mode="min") <= max(times) * 10
    with pytest.raises(ValueError, match="return_mode"):
        testing.do_bench(sleep, return_mode="avg")


def test_bench_does_not_count_the_first_call() -> None:
    calls: list[int] = []

    def slow_at_first() -> None:
        calls.append(1)
        time.sleep(0.2 if len(calls) == 1 else 0.0005)

    assert testing.do_bench(slow_at_first, warmup=1, rep=10) < 50
    assert len(calls) > 8


def test_bench_clears_gradients() -> None:
    class Leaf:
        grad: Any = 1

    leaf = Leaf()
    testing.do_bench(lambda: None, warmup=0, rep=0.01, grad_to_none=[leaf])
    assert leaf.grad is None


def test_close_arrays_pass_and_others_say_where() -> None:
    x = np.linspace(0, 1, 12, dtype=np.float32).reshape(3, 4)
    testing.assert_close(x, x + 1e-7)
    testing.assert_close(np.array([np.nan, np.inf]), np.array([np.nan, np.inf]))
    y = x.copy()
    y[1, 2] += 0.5
    with pytest.raises(AssertionError, match=r"mine\n1 of 12 .* at \(1, 2\)"):
        testing.assert_close(x, y, err_msg="mine")
    testing.assert_close(x, y, atol=0.6)
    with pytest.raises(AssertionError, match="shapes differ"):
        testing.assert_close(x, x.T)
    with pytest.raises(AssertionError):
        testing.assert_close(np.array([1, 2]), np.array([1, 3]))
    with pytest.raises(AssertionError):
        testing.assert_close(np.array([1.0, 2.0]), np.array([1.0, np.nan]))


def test_tolerances_follow_the_coarser_dtype() -> None:
    torch = pytest.importorskip("torch")
    x = torch.ones(4)
    testing.assert_close(x.to(torch.bfloat16) * 1.01, x)
    with pytest.raises(AssertionError):
        testing.assert_close(x * 1.01, x)


def benchmark(**options: Any) -> testing.Benchmark:
    return testing.Benchmark(
        x_names=["n"], x_vals=[1, 2], line_arg="how", line_vals=["a", "b"],
        line_names=["A", "B"], plot_name="speed", args={"scale": 10}, **options,
    )  # fmt: skip


def measure(n: int, how: str, scale: int) -> tuple[float, float, float]:
    value = float(n * scale + (how == "b"))
    return value, value - 1, value + 1


def test_reports_print_and_save_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = testing.perf_report(benchmark())(measure)
    table = report.run(print_data=True, save_path=str(tmp_path), return_df=True)
    rows = table.values.tolist() if hasattr(table, "values") else table[1:]
    assert [[float(v) for v in row] for row in rows] == [[1, 10, 11], [2, 20, 21]]
    printed = capsys.readouterr().out
    assert printed.startswith("speed:\n") and "20" in printed
    lines = (tmp_path / "speed.csv").read_text().splitlines()
    assert lines == ["n,A,B", "1,10.0,11.0", "2,20.0,21.0"]


def test_reports_of_several_benchmarks_and_names() -> None:
    both = testing.Benchmark(
        ["m", "n"], [(1, 2), 3], "how", ["a"], ["A"], "two", {},
    )  # fmt: skip
    report = testing.perf_report([both])(lambda m, n, how: 10 * m + n)
    (table,) = report.run(return_df=True)
    rows = table.values.tolist() if hasattr(table, "values") else table[1:]
    assert [list(map(float, row)) for row in rows] == [[1, 2, 12], [3, 3, 33]]
    both.x_vals = [(1, 2, 3)]
    with pytest.raises(ValueError, match="no value to each"):
        report.run()
