"""Matrix products of narrow floats that share scales: the microscaling formats."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tegula.frontend.diagnostics import LanguageError
from tegula.frontend.promotion import name_of
from tegula.ir.types import (
    DType,
    bf16,
    f8e4nv,
    f8e5,
    f16,
    f32,
    i8,
    i32,
    u8,
    u32,
)

from .builtin import builtin, emit
from .dtypes import dtype as Dtype
from .reduction import dot
from .values import describe, tensor

if TYPE_CHECKING:
    from tegula.frontend.semantic import Semantic

FORMATS: Final[dict[str, DType | None]] = {
    "e2m1": None, "e4m3": f8e4nv, "e5m2": f8e5, "bf16": bf16, "fp16": f16,
}  # fmt: skip
"""Formats of operands, with the dtype that holds one number (e2m1: two in a byte)."""

GROUPS: Final = (16, 32)
"""How many numbers share a scale."""


@builtin
def dot_scaled(
    s: Semantic,
    lhs: tensor,
    lhs_scale: Any,
    lhs_format: str,
    rhs: tensor,
    rhs_scale: Any,
    rhs_format: str,
    acc: Any = None,
    fast_math: bool = False,
    lhs_k_pack: bool = True,
    rhs_k_pack: bool = True,
    out_dtype: Dtype | None = None,
) -> tensor:
    """Matrix product of [.., M, K] and [.., K, N] whose numbers are multiplied by scales first.

    Formats are e2m1 (two in a uint8, along K, or along the other dimension without k_pack), e4m3,
    e5m2, bf16 and fp16; bytes stand for the bits of the formats. lhs_scale is [.., M, K / group]
    and rhs_scale [.., N, K / group]: exponents (e8m0, as uint8 or int8) or fp8e4nv, or None.
    """
    a, b = _operand(s, lhs, lhs_format, "lhs"), _operand(s, rhs, rhs_format, "rhs")
    x = _values(s, a, lhs_format, s.flag(lhs_k_pack, "dot_scaled: lhs_k_pack"), True, "lhs")
    y = _values(s, b, rhs_format, s.flag(rhs_k_pack, "dot_scaled: rhs_k_pack"), False, "rhs")
    if x.ir_shape[-1] != y.ir_shape[-2]:
        raise LanguageError(
            f"dot_scaled: the inner sizes differ: lhs has {x.ir_shape[-1]} numbers along K and rhs "
            f"{y.ir_shape[-2]}",
            "a uint8 holds two numbers of the format e2m1 and one of the others",
        )
    groups = [
        _group(s, scale, t.ir_shape, rows, what)
        for scale, t, rows, what in (
            (lhs_scale, x, x.ir_shape[-2], "lhs_scale"),
            (rhs_scale, y, y.ir_shape[-1], "rhs_scale"),
        )
    ]
    if None not in groups and groups[0] != groups[1]:
        raise LanguageError(
            f"dot_scaled: a scale belongs to {groups[0]} numbers of lhs and to {groups[1]} of rhs; "
            "both have to group alike"
        )
    kind = f32 if "fp16" in (lhs_format, rhs_format) else bf16
    x = _scaled(s, x, lhs_scale, groups[0], True, kind)
    y = _scaled(s, y, rhs_scale, groups[1], False, kind)
    return emit(dot, s, x, y, acc, out_dtype=out_dtype)


def _operand(s: Semantic, x: Any, form: Any, what: str) -> tensor:
    if form not in FORMATS:
        raise LanguageError(
            f"dot_scaled: the format of {what} is one of {', '.join(map(repr, FORMATS))}, not "
            f"{form!r}"
        )
    if not isinstance(x, tensor) or len(x.ir_shape) < 2 or not isinstance(x.ir_elem, DType):
        raise LanguageError(
            f"dot_scaled: {what} must be a tile of rank 2 or more, not {describe(x)}"
        )
    want, elem = FORMATS[form], x.ir_elem
    bits = 8 if want is None else want.bits
    if elem is not want and not (elem.is_int and elem.bits == bits and elem.bits > 1):
        known = f"uint{bits}" if want is None else f"{name_of(want)} or uint{bits}"
        raise LanguageError(
            f"dot_scaled: {what} in the format {form!r} is {known}, not {name_of(elem)}"
        )
    return x


def _values(s: Semantic, x: tensor, form: str, k_pack: bool, is_lhs: bool, what: str) -> tensor:
    """The numbers of an operand as f32, unpacked."""
    want = FORMATS[form]
    if want is not None:
        if not k_pack and form != "e2m1":
            raise LanguageError(
                f"dot_scaled: only e2m1 is packed along another dimension than K, {what} is {form}"
            )
        return s.cast(s.bitcast(x, want), f32)
    byte = s.cast(s.bitcast(x, u8), i32)
    low = _e2m1(s, s.and_(byte, 15))
    high = _e2m1(s, s.shr(byte, 4))
    last = is_lhs == k_pack  # packed along the last dimension
    pairs = s.emit("join", low.handle, high.handle)
    *batch, rows, columns = x.ir_shape
    if last:
        return s.emit("reshape", pairs.handle, shape=(*batch, rows, 2 * columns))
    rank = len(x.ir_shape)
    order = (*range(rank - 1), rank, rank - 1)
    turned = s.emit("permute", pairs.handle, dims=order)
    return s.emit("reshape", turned.handle, shape=(*batch, 2 * rows, columns))


def _e2m1(s: Semantic, x: tensor) -> tensor:
    """Numbers of four bits (sign, two of exponent, one of mantissa) as f32."""
    exponent, mantissa = s.and_(s.shr(x, 1), 3), s.and_(x, 1)
    normal = s.shl(s.or_(mantissa, 2), s.sub(exponent, 1))
    small = s.compare("eq", exponent, 0)
    doubled = s.emit("select", small.handle, mantissa.handle, normal.handle)
    size = s.mul(s.cast(doubled, f32), 0.5)
    minus = s.compare("ne", s.and_(x, 8), 0)
    return s.emit("select", minus.handle, s.neg(size).handle, size.handle)


def _group(s: Semantic, scale: Any, shape: tuple[int, ...], rows: int, what: str) -> int | None:
    """How many numbers share a scale; None without scales."""
    if scale is None:
        return None
    if not isinstance(scale, tensor) or scale.ir_elem not in (u8, i8, f8e4nv):
        raise LanguageError(
            f"dot_scaled: {what} is a tile of uint8 (or int8: exponents) or fp8e4nv, not "
            f"{describe(scale)}"
        )
    depth = shape[-1] if what == "lhs_scale" else shape[-2]
    got = scale.ir_shape
    fits = len(got) == len(shape) and got[:-2] == shape[:-2] and got[-2] == rows
    if not fits or not got[-1] or depth % got[-1] or depth // got[-1] not in GROUPS:
        raise LanguageError(
            f"dot_scaled: {what} must have shape {[*shape[:-2], rows, f'{depth}/16']} or "
            f"{[*shape[:-2], rows, f'{depth}/32']}, not {list(got)}"
        )
    return depth // got[-1]


def _scaled(
    s: Semantic, x: tensor, scale: Any, group: int | None, is_lhs: bool, kind: DType
) -> tensor:
    """The operand times its scales."""
    if group is None:
        return s.cast(x, kind)
    *batch, rows, count = scale.ir_shape
    factor = s.cast(scale, f32) if scale.ir_elem is f8e4nv else _exponent(s, scale)
    wide = s.emit("expand_dims", factor.handle, axis=len(scale.ir_shape))
    wide = s.broadcast_to(wide, (*batch, rows, count, group))
    spread = s.emit("reshape", wide.handle, shape=(*batch, rows, count * group))
    if not is_lhs:
        rank = len(scale.ir_shape)
        order = (*range(rank - 2), rank - 1, rank - 2)
        spread = s.emit("permute", spread.handle, dims=order)
    return s.cast(s.mul(x, spread), kind)


def _exponent(s: Semantic, scale: tensor) -> tensor:
    """2 to the power of x - 127; NaN for 255."""
    wide = s.cast(s.bitcast(scale, u8), u32)
    bits = s.shl(wide, 23)
    smallest = s.constant(1 << 22, u32, scale.ir_shape)
    nan = s.constant(0x7FC00000, u32, scale.ir_shape)
    bits = s.emit("select", s.compare("eq", wide, 0).handle, smallest.handle, bits.handle)
    bits = s.emit("select", s.compare("eq", wide, 255).handle, nan.handle, bits.handle)
    return s.bitcast(bits, f32)
