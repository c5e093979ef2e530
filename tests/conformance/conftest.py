"""Installs mutants and other backends for the tests of the suite."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from tegula.plugin.registry import registry

HERE = Path(__file__).parent


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """NaN and overflows are what the suite is about."""
    with np.errstate(all="ignore"):
        yield


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], str]]:
    """Make a mutant's backend known; gives the backend's name."""
    monkeypatch.syspath_prepend(str(HERE))
    sys.modules.pop("mutants", None)

    def plant(name: str) -> str:
        monkeypatch.setenv("TEGULA_PLUGIN_PATH", f"mutant_{name}=mutants:{name}")
        registry.refresh()
        return f"mutant_{name}"

    yield plant
    monkeypatch.undo()
    registry.refresh()
