"""Source text and syntax tree of a function, found without tokenising the file around it."""

from __future__ import annotations

import ast
import functools
import linecache
import textwrap
from dataclasses import dataclass
from types import FunctionType
from typing import Any

from tegula.errors import SourceError

# Functions defined inside of others are indented; parsing them under an `if` keeps their columns
# as in the file.
_WRAPPER = "if True:\n"


@dataclass(frozen=True, eq=False)
class Source:
    """Where a function is written, its text, and its tree.

    `line_of(node)` turns a line of the tree into a line of the file; columns need no change.
    """

    file: str
    first_line: int
    """1-based line of the first decorator, or of `def`."""
    lines: tuple[str, ...]
    """The function's lines, from `first_line` on."""
    tree: ast.FunctionDef
    offset: int
    """What to add to a line of the tree."""

    @classmethod
    def of(cls, fn: FunctionType) -> Source:
        """The source of a Python function."""
        code = fn.__code__
        lines = linecache.getlines(code.co_filename, fn.__globals__)
        start = code.co_firstlineno - 1
        if not 0 <= start < len(lines):
            raise SourceError(_no_source(fn))
        block, tree, shift = _parse_block(fn, lines, start)
        return cls(code.co_filename, start + 1, tuple(block), tree, start - shift)

    @classmethod
    def edited(cls, original: Source, text: str) -> Source:
        """Another text, from `def` on, in the place of a function's own."""
        lines = tuple(text.splitlines(keepends=True))
        (tree,) = ast.parse(text).body
        if not isinstance(tree, ast.FunctionDef):
            raise SourceError("the text that replaces a function's has to begin with `def`")
        first = original.tree.lineno + original.offset
        return cls(original.file, first, lines, tree, first - 1)

    @functools.cached_property
    def text(self) -> str:
        """The text from `def` on, dedented: decorators do not change what a function means."""
        skip = self.tree.lineno + self.offset - self.first_line
        return textwrap.dedent("".join(self.lines[skip:]))

    def line_of(self, node: Any) -> int:
        """1-based line of a node in the file."""
        return int(node.lineno) + self.offset

    def line_text(self, line: int) -> str:
        """One line of the file, by its number; empty outside of the function."""
        index = line - self.first_line
        return self.lines[index].rstrip("\n") if 0 <= index < len(self.lines) else ""


def _no_source(fn: FunctionType) -> str:
    where = fn.__code__.co_filename
    return (
        f"the source of `{fn.__name__}` is not available (it was defined in {where}); "
        "define kernels in a file or a notebook cell, or register the text in `linecache.cache` "
        "before exec()"
    )


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" \t\f"))


def _parse_block(
    fn: FunctionType, lines: list[str], start: int
) -> tuple[list[str], ast.FunctionDef, int]:
    """The lines of the definition that begins at `start`, its tree, and how many lines the wrapper
    added.

    The definition ends before a line that is indented no deeper than itself. Such a line may also
    sit inside of a multi-line string or brackets, but then the text before it does not parse, and
    the search goes on.
    """
    depth = _indent(lines[start])
    prefix, shift = (_WRAPPER, 1) if depth else ("", 0)
    header_seen = False
    for end in range(start + 1, len(lines) + 1):
        header_seen = header_seen or lines[end - 1].lstrip().startswith(("def ", "async def "))
        if not header_seen:
            continue
        if end < len(lines):
            text = lines[end].strip()
            if not text or text.startswith("#") or _indent(lines[end]) > depth:
                continue
        try:
            module = ast.parse(prefix + "".join(lines[start:end]))
        except SyntaxError:
            continue
        node: Any = module.body[0]
        if shift:
            node = node.body[0]
        if isinstance(node, ast.FunctionDef) and node.name == fn.__name__:
            while not lines[end - 1].strip() or (
                lines[end - 1].lstrip().startswith("#") and _indent(lines[end - 1]) <= depth
            ):
                end -= 1
            return lines[start:end], node, shift
        break
    raise SourceError(
        f"line {start + 1} of {fn.__code__.co_filename} no longer holds `{fn.__name__}`; "
        "the file has changed since it was imported: restart Python or reload the module"
    )
