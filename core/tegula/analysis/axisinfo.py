"""Axis information: how the integers and pointers of a tile run along each of its axes.

For each axis of a tile (a scalar has one axis of size 1):

- *contiguity* c: the values come in runs of c, starting at multiples of c, that go up by 1 (for
  pointers: by one element);
- *constancy* c: the values come in runs of c, starting at multiples of c, that are equal;
- *divisibility* d: the first value of each contiguous run is a multiple of d, a power of two (for
  pointers: in bytes).

Contiguity is meant modulo the width of the type; a run whose start is divisible by its length does
not wrap.  Truncating division and remainder keep structure only where the dividend is not negative;
with `indices=True` the analysis takes that for granted of what is not moved below zero, as indices
into a buffer are not. What then is known of other values, masks above all, may be wrong; `exact`
does without.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import gcd

from tegula.ir.core import Block, Function, Op, Value
from tegula.ir.types import Descriptor, DType, Pointer, Tile, Type, elem_of, shape_of

from .ranges import Ranges, UsualRanges

LARGEST = 1 << 30  # divisibility of zero


@dataclass(frozen=True)
class AxisInfo:
    """What is known of one value, per axis; and the number it always is, if known."""

    contiguity: tuple[int, ...]
    divisibility: tuple[int, ...]
    constancy: tuple[int, ...]
    constant: int | None = None

    @property
    def rank(self) -> int:
        return len(self.contiguity)

    def every(self) -> int:
        """A power of two that divides every value."""
        plain = [d for d, c in zip(self.divisibility, self.contiguity) if c == 1]
        return max(plain, default=1)

    def first(self, axis: int, run: int, unit: int = 1) -> int:
        """A power of two that divides each value whose position on the axis is a multiple of `run`;
        neighbours in a contiguous run differ by `unit`."""
        length = self.contiguity[axis]
        if run % length == 0:
            return self.divisibility[axis]
        return min(self.divisibility[axis], power_of_two(gcd(run, length)) * unit)


def power_of_two(number: int) -> int:
    """The largest power of two that divides the number."""
    return min(number & -number, LARGEST) if number else LARGEST


def _axes(t: Type) -> tuple[int, ...]:
    return shape_of(t) or (1,)


def unknown(t: Type) -> AxisInfo:
    """Nothing is known."""
    ones = (1,) * len(_axes(t))
    return AxisInfo(ones, ones, ones)


def joined(a: AxisInfo, b: AxisInfo) -> AxisInfo:
    """What holds for both."""
    return AxisInfo(
        tuple(map(gcd, a.contiguity, b.contiguity)),
        tuple(
            min(a.first(i, run), b.first(i, run))
            for i, run in enumerate(map(gcd, a.contiguity, b.contiguity))
        ),
        tuple(map(gcd, a.constancy, b.constancy)),
        a.constant if a.constant == b.constant else None,
    )


class AxisInfos:
    """Axis information of all values of a function, found once.

    `of(value)` is never None; floats and descriptors have only their constancy, or nothing.
    """

    def __init__(self, function: Function, indices: bool = False) -> None:
        self.indices = indices
        self._function = function
        self._assumes = False
        self._known: dict[Value, AxisInfo] = {}
        self._counters: dict[Value, Op] = {}
        self._ranges, self._usual = Ranges(self._counters), UsualRanges(self._counters)
        for arg, attrs in zip(function.body.args, function.arg_attrs):
            info = unknown(arg.type)
            divisor = power_of_two(int(attrs.get("divisible", 1)))
            self._known[arg] = AxisInfo(
                info.contiguity, (divisor,) * info.rank, info.constancy, attrs.get("value")
            )
        self._block(function.body)

    def of(self, value: Value) -> AxisInfo:
        """What is known of the value."""
        found = self._known.get(value)
        return unknown(value.type) if found is None else found

    def vector_length(self, pointer: Value, mask: Value | None = None, axis: int = -1) -> int:
        """How many elements along the axis one aligned access may take at once."""
        info = self.of(pointer)
        size = _unit(pointer.type)
        axis %= info.rank
        length = gcd(info.contiguity[axis], max(1, info.divisibility[axis] // size))
        return length if mask is None else gcd(length, self.exact.of(mask).constancy[axis])

    @cached_property
    def exact(self) -> AxisInfos:
        """What holds for every value, whether it is an index or not."""
        return AxisInfos(self._function) if self._assumes else self

    def not_negative(self, value: Value) -> bool:
        """The value is 0 or more, or may be taken to be."""
        if self._ranges.of(value)[0] >= 0:
            return True
        if not self.indices or self._usual.of(value)[0] < 0:
            return False
        self._assumes = True
        return True

    # -- the walk

    def _block(self, block: Block) -> None:
        for op in block.ops:
            if op.regions:
                self._region_op(op)
                continue
            rule = _RULES.get(op.opdef.name)
            if rule is not None:
                for result in op.results:
                    self._known[result] = rule(self, op)
            elif op.opdef.elementwise and op.results:
                self._known[op.results[0]] = self.only_constancy(op)

    def only_constancy(self, op: Op) -> AxisInfo:
        """Equal operands give equal results."""
        infos = [self.of(v) for v in op.operands]
        ones = (1,) * infos[0].rank
        return AxisInfo(ones, ones, _common(*(i.constancy for i in infos)))

    def _region_op(self, op: Op) -> None:
        name = op.opdef.name
        if name == "if":
            for region in op.regions:
                self._block(region)
            ends = [r.terminator.operands for r in op.regions]
            for result, a, b in zip(op.results, *ends):
                self._known[result] = joined(self.of(a), self.of(b))
        elif name in ("for", "while"):
            self._loop(op)
        else:
            for region in op.regions:
                self._block(region)

    def _loop(self, op: Op) -> None:
        """Assume of carried values what holds of their inits until a turn disproves it."""
        entry = [self.of(v) for v in op.group("inits")]
        if op.opdef.name == "for":
            counter = op.regions[0].args[0]
            self._counters[counter] = op
            lb, _, step = (self.of(v) for v in op.operands[:3])
            self._known[counter] = AxisInfo(
                (1,), (min(lb.every(), step.every()),), (1,), None
            )  # fmt: skip
        while True:
            leave = entry
            for region in op.regions:
                for arg, info in zip(region.args[len(region.args) - len(leave) :], leave):
                    self._known[arg] = info
                self._block(region)
                if region is not op.regions[-1]:
                    leave = [self.of(v) for v in region.terminator.operands[1:]]
            back = [self.of(v) for v in op.regions[-1].terminator.operands]
            merged = [joined(a, b) for a, b in zip(entry, back)]
            if merged == entry:
                break
            entry = merged
        for result, info in zip(op.results, leave):
            self._known[result] = info


def _unit(t: Type) -> int:
    """What neighbours of a contiguous run differ by: 1, for pointers the bytes of an element."""
    elem = elem_of(t) if not isinstance(t, Descriptor) else None
    return elem.elem.itemsize if isinstance(elem, Pointer) else 1


def _common(*sizes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(gcd(*s) for s in zip(*sizes))


Rule = Callable[[AxisInfos, Op], AxisInfo]


# -- making tiles


def _constant(a: AxisInfos, op: Op) -> AxisInfo:
    axes = _axes(op.results[0].type)
    ones = (1,) * len(axes)
    value = op.attrs["value"]
    if isinstance(value, float):
        return AxisInfo(ones, ones, axes)
    return AxisInfo(ones, (power_of_two(value),) * len(axes), axes, value)


def _arange(a: AxisInfos, op: Op) -> AxisInfo:
    start, end = op.attrs["start"], op.attrs["end"]
    return AxisInfo((max(1, end - start),), (power_of_two(start),), (1,))


def _splat(a: AxisInfos, op: Op) -> AxisInfo:
    info, axes = a.of(op.operands[0]), _axes(op.results[0].type)
    return AxisInfo((1,) * len(axes), (info.every(),) * len(axes), axes, info.constant)


def _expand_dims(a: AxisInfos, op: Op) -> AxisInfo:
    info, axis = a.of(op.operands[0]), op.attrs["axis"]

    def inserted(values: tuple[int, ...], new: int) -> tuple[int, ...]:
        return (*values[:axis], new, *values[axis:])

    return AxisInfo(
        inserted(info.contiguity, 1),
        inserted(info.divisibility, info.every()),
        inserted(info.constancy, 1),
        info.constant,
    )


def _broadcast(a: AxisInfos, op: Op) -> AxisInfo:
    info, old = a.of(op.operands[0]), shape_of(op.operands[0].type)
    new = shape_of(op.results[0].type)
    stretched = tuple(n if o == 1 else c for o, n, c in zip(old, new, info.constancy))
    return AxisInfo(info.contiguity, info.divisibility, stretched, info.constant)


def _permute(a: AxisInfos, op: Op) -> AxisInfo:
    info, dims = a.of(op.operands[0]), op.attrs["dims"]

    def moved(values: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(values[d] for d in dims)

    return AxisInfo(
        moved(info.contiguity), moved(info.divisibility), moved(info.constancy), info.constant
    )


def _reshape(a: AxisInfos, op: Op) -> AxisInfo:
    """Rows cut from a vector keep its runs as far as they fit; other shapes keep little."""
    info, old, new = a.of(op.operands[0]), _axes(op.operands[0].type), _axes(op.results[0].type)
    every = info.every()
    ones = (1,) * len(new)
    if info.constant is not None:
        return AxisInfo(ones, (every,) * len(new), new, info.constant)
    if old[-1] == new[-1] or len(old) == 1:
        run = gcd(info.contiguity[-1], new[-1]) if new[-1] else 1
        first = info.first(len(old) - 1, run, _unit(op.operands[0].type))
        same = gcd(info.constancy[-1], new[-1]) if new[-1] else 1
        return AxisInfo(
            (*ones[1:], run), (*((every,) * (len(new) - 1)), first), (*ones[1:], same)
        )  # fmt: skip
    return AxisInfo(ones, (every,) * len(new), ones)


def _hint(a: AxisInfos, op: Op) -> AxisInfo:
    info, values, kind = a.of(op.operands[0]), op.attrs["values"], op.attrs["kind"]
    values = tuple(values) if isinstance(values, Sequence) else (values,) * info.rank
    if len(values) != info.rank:
        return info
    if kind == "multiple_of":
        better = tuple(max(d, power_of_two(v)) for d, v in zip(info.divisibility, values))
        return AxisInfo(info.contiguity, better, info.constancy, info.constant)
    axes = _axes(op.results[0].type)
    runs = tuple(gcd(v, n) if n else 1 for v, n in zip(values, axes))
    if kind == "max_contiguous":
        longer = tuple(map(max, info.contiguity, runs))
        first = tuple(info.divisibility[i] for i in range(info.rank))
        return AxisInfo(longer, first, info.constancy, info.constant)
    return AxisInfo(
        info.contiguity, info.divisibility, tuple(map(max, info.constancy, runs)), info.constant
    )


# -- arithmetic


def _sum(a: AxisInfos, op: Op, unit: int, negated: bool) -> AxisInfo:
    """Runs of one operand stay where the other is constant."""
    x, y = (a.of(v) for v in op.operands)
    contiguity, divisibility = [], []
    for axis in range(x.rank):
        run = gcd(x.contiguity[axis], y.constancy[axis])
        if not negated:
            run = max(run, gcd(x.constancy[axis], y.contiguity[axis]))
        contiguity.append(run)
        divisibility.append(
            min(x.first(axis, run, unit), min(y.first(axis, run) * unit, LARGEST))
        )  # fmt: skip
    constant = None
    if unit == 1 and x.constant is not None and y.constant is not None and _is_int(op.results[0]):
        constant = _wrapped(x.constant + (-1 if negated else 1) * y.constant, op.results[0])
    return AxisInfo(
        tuple(contiguity), tuple(divisibility), _common(x.constancy, y.constancy), constant
    )


def _add(a: AxisInfos, op: Op) -> AxisInfo:
    if not _is_int(op.results[0]):
        return a.only_constancy(op)
    return _sum(a, op, 1, negated=False)


def _sub(a: AxisInfos, op: Op) -> AxisInfo:
    if not _is_int(op.results[0]):
        return a.only_constancy(op)
    return _sum(a, op, 1, negated=True)


def _addptr(a: AxisInfos, op: Op) -> AxisInfo:
    return _sum(a, op, _unit(op.operands[0].type), negated=False)


def _mul(a: AxisInfos, op: Op) -> AxisInfo:
    x, y = (a.of(v) for v in op.operands)
    if not _is_int(op.results[0]):
        return a.only_constancy(op)
    if y.constant == 1:
        return x
    if x.constant == 1:
        return y
    ones = (1,) * x.rank
    divisor = min(x.every() * y.every(), LARGEST)
    constant = None
    if x.constant is not None and y.constant is not None:
        constant = _wrapped(x.constant * y.constant, op.results[0])
    return AxisInfo(ones, (divisor,) * x.rank, _common(x.constancy, y.constancy), constant)


def _shl(a: AxisInfos, op: Op) -> AxisInfo:
    x, y = (a.of(v) for v in op.operands)
    if y.constant is None or not 0 <= y.constant < 31:
        return a.only_constancy(op)
    divisor = min(x.every() << y.constant, LARGEST)
    return AxisInfo((1,) * x.rank, (divisor,) * x.rank, _common(x.constancy, y.constancy))


def _quotient(x: AxisInfo, by: int, constancy: tuple[int, ...]) -> AxisInfo:
    """x / by, rounded down, for a known positive number."""
    ones = (1,) * x.rank
    if by == 1:
        return x
    runs = []
    for axis in range(x.rank):
        run = gcd(x.contiguity[axis], by) if x.divisibility[axis] % by == 0 else 1
        # within a run that starts at a multiple of `by`, each `by` neighbours have one quotient
        runs.append(max(constancy[axis], run))
    divisor = x.every() // by if x.every() % by == 0 else 1
    return AxisInfo(ones, (max(1, divisor),) * x.rank, tuple(runs))


def _div(a: AxisInfos, op: Op) -> AxisInfo:
    x, y = (a.of(v) for v in op.operands)
    if not _is_int(op.results[0]):
        return a.only_constancy(op)
    if y.constant is None or y.constant <= 0 or not a.not_negative(op.operands[0]):
        return a.only_constancy(op)
    return _quotient(x, y.constant, _common(x.constancy, y.constancy))


def _shr(a: AxisInfos, op: Op) -> AxisInfo:
    x, y = (a.of(v) for v in op.operands)
    if y.constant is None or not 0 <= y.constant < 31:
        return a.only_constancy(op)
    return _quotient(x, 1 << y.constant, _common(x.constancy, y.constancy))


def _modulo(x: AxisInfo, y: AxisInfo, constancy: tuple[int, ...]) -> AxisInfo:
    """x modulo y: aligned runs that divide y do not cross one of its multiples."""
    contiguity, divisibility = [], []
    for axis in range(x.rank):
        run = gcd(x.contiguity[axis], x.divisibility[axis], y.every(), y.constancy[axis])
        contiguity.append(run)
        divisibility.append(min(x.first(axis, run), y.every()))
    return AxisInfo(tuple(contiguity), tuple(divisibility), constancy)


def _rem(a: AxisInfos, op: Op) -> AxisInfo:
    x, y = (a.of(v) for v in op.operands)
    if not _is_int(op.results[0]) or not a.not_negative(op.operands[0]):
        return a.only_constancy(op)
    return _modulo(x, y, _common(x.constancy, y.constancy))


def _and(a: AxisInfos, op: Op) -> AxisInfo:
    x, y = (a.of(v) for v in op.operands)
    number = y.constant
    if number is not None and number > 0 and number & (number + 1) == 0:
        size = power_of_two(number + 1)
        mask = AxisInfo(y.contiguity, (size,) * y.rank, y.constancy, number + 1)
        return _modulo(x, mask, _common(x.constancy, y.constancy))
    return a.only_constancy(op)


def _extreme(a: AxisInfos, op: Op) -> AxisInfo:
    x, y = (a.of(v) for v in op.operands)
    if not _is_int(op.results[0]):
        return a.only_constancy(op)
    ones = (1,) * x.rank
    divisor = min(x.every(), y.every())
    return AxisInfo(ones, (divisor,) * x.rank, _common(x.constancy, y.constancy))


def _cmp(a: AxisInfos, op: Op) -> AxisInfo:
    """A run compared with a multiple of its length has one answer."""
    x, y = (a.of(v) for v in op.operands)
    pred = op.attrs["pred"]
    constancy = list(_common(x.constancy, y.constancy))
    run, limit = (x, y) if pred in ("lt", "ge") else (y, x)
    if pred in ("lt", "ge", "gt", "le") and _is_int(op.operands[0]):
        for axis in range(x.rank):
            length = gcd(
                run.contiguity[axis], run.divisibility[axis], limit.every(), limit.constancy[axis]
            )
            constancy[axis] = max(constancy[axis], length)
    ones = (1,) * x.rank
    return AxisInfo(ones, ones, tuple(constancy))


def _select(a: AxisInfos, op: Op) -> AxisInfo:
    c, x, y = (a.of(v) for v in op.operands)
    runs = _common(c.constancy, x.contiguity, y.contiguity)
    unit = _unit(op.results[0].type)
    divisibility = tuple(
        min(x.first(i, r, unit), y.first(i, r, unit)) for i, r in enumerate(runs)
    )  # fmt: skip
    return AxisInfo(runs, divisibility, _common(c.constancy, x.constancy, y.constancy))


def _cast(a: AxisInfos, op: Op) -> AxisInfo:
    info = a.of(op.operands[0])
    source, to = elem_of(op.operands[0].type), op.attrs["to"]
    if not (isinstance(source, DType) and isinstance(to, DType) and source.is_int and to.is_int):
        return a.only_constancy(op)
    if to.bits == 1 or source.bits == 1 or to.bits < 32 or source.bits < 32:
        return a.only_constancy(op)
    constant = info.constant if info.constant is None else _wrapped(info.constant, op.results[0])
    if to.bits > source.bits:  # a run that wraps in the narrow type jumps in the wide one
        safe = tuple(gcd(c, d) for c, d in zip(info.contiguity, info.divisibility))
        runs = info.contiguity if a.indices else safe
        first = tuple(info.first(i, r) for i, r in enumerate(runs))
        return AxisInfo(runs, first, info.constancy, constant)
    return AxisInfo(info.contiguity, info.divisibility, info.constancy, constant)


def _load(a: AxisInfos, op: Op) -> AxisInfo:
    return a.only_constancy(op)


def _is_int(value: Value) -> bool:
    t = value.type
    elem = t.elem if isinstance(t, Tile) else t
    return isinstance(elem, DType) and elem.is_int and elem.bits > 1


def _wrapped(number: int, value: Value) -> int:
    elem = elem_of(value.type)
    assert isinstance(elem, DType)
    number &= (1 << elem.bits) - 1
    return number - (1 << elem.bits) if elem.is_signed and number > elem.max_value else number


_RULES: dict[str, Rule] = {
    "constant": _constant,
    "arange": _arange,
    "splat": _splat,
    "expand_dims": _expand_dims,
    "broadcast": _broadcast,
    "permute": _permute,
    "reshape": _reshape,
    "hint": _hint,
    "add": _add,
    "sub": _sub,
    "addptr": _addptr,
    "mul": _mul,
    "shl": _shl,
    "div": _div,
    "shr": _shr,
    "rem": _rem,
    "and": _and,
    "min": _extreme,
    "max": _extreme,
    "cmp": _cmp,
    "select": _select,
    "cast": _cast,
    "load": _load,
}
