"""Declared exceptions: tests of a backend that are known not to pass, with the reason.

    # conformance.toml, shipped with the plugin
    [[unsupported]]
    pattern = "dot.f64.*"            # a test id, `*` and `?` as in file names
    reason = "no matrix unit for f64"

    [[xfail]]
    pattern = "math.tanh.f32"
    reason = "9 ulp near 0.6"
    issue = "https://..."
    since = "0.1"
    until = "0.3"                    # from this version of the plugin on the entry is a failure

    [tolerances]
    exp = 3.0                        # ulp

A plugin returns `load(path, backend)` from its `tegula_conformance` hook. `unsupported` holds only
where the capability record agrees; nothing of the common core (levels 0 to 2) may be an exception.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from tegula.conformance.testing import Result, Test
from tegula.plugin.errors import RecordError
from tegula.plugin.records import ConformanceProfile, Expectation

FIELDS = {
    "unsupported": {"pattern", "reason"},
    "xfail": {"pattern", "reason", "issue", "since", "until"},
}


def load(path: str | Path, backend: str) -> ConformanceProfile:
    """Read an exceptions file. Raises RecordError that names the entry and what is wrong."""
    try:
        data = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise RecordError(f"{path}: {error}") from None
    unknown = set(data) - {*FIELDS, "tolerances"}
    if unknown:
        raise RecordError(f"{path}: unknown tables {sorted(unknown)} (known: {sorted(FIELDS)})")
    entries = []
    for kind in FIELDS:
        for number, entry in enumerate(data.get(kind, ()), 1):
            entries.append(_expectation(path, kind, number, entry))
    tolerances = {str(k): float(v) for k, v in data.get("tolerances", {}).items()}
    return ConformanceProfile(backend, tuple(entries), tolerances)


def _expectation(path: Any, kind: Any, number: int, entry: dict[str, Any]) -> Expectation:
    where = f"{path}: [[{kind}]] number {number}"
    unknown = set(entry) - FIELDS[kind]
    if unknown:
        raise RecordError(f"{where}: unknown keys {sorted(unknown)}")
    reason = str(entry.get("reason", ""))
    if entry.get("issue"):
        reason = f"{reason} ({entry['issue']})"
    try:
        return Expectation(str(entry.get("pattern", "")), kind, reason, str(entry.get("until", "")))
    except RecordError as error:
        raise RecordError(f"{where}: {error}") from None


def matches(expectation: Expectation, id: str) -> bool:
    """Whether an exception is about a test."""
    return fnmatchcase(id, expectation.pattern)


def expired(expectation: Expectation, version: str) -> bool:
    """Whether the plugin's version has reached the one until which the exception holds."""
    return bool(expectation.until) and _numbers(version) >= _numbers(expectation.until)


def _numbers(version: str) -> tuple[int, ...]:
    found = re.match(r"\d+(\.\d+)*", version)
    return tuple(int(n) for n in found[0].split(".")) if found else (0,)


def apply(
    test: Test,
    result: Result,
    expectations: Sequence[Expectation],
    version: str,
    verify_xfails: bool,
) -> Result:
    """The result as the declared exceptions make it."""
    for e in expectations:
        if not matches(e, test.id):
            continue
        if e.kind == "unsupported":
            return _unsupported(result, e)
        return _xfail(test, result, e, version, verify_xfails)
    return result


def _unsupported(result: Result, e: Expectation) -> Result:
    if result.outcome == "unsupported":
        return result
    return Result(
        result.id,
        "fail",
        f"called unsupported ({e.reason}), yet the capability record has it; the test came out "
        f"as {result.outcome} {result.message}".rstrip(),
        result.ms,
        result.max_ulp,
    )


def _xfail(test: Test, result: Result, e: Expectation, version: str, verify_xfails: bool) -> Result:
    def other(outcome: str, message: str) -> Result:
        return Result(result.id, outcome, message, result.ms, result.max_ulp)

    if result.outcome == "unsupported":
        return result
    if result.outcome == "pass":
        return other("fail" if verify_xfails else "xpass", f"expected to fail ({e.reason})")
    if test.level <= 2:
        return other(result.outcome, f"{result.message} (the common core takes no exceptions)")
    if expired(e, version):
        return other("fail", f"{result.message} (excused until {e.until}: {e.reason})")
    return other("xfail", f"{e.reason}: {result.message}")
