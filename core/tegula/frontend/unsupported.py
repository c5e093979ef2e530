"""Parts of Python that kernels cannot use, with a way out for each."""

from __future__ import annotations

import ast
from typing import Final

STATEMENTS: Final[dict[type, tuple[str, str]]] = {
    ast.Lambda: ("`lambda`", "write a function under @tegula.jit and pass its name"),
    ast.Try: (
        "`try`",
        "kernels raise no exceptions; check conditions with `if` or tl.device_assert",
    ),
    ast.Raise: ("`raise`", "use tl.static_assert at compile time or tl.device_assert at run time"),
    ast.With: ("`with`", "kernels have no resources to manage; write the body alone"),
    ast.Set: ("sets", "use a tuple"),
    ast.DictComp: ("dictionary comprehensions", "use a list comprehension over a tuple"),
    ast.SetComp: ("set comprehensions", "use a list comprehension over a tuple"),
    ast.Global: ("`global`", "pass the value as an argument and return the new one"),
    ast.Nonlocal: ("`nonlocal`", "pass the value as an argument and return the new one"),
    ast.Import: ("`import`", "import at the top of the file"),
    ast.ImportFrom: ("`import`", "import at the top of the file"),
    ast.Delete: ("`del`", "variables need no clean-up; leave it out"),
    ast.Yield: ("`yield`", "return a tuple of all values"),
    ast.YieldFrom: ("`yield from`", "return a tuple of all values"),
    ast.Await: ("`await`", "kernels do not wait for anything; leave it out"),
    ast.Match: ("`match`", "write if/elif/else"),
    ast.FunctionDef: (
        "nested functions",
        "move the function to the top of the file, under @tegula.jit, and call it from there",
    ),
    ast.AsyncFunctionDef: (
        "`async def`",
        "move the function to the top of the file, under @tegula.jit",
    ),
    ast.ClassDef: (
        "class definitions",
        "define the class at the top of the file, or use a named tuple",
    ),
    ast.AsyncFor: ("`async for`", "use a plain `for`"),
    ast.AsyncWith: ("`async with`", "write the body alone"),
    ast.Starred: ("`*` here", "unpack in a call, f(*t), or name the elements: a, b = t"),
}
"""Kind of syntax -> (what it is called, what to write instead)."""
