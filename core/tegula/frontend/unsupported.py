"""Parts of Python that kernels cannot use, with a way out for each."""

from __future__ import annotations

import ast
from typing import Final

STATEMENTS: Final[dict[type, tuple[str, str, str]]] = {
    ast.Lambda: ("Lambda", "`lambda`", "write a function under @tegula.jit and pass its name"),
    ast.Try: (
        "Try",
        "`try`",
        "kernels raise no exceptions; check conditions with `if` or tl.device_assert",
    ),
    ast.Raise: (
        "Raise",
        "`raise`",
        "use tl.static_assert at compile time or tl.device_assert at run time",
    ),
    ast.Set: ("Set", "sets", "use a tuple"),
    ast.DictComp: (
        "DictionaryComprehension",
        "dictionary comprehensions",
        "use a list comprehension over a tuple",
    ),
    ast.SetComp: (
        "SetComprehension",
        "set comprehensions",
        "use a list comprehension over a tuple",
    ),
    ast.Global: ("Global", "`global`", "pass the value as an argument and return the new one"),
    ast.Nonlocal: (
        "Nonlocal",
        "`nonlocal`",
        "pass the value as an argument and return the new one",
    ),
    ast.Import: ("Import", "`import`", "import at the top of the file"),
    ast.ImportFrom: ("Import", "`import`", "import at the top of the file"),
    ast.Delete: ("Delete", "`del`", "variables need no clean-up; leave it out"),
    ast.Yield: ("Yield", "`yield`", "return a tuple of all values"),
    ast.YieldFrom: ("Yield", "`yield from`", "return a tuple of all values"),
    ast.Match: ("Match", "`match`", "write if/elif/else"),
    ast.FunctionDef: (
        "NestedFunction",
        "nested functions",
        "move the function to the top of the file, under @tegula.jit, and call it from there",
    ),
    ast.AsyncFunctionDef: (
        "AsyncFunction",
        "`async def`",
        "move the function to the top of the file, under @tegula.jit",
    ),
    ast.ClassDef: (
        "Class",
        "class definitions",
        "define the class at the top of the file, or use a named tuple",
    ),
}
"""Kind of syntax -> (its name in `errors.CONSTRUCTS`, what it is called, what to write instead)."""
