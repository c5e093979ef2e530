"""Measure the largest error of every math function, and write docs/math.md.

    python benchmarks/math/accuracy.py --write            every f32, and samples of f64
    python benchmarks/math/accuracy.py --step 1000        a quick look

Runs on the CPU backend; all of it takes about half an hour on one core.
"""

from __future__ import annotations

import argparse
import platform
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from tegula import ir
from tegula.codegen.math import FUNCTIONS
from tegula.codegen.math.measure import (
    exact,
    on_backend,
    operation_counts,
    samples,
    wide_enough,
    worst,
)

TARGET = Path(__file__).parents[2] / "docs/math.md"
CHUNK = 1 << 20
Function = Callable[[np.ndarray], np.ndarray]

PAGE = """# Math functions

Every math function is written once, in tile IR (`core/tegula/codegen/math`), and expanded by the
pass `expand-math`; no library is called. So results are the same on every backend, but for
functions that a backend declares as native. Denormal numbers, infinities, NaN and signed zeros are
handled as IEEE 754 and C have them, over the whole range of arguments: angles of any size, results
that overflow or become denormal.

Errors are in units in the last place of the exact result. The bound is what tests assert; what was
measured is the largest error over {f32}, and
{f64} (random bits, the ends of
all binades, and the ranges where a function does its work). Operations count what one element costs
in vector code; a second number counts what is computed only where an element needs it: for angles
above 65536 (f32) or 2²⁸ (f64), and for logarithms of anything but positive normal numbers.

| function | f32 bound | f32 measured | at | f64 bound | f64 measured | at | operations f32 | f64 |
|---|---|---|---|---|---|---|---|---|
{rows}

`sqrt`, `floor`, `ceil`, `trunc` and `rint` are exact: every machine has them.

Measured on {machine}; repeat it with
`python benchmarks/math/accuracy.py --write`. The polynomials come from
`benchmarks/math/coefficients.py`, which states what each one approximates;
`benchmarks/math/speed.py` times all functions beside numpy and torch.

To add a function: declare its op (`core/tegula/ir/ops/arith.py`), write the formula with an
`Emitter`, and enter it with its bounds into `FUNCTIONS` (`core/tegula/codegen/math/functions.py`).
The tests and this page take it from there.
"""


def measure(function: Function, name: str, chunks: Iterator[np.ndarray]) -> tuple[float, float]:
    """The largest error over all arguments, and where it is."""
    largest, at = 0.0, 0.0
    for x in chunks:
        error, index = worst(function(x), exact(name, x))
        if error > largest:
            largest, at = error, float(x[index])
    return largest, at


def every_f32(step: int) -> Iterator[np.ndarray]:
    """All floats by their bits, or every so many."""
    for start in range(0, 1 << 32, CHUNK * step):
        bits = np.arange(start, min(start + CHUNK * step, 1 << 32), step, dtype=np.uint64)
        yield bits.astype(np.uint32).view(np.float32)


def many_f64(name: str, count: int) -> Iterator[np.ndarray]:
    for seed in range(max(1, count // CHUNK)):
        yield samples(name, ir.f64, min(count, CHUNK), seed)


def row(name: str, backend: str, step: int, count: int) -> str:
    function = FUNCTIONS[name]
    single, single_at = measure(on_backend(name, ir.f32, backend), name, every_f32(step))
    cells = [f"`{name}`", str(function.f32_ulp), f"{single:.3f}", f"{single_at:.9g}"]
    cells.append(str(function.f64_ulp))
    if wide_enough():
        on_f64 = on_backend(name, ir.f64, backend)
        double, double_at = measure(on_f64, name, many_f64(name, count))
        cells += [f"{double:.3f}", f"{double_at:.17g}"]
    else:
        cells += ["", ""]
    for dtype in (ir.f32, ir.f64):
        usual, whole = operation_counts(name, dtype)
        cells.append(str(usual) if usual == whole else f"{usual}, {whole}")
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="replace docs/math.md")
    parser.add_argument("--step", type=int, default=1, help="take every so many f32 only")
    parser.add_argument("--samples", type=int, default=1 << 22, help="of f64, from each range")
    parser.add_argument("--backend", default="cpu", help="where to run")
    parser.add_argument("names", nargs="*", default=list(FUNCTIONS), help="functions")
    given = parser.parse_args()
    rows = []
    for name in given.names:
        rows.append(row(name, given.backend, given.step, given.samples))
        print(rows[-1], flush=True)
    if given.write:
        kinds = "every f32" if given.step == 1 else f"every {given.step}th f32"
        TARGET.write_text(
            PAGE.format(
                rows="\n".join(rows),
                f32=kinds,
                f64=f"{given.samples / 1e6:.1f} million f64 from each of several ranges",
                machine=f"{platform.machine()}, on the backend `{given.backend}`",
            )
        )


if __name__ == "__main__":
    main()
