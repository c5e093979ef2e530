"""Tests of the language's meaning run on every backend that can run here."""

from __future__ import annotations

import kernel_runner
import pytest


@pytest.fixture
def on_each_backend(backend_name: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Let `run` and `call` of the kernel runner use the backend of this turn."""
    monkeypatch.setattr(kernel_runner, "BACKEND", backend_name)
    return backend_name
