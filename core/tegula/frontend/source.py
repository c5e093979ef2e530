"""Where a function is written: its text, and its syntax tree when somebody asks for it.

The end of a function is found from its lines, without tokenising the file around it and as a rule
without parsing: a launch that finds its kernel in the disk cache needs no tree.
"""

from __future__ import annotations

import ast
import functools
import linecache
import re
import textwrap
from dataclasses import dataclass
from types import FunctionType
from typing import Any

from tegula.errors import SourceError

from .names import bare, is_whole

# Functions defined inside of others are indented; parsing them under an `if` keeps their columns
# as in the file.
_WRAPPER = "if True:\n"

_DEF = re.compile(r"[ \t\f]*def[ \t]+(\w+)")


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
    header: int
    """How many lines decorators take."""
    code: str | None
    """What follows the function's name, without strings and comments; None where only the tree says
    which names are in it.
    """
    name: str
    replaced: bool = False
    """Whether this is another text than the function's own."""

    @classmethod
    def of(cls, fn: FunctionType) -> Source:
        """The source of a Python function."""
        file, name = fn.__code__.co_filename, fn.__name__
        lines = linecache.getlines(file, fn.__globals__)
        start = fn.__code__.co_firstlineno - 1
        if not 0 <= start < len(lines):
            raise SourceError(_no_source(fn))
        found = _find_block(name, lines, start)
        if found is not None:
            end, header, code = found
            return cls(file, start + 1, tuple(lines[start:end]), header, code, name)
        end, tree = _parse_block(file, name, lines, start)
        header = tree.lineno - (2 if _indent(lines[start]) else 1)
        source = cls(file, start + 1, tuple(lines[start:end]), header, None, name)
        source.__dict__["tree"] = tree
        return source

    @classmethod
    def edited(cls, original: Source, text: str) -> Source:
        """Another text, from `def` on, in the place of a function's own."""
        lines = tuple(text.splitlines(keepends=True))
        (tree,) = ast.parse(text).body
        if not isinstance(tree, ast.FunctionDef):
            raise SourceError("the text that replaces a function's has to begin with `def`")
        first = original.first_line + original.header
        return cls(original.file, first, lines, 0, None, tree.name, replaced=True)

    @functools.cached_property
    def tree(self) -> ast.FunctionDef:
        """The syntax tree."""
        return _parse_block(self.file, self.name, list(self.lines), 0, self.first_line)[1]

    @functools.cached_property
    def offset(self) -> int:
        """What to add to a line of the tree."""
        return self.first_line - (2 if _indent(self.lines[0]) else 1)

    @functools.cached_property
    def raw(self) -> str:
        """The text from `def` on, as in the file: decorators do not change what a function
        means.
        """
        return "".join(self.lines[self.header :])

    @property
    def text(self) -> str:
        """The text from `def` on, dedented."""
        return textwrap.dedent(self.raw)

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


def _find_block(name: str, lines: list[str], start: int) -> tuple[int, int, str] | None:
    """Where the definition that begins at `start` ends, how many lines its decorators take, and
    what follows its name, without strings and comments; None where that takes a parser.

    The definition ends before a line that is indented no deeper than itself, unless that line is
    inside of a string or brackets.
    """
    depth = _indent(lines[start])
    header = start
    if not lines[start].lstrip().startswith(("@", "def")):
        return None
    while not (match := _DEF.match(lines[header])):
        header += 1
        if header == len(lines):
            return None
    if match[1] != name:
        return None
    for end in range(header + 1, len(lines) + 1):
        if end < len(lines) and lines[end][: depth + 1].isspace():
            continue
        if end < len(lines) and lines[end].lstrip()[:1] in ("", "#"):
            continue
        code = bare("".join(lines[header:end]))
        if code is None:
            return None
        if is_whole(code):
            return _without_tail(lines, end, depth), header - start, code[match.end() :]
    return None


def _without_tail(lines: list[str], end: int, depth: int) -> int:
    """`end` without empty lines before it, and comments that are indented no deeper."""
    while not (line := lines[end - 1]).strip() or (
        line.lstrip().startswith("#") and _indent(line) <= depth
    ):
        end -= 1
    return end


def _parse_block(
    file: str, name: str, lines: list[str], start: int, first_line: int = 1
) -> tuple[int, ast.FunctionDef]:
    """Where the definition that begins at `start` ends, and its tree.

    A line that is indented no deeper than the definition may also sit inside of a multi-line string
    or brackets, but then the text before it does not parse, and the search goes on.
    """
    depth = _indent(lines[start])
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
            module = ast.parse((_WRAPPER if depth else "") + "".join(lines[start:end]))
        except SyntaxError:
            continue
        node: Any = module.body[0]
        if depth:
            node = node.body[0]
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return _without_tail(lines, end, depth), node
        break
    raise SourceError(
        f"line {start + first_line} of {file} no longer holds `{name}`; "
        "the file has changed since it was imported: restart Python or reload the module"
    )
