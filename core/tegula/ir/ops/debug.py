"""Output, checks, and what the author promises about values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..opdef import REQUIRED, check, op
from ..types import Type, i1, with_elem
from .rules import no_results, types_of

if TYPE_CHECKING:
    from ..core import Op

HINTS = ("multiple_of", "max_contiguous", "max_constancy")


@op("print", effects="io")
class Print:
    """Print values under a prefix, element by element; `hex` shows bits."""

    operands = "args*"
    attrs = {"prefix": "", "hex": False}
    infer = no_results


@op("assert", effects="io")
class Assert:
    """Stop with `message` unless the condition holds everywhere that the mask is set."""

    operands = "cond mask?"
    attrs = {"message": ""}

    def infer(op: Op) -> list[Type]:
        t = op.operands[0].type
        check(t is with_elem(t, i1), f"the condition of assert must be i1, not {t}")
        mask = op.operand("mask")
        check(mask is None or mask.type is t, f"the mask of assert must be {t}")
        return []


@op("assume", effects="io")
class Assume:
    """A promise that a scalar condition holds; the optimiser may rely on it."""

    operands = "cond"

    def infer(op: Op) -> list[Type]:
        check(op.operands[0].type is i1, "assume takes a scalar i1")
        return []


@op("hint", traits="pure")
class Hint:
    """The value itself, with a promise per dimension: multiple_of, max_contiguous or
    max_constancy.
    """

    operands = "x"
    attrs = {"kind": REQUIRED, "values": REQUIRED}

    def infer(op: Op) -> list[Type]:
        check(op.attrs["kind"] in HINTS, f"hint: kind is one of {HINTS}")
        return types_of(op)

    def evaluate(op: Op, x: Any) -> Any:
        return x
