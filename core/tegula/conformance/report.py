"""Reports: what was run, what came out, what may be claimed. JSON, HTML, JUnit, badge, tables."""

from __future__ import annotations

import hashlib
import json
import platform
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tegula.conformance import LEVELS, REPORT_SCHEMA, SUITE_VERSION
from tegula.conformance.case import PROFILES
from tegula.conformance.testing import GOOD, OUTCOMES, Result, Test

Report = dict[str, Any]


def build(
    backend: str,
    tests: Sequence[Test],
    results: Mapping[str, Result],
    *,
    device: int = 0,
    full: bool = False,
    seed: int = 0,
    shard: tuple[int, int] = (1, 1),
    complete: bool = True,
    seconds: float = 0.0,
) -> Report:
    """The report of a run. `complete` is false where a filter left tests out."""
    rows = [
        {
            "level": test.level,
            "profiles": sorted(test.profiles),
            "requires": list(test.requires),
            "candidate": test.candidate,
            **results[test.id].to_json(),
        }
        for test in tests
    ]
    report: Report = {
        "schema": REPORT_SCHEMA,
        "suite": SUITE_VERSION,
        **_versions(backend),
        **_subject(backend, device),
        "mode": "full" if full else "quick",
        "seed": seed,
        "shard": list(shard),
        "complete": complete,
        "seconds": round(seconds, 1),
        "tests": rows,
    }
    return finished(report)


def _versions(backend: str) -> dict[str, Any]:
    from tegula import __version__
    from tegula.versions import API, IR_VERSION

    return {
        "tegula": __version__,
        "api": list(API),
        "ir": list(IR_VERSION),
        "python": platform.python_version(),
        "system": platform.platform(),
    }


def _subject(name: str, device: int) -> dict[str, Any]:
    from tegula.plugin.registry import registry

    backend = registry.backend(name)
    info = backend.info(device)
    capabilities = backend.compiler.capabilities(info.target)
    return {
        "backend": {
            "name": name,
            "dist": backend.source.dist,
            "version": backend.source.version,
            "fingerprint": backend.compiler.fingerprint(),
        },
        "device": info.to_json(),
        "capabilities": {"sha256": capabilities.digest(), **capabilities.to_json()},
    }


def finished(report: Report) -> Report:
    """The report with its counts, what was achieved, the claim and the checksum."""
    report = {k: v for k, v in report.items() if k != "sha256"}
    found = Counter(row["outcome"] for row in report["tests"])
    report["counts"] = {outcome: found.get(outcome, 0) for outcome in OUTCOMES}
    whole = report["complete"] and report["shard"] == [1, 1]
    level = achieved_level(report["tests"]) if whole else -1
    profiles = achieved_profiles(report["tests"]) if whole and level >= 2 else []
    report["achieved"] = {"level": level, "profiles": profiles}
    report["claim"] = claim(level, profiles)
    bad = sum(n for outcome, n in found.items() if outcome not in GOOD)
    report["conformant"] = bool(whole and report["mode"] == "full" and level >= 2 and not bad)
    report["sha256"] = digest(report)
    return report


def digest(report: Mapping[str, Any]) -> str:
    """Checksum of everything in the report but itself."""
    kept = {k: v for k, v in report.items() if k != "sha256"}
    text = json.dumps(kept, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def achieved_level(rows: Iterable[Mapping[str, Any]]) -> int:
    """The highest level of which every test outside of profiles came out well; -1 for none."""
    wrong = len(LEVELS)
    seen = set()
    for row in rows:
        if row["profiles"] or row["candidate"]:
            continue
        seen.add(row["level"])
        well = row["outcome"] in GOOD
        if row["level"] == 2:  # the common core has to be there
            well = row["outcome"] == "pass"
        if not well:
            wrong = min(wrong, row["level"])
    reached = -1
    for level in range(len(LEVELS)):
        if level >= wrong or level not in seen:
            break
        reached = level
    return reached


def achieved_profiles(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Profiles of which every test passed.

    A test that belongs to this profile alone has to pass; one that belongs to several may be
    unsupported, because another one may be what is missing.
    """
    found = []
    for profile in PROFILES:
        mine = [r for r in rows if profile in r["profiles"] and not r["candidate"]]
        alone = [r for r in mine if r["profiles"] == [profile]]
        well = all(r["outcome"] in GOOD for r in mine)
        if well and alone and all(r["outcome"] in ("pass", "xfail") for r in alone):
            found.append(profile)
    return found


def claim(level: int, profiles: Sequence[str]) -> str:
    """What may be said about the backend."""
    if level < 0:
        return f"tegula-conformance {SUITE_VERSION}: no level"
    return f"tegula-conformance {SUITE_VERSION}: " + " + ".join([f"L{level}", *profiles])


def merge(reports: Sequence[Report]) -> Report:
    """One report from those of all shards. Raises ValueError if they do not belong together."""
    if not reports:
        raise ValueError("no reports were given")
    first = reports[0]
    count = first["shard"][1]
    for report in reports:
        for key in ("schema", "suite", "tegula", "mode", "seed"):
            if report[key] != first[key]:
                raise ValueError(f"the reports differ in '{key}'")
        if report["backend"] != first["backend"] or report["capabilities"] != first["capabilities"]:
            raise ValueError("the reports are of different backends or capabilities")
        if digest(report) != report["sha256"]:
            raise ValueError("a report was changed after it was written: its checksum is wrong")
    shards = sorted(r["shard"][0] for r in reports)
    if shards != list(range(1, count + 1)) or any(r["shard"][1] != count for r in reports):
        raise ValueError(f"shards 1 to {count} are needed, {shards} were given")
    rows = [row for report in reports for row in report["tests"]]
    rows.sort(key=lambda row: (row["level"], row["id"]))
    return finished(
        {
            **first,
            "tests": rows,
            "shard": [1, 1],
            "complete": all(r["complete"] for r in reports),
            "seconds": round(sum(r["seconds"] for r in reports), 1),
        }
    )


def badge(report: Report) -> dict[str, Any]:
    """The badge in the form that shields.io takes from an endpoint."""
    level, profiles = report["achieved"]["level"], report["achieved"]["profiles"]
    if level < 0:
        text, color = "none", "red"
    else:
        text = " ".join([f"L{level}", *profiles])
        color = ("orange", "orange", "yellow", "green", "brightgreen")[level]
    if not report["conformant"]:
        color = "lightgrey" if level >= 2 else color
    message = f"{text} · {report['suite']}"
    return {"schemaVersion": 1, "label": "conformance", "message": message, "color": color}


def junit(report: Report) -> str:
    """The report as JUnit XML."""
    from xml.etree import ElementTree as xml

    counts = report["counts"]
    suite = xml.Element(
        "testsuite",
        name=f"tegula-conformance {report['backend']['name']}",
        tests=str(len(report["tests"])),
        failures=str(counts["fail"] + counts["xpass"]),
        errors=str(counts["error"] + counts["crash"] + counts["timeout"]),
        skipped=str(counts["unsupported"] + counts["xfail"]),
        time=str(report["seconds"]),
    )
    for row in report["tests"]:
        head, _, tail = row["id"].partition(".")
        case = xml.SubElement(
            suite, "testcase", classname=f"L{row['level']}.{head}", name=tail or head,
            time=f"{row['ms'] / 1e3:.4f}",
        )  # fmt: skip
        outcome = row["outcome"]
        tag = {"fail": "failure", "xpass": "failure", "unsupported": "skipped", "xfail": "skipped"}
        if outcome != "pass":
            message = _printable(f"{outcome}: {row['message']}")
            xml.SubElement(case, tag.get(outcome, "error"), message=message)
    return xml.tostring(suite, encoding="unicode")


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() or c == "\n" else "?" for c in text)


# -------------------------------------------------------------------------------------------------
# Tables for the documentation

MARKS = {"pass": "yes", "xfail": "known fault", "unsupported": "no"}


def support_table(reports: Sequence[Report]) -> str:
    """Markdown: what each backend reached, and which ops work with which dtypes."""
    parts = [_overview(reports)]
    for report in reports:
        parts.append(_ops_table(report))
    return "\n".join(parts)


def _overview(reports: Sequence[Report]) -> str:
    lines = [
        "| backend | version | device | level | profiles | tests | passed | mode | suite |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for r in reports:
        level = r["achieved"]["level"]
        lines.append(
            f"| `{r['backend']['name']}` | {r['backend']['version']} | {r['device']['name']} "
            f"| {f'L{level}' if level >= 0 else 'none'} | {' '.join(r['achieved']['profiles'])} "
            f"| {len(r['tests'])} | {r['counts']['pass']} | {r['mode']} | {r['suite']} |"
        )
    return "\n".join(lines) + "\n"


def _ops_table(report: Report) -> str:
    """One row per op, one column per dtype: the worst outcome of the cases about both."""
    from tegula.ir import DTYPES

    worst: dict[tuple[str, str], str] = {}
    order = ["pass", "unsupported", "xfail", "xpass", "fail", "error", "timeout", "crash"]
    for row in report["tests"]:
        ops = [r[3:] for r in row["requires"] if r.startswith("op=")]
        dtypes = [r[6:] for r in row["requires"] if r.startswith("dtype=")]
        if len(dtypes) != 1:
            continue
        for op in ops:
            key = (op, dtypes[0])
            worst[key] = max(worst.get(key, "pass"), row["outcome"], key=order.index)
    names = sorted({op for op, _ in worst})
    columns = [d for d in DTYPES if any((op, d) in worst for op in names)]
    lines = [
        f"\n### `{report['backend']['name']}`\n",
        "| op | " + " | ".join(columns) + " |",
        "|---|" + "---|" * len(columns),
    ]
    for op in names:
        cells = [MARKS.get(worst[op, d], "FAULT") if (op, d) in worst else "" for d in columns]
        lines.append(f"| `{op}` | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"
