"""The pass `expand-math`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tegula.ir.core import Block, Cloner, Function, Op, Value
from tegula.ir.types import DType, elem_of
from tegula.passes.base import Pass, PassContext

from .emitter import Emitter
from .functions import FUNCTIONS

NARROW = ".f32"


@dataclass(frozen=True)
class ExpandMath(Pass):
    """Replace exp, log, sin and the like by arithmetic.   Before:
        %1 = rsqrt %0 : f32[8]
    After:
        %1 = constant {value = 1.0} : f32[8]
        %2 = sqrt %0 : f32[8]
        %3 = div %1, %2 : f32[8]

    sqrt and the roundings to integers stay: every machine has them.
    """

    name = "expand-math"
    native: str | Iterable[str] = ""
    """Ops that the backend keeps, as a list or as words; `exp.f32` keeps exp of at most 32 bits."""

    def __post_init__(self) -> None:
        words = self.native.split() if isinstance(self.native, str) else list(self.native)
        for word in words:
            if word.removesuffix(NARROW) not in FUNCTIONS:
                raise ValueError(
                    f"expand-math: native names {word!r}, which it would not expand; "
                    f"it expands {', '.join(FUNCTIONS)}"
                )
        object.__setattr__(self, "native", " ".join(words))

    def run_function(self, function: Function, ctx: PassContext) -> Function:
        assert isinstance(self.native, str)
        kept = set(self.native.split())

        def expanded(op: Op) -> bool:
            if op.name not in FUNCTIONS or op.name in kept:
                return False
            return not (op.name + NARROW in kept and narrow(op))

        if not any(map(expanded, function.body.walk())):
            return function

        def hook(op: Op, cloner: Cloner) -> Sequence[Value] | None:
            return [expand(op, cloner)] if expanded(op) else None

        return Cloner(hook).function(function)


def narrow(op: Op) -> bool:
    """Whether a math op works on floats of at most 32 bits."""
    e = elem_of(op.operands[0].type)
    return isinstance(e, DType) and e.bits <= 32


def expand(op: Op, cloner: Cloner) -> Value:
    """The formula of a math op, appended to the block that the cloner fills."""
    emitter = Emitter(op.operands[0].type, Block(), op.loc)
    result = FUNCTIONS[op.name].build(emitter, cloner.value(op.operands[0]))
    cloner.out.extend(emitter.block.ops)
    return result
