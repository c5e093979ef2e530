"""Faults planted in copies of the CPU backend are found, by the suite and by the fuzzer."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tegula.conformance import runner
from tegula.plugin.registry import registry
from tegula.tools.fuzz import fuzz

pytest.importorskip("tegula_cpu")

sys.path.insert(0, str(Path(__file__).parent))
from copies import FAULTS, make_copy, name_of

sys.path.pop(0)

QUICK = ("swapped", "lost_last_store", "stale_cache", "lying_capability")
PROGRAMS = 2000


@pytest.fixture
def copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], str]]:
    """Make a copy of the CPU backend known; gives its name."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("TEGULA_CACHE_DIR", str(tmp_path / "cache"))

    def make(fault: str) -> str:
        changes = FAULTS[fault].changes if fault else ()
        name = name_of(fault or "without_fault")
        monkeypatch.setenv("TEGULA_PLUGIN_PATH", make_copy(tmp_path, name, changes))
        registry.refresh()
        return name

    yield make
    monkeypatch.undo()
    registry.refresh()


def outcomes(backend: str, expression: str, quick: bool, stop: bool = True) -> dict[str, str]:
    made = runner.run(
        backend,
        level=4,
        expression=expression,
        workers=2,
        timeout_scale=0.1 if quick else 1.0,
        fail_fast=stop,
    )
    return {row["id"]: row["outcome"] for row in made["tests"]}


def suite_finds(fault: str, backend: str) -> None:
    wanted = FAULTS[fault].outcomes
    found = outcomes(backend, FAULTS[fault].hint, "timeout" in wanted)

    assert set(found.values()) & wanted, found


@pytest.mark.parametrize("fault", QUICK)
def test_the_suite_finds(fault: str, copied: Callable[[str], str]) -> None:
    suite_finds(fault, copied(fault))


@pytest.mark.slow
@pytest.mark.parametrize("fault", sorted(set(FAULTS) - set(QUICK)))
def test_the_suite_finds_the_others(fault: str, copied: Callable[[str], str]) -> None:
    suite_finds(fault, copied(fault))


@pytest.mark.slow
def test_a_copy_without_a_fault_passes(copied: Callable[[str], str]) -> None:
    words = " ".join(dict.fromkeys(w for f in FAULTS.values() for w in f.hint.split()))
    found = outcomes(copied(""), words, False, stop=False)

    assert len(found) > 50
    assert set(found.values()) <= {"pass", "unsupported"}, found


@pytest.mark.slow
@pytest.mark.parametrize("fault", sorted(n for n, f in FAULTS.items() if f.values))
def test_the_fuzzer_finds(fault: str, copied: Callable[[str], str]) -> None:
    timeout = 5.0 if "timeout" in FAULTS[fault].outcomes else 60.0
    summary = fuzz(copied(fault), PROGRAMS, reduce_seconds=0, stop_after=1, workers=2,
                   timeout=timeout)  # fmt: skip

    assert summary.findings, f"{PROGRAMS} programs show nothing of {fault}"
    print(fault, summary.programs, summary.findings[0].outcome)


@pytest.mark.parametrize("fault", sorted(FAULTS))
def test_a_fault_is_one_change_of_the_text(fault: str, tmp_path: Path) -> None:
    """The texts that are replaced are still there, once, and what comes of it is Python."""
    make_copy(tmp_path, name_of(fault), FAULTS[fault].changes)
    for file, _, _ in FAULTS[fault].changes:
        compile((tmp_path / name_of(fault) / file).read_text(), file, "exec")
