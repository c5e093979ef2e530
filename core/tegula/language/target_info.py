"""`tl.target_info`: what a kernel is being compiled for, at compile time.

    wide = tl.target_info.current_target()["vector_bits"] >= 512
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tegula.frontend.diagnostics import LanguageError

from .builtin import builtin
from .values import describe

if TYPE_CHECKING:
    from tegula.frontend.semantic import Semantic


@builtin
def current_target(s: Semantic) -> Any:
    """The target: `.backend`, `.arch`, and facts such as `target["vector_bits"]`."""
    target = s.options.get("target")
    if target is None:
        raise LanguageError(
            "target_info: this kernel is compiled without a target",
            "launch it, or compile it for a backend",
        )
    return target


@builtin
def is_backend(s: Semantic, name: str) -> bool:
    """Whether the kernel is compiled for the backend of this name."""
    if not isinstance(name, str):
        raise LanguageError(f"is_backend takes a backend's name, not {describe(name)}")
    return bool(getattr(s.options.get("target"), "backend", None) == name)
