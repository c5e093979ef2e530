"""How an error gets from where it is noticed to the line of the kernel that caused it."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from tegula.errors import SourceFrame

if TYPE_CHECKING:
    from .source import Source


class LanguageError(Exception):
    """A rule of the language is broken; the visitor adds the place. `hint` names a way out."""

    def __init__(self, message: str, hint: str = "") -> None:
        self.message = message
        self.hint = hint
        super().__init__(message)


class Unsupported(LanguageError):
    """A part of Python that the kernel language does not have: one of `errors.CONSTRUCTS`."""

    def __init__(self, construct: str, message: str, hint: str = "") -> None:
        super().__init__(message, hint)
        self.construct = construct


class ResultMismatch(LanguageError):
    """The paths through a function return different things; the place shown first is its `def`."""


class StaticAssertion(LanguageError):
    """A compile-time assertion does not hold."""


def frame_of(source: Source, function: str, node: ast.AST) -> SourceFrame:
    """The place of a syntax tree node."""
    line = source.line_of(node)
    text = source.line_text(line)
    # Columns of the tree count UTF-8 bytes; users count characters.
    raw = text.encode()
    start = len(raw[: node.col_offset].decode(errors="replace"))  # type: ignore[attr-defined]
    end = len(text)
    if getattr(node, "end_lineno", None) == node.lineno:  # type: ignore[attr-defined]
        end = len(raw[: node.end_col_offset].decode(errors="replace"))  # type: ignore[attr-defined]
    if isinstance(node, (ast.For, ast.While, ast.If, ast.With, ast.FunctionDef, ast.Try)):
        end = len(text.rstrip())
    origin = (source.line_of(source.tree), source.tree.col_offset + 1)
    return SourceFrame(function, source.file, line, start + 1, max(1, end - start), text, origin)
