"""Rewrites before lowering: descriptors become pointers, carried index tiles become offsets.

A tile of pointers or indices that a loop advances by the same amount everywhere,

    for ... (%p: ptr<f32>[64,64]):  ...  yield addptr(%p, splat(%s))

is the tile before the loop plus a scalar that the loop carries.  So it never lies in memory, and
what is known of its strides holds inside the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from typing import NamedTuple

from tegula.codegen.loops.evaluate import Unsupported
from tegula.ir.builder import Builder
from tegula.ir.core import Block, Cloner, Function, Module, Op, Value
from tegula.ir.ops.foreign import REASONS
from tegula.ir.types import DType, Pointer, Tile, elem_of, i64, shape_of, with_shape

Kept = Callable[[Function], set[Op]]


def prepare(
    module: Module, function: Function, kept: Kept | None = None,
    foreign: frozenset[str] = frozenset(),
) -> Function:  # fmt: skip
    """The kernel ready to be lowered; the `make_descriptor`s that `kept` names stay, with all their
    uses, until `without_descriptors`. Of what only some targets can do, `foreign` is there."""
    for op in function.body.walk():
        if op.name in REASONS and op.name not in foreign:
            raise Unsupported(op, REASONS[op.name])
    names = {op.name for op in function.body.walk()}
    if names & {"make_descriptor", "desc_load", "desc_store"}:
        function = without_descriptors(function, kept(function) if kept else set())
    if any(op.name == "print" and len(op.operands) > 1 for op in function.body.walk()):
        function = Cloner(_print_each).function(function)
    if "for" in names:
        function = Cloner(_carry_offsets).function(function)
    return function


def _print_each(op: Op, cloner: Cloner) -> Sequence[Value] | None:
    """One print for each of several values, which may differ in shape."""
    if op.name != "print" or len(op.operands) < 2:
        return None
    b = _builder(cloner, op)
    for number, v in enumerate(op.operands):
        prefix = f"{op.attrs['prefix']}(operand {number}) "
        b.create("print", [cloner.value(v)], prefix=prefix, hex=op.attrs["hex"])
    return []


def _builder(cloner: Cloner, op: Op) -> Builder:
    """A builder that appends where the cloner does."""
    block = Block()
    block.ops = cloner.out
    return Builder(block, op.loc)


# -- descriptors


def without_descriptors(function: Function, kept: Container[Op] = ()) -> Function:
    """The kernel with pointers and masks instead of tensor descriptors, but those that are kept."""
    return Cloner(_Descriptors(kept).hook).function(function)


class _Info(NamedTuple):
    base: Value
    shape: list[Value]
    strides: list[Value]
    padding: str


_USES = frozenset({"desc_load", "desc_store"})


class _Descriptors:
    """Replaces descriptor ops by pointer arithmetic and masks."""

    def __init__(self, kept: Container[Op] = ()) -> None:
        self.kept = kept
        self.known: dict[Value, _Info] = {}

    def hook(self, op: Op, cloner: Cloner) -> Sequence[Value] | None:
        if op in self.kept or (op.name in _USES and op.operands[0].owner in self.kept):
            return None
        if op.name == "make_descriptor":
            return [self._make(op, cloner)]
        if op.name == "desc_load":
            return [self._load(op, cloner)]
        if op.name == "desc_store":
            self._store(op, cloner)
            return []
        return None

    def _make(self, op: Op, cloner: Cloner) -> Value:
        b = _builder(cloner, op)
        wide = [[_as_i64(b, cloner.value(v)) for v in op.group(g)] for g in ("shape", "strides")]
        base = cloner.value(op.operands[0])
        self.known[op.results[0]] = _Info(base, wide[0], wide[1], op.attrs["padding"])
        return base

    def _info(self, op: Op) -> _Info:
        found = self.known.get(op.operands[0])
        if found is None:
            raise Unsupported(op, "a tensor descriptor that is not made in the kernel itself, or "
                                  "is carried through a loop or branch")
        return found

    def _access(self, op: Op, cloner: Cloner, block: tuple[int, ...]) -> tuple[Value, Value]:
        """Pointers and mask of the block that begins at the op's offsets."""
        b, info = _builder(cloner, op), self._info(op)
        offsets = [cloner.value(v) for v in op.group("offsets")]
        total: Value | None = None
        mask: Value | None = None
        for d, size in enumerate(block):
            at = b.add(b.splat(_as_i64(b, offsets[d]), shape=(size,)),
                       b.cast(b.arange(start=0, end=size), to=i64))
            end = b.splat(info.shape[d], shape=(size,))
            zero = b.constant(0, Tile((size,), i64))
            inside = b.and_(b.cmp(at, zero, pred="ge"), b.cmp(at, end, pred="lt"))
            step = b.mul(at, b.splat(info.strides[d], shape=(size,)))
            inside, step = (_spread(b, x, d, block) for x in (inside, step))
            total = step if total is None else b.add(total, step)
            mask = inside if mask is None else b.and_(mask, inside)
        assert total is not None and mask is not None
        return b.addptr(b.splat(info.base, shape=block), total), mask

    def _load(self, op: Op, cloner: Cloner) -> Value:
        t = op.results[0].type
        block = shape_of(t)
        ptr, mask = self._access(op, cloner, block)
        b = _builder(cloner, op)
        if self._info(op).padding == "nan":
            return b.load(ptr, mask=mask, other=b.constant(float("nan"), t))
        return b.load(ptr, mask=mask)

    def _store(self, op: Op, cloner: Cloner) -> None:
        value = cloner.value(op.operands[1])
        ptr, mask = self._access(op, cloner, shape_of(value.type))
        _builder(cloner, op).store(ptr, value, mask=mask)


def _as_i64(b: Builder, v: Value) -> Value:
    return v if v.type is i64 else b.cast(v, to=i64)


def _spread(b: Builder, v: Value, dim: int, shape: tuple[int, ...]) -> Value:
    """A vector along one dimension as a tile of the whole shape."""
    for d in range(len(shape)):
        if d != dim:
            v = b.expand_dims(v, axis=d)
    return v if shape_of(v.type) == shape else b.broadcast(v, shape=shape)


# -- carried tiles of pointers and indices


def _steps(arg: Value, end: Value) -> list[Op] | None:
    """The ops that advance `arg` to `end`, each by a splat; None if it changes otherwise."""
    out: list[Op] = []
    v = end
    while v is not arg:
        op = v.owner
        if op is None or op.name not in ("addptr", "add"):
            return None
        by = op.operands[1].owner
        if by is None or by.name not in ("splat", "constant"):
            return None
        out.append(op)
        v = op.operands[0]
    return out or None


def _candidates(op: Op) -> dict[int, list[Op]]:
    """Carried values that only advance, with the ops that do it."""
    (body,) = op.regions
    out = {}
    for i, arg in enumerate(body.args[1:]):
        if not isinstance(arg.type, Tile):
            continue
        e = elem_of(arg.type)
        if isinstance(e, DType) and (e.is_float or e.bits == 1):
            continue
        steps = _steps(arg, body.terminator.operands[i])
        if steps is not None:
            out[i] = steps
    return out


def _carry_offsets(op: Op, cloner: Cloner) -> Sequence[Value] | None:
    """Make a loop carry offsets instead of tiles that advance."""
    if op.name != "for":
        return None
    found = _candidates(op)
    if not found:
        return None
    (body,) = op.regions
    before = _builder(cloner, op)
    first = [cloner.value(v) for v in op.group("inits")]
    inits = [before.constant(0, _offset_type(v)) if i in found else v
             for i, v in enumerate(first)]
    fresh = Block([body.args[0].type, *(v.type for v in inits)])
    saved, cloner.out = cloner.out, fresh.ops
    b = _builder(cloner, op)
    cloner.map[body.args[0]] = fresh.args[0]
    for i, (old, new) in enumerate(zip(body.args[1:], fresh.args[1:])):
        cloner.map[old] = _advanced(b, first[i], new) if i in found else new
    cloner.ops(body.ops[:-1])
    ends = []
    for i, v in enumerate(body.terminator.operands):
        if i in found:
            ends.append(_next_offset(b, fresh.args[i + 1], found[i], cloner))
        else:
            ends.append(cloner.value(v))
    b.create("yield", ends)
    cloner.out = saved
    bounds = [cloner.value(v) for v in op.operands[:3]]
    results = before.for_(*bounds, inits, fresh, **op.attrs)
    return [_advanced(before, first[i], r) if i in found else r for i, r in enumerate(results)]


def _offset_type(v: Value) -> DType:
    e = elem_of(v.type)
    return i64 if isinstance(e, Pointer) else e


def _advanced(b: Builder, base: Value, offset: Value) -> Value:
    moved = b.splat(offset, shape=shape_of(base.type))
    if isinstance(elem_of(base.type), Pointer):
        return b.addptr(base, moved)
    return b.add(base, moved)


def _next_offset(b: Builder, offset: Value, steps: list[Op], cloner: Cloner) -> Value:
    for op in steps:
        by = op.operands[1].owner
        assert by is not None
        if by.name == "constant":
            amount = b.constant(by.attrs["value"], with_shape(by.results[0].type, ()))
        else:
            amount = cloner.value(by.operands[0])
        offset = b.add(offset, amount if amount.type is offset.type
                       else b.cast(amount, to=offset.type))
    return offset
