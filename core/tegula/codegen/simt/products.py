"""Matrix products by a unit that reads its factors from shared memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tegula.codegen.loops.text import Val
from tegula.codegen.simt.buffers import Buffer, next_number, place, put_tile, vector_of
from tegula.codegen.simt.layout import Layout
from tegula.codegen.simt.registry import Context, lowers
from tegula.ir.core import Op, Value
from tegula.ir.types import DType, elem_of, shape_of

if TYPE_CHECKING:
    from tegula.codegen.simt.hooks import Simt
    from tegula.codegen.simt.kernel import Emitter


@dataclass(frozen=True)
class Factor:
    """Where a factor is: in registers, or in shared memory in the copy `slot` of a buffer at an
    offset. `transposed` means that the buffer holds the factor with its axes exchanged."""

    regs: tuple[Val, ...] = ()
    buffer: Buffer | None = None
    address: Val | None = None
    slot: Val | None = None
    transposed: bool = False

    @property
    def along_k(self) -> bool:
        """Whether neighbours in the buffer are neighbours along axis 1 of the factor."""
        assert self.buffer is not None
        return (self.buffer.fast == 1) != self.transposed


class SharedUnit(ABC):
    """A matrix unit as one product uses it: [M, K] @ [K, N]."""

    layout: Layout
    """Where the accumulators are."""
    groups: int = 1
    """Groups of warps that make their parts of the product on their own."""
    a_registers: Layout | None = None
    """The layout in which the left factor may come in registers; None if it may not."""

    @abstractmethod
    def reads(self, side: str, buffer: Buffer, transposed: bool) -> bool:
        """Whether the factor `a` or `b` may be read from such a buffer."""

    @abstractmethod
    def fast(self, side: str, wanted: int) -> int:
        """The axis of a factor along which it has to lie in shared memory; `wanted` if it may."""

    @abstractmethod
    def emit(self, k: Emitter, acc: list[Val], a: Factor, b: Factor, asynchronous: bool
             ) -> list[Val]:
        """acc + a @ b. If `asynchronous` the product may be under way when this returns."""

    @abstractmethod
    def wait(self, k: Emitter, acc: list[Val], pending: int) -> list[Val]:
        """The accumulators when everything is done but the last `pending` products."""


def unit_of(op: Op, simt: Simt, warps: int) -> SharedUnit | None:
    """The unit for a `dot`, if the machine has one for its shape and dtypes."""
    a, b, acc = op.operands
    if len(shape_of(acc.type)) != 2:
        return None
    x, y, z = (elem_of(v.type) for v in (a, b, acc))
    assert isinstance(x, DType) and isinstance(y, DType) and isinstance(z, DType)
    (m, k), (_, n) = shape_of(a.type), shape_of(b.type)
    return simt.shared_unit(x, y, z, (m, n, k), op.attrs["precision"], warps)


def origin(v: Value) -> tuple[Value, bool]:
    """A factor before transposition, and whether it is transposed."""
    transposed = False
    while v.owner is not None and v.owner.name == "permute":
        if tuple(v.owner.attrs["dims"]) == (1, 0):
            transposed = not transposed
        v = v.owner.operands[0]
    return v, transposed


def kept_buffer(side: str, v: Value, layout: Layout, unit: SharedUnit) -> Buffer:
    """A buffer for a factor that is laid down once and read often."""
    return replace(scratch_buffer(side, v, layout, unit), number=next_number())


def scratch_buffer(side: str, v: Value, layout: Layout, unit: SharedUnit) -> Buffer:
    """How a factor that comes in registers is laid down: along the axis on which its registers run,
    where the unit can read that."""
    e = elem_of(v.type)
    assert isinstance(e, DType)
    shape = shape_of(v.type)
    run = [vector_of(Buffer(shape, e, axis, number=0), layout) for axis in (0, 1)]
    wanted = 0 if run[0] > run[1] else 1
    fast = unit.fast(side, wanted)
    return Buffer(shape, e, fast, number=0)


def _in_registers(op: Op, v: Value, layout: Layout) -> bool:
    return v is op.operand("a") and op.attrs["unit"].a_registers == layout


def _laid_down(op: Op, ctx: Context) -> dict[str, tuple[Value, Buffer]]:
    """The factors that the op itself has to put into shared memory."""
    out = {}
    for side in ("a", "b"):
        v = op.operand(side)
        if v is not None and not _in_registers(op, v, ctx.layouts[v]):
            out[side] = (v, scratch_buffer(side, v, ctx.layouts[v], op.attrs["unit"]))
    return out


def _scratch(op: Op, ctx: Context) -> int:
    return sum(buffer.nbytes for _, buffer in _laid_down(op, ctx).values())


@lowers("shared_dot", scratch=_scratch)
def _shared_dot(k: Emitter, op: Op) -> None:
    unit: SharedUnit = op.attrs["unit"]
    w = k.w
    factors: dict[str, Factor] = {}
    laid = _laid_down(op, k.ctx)
    at = k.scratch(op) if laid else 0
    for side in ("a", "b"):
        v = op.operand(side)
        if side in laid:
            v, buffer = laid[side]
            base = k.i32(at)
            put_tile(k, buffer, base, k.layout(v), k.regs(v))
            factors[side] = Factor(buffer=buffer, address=base)
            at += buffer.nbytes
        elif v is not None:
            factors[side] = Factor(tuple(k.regs(v)))
        else:
            buffer, transposed = op.attrs[side + "_buffer"]
            slot = op.operand(side + "_slot")
            start = place(k, buffer, None)
            copy = k.scalar(slot) if slot is not None and buffer.copies > 1 else None
            factors[side] = Factor((), buffer, start, copy, transposed)
    if laid:
        k.simt.shared_fence(w)
        k.barrier()
    acc = op.operand("acc")
    assert acc is not None
    out = unit.emit(k, k.regs(acc), factors["a"], factors["b"], op.attrs["asynchronous"])
    k.set(op.results[0], out)


@lowers("dot_wait")
def _dot_wait(k: Emitter, op: Op) -> None:
    unit: SharedUnit = op.attrs["unit"]
    k.set(op.results[0], unit.wait(k, k.regs(op.operands[0]), op.attrs["pending"]))
