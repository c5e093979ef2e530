"""`python -m tegula.tools.opt`: read tile IR, run passes, print what they leave.

python -m tegula.tools.opt kernel.tir -p "canonicalize,cse"
python -m tegula.tools.opt kernel.tir --print-between-passes --time
python -m tegula.tools.opt tests/passes/cse.tir --run          # the file's own tests
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tegula.errors import TegulaError
from tegula.ir.core import Module
from tegula.ir.parser import ParseError, parse_module
from tegula.ir.printer import print_module
from tegula.ir.verify import VerifyError, verify
from tegula.passes import PASSES, Pass, PassContext, Pipeline
from tegula.passes.pipeline import DEFAULT


def parser() -> argparse.ArgumentParser:
    """The command line as data."""
    out = argparse.ArgumentParser(
        prog="python -m tegula.tools.opt",
        description="Run passes over tile IR text.",
        epilog=f"passes: {', '.join(PASSES)}",
    )
    out.add_argument("file", help="a .tir file, or - for standard input")
    out.add_argument("-p", "--passes", default="", help="pipeline, such as canonicalize,cse")
    out.add_argument("-O", "--default", action="store_true", help=f"the default one: {DEFAULT}")
    out.add_argument("--print-between-passes", action="store_true", help="show every step")
    out.add_argument("--locations", action="store_true", help="print source locations")
    out.add_argument("--time", action="store_true", help="say how long each pass took")
    out.add_argument("--trace", action="store_true", help="say which rules were applied where")
    out.add_argument("--run", action="store_true", help="run the cases of a file test instead")
    out.add_argument("--backend", default="interpreter", help="where --run executes cases")
    return out


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code (0 well, 1 a fault of the input)."""
    args = parser().parse_args(argv)
    try:
        return run_cases(args) if args.run else run_passes(args)
    except (TegulaError, ParseError, VerifyError, OSError) as error:
        print(f"{args.file}: {error}", file=sys.stderr)
        return 1


def run_passes(args: Any) -> int:
    """Read, optimise, print."""
    text = sys.stdin.read() if args.file == "-" else Path(args.file).read_text()
    module = parse_module(text)
    verify(module)
    pipeline = Pipeline.parse(DEFAULT if args.default and not args.passes else args.passes)
    ctx = PassContext(
        trace=[] if args.trace else None, timings=[] if args.time else None
    )  # fmt: skip

    def show(p: Pass, after: Module) -> None:
        if args.print_between_passes:
            print(f"; after {p}\n{print_module(after, args.locations)}")

    module = pipeline.run(module, verify=True, ctx=ctx, after=show)
    if not args.print_between_passes:
        print(print_module(module, args.locations), end="")
    for entry in ctx.trace or ():
        print(f"; {entry}")
    for timing in ctx.timings or ():
        mark = "" if timing.changed else " (no change)"
        print(f"; {timing.seconds * 1e3:8.3f} ms  {timing.name}{mark}")
    return 0


def run_cases(args: Any) -> int:
    """Run the cases of a file test; returns 1 if one fails."""
    from .filetest import read_cases, run_case

    failed = 0
    for case in read_cases(Path(args.file)):
        try:
            run_case(case, args.backend)
            print(f"ok    {case.name}")
        except Exception as error:
            failed += 1
            print(f"FAIL  {case.name}\n{type(error).__name__}: {error}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
