"""Runs a copy of Triton's own unit tests through `tegula.compat.triton`, and writes a table.

    python benchmarks/triton_tests.py TREE TEST... [--every 10] [-k WORDS] [--out results.jsonl]
    python benchmarks/triton_tests.py --table results.jsonl
    python benchmarks/triton_tests.py --docs docs/triton.md results.jsonl...

TREE is the `python` folder of a checkout (`test/` and, for the tests' helpers, `triton/` in it);
TEST is a file below TREE/test/unit, or an id in it. Tests run one after another in a child process;
a crash or a hang is that test's failure, and the run goes on behind it. The results are lines of
JSON, so that an interrupted run continues where it stopped (`--fresh` starts over).

A case does not apply if the tests skip it themselves, or if it fails and one of the rules of
`triton_rules.py` says that it is about one kind of hardware, or about another compiler's text.
"Other words" is a case that gets the error that it expects, with another message.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import datetime
import json
import os
import subprocess
import sys
import tempfile
import types
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from children import append, watch
from triton_rules import IR_TEXT, NOTES, failed_at, judge, source_of, without_ir_text

TAIL = 1500
"""Characters of an error that are kept."""


def main() -> int:
    """Run, or print the table of a run."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("tree", nargs="?", help="the `python` folder of a checkout of Triton")
    parser.add_argument("tests", nargs="*", help="test files or ids, below TREE/test/unit")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--every", type=int, default=1, help="of a function's cases, every n-th")
    parser.add_argument("--jobs", type=int, default=1, help="processes, each with its own cases")
    parser.add_argument("--shard", default="1/1", help=argparse.SUPPRESS)
    parser.add_argument("-k", dest="words", default="", help="as for pytest")
    parser.add_argument("--out", default="triton_tests.jsonl")
    parser.add_argument("--fresh", action="store_true", help="forget what --out has")
    parser.add_argument("--timeout", type=int, default=120, help="seconds for one test")
    parser.add_argument("--show", action="store_true", help="print each error")
    parser.add_argument("--table", nargs="+", help="print the table of these files of results")
    parser.add_argument(
        "--docs",
        nargs="+",
        metavar="FILE",
        help="write the tables of files of results into the page named first",
    )
    parser.add_argument("--failures", action="store_true", help="with --table: failures too")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.table:
        print(table(merged(options.table), options.failures))
        return 0
    if options.docs:
        page, *files = options.docs
        write_page(Path(page), merged(files), collected(files))
        return 0
    if options.child:
        return child(options)
    out = Path(options.out)
    if options.fresh and out.exists():
        out.unlink()
    if options.jobs > 1:
        run_jobs(options, out)
    else:
        for test in options.tests:
            run_file(options, test, out)
    print(table(read(out), options.failures))
    return 0


# -- the parent

RESTART = 75
"""How a child ends that can use its device no more."""


def run_jobs(options: argparse.Namespace, out: Path) -> None:
    """Run shards of the cases side by side, and put their results together."""
    parts = [out.with_suffix(f".{n}{out.suffix}") for n in range(1, options.jobs + 1)]
    processes = []
    for number, part in enumerate(parts, 1):
        if options.fresh and part.exists():
            part.unlink()
        command = [
            sys.executable, __file__, options.tree, *options.tests, "--device", options.device,
            "--every", str(options.every), "-k", options.words, "--out", str(part),
            "--shard", f"{number}/{options.jobs}", "--timeout", str(options.timeout),
        ]  # fmt: skip
        processes.append(subprocess.Popen(command, stdout=subprocess.DEVNULL))
    with contextlib.suppress(KeyboardInterrupt):
        for process in processes:
            process.wait()
    with out.open("a") as file:
        for part in parts:
            file.write(part.read_text() if part.exists() else "")


def run_file(options: argparse.Namespace, test: str, out: Path) -> None:
    """Run one file or id in child processes, until one ends by itself."""
    while True:
        command = [
            sys.executable, __file__, options.tree, test, "--child", "--device", options.device,
            "--every", str(options.every), "-k", options.words, "--out", str(out),
            "--shard", options.shard,
        ]  # fmt: skip
        if options.show:
            command.append("--show")
        process = subprocess.Popen(command, start_new_session=True)
        how = watch(process, out, options.timeout)
        running = started(out)
        if running is None:
            if process.returncode == RESTART:
                continue
            if process.returncode not in (0, 1, 5):  # not: passed, failed, nothing to run
                print(f"{test}: nothing more was run ({how})", file=sys.stderr)
            return
        append(out, {"id": running, "outcome": "failed", "error": f"{how} in this test"})


def started(out: Path) -> str | None:
    """The test that began and did not end."""
    last = None
    for line in out.read_text().splitlines() if out.exists() else ():
        record = json.loads(line)
        if record["outcome"] != "collected":
            last = record["id"] if record["outcome"] == "started" else None
    return last


def read(out: Path) -> dict[str, dict[str, Any]]:
    """The results by test; later ones count."""
    records = [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []
    return {r["id"]: r for r in records if r["outcome"] not in ("started", "collected")}


def collected(files: Sequence[str]) -> dict[str, int]:
    """How many cases each test file has."""
    records = [json.loads(line) for f in files for line in Path(f).read_text().splitlines()]
    return {r["id"]: r["count"] for r in records if r["outcome"] == "collected"}


def merged(files: Sequence[str]) -> dict[str, dict[str, Any]]:
    """The results of several runs; a run of one test later in the list counts."""
    results: dict[str, dict[str, Any]] = {}
    for file in files:
        results.update(read(Path(file)))
    return results


def table(results: dict[str, dict[str, Any]], failures: bool = False) -> str:
    """Counts by file, and reasons."""
    files: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    reasons: collections.Counter[tuple[str, str]] = collections.Counter()
    for name, record in results.items():
        file = name.split("::")[0].rsplit("/", 1)[-1]
        files[file][record["outcome"]] += 1
        if record["outcome"] == "not applicable":
            reasons[file, record["error"]] += 1
    lines = ["| file | passed | other words | failed | not applicable | passed if applicable |",
             "|---|---|---|---|---|---|"]  # fmt: skip
    for file, counts in files.items():
        applies = counts["passed"] + counts["failed"] + counts["other words"]
        share = f"{1000 * counts['passed'] // applies / 10} %" if applies else "-"
        lines.append(f"| {file} | {counts['passed']} | {counts['other words']} | "
                     f"{counts['failed']} | "
                     f"{counts['not applicable']} | {share} |")  # fmt: skip
    lines += ["", "| file | does not apply because | cases |", "|---|---|---|"]
    lines += [f"| {file} | {why} | {n} |" for (file, why), n in sorted(reasons.items())]
    if failures:
        bad = {n: r for n, r in results.items() if r["outcome"] in ("failed", "other words")}
        lines += ["", *(f"{n}: {r['error'].strip().splitlines()[-1][:200]}"
                        for n, r in bad.items())]  # fmt: skip
    return "\n".join(lines)


BEGIN, END = "<!-- table -->", "<!-- end -->"
SELF = "the test skips it, or expects it to fail, on a device like this"


def write_page(page: Path, results: dict[str, dict[str, Any]], cases: dict[str, int]) -> None:
    """Put the tables, and a list of what does not pass, between the marks of a page."""
    text = page.read_text()
    before, after = text.split(BEGIN)[0], text.split(END)[1]
    page.write_text(before + BEGIN + "\n" + described(results, cases) + "\n" + END + after)


def described(results: dict[str, dict[str, Any]], cases: dict[str, int]) -> str:
    """The tables of a page."""
    files: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    reasons: collections.Counter[tuple[str, str]] = collections.Counter()
    for name, record in results.items():
        file = name.split("::")[0].rsplit("/", 1)[-1]
        files[file][record["outcome"]] += 1
        if record["outcome"] == "not applicable":
            why = record["error"]
            by_test = why.startswith(("expected to fail by the test", "skipped by the test"))
            reasons[SELF if by_test else why, file] += 1
    files["together"] = sum(files.values(), collections.Counter())
    kinds = ("passed", "other words", "failed", "not applicable")
    lines = [f"Run on {datetime.date.today().isoformat()}.", "",
             "| file | run | " + " | ".join(kinds) + " | passed if applicable |",
             "|---|---|---|---|---|---|---|"]  # fmt: skip
    for file, counts in files.items():
        applies = counts["passed"] + counts["failed"] + counts["other words"]
        share = f"{1000 * counts['passed'] // applies / 10} %" if applies else "-"
        cells = [str(counts[k]) for k in kinds]
        ran, all_of = sum(counts.values()), cases.get(file, 0)
        run = f"{ran} of {all_of}" if ran < all_of else "all" if all_of else str(ran)
        lines.append(f"| {file} | {run} | {' | '.join(cells)} | {share} |")
    lines += ["", "| does not apply because | cases |", "|---|---|"]
    by_reason: dict[str, list[str]] = collections.defaultdict(list)
    for (why, file), n in sorted(reasons.items()):
        by_reason[why].append(f"{file} {n}")
    lines += [f"| {why} | {', '.join(where)} |" for why, where in by_reason.items()]
    bad = {n: r for n, r in results.items() if r["outcome"] in ("failed", "other words")}
    lines += ["", "What does not pass:" if bad else "All cases that apply pass.", ""]
    for name, record in bad.items():
        last = (record["error"].strip().splitlines() or ["no message"])[-1]
        case = name.rsplit("/", 1)[-1]
        note = NOTES.get(case.partition("::")[2], f"`{last.removeprefix('E').strip()[:150]}`")
        lines.append(f"- `{case}` ({record['outcome']}): {note}")
    return "\n".join([*lines, ""] if bad else lines)


# -- the child


def child(options: argparse.Namespace) -> int:
    """Run pytest on one file with the alias installed."""
    import pytest

    os.environ.pop("PYTEST_ADDOPTS", None)
    if options.device == "cpu":  # though there be others, which programs would ask about
        os.environ["TEGULA_DEVICE"] = "cpu"
    tree = Path(options.tree).resolve()
    provide_helpers(tree)
    provide_to_children(tree)
    name, _, case = options.tests[0].partition("::")
    path = find(tree / "test" / "unit", name)
    ini = Path(tempfile.mkdtemp(), "pytest.ini")  # not that of a project around the tree
    ini.write_text("[pytest]\n")
    arguments = [f"{path}::{case}" if case else str(path), "--rootdir", str(tree), "-q",
                 "-c", str(ini),
                 "--device", options.device, "-p", "no:cacheprovider", "--tb=short",
                 "-p", "no:warnings"]  # fmt: skip
    if options.words:
        arguments += ["-k", options.words]
    if not options.show:
        arguments += ["--no-summary", "--no-header"]
    number, count = map(int, options.shard.split("/"))
    whole = number == 1 and not (case or options.words)
    plugin = Recorder(Path(options.out), options.every, whole, (number, count))
    code = pytest.main(arguments, plugins=[plugin])
    return int(code)


def find(unit: Path, name: str) -> Path:
    """The file of that name: as a path, in the folders for the language and the runtime, or in any
    other.
    """
    candidates = [Path(name), unit / name, unit / "language" / name, unit / "runtime" / name]
    candidates += sorted(unit.rglob(Path(name).name))
    for path in candidates:
        if path.is_file():
            return path
    raise SystemExit(f"there is no {name} below {unit}")


def provide_helpers(tree: Path) -> None:
    """Install the alias, and let the tests import their own helpers: those that need no compiler
    come from the checkout, the one that compares IR only compiles.
    """
    from tegula.compat.triton import install

    install()
    import torch
    import triton

    # Tests choose the device of one vendor if another's is not there.
    torch.xpu.device = lambda index: contextlib.nullcontext()

    triton.__path__.append(str(tree / "triton"))
    for name in ("mxfp", "ragged_tma"):
        if (tree / "triton" / "tools" / f"{name}.py").exists():
            __import__("triton.tools").tools.__path__.append(str(tree / "triton" / "tools"))
    sys.modules["triton._filecheck"] = filecheck()


def provide_to_children(tree: Path) -> None:
    """The same in the Python processes that tests start."""
    folder = tempfile.mkdtemp()
    here = Path(__file__).resolve().parent
    Path(folder, "sitecustomize.py").write_text(
        f"import sys\nsys.path.append({str(here)!r})\n"
        f"import pathlib, triton_tests\n"
        f"triton_tests.provide_helpers(pathlib.Path({str(tree)!r}))\n"
    )
    paths = [folder, *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)


def filecheck() -> types.ModuleType:
    """A module that compiles what is to be compared with text."""
    module = types.ModuleType("triton._filecheck")

    def run_parser(kernel: Any, args: Any = (), kwargs: Any = None, target: Any = None) -> Any:
        return kernel.warmup(*args, **dict(kwargs or {}), grid=(1,))

    def run_filecheck_test(kernel: Any) -> None:
        run_parser(kernel)

    def filecheck_test(kernel: Any) -> Any:
        def test() -> None:
            run_filecheck_test(kernel)

        test.__name__ = kernel.__name__
        return test

    module.__dict__.update(
        run_parser=run_parser, run_filecheck_test=run_filecheck_test, filecheck_test=filecheck_test
    )
    return module


class Recorder:
    """A plugin that writes down what happens, and leaves out what has been run."""

    def __init__(
        self, out: Path, every: int, whole: bool, shard: tuple[int, int] = (1, 1)
    ) -> None:
        self.out = out
        self.shard = shard
        self.whole = whole
        """Whether all cases of the file are looked at."""
        self.every = every
        self.done = set(read(out))
        self.text: dict[str, str] = {}

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        seen: collections.Counter[str] = collections.Counter()
        keep, all_items, number = [], list(items), 0
        for item in items:
            function = item.nodeid.split("[")[0]
            index = seen[function]
            seen[function] += 1
            if index % self.every:
                continue
            number += 1
            if number % self.shard[1] == self.shard[0] - 1 and item.nodeid not in self.done:
                keep.append(item)
                parameters = getattr(getattr(item, "callspec", None), "params", {})
                given = "".join(f"\n{n}={v!r}" for n, v in parameters.items())
                self.text[item.nodeid] = source_of(item.function) + given
        items[:] = keep
        if self.whole:
            files = collections.Counter(item.path.name for item in all_items)
            for file, n in files.items():
                append(self.out, {"id": file, "outcome": "collected", "count": n})

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self.record(report.nodeid + "::import", "failed", str(report.longrepr))

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        append(self.out, {"id": nodeid, "outcome": "started"})

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.when == "teardown" and report.passed:
            return
        if report.when == "setup" and report.passed:
            return
        if report.skipped:
            if hasattr(report, "wasxfail"):
                why = f"expected to fail by the test: {report.wasxfail}"
            elif IR_TEXT in report.longrepr[2]:
                why = IR_TEXT
            else:
                why = f"skipped by the test: {report.longrepr[2]}"
            self.record(report.nodeid, "not applicable", why[:160])
        elif report.passed:
            self.record(report.nodeid, "passed", "")
        else:
            error = f"{report.capstdout[-TAIL:]}\n{report.longrepr}"
            self.record(report.nodeid, *judge(self.text.get(report.nodeid, ""), error))

    def pytest_runtest_logfinish(self) -> None:
        """End the process where a test left the device useless for all others."""
        import torch

        if torch.cuda.is_available() and torch.cuda.is_initialized():
            try:
                torch.cuda.synchronize()
            except Exception:
                os._exit(RESTART)

    def pytest_pyfunc_call(self, pyfuncitem: Any) -> Any:
        """Run a test; if a statement that looks at IR text stops it, once more without these."""
        import pytest

        names = pyfuncitem._fixtureinfo.argnames
        given = {name: pyfuncitem.funcargs[name] for name in names}
        try:
            pyfuncitem.obj(**given)
        except Exception as error:
            test = getattr(pyfuncitem.obj, "__func__", pyfuncitem.obj)
            stripped = without_ir_text(test)
            if stripped is None or failed_at(error, test) not in stripped[1]:
                raise
            stripped[0](**given)
            pytest.skip(IR_TEXT)
        return True

    def record(self, nodeid: str, outcome: str, error: str) -> None:
        append(self.out, {"id": nodeid, "outcome": outcome, "error": error[-TAIL:]})


if __name__ == "__main__":
    sys.exit(main())
