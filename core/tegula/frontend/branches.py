"""Control flow: branches, loops, early returns.

What is decided at compile time leaves no trace: the branch taken and the turns of unrolled loops
are put in front of the statements that follow. Runtime branches and loops become `if`, `for` and
`while` with regions, and every body is visited once (twice if a loop variable that begins as a
constant turns out to need another type).

An `if` with a `return` inside takes the rest of the function into its branches, so that each path
ends in its own return and the function still has one exit.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from tegula.ir.core import Block, Value
from tegula.ir.types import DType, i1
from tegula.language.values import (
    as_constant,
    condition_spec,
    describe,
    is_number,
    range_spec,
    tensor,
)

from .calls import Calls
from .diagnostics import LanguageError, Unsupported
from .promotion import promote_integers, type_of_number
from .state import Bind, Poison, Returned
from .structure import (
    ConstSpec,
    Mismatch,
    Spec,
    build,
    fits,
    handles,
    loose_spec,
    plain_number,
    runtime_spec,
    show,
    spec_of,
    types_of,
    unify,
    widen,
)

MAX_UNROLL = 100_000
MAX_COPIES = 64
MAX_TRIES = 4
UNSET = Poison("this variable has no value", "give it one first")


class Retry(BaseException):
    """The body of a loop must be visited again; no error, so it passes by those who handle them."""

    def __init__(self, node: ast.stmt) -> None:
        self.node = node


class Control(Calls):
    """Layer of the visitor: branches and loops."""

    # ---- branches

    def visit_if(self, node: ast.If, todo: list[Any]) -> Returned | None:
        self.locate(node)
        cond = as_constant(self.visit(node.test))
        if not isinstance(cond, tensor):
            todo.extend(reversed(node.body if cond else node.orelse))
            return None
        self.locate(node)
        flag = self.scalar_condition(cond, "`if`")
        facts = self.flow.of[node]
        if facts.returns is not None and not self.loops:
            return self.returning_if(node, flag, todo)
        if facts.returns is not None:
            self.visit_nested_return(facts.returns)
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
                with self.b.at(block):
                    values.extend(handles(self.s, side[name], spec))
        self.locate(node)
        self.close(then, yields[0])
        self.close(other, yields[1])
        out = iter(self.b.if_(flag.handle, then, other))
        for name, spec in results:
            self.env[name] = self.typed(build(spec, out))
        return None

    def visit_nested_return(self, node: Any) -> None:
        """Point at a return that a loop forbids."""
        self.run([node])

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
        line = self.source.line_of(node)
        if a is b:
            self.env[name] = a
            return None
        if isinstance(a, Poison) or isinstance(b, Poison):
            self.env[name] = Poison(
                f"`{name}` has a value in only one branch of the `if` in line {line}",
                f"give `{name}` a value in both branches, or before the `if`",
            )
            return None
        try:
            spec = unify(loose_spec(a), loose_spec(b))
        except Mismatch as mismatch:
            self.env[name] = Poison(
                f"`{name}` is {mismatch.first} if the `if` in line {line} is taken and "
                f"{mismatch.second} otherwise",
                "a variable has one type at every place; convert in one of the branches with "
                "x.to(dtype)",
            )
            return None
        if isinstance(spec, ConstSpec):
            self.env[name] = self.typed(spec.value) if isinstance(a, tensor) else a
            return None
        return spec

    def choose(self, flag: tensor, then: Callable[[], Any], other: Callable[[], Any]) -> Any:
        """A conditional expression on a runtime scalar."""
        blocks, values = [], []
        for side in (then, other):
            block = Block()
            with self.b.at(block):
                values.append(side())
            blocks.append(block)
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
            raise LanguageError(
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

    # ---- for

    def visit_for(self, node: ast.For, todo: list[Any]) -> Returned | None:
        if node.orelse:
            raise Unsupported(
                "`else` after a loop cannot be used in kernels",
                "write its statements behind the loop",
            )
        self.locate(node)
        value = self.visit(node.iter)
        if isinstance(value, range_spec) and not value.static:
            if not isinstance(node.target, ast.Name):
                raise LanguageError("the variable of a loop over a range is one name")
            self.runtime_for(node, value)
            return None
        if isinstance(value, tensor):
            raise LanguageError(
                f"`for` cannot go through the elements of {describe(value)}",
                "work on the whole tile at once, or write `for i in range(n)`",
            )
        items = self.sequence(value, "`for`")
        if len(items) > MAX_UNROLL:
            raise LanguageError(
                f"an unrolled loop of {len(items)} turns is too long", "use `for i in range(n)`"
            )
        turns: list[Any] = []
        for item in items:
            turns.append(Bind(node.target, item))
            turns.extend(node.body)
        todo.extend(reversed(turns))
        return None

    def bounds(self, spec: range_spec) -> tuple[list[Value], DType]:
        """Start, stop and step of a loop in their common integer type."""
        given = (spec.start, spec.stop, spec.step)
        types: list[Any] = [type_of_number(x) if is_number(x) else x.ir_elem for x in given]
        t = types[0]
        for other in types[1:]:
            t = promote_integers(t, other)
        if isinstance(spec.step, int) and spec.step < 0 and not t.is_signed:
            raise LanguageError(
                "a loop with unsigned bounds cannot count down",
                "convert the bounds: n.to(tl.int32)",
            )
        return [self.s.to_type(x, t).handle for x in given], t

    def runtime_for(self, node: ast.For, spec: range_spec) -> None:
        facts = self.flow.of[node]
        counter: str = node.target.id  # type: ignore[attr-defined]
        bounds, counter_type = self.bounds(spec)
        before = dict(self.env)
        carried = self.carried(node, facts.exposed | facts.live_out, facts.assigned - {counter})
        loc = self.b.loc

        def attempt() -> tuple[Block, dict[str, Spec]]:
            specs = {name: self.loop_spec(node, name, before[name]) for name in carried}
            body = Block([counter_type])
            self.env = dict(before)
            self.env[counter] = tensor(body.args[0])
            self.enter(node, body, specs, before)
            self.turn(node, body)
            self.settle(node, specs, before)
            return body, specs

        body, specs = self.until_settled(node, attempt)
        self.b.loc = loc
        self.close(body, self.collect(body, self.env, specs))
        inner = self.env
        self.env = before
        inits = [h for name, item in specs.items() for h in handles(self.s, before[name], item)]
        attrs: dict[str, Any] = {"stages": spec.stages, "unroll": spec.unroll, "hints": spec.hints}
        results = iter(self.b.for_(bounds[0], bounds[1], bounds[2], inits, body, **attrs))
        for name, item in specs.items():
            self.env[name] = build(item, results)
        self.forget(node, facts.assigned - {counter}, carried, before, inner)
        if counter in facts.live_out:
            self.env[counter] = self.last_value(bounds, counter_type)

    def last_value(self, bounds: list[Value], t: DType) -> tensor:
        """The loop variable after the loop: its value in the last turn (one step before the start
        without a turn).
        """
        s = self.s
        start, stop, step = (tensor(v) for v in bounds)
        one = s.constant(1, t)
        span = s.sub(stop, start)
        down = s.compare("lt", step, 0) if t.is_signed else s.constant(False, i1)
        edge = s.emit("select", down.handle, s.add(span, one).handle, s.sub(span, one).handle)
        turns = s.emit("div", edge.handle, step.handle)
        empty = s.compare("le", span, 0) if t.is_signed else s.compare("le", stop, start)
        if t.is_signed:
            backwards = s.compare("ge", span, 0)
            empty = s.emit("select", down.handle, backwards.handle, empty.handle)
        last = s.add(start, s.mul(turns, step))
        return s.emit("select", empty.handle, s.sub(start, step).handle, last.handle)

    def carried(self, node: ast.stmt, needed: Any, assigned: Any) -> list[str]:
        """Variables that a loop hands from one turn to the next."""
        names = []
        for name in sorted(assigned & needed):
            if name not in self.env or isinstance(self.env[name], Poison):
                continue
            if name in self.constants:
                raise LanguageError(
                    f"`{name}` is a compile-time constant and cannot change in a runtime loop",
                    "leave out the annotation tl.constexpr, or use tl.static_range",
                )
            names.append(name)
        return names

    def loop_spec(self, node: ast.stmt, name: str, value: Any) -> Spec:
        """The type a variable is carried with: its own, or the one found in an earlier visit."""
        found: Spec | None = self.loop_specs.get((node, name))
        return found if found is not None and fits(value, found) else runtime_spec(value)

    def enter(
        self, node: ast.stmt, block: Block, specs: dict[str, Spec], before: dict[str, Any]
    ) -> None:
        """Make the carried variables arguments of a loop's block."""
        for name, spec in specs.items():
            args = [Value(t) for t in types_of(spec)]
            block.args.extend(args)
            value = before[name]
            self.env[name] = build(spec, iter(args))
            number = plain_number(value)
            if number is not None:
                self.weak[args[0]] = (node, name, number)
            elif isinstance(value, tensor) and value.handle in self.weak:
                self.weak[args[0]] = self.weak[value.handle]

    def turn(self, node: ast.For | ast.While, block: Block) -> None:
        """Compile one turn of a runtime loop into a block."""
        self.loops.append(node)
        with self.b.at(block):
            self.run(node.body)
        self.loops.pop()

    def until_settled(self, node: ast.stmt, attempt: Callable[[], Any]) -> Any:
        """Visit a loop's body, and once more with each type that a constant turned out to need."""
        loops = list(self.loops)
        while True:
            try:
                return attempt()
            except Retry as retry:
                self.loops[:] = loops
                if retry.node is not node:
                    raise

    def settle(self, node: ast.stmt, specs: dict[str, Spec], before: dict[str, Any]) -> None:
        """Check that every carried variable ends a turn as it began.

        Where one does not, but began as a constant (of this loop, or of one around it that passed
        it on untouched), the body of that loop is visited again with the type that was needed.
        """
        for name, spec in specs.items():
            value = self.env.get(name)
            if isinstance(value, Poison):
                raise LanguageError(value.message, value.hint)
            if fits(value, spec):
                continue
            new, first = spec_of(value), before[name]
            origin = (node, name, first)
            if isinstance(first, tensor) and plain_number(first) is None:
                origin = self.weak.get(first.handle, origin)
            place = origin[:2]
            wider = widen(origin[2], spec, new)
            tries = self.tries.get(place, 0)
            if wider is not None and tries < MAX_TRIES:
                self.tries[place] = tries + 1
                self.loop_specs[place] = wider
                raise Retry(origin[0])
            raise LanguageError(
                f"`{name}` is {show(spec)} before the loop and {show(new)} after a turn of it; "
                "a variable that a loop carries keeps its type and shape",
                self.carry_hint(name, spec, new),
            )

    def carry_hint(self, name: str, old: Spec, new: Spec) -> str:
        if isinstance(old, ConstSpec) or isinstance(new, ConstSpec):
            return f"give `{name}` a value of its final type before the loop"
        return (
            f"begin with the final type, as in {name} = {name}.to(dtype) or "
            "tl.zeros(shape, dtype), or convert at the end of the body"
        )

    def collect(self, block: Block, env: dict[str, Any], specs: dict[str, Spec]) -> list[Value]:
        """The carried variables at the end of a body."""
        with self.b.at(block):
            return [h for name, spec in specs.items() for h in handles(self.s, env[name], spec)]

    def forget(
        self,
        node: ast.stmt,
        assigned: Any,
        carried: list[str],
        before: dict[str, Any],
        inner: dict[str, Any],
    ) -> None:
        """Variables that only exist inside of a loop are gone behind it."""
        line = self.source.line_of(node)
        for name in assigned:
            if name in carried or inner.get(name) is before.get(name, self):
                continue
            self.env[name] = Poison(
                f"`{name}` only has a value inside of the loop in line {line}, which may have no "
                "turn",
                f"give `{name}` a value of the same type before the loop",
            )

    # ---- while

    def visit_while(self, node: ast.While) -> Returned | None:
        if node.orelse:
            raise Unsupported(
                "`else` after a loop cannot be used in kernels",
                "write its statements behind the loop",
            )
        facts = self.flow.of[node]
        before = dict(self.env)
        carried = self.carried(node, facts.exposed | facts.live_out, facts.assigned)
        self.locate(node)
        loc = self.b.loc

        def attempt() -> tuple[Block, Block, dict[str, Spec], dict[str, Spec]] | None:
            specs = {name: self.loop_spec(node, name, before[name]) for name in carried}
            head, body = Block(), Block()
            self.env = dict(before)
            self.enter(node, head, specs, before)
            with self.b.at(head):
                flag = self.while_condition(node)
                if flag is None:
                    return None
                passed = self.passed_specs(facts.in_test, specs)
                self.b.create("condition", flag.handle, self.collect(head, self.env, passed))
            self.enter(node, body, passed, self.env)
            self.turn(node, body)
            self.settle(node, specs, before)
            return head, body, specs, passed

        settled = self.until_settled(node, attempt)
        if settled is None:
            self.env = before
            return None
        head, body, specs, passed = settled
        self.b.loc = loc
        self.close(body, self.collect(body, self.env, specs))
        inner = self.env
        self.env = before
        inits = [h for name, item in specs.items() for h in handles(self.s, before[name], item)]
        results = iter(self.b.while_(inits, head, body))
        self.forget(node, facts.assigned, list(passed), before, inner)
        for name, item in passed.items():
            self.env[name] = build(item, results)
        return None

    def passed_specs(self, in_test: Any, specs: dict[str, Spec]) -> dict[str, Spec]:
        """What the condition of a `while` hands to the body: the carried variables, and those that
        the condition itself assigns.
        """
        assigned = {n: runtime_spec(self.env[n]) for n in sorted(in_test) if n in self.env}
        return {**specs, **assigned}

    def while_condition(self, node: ast.While) -> tensor | None:
        """The condition as a scalar; None for a loop that never runs."""
        cond = self.visit(node.test)
        cond = as_constant(cond.value if isinstance(cond, condition_spec) else cond)
        self.locate(node)
        if isinstance(cond, tensor):
            return self.scalar_condition(cond, "`while`")
        if cond:
            raise Unsupported(
                "this `while` loop never ends: its condition is always true, and there is no "
                "`break`",
                "put the condition to stop into the `while`, as in `while i < n:`",
            )
        return None
