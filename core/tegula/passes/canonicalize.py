"""Canonicalisation: constants folded, algebra applied, trivial control flow removed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tegula.ir.core import Function
from tegula.rewrite import Rules, apply_rules

from .base import Pass, PassContext
from .canonical.arith import arith
from .canonical.collect import collect
from .canonical.control import control
from .canonical.fold import fold
from .canonical.memory import memory
from .canonical.shape import shape

RULES: Rules = Rules("canonicalize").including(
    fold, arith, shape, collect, memory, control
)


@dataclass(frozen=True)
class Canonicalize(Pass):
    """Apply the rules of `passes.canonical` until none applies.

    Before:
        kernel @k(%p: ptr<i32>[8], %x: i32, %y: i32) {
          %0 = constant {value = 1} : i32
          %1 = mul %0, %x : i32
          %2 = splat %1 {shape = [8]} : i32[8]
          %3 = splat %y {shape = [8]} : i32[8]
          %4 = add %2, %3 : i32[8]
          store %p, %4
          return
        }
    After (`dce` then drops what is left over):
        kernel @k(%p: ptr<i32>[8], %x: i32, %y: i32) {
          %0 = constant {value = 1} : i32
          %1 = splat %x {shape = [8]} : i32[8]
          %2 = splat %y {shape = [8]} : i32[8]
          %3 = add %x, %y : i32
          %4 = splat %3 {shape = [8]} : i32[8]
          store %p, %4
          return
        }
    """

    name = "canonicalize"
    max_sweeps: int = 8

    def run_function(self, function: Function, ctx: PassContext) -> Function:
        with np.errstate(all="ignore"):
            return apply_rules(function, RULES, self.max_sweeps, trace=ctx.trace)
