"""Tensors that a machine copies in blocks on its own: those whose descriptors a launch can make.

A descriptor qualifies if its base is a parameter and its shape and strides are numbers that the
launch can compute from the parameters. What the machine cannot do is found out here as far as the
facts about parameters go; the rest takes the way over pointers and masks.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from math import gcd, prod
from typing import Any

from tegula.analysis.alias import pointer_roots
from tegula.analysis.uses import users
from tegula.codegen.simt.buffers import PIECE, ROW, Buffer
from tegula.ir.core import Function, Op, Value
from tegula.ir.patterns import constant_value
from tegula.ir.types import DType, i32

LONGEST = 256
"""The longest side of a block that one copy moves."""


@dataclass(frozen=True)
class Number:
    """const + factor * the product of up to two parameters (slot, bits), cut to `bits`, signed."""

    const: int
    factor: int
    slots: tuple[tuple[int, int], ...]
    bits: int

    @property
    def plain(self) -> bool:
        """Whether nothing is cut off: the value may go into arithmetic of more bits."""
        return not self.slots or (self.const == 0 and self.factor == 1 and len(self.slots) == 1)

    def to_json(self) -> list[Any]:
        return [self.const, self.factor, [list(s) for s in self.slots], self.bits]


@dataclass(frozen=True)
class TensorMap:
    """What a launch needs to describe a tensor to the machine; all lists begin at the outermost
    axis, sizes and strides are in elements. The last stride is 1 and not listed."""

    base: int
    """The slot of the base pointer."""
    elem: DType
    block: tuple[int, ...]
    sizes: tuple[Number, ...]
    strides: tuple[Number, ...]

    @cached_property
    def flat(self) -> tuple[int, int]:
        """The block as rows of its last axis."""
        return prod(self.block[:-1]), self.block[-1]

    @property
    def row_bytes(self) -> int:
        """Bytes of a row of one copy; rows that are longer take several."""
        return min(ROW, self.block[-1] * self.elem.itemsize)

    @property
    def nbytes(self) -> int:
        return prod(self.block) * self.elem.itemsize

    def buffer(self, copies: int) -> Buffer:
        return Buffer(self.flat, self.elem, 1, copies)

    def to_json(self) -> dict[str, Any]:
        return {
            "base": self.base,
            "itemsize": self.elem.itemsize,
            "box": [*self.block[:-1], self.row_bytes // self.elem.itemsize],
            "row_bytes": self.row_bytes,
            "sizes": [n.to_json() for n in self.sizes],
            "strides": [n.to_json() for n in self.strides],
        }


def number_of(v: Value, function: Function) -> Number | None:
    """How a launch computes an integer; None if it cannot."""
    e = v.type
    if not isinstance(e, DType) or e.kind != "int" or e.bits < 8:
        return None
    args = function.body.args
    if v in args:
        return Number(0, 1, ((args.index(v), e.bits),), e.bits)
    known = constant_value(v)
    if known is not None:
        return Number(int(known), 0, (), e.bits)
    op = v.owner
    if op is None or op.name not in ("cast", "hint", "mul", "add", "sub"):
        return None
    parts = [number_of(x, function) for x in op.operands]
    if op.name == "cast":
        return _cast(parts[0], e.bits)
    if any(x is None or not (x.plain or x.bits == e.bits) for x in parts):
        return None
    found = _combined(op.name, [x for x in parts if x is not None])
    return replace(found, bits=e.bits) if found is not None else None


def _cast(x: Number | None, bits: int) -> Number | None:
    if x is None or x.bits <= bits:
        return x
    slots = tuple((slot, min(width, bits)) for slot, width in x.slots) if x.plain else x.slots
    return replace(x, slots=slots, bits=bits)


def _combined(name: str, parts: list[Number]) -> Number | None:
    first, *rest = parts
    if not rest:
        return first
    (second,) = rest
    if not first.slots and name != "sub":
        first, second = second, first
    if name == "mul":
        if not second.slots:
            by = second.const
            return replace(first, const=first.const * by, factor=first.factor * by)
        slots = first.slots + second.slots
        if first.const or second.const or len(slots) > 2:
            return None
        return Number(0, first.factor * second.factor, slots, 0)
    if second.slots:
        return None
    by = second.const if name == "add" else -second.const
    return replace(first, const=first.const + by)


def map_of(made: Op, function: Function) -> TensorMap | None:
    """The map for a `make_descriptor`, if a launch can make one that the machine takes."""
    base = made.operands[0]
    args, block = function.body.args, tuple(made.attrs["block_shape"])
    elem = base.type.elem  # type: ignore[union-attr]
    if base not in args or made.attrs["padding"] != "zero" or not isinstance(elem, DType):
        return None
    size = elem.itemsize
    if size not in (1, 2, 4, 8) or elem.bits < 8 or block[-1] * size < PIECE:
        return None
    if any(n & (n - 1) for n in block) or any(n > LONGEST for n in block[:-1]):
        return None
    rows = prod(block[:-1])
    if block[-1] * size > ROW and rows * ROW % 1024:
        return None  # the panels' patterns would not begin anew
    sizes = [number_of(v, function) for v in made.group("shape")]
    strides = [number_of(v, function) for v in made.group("strides")]
    last = strides.pop()
    if last is None or last.slots or last.const != 1:
        return None
    if None in sizes or None in strides or _factor(function, args.index(base)) % PIECE:
        return None
    numbers = [x for x in strides if x is not None]
    if any(_every(x, function) * size % PIECE or not (x.slots or x.const > 0) for x in numbers):
        return None
    known = tuple(x for x in sizes if x is not None)
    return TensorMap(args.index(base), elem, block, known, tuple(numbers))


def _every(x: Number, function: Function) -> int:
    """A number that divides the value."""
    product = x.factor
    for slot, _ in x.slots:
        product *= _factor(function, slot)
    return gcd(gcd(x.const, product), 1 << 30)


def _factor(function: Function, slot: int) -> int:
    return int(function.arg_attrs[slot].get("divisible", 1))


def mapped(function: Function) -> set[Op]:
    """The `make_descriptor`s of a kernel with matrix products whose every use the machine can do on
    its own: it knows nothing of the order of accesses, so that what is read is not written by the
    kernel, and what is written is accessed in no other way."""
    ops = list(function.body.walk())
    if not any(op.name == "dot" for op in ops):
        return set()
    roots, uses = pointer_roots(function), users(function)
    reads: dict[Value | None, bool] = {}
    writes: dict[Value | None, bool] = {}  # True: all of them by blocks
    for op in ops:
        if "atomic" in op.opdef.effects:
            return set()
        for kind, table in (("read", reads), ("write", writes)):
            if kind in op.opdef.effects and op.operands:
                root = roots.get(op.operands[0])
                blocks = op.name in ("desc_load", "desc_store")
                table[root] = table.get(root, True) and blocks
    if None in writes:
        return set()
    out, others = set(), set()
    for op in ops:
        if op.name != "make_descriptor":
            continue
        found, root = uses[op.results[0]], roots.get(op.results[0])
        loaded = any(u.name == "desc_load" for u in found)
        stored = any(u.name == "desc_store" for u in found)
        fits = all(u.name in ("desc_load", "desc_store") and _places(u) for u in found)
        if loaded and root in writes:
            fits = False
        if stored and (root in reads or None in reads or not writes[root]):
            fits = False
        if fits and map_of(op, function) is not None:
            out.add(op)
        elif stored:
            others.add(root)
    return {op for op in out if roots.get(op.results[0]) not in others}


def _places(op: Op) -> bool:
    return all(v.type is i32 for v in op.group("offsets"))


def parts(m: TensorMap) -> Iterable[tuple[int, int]]:
    """For each copy of a block: where it begins along the last axis, and in the buffer."""
    step = m.row_bytes // m.elem.itemsize
    for i in range(m.block[-1] // step):
        yield i * step, i * m.flat[0] * m.row_bytes
