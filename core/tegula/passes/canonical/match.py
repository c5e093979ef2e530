"""Small questions that rules ask about values."""

from __future__ import annotations

import math
from typing import Any

from tegula.ir.core import Op, Value
from tegula.ir.types import DType, Tile, Type, elem_of


def made_by(value: Value, name: str) -> Op | None:
    """The op that makes the value, if it is of that name."""
    owner = value.owner
    return owner if owner is not None and owner.opdef.name == name else None


def constant_of(value: Value) -> Any:
    """The number of a constant (every element of it, for a tile), or None."""
    owner = value.owner
    if owner is not None and owner.opdef.name == "constant":
        return owner.attrs["value"]
    return None


def dtype_of(value: Value) -> DType | None:
    """The value's number type; None for pointers and descriptors."""
    t = value.type
    elem = t.elem if type(t) is Tile else t
    return elem if type(elem) is DType else None


def is_int(value: Value) -> bool:
    """True for integers and tiles of them."""
    dtype = dtype_of(value)
    return dtype is not None and dtype.kind != "float"


def is_float(value: Value) -> bool:
    """True for floats and tiles of them."""
    dtype = dtype_of(value)
    return dtype is not None and dtype.kind == "float"


def is_constant(value: Value, number: float) -> bool:
    """The value is this number everywhere; 0.0 and -0.0 differ."""
    found = constant_of(value)
    if found is None or found != number:
        return False
    return found != 0 or not isinstance(found, float) or (
        math.copysign(1.0, found) == math.copysign(1.0, number)
    )  # fmt: skip


def all_ones(value: Value) -> bool:
    """An integer constant with every bit set."""
    dtype = dtype_of(value)
    if dtype is None or dtype.is_float:
        return False
    return constant_of(value) == (dtype.max_value if dtype.kind == "uint" else -1)


def wrapped(number: int, t: Type) -> int:
    """An integer modulo 2 to the bits of the type."""
    dtype = elem_of(t)
    assert isinstance(dtype, DType)
    number &= (1 << dtype.bits) - 1
    if dtype.is_signed and number > dtype.max_value:
        number -= 1 << dtype.bits
    return number
