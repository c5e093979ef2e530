"""Arguments of the commands `conformance`, `fuzz` and `reduce`, without importing what they run."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any


def add_commands(commands: Any) -> None:
    """Put the three commands into the command line."""
    add_conformance(commands)
    add_fuzzing(commands)


def add_conformance(commands: Any) -> None:
    """`tegula conformance`."""
    c = commands.add_parser("conformance", help="find out what a backend really does")
    c.add_argument("name", nargs="?", help="the backend")
    c.add_argument("--full", action="store_true", help="all levels and more random programs")
    c.add_argument("--level", type=_level, help="up to this level (default 2, with --full 4)")
    c.add_argument(
        "--profile", action="append", metavar="NAME",
        help="only tests of the common core (`core`) and of these profiles; may be repeated",
    )  # fmt: skip
    c.add_argument("--device", type=int, default=0)
    c.add_argument("-k", dest="expression", default="", help="words of test ids; `!word` excludes")
    c.add_argument("--shard", type=_shard, default=(1, 1), metavar="I/N")
    c.add_argument("--seed", type=int, default=0, help="first number of the random programs")
    c.add_argument("-j", "--workers", type=int, default=0, help="processes (default: cores)")
    c.add_argument("--no-isolation", action="store_true", help="run in this process, to debug")
    c.add_argument("--verify-xfails", action="store_true", help="an unexpected pass is a failure")
    c.add_argument("--exceptions", type=Path, help="a conformance.toml in place of the plugin's")
    c.add_argument("--report", type=Path, metavar="R.JSON", help="write the report")
    c.add_argument("--html", type=Path, metavar="R.HTML", help="write the report as a page")
    c.add_argument("--junit", type=Path, metavar="R.XML", help="write the report as JUnit XML")
    c.add_argument("--merge", nargs="+", type=Path, metavar="R.JSON", help="join shards' reports")
    c.add_argument("--badge", type=Path, metavar="R.JSON", help="print the badge of a report")
    c.add_argument("--tables", nargs="+", type=Path, metavar="R.JSON", help="print support tables")
    c.add_argument("--list", action="store_true", help="print the tests' ids")
    c.add_argument("--show", metavar="ID", help="print a case as a .tir file")
    c.add_argument("--coverage", action="store_true", help="print what no test covers")
    c.add_argument("--json", action="store_true", help="print the report")
    c.set_defaults(run=_conformance)


def _level(text: str) -> int:
    number = text.upper().removeprefix("L")
    if number not in ("0", "1", "2", "3", "4"):
        raise argparse.ArgumentTypeError(f"a level is L0 to L4, not {text!r}")
    return int(number)


def _shard(text: str) -> tuple[int, int]:
    first, _, count = text.partition("/")
    if not (first.isdigit() and count.isdigit() and 1 <= int(first) <= int(count)):
        raise argparse.ArgumentTypeError(f"a shard is I/N with 1 <= I <= N, not {text!r}")
    return int(first), int(count)


def add_fuzzing(commands: Any) -> None:
    """`tegula fuzz` and `tegula reduce`."""
    fuzzing = commands.add_parser(
        "fuzz", help="compare a backend with the interpreter on random programs"
    )
    fuzzing.add_argument("name", help="the backend")
    fuzzing.add_argument("-n", "--programs", type=int, default=1000, help="how many (default 1000)")
    fuzzing.add_argument("--seed", type=int, default=0, help="the first program's number")
    fuzzing.add_argument("--device", type=int, default=0)
    fuzzing.add_argument("-j", "--workers", type=int, default=0, help="processes (default: cores)")
    fuzzing.add_argument("--out", type=Path, default=Path("fuzz"), help="where failures are put")
    fuzzing.add_argument("--stop-after", type=int, default=5, help="failures to stop after")
    fuzzing.add_argument(
        "--reduce-seconds", type=float, default=30.0, help="time for making one failure smaller"
    )
    fuzzing.set_defaults(run=_fuzz)

    reducing = commands.add_parser("reduce", help="make a failing .tir case smaller")
    reducing.add_argument("file", type=Path, help="a file with `; run: execute`")
    reducing.add_argument("name", help="the backend on which it fails")
    reducing.add_argument("--device", type=int, default=0)
    reducing.add_argument("--seconds", type=float, default=120.0)
    reducing.add_argument("-o", "--out", type=Path, help="where to write; standard output if not")
    reducing.set_defaults(run=_reduce)
    for command in (fuzzing, reducing):
        command.add_argument("--json", action="store_true", help="print JSON")


def _conformance(options: argparse.Namespace) -> int:
    from tegula.conformance.command import run_command

    return run_command(options)


def _fuzz(options: argparse.Namespace) -> int:
    from tegula.tools.fuzz import run_fuzz

    return run_fuzz(options)


def _reduce(options: argparse.Namespace) -> int:
    from tegula.tools.fuzz import run_reduce

    return run_reduce(options)
