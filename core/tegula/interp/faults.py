"""Turns a refused memory access into an error that says what, where, why and what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tegula.ir.core import Op
from tegula.ir.types import Descriptor, Pointer, elem_of, shape_of

from .errors import InterpreterError, OutOfBoundsError, ReadOnlyError
from .memory import AccessFault, Buffer

if TYPE_CHECKING:
    from .interpreter import Env, FunctionPlan


def explain(
    fault: AccessFault, op: Op, plan: FunctionPlan, env: Env, lanes: Any
) -> InterpreterError:
    """The error for an access that the memory refused; `lanes` are the unmasked positions."""
    target = op.operands[0].type
    if isinstance(target, Descriptor):
        element, shape = target.elem, target.block_shape
    else:
        pointer = elem_of(target)
        assert isinstance(pointer, Pointer)
        element, shape = pointer.elem, shape_of(target)
    where = ""
    if shape:
        flat = fault.lane if lanes is None else int(lanes[fault.lane])
        where = f" (element {tuple(int(i) for i in np.unravel_index(flat, shape))} of the tile)"
    state = env[0]
    what = {"load": "load", "desc_load": "load", "store": "store", "desc_store": "store"}
    action = what.get(op.name, "atomic update")
    if fault.reason == "readonly":
        name = fault.buffer.name if fault.buffer else "?"
        return ReadOnlyError(
            f"{action} to argument '{name}', which may only be read{where}. Cause: the array is "
            "read-only (a broadcast view, or writeable=False). Remedy: pass a writable copy.",
            op.loc, state.kernel, state.pid,
        )  # fmt: skip
    if fault.buffer is None:
        return OutOfBoundsError(
            f"{action} at address {fault.address:#x}{where}, and the kernel was given no memory. "
            "Remedy: pass the array that the kernel is to use as an argument.",
            op.loc, state.kernel, state.pid,
        )  # fmt: skip
    return OutOfBoundsError(
        f"out-of-bounds {action}{where}: {_place(fault.address, fault.buffer, element.itemsize)} "
        f"{_advice(op, fault.address, fault.buffer)}",
        op.loc, state.kernel, state.pid,
    )  # fmt: skip


def _place(address: int, buffer: Buffer, itemsize: int) -> str:
    offset = address - buffer.address
    if offset >= 1 << 63:
        offset -= 1 << 64
    elements = f"element {offset // itemsize}" if offset % itemsize == 0 else f"byte {offset}"
    shape = f", shape {list(buffer.shape)}" if buffer.shape is not None else ""
    side = "before the start" if offset < 0 else "past the end"
    return (
        f"offset {offset} bytes ({elements}) from argument '{buffer.name}' is {side} of its buffer "
        f"of {buffer.nbytes} bytes ({buffer.nbytes // itemsize} elements of {itemsize} bytes"
        f"{shape})."
    )


def _advice(op: Op, address: int, buffer: Buffer) -> str:
    if op.name.startswith("desc_"):
        return (
            "Likely cause: the shape or strides of the descriptor do not describe the array. "
            "Remedy: pass the array's own shape and strides (in elements)."
        )
    if op.name in ("load", "store", "atomic_rmw") and op.operand("mask") is None:
        return (
            "Likely cause: the last block reaches beyond the array and the access has no mask. "
            "Remedy: pass mask=offsets < size."
        )
    if abs(address - buffer.address) > 1 << 30:
        return (
            "Likely cause: the offset overflowed 32 bits or a stride is wrong. "
            "Remedy: compute large offsets in 64 bits."
        )
    return (
        "Likely cause: the mask does not cover what it should, or a size or stride given to the "
        "kernel does not fit the array. Remedy: compare the mask with the array's size."
    )
