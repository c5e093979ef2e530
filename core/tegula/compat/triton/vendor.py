"""Names of `triton.language.extra.cuda` and `.hip` that are no functions of a device library."""

from __future__ import annotations

from typing import Any

from tegula.compat.triton.core import builtin
from tegula.compat.triton.target_info import known_target
from tegula.frontend.diagnostics import LanguageError


@builtin
def num_warps(_semantic: Any = None) -> int:
    """The launch option of that name."""
    return int(_semantic.options.get("num_warps") or 4)


@builtin
def num_threads(_semantic: Any = None) -> int:
    """The threads of a program, on targets that have threads."""
    known = known_target(_semantic.options.get("target"))
    if known is None or not known.readings:
        raise _refused("num_threads", "the number of a GPU's threads")
    return int(num_warps.emit(_semantic)) * known.warp_size


@builtin
def gdc_wait(_semantic: Any = None) -> None:
    """Nothing: a launch with `launch_pdl` does it before anything else; others need it not."""


@builtin
def gdc_launch_dependents(_semantic: Any = None) -> None:
    """Nothing: a launch with `launch_pdl` does it before anything else; others need it not."""


def _refused(name: str, what: str) -> LanguageError:
    return LanguageError(
        f"{name} reads {what}, which this target does not tell a kernel",
        "measure around the launch, or pass the value as an argument",
    )


def _register(name: str, what: str) -> Any:
    def read(_semantic: Any = None) -> Any:
        from tegula.language.dtypes import from_ir
        from tegula.language.foreign import inline_asm_elementwise

        known = known_target(_semantic.options.get("target"))
        if known is None or name not in known.readings:
            raise _refused(name, what)
        text, constraints, elem = known.readings[name]
        return inline_asm_elementwise.emit(  # type: ignore[attr-defined]
            _semantic, text, constraints, (), from_ir(DTYPES[elem]), False, 1
        )

    from tegula.ir.types import DTYPES

    read.__name__ = read.__qualname__ = name
    read.__doc__ = f"Reads {what}; refused for targets without."
    return builtin(read)


globaltimer = _register("globaltimer", "a GPU's clock")
memrealtime = _register("memrealtime", "a GPU's clock")
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
