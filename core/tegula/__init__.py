"""Tegula: tile kernels, written once in Python, run on whatever device their tensors live on."""

from __future__ import annotations

from typing import Any

__version__ = "0.1.0"

# Public name -> module that defines it. Nothing is imported before it is asked for.
_LAZY = {
    "use_device": "tegula.plugin.select",
}


def __getattr__(name: str) -> Any:
    module = _LAZY.get(name)
    if module is None:
        raise AttributeError(f"module 'tegula' has no attribute {name!r}")
    import importlib

    value = getattr(importlib.import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
