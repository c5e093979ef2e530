"""Values that nobody sees but rounded to 16 bits.

An error of some units in the last place of f32 disappears in such a rounding (64 of them are less
than a fiftieth of half a unit of f16), so a backend may compute these values faster.
"""

from __future__ import annotations

from tegula.analysis.uses import users
from tegula.ir.core import Block, Function, Op, Value
from tegula.ir.patterns import combine_kind
from tegula.ir.types import DType, elem_of, f32

MOST = 4
"""How many times an error may come together on its way to a rounding, as in a square."""
MOVING = frozenset({"convert_layout", "splat", "broadcast", "expand_dims", "reshape", "permute"})
"""Ops whose result has the elements of their operand."""
_SCALING = frozenset({"mul", "div"})
"""Ops whose result has the relative errors of their operands."""
_NEVER_NEGATIVE = frozenset({"exp", "exp2", "abs"})
_ESTIMATES = frozenset({"exp", "exp2", "log", "log2", "sin", "cos", "erf", "dot", "shared_dot"})
"""Ops whose results are known to some units in the last place: functions with a declared error,
and products that machines add in an order and with roundings of their own."""
_CARRYING = MOVING | _SCALING | {"add", "sub", "fma", "dot_wait"}
"""Ops whose result is an estimate where an operand is."""


def coarse_values(function: Function) -> frozenset[Value]:
    """The tiles and scalars of f32 whose relative error only reaches memory by way of a rounding
    to nearest to 16 bits or fewer, and grows on its way there at most `MOST` times, by products and
    by sums of numbers that are not negative."""
    uses = users(function)
    found: dict[Value, int] = {}
    for op in reversed(list(function.body.walk())):
        for v in op.results:
            asked = uses.get(v, ())
            if elem_of(v.type) is f32 and asked:
                times = sum(_times(v, user, found) for user in asked)
                if times <= MOST:
                    found[v] = times
    return frozenset(found)


def _times(v: Value, op: Op, found: dict[Value, int]) -> int:
    """How many times the error of `v` is in what is rounded of an op's result; too many where it
    is seen in another way."""
    if op.name == "cast":
        return 1 if rounds(op) else MOST + 1
    if len(op.results) != 1 or op.result not in found:
        return MOST + 1
    if op.name in MOVING or op.name in _SCALING:
        return found[op.result] * op.operands.count(v)
    kind = combine_kind(op.regions[0]) if op.name == "reduce" else None
    harmless = kind in ("max", "min") or (kind == "add" and never_negative(v))
    return found[op.result] if harmless else MOST + 1


def rounds(op: Op) -> bool:
    """Whether a cast rounds to the nearest float of at most 16 bits: toward zero, the least error
    of a number that is one already would make it another."""
    to = op.attrs["to"]
    nearest = op.attrs["rounding"] != "rtz"
    return nearest and isinstance(to, DType) and to.is_float and to.bits <= 16


def never_negative(v: Value) -> bool:
    """Whether all elements are at least 0 (and no -0), infinite or NaN."""
    owner = unmoved(v).owner
    return owner is not None and owner.name in _NEVER_NEGATIVE


def estimated_values(function: Function) -> frozenset[Value]:
    """Values with errors of their own, so that nobody is owed the last place of what they are
    divided by."""
    found: set[Value] = set()
    _add_estimated(function.body, found)
    return frozenset(found)


def _add_estimated(block: Block, found: set[Value]) -> None:
    for op in block.ops:
        for region in op.regions:
            _add_estimated(region, found)
        if op.name == "for":
            ends = op.regions[0].terminator.operands
            found.update(v for v, end in zip(op.results, ends) if end in found)
        elif op.name in _ESTIMATES or (op.name in _CARRYING and not found.isdisjoint(op.operands)):
            found.update(op.results)


def unmoved(v: Value) -> Value:
    """The value before its layout changed."""
    while v.owner is not None and v.owner.name == "convert_layout":
        v = v.owner.operands[0]
    return v
