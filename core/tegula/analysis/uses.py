"""Who uses a value, and how often."""

from __future__ import annotations

from collections import Counter, defaultdict

from tegula.ir.core import Function, Op, Value


def use_counts(function: Function) -> Counter[Value]:
    """How many operands each value is, terminators included; 0 for a value that is none."""
    counts: Counter[Value] = Counter()
    for op in function.body.walk():
        counts.update(op.operands)
    return counts


def users(function: Function) -> dict[Value, list[Op]]:
    """The ops that have each value as an operand, in order, each op once."""
    found: dict[Value, list[Op]] = defaultdict(list)
    for op in function.body.walk():
        for v in dict.fromkeys(op.operands):
            found[v].append(op)
    return found
