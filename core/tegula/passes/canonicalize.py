"""Canonicalisation: constants folded, algebra applied, trivial control flow removed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tegula.ir.core import Function
from tegula.rewrite import Rules, apply_rules

from .base import Pass, PassContext
from .canonical.arith import arith
from .canonical.control import control
from .canonical.fold import fold
from .canonical.memory import memory
from .canonical.shape import shape

RULES: Rules = Rules("canonicalize").including(fold, arith, shape, memory, control)


@dataclass(frozen=True)
class Canonicalize(Pass):
    """Apply the rules of `passes.canonical` until none applies.

    Before:
        %1 = constant {value = 0} : i32
        %2 = add %x, %1 : i32
        %3 = splat %2 {shape = [8]} : i32[8]
        %4 = splat %y {shape = [8]} : i32[8]
        %5 = mul %3, %4 : i32[8]
    After:
        %2 = mul %x, %y : i32
        %3 = splat %2 {shape = [8]} : i32[8]
    """

    name = "canonicalize"
    max_sweeps: int = 8

    def run_function(self, function: Function, ctx: PassContext) -> Function:
        with np.errstate(all="ignore"):
            return apply_rules(function, RULES, self.max_sweeps, trace=ctx.trace)
