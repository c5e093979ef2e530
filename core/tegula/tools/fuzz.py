"""`tegula fuzz`: random tile programs on a backend, compared with the interpreter.

Programs come from numbers, so a run can be repeated. What fails is made smaller and written as a
`.tir` file that says its arguments and what is expected.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tegula.conformance.case import Case
from tegula.conformance.pool import Answer, Pool
from tegula.conformance.text import from_text, to_text

SIZES = (6, 10, 14, 20, 30)
"""Steps of a program; which one is chosen by its seed."""
TIMEOUT = 60.0

Say = Callable[[str], None]


@dataclass
class Finding:
    """A program on which the backend and the interpreter differ."""

    seed: int
    outcome: str
    message: str
    text: str
    """The case as a `.tir` file, reduced if there was time."""
    path: Path | None = None


@dataclass
class Summary:
    """A whole run."""

    backend: str
    programs: int = 0
    unsupported: int = 0
    seconds: float = 0.0
    findings: list[Finding] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        return {
            "backend": self.backend,
            "programs": self.programs,
            "unsupported": self.unsupported,
            "seconds": round(self.seconds, 1),
            "findings": [
                {
                    "seed": f.seed,
                    "outcome": f.outcome,
                    "message": f.message,
                    "file": str(f.path or ""),
                }
                for f in self.findings
            ],
        }


def size_of(seed: int) -> int:
    """How many steps the program of a seed has."""
    return SIZES[seed % len(SIZES)]


def fuzz(
    backend: str,
    programs: int = 1000,
    *,
    first: int = 0,
    workers: int = 1,
    device: int = 0,
    reduce_seconds: float = 30.0,
    stop_after: int = 5,
    directory: Path | None = None,
    say: Say = lambda text: None,
    timeout: float = TIMEOUT,
) -> Summary:
    """Run programs `first`, `first + 1`, ... and reduce those that fail."""
    summary = Summary(backend)
    begin = time.monotonic()
    settings = {"backend": backend, "device": device}
    with Pool(settings, workers, timeout) as pool, Pool(settings, 1, timeout) as second:
        jobs: Iterator[dict[str, Any]] = (
            {"do": "program", "seed": seed, "size": size_of(seed)}
            for seed in range(first, first + programs)
        )
        for answer in pool.map(jobs):
            summary.programs += 1
            if answer.outcome == "unsupported":
                summary.unsupported += 1
            elif answer.outcome != "pass":
                finding = examine(answer, second, reduce_seconds)
                save(finding, directory)
                summary.findings.append(finding)
                say(f"seed {finding.seed}: {finding.outcome}: {finding.message}")
                if finding.path is not None:
                    say(f"  {finding.path}")
                if len(summary.findings) >= stop_after:
                    break
            if summary.programs % 500 == 0:
                rate = summary.programs / (time.monotonic() - begin)
                say(f"{summary.programs} programs, {rate:.0f} a second")
    summary.seconds = time.monotonic() - begin
    return summary


def examine(answer: Answer, pool: Pool, seconds: float) -> Finding:
    """What a failed program shows, in as small a form as there is time for."""
    from tegula.conformance.programs import random_program

    seed = answer.job["seed"]
    if answer.data.get("text"):
        case = from_text(answer.data["text"])
    else:  # the process died with it
        case = random_program(seed, size=answer.job["size"]).case()
    message = answer.message
    if seconds > 0:
        case, message = reduced(case, answer.outcome, message, pool, seconds)
    remarks = [f"program {seed}: {answer.outcome}: {message}"]
    return Finding(seed, answer.outcome, message, to_text(case, remarks))


def reduced(case: Case, outcome: str, message: str, pool: Pool, seconds: float) -> tuple[Case, str]:
    """A smaller case with the same kind of fault, and what it says."""
    from tegula.tools.reduce import reduce_case

    last = [message]

    def fails(candidate: Case) -> bool:
        answer = pool.one(case_job(candidate))
        if answer.outcome == outcome and same_kind(answer.message, message, outcome):
            last[0] = answer.message
            return True
        return False

    return reduce_case(case, fails, seconds), last[0]


def case_job(case: Case) -> dict[str, Any]:
    """What a worker is told of a case: its text, and how far from right results may be."""
    ulp = {name: wanted.rule.ulp for name, wanted in case.expected.items()}
    return {"do": "case", "text": to_text(case), "ulp": ulp}


def same_kind(message: str, first: str, outcome: str) -> bool:
    """Errors have to stay the same error; for others the outcome says enough."""
    return outcome != "error" or message[:24] == first[:24]


def save(finding: Finding, directory: Path | None) -> None:
    if directory is None:
        return
    directory.mkdir(parents=True, exist_ok=True)
    finding.path = directory / f"program{finding.seed}.tir"
    finding.path.write_text(finding.text)


# -------------------------------------------------------------------------------------------------
# Entries of the command line; it is declared in `tegula.tools.commands`


def run_fuzz(options: argparse.Namespace) -> int:
    """Entry of `tegula fuzz`: 0 without a difference, 1 with one, 2 if nothing could run."""
    import json

    problem = cannot_run(options.name, options.device)
    if problem:
        print(f"tegula fuzz: {problem}", file=sys.stderr)
        return 2
    summary = fuzz(
        options.name,
        options.programs,
        first=options.seed,
        workers=options.workers or cores(),
        device=options.device,
        reduce_seconds=options.reduce_seconds,
        stop_after=options.stop_after,
        directory=options.out,
        say=(lambda text: None) if options.json else lambda text: print(text, flush=True),
    )
    if options.json:
        print(json.dumps(summary.to_json(), indent=2))
    else:
        found = len(summary.findings)
        print(
            f"{summary.programs} programs ({summary.unsupported} unsupported) in "
            f"{summary.seconds:.0f} s: {found or 'no'} difference{'s' if found != 1 else ''}"
        )
    return 1 if summary.findings else 0


def run_reduce(options: argparse.Namespace) -> int:
    """Entry of `tegula reduce`."""
    from tegula.conformance.text import read
    from tegula.tools.reduce import completed, order_of_sums_shows

    problem = cannot_run(options.name, options.device)
    if not problem and not options.file.is_file():
        problem = f"there is no file {options.file}"
    if problem:
        print(f"tegula reduce: {problem}", file=sys.stderr)
        return 2
    case = read(options.file)
    # What is expected is what the interpreter says.
    case = completed(case, order_of_sums_shows(case)) or case
    with Pool({"backend": options.name, "device": options.device}, 1, TIMEOUT) as pool:
        first = pool.one(case_job(case))
        if first.outcome in ("pass", "unsupported"):
            print(f"tegula reduce: it does not fail on {options.name}: {first.outcome}")
            return 1
        case, message = reduced(case, first.outcome, first.message, pool, options.seconds)
    text = to_text(case, [f"{options.name}: {first.outcome}: {message}"])
    if options.out:
        options.out.write_text(text)
    else:
        print(text)
    return 0


def cannot_run(backend: str, device: int) -> str:
    """Why the backend cannot run anything here; empty if it can."""
    from tegula.plugin.errors import PluginError
    from tegula.plugin.registry import registry

    try:
        registry.backend(backend).info(device)
    except PluginError as error:
        return str(error)
    return ""


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
