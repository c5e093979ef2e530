"""Collects `.tir` files as tests, and gives tests the backends that can run here."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tegula.tools.filetest import Case, FileTestFailure, blessed, read_cases, run_case


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--bless", action="store_true", help="write the results into .tir files")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_changes] = {}
    os.environ.setdefault("TEGULA_VERIFY", "1")  # every kernel, after every pass


_changes: pytest.StashKey[dict[Path, dict[int, list[str]]]] = pytest.StashKey()


def available_backends() -> list[str]:
    """Backends that can run kernels on host memory here, the interpreter first."""
    from tegula.tools.execute import backend_names

    return backend_names()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "backend_name" in metafunc.fixturenames and "backend_name" not in _parametrized(metafunc):
        metafunc.parametrize("backend_name", available_backends())


def _parametrized(metafunc: pytest.Metafunc) -> set[str]:
    names: set[str] = set()
    for mark in metafunc.definition.iter_markers("parametrize"):
        given = mark.args[0]
        names.update(given.replace(" ", "").split(",") if isinstance(given, str) else given)
    return names


@pytest.hookimpl(tryfirst=True)
def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    if file_path.suffix == ".tir":
        return TirFile.from_parent(parent, path=file_path)
    return None


class TirFile(pytest.File):
    """A file of cases."""

    def collect(self) -> Iterator[pytest.Item]:
        for case in read_cases(self.path):
            if case.command != "execute":
                yield TirItem.from_parent(self, name=case.name, case=case, backend="interpreter")
                continue
            for backend in available_backends():
                name = f"{case.name}[{backend}]"
                yield TirItem.from_parent(self, name=name, case=case, backend=backend)


class TirItem(pytest.Item):
    """A case, on a backend."""

    def __init__(self, *, case: Case, backend: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.case = case
        self.backend = backend

    def runtest(self) -> None:
        bless = self.config.getoption("--bless") and self.backend == "interpreter"
        lines = run_case(self.case, self.backend, bless)
        if lines is not None:
            changes = self.config.stash[_changes].setdefault(self.path, {})
            changes[self.case.number] = lines

    def repr_failure(self, excinfo: Any, style: Any = None) -> Any:
        if isinstance(excinfo.value, FileTestFailure):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, self.case.first_line - 1, self.name


def pytest_sessionfinish(session: pytest.Session) -> None:
    for path, changes in session.config.stash[_changes].items():
        blessed(path, changes)
        print(f"\nblessed {len(changes)} cases of {path}")
