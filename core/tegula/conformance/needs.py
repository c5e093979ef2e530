"""What a kernel asks of a backend, and whether a capability record has it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tegula.ir import DType, Module, Op, Pointer, Value
from tegula.ir.types import Descriptor, elem_of
from tegula.plugin.records import Capabilities

STRUCTURE = frozenset({"yield", "condition", "return", "call"})
"""Ops that belong to others, or that the shared passes take away: not declared on their own."""


@dataclass(frozen=True)
class Need:
    """One op with the dtypes of its operands."""

    op: str
    dtypes: tuple[str, ...]


def dtype_of(value: Value) -> DType:
    """Element dtype of a value; of what a pointer or descriptor points to."""
    if isinstance(value.type, Descriptor):
        return value.type.elem
    elem = elem_of(value.type)
    return elem.elem if isinstance(elem, Pointer) else elem


def needs_of(module: Module) -> Iterator[Need]:
    """Every op of the module, once per combination of dtypes."""
    seen = set()
    for function in module.functions.values():
        for op in function.body.walk():
            if op.name not in STRUCTURE:
                need = Need(op.name, tuple(dtype_of(v).name for v in op.operands))
                if need not in seen:
                    seen.add(need)
                    yield need


def subject_dtype(op: Op) -> str:
    """The dtype that an op is about: of its first operand that is no condition, or its result."""
    values = [*op.operands, *op.results]
    if op.name in ("select", "if"):
        values = values[1:]
    return dtype_of(values[0]).name if values else ""


def missing(capabilities: Capabilities, module: Module) -> str:
    """Why the capability record does not have what the module needs; empty if it does."""
    for function in module.functions.values():
        for op in function.body.walk():
            reason = "" if op.name in STRUCTURE else _missing(capabilities, op)
            if reason:
                return reason
    return ""


def _missing(capabilities: Capabilities, op: Op) -> str:
    for value in (*op.operands, *op.results):
        name = dtype_of(value).name
        if name not in capabilities.dtypes:
            return f"dtype '{name}' is not supported on {capabilities.target}"
    if op.name == "dot":
        triple = tuple(dtype_of(v).name for v in op.operands)
        if triple not in capabilities.dot:
            return f"dot of ({', '.join(triple)}) is not supported on {capabilities.target}"
    if op.name in ("atomic_rmw", "atomic_cas"):
        kind = "cas" if op.name == "atomic_cas" else op.attrs["kind"]
        name = dtype_of(op.operands[0]).name
        if name not in capabilities.atomics.get(kind, ()):
            return f"atomic {kind} of {name} is not supported on {capabilities.target}"
    return why_not(capabilities, op)


def why_not(capabilities: Capabilities, op: Op) -> str:
    """An op is declared by the dtypes of all its operands, or by the one that it is about."""
    full = tuple(dtype_of(v).name for v in op.operands)
    reason = capabilities.why_not(op.name, *full)
    if not reason:
        return ""
    subject = subject_dtype(op)
    return capabilities.why_not(op.name, subject) if subject else capabilities.why_not(op.name)
