"""The command `tegula`. Exit codes: 0 all well, 1 something was found, 2 wrong usage."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from tegula.tools.commands import add_commands

if TYPE_CHECKING:
    from rich.console import Console

    from tegula.tools.doctor import Line
    from tegula.tools.inspection import Inspection

OK, FINDINGS, USAGE = 0, 1, 2

STATE_STYLE = {
    "available": "green",
    "open": "green",
    "unavailable": "yellow",
    "blocked": "dim",
    "conflict": "red",
    "broken": "red",
    "incompatible": "red",
    "crashed": "red",
}
STATUS_STYLE = {"ok": "green", "warning": "yellow", "problem": "red"}


def parser() -> argparse.ArgumentParser:
    """The command line as data."""
    from tegula import __version__

    root = argparse.ArgumentParser(prog="tegula", description="Tools around Tegula kernels.")
    root.add_argument("--version", action="version", version=f"tegula {__version__}")
    commands = root.add_subparsers(dest="command", required=True, metavar="COMMAND")

    backends = commands.add_parser("backends", help="list backends, their devices and faults")
    backends.set_defaults(run=run_backends)

    doctor = commands.add_parser("doctor", help="examine the installation")
    doctor.add_argument("name", nargs="?", help="a backend; all of them if left out")
    doctor.add_argument("--deep", action="store_true", help="also compile and run a small kernel")
    doctor.set_defaults(run=run_doctor)

    cache = commands.add_parser("cache", help="show or clear the cache of compiled kernels")
    cache.add_argument("action", nargs="?", choices=["info", "clear"], default="info")
    cache.set_defaults(run=run_cache)

    add_commands(commands)

    for command in (backends, doctor):
        command.add_argument(
            "--timeout", type=float, default=20.0, help="seconds one backend may take (default 20)"
        )
    for command in (backends, doctor, cache):
        command.add_argument("--json", action="store_true", help="print JSON instead of a table")
    return root


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry of the command; returns the exit code."""
    options = parser().parse_args(arguments)
    try:
        return int(options.run(options))
    except BrokenPipeError:  # the reader, `head` for example, has seen enough
        sys.stderr.close()
        return OK


# -------------------------------------------------------------------------------------------------
# tegula backends


def run_backends(options: argparse.Namespace) -> int:
    """List every backend that is installed, whatever its state."""
    from tegula import __version__
    from tegula.plugin.registry import registry
    from tegula.tools.inspection import inspect_backends

    found = inspect_backends(timeout=options.timeout)
    default = default_backend(found)
    if options.json:
        rows = [{**i.to_json(), "default": i is default} for i in found]
        _print_json({"tegula": __version__, "problems": registry.problems, "backends": rows})
    else:
        _print_backends(found, default, registry.problems)
    return FINDINGS if registry.problems or any(i.state.faulty for i in found) else OK


def default_backend(found: Sequence[Inspection]) -> Inspection | None:
    """The one that launches without tensor arguments and without a choice use."""
    from tegula.config import config
    from tegula.plugin.records import HOST_DLPACK
    from tegula.plugin.select import DeviceId

    usable = {i.name: i for i in found if i.devices}
    if config.interpret:
        return usable.get("interpreter")
    if config.device:
        return usable.get(DeviceId.parse(config.device).backend)
    if config.backend:
        return usable.get(config.backend[0])
    reaching = [i for i in usable.values() if i.spec and HOST_DLPACK in i.spec["dlpack"]]
    return reaching[0] if reaching else None


def _print_backends(
    found: Sequence[Inspection], default: Inspection | None, problems: Iterable[str]
) -> None:
    table = _table("", "backend", "state", "from", "devices", "priority", "notes")
    for i in found:
        devices = "\n".join(f"{d['name']} ({d['target']['arch']})" for d in i.devices)
        notes = i.reason or (i.spec or {}).get("summary", "")
        if i.hint and i.reason:
            notes += f" -> {i.hint}"
        table.add_row(
            "*" if i is default else "",
            i.name,
            _styled(str(i.state), STATE_STYLE),
            i.source,
            _escape(devices),
            "" if i.priority is None else str(i.priority),
            _escape(notes),
        )
    console = _console()
    console.print(table)
    for problem in problems:
        console.print(f"[yellow]{_escape(problem)}[/]")
    console.print("* is used where neither a choice nor an argument's device decides", style="dim")


# -------------------------------------------------------------------------------------------------
# tegula doctor


def run_doctor(options: argparse.Namespace) -> int:
    """Examine the installation, step by step."""
    from tegula.tools.doctor import examine

    if options.name is not None and (code := _check_name(options.name)) != OK:
        return code
    lines = examine(options.name, deep=options.deep, timeout=options.timeout)
    if options.json:
        _print_json({"lines": [line.to_json() for line in lines]})
    else:
        _print_report(lines)
    return FINDINGS if any(line.status == "problem" for line in lines) else OK


def _check_name(name: str) -> int:
    from tegula.errors import nearest
    from tegula.plugin.registry import registry

    names = registry.names()
    if name in names:
        return OK
    print(
        f"tegula doctor: no backend '{name}'{nearest(name, names)} (installed: {', '.join(names)})",
        file=sys.stderr,
    )
    return USAGE


def _print_report(lines: Sequence[Line]) -> None:
    table = _table("", "", "status", "finding")
    section = None
    for line in lines:
        if section is not None and line.section != section:
            table.add_section()
        heading = line.section if line.section != section else ""
        section = line.section
        text = f"{line.message} -> {line.hint}" if line.hint else line.message
        table.add_row(heading, line.name, _styled(line.status, STATUS_STYLE), _escape(text))
    console = _console()
    console.print(table)
    count = {s: sum(line.status == s for line in lines) for s in STATUS_STYLE}
    console.print(f"{count['problem']} problem(s), {count['warning']} warning(s)")


# -------------------------------------------------------------------------------------------------
# tegula cache


def run_cache(options: argparse.Namespace) -> int:
    """Show how much the disk cache holds, or empty it."""
    from tegula.runtime.cache import clear, info

    if options.action == "clear":
        removed = clear()
        if options.json:
            _print_json({"removed": removed})
        else:
            _console().print(f"removed {removed} entries")
        return OK
    found = info()
    if options.json:
        _print_json(found)
        return OK
    table = _table("directory", "entries", "MiB", "limit in MiB")
    table.add_row(
        _escape(found["directory"] or "none: kept in memory"),
        str(found["entries"]),
        f"{found['bytes'] / 2**20:.1f}",
        f"{found['limit_bytes'] / 2**20:.0f}",
    )
    _console().print(table)
    return OK


# -------------------------------------------------------------------------------------------------
# Printing


def _console() -> Console:
    from rich.console import Console

    # Text that goes to a file or a pipe is not folded, so that it can be searched by line.
    return Console(highlight=False, width=None if sys.stdout.isatty() else 400)


_SENTENCES = ("from", "devices", "notes", "finding", "directory")
"""Columns that are folded where a line is short; the others are single words."""


def _table(*headings: str) -> Any:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for heading in headings:
        table.add_column(heading, overflow="fold", no_wrap=heading not in _SENTENCES)
    return table


def _styled(word: str, styles: dict[str, str]) -> str:
    return f"[{styles.get(word, 'default')}]{word}[/]"


def _escape(text: str) -> str:
    from rich.markup import escape

    return escape(text)


def _print_json(data: Any) -> None:
    print(json.dumps(data, indent=2))


if __name__ == "__main__":
    sys.exit(main())
