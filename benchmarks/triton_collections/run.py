"""Runs collections of Triton kernels, unchanged, on torch tensors in host memory, and compares what
they compute with references in torch.

    python benchmarks/triton_collections/run.py FOLDER [PACKAGE...] [-k WORDS] [--out FILE]
    python benchmarks/triton_collections/run.py --table FILE... [--write docs/triton.md]

FOLDER has the packages, for instance from `pip install --no-deps --target FOLDER NAME...`. A case
runs in a child process; a crash or a hang is that case's failure. A kernel passes if cases ran
it and all of those passed; a kernel that no case ran counts as failed. Functions that kernels call
are kernels of their own: they ran if they were compiled into one that was launched.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
import traceback
from pathlib import Path
from typing import Any

from packages import PACKAGES

sys.path.append(str(Path(__file__).resolve().parents[1]))
from children import append, watch

TAIL = 600
"""Characters of an error that are kept."""


def main() -> int:
    """Run, or print the table of a run."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("folder", nargs="?", help="where the packages are")
    parser.add_argument("packages", nargs="*", help="packages to run; all without any")
    parser.add_argument("-k", dest="words", default="", help="only cases with this in their name")
    parser.add_argument("--device", help="another device than the one of the arguments")
    parser.add_argument("--out", default="triton_collections.jsonl")
    parser.add_argument("--fresh", action="store_true", help="forget what --out has")
    parser.add_argument("--timeout", type=int, default=300, help="seconds for one case")
    parser.add_argument("--show", action="store_true", help="print tracebacks")
    parser.add_argument("--table", nargs="+", help="print the table of files of results")
    parser.add_argument("--write", help="with --table: put it into this document")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.table:
        results = [read(Path(file)) for file in options.table]
        text = table({name: record for part in results for name, record in part.items()})
        print(text if not options.write else replace_section(Path(options.write), text))
        return 0
    if options.child:
        return child(options)
    out = Path(options.out)
    if options.fresh and out.exists():
        out.unlink()
    for package in options.packages or PACKAGES:
        run_package(options, package, out)
    print(table(read(out)))
    return 0


# -- the parent


def run_package(options: argparse.Namespace, package: str, out: Path) -> None:
    """Run a package's cases in child processes, until one ends by itself."""
    while True:
        command = [
            sys.executable, __file__, options.folder, package, "--child", "--out", str(out),
            "-k", options.words,
        ]  # fmt: skip
        command += ["--show"] if options.show else []
        command += ["--device", options.device] if options.device else []
        process = subprocess.Popen(command, start_new_session=True)
        how = watch(process, out, options.timeout)
        running = unfinished(out)
        if running is None:
            if process.returncode:
                print(f"{package}: nothing more was run ({how})", file=sys.stderr)
            return
        append(out, {**running, "outcome": "failed", "error": how})


def records(out: Path) -> list[dict[str, Any]]:
    """The lines of a file of results."""
    return [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []


def unfinished(out: Path) -> dict[str, Any] | None:
    """The case that began and did not end, with the kernels that it had launched."""
    last = None
    for record in records(out):
        if record["outcome"] == "started":
            last = {**record, "kernels": []}
        elif record["outcome"] == "launched" and last is not None:
            last["kernels"].append(record["kernel"])
        else:
            last = None
    return last


def read(out: Path) -> dict[tuple[str, str], dict[str, Any]]:
    """The results by package and case; later ones count."""
    done = [r for r in records(out) if r["outcome"] not in ("started", "launched")]
    return {(r["package"], r["case"]): r for r in done}


# -- the child


def child(options: argparse.Namespace) -> int:
    """Run the cases of one package that have no result yet."""
    os.environ["TEGULA_CACHE"] = "0"  # what is taken from the cache is not seen being compiled
    if options.device:
        os.environ["TEGULA_DEVICE"] = options.device
    sys.path.insert(0, options.folder)
    from tegula.compat.triton import install

    install()
    import census
    import host

    name: str = options.packages[0]
    package = PACKAGES[name]
    host.pretend()
    out = Path(options.out)
    found = sorted(census.kernels(package.module))
    append(out, {"package": name, "case": "", "outcome": "kernels", "kernels": found,
                 "version": package.installed()})  # fmt: skip
    done = read(out)
    for number, case in enumerate(package.cases()):
        if options.words not in case.name or (name, case.name) in done:
            continue
        append(out, {"package": name, "case": case.name, "outcome": "started"})
        census.pin_configs(package.module, number)
        record = run_case(options, name, case, out)
        words = re.sub(r"\s+", " ", record["error"])[:300]
        print(f"{name} {case.name}: {record['outcome']} {words}", flush=True)
        append(out, record)
    return 0


def run_case(options: argparse.Namespace, name: str, case: Any, out: Path) -> dict[str, Any]:
    """Run one case, and say which kernels ran and how it ended."""
    import census

    ran: dict[str, None] = {}

    def seen(kernel: str) -> None:
        if kernel not in ran:
            append(out, {"package": name, "case": case.name, "outcome": "launched",
                         "kernel": kernel})  # fmt: skip
        ran[kernel] = None

    outcome, error, began = "passed", "", time.monotonic()
    with census.watched(PACKAGES[name].module, seen):
        try:
            case.run()
        except Exception as problem:
            outcome, error = "failed", f"{type(problem).__name__}: {problem}"
            if options.show:
                traceback.print_exc()
    return {
        "package": name, "case": case.name, "outcome": outcome, "kernels": list(ran),
        "error": error[-TAIL:] if len(error) < TAIL else error[:TAIL],
        "fault": case.fault, "seconds": round(time.monotonic() - began, 2),
    }  # fmt: skip


# -- the table


MARKS = ("<!-- collections -->", "<!-- end of collections -->")


def table(results: dict[tuple[str, str], dict[str, Any]]) -> str:
    """Kernels by package, and a reason for each that did not pass."""
    lines = [
        "| package | kernels | passed | failed | no case | not applicable | passed if applicable |"
        " cases |",
        "|---|---|---|---|---|---|---|---|",
    ]
    reasons: list[str] = []
    sums = [0, 0, 0, 0, 0]
    for name in PACKAGES:
        verdicts = kernel_verdicts(name, results)
        if not verdicts:
            continue
        counts = [sum(v[0] == kind for v in verdicts.values())
                  for kind in ("passed", "failed", "no case", "not applicable")]  # fmt: skip
        cases = sum(package == name and case != "" for package, case in results)
        sums = [a + b for a, b in zip(sums, [*counts, cases])]
        version = results[name, ""].get("version", PACKAGES[name].version)
        lines.append(row(f"{name} {version}", counts, cases))
        for kernel, (outcome, why) in verdicts.items():
            if outcome != "passed":
                reasons.append(f"| {name} | `{kernel}` | {outcome} | {why} |")
    lines.append(row("together", sums[:4], sums[4]))
    if reasons:
        lines += ["", "| package | kernel | | reason |", "|---|---|---|---|", *reasons]
    faults: dict[tuple[str, str, str], list[str]] = {}
    for (name, case), record in results.items():
        if record.get("fault"):
            function = case.partition("(")[0]
            faults.setdefault((name, function, record["fault"]), []).append(record["outcome"])
    if faults:
        lines += ["", "| package | cases at fault themselves | failed | what is wrong |",
                  "|---|---|---|---|"]  # fmt: skip
        for (name, function, why), outcomes in faults.items():
            share = f"{outcomes.count('failed')} of {len(outcomes)}"
            lines.append(f"| {name} | `{function}` | {share} | {why} |")
    return "\n".join(lines)


def row(name: str, counts: list[int], cases: int) -> str:
    """A line of the table."""
    passed, failed, missing, other = counts
    applies = passed + failed + missing
    share = f"{100 * passed / applies:.1f} %" if applies else "-"
    return (f"| {name} | {applies + other} | {passed} | {failed} | {missing} | {other} | {share} | "
            f"{cases} |")  # fmt: skip


def kernel_verdicts(
    name: str, results: dict[tuple[str, str], dict[str, Any]]
) -> dict[str, tuple[str, str]]:
    """How each kernel of a package fares in all cases, and why."""
    listed = results.get((name, ""))
    if listed is None:
        return {}
    verdicts: dict[str, tuple[str, str]] = {}
    for kernel in listed["kernels"]:
        ran = [r for (p, case), r in results.items()
               if p == name and case and kernel in r["kernels"] and not r.get("fault")]  # fmt: skip
        bad = [r for r in ran if r["outcome"] == "failed"]
        inapplicable = PACKAGES[name].not_applicable.get(kernel)
        if inapplicable:
            verdicts[kernel] = ("not applicable", inapplicable)
        elif bad:
            what = re.sub(r"\s+", " ", bad[0]["error"])[:200].replace("|", "\\|")
            share = f"{len(bad)} of {len(ran)} cases"
            verdicts[kernel] = ("failed", f"{share}; `{bad[0]['case']}`: {what}")
        elif any(r["outcome"] == "passed" for r in ran):
            verdicts[kernel] = ("passed", "")
        else:
            verdicts[kernel] = ("no case", "")
    return verdicts


def replace_section(path: Path, text: str) -> str:
    """Put a table between its marks in a document."""
    first, last = MARKS
    head, _, rest = path.read_text().partition(first)
    _, found, tail = rest.partition(last)
    if not found:
        raise SystemExit(f"{path} has no {first} and {last}")
    day = time.strftime("%Y-%m-%d")
    path.write_text(f"{head}{first}\nRun on {day}.\n\n{text}\n\n{last}{tail}")
    return f"{path} is up to date"


if __name__ == "__main__":
    sys.exit(main())
