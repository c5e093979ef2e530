"""Function libraries beside the language proper; each is imported when it is first used."""

from __future__ import annotations

import importlib
from typing import Any

__all__ = ["libdevice"]


def __getattr__(name: str) -> Any:
    if name == "libdevice":
        return importlib.import_module("tegula.language.extra.libdevice")
    raise AttributeError(f"tegula.language.extra has no {name!r}; it has libdevice")
