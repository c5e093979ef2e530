"""Fixtures of the launch tests: a cache of their own, and a backend that records launches."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tegula.config import config
from tegula.plugin.registry import registry
from tegula.runtime import cache

BACKEND = "runtime.recording_backend"


@pytest.fixture(autouse=True)
def cache_dir(tmp_path: Path) -> Iterator[Path]:
    """A fresh disk cache."""
    directory = tmp_path / "cache"
    with config.scope(cache_dir=str(directory)):
        cache._memory.clear()
        cache._warned.clear()
        yield directory


@pytest.fixture
def recording() -> Iterator[ModuleType]:
    """The recording backend, registered and chosen; its module knows what was compiled."""
    from runtime import recording_backend

    with config.scope(plugin_path=f"recording={BACKEND}", device="recording"):
        registry.refresh()
        registry.backend("recording")  # looked for now: threads do not see this scope
        recording_backend.compilations.clear()
        yield recording_backend
    registry.refresh()
