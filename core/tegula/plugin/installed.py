"""Installed distributions that declare entry points of one group.

The standard library's reader imports the `email` package among others, which costs a program more
time than everything else that its first launch needs of this package. Folders of metadata on
sys.path are plain files, so they are read here; everything else is left to the standard library.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib import metadata

_FOLDER = re.compile(r"(?P<name>[^-]+)(-.*)?\.(dist|egg)-info\Z")


@dataclass(frozen=True)
class EntryPoint:
    """One entry point with what is known of its distribution."""

    name: str
    module: str
    dist: str
    version: str
    requires: tuple[str, ...]


Reader = Callable[[str], list[EntryPoint]]
"""Gives a distribution's entry points of a group."""


def normal(dist: str) -> str:
    """A distribution's name in the form in which names are compared."""
    return re.sub(r"[-_.]+", "-", dist).lower()


def entry_points(group: str) -> tuple[list[EntryPoint], list[str]]:
    """All entry points of a group, and what was wrong with distributions that cannot be read.

    Of a distribution that is on sys.path twice, the first counts, as it does for imports.
    """
    found: list[EntryPoint] = []
    problems: list[str] = []
    seen: set[str] = set()
    for name, reader in _distributions():
        if normal(name) in seen:
            continue
        seen.add(normal(name))
        try:
            found += reader(group)
        except Exception as error:
            problems.append(f"metadata of '{name}' cannot be read: {type(error).__name__}: {error}")
    return found, problems


def _read_folder(path: str, group: str) -> list[EntryPoint]:
    """The entry points of one folder of metadata."""
    text = _text(path, "entry_points.txt")
    if group not in text:
        return []
    header = (_text(path, "METADATA") or _text(path, "PKG-INFO")).partition("\n\n")[0]
    fields = [line.partition(": ")[::2] for line in header.splitlines()]
    first = dict(reversed(fields))
    requires = tuple(value for key, value in fields if key == "Requires-Dist")
    return [
        EntryPoint(key, module, first["Name"].strip(), first["Version"].strip(), requires)
        for key, module in _section(text, group)
    ]


def _text(path: str, file: str) -> str:
    try:
        with open(os.path.join(path, file), encoding="utf-8") as stream:
            return stream.read()
    except (FileNotFoundError, NotADirectoryError):
        return ""


def _section(text: str, group: str) -> Iterator[tuple[str, str]]:
    current = None
    for line in map(str.strip, text.splitlines()):
        if not line or line.startswith(("#", ";")):
            continue
        if line.startswith("["):
            if not line.endswith("]"):
                raise ValueError(f"bad line {line!r} in entry_points.txt")
            current = line[1:-1].strip()
        elif current == group:
            key, equals, value = (part.strip() for part in line.partition("="))
            # Extras in brackets behind the module say nothing to us.
            module = value.partition("[")[0].strip()
            if not (key and equals and re.fullmatch(r"[\w.]+(\s*:\s*[\w.]+)?", module)):
                raise ValueError(f"bad line {line!r} in entry_points.txt")
            yield key, re.sub(r"\s", "", module)


def _distributions() -> Iterator[tuple[str, Reader]]:
    """Names of distributions in the order of sys.path, each with its reader."""
    for entry in sys.path:
        folder = entry or os.getcwd()
        if os.path.isdir(folder):
            yield from _in_folder(folder)
        elif os.path.isfile(folder):  # a zip file
            yield from _by_library([folder])
    if any(_finds_distributions(finder) for finder in sys.meta_path):
        yield from _by_library(None)


def _in_folder(folder: str) -> Iterator[tuple[str, Reader]]:
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return  # it cannot be imported from, either
    for name in names:
        match = _FOLDER.match(name)
        if match is not None:
            yield match["name"], partial(_read_folder, os.path.join(folder, name))


def _finds_distributions(finder: object) -> bool:
    module = getattr(finder, "__module__", type(finder).__module__)
    return hasattr(finder, "find_distributions") and not module.startswith("_frozen_importlib")


def _by_library(path: list[str] | None) -> Iterator[tuple[str, Reader]]:
    from importlib import metadata

    found = metadata.distributions() if path is None else metadata.distributions(path=path)
    for dist in found:
        yield dist.name or "a distribution without a name", partial(_read_library, dist)


def _read_library(dist: metadata.Distribution, group: str) -> list[EntryPoint]:
    """The entry points of a distribution that the standard library found."""
    return [
        EntryPoint(point.name, point.value, dist.name, dist.version, tuple(dist.requires or ()))
        for point in dist.entry_points
        if point.group == group
    ]
