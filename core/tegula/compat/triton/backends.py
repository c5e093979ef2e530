"""`triton.backends`: the installed backends by name."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any


def _installed() -> dict[str, Any]:
    """One entry, which answers for the device of the moment under the name of its backend."""
    from tegula.compat.triton import driver

    name = driver.active.get_current_target().backend
    return {name: SimpleNamespace(driver=SimpleNamespace(is_active=driver.active.is_active))}


def __getattr__(name: str) -> Any:
    if name == "backends":
        return _installed()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
