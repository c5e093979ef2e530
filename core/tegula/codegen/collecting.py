"""The pass `expand-collect`: sorting, picking and counting by comparisons and selects.

It serves backends that have no code of their own for these ops. A sort becomes a bitonic network on
rows padded to a power of two, a gather and a histogram become reductions over all pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from tegula.ir.builder import Builder
from tegula.ir.core import Block, Cloner, Function, Op, Value
from tegula.ir.types import (
    DTYPES,
    DType,
    Pointer,
    Tile,
    elem_of,
    i1,
    i32,
    i64,
    shape_of,
    u64,
    with_elem,
)
from tegula.passes.base import Pass, PassContext


@dataclass(frozen=True)
class ExpandCollect(Pass):
    """Replace flip, gather, sort and histogram by ops that every machine has.

    Before:
        kernel @k(%p: ptr<i32>[4], %x: i32[4]) {
          %0 = flip %x {axis = 0} : i32[4]
          store %p, %0
          return
        }
    After:
        kernel @k(%p: ptr<i32>[4], %x: i32[4]) {
          %0 = slice %x {starts = [3], steps = [-1], shape = [4]} : i32[4]
          store %p, %0
          return
        }
    """

    name = "expand-collect"
    native: str | Iterable[str] = ""
    """Ops that the backend keeps, as a list or as words."""

    def __post_init__(self) -> None:
        words = self.native.split() if isinstance(self.native, str) else list(self.native)
        for word in words:
            if word not in FORMULAS:
                raise ValueError(
                    f"expand-collect: native names {word!r}, which it would not expand; it "
                    f"expands {', '.join(FORMULAS)}"
                )
        object.__setattr__(self, "native", " ".join(words))

    def run_function(self, function: Function, ctx: PassContext) -> Function:
        assert isinstance(self.native, str)
        expanded = FORMULAS.keys() - set(self.native.split())
        if not any(op.name in expanded for op in function.body.walk()):
            return function

        def hook(op: Op, cloner: Cloner) -> Sequence[Value] | None:
            if op.name not in expanded:
                return None
            block = Block()
            made = FORMULAS[op.name](Builder(block, op.loc), op, cloner.values(op.operands))
            cloner.out.extend(block.ops)
            return made

        return Cloner(hook).function(function)


# -- pieces


def _filled(b: Builder, x: Value, value: int, elem: DType | None = None) -> Value:
    """A constant in the shape of `x`."""
    return b.constant(value, x.type if elem is None else with_elem(x.type, elem))


def _along(b: Builder, shape: tuple[int, ...], axis: int) -> Value:
    """The index of every element along an axis."""
    index = b.arange(start=0, end=shape[axis])
    for d in range(len(shape)):
        if d != axis:
            index = b.expand_dims(index, axis=d)
    result: Value = index if shape_of(index.type) == shape else b.broadcast(index, shape=shape)
    return result


def _combined(b: Builder, x: Value, op: str, axis: int) -> Value:
    """A reduction by one op."""
    elem = elem_of(x.type)
    block = Block([elem, elem])
    inner = Builder(block)
    inner.create("yield", [inner.create(op, *block.args)])
    (result,) = b.reduce([x], block, axis=axis)
    return result


def _bits(b: Builder, x: Value) -> Value:
    """The elements as unsigned integers of their width."""
    elem = elem_of(x.type)
    if isinstance(elem, Pointer):
        pointers: Value = b.cast(x, to=u64)
        return pointers
    if elem is i1:
        bytes_: Value = b.cast(x, to=DTYPES["u8"])
        return bytes_
    to = DTYPES[f"u{elem.bits}"]
    result: Value = x if elem is to else b.bitcast(x, to=to)
    return result


def _from_bits(b: Builder, x: Value, elem: DType | Pointer) -> Value:
    if elem_of(x.type) is elem:
        return x
    by_value = isinstance(elem, Pointer) or elem is i1
    result: Value = b.cast(x, to=elem) if by_value else b.bitcast(x, to=elem)
    return result


# -- formulas


def _flip(b: Builder, op: Op, xs: Sequence[Value]) -> list[Value]:
    (x,) = xs
    shape, axis = shape_of(x.type), op.attrs["axis"]
    starts = [size - 1 if d == axis else 0 for d, size in enumerate(shape)]
    steps = [-1 if d == axis else 1 for d in range(len(shape))]
    if 0 in shape:
        return [x]
    return [b.slice(x, starts=tuple(starts), steps=tuple(steps), shape=shape)]


def _gather(b: Builder, op: Op, xs: Sequence[Value]) -> list[Value]:
    """out[i] = the one x[j] with j == index[i], found as the union of bits."""
    x, index = xs
    axis, source, wanted = op.attrs["axis"], shape_of(x.type), shape_of(index.type)
    if 0 in wanted:
        return [b.constant(0, Tile(wanted, elem_of(x.type)))]
    last = source[axis] - 1
    place = b.cast(index, to=u64 if elem_of(index.type) is u64 else i64)
    place = b.min(place, _filled(b, place, last))
    place = b.cast(b.max(place, _filled(b, place, 0)), to=i32)
    pairs = (*wanted[: axis + 1], source[axis], *wanted[axis + 1 :])
    asked = b.broadcast(b.expand_dims(place, axis=axis + 1), shape=pairs)
    bits = b.broadcast(b.expand_dims(_bits(b, x), axis=axis), shape=pairs)
    same = b.cmp(asked, _along(b, pairs, axis + 1), pred="eq")
    picked = b.select(same, bits, _filled(b, bits, 0))
    return [_from_bits(b, _combined(b, picked, "or", axis + 1), elem_of(x.type))]


def _histogram(b: Builder, op: Op, xs: Sequence[Value]) -> list[Value]:
    x, bins = xs[0], op.attrs["bins"]
    total = 1
    for size in shape_of(x.type):
        total *= size
    if total == 0 or bins == 0:
        return [b.constant(0, Tile((bins,), i32))]
    elem = elem_of(x.type)
    wide = u64 if elem is u64 else i64
    flat = b.expand_dims(b.reshape(b.cast(x, to=wide), shape=(total,)), axis=1)
    pairs = (total, bins)
    value = b.broadcast(flat, shape=pairs)
    bin_ = b.cast(_along(b, pairs, 1), to=wide)
    hit = b.cmp(value, bin_, pred="eq")
    if len(xs) == 2:
        mask = b.expand_dims(b.reshape(xs[1], shape=(total,)), axis=1)
        hit = b.and_(hit, b.broadcast(mask, shape=pairs))
    return [_combined(b, b.cast(hit, to=i32), "add", 0)]


def _sort(b: Builder, op: Op, xs: Sequence[Value]) -> list[Value]:
    """A bitonic network on (order of the key, place), which carries everything along."""
    shape, axis = shape_of(xs[0].type), op.attrs["axis"]
    n = shape[axis]
    if 0 in shape or n == 1:
        return list(xs)
    rank = len(shape)
    dims = (*(d for d in range(rank) if d != axis), axis)
    rows = [b.permute(x, dims=dims) if axis != rank - 1 else x for x in xs]
    size = 1 << (n - 1).bit_length()
    key = _ordered(b, rows[0])
    if op.attrs["descending"]:
        key = b.not_(key)
    top = elem_of(key.type).max_value  # type: ignore[union-attr]
    carried = [_padded(b, key, size, top), *(_padded(b, r, size, 0) for r in rows)]
    place = _along(b, shape_of(carried[0].type), rank - 1)
    carried.insert(1, place)
    run = 2
    while run <= size:
        step = run // 2
        while step:
            carried = _exchanged(b, carried, place, run, step)
            step //= 2
        run *= 2
    outs = []
    for x in carried[2:]:
        whole = shape_of(x.type)
        cut = (*whole[:-1], n)
        x = x if cut == whole else b.slice(x, starts=(0,) * rank, steps=(1,) * rank, shape=cut)
        back = sorted(range(rank), key=lambda d: dims[d])
        outs.append(b.permute(x, dims=tuple(back)) if axis != rank - 1 else x)
    return outs


def _ordered(b: Builder, x: Value) -> Value:
    """Integers in the order of the keys: -0.0 below 0.0, NaN above everything."""
    elem = elem_of(x.type)
    assert isinstance(elem, DType)
    if elem.is_int:
        return x
    to = DTYPES[f"i{elem.bits}"]
    bits = b.bitcast(x, to=to)
    minus = b.cmp(bits, _filled(b, bits, 0), pred="lt")
    turned = b.select(minus, b.xor(bits, _filled(b, bits, to.max_value)), bits)
    nan = b.cmp(x, x, pred="ne")
    result: Value = b.select(nan, _filled(b, turned, to.max_value), turned)
    return result


def _padded(b: Builder, x: Value, size: int, value: int) -> Value:
    """Rows made longer."""
    shape = shape_of(x.type)
    if shape[-1] == size:
        return x
    more = b.constant(value, Tile((*shape[:-1], size - shape[-1]), elem_of(x.type)))
    result: Value = b.cat(x, more, axis=len(shape) - 1)
    return result


def _partner(b: Builder, x: Value, step: int) -> Value:
    """The element `step` away, on the other side of its pair."""
    shape = shape_of(x.type)
    rank = len(shape)
    pairs = (*shape[:-1], shape[-1] // (2 * step), 2, step)
    split = b.reshape(x, shape=pairs)
    starts = (*(0,) * rank, 1, 0)
    steps = (*(1,) * rank, -1, 1)
    turned = b.slice(split, starts=starts, steps=steps, shape=pairs)
    result: Value = b.reshape(turned, shape=shape)
    return result


def _exchanged(
    b: Builder, carried: Sequence[Value], place: Value, run: int, step: int
) -> list[Value]:
    """One stage: each pair ends with the smaller element on the side that its run asks for."""
    others = [_partner(b, x, step) for x in carried]
    (key, index), (key2, index2) = carried[:2], others[:2]
    same = b.and_(b.cmp(key, key2, pred="eq"), b.cmp(index, index2, pred="gt"))
    larger = b.or_(b.cmp(key, key2, pred="gt"), same)
    zero = _filled(b, place, 0)
    rising = b.cmp(b.and_(place, _filled(b, place, run)), zero, pred="eq")
    lower = b.cmp(b.and_(place, _filled(b, place, step)), zero, pred="eq")
    keeps_small = b.cmp(rising, lower, pred="eq")
    swap = b.cmp(keeps_small, larger, pred="eq")
    return [b.select(swap, y, x) for x, y in zip(carried, others, strict=True)]


FORMULAS: dict[str, Callable[[Builder, Op, Sequence[Value]], list[Value]]] = {
    "flip": _flip, "gather": _gather, "histogram": _histogram, "sort": _sort,
}  # fmt: skip
"""Op name -> what computes the same from other ops."""
