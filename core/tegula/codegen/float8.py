"""The pass `expand-float8`: 8-bit floats as bytes, their conversions as integer arithmetic.

It serves every backend whose machine lacks some of the five kinds. Afterwards there is no value or
pointer of those kinds left: they are u8, and what computes with them goes through f32.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tegula.errors import TegulaError
from tegula.ir.builder import Builder, make_op
from tegula.ir.core import Block, Function, Op, Value
from tegula.ir.ops.rounding import float8_bits
from tegula.ir.types import (
    DTYPES,
    Descriptor,
    DType,
    Pointer,
    Tile,
    Type,
    elem_of,
    f32,
    f64,
    i32,
    u8,
    u32,
    with_elem,
)
from tegula.passes.base import Pass, PassContext

KINDS = tuple(t for t in DTYPES.values() if t.is_float and t.bits == 8)

MOVES = frozenset(
    "splat broadcast expand_dims reshape permute cat join split flip slice gather select load "
    "store hint addptr make_descriptor desc_load desc_store for while if reduce scan map "
    "yield condition return call atomic_cas".split()
)
"""Ops that mean the same on bytes."""


@dataclass(frozen=True)
class ExpandFloat8(Pass):
    """Replace 8-bit floats by bytes, conversions by shifts, additions and selects.

    Before:
        kernel @k(%p: ptr<f8e5>, %q: ptr<f8e5>) {
          %0 = load %p : f8e5
          store %q, %0
          return
        }
    After:
        kernel @k(%p: ptr<u8>, %q: ptr<u8>) {
          %0 = load %p : u8
          store %q, %0
          return
        }
    """

    name = "expand-float8"
    kinds: str | Iterable[str] = " ".join(t.name for t in KINDS)
    """Which kinds to expand, as a list or as words."""

    def __post_init__(self) -> None:
        words = self.kinds.split() if isinstance(self.kinds, str) else list(self.kinds)
        known = [t.name for t in KINDS]
        for word in words:
            if word not in known:
                raise ValueError(
                    f"expand-float8: kinds names {word!r}; the kinds are {', '.join(known)}"
                )
        object.__setattr__(self, "kinds", " ".join(words))

    def run_function(self, function: Function, ctx: PassContext) -> Function:
        assert isinstance(self.kinds, str)
        kinds = frozenset(DTYPES[word] for word in self.kinds.split())
        expansion = Expansion(kinds)
        return expansion.function(function) if expansion.concerns(function) else function


class Expansion:
    """Copies a function with 8-bit floats as bytes."""

    def __init__(self, kinds: frozenset[DType]) -> None:
        self.kinds = kinds
        self.map: dict[Value, Value] = {}

    # -- what there is to do

    def concerns(self, function: Function) -> bool:
        """Whether the function has values of these kinds."""
        types = [*(a.type for a in function.body.args), *function.result_types]
        for op in function.body.walk():
            types += [v.type for v in (*op.operands, *op.results)]
        return any(self.type(t) is not t for t in types)

    def type(self, t: Type) -> Type:
        """A type with bytes in place of the floats."""
        if isinstance(t, Descriptor):
            return Descriptor(u8, t.block_shape) if t.elem in self.kinds else t
        elem = elem_of(t)
        if isinstance(elem, Pointer):
            if elem.elem not in self.kinds:
                return t
            pointer = Pointer(u8, elem.space, elem.const)
            return Tile(t.shape, pointer) if isinstance(t, Tile) else pointer
        return with_elem(t, u8) if elem in self.kinds else t

    def kind(self, t: Type) -> DType | None:
        """The 8-bit float that a number is, if it is one of these."""
        elem = None if isinstance(t, Descriptor) else elem_of(t)
        return elem if isinstance(elem, DType) and elem in self.kinds else None

    # -- copying

    def function(self, f: Function) -> Function:
        body = self.block(f.body)
        results = [self.type(t) for t in f.result_types]
        return Function(f.name, body, results, f.kind, f.arg_attrs, f.attrs)

    def block(self, block: Block) -> Block:
        args = []
        for a in block.args:
            fresh = self.map[a] = Value(self.type(a.type), a.name)
            args.append(fresh)
        new = Block(args)
        for op in block.ops:
            b = Builder(new, op.loc)
            for old, value in zip(op.results, self.op(b, op), strict=True):
                self.map[old] = value
        return new

    def op(self, b: Builder, op: Op) -> Sequence[Value]:
        """Copy one op; gives what stands for its results."""
        values = [self.map[v] for v in op.operands]
        types = [v.type for v in (*op.operands, *op.results)]
        if op.name == "constant" and (kind := self.kind(op.result.type)) is not None:
            bits = float8_bits(op.attrs["value"], kind)
            return [b.constant(bits, self.type(op.result.type))]
        if op.name == "cast" and any(self.kind(t) for t in types):
            return [self.cast(b, op, values[0])]
        if op.name == "bitcast" and any(self.type(t) is not t for t in types):
            to = elem_of(self.type(op.result.type))
            return [values[0] if elem_of(values[0].type) is to else b.bitcast(values[0], to=to)]
        if op.name in MOVES or not any(self.kind(t) for t in types):
            return self.copied(b, op, values).results
        if op.opdef.elementwise or op.name in ("dot", "print"):
            return self.in_wide(b, op, values)
        raise TegulaError(f"`{op.name}` cannot be expanded for {types[0]}")

    def copied(self, b: Builder, op: Op, values: Sequence[Value]) -> Op:
        """The op on other operands, its regions copied."""
        regions = tuple(self.block(r) for r in op.regions)
        attrs: dict[str, Any] = dict(op.attrs)
        if op.name == "call":
            attrs = {**attrs, "types": tuple(self.type(t) for t in attrs["types"])}
        results = [self.type(r.type) for r in op.results]
        new = Op(op.opdef, values, op.segments, attrs, regions, results, op.loc)
        for old, fresh in zip(op.results, new.results, strict=True):
            fresh.name = old.name
        b.block.ops.append(new)
        return new

    def in_wide(self, b: Builder, op: Op, values: Sequence[Value]) -> Sequence[Value]:
        """Arithmetic in a wider type, rounded at the end."""
        wide = f64 if op.name == "fma" else f32
        given = []
        for v, old in zip(values, op.operands, strict=True):
            kind = self.kind(old.type)
            x = v if kind is None else decode(b, v, kind)
            if op.name == "dot" and elem_of(x.type) in KINDS:  # of a kind that stays
                x = b.cast(x, to=f32)
            given.append(b.cast(x, to=f64) if kind is not None and wide is f64 else x)
        groups: list[Any] = given
        if op.name == "print":
            groups = [given]
        new = make_op(op.opdef, groups, dict(op.attrs), (), op.loc)
        b.block.ops.append(new)
        out = []
        for r, old in zip(new.results, op.results, strict=True):
            kind = self.kind(old.type)
            out.append(r if kind is None else encode(b, _odd(b, r), kind, "rtne"))
        return out

    def cast(self, b: Builder, op: Op, x: Value) -> Value:
        """A conversion from or to an 8-bit float, or between two."""
        source, target = self.kind(op.operands[0].type), self.kind(op.result.type)
        rounding = op.attrs["rounding"]
        if source is not None:
            x = decode(b, x, source)
        if target is not None:
            narrowed: Value = encode(b, _odd(b, x), target, rounding)
            return narrowed
        to = op.attrs["to"]
        if to is f32:
            return x
        result: Value = b.cast(x, to=to, rounding=rounding)
        return result


# -- formulas


def _like(b: Builder, x: Value, value: float | int, elem: DType) -> Value:
    """A constant of the shape of `x`."""
    return b.constant(value, with_elem(x.type, elem))


def _odd(b: Builder, x: Value) -> Value:
    """A number as f32, rounded to odd where it does not fit, so that the next rounding is right."""
    elem = elem_of(x.type)
    assert isinstance(elem, DType)
    if elem is f32:
        return x
    exact = elem.bits <= 16 if elem.is_int else elem.bits < 32
    if exact:
        result: Value = b.cast(x, to=f32)
        return result
    wide = x if elem is f64 else b.cast(x, to=f64)
    low = b.cast(wide, to=f32, rounding="rtz")
    lost = b.and_(b.cmp(b.cast(low, to=f64), wide, pred="ne"), b.cmp(wide, wide, pred="eq"))
    bits = b.bitcast(low, to=u32)
    sticky = b.bitcast(b.or_(bits, _like(b, x, 1, u32)), to=f32)
    odd: Value = b.select(lost, sticky, low)
    return odd


def decode(b: Builder, x: Value, kind: DType) -> Value:
    """Bytes that hold 8-bit floats as f32."""

    def u(value: int) -> Value:
        return _like(b, x, value, u32)

    bits = b.cast(x, to=u32)
    sign = b.shl(b.and_(bits, u(0x80)), u(24))
    size = b.and_(bits, u(0x7F))
    shift = 23 - kind.mantissa
    normal = b.add(b.shl(size, u(shift)), u((127 - kind.exponent_bias) << 23))
    step = _like(b, x, 2.0 ** (1 - kind.exponent_bias - kind.mantissa), f32)
    tiny = b.bitcast(b.mul(b.cast(b.bitcast(size, to=i32), to=f32), step), to=u32)
    wide = b.select(b.cmp(size, u(1 << kind.mantissa), pred="lt"), tiny, normal)
    for pred, place, value in _SPECIAL[kind.name]:
        tested = bits if place == 0x80 else size
        wide = b.select(b.cmp(tested, u(place), pred=pred), u(value), wide)
    result: Value = b.bitcast(b.or_(wide, sign), to=f32)
    return result


_INFINITY, _NAN = 0x7F800000, 0x7FC00000
_SPECIAL: Mapping[str, tuple[tuple[str, int, int], ...]] = {
    "f8e5": (("ge", 0x7C, _INFINITY), ("gt", 0x7C, _NAN)),
    "f8e4nv": (("eq", 0x7F, _NAN),),
    "f8e5b16": (("eq", 0x80, _NAN),),
    "f8e4b8": (("eq", 0x80, _NAN),),
    "f8e4b15": (),
}
"""Bits that stand for no finite number, and what they are in f32."""

LARGEST: Mapping[str, tuple[int, int]] = {
    "f8e5": (0x7B, 0x7E), "f8e4nv": (0x7E, 0x7F), "f8e5b16": (0x7F, 0x80),
    "f8e4b8": (0x7F, 0x80), "f8e4b15": (0x7F, 0x7F),
}  # fmt: skip
"""Bits of the largest finite magnitude, which larger numbers and infinities become, and of NaN."""


def encode(b: Builder, x: Value, kind: DType, rounding: str) -> Value:
    """f32 as bytes that hold 8-bit floats: rounded, limited to the largest finite number."""

    def u(value: int) -> Value:
        return _like(b, x, value, u32)

    bits = b.bitcast(x, to=u32)
    size = b.and_(bits, u(0x7FFFFFFF))
    drop, rebias = 23 - kind.mantissa, (127 - kind.exponent_bias) << 23
    carried = size
    if rounding == "rtne":
        odd = b.and_(b.shr(size, u(drop)), u(1))
        carried = b.add(b.add(size, u((1 << (drop - 1)) - 1)), odd)
    normal = b.shr(b.sub(carried, u(rebias)), u(drop))
    scale = _like(b, x, 2.0 ** (kind.exponent_bias - 1 + kind.mantissa), f32)
    smallest = u(rebias + (1 << 23))
    small = b.cmp(size, smallest, pred="lt")
    # The multiple of the smallest step; larger numbers are kept from overflowing the integer.
    steps = b.mul(b.bitcast(b.select(small, size, u(0)), to=f32), scale)
    steps = b.rint(steps) if rounding == "rtne" else b.trunc(steps)
    value = b.select(small, b.bitcast(b.cast(steps, to=i32), to=u32), normal)
    top, nan = LARGEST[kind.name]
    value = b.select(b.cmp(value, u(top), pred="gt"), u(top), value)
    value = b.select(b.cmp(size, u(_INFINITY), pred="gt"), u(nan), value)
    sign = b.and_(b.shr(bits, u(24)), u(0x80))
    if nan == 0x80:  # one zero, and NaN is the sign alone
        sign = b.select(b.cmp(value, u(0), pred="eq"), u(0), sign)
    result: Value = b.cast(b.or_(value, sign), to=u8)
    return result
