"""Runs tests in worker processes and makes the report."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tegula.conformance import exceptions, report
from tegula.conformance.catalog import selected
from tegula.conformance.pool import Pool
from tegula.conformance.report import Report
from tegula.conformance.testing import Context, Result, Test, perform
from tegula.plugin.records import ConformanceProfile

Progress = Callable[[Test, Result], None]


class Unavailable(Exception):
    """The backend has no device to test; that is never a success."""


def run(
    backend: str,
    *,
    device: int = 0,
    full: bool = False,
    level: int | None = None,
    profiles: frozenset[str] | None = None,
    expression: str = "",
    shard: tuple[int, int] = (1, 1),
    seed: int = 0,
    workers: int = 1,
    isolate: bool = True,
    verify_xfails: bool = False,
    exceptions_file: Path | None = None,
    progress: Progress = lambda test, result: None,
    timeout_scale: float = 1.0,
    fail_fast: bool = False,
) -> Report:
    """Run the selected tests and report. Raises Unavailable where there is no device."""
    from tegula.plugin.errors import PluginError
    from tegula.plugin.registry import registry

    try:
        found = registry.backend(backend)
        found.info(device)
    except PluginError as error:
        raise Unavailable(str(error)) from None
    if level is None:
        level = 4 if full else 2
    tests = selected(full, level, profiles, expression, shard)
    profile = _profile(backend, exceptions_file)
    begin = time.monotonic()
    execute = _isolated if isolate else _here
    results: dict[str, Result] = {}
    for test, raw in execute(backend, device, full, seed, workers, timeout_scale, tests):
        result = exceptions.apply(
            test, raw, profile.expectations, found.source.version, verify_xfails
        )
        results[test.id] = result
        progress(test, result)
        if fail_fast and result.outcome not in ("pass", "unsupported", "xfail"):
            break
    done = [t for t in tests if t.id in results]
    return report.build(
        backend,
        done,
        results,
        device=device,
        full=full,
        seed=seed,
        shard=shard,
        complete=not expression and profiles is None and len(done) == len(tests),
        seconds=time.monotonic() - begin,
    )


def _profile(backend: str, path: Path | None) -> ConformanceProfile:
    if path is not None:
        return exceptions.load(path, backend)
    from tegula.plugin.registry import registry

    return registry.backend(backend).conformance()


def _here(backend, device, full, seed, workers, scale, tests):  # type: ignore[no-untyped-def]
    """In this process: for debugging, and for tests of the suite."""
    context = Context(backend, device, full, seed)
    for test in tests:
        yield test, perform(test, context)


def _isolated(backend, device, full, seed, workers, scale, tests):  # type: ignore[no-untyped-def]
    """In worker processes: crashes and hangs are outcomes."""
    by_id = {t.id: t for t in tests}
    settings = {"backend": backend, "device": device, "full": full, "seed": seed}
    with Pool(settings, workers) as pool:
        jobs = ({"do": "test", "id": t.id} for t in tests)
        for answer in pool.map(jobs, lambda job: by_id[job["id"]].timeout * scale):
            test = by_id[answer.job["id"]]
            if answer.outcome in ("crash", "timeout"):
                yield test, Result(test.id, answer.outcome, answer.message)
            else:
                data = answer.data
                ulp = data["max_ulp"] if data["max_ulp"] is not None else float("inf")
                yield (
                    test,
                    Result(test.id, data["outcome"], data["message"], data["ms"], ulp),
                )


def summary_lines(made: Report) -> Sequence[str]:
    """What a person wants to know at the end of a run."""
    counts = ", ".join(f"{n} {outcome}" for outcome, n in made["counts"].items() if n)
    lines = [f"{len(made['tests'])} tests in {made['seconds']:.0f} s: {counts}"]
    if made["complete"] and made["shard"] == [1, 1]:
        lines.append(made["claim"])
        if made["mode"] != "full":
            lines.append("a quick run makes no claim; --full does")
        elif not made["conformant"]:
            lines.append("not conformant: see what did not pass")
    else:
        lines.append("not all tests were run: no level can be told")
    return lines
