"""Loops without jumps: `break`, `continue` and `return` inside of loops, and `else` behind them,
written as flags.

The statements that a jump skips move under an `if`. Where a branch surely jumps, what follows the
`if` moves into its other branch and no flag is tested:

    for i in range(n):              exit = False
        if bad(i):                  for i in range(n):       # left while `exit` holds
            break           ==>         exit = False
        work(i)                         if bad(i):
                                            exit = True
                                        else:
                                            work(i)

A loop that may be left early names its flag in the attribute `exit` of its node; no turn begins
once the flag is set. Flags begin as the constant False in every turn, so jumps that are decided at
compile time leave no trace. A `return` remembers its value and leaves all loops around it; behind
the outermost one the function returns. New nodes have the place of the statements they stand for.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Sequence
from typing import TypeAlias

TAKEN, RESULT = "return.taken", "return.value"
Loop: TypeAlias = ast.For | ast.While


def without_jumps(tree: ast.FunctionDef) -> list[ast.stmt]:
    """The body of a function with its loops rewritten; the tree itself stays as it is."""
    return _Rewriter().block(tree.body, None)


def exit_flag(loop: Loop) -> str | None:
    """The variable that says that a loop is left; None if only its own condition ends it."""
    return getattr(loop, "exit", None)


def is_remembered(node: ast.Assign) -> bool:
    """True for an assignment that hands on a returned value, which stays what it is."""
    return getattr(node, "remembered", False)


def is_manager(node: ast.Assign) -> bool:
    """True for the assignment that keeps what a `with` works on."""
    return getattr(node, "manager", False)


def is_taken_test(node: ast.If) -> bool:
    """True for the question whether a loop was left by a `return`."""
    return isinstance(node.test, ast.Name) and node.test.id == TAKEN


class _Rewriter:
    def __init__(self) -> None:
        self.count = 0

    def block(self, body: Sequence[ast.stmt], loop: int | None) -> list[ast.stmt]:
        """Statements of loop number `loop` (None outside of loops) without jumps."""
        out: list[ast.stmt] = []
        for index, st in enumerate(body):
            rest = body[index + 1 :]
            if loop is not None and isinstance(st, (ast.Break, ast.Continue, ast.Return)):
                return out + self.jump(st, loop)
            if isinstance(st, (ast.For, ast.While)):
                new, behind = self.loop(st)
                out += new
                if behind:
                    return out + self.block([*behind, *rest], loop)
            elif isinstance(st, ast.With) and not any(_jumps(s) for s in st.body):
                return out + self.block([*self.managed(st), *rest], loop)
            elif isinstance(st, ast.If):
                split = loop is not None and bool(rest) and _jumps(st)
                out += self.branches(st, loop, rest if split else [])
                if split:
                    return out
            else:
                out.append(st)
        return out

    def branches(self, st: ast.If, loop: int | None, rest: Sequence[ast.stmt]) -> list[ast.stmt]:
        """An `if` and the statements behind it, which its jumps skip."""
        then, other = list(st.body), list(st.orelse)
        if _always(then):
            other += rest
        elif _always(other):
            then += rest
        elif rest:
            guarded = _if_not(_skip(loop), self.block(rest, loop), st)
            return [_with_body(st, self.block(then, loop), self.block(other, loop)), guarded]
        return [_with_body(st, self.block(then, loop), self.block(other, loop))]

    def managed(self, st: ast.With) -> list[ast.stmt]:
        """The body of a `with` between the calls of its managers' methods."""
        before: list[ast.stmt] = []
        after: list[ast.stmt] = []
        for item in st.items:
            self.count += 1
            name = f"with.{self.count}"
            keep = _set(name, item.context_expr, st)
            keep.manager = keep.remembered = True  # type: ignore[attr-defined]
            enter: ast.expr = _method(name, "__enter__")
            entered = ast.Assign([item.optional_vars], enter) if item.optional_vars else None
            before += [keep, _placed(entered or ast.Expr(enter), st)]
            nothing = [ast.Constant(None) for _ in range(3)]
            after.insert(0, _placed(ast.Expr(_method(name, "__exit__", *nothing)), st))
        return [*before, *st.body, *after]

    def jump(self, st: ast.stmt, loop: int) -> list[ast.stmt]:
        out: list[ast.stmt] = []
        if isinstance(st, ast.Return) and not _is_again(st):
            value = st.value if st.value is not None else ast.Constant(None)
            remember = _set(RESULT, value, st)
            remember.remembered = True  # type: ignore[attr-defined]
            out += [remember, _set(TAKEN, ast.Constant(True), st)]
        if not isinstance(st, ast.Continue):
            out.append(_set(_exit(loop), ast.Constant(True), st))
        return [*out, _set(_skip(loop), ast.Constant(True), st)]

    def loop(self, st: Loop) -> tuple[list[ast.stmt], list[ast.stmt]]:
        """A loop without jumps, and the statements that have to follow it."""
        self.count += 1
        number = self.count
        leaves, returns = _leaves(st), _returns(st.body)
        body = list(st.body)
        new = copy.copy(st)
        if leaves and isinstance(new, ast.While) and _assigns(new.test):
            # The names that the condition gives a value must have it in the body.
            stop = _if(new.test, [ast.Pass()], st)
            stop.orelse = [ast.copy_location(ast.Break(), st)]
            body = [stop, *body]
            new.test = ast.copy_location(ast.Constant(True), st)
        flags = [_exit(number)] * leaves + [TAKEN] * returns
        before = [_set(name, ast.Constant(False), st) for name in flags]
        start = [_set(name, ast.Constant(False), st) for name in (*flags, _skip(number))]
        jumps = any(_jumps(s) for s in body)
        new.body = (start if jumps else []) + self.block(body, number)
        new.orelse = []
        if leaves:
            new.exit = _exit(number)  # type: ignore[union-attr]
        behind: list[ast.stmt] = []
        if returns:
            again = ast.Return(ast.Name(RESULT, ast.Load()))
            again.again = True  # type: ignore[attr-defined]
            behind.append(_if(ast.Name(TAKEN, ast.Load()), [again], st))
        if st.orelse:
            behind += [_if_not(_exit(number), st.orelse, st)] if leaves else st.orelse
        return [*before, new], behind


def _exit(loop: int | None) -> str:
    return f"loop.{loop}.left"


def _skip(loop: int | None) -> str:
    return f"loop.{loop}.turn_done"


def _is_again(st: ast.Return) -> bool:
    return getattr(st, "again", False)


def _assigns(node: ast.expr) -> bool:
    return any(isinstance(n, ast.NamedExpr) for n in ast.walk(node))


def _jumps(st: ast.stmt) -> bool:
    """True if a statement may leave the turn of the loop around it."""
    if isinstance(st, (ast.Break, ast.Continue, ast.Return)):
        return True
    if isinstance(st, ast.If):
        return any(_jumps(s) for s in (*st.body, *st.orelse))
    if isinstance(st, (ast.For, ast.While)):
        return _returns(st.body) or any(_jumps(s) for s in st.orelse)
    return isinstance(st, ast.With) and any(_jumps(s) for s in st.body)


def _leaves(loop: Loop) -> bool:
    """True if a `break` or `return` may end a loop."""
    return any(_breaks(s) for s in loop.body)


def _breaks(st: ast.stmt) -> bool:
    if isinstance(st, ast.If):
        return any(_breaks(s) for s in (*st.body, *st.orelse))
    if isinstance(st, (ast.For, ast.While)):
        return _returns(st.body) or any(_breaks(s) for s in st.orelse)
    return isinstance(st, (ast.Break, ast.Return))


def _returns(body: Sequence[ast.stmt]) -> bool:
    return any(isinstance(n, ast.Return) for s in body for n in ast.walk(s))


def _always(body: Sequence[ast.stmt]) -> bool:
    """True if the end of these statements is never reached."""
    return any(
        isinstance(st, (ast.Break, ast.Continue, ast.Return))
        or (isinstance(st, ast.If) and _always(st.body) and _always(st.orelse))
        for st in body
    )


def _method(name: str, method: str, *args: ast.expr) -> ast.Call:
    return ast.Call(ast.Attribute(ast.Name(name, ast.Load()), method, ast.Load()), [*args], [])


def _placed(st: ast.stmt, at: ast.stmt) -> ast.stmt:
    return ast.fix_missing_locations(ast.copy_location(st, at))


def _set(name: str, value: ast.expr, at: ast.stmt) -> ast.Assign:
    node = ast.copy_location(ast.Assign([ast.Name(name, ast.Store())], value), at)
    return ast.fix_missing_locations(node)


def _if(test: ast.expr, body: Sequence[ast.stmt], at: ast.stmt) -> ast.If:
    return ast.fix_missing_locations(ast.copy_location(ast.If(test, list(body), []), at))


def _if_not(name: str, body: Sequence[ast.stmt], at: ast.stmt) -> ast.If:
    return _if(ast.UnaryOp(ast.Not(), ast.Name(name, ast.Load())), body, at)


def _with_body(st: ast.If, body: list[ast.stmt], orelse: list[ast.stmt]) -> ast.If:
    new = copy.copy(st)
    new.body, new.orelse = body, orelse
    return new
