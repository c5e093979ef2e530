"""Names of `triton.language` that are not names of Tegula's language."""

from __future__ import annotations

from typing import Any

from tegula.language.dtypes import from_ir, parse_type


def str_to_ty(name: str, constants: Any = None) -> Any:
    """The dtype that a signature's text names: `"*fp32"`, `"i32"`."""
    return from_ir(parse_type(name))


__all__ = ["str_to_ty"]
