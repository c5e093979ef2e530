"""Measure how far off the math functions are, and write docs/math.md and docs/libdevice.md.

    python benchmarks/math/accuracy.py                 go on where the last run stopped
    python benchmarks/math/accuracy.py --passes 1      a 256th of all f32, samples of the rest
    python benchmarks/math/accuracy.py --jobs 4        with so many processes
    python benchmarks/math/accuracy.py exp erfc        some functions only
    python benchmarks/math/accuracy.py --write         publish what was measured

Functions of one f32 are tried on all 2**32 of them, in 256 passes over every 256th; the others, and
those of f64, on samples. Results are kept in accuracy.progress.json beside this file, after every
pass, so that a run may be stopped at any time; a function whose formula has changed starts anew.
Publishing copies them to accuracy.json and writes the pages. Runs on the CPU backend, where a pass
over a function takes a second or two of one core (TEGULA_NUM_THREADS=1), and all of it some hours.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import os
import platform
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from pages import PASSES, render

from tegula import ir
from tegula.codegen.math import ExpandMath
from tegula.codegen.math.library import LibraryFunction, Signature, library
from tegula.codegen.math.measure import wide_enough
from tegula.codegen.math.references import (
    SAME,
    checked_at,
    expected,
    has_reference,
    is_exhaustive,
    samples,
)
from tegula.codegen.math.trial import library_errors, library_kernel, runner
from tegula.passes import PassContext

RESULTS = Path(__file__).parent / "accuracy.json"
PROGRESS = RESULTS.with_suffix(".progress.json")
CHUNK = 1 << 20
SAMPLES = 1 << 20
"""Rows of arguments in a pass over samples, where the values come from numpy or scipy."""
DIGITS = 600
"""The same where they come from mpmath."""


def formula(function: LibraryFunction, signature: Signature) -> str:
    """A short hash of what is measured."""
    module = ExpandMath().run(library_kernel(function, signature), PassContext())
    return hashlib.sha256(str(module).encode()).hexdigest()[:12]


def pass_of_f32(number: int) -> list[list[np.ndarray]]:
    """The chunks of one pass: every 256th f32. Low passes lie far apart."""
    start = int(f"{number:08b}"[::-1], 2) ^ 0x9D  # not the roundest numbers first
    count = (1 << 32) // PASSES
    return [
        [(np.arange(i, i + CHUNK, dtype=np.uint32) * np.uint32(PASSES) + np.uint32(start)).view(
            np.float32
        )]
        for i in range(0, count, CHUNK)
    ]  # fmt: skip


def pass_of_samples(
    function: LibraryFunction, signature: Signature, number: int
) -> list[list[np.ndarray]]:
    """Samples in chunks."""
    x = samples(function, signature, 1 << 17 if number else 1 << 16, number)
    most = DIGITS if slow(function, signature) else SAMPLES
    step = max(1, len(x[0]) // most)
    x = [a[::step] for a in x]
    return [[a[i : i + CHUNK] for a in x] for i in range(0, len(x[0]), CHUNK)]


def slow(function: LibraryFunction, signature: Signature) -> bool:
    """Whether exact values are computed one by one."""
    return checked_at(function, signature) == "mpmath"


def largest_error(
    function: LibraryFunction, signature: Signature, x: list[np.ndarray], y: np.ndarray
) -> tuple[float, int]:
    """The largest error, and where. Correctly rounded results count as 1/2 at most."""
    exact = expected(function, signature, x)
    with np.errstate(all="ignore"):
        rounded = exact.astype(y.dtype)
    bits = f"u{y.dtype.itemsize}"
    fine = (y.view(bits) == rounded.view(bits)) | (np.isnan(y) & np.isnan(rounded))
    (others,) = np.nonzero(~fine)
    if not others.size:
        return 0.5, 0
    error, at = library_errors(function, signature, y[others], exact[others])
    return max(error, 0.5), int(others[at])


def wanted_passes(signature: Signature) -> int:
    return PASSES if is_exhaustive(signature) else 4


def measure(
    function: LibraryFunction, signature: Signature, number: int
) -> tuple[int, float, list[str]]:
    """One pass: how many arguments were tried, the largest error and where it was found."""
    run = runner(function, signature, "cpu")
    chunks = (
        pass_of_f32(number)
        if is_exhaustive(signature)
        else pass_of_samples(function, signature, number)
    )
    tried, largest, where = 0, 0.0, []
    for x in chunks:
        error, at = largest_error(function, signature, x, run(*x))
        tried += len(x[0])
        if error > largest:
            largest, where = error, [repr(a[at].item()) for a in x]
    return tried, largest, where


def measure_named(pass_: tuple[str, str, int]) -> tuple[int, float, list[str]]:
    """`measure` in a process of its own, to which only names are sent."""
    name, text, number = pass_
    function = library()[name]
    signature = next(s for s in function.signatures if str(s) == text)
    return measure(function, signature, number)


Work = tuple[LibraryFunction, Signature, int]


def missing(
    todo: list[tuple[LibraryFunction, Signature]], results: dict[str, Any], passes: int
) -> list[Work]:
    """The passes that have not been made, the first ones of every function first. Entries of
    functions that have changed, or that are new, begin anew.
    """
    work = []
    for function, signature in todo:
        key, mark = f"{function.name}: {signature}", formula(function, signature)
        if results.get(key, {}).get("formula") != mark:
            results[key] = {"formula": mark, "passes": 0, "tried": 0, "error": 0.0, "at": []}
        last = min(passes, wanted_passes(signature))
        work += [(function, signature, n) for n in range(results[key]["passes"], last)]
    return sorted(work, key=lambda w: w[2])


def measured(work: list[Work], jobs: int) -> Iterator[tuple[int, float, list[str]]]:
    """What the passes give, in their order."""
    if jobs == 1:
        yield from (measure(*w) for w in work)
        return
    os.environ["TEGULA_NUM_THREADS"] = "1"  # the processes are the threads
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        yield from pool.imap(measure_named, [(f.name, str(s), number) for f, s, number in work])


def add(results: dict[str, Any], key: str, passed: tuple[int, float, list[str]]) -> None:
    """Enter one more pass into the results."""
    tried, error, at = passed
    entry = results[key]
    entry["tried"] += tried
    entry["passes"] += 1
    if error > entry["error"]:
        entry["error"], entry["at"] = error, at
    results["machine"] = platform.machine()
    save(results, PROGRESS)
    print(f"{key:32} pass {entry['passes']:2} {entry['error']:.3f} at {entry['at']}", flush=True)


def save(results: dict[str, Any], path: Path) -> None:
    whole = path.with_suffix(".new")
    whole.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")
    whole.replace(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="publish, measure nothing")
    parser.add_argument("--passes", type=int, default=PASSES, help="stop after so many passes")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("names", nargs="*", help="functions; all of them if none is named")
    given = parser.parse_args()
    known = next((path for path in (PROGRESS, RESULTS) if path.exists()), None)
    results = json.loads(known.read_text()) if known else {}
    if given.write:
        save(results, RESULTS)
        for path, text in render(results).items():
            path.write_text(text)
        return
    todo = [
        (f, s)
        for name, f in library().items()
        if has_reference(name) and name not in SAME and (name in given.names or not given.names)
        for s in f.signatures
        if wide_enough() or s.float_type is ir.f32
    ]
    work = missing(todo, results, given.passes)
    for (function, signature, _), passed in zip(work, measured(work, given.jobs), strict=True):
        add(results, f"{function.name}: {signature}", passed)


if __name__ == "__main__":
    main()
