"""Loops.

A loop whose turns are known when the kernel is compiled, and that asks for it, is unrolled in front
of the statements that follow. Others become `for` and `while` of the IR with regions; a `for` that
may be left early becomes a `while` that carries its counter. Every body is visited once, and again
when a variable that it carries turns out to need another type, or to be needed behind the loop.

A variable that first gets a value inside of a loop keeps that of the last turn that set it. Without
such a turn, where Python would refuse to read it, it is the zero of its type.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from tegula.ir.core import Block, Value
from tegula.ir.types import DType, i1, i64
from tegula.language.values import (
    as_constant,
    condition_spec,
    describe,
    is_number,
    range_spec,
    tensor,
)

from .branches import Branches
from .diagnostics import LanguageError, Unsupported
from .jumps import exit_flag
from .liveness import Facts
from .promotion import promote_integers, type_of_number
from .semantic import is_constant
from .state import UNSET, Bind, Poison, Returned
from .structure import (
    ConstSpec,
    Spec,
    build,
    fits,
    handles,
    plain_number,
    runtime_spec,
    show,
    spec_of,
    types_of,
    widen,
    widens,
    zeros,
)

MAX_UNROLL = 100_000
MAX_TRIES = 4


class Retry(BaseException):
    """The body of a loop must be visited again; no error, so it passes by those who handle them."""

    def __init__(self, node: ast.stmt) -> None:
        self.node = node


class Loops(Branches):
    """Layer of the visitor: loops."""

    def visit_for(self, node: ast.For, todo: list[Any]) -> Returned | None:
        self.locate(node)
        value = self.visit(node.iter)
        if isinstance(value, range_spec) and not value.static:
            if not isinstance(node.target, ast.Name):
                raise LanguageError("the variable of a loop over a range is one name")
            if exit_flag(node) is None:
                self.runtime_for(node, value)
            else:
                self.leaving_for(node, value)
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
            turn = [Bind(node.target, item), *node.body]
            turns.extend(self.unless_left(node, turn) if turns else turn)
        todo.extend(reversed(turns))
        return None

    def unless_left(self, node: ast.For, turn: list[Any]) -> list[Any]:
        """A turn of an unrolled loop that an earlier turn may have left."""
        flag = exit_flag(node)
        if flag is None:
            return turn
        test = ast.UnaryOp(ast.Not(), ast.Name(flag, ast.Load()))
        guard = ast.fix_missing_locations(ast.copy_location(ast.If(test, turn, []), node))
        facts = self.flow.of[node]
        self.flow.of[guard] = Facts(facts.assigned, facts.live_out | facts.exposed)
        return [guard]

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
        needed = (facts.exposed | facts.live_out) & (facts.assigned - {counter})
        fresh: dict[str, Spec] = {}
        loc = self.b.loc

        def attempt() -> tuple[Block, dict[str, Spec]]:
            specs = self.carried(node, needed, before, fresh)
            body = Block([counter_type])
            self.env = dict(before)
            self.env[counter] = tensor(body.args[0])
            self.s.offsets.counter(body.args[0], _turns(bounds))
            self.enter(node, body, specs, before)
            self.turn(node, body)
            self.adopt(node, needed, specs, fresh)
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
        self.leave(facts.assigned - {counter}, specs, results, inner)
        if counter in facts.live_out:
            self.env[counter] = self.last_value(bounds, counter_type)

    def leaving_for(self, node: ast.For, spec: range_spec) -> None:
        """A counted loop that may be left: it carries its counter, wide enough never to wrap, and
        looks at its flag before each turn.
        """
        facts = self.flow.of[node]
        counter: str = node.target.id  # type: ignore[attr-defined]
        bounds, t = self.bounds(spec)
        s, wide = self.s, i64 if t.bits < 64 else t
        start, stop, step = (s.cast(tensor(v), wide) for v in bounds)
        before = dict(self.env)
        needed = (facts.exposed | facts.live_out) & facts.assigned
        if counter in facts.live_out and not fits(before.get(counter, UNSET), t):
            before[counter] = s.cast(s.sub(start, step), t)
        fresh: dict[str, Spec] = {}
        loc = self.b.loc

        def attempt() -> tuple[Block, Block, dict[str, Spec]]:
            specs = self.carried(node, needed - {counter}, before, fresh)
            if counter in facts.live_out:
                specs[counter] = t
            head, body = Block([wide]), Block([wide])
            self.env = dict(before)
            self.enter(node, head, specs, before)
            with self.b.at(head):
                at = tensor(head.args[0])
                left = s.to_tensor(self.env[exit_flag(node) or ""])
                go = s.logical("and", self.not_yet(at, stop, step), s.logical_not(left))
                passed = [at.handle, *self.collect(head, self.env, specs)]
                self.b.create("condition", go.handle, passed)
            self.enter(node, body, specs, self.env)
            at = tensor(body.args[0])
            with self.b.at(body):
                self.env[counter] = s.cast(at, t)
            self.turn(node, body)
            self.adopt(node, needed - {counter}, specs, fresh)
            self.settle(node, specs, before)
            return head, body, specs

        head, body, specs = self.until_settled(node, attempt)
        self.b.loc = loc
        with self.b.at(body):
            after = s.add(tensor(body.args[0]), step).handle
        self.close(body, [after, *self.collect(body, self.env, specs)])
        inner = self.env
        self.env = before
        inits = [h for name, item in specs.items() for h in handles(s, before[name], item)]
        results = iter(self.b.while_([start.handle, *inits], head, body))
        next(results)
        self.leave(facts.assigned, specs, results, inner)

    def not_yet(self, at: tensor, stop: tensor, step: tensor) -> tensor:
        """Whether a counter has not reached its end; a step of 0 is never on its way."""
        s = self.s
        up, down = s.compare("lt", at, stop), s.compare("gt", at, stop)
        if is_constant(step.handle) and step.handle.owner is not None:
            value = step.handle.owner.attrs["value"]
            return up if value > 0 else down if value < 0 else s.constant(False, i1)
        rising = s.logical("and", s.compare("gt", step, 0), up)
        if isinstance(step.ir_elem, DType) and not step.ir_elem.is_signed:
            return rising
        return s.logical("or", rising, s.logical("and", s.compare("lt", step, 0), down))

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

    def carried(
        self,
        node: ast.stmt,
        needed: Any,
        before: dict[str, Any],
        fresh: dict[str, Spec],
    ) -> dict[str, Spec]:
        """Variables that a loop hands from one turn to the next, and their types. Those in `fresh`
        have no value before it and begin as zero.
        """
        specs: dict[str, Spec] = {}
        for name in sorted(needed):
            if isinstance(before.get(name, UNSET), Poison):
                if name not in fresh:
                    continue
                before[name] = build(fresh[name], iter(zeros(self.s, fresh[name])))
            if name in self.constants:
                raise LanguageError(
                    f"`{name}` is a compile-time constant and cannot change in a runtime loop",
                    "leave out the annotation tl.constexpr, or use tl.static_range",
                )
            specs[name] = fresh.get(name) or self.loop_spec(node, name, before[name])
        return specs

    def loop_spec(self, node: ast.stmt, name: str, value: Any) -> Spec:
        """The type a variable is carried with: its own, or the one found in an earlier visit."""
        found: Spec | None = self.loop_specs.get((node, name))
        return found if found is not None and fits(value, found) else runtime_spec(value)

    def adopt(
        self, node: ast.stmt, needed: Any, specs: dict[str, Spec], fresh: dict[str, Spec]
    ) -> None:
        """Visit a loop again with what first gets a value in it and is needed behind it."""
        found = False
        for name in needed:
            value = self.env.get(name, UNSET)
            if name in specs or isinstance(value, Poison):
                continue
            spec = runtime_spec(value)
            if types_of(spec):
                fresh[name] = spec
                found = True
        if found:
            raise Retry(node)

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
        with self.b.at(block):
            self.run(node.body)

    def until_settled(self, node: ast.stmt, attempt: Callable[[], Any]) -> Any:
        """Visit a loop's body, and once more with each type that a constant turned out to need."""
        while True:
            try:
                return attempt()
            except Retry as retry:
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
            wider = widen(origin[2], spec, new) or (new if widens(spec, new) else None)
            tries = self.tries.get(place, 0)
            if wider is not None and tries < MAX_TRIES:
                self.tries[place] = tries + 1
                self.loop_specs[place] = wider
                raise Retry(origin[0])
            raise LanguageError(
                f"{self.shown(name)} is {show(spec)} before the loop and {show(new)} after a turn "
                "of it; a variable that a loop carries keeps its type and shape",
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

    def leave(
        self, assigned: Any, specs: dict[str, Spec], results: Any, inner: dict[str, Any]
    ) -> None:
        """The variables behind a loop, whose results the carried ones become."""
        for name in assigned:
            value = inner.get(name, UNSET)
            if name in specs or value is self.env.get(name, UNSET):
                continue
            gone = not isinstance(value, Poison) and bool(types_of(spec_of(value)))
            self.env[name] = UNSET if gone else value
        for name, item in specs.items():
            self.env[name] = build(item, results)

    # ---- while

    def visit_while(self, node: ast.While) -> Returned | None:
        facts = self.flow.of[node]
        before = dict(self.env)
        needed = (facts.exposed | facts.live_out) & facts.assigned
        fresh: dict[str, Spec] = {}
        self.locate(node)
        loc = self.b.loc

        def attempt() -> tuple[Block, Block, dict[str, Spec], dict[str, Spec]] | None:
            specs = self.carried(node, needed, before, fresh)
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
            self.adopt(node, needed, passed, fresh)
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
        self.leave(facts.assigned, passed, results, inner)
        return None

    def passed_specs(self, in_test: Any, specs: dict[str, Spec]) -> dict[str, Spec]:
        """What the condition of a `while` hands to the body: the carried variables, and those that
        the condition itself assigns.
        """
        assigned = {n: runtime_spec(self.env[n]) for n in sorted(in_test) if n in self.env}
        return {**specs, **assigned}

    def while_condition(self, node: ast.While) -> tensor | None:
        """The condition as a scalar; None for a loop that never runs."""
        flag = exit_flag(node)
        if flag is None:
            cond = self.loop_test(node)
        else:
            left = self.s.to_tensor(self.env[flag])
            if isinstance(node.test, ast.Constant) and node.test.value:
                return self.s.logical_not(left)
            cond = self.choose(left, lambda: False, lambda: self.loop_test(node))
        if isinstance(cond, tensor):
            return cond
        if cond:
            raise Unsupported(
                "EndlessLoop",
                "this `while` loop never ends: its condition is always true, and there is no "
                "`break`",
                "leave it with `break`, or put the condition to stop into the `while`",
            )
        return None

    def loop_test(self, node: ast.While) -> Any:
        """What a `while` tests: a scalar, or a constant."""
        given = self.visit(node.test)
        given = given.value if isinstance(given, condition_spec) else given
        cond = as_constant(given)
        self.locate(node)
        if isinstance(given, tensor) and not isinstance(cond, tensor) and cond:
            return self.scalar_condition(given, "`while`")  # of variables, so no mistake
        return self.scalar_condition(cond, "`while`") if isinstance(cond, tensor) else bool(cond)


def _turns(bounds: list[Value]) -> tuple[int, int] | None:
    """The first and last value of a counter with constant bounds."""
    if not all(is_constant(v) for v in bounds):
        return None
    turns = range(*[v.owner.attrs["value"] for v in bounds])  # type: ignore[union-attr]
    return (min(turns[0], turns[-1]), max(turns[0], turns[-1])) if turns else None
