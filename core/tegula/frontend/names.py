"""Names in a function, by its text or by its syntax tree.

A launch that finds its kernel in the disk cache needs the names that the kernel refers to, and
parsing would be most of its time. `bare` takes strings and comments out of a text, `dotted` finds
the names in what is left; where that could miss one, `bare` says so and the tree is asked.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any, Final

_GAP: Final = "\0"
"""Stands for what was taken out of a text; Python's sources have none."""

_NOT_CODE = re.compile(
    r'"""[^"\\]*(?:(?:\\.|"(?!""))[^"\\]*)*(?:"""|\Z)'
    r"|'''[^'\\]*(?:(?:\\.|'(?!''))[^'\\]*)*(?:'''|\Z)"
    r'|"[^"\\\n]*(?:\\.[^"\\\n]*)*"'
    r"|'[^'\\\n]*(?:\\.[^'\\\n]*)*'"
    r"|\#[^\n]*|\\\r?\n",
    re.DOTALL,
)
"""Strings, comments, and ends of lines that a backslash takes away. A string in three quotes that
does not end takes all that follows.
"""

_INTERPOLATED = re.compile(f"{_GAP}(?<=[fFtT]{_GAP})|{_GAP}(?<=[fFtT][rR]{_GAP})")

_SPACES = {code: " " for code in range(128) if not (chr(code).isalnum() or chr(code) in "_.=")}
_WORD = re.compile(r"[^\W\d]\w*")


def bare(text: str) -> str | None:
    """A text without its strings and comments; None where strings hold code, or a name may be
    spelt in several ways.
    """
    code = _NOT_CODE.sub(_GAP, text)
    return None if not code.isascii() or _INTERPOLATED.search(code) else code


def is_whole(code: str) -> bool:
    """Whether what `bare` left of some lines ends outside of brackets, strings and statements."""
    return (
        '"' not in code
        and "'" not in code
        and code.endswith("\n")
        and all(code.count(a) == code.count(b) for a, b in ("()", "[]", "{}"))
    )


def dotted(code: str) -> set[str]:
    """Dotted names in what `bare` left of a text, such as `tl.load`, and some words that are no
    names.

    A dot beside a space parts two names: the second is lost, as are attributes of other things. A
    name right before a single `=` is a keyword or a target, which reads nothing.
    """
    parted = code.replace("==", " ").replace("=", "= ").translate(_SPACES)
    return {word.rstrip(".") for word in set(parted.split()) if not word.endswith("=")}


def words(text: str) -> set[str]:
    """Whatever may be a name in a text, strings and comments included."""
    return set(_WORD.findall(text))


def dotted_in_tree(tree: ast.FunctionDef) -> set[str]:
    """Dotted names in a function's syntax tree, decorators left out; each as long as it goes."""
    found: set[str] = set()
    taken: set[int] = set()
    whole = ast.Module([*tree.body, tree.args, tree.returns], [])  # type: ignore[list-item]
    for node in nodes(whole):
        path: list[str] = []
        inner: Any = node
        while isinstance(inner, ast.Attribute):
            path.insert(0, inner.attr)
            inner = inner.value
            taken.add(id(inner))
        if isinstance(inner, ast.Name) and id(node) not in taken:
            found.add(".".join([inner.id, *path]))
    return found


def nodes(tree: ast.AST) -> Iterator[ast.Name | ast.Attribute]:
    """Names and attributes in a syntax tree, outer ones first; `ast.walk` takes twice as long to
    come by them.
    """
    todo: list[Any] = [tree]
    while todo:
        node = todo.pop()
        kind = type(node)
        if kind is ast.Name:
            yield node
            continue
        if kind is ast.Attribute:
            yield node
        for child in node.__dict__.values():
            if type(child) is list:
                todo.extend(c for c in child if isinstance(c, ast.AST))
            elif isinstance(child, ast.AST):
                todo.append(child)
