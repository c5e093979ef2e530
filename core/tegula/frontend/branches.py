"""Branches and early returns.

What is decided at compile time leaves no trace: the statements of the branch taken are put in front
of those that follow. A runtime `if` becomes an `if` of the IR with regions.

A variable that has a value in one branch only keeps that value behind the `if`: Python would have
refused to read it on the other path, where it is the zero of its type here.

An `if` with a `return` inside takes the rest of the function into its branches, so that each path
ends in its own return and the function still has one exit.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from tegula.ir.core import Block, Value
from tegula.language.values import as_constant, tensor

from .calls import Calls, has_runtime
from .diagnostics import LanguageError, ResultMismatch, Unsupported
from .jumps import RESULT, is_taken_test
from .state import UNSET, Poison, Returned
from .structure import (
    Mismatch,
    Spec,
    build,
    handles,
    loose_spec,
    types_of,
    unify,
    zeros,
)

MAX_COPIES = 64


class Branches(Calls):
    """Layer of the visitor: branches."""

    # ---- branches

    def visit_if(self, node: ast.If, todo: list[Any]) -> Returned | None:
        self.locate(node)
        if is_taken_test(node) and self.env.get(RESULT, UNSET) is UNSET:
            todo.extend(reversed(node.orelse))  # no path that is compiled reaches the return
            return None
        cond = as_constant(self.visit(node.test))
        if not isinstance(cond, tensor):
            todo.extend(reversed(node.body if cond else node.orelse))
            return None
        self.locate(node)
        flag = self.scalar_condition(cond, "`if`")
        facts = self.flow.of[node]
        if facts.returns is not None:
            return self.returning_if(node, flag, todo)
        env = self.env
        before = dict(env)
        then, env_then = self.branch(node.body, before)
        other, env_else = self.branch(node.orelse, before)
        self.env = env
        results: list[tuple[str, Spec]] = []
        yields: tuple[list[Value], list[Value]] = ([], [])
        for name in sorted(facts.assigned & facts.live_out):
            spec = self.merge(node, name, env_then.get(name, UNSET), env_else.get(name, UNSET))
            if spec is None:
                continue
            results.append((name, spec))
            for block, side, values in ((then, env_then, yields[0]), (other, env_else, yields[1])):
                value = side.get(name, UNSET)
                with self.b.at(block):
                    values.extend(
                        zeros(self.s, spec) if value is UNSET else handles(self.s, value, spec)
                    )
        self.locate(node)
        self.close(then, yields[0])
        self.close(other, yields[1])
        out = iter(self.b.if_(flag.handle, then, other))
        for name, spec in results:
            self.env[name] = self.typed(build(spec, out))
        return None

    def branch(self, body: list[ast.stmt], env: dict[str, Any]) -> tuple[Block, dict[str, Any]]:
        """Compile a branch into a block of its own, on a copy of the variables."""
        block = Block()
        self.env = dict(env)
        with self.b.at(block):
            self.run(body)
        return block, self.env

    def close(self, block: Block, values: list[Value]) -> None:
        with self.b.at(block):
            self.b.create("yield", values)

    def merge(self, node: ast.If, name: str, a: Any, b: Any) -> Spec | None:
        """How an `if` hands on a variable; None if there is nothing to hand on (the variable is
        then set here).
        """
        if a is b:
            self.env[name] = a
            return None
        for poison in (a, b):
            if isinstance(poison, Poison) and poison is not UNSET:
                self.env[name] = poison
                return None
        given = b if a is UNSET else a
        alone = a is UNSET or b is UNSET
        try:
            spec = loose_spec(given) if alone else unify(loose_spec(a), loose_spec(b))
        except Mismatch as mismatch:
            self.env[name] = Poison(
                f"{self.shown(name)} is {mismatch.first} if the `if` in line "
                f"{self.source.line_of(node)} is taken and {mismatch.second} otherwise",
                "a variable has one type at every place; convert in one of the branches with "
                "x.to(dtype)",
            )
            return None
        if not types_of(spec):
            same = build(spec, iter(()))
            self.env[name] = self.typed(same) if has_runtime(given) else given
            return None
        return spec

    def shown(self, name: str) -> str:
        """A variable as messages name it."""
        return "the returned value" if name == RESULT else f"`{name}`"

    def choose(self, flag: tensor, then: Callable[[], Any], other: Callable[[], Any]) -> Any:
        """A conditional expression on a runtime scalar."""
        blocks, values = [], []
        env = self.env
        for side in (then, other):
            block = Block()
            self.env = dict(env)
            with self.b.at(block):
                values.append(side())
            blocks.append(block)
        self.env = env
        try:
            spec = unify(loose_spec(values[0]), loose_spec(values[1]))
        except Mismatch as mismatch:
            raise LanguageError(
                f"the two sides of a conditional expression are {mismatch.first} and "
                f"{mismatch.second}",
                "convert one of them with x.to(dtype)",
            ) from None
        for block, value in zip(blocks, values, strict=True):
            with self.b.at(block):
                ops = handles(self.s, value, spec)
                self.b.create("yield", ops)
        return build(spec, iter(self.b.if_(flag.handle, *blocks)))

    def returning_if(self, node: ast.If, flag: tensor, todo: list[Any]) -> Returned:
        """An `if` that may return: the rest of the function continues inside of both branches."""
        rest = todo[::-1]
        self.copies += bool(rest)
        if self.copies > MAX_COPIES:
            raise Unsupported(
                "Returns",
                "too many nested early returns: the code behind each is compiled once per path",
                "return from fewer places, or keep the result in a variable",
            )
        env, loc = self.env, self.b.loc
        blocks, values = [], []
        for body in (node.body, node.orelse):
            block = Block()
            self.env = dict(env)
            with self.b.at(block):
                out = self.run([*body, *rest])
                values.append(out.value if out is not None else None)
            blocks.append(block)
        self.env = env
        self.b.loc = loc
        try:
            spec = unify(loose_spec(values[0]), loose_spec(values[1]))
        except Mismatch as mismatch:
            raise ResultMismatch(
                f"`{self.function.fn.__name__}` returns {mismatch.first} on one path and "
                f"{mismatch.second} on another",
                "every path must return the same type; convert with x.to(dtype)",
            ) from None
        for block, value in zip(blocks, values, strict=True):
            with self.b.at(block):
                self.b.create("yield", handles(self.s, value, spec))
        out_values = self.b.if_(flag.handle, *blocks)
        todo.clear()
        return Returned(build(spec, iter(out_values)))
