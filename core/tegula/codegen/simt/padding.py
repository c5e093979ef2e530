"""Tiles of any size become tiles whose sizes are powers of two.

The elements that are added hold anything: they are kept out of memory by masks, and out of
reductions, scans and products by values that change nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isinf
from typing import Any

from tegula.ir.builder import Builder
from tegula.ir.core import Block, Cloner, Function, Op, Value
from tegula.ir.patterns import combine_kind, neutral
from tegula.ir.types import (
    DType,
    Tile,
    Type,
    elem_of,
    i1,
    i32,
    i64,
    shape_of,
    u8,
    with_elem,
    with_shape,
)

Shape = tuple[int, ...]


def pad_tiles(function: Function) -> Function:
    """The kernel with sizes that are powers of two; itself if all of them are."""
    for op in function.body.walk():
        if any(is_padded(v) for v in (*op.results, *op.operands)):
            return _Padder().function(function)
    return function


def ceil_size(size: int) -> int:
    """The least power of two that is not smaller."""
    return 1 << (size - 1).bit_length() if size > 1 else 1


def ceil_shape(shape: Sequence[int]) -> Shape:
    return tuple(map(ceil_size, shape))


def is_padded(v: Value) -> bool:
    """Whether a value's tile has to grow."""
    shape = shape_of(v.type)
    return ceil_shape(shape) != shape


def padded_type(t: Type) -> Type:
    return with_shape(t, ceil_shape(t.shape)) if isinstance(t, Tile) else t


class _Padder(Cloner):
    def __init__(self) -> None:
        super().__init__(_rewrite)

    def block(self, block: Block) -> Block:
        args = [Value(padded_type(a.type), a.name) for a in block.args]
        self.map.update(zip(block.args, args))
        new = Block(args)
        saved, self.out = self.out, new.ops
        self.ops(block.ops)
        self.out = saved
        return new

    def copy(self, op: Op, operands: Sequence[Value] | None = None) -> Op:
        mapped = self.values(op.operands) if operands is None else tuple(operands)
        regions = tuple(self.block(r) for r in op.regions)
        attrs = op.attrs
        if "shape" in attrs:
            attrs = {**attrs, "shape": ceil_shape(attrs["shape"])}
        types = [padded_type(r.type) for r in op.results]
        new = Op(op.opdef, mapped, op.segments, attrs, regions, types, op.loc)
        self.out.append(new)
        for a, b in zip(op.results, new.results):
            b.name = a.name
            self.map[a] = b
        return new

    def builder(self, op: Op) -> Builder:
        block = Block()
        block.ops = self.out
        return Builder(block, op.loc)


Rule = Callable[[_Padder, Op], "Sequence[Value] | None"]
_RULES: dict[str, Rule] = {}


def _rule(*names: str) -> Callable[[Rule], Rule]:
    def enter(f: Rule) -> Rule:
        for name in names:
            _RULES[name] = f
        return f

    return enter


def _rewrite(op: Op, cloner: Cloner) -> Sequence[Value] | None:
    assert isinstance(cloner, _Padder)
    found = _RULES.get(op.name)
    if found is None or not any(is_padded(v) for v in (*op.operands, *op.results)):
        return None
    return found(cloner, op)


# -- pieces


def _coordinate(b: Builder, shape: Shape, axis: int) -> Value:
    """The coordinate along an axis in every element of a padded tile, i32."""
    return _spread(b, b.arange(start=0, end=shape[axis]), shape, axis)


def _spread(b: Builder, row: Value, shape: Shape, axis: int) -> Value:
    """A row along one axis, repeated along the others."""
    for before in range(len(shape) - 1):
        row = b.expand_dims(row, axis=0 if before < axis else len(shape_of(row.type)))
    return row if shape_of(row.type) == shape else b.broadcast(row, shape=shape)


def _inside(b: Builder, shape: Shape, axes: Sequence[int] | None = None) -> Value:
    """Whether an element of the padded tile is one of the tile of `shape`."""
    padded = ceil_shape(shape)
    out: Value | None = None
    for axis in range(len(shape)) if axes is None else axes:
        if padded[axis] == shape[axis]:
            continue
        row = b.arange(start=0, end=padded[axis])
        limit = b.constant(shape[axis], Tile((padded[axis],), i32))
        part = _spread(b, b.cmp(row, limit, pred="lt"), padded, axis)
        out = part if out is None else b.and_(out, part)
    return out if out is not None else b.constant(1, Tile(padded, i1))


def _filled(b: Builder, inside: Value, x: Value, value: int | float) -> Value:
    """`x` with another value in the elements that were added."""
    return b.select(inside, x, b.constant(value, x.type))


# -- memory


@_rule("load", "store", "atomic_rmw", "atomic_load", "atomic_store")
def _access(p: _Padder, op: Op) -> Sequence[Value]:
    b = p.builder(op)
    mask = op.operand("mask")
    inside = _inside(b, shape_of(op.operands[0].type))
    if mask is not None:
        inside = b.and_(p.value(mask), inside)
    given = {o.name: op.operand(o.name) for o in op.opdef.operands if o.name != "mask"}
    values = {name: p.value(v) for name, v in given.items() if v is not None}
    first = values.pop("ptr")
    rest = [values.pop("value")] if "value" in values else []
    named: dict[str, Any] = {**values, **op.attrs}
    made = b.create(op.name, first, *rest, mask=inside, **named)
    return [made] if op.results else []


@_rule("atomic_cas")
def _cas(p: _Padder, op: Op) -> Sequence[Value]:
    """The elements that were added swap equal values at an address of another element."""
    b = p.builder(op)
    ptr, cmp, value = p.values(op.operands)
    shape = shape_of(op.operands[0].type)
    if 0 in shape:
        return [b.constant(0, padded_type(op.result.type))]
    inside = _inside(b, shape)
    numbers = _filled(b, inside, b.cast(ptr, to=i64), i64.min_value)
    for _ in shape:
        region = Block([i64, i64])
        inner = Builder(region, op.loc)
        inner.create("yield", [inner.max(*region.args)])
        (numbers,) = b.reduce([numbers], region, 0)
    somewhere = b.splat(b.cast(numbers, to=elem_of(ptr.type)), shape=shape_of(ptr.type))
    made = b.atomic_cas(
        b.select(inside, ptr, somewhere), _filled(b, inside, cmp, 0),
        _filled(b, inside, value, 0), **op.attrs,
    )  # fmt: skip
    return [made]


# -- folding


@_rule("reduce")
def _reduce(p: _Padder, op: Op) -> Sequence[Value] | None:
    axis, shape = op.attrs["axis"], shape_of(op.operands[0].type)
    if ceil_size(shape[axis]) == shape[axis]:
        return None
    b = p.builder(op)
    sources = list(p.values(op.operands))
    inside = _inside(b, shape, [axis])
    kind, e = combine_kind(op.regions[0]), elem_of(op.operands[0].type)
    if kind is not None and isinstance(e, DType):
        filled = _unchanging(b, inside, sources[0], kind)
        return b.reduce([filled], p.block(op.regions[0]), axis)
    *results, _ = b.reduce([*sources, inside], _checked(p, op), axis)
    return results


@_rule("scan")
def _scan(p: _Padder, op: Op) -> Sequence[Value] | None:
    """Only a scan from the end meets the elements that were added first."""
    axis, shape = op.attrs["axis"], shape_of(op.operands[0].type)
    if not op.attrs["reverse"] or ceil_size(shape[axis]) == shape[axis]:
        return None
    b = p.builder(op)
    sources = list(p.values(op.operands))
    inside = _inside(b, shape, [axis])
    kind, e = combine_kind(op.regions[0]), elem_of(op.operands[0].type)
    if kind is not None and isinstance(e, DType):
        filled = _unchanging(b, inside, sources[0], kind)
        return b.scan([filled], p.block(op.regions[0]), axis, True)
    *results, _ = b.scan([*sources, inside], _checked(p, op), axis, True)
    return results


def _unchanging(b: Builder, inside: Value, x: Value, kind: str) -> Value:
    """`x` with values in the elements that were added that leave every value as it is, NaN and the
    sign of zero too."""
    e = elem_of(x.type)
    assert isinstance(e, DType)
    value = neutral(kind, e)
    if e.is_float and kind in ("max", "min") and e.name != "f8e4b15":  # which has no NaN
        value = float("nan")
    if e.is_float and kind == "add":
        value = -0.0
    if e.name == "f8e5" and isinf(value):  # constants of 8 bits are finite
        bits = b.constant(0x7C if value > 0 else 0xFC, with_elem(x.type, u8))
        return b.select(inside, x, b.bitcast(bits, to=e))
    return _filled(b, inside, x, value)


def _checked(p: _Padder, op: Op) -> Block:
    """The region over values with a flag each, that says whether there is a value."""
    region = op.regions[0]
    count = len(region.args) // 2
    types = [a.type for a in region.args]
    new = Block([*types[:count], i1, *types[count:], i1])
    first, second = new.args[:count], new.args[count + 1 : -1]
    has_first, has_second = new.args[count], new.args[-1]
    p.map.update(zip(region.args, (*first, *second)))
    saved, p.out = p.out, new.ops
    p.ops(region.ops[:-1])
    b = p.builder(op)
    both = b.and_(has_first, has_second)
    ends = [
        b.select(both, p.value(end), b.select(has_first, x, y))
        for end, x, y in zip(region.terminator.operands, first, second)
    ]
    b.create("yield", [*ends, b.or_(has_first, has_second)])
    p.out = saved
    return new


@_rule("dot")
def _dot(p: _Padder, op: Op) -> Sequence[Value] | None:
    size = shape_of(op.operands[0].type)[-1]
    if ceil_size(size) == size:
        return None
    b = p.builder(op)
    lhs, rhs, acc = op.operands
    values = []
    for v, axis in ((lhs, -1), (rhs, -2)):
        shape = shape_of(v.type)
        values.append(_filled(b, _inside(b, shape, [len(shape) + axis]), p.value(v), 0))
    return [p.copy(op, [*values, p.value(acc)]).result]


# -- shapes


@_rule("arange")
def _arange(p: _Padder, op: Op) -> Sequence[Value]:
    start, size = op.attrs["start"], shape_of(op.result.type)[0]
    b = p.builder(op)
    row = b.arange(start=0, end=ceil_size(size))
    return [b.add(row, b.constant(start, row.type)) if start else row]


@_rule("cat")
def _cat(p: _Padder, op: Op) -> Sequence[Value]:
    axis = op.attrs["axis"]
    b = p.builder(op)
    lhs, rhs = p.values(op.operands)
    shape = ceil_shape(shape_of(op.result.type))
    left = shape_of(op.operands[0].type)[axis]
    at = _coordinate(b, shape, axis)
    border = b.constant(left, at.type)
    first = _gathered(b, lhs, at, axis)
    second = _gathered(b, rhs, b.sub(at, border), axis)
    return [b.select(b.cmp(at, border, pred="lt"), first, second)]


def _gathered(b: Builder, x: Value, index: Value, axis: int) -> Value:
    made: Value = b.gather(x, index, axis=axis)
    return made


@_rule("slice")
def _slice(p: _Padder, op: Op) -> Sequence[Value]:
    """One axis after the other: the elements that were added repeat one that exists."""
    b = p.builder(op)
    x = p.value(op.operands[0])
    a = op.attrs
    for axis, (start, step, size) in enumerate(zip(a["starts"], a["steps"], a["shape"])):
        old = shape_of(x.type)
        shape = (*old[:axis], ceil_size(size), *old[axis + 1 :])
        if start == 0 and step == 1 and shape == old:
            continue
        at = _coordinate(b, shape, axis)
        at = b.mul(at, b.constant(step, at.type))
        x = _gathered(b, x, b.add(at, b.constant(start, at.type)), axis)
    return [x]


@_rule("gather")
def _gather(p: _Padder, op: Op) -> Sequence[Value]:
    x, index = p.values(op.operands)
    axis = op.attrs["axis"]
    b = p.builder(op)
    size, e = shape_of(op.operands[0].type)[axis], elem_of(index.type)
    assert isinstance(e, DType)
    if ceil_size(size) != size and size - 1 <= e.max_value:
        index = b.min(index, b.constant(size - 1, index.type))
    return [_gathered(b, x, index, axis)]


@_rule("flip")
def _flip(p: _Padder, op: Op) -> Sequence[Value] | None:
    axis, shape = op.attrs["axis"], shape_of(op.operands[0].type)
    if ceil_size(shape[axis]) == shape[axis]:
        return None
    b = p.builder(op)
    at = _coordinate(b, ceil_shape(shape), axis)
    last = b.constant(shape[axis] - 1, at.type)
    return [_gathered(b, p.value(op.operands[0]), b.sub(last, at), axis)]


@_rule("sort")
def _sort(p: _Padder, op: Op) -> Sequence[Value] | None:
    """What is added to a row is said to the lowering, which keeps it at the end."""
    size = shape_of(op.operands[0].type)[op.attrs["axis"]]
    if ceil_size(size) == size:
        return None
    return _with_attrs(p, op, p.values(op.operands), op.segments, bound=size).results


@_rule("histogram")
def _histogram(p: _Padder, op: Op) -> Sequence[Value] | None:
    b = p.builder(op)
    mask, x = op.operand("mask"), op.operands[0]
    if not is_padded(x):
        return None
    inside = _inside(b, shape_of(x.type))
    if mask is not None:
        inside = b.and_(p.value(mask), inside)
    return _with_attrs(p, op, (p.value(x), inside), (1, 1)).results


def _with_attrs(p: _Padder, op: Op, operands: Sequence[Value], segments: Sequence[int],
                **more: object) -> Op:
    """The op with padded results, and attributes that the lowering knows."""
    types = [padded_type(r.type) for r in op.results]
    new = Op(op.opdef, operands, tuple(segments), {**op.attrs, **more}, (), types, op.loc)
    p.out.append(new)
    return new


@_rule("reshape")
def _reshape(p: _Padder, op: Op) -> Sequence[Value]:
    """Through a flat tile, unless only axes of size 1 come and go."""
    b = p.builder(op)
    x = p.value(op.operands[0])
    old, new = shape_of(op.operands[0].type), tuple(op.attrs["shape"])
    target = ceil_shape(new)
    if [n for n in old if n != 1] == [n for n in new if n != 1]:
        return [b.reshape(x, shape=target)]
    source = op.operands[0].owner
    number: Value | None = None  # of the element in row-major order, as the sizes are
    for axis, stride in enumerate(_strides(new)):
        at = _coordinate(b, target, axis)
        term = b.mul(at, b.constant(stride, at.type))
        number = term if number is None else b.add(number, term)
    if number is None:
        number = b.constant(0, Tile(target, i32))
    if source is not None and source.name == "arange" and elem_of(x.type) is i32:
        return [b.add(number, b.constant(source.attrs["start"], number.type))]
    place: Value | None = None
    for size, stride, step in zip(old, _strides(old), _strides(ceil_shape(old))):
        if size <= 1:
            continue
        at = b.div(number, b.constant(stride, number.type))
        at = b.rem(at, b.constant(size, at.type))
        term = b.mul(at, b.constant(step, at.type))
        place = term if place is None else b.add(place, term)
    if place is None:
        place = b.constant(0, Tile(target, i32))
    flat = b.reshape(x, shape=(_product(ceil_shape(old)),))
    picked = _gathered(b, flat, b.reshape(place, shape=(_product(target),)), 0)
    return [b.reshape(picked, shape=target)]


def _product(shape: Sequence[int]) -> int:
    out = 1
    for n in shape:
        out *= n
    return out


def _strides(shape: Sequence[int]) -> list[int]:
    return [_product(shape[axis + 1 :]) for axis in range(len(shape))]


# -- the rest


@_rule("assert")
def _assert(p: _Padder, op: Op) -> Sequence[Value]:
    b = p.builder(op)
    cond, mask = op.operands[0], op.operand("mask")
    inside = _inside(b, shape_of(cond.type))
    if mask is not None:
        inside = b.and_(p.value(mask), inside)
    b.create("assert", p.value(cond), mask=inside, **op.attrs)
    return []


@_rule("print")
def _print(p: _Padder, op: Op) -> Sequence[Value]:
    """What may be printed is said by an attribute that the lowering knows."""
    bounds = [shape_of(v.type) for v in op.operands]
    _with_attrs(p, op, p.values(op.operands), op.segments, bounds=bounds)
    return []
