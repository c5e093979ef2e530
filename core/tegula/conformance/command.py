"""`tegula conformance`: run the suite, and work with its reports."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

OK, FINDINGS, USAGE = 0, 1, 2


def run_command(options: argparse.Namespace) -> int:
    """Entry of `tegula conformance`: 0 all well, 1 findings, 2 wrong usage or no device."""
    import numpy as np

    with np.errstate(all="ignore"):
        return _chosen(options)


def _chosen(options: argparse.Namespace) -> int:
    if options.merge:
        return _merge(options)
    if options.badge:
        from tegula.conformance.report import badge

        print(json.dumps(badge(_read(options.badge)), ensure_ascii=False))
        return OK
    if options.tables:
        from tegula.conformance.report import support_table

        print(support_table([_read(p) for p in options.tables]))
        return OK
    if options.coverage:
        return _coverage(options)
    if options.list or options.show:
        return _look(options)
    if not options.name:
        return _usage("name a backend (`tegula backends` lists them)")
    return _run(options)


def _usage(message: str) -> int:
    print(f"tegula conformance: {message}", file=sys.stderr)
    return USAGE


def _read(path: Path) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(path.read_text())
    return data


def _profiles(options: argparse.Namespace) -> frozenset[str] | None:
    from tegula.conformance.case import PROFILES

    if not options.profile:
        return None
    names = [name for text in options.profile for name in text.split(",")]
    unknown = [n for n in names if n not in (*PROFILES, "core")]
    if unknown:
        raise ValueError(f"no profile '{unknown[0]}' (there are: core, {', '.join(PROFILES)})")
    return frozenset(names) - {"core"}


def _run(options: argparse.Namespace) -> int:
    from tegula.conformance import runner
    from tegula.conformance.testing import GOOD
    from tegula.plugin.errors import RecordError
    from tegula.tools.fuzz import cores

    def progress(test: Any, result: Any) -> None:
        if result.outcome not in GOOD and not options.json:
            print(f"{result.outcome:8} L{test.level} {test.id}: {result.message}", flush=True)

    try:
        made = runner.run(
            options.name,
            device=options.device,
            full=options.full,
            level=options.level,
            profiles=_profiles(options),
            expression=options.expression,
            shard=options.shard,
            seed=options.seed,
            workers=options.workers or cores(),
            isolate=not options.no_isolation,
            verify_xfails=options.verify_xfails,
            exceptions_file=options.exceptions,
            progress=progress,
        )
    except runner.Unavailable as error:
        return _usage(f"unavailable: {error}")
    except (ValueError, RecordError, OSError) as error:
        return _usage(str(error))
    _write(options, made)
    if options.json:
        print(json.dumps(made, indent=1))
    else:
        print("\n".join(runner.summary_lines(made)))
    if not made["tests"]:
        return _usage("no test matches")
    return OK if all(row["outcome"] in GOOD for row in made["tests"]) else FINDINGS


def _write(options: argparse.Namespace, made: dict[str, Any]) -> None:
    if options.report:
        options.report.write_text(json.dumps(made, indent=1) + "\n")
    if options.html:
        from tegula.conformance.html import render

        options.html.write_text(render(made), encoding="utf-8")
    if options.junit:
        from tegula.conformance.report import junit

        options.junit.write_text(junit(made), encoding="utf-8")


def _merge(options: argparse.Namespace) -> int:
    from tegula.conformance.report import merge
    from tegula.conformance.runner import summary_lines

    try:
        made = merge([_read(p) for p in options.merge])
    except ValueError as error:
        return _usage(str(error))
    _write(options, made)
    print(json.dumps(made, indent=1) if options.json else "\n".join(summary_lines(made)))
    return OK


def _look(options: argparse.Namespace) -> int:
    from tegula.conformance.catalog import all_specs, selected
    from tegula.conformance.text import to_text

    if options.show:
        for spec in all_specs():
            if spec.id == options.show:
                print(to_text(spec.make(), [f"case {spec.id}"]))
                return OK
        return _usage(f"no case '{options.show}'; --list shows them, not every test is a case")
    level = 4 if options.level is None else options.level
    for test in selected(options.full, level, _profiles(options), options.expression):
        print(f"L{test.level} {test.id} {' '.join(sorted(test.profiles))}".rstrip())
    return OK


def _coverage(options: argparse.Namespace) -> int:
    from tegula.conformance.coverage import measure

    found = measure()
    if options.json:
        print(json.dumps(found.to_json(), indent=1))
    else:
        print("\n".join(found.missing))
        print(f"{len(found.required)} required, {len(found.missing)} of them uncovered")
    return FINDINGS if found.missing else OK
