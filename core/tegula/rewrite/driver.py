"""Applies a table of rules to a function until nothing changes.

A sweep visits ops in order, so operands are already in their final form when a rule looks at them;
ops that a rule builds go through the rules themselves before they are put out.  Rules that look at
regions may need another sweep; a budget ends rules that chase each other.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from tegula.analysis.uses import use_counts
from tegula.ir.builder import _ALWAYS_TUPLE, Builder, make_op
from tegula.ir.core import Block, Function, Op, Value
from tegula.ir.location import Location
from tegula.ir.ops import OPS

from .rules import Replacement, Rules
from .sweep import Sweep

MAX_NESTING = 32
"""How many rules may build ops for each other before the ops are left as they are."""


class TraceEntry(NamedTuple):
    """One application of a rule."""

    rule: str
    op: str
    loc: Location | None

    def __str__(self) -> str:
        return f"{self.rule} {self.loc or '?'} {self.op}"


class Rewriter(Sweep, Builder):
    """The sweep that applies rules, and the builder that rules make their ops with."""

    def __init__(
        self, rules: Rules, budget: int = 10_000, trace: list[TraceEntry] | None = None
    ) -> None:
        Sweep.__init__(self)
        Builder.__init__(self)
        self.rules = rules
        self.budget = budget
        self.applied = 0
        self.nesting = 0
        self.trace = trace
        self.counters: dict[Value, Op] = {}  # counter of a loop being visited -> the loop
        self._function: Function | None = None
        self._uses: Mapping[Value, int] | None = None
        self.facts: dict[Any, Any] = {}  # what rules remember of values, for this sweep

    # -- what rules may ask

    def used_once(self, value: Value) -> bool:
        """The value has one use.  A value made in this sweep has to wait for the next."""
        if self._uses is None:
            self._uses = use_counts(self._function) if self._function is not None else {}
        return self._uses.get(value) == 1

    # -- the sweep

    def sweep(self, function: Function) -> Function:
        self._function, self._uses = function, None
        return super().sweep(function)

    def visit(self, op: Op) -> None:
        if op.name == "for":
            self.counters[op.regions[0].args[0]] = self._bounds(op)
        new = self.current(op)
        replaced = self.simplified(new)
        if replaced is None:
            self.keep(op, new)
        else:
            self.replace(op, replaced)

    def _bounds(self, op: Op) -> Op:
        """The loop as rules should see it from inside: on current bounds."""
        get = self.map.get
        bounds = tuple(get(v, v) for v in op.operands)
        return op if bounds == op.operands else _Header(op, bounds)  # type: ignore[return-value]

    def simplified(self, op: Op) -> Sequence[Value] | None:
        """What the first rule that applies puts in place of the op; None if none does."""
        table = self.rules.by_op.get(op.name)
        if table is None or self.applied >= self.budget:
            return None
        self.loc = op.loc
        for rule in table:
            found: Replacement = rule.apply(op, self)
            if found is not None:
                self.applied += 1
                if self.trace is not None:
                    self.trace.append(TraceEntry(rule.name, op.name, op.loc))
                return (found,) if isinstance(found, Value) else found
        return None

    # -- the builder

    def create(self, name: str, *operands: Any, regions: Sequence[Block] = (), **named: Any) -> Any:
        """Build an op in front of the one being rewritten; it is simplified at once."""
        results = self.put(make_op(OPS[name], operands, named, regions, self.loc))
        if len(results) == 1 and name not in _ALWAYS_TUPLE:
            return results[0]
        return tuple(results) or (() if name in _ALWAYS_TUPLE else None)

    @contextlib.contextmanager
    def at(self, block: Block) -> Iterator[Block]:
        """Build into another block for a while."""
        saved, self.out = self.out, block.ops
        try:
            yield block
        finally:
            self.out = saved

    def put(self, op: Op) -> Sequence[Value]:
        """Put out a new op, or what the rules make of it; returns the values of its results."""
        loc, replaced = self.loc, None
        if self.nesting < MAX_NESTING:  # deeper ones wait for the next sweep
            self.nesting += 1
            replaced = self.simplified(op)
            self.nesting -= 1
            self.loc = loc
        if replaced is not None:
            return replaced
        self.out.append(op)
        return op.results

    def splice(self, block: Block, args: Sequence[Value] = ()) -> tuple[Value, ...]:
        """Put out the ops of a region that is about to go; returns the values that it ends with.

        The region must not be used again: its ops are moved, not copied.
        """
        for arg, value in zip(block.args, args, strict=True):
            self.map[arg] = value
        for op in block.ops[:-1]:
            self.visit(op)
        return tuple([self.map.get(v, v) for v in block.terminator.operands])


class _Header:
    """Bounds of a loop whose op has not been rebuilt yet."""

    __slots__ = ("operands",)

    def __init__(self, op: Op, operands: tuple[Value, ...]) -> None:
        self.operands = operands


def apply_rules(
    function: Function,
    rules: Rules,
    max_sweeps: int = 8,
    budget: int = 10_000,
    trace: list[TraceEntry] | None = None,
) -> Function:
    """Apply the rules until none does.  The same object comes back if none ever did."""
    for _ in range(max_sweeps):
        rewriter = Rewriter(rules, budget, trace)
        function = rewriter.sweep(function)
        budget -= rewriter.applied
        if not rewriter.applied or budget <= 0:
            break
    return function
