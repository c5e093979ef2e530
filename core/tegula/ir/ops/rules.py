"""Inference rules that several ops share, and numpy helpers for their meanings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..opdef import check, same
from ..types import (
    Descriptor,
    DType,
    Pointer,
    Tile,
    Type,
    elem_of,
    f32,
    f64,
    i1,
    numpy_dtype,
    with_elem,
)  # fmt: skip
from .rounding import limited

if TYPE_CHECKING:
    from ..core import Op


def types_of(op: Op) -> list[Type]:
    return [v.type for v in op.operands]


def scalar_elem(t: Type, what: str) -> DType:
    """The DType of a scalar or tile; IRError for pointers and descriptors."""
    check(not isinstance(t, Descriptor), f"{what} cannot be a descriptor")
    e = elem_of(t)
    check(isinstance(e, DType), f"{what} must be numbers, not {t}")
    assert isinstance(e, DType)
    return e


def same_type(op: Op) -> list[Type]:
    """All operands are numbers of one type, which is the result's."""
    t = same(types_of(op), f"the operands of {op.name}")
    scalar_elem(t, f"the operands of {op.name}")
    return [t]


def same_int(op: Op) -> list[Type]:
    (t,) = same_type(op)
    check(scalar_elem(t, "").is_int, f"{op.name} takes integers, not {t}")
    return [t]


def same_float(op: Op) -> list[Type]:
    (t,) = same_type(op)
    check(scalar_elem(t, "").is_float, f"{op.name} takes floats, not {t}")
    return [t]


def math_float(op: Op) -> list[Type]:
    (t,) = same_type(op)
    check(scalar_elem(t, "") in (f32, f64), f"{op.name} takes f32 or f64, not {t}: cast first")
    return [t]


def mask_matches(mask: Type, like: Type, what: str) -> None:
    check(
        mask is with_elem(like, i1), f"the mask of {what} must be {with_elem(like, i1)}, not {mask}"
    )


def pointee(t: Type, what: str) -> DType:
    """Element type behind a pointer or tile of pointers."""
    check(not isinstance(t, Descriptor), f"{what} takes pointers, not a descriptor")
    e = elem_of(t)
    check(isinstance(e, Pointer), f"{what} takes pointers, not {t}")
    assert isinstance(e, Pointer)
    return e.elem


def tile_of(t: Type, what: str) -> Tile:
    check(isinstance(t, Tile), f"{what} takes a tile, not {t}")
    assert isinstance(t, Tile)
    return t


def axis_in(axis: int, rank: int, what: str) -> int:
    check(
        isinstance(axis, int) and 0 <= axis < rank, f"{what}: axis {axis} is outside of rank {rank}"
    )
    return axis


def no_results(op: Op) -> list[Type]:
    return []


# --- numpy meanings

Array = Any  # numpy array or numpy scalar


def result_dtype(op: Op) -> np.dtype:
    """numpy dtype of the first result (uint64 for pointers)."""
    e = elem_of(op.results[0].type)
    return np.dtype(np.uint64) if isinstance(e, Pointer) else numpy_dtype(e)


def in_f32(f: Callable[..., Array]) -> Callable[..., Array]:
    """Run a float function of narrow floats in f32 and round once, as documented for f16, bf16
    and fp8.
    """

    def evaluate(op: Op, *xs: Array) -> Array:
        e = elem_of(op.operands[0].type)
        assert isinstance(e, DType)
        if e.is_float and e.bits < 32:
            out = f(op, *(np.asarray(x).astype(np.float32) for x in xs))
            return limited(np.asarray(out), result_dtype(op)).astype(result_dtype(op))
        return np.asarray(f(op, *xs)).astype(result_dtype(op), copy=False)

    return evaluate


def via_f64(f: Callable[[Array], Array]) -> Callable[..., Array]:
    """A math function computed in f64 and rounded once; f64 itself uses long double where numpy
    has it.
    """

    def evaluate(op: Op, x: Array) -> Array:
        wide = np.longdouble if np.asarray(x).dtype == np.float64 else np.float64
        try:
            y = f(np.asarray(x).astype(wide))
        except TypeError:
            y = f(np.asarray(x).astype(np.float64))
        return np.asarray(y).astype(result_dtype(op))

    return evaluate


def shape_to(op: Op) -> Sequence[int]:
    return tuple(op.attrs["shape"])
