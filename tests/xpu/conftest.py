"""Tests of the backend for Intel devices; what needs a device is skipped where there is none."""

from __future__ import annotations

import pytest


def why_no_device() -> str:
    """Why nothing can be run; empty where it can."""
    from tegula.plugin.registry import registry

    if "xpu" not in registry.names():
        return "tegula-xpu is not installed"
    backend = registry.backend("xpu")
    return "" if backend.available else f"no device: {backend.probe().reason}"


@pytest.fixture(scope="session")
def device():
    """An open device of the backend."""
    reason = why_no_device()
    if reason:
        pytest.skip(reason)
    from tegula.plugin.registry import registry

    return registry.backend("xpu").device(0)
