"""Environment variables of Triton that have a counterpart among Tegula's settings."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, Final

from tegula.config import KNOBS, config


def _truth(text: str) -> bool:
    return text.strip().lower() in ("1", "true", "on", "y", "yes")


COUNTERPARTS: Final[dict[str, tuple[str, Callable[[str], Any]]]] = {
    "TRITON_INTERPRET": ("interpret", _truth),
    "TRITON_DEBUG": ("asserts", _truth),
    "TRITON_F32_DEFAULT": ("dot_precision", str),
    "TRITON_DEFAULT_FP_FUSION": ("fp_fusion", _truth),
    "TRITON_CACHE_DIR": ("cache_dir", str),
    "TRITON_ALWAYS_COMPILE": ("cache", lambda text: not _truth(text)),
    "TRITON_CACHE_AUTOTUNING": ("cache_tuning", _truth),
    "TRITON_PRINT_AUTOTUNING": ("print_tuning", _truth),
}
"""Variable of Triton -> setting of Tegula, and how its text is read."""


def adopt(environment: Mapping[str, str]) -> None:
    """Set what these variables ask for, unless Tegula's own variable says something."""
    for name in COUNTERPARTS:
        if environment.get(name):
            changed(name, environment[name])


def changed(name: str, text: str | None) -> None:
    """Follow a change of one of Triton's variables; None: it is unset."""
    counterpart = COUNTERPARTS.get(name)
    if counterpart is None:
        return
    setting, parse = counterpart
    if KNOBS[setting].env not in os.environ:
        value = None if text is None else parse(text)
        config.set(**{setting: None if value == KNOBS[setting].default else value})
