"""The suite as pytest tests, for a package of its own:

    # tests/test_conformance.py
    from tegula.conformance.suite import *

    BACKEND = "acme"

Each test of the suite becomes one of pytest. Further names that the module may set: `LEVEL`
(default 2), `FULL` (False), `DEVICE` (0), `SELECT` (words of test ids), `SEED` (0), `ISOLATE`
(True: tests run in a worker process, so that a crash is a failure of one test), `REPORT` (a path
for the report).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tegula.conformance import exceptions, report
from tegula.conformance.catalog import selected
from tegula.conformance.pool import Pool
from tegula.conformance.runner import Unavailable
from tegula.conformance.testing import Context, Result, Test, perform

__all__ = ["conformance_backend", "pytest_generate_tests", "test_conformance"]

DEFAULTS: dict[str, Any] = {
    "LEVEL": None, "FULL": False, "DEVICE": 0, "SELECT": "", "SEED": 0, "ISOLATE": True,
    "REPORT": None,
}  # fmt: skip


class Settings:
    """What the test module says."""

    def __init__(self, module: Any) -> None:
        backend = getattr(module, "BACKEND", None)
        if not isinstance(backend, str):
            raise pytest.UsageError(
                f'{module.__name__}: set BACKEND = "..." to the name of the backend to be tested'
            )
        self.backend = backend
        given = {name: getattr(module, name, default) for name, default in DEFAULTS.items()}
        self.full = bool(given["FULL"])
        self.level = given["LEVEL"] if given["LEVEL"] is not None else (4 if self.full else 2)
        self.device, self.seed = int(given["DEVICE"]), int(given["SEED"])
        self.words, self.isolate = str(given["SELECT"]), bool(given["ISOLATE"])
        self.report = given["REPORT"]

    def tests(self) -> list[Test]:
        return selected(self.full, self.level, expression=self.words)


class Running:
    """The backend while its tests run, and what came out so far."""

    def __init__(self, settings: Settings) -> None:
        from tegula.plugin.errors import PluginError
        from tegula.plugin.registry import registry

        self.settings = settings
        try:
            self.backend = registry.backend(settings.backend)
            self.backend.info(settings.device)
        except PluginError as error:
            raise Unavailable(str(error)) from None
        self.profile = self.backend.conformance()
        self.pool = Pool(
            {
                "backend": settings.backend,
                "device": settings.device,
                "full": settings.full,
                "seed": settings.seed,
            }
        )
        self.context = Context(settings.backend, settings.device, settings.full, settings.seed)
        self.by_id = {t.id: t for t in settings.tests()}
        self.results: dict[str, Result] = {}

    def run(self, id: str) -> Result:
        """Run a test and apply the declared exceptions."""
        test = self.by_id[id]
        if not self.settings.isolate:
            raw = perform(test, self.context)
        else:
            answer = self.pool.one({"do": "test", "id": id}, test.timeout)
            if answer.outcome in ("crash", "timeout"):
                raw = Result(id, answer.outcome, answer.message)
            else:
                d = answer.data
                ulp = d["max_ulp"] if d["max_ulp"] is not None else float("inf")
                raw = Result(id, d["outcome"], d["message"], d["ms"], ulp)
        version = self.backend.source.version
        result = exceptions.apply(test, raw, self.profile.expectations, version, True)
        self.results[id] = result
        return result

    def close(self) -> None:
        """End the worker; write the report if one is wanted."""
        self.pool.__exit__()
        if self.settings.report and self.results:
            tests = [t for t in self.settings.tests() if t.id in self.results]
            made = report.build(
                self.settings.backend,
                tests,
                self.results,
                device=self.settings.device,
                full=self.settings.full,
                seed=self.settings.seed,
                complete=len(tests) == len(self.by_id) and not self.settings.words,
            )
            Path(self.settings.report).write_text(json.dumps(made, indent=1) + "\n")


@pytest.fixture(scope="module")
def conformance_backend(request: pytest.FixtureRequest) -> Iterator[Running]:
    """The backend that the module names. A missing device is an error, never a success."""
    running = Running(Settings(request.module))
    yield running
    running.close()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One pytest test for each of the suite."""
    if "conformance_id" in metafunc.fixturenames:
        ids = [t.id for t in Settings(metafunc.module).tests()]
        metafunc.parametrize("conformance_id", ids)


def test_conformance(conformance_backend: Running, conformance_id: str) -> None:
    """A test of the suite; its id is that of reports and of `tegula conformance -k`."""
    result = conformance_backend.run(conformance_id)
    if result.outcome == "unsupported":
        pytest.skip(f"unsupported: {result.message}")
    if result.outcome == "xfail":
        pytest.xfail(result.message)
    if result.outcome != "pass":
        pytest.fail(f"{result.outcome}: {result.message}", pytrace=False)
