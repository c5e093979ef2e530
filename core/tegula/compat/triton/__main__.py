"""`python -m tegula.compat.triton script.py [arguments]`, or `-m module [arguments]`."""

from __future__ import annotations

import os
import runpy
import sys

from tegula.compat.triton import STARTUP, install

USAGE = """usage: python -m tegula.compat.triton SCRIPT [ARGUMENT...]
       python -m tegula.compat.triton -m MODULE [ARGUMENT...]
       python -m tegula.compat.triton --path

Runs a program with `import triton` meaning Tegula, in processes that it starts as well. `--path`
prints a folder: programs that have it in their PYTHONPATH need not be started this way."""


def main(arguments: list[str]) -> int:
    """Run a script or a module with the alias installed."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print(USAGE, file=sys.stderr if not arguments else sys.stdout)
        return 0 if arguments else 2
    if arguments[0] == "--path":
        print(STARTUP)
        return 0
    install(children=True)
    if arguments[0] == "-m":
        if len(arguments) < 2:
            print(USAGE, file=sys.stderr)
            return 2
        sys.argv = arguments[1:]
        sys.path[0] = os.getcwd()
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
        return 0
    script = arguments[0]
    if not os.path.exists(script):
        print(f"there is no file {script}", file=sys.stderr)
        return 2
    sys.argv = arguments
    sys.path[0] = os.path.dirname(os.path.abspath(script))
    runpy.run_path(script, run_name="__main__")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
