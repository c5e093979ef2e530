"""Every planted fault is caught by the suite; wrong values are found by the fuzzer too."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tegula.conformance import runner
from tegula.tools.fuzz import fuzz

sys.path.insert(0, str(Path(__file__).parent))
from mutants import MUTANTS

sys.path.pop(0)

ISOLATED = frozenset({"crash", "timeout"})


def outcomes(backend: str, name: str, apart: bool) -> dict[str, str]:
    """The outcomes of the tests that have to notice a mutant; `apart`: in a worker process."""
    mutant = MUTANTS[name]
    made = runner.run(
        backend,
        level=4,
        expression=mutant.hint,
        isolate=apart,
        timeout_scale=0.1 if "timeout" in mutant.outcomes else 1.0,
        fail_fast=True,
    )
    return {row["id"]: row["outcome"] for row in made["tests"]}


@pytest.mark.parametrize("name", sorted(MUTANTS))
def test_the_suite_catches(name: str, install: Callable[[str], str]) -> None:
    found = outcomes(install(name), name, bool(MUTANTS[name].outcomes & ISOLATED))

    assert set(found.values()) & MUTANTS[name].outcomes, found


def test_there_are_enough_mutants() -> None:
    assert len(MUTANTS) >= 12
    assert all(m.__doc__ and m.hint for m in MUTANTS.values())


@pytest.mark.parametrize("name", sorted(MUTANTS))
def test_what_catches_a_mutant_passes_without_it(name: str) -> None:
    found = outcomes("interpreter", name, apart=False)

    assert found
    assert set(found.values()) <= {"pass", "unsupported"}, found


QUICK = ("swapped", "off_by_one_mask", "lost_last_store", "stale_cache")


def fuzz_finds(name: str, backend: str, programs: int) -> None:
    summary = fuzz(backend, programs, reduce_seconds=0, stop_after=1)

    assert summary.findings, f"{programs} programs show nothing of {name}"


@pytest.mark.parametrize("name", QUICK)
def test_the_fuzzer_finds(name: str, install: Callable[[str], str]) -> None:
    fuzz_finds(name, install(name), 200)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(n for n, m in MUTANTS.items() if m.values))
def test_the_fuzzer_finds_within_two_thousand(name: str, install: Callable[[str], str]) -> None:
    fuzz_finds(name, install(name), 2000)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(MUTANTS))
def test_the_suite_catches_on_cpu(
    name: str, install: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("tegula_cpu")
    monkeypatch.setenv("TEGULA_MUTANT_BASE", "cpu")
    found = outcomes(install(name), name, apart=True)

    assert set(found.values()) & MUTANTS[name].outcomes, found
