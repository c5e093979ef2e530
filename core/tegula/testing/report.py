"""Measuring a function over a range of arguments, as tables and, with matplotlib, plots."""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Benchmark:
    """What to measure: along the x axis the arguments `x_names` take `x_vals` (a tuple gives each
    name its own), and there is one line for each of `line_vals`, given as `line_arg`. `args` are
    further arguments of the measured function, the same for all.
    """

    x_names: Sequence[str]
    x_vals: Sequence[Any]
    line_arg: str
    line_vals: Sequence[Any]
    line_names: Sequence[str]
    plot_name: str
    args: dict[str, Any]
    xlabel: str = ""
    ylabel: str = ""
    x_log: bool = False
    y_log: bool = False
    styles: Sequence[tuple[str, str]] | None = None

    rows: list[list[Any]] = field(default_factory=list, repr=False)
    """The last table: x values, and a number per line."""

    @property
    def header(self) -> list[str]:
        """Names of the table's columns."""
        return [*self.x_names, *self.line_names]


class Mark:
    """A measured function; made by `perf_report`, started with `run`."""

    def __init__(self, fn: Callable[..., Any], benchmarks: Benchmark | Sequence[Benchmark]) -> None:
        self.fn = fn
        self.benchmarks = benchmarks

    def run(
        self,
        show_plots: bool = False,
        print_data: bool = False,
        save_path: str = "",
        return_df: bool = False,
        **kwargs: Any,
    ) -> Any:
        """Measure. The tables are printed, saved as CSV (and plots as PNG, if matplotlib is
        installed) in `save_path`, or returned: as pandas data frames, or as lists of rows without
        pandas. Further keywords go to the measured function.
        """
        single = isinstance(self.benchmarks, Benchmark)
        benchmarks = (
            [self.benchmarks] if isinstance(self.benchmarks, Benchmark) else self.benchmarks
        )
        tables = []
        for bench in benchmarks:
            ranges = self._measure(bench, kwargs)
            if print_data:
                print(f"{bench.plot_name}:\n{_text(bench)}")
            if save_path:
                os.makedirs(save_path, exist_ok=True)
                _save(bench, os.path.join(save_path, f"{bench.plot_name}.csv"))
            if show_plots or save_path:
                _plot(bench, ranges, show_plots, save_path)
            tables.append(_frame(bench))
        if return_df:
            return tables[0] if single else tables
        return None

    def _measure(self, bench: Benchmark, kwargs: dict[str, Any]) -> list[list[Any]]:
        """Fill `bench.rows`; gives, per row, what the function said about the spread."""
        bench.rows, spreads = [], []
        for x in bench.x_vals:
            values = list(x) if isinstance(x, list | tuple) else [x] * len(bench.x_names)
            if len(values) != len(bench.x_names):
                raise ValueError(f"{x!r} gives no value to each of {list(bench.x_names)}")
            named = dict(zip(bench.x_names, values))
            results = [
                self.fn(**named, **{bench.line_arg: line}, **bench.args, **kwargs)
                for line in bench.line_vals
            ]
            plain = [r[0] if isinstance(r, tuple | list) else r for r in results]
            spreads.append([r if isinstance(r, tuple | list) else None for r in results])
            bench.rows.append([*values, *plain])
        return spreads


def perf_report(
    benchmarks: Benchmark | Sequence[Benchmark],
) -> Callable[[Callable[..., Any]], Mark]:
    """Make a function measurable over a range: it gets an x value, the line, and fixed arguments,
    and returns a number, or a tuple of a number, a lower and an upper bound.
    """
    return lambda fn: Mark(fn, benchmarks)


def _text(bench: Benchmark) -> str:
    cells = [bench.header, *([_cell(v) for v in row] for row in bench.rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(bench.header))]
    return "\n".join("  ".join(c.rjust(w) for c, w in zip(row, widths)) for row in cells)


def _cell(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _save(bench: Benchmark, path: str) -> None:
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(bench.header)
        writer.writerows(bench.rows)


def _frame(bench: Benchmark) -> Any:
    try:
        import pandas
    except ImportError:
        return [bench.header, *bench.rows]
    return pandas.DataFrame(bench.rows, columns=bench.header)


def _plot(bench: Benchmark, spreads: list[list[Any]], show: bool, save_path: str) -> None:
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        return  # the tables say the same
    figure, axes = plt.subplots()
    xs = [row[0] for row in bench.rows]
    first = len(bench.x_names)
    for i, name in enumerate(bench.line_names):
        color, style = bench.styles[i] if bench.styles else (None, None)
        axes.plot(xs, [row[first + i] for row in bench.rows], label=name, color=color, ls=style)
        bounds = [row[i] for row in spreads]
        if all(b is not None and None not in b for b in bounds):
            axes.fill_between(xs, [b[1] for b in bounds], [b[2] for b in bounds], alpha=0.15)
    axes.legend()
    axes.set_xlabel(bench.xlabel or bench.x_names[0])
    axes.set_ylabel(bench.ylabel)
    axes.set_xscale("log" if bench.x_log else "linear")
    axes.set_yscale("log" if bench.y_log else "linear")
    if show:
        plt.show()
    if save_path:
        figure.savefig(os.path.join(save_path, f"{bench.plot_name}.png"))
    plt.close(figure)
