"""Matrix products: operands are packed for the micro-kernel, which then works in place on C."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tegula.codegen.loops.buffers import Buffer, row_length, round_up
from tegula.codegen.loops.dot import DotPlan, plan_dot
from tegula.codegen.loops.exprs import is_tile
from tegula.codegen.loops.lanes import mem_type, size_of
from tegula.codegen.loops.plan import Item, Slot
from tegula.codegen.loops.text import Val
from tegula.ir.core import Op, Value
from tegula.ir.patterns import constant_value
from tegula.ir.types import DTYPES, DType, Tile, elem_of, shape_of

if TYPE_CHECKING:
    from tegula.codegen.loops.kernel import Frame, KernelEmitter


class MatrixProducts:
    """Emits `dot`, and transposes of tiles in buffers."""

    def __init__(self, k: KernelEmitter) -> None:
        self.k = k
        self.w = k.w

    def fits(self, op: Op, sink: Buffer) -> bool:
        """Whether the product may be accumulated in a buffer."""
        e = elem_of(op.results[0].type)
        assert isinstance(e, DType)
        stored = "f32" if e.is_float and e.bits < 32 else e.name
        return sink.elem is DTYPES.get(stored) and sink.strides[-1] == 1

    def dot(self, frame: Frame, op: Op) -> None:
        raise NotImplementedError

    def transpose_home(self, frame: Frame, v: Value, fastest: int) -> None:
        raise NotImplementedError


__all__ = ["DotPlan", "Item", "MatrixProducts", "Slot", "Tile", "Val", "constant_value",
           "is_tile", "mem_type", "plan_dot", "round_up", "row_length", "shape_of", "size_of"]
