"""Names of `triton.language.extra.cuda` and `.hip` that are no functions of a device library."""

from __future__ import annotations

from typing import Any

from tegula.compat.triton.core import builtin
from tegula.frontend.diagnostics import LanguageError


@builtin
def num_warps(_semantic: Any = None) -> int:
    """The launch option of that name."""
    return int(_semantic.options.get("num_warps") or 4)


@builtin
def gdc_wait(_semantic: Any = None) -> None:
    """Nothing: launches begin when those before them have ended."""


@builtin
def gdc_launch_dependents(_semantic: Any = None) -> None:
    """Nothing: launches begin when those before them have ended."""


def _register(name: str, what: str) -> Any:
    def refuse(_semantic: Any = None) -> Any:
        raise LanguageError(
            f"{name} reads {what}, and no target of Tegula's tells that to a kernel",
            "measure around the launch, or pass the value as an argument",
        )

    refuse.__name__ = refuse.__qualname__ = name
    refuse.__doc__ = f"Would read {what}; refused when a kernel is compiled."
    return builtin(refuse)


globaltimer = _register("globaltimer", "a GPU's clock")
memrealtime = _register("memrealtime", "a GPU's clock")
num_threads = _register("num_threads", "the number of a GPU's threads")
smid = _register("smid", "the number of a GPU's multiprocessor")

__all__ = [
    "gdc_launch_dependents",
    "gdc_wait",
    "globaltimer",
    "memrealtime",
    "num_threads",
    "num_warps",
    "smid",
]
