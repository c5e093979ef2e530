"""Recognising small shapes of IR that lowering treats specially."""

from __future__ import annotations

from typing import Any

from .core import Block, Value
from .types import DType, elem_of

_COMBINES = {"add": "add", "mul": "mul", "and": "and", "or": "or", "xor": "xor"}


def combine_kind(block: Block) -> str | None:
    """What a one-value combine region does: add, mul, max, min, maxnan, minnan, and, or, xor;
    None if it is more.

    `max` and `min` ignore NaN, `maxnan` and `minnan` propagate it.
    """
    if len(block.ops) != 2 or len(block.args) != 2:
        return None
    op, end = block.ops
    if end.operands != op.results or set(op.operands) != set(block.args):
        return None
    if op.name in ("max", "min"):
        return op.name + ("nan" if op.attrs["nan"] == "propagate" else "")
    return _COMBINES.get(op.name)


def neutral(kind: str, dtype: DType) -> int | float:
    """The value that `kind` (of combine_kind) leaves every other value unchanged with."""
    if kind in ("add", "or", "xor"):
        return 0.0 if dtype.is_float else 0
    if kind == "mul":
        return 1.0 if dtype.is_float else 1
    if kind == "and":
        return dtype.max_value if dtype.kind == "uint" else -1
    low = kind.startswith("max")
    if dtype.is_float:
        return float("-inf") if low else float("inf")
    return dtype.min_value if low else dtype.max_value


def constant_value(value: Value) -> Any:
    """The number that a value always has (every element, for a tile), or None."""
    owner = value.owner
    while owner is not None and owner.name in (
        "splat",
        "broadcast",
        "expand_dims",
        "reshape",
        "permute",
        "hint",
    ):
        owner = owner.operands[0].owner
    return owner.attrs["value"] if owner is not None and owner.name == "constant" else None


def is_float(value: Value) -> bool:
    """True if the value's elements are floats."""
    e = elem_of(value.type)
    return isinstance(e, DType) and e.is_float
