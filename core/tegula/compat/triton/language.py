"""Names of `triton.language` that are not names of Tegula's language."""

from __future__ import annotations

from typing import Any

from tegula.language.dtypes import from_ir, parse_type


def str_to_ty(name: str, constants: Any = None) -> Any:
    """The dtype that a signature's text names: `"*fp32"`, `"i32"`."""
    return from_ir(parse_type(name))


TRITON_MAX_TENSOR_NUMEL = 1 << 20
"""What programs clip their blocks to; Tegula has no such limit."""

slice = slice
"""Slices of a kernel are Python's slices."""

__all__ = ["TRITON_MAX_TENSOR_NUMEL", "slice", "str_to_ty"]
