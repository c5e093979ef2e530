"""Structured control flow, calls and the program's place in the grid."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..opdef import REQUIRED, check, op
from ..types import DType, Type, i1, i32
from .rules import no_results, types_of

if TYPE_CHECKING:
    from ..core import Block, Op


def _yields(op: Op, block: Block, types: list[Type], what: str) -> None:
    check(bool(block.ops) and block.terminator.name == "yield", f"{what} must end in yield")
    given = [v.type for v in block.terminator.operands]
    check(given == types, f"{what} yields {given}, not {types}")


def _takes(block: Block, types: list[Type], what: str) -> None:
    given = [a.type for a in block.args]
    check(given == types, f"{what} takes {given}, not {types}")


@op("for")
class For:
    """Counted loop: iv = lb, lb + step, ... while iv < ub (iv > ub for a negative step); a zero
    step runs never.

    The block takes the counter and the carried values and yields their next ones; the results are
    the last ones.
    """

    operands = "lb ub step inits*"
    attrs = {"stages": 0, "unroll": 0, "hints": ()}
    regions = "body"

    def infer(op: Op) -> list[Type]:
        lb, ub, step = types_of(op)[:3]
        check(
            lb is ub is step and isinstance(lb, DType) and lb.is_int,
            f"loop bounds must be integers of one type, not {lb}, {ub}, {step}",
        )
        carried = types_of(op)[3:]
        (body,) = op.regions
        _takes(body, [lb, *carried], "the body of a for")
        _yields(op, body, carried, "the body of a for")
        return carried


@op("while")
class While:
    """Loop: `before` takes the carried values and ends in condition(flag, values); while the flag
    holds, `after` runs
    on those values and yields the next carried ones. The results are the values that came with a
    false flag."""

    operands = "inits*"
    regions = "before after"

    def infer(op: Op) -> list[Type]:
        before, after = op.regions
        carried = types_of(op)
        _takes(before, carried, "the condition of a while")
        check(
            bool(before.ops) and before.terminator.name == "condition",
            "the first block of a while must end in condition",
        )
        passed = [v.type for v in before.terminator.operands[1:]]
        _takes(after, passed, "the body of a while")
        _yields(op, after, carried, "the body of a while")
        return passed


@op("if")
class If:
    """Choose a block by a scalar condition; both yield values of the same types."""

    operands = "cond"
    regions = "then else"

    def infer(op: Op) -> list[Type]:
        check(
            op.operands[0].type is i1,
            f"the condition of an if must be i1, not {op.operands[0].type}",
        )
        then, other = op.regions
        check(not then.args and not other.args, "the blocks of an if take no arguments")
        check(
            bool(then.ops) and then.terminator.name == "yield", "a block of an if must end in yield"
        )
        types = [v.type for v in then.terminator.operands]
        _yields(op, other, types, "the else block of an if")
        return types


@op("yield", traits="terminator")
class Yield:
    """End a block and hand values to the op that owns it."""

    operands = "values*"
    infer = no_results


@op("condition", traits="terminator")
class Condition:
    """End the first block of a while: go on if the flag holds, with these values."""

    operands = "flag values*"

    def infer(op: Op) -> list[Type]:
        check(op.operands[0].type is i1, "the flag of condition must be i1")
        return []


@op("return", traits="terminator")
class Return:
    """End a function."""

    operands = "values*"
    infer = no_results


@op("call", effects="read write atomic io")
class Call:
    """Call a device function of the module by name."""

    operands = "args*"
    attrs = {"callee": REQUIRED, "types": ()}

    def infer(op: Op) -> list[Type]:
        return list(op.attrs["types"])


def _axis(op: Op) -> list[Type]:
    check(op.attrs["axis"] in (0, 1, 2), f"{op.name}: axis is 0, 1 or 2, not {op.attrs['axis']}")
    return [i32]


@op("program_id", traits="pure")
class ProgramId:
    """Index of this program along an axis of the grid."""

    attrs = {"axis": REQUIRED}
    infer = _axis


@op("num_programs", traits="pure")
class NumPrograms:
    """Size of the grid along an axis."""

    attrs = {"axis": REQUIRED}
    infer = _axis
