"""`triton.backends`: the installed backends by name."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any


def _installed() -> dict[str, Any]:
    from tegula.compat.triton import driver

    active = driver.active
    return {"cpu": SimpleNamespace(driver=SimpleNamespace(is_active=lambda: active is not None))}


backends = _installed()
