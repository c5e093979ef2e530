"""Asking for memory before it is needed.

Packing an operand of a matrix product reads a block of many short rows, far apart: too short for a
processor to notice the pattern.  Where a loop moves the pointers by a known step, the same block of
the next trip is asked for while this one is packed, and arrives during the multiplication.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tegula.codegen.loops.lanes import mem_type
from tegula.codegen.loops.text import Val
from tegula.ir.core import Block, Op, Value
from tegula.ir.types import ScalarType

if TYPE_CHECKING:
    from tegula.codegen.loops.kernel import KernelEmitter

_READ, _L2, _DATA = 0, 2, 1
"""Arguments of LLVM's prefetch: what for, how near, and of which kind."""


class Prefetch:
    """Knows by how much loops advance the offsets that they carry."""

    def __init__(self, k: KernelEmitter) -> None:
        self.k = k
        self.active = False
        """Whether the loads being emitted pack an operand."""
        self._amounts: dict[Value, list[Value]] = {}

    def enter(self, body: Block) -> None:
        """Note what the body of a `for` adds to its carried scalars."""
        for arg, end in zip(body.args[1:], body.terminator.operands):
            amounts = []
            while end is not arg:
                op = end.owner
                if op is None or op.name != "add":
                    break
                end, amount = op.operands
                amounts.append(amount)
            else:
                if amounts:
                    self._amounts[arg] = amounts

    def load(self, op: Op, at: Val, e: ScalarType) -> None:
        """Ask for what `op` will read one trip after it has read `at`."""
        k, w = self.k, self.k.w
        advance = op.operands[0].owner
        if advance is None or advance.name != "addptr":
            return
        by = advance.operands[1].owner
        amounts = self._amounts.get(by.operands[0]) if by and by.name == "splat" else None
        if amounts is None or not all(self._is_known(amount) for amount in amounts):
            return
        for amount in amounts:
            at = w.gep(mem_type(e), at, w.resize(k.scalar(amount), "i64", True))
        w.declare("llvm.prefetch.p0", "void (ptr, i32, i32, i32)")
        w.do(f"call void @llvm.prefetch.p0(ptr {at.text}, i32 {_READ}, i32 {_L2}, i32 {_DATA})")

    def _is_known(self, v: Value) -> bool:
        """Whether a scalar may be computed at this point without reading memory early."""
        if v in self.k.env:
            return True
        op = v.owner
        return op is not None and not op.opdef.effects and not op.regions and all(
            self._is_known(o) for o in op.operands)
