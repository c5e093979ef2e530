"""What `tegula doctor` looks at. Metadata comes first, and each step is guarded on its own, so that
a broken installation still gets its report.
"""

from __future__ import annotations

import os
import platform
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from tegula.tools.inspection import Inspection


@dataclass(frozen=True)
class Line:
    """One line of the report."""

    section: str
    name: str
    status: str
    """`ok`, `warning` or `problem`."""
    message: str
    hint: str = ""

    def to_json(self) -> dict[str, Any]:
        return dict(vars(self))


def examine(name: str | None, *, deep: bool, timeout: float) -> list[Line]:
    """The whole report, about one backend or about all."""
    lines: list[Line] = []
    for section, step in (
        ("environment", environment),
        ("packages", packages),
        ("settings", settings),
        ("cache", cache),
        ("backends", lambda: backends(name, deep=deep, timeout=timeout)),
    ):
        lines += _guarded(section, step)
    return lines


def _guarded(section: str, step: Callable[[], Iterable[Line]]) -> Iterator[Line]:
    try:
        yield from step()
    except Exception as error:
        yield Line(section, "check", "problem", f"raised {type(error).__name__}: {error}")


def environment() -> Iterator[Line]:
    """Interpreter and machine."""
    recent = sys.version_info >= (3, 11)
    yield Line(
        "environment",
        "python",
        "ok" if recent else "problem",
        f"{platform.python_version()} at {sys.executable}",
        "" if recent else "Tegula needs Python 3.11 or later",
    )
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    yield Line(
        "environment",
        "machine",
        "ok",
        f"{platform.platform()}, {cores} cores",
    )


def packages() -> Iterator[Line]:
    """Tegula's distributions against what they require, from metadata alone."""
    seen = set()
    for dist in metadata.distributions():
        name = dist.name or ""
        if name == "tegula" or name.startswith("tegula-"):
            lines = [Line("packages", name, "ok", dist.version)]
            for requirement in dist.requires or ():
                lines += _requirement(name, requirement)
            for line in lines:
                if line not in seen:
                    seen.add(line)
                    yield line


def _requirement(dist: str, requirement: str) -> Iterator[Line]:
    match = re.match(r"([A-Za-z0-9._-]+)\s*([^;]*)(;.*)?$", requirement)
    if match is None or "extra" in (match[3] or ""):
        return
    name, wanted = match[1], match[2].strip()
    remedy = f"pip install '{name}{wanted}'"
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        yield Line("packages", name, "problem", f"missing; {dist} requires it", remedy)
        return
    if satisfies(version, wanted):
        yield Line("packages", name, "ok", version)
    else:
        what = f"{version} is installed; {dist} requires {wanted}"
        yield Line("packages", name, "problem", what, remedy)


def satisfies(version: str, wanted: str) -> bool:
    """Whether a release version meets `>=`, `<`, `<=`, `>`, `==` and `!=` clauses."""
    have = _numbers(version)
    for clause in filter(None, (part.strip() for part in wanted.strip("()").split(","))):
        match = re.match(r"(>=|<=|==|!=|<|>)\s*([0-9.]+)$", clause)
        if match is None:
            continue  # a kind of clause that only an installer has to understand
        bound = _numbers(match[2])
        width = max(len(have), len(bound))
        left, right = (v + (0,) * (width - len(v)) for v in (have, bound))
        holds = {
            ">=": left >= right,
            "<=": left <= right,
            "==": left == right,
            "!=": left != right,
            "<": left < right,
            ">": left > right,
        }[match[1]]
        if not holds:
            return False
    return True


def _numbers(version: str) -> tuple[int, ...]:
    match = re.match(r"\d+(\.\d+)*", version)
    return tuple(map(int, match[0].split("."))) if match else (0,)


def settings() -> Iterator[Line]:
    """The `TEGULA_*` variables that are set, and those that nobody reads."""
    from tegula.config import KNOBS, PREFIX
    from tegula.errors import nearest

    known = {knob.env: knob for knob in KNOBS.values()}
    for variable, text in sorted(os.environ.items()):
        if not variable.startswith(PREFIX):
            continue
        if variable not in known:
            hint = nearest(variable, known).removeprefix("; ")
            yield Line("settings", variable, "warning", "is no setting of Tegula", hint)
            continue
        try:
            known[variable].parse(text)
            yield Line("settings", variable, "ok", repr(text))
        except ValueError as error:
            yield Line("settings", variable, "problem", f"{text!r}: {error}", known[variable].doc)


def cache() -> Iterator[Line]:
    """Whether compiled kernels can be kept."""
    from tegula.runtime.cache import info

    found = info()
    directory = found["directory"]
    remedy = "set TEGULA_CACHE_DIR to a directory that can be written"
    if not found["enabled"]:
        yield Line("cache", "disk cache", "ok", "switched off by TEGULA_CACHE")
    elif directory is None:
        yield Line("cache", "disk cache", "warning", "there is no place for it", remedy)
    elif not _can_write(Path(directory)):
        yield Line("cache", "disk cache", "warning", f"{directory} cannot be written", remedy)
    else:
        size = f"{found['entries']} entries, {found['bytes'] / 2**20:.1f} MiB"
        yield Line("cache", "disk cache", "ok", f"{size} in {directory}")


def _can_write(directory: Path) -> bool:
    existing = next(p for p in (directory, *directory.parents) if p.exists())
    return existing.is_dir() and os.access(existing, os.W_OK)


def backends(name: str | None, *, deep: bool, timeout: float) -> Iterator[Line]:
    """Every backend, from child processes."""
    from tegula.plugin.registry import registry
    from tegula.tools.inspection import inspect_backends

    for problem in registry.problems:
        yield Line("backends", "metadata", "warning", problem)
    names = None if name is None else [name]
    found = inspect_backends(names, checks=True, deep=deep, timeout=timeout)
    for inspection in found:
        yield _backend_line(inspection, required=name is not None)
        for check in inspection.checks:
            yield Line(
                f"backend {inspection.name}",
                check["name"],
                check["status"],
                check["message"],
                check["hint"],
            )
    if name is None and not any(i.devices and (i.priority or 0) >= 0 for i in found):
        yield Line(
            "backends",
            "choice",
            "warning",
            "only the interpreter can run kernels",
            "pip install 'tegula[cpu]'",
        )


def _backend_line(inspection: Inspection, *, required: bool) -> Line:
    if inspection.state.faulty or (required and not inspection.devices):
        status = "problem"
    else:
        status = "ok"
    what = f"{inspection.state} ({inspection.source})"
    if inspection.reason:
        what += f": {inspection.reason}"
    for device in inspection.devices:
        what += f"; {inspection.name}:{device['index']} is {device['name']}"
    return Line("backends", inspection.name, status, what, inspection.hint)
