"""Tables of rewrite rules.  A rule is a small pure function whose docstring is its algebra."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tegula.ir.core import Op, Value

if TYPE_CHECKING:
    from .driver import Rewriter

Replacement = Value | tuple[Value, ...] | list[Value] | None
RuleFunction = Callable[[Op, "Rewriter"], Replacement]


@dataclass(frozen=True)
class Rule:
    """One rule: the ops it looks at, what it says, and the function that tries it.

    The function gets an op and the rewriter (a builder).  It returns None where it does not apply,
    else what stands for the op's results: a value, or one per result (none to drop an op).
    """

    name: str
    algebra: str
    ops: tuple[str, ...]
    apply: RuleFunction


class Rules:
    """A named table of rules, looked up by op."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.by_op: dict[str, list[Rule]] = {}
        self._all: list[Rule] = []

    def rule(self, *ops: str) -> Callable[[RuleFunction], RuleFunction]:
        """Decorator: add a function to the table for the named ops."""
        from tegula.ir.ops import OPS

        unknown = [name for name in ops if name not in OPS]
        if unknown or not ops:
            raise ValueError(f"a rule needs known ops, not {unknown}")

        def add(function: RuleFunction) -> RuleFunction:
            algebra = " ".join((function.__doc__ or "").split())
            if not algebra:
                raise ValueError(f"rule {function.__name__} needs its algebra as a docstring")
            rule = Rule(function.__name__, algebra, ops, function)
            self._all.append(rule)
            for name in ops:
                self.by_op.setdefault(name, []).append(rule)
            return function

        return add

    def including(self, *others: Rules) -> Rules:
        """A table with the rules of others after its own."""
        merged = Rules(self.name)
        for table in (self, *others):
            for rule in table:
                merged._all.append(rule)
                for name in rule.ops:
                    merged.by_op.setdefault(name, []).append(rule)
        return merged

    def __iter__(self) -> Iterator[Rule]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)
