"""Kernels with a body for the usual case: no index wraps around, and masks hold everywhere.

Where warps are vectors, compilers take neighbouring indices for neighbours in memory before they
wrap around at 32 bits, which is wrong if they do. So intervals of all indices are computed before
the body, in 64 bits. If nothing wraps, the body runs as it is, and without masks that the intervals
decide; otherwise it runs in a form in which compilers see no neighbours, which is slow. Kernels
whose intervals cannot be known beforehand have that form only.
"""

from __future__ import annotations

from math import prod
from typing import Any

from tegula.analysis.alias import is_pure
from tegula.ir.builder import Builder
from tegula.ir.core import Block, Cloner, Function, Op, Value
from tegula.ir.patterns import constant_value
from tegula.ir.types import DType, elem_of, i1, i64, shape_of

CAREFUL = "careful"
"""The attribute of kernels that have the slow form only."""
WHOLE = "whole"
"""The attribute of the branch between both forms."""

Range = tuple[Value, Value]
_HOLDS = {"lt": (1, "lt", 0), "le": (1, "le", 0), "gt": (0, "gt", 1), "ge": (0, "ge", 1)}
"""For each comparison the ends of both intervals that decide it."""
_MOVES = frozenset({"splat", "broadcast", "expand_dims", "permute", "reshape", "hint"})
_SUMS = frozenset({"add", "sub", "mul"})
_ONCE = frozenset({"reduce", "scan", "map"})
"""Ops whose regions do not make a body long."""


class Unknown(Exception):
    """The interval depends on what is not known before the body."""


class Crooked(Exception):
    """The value does not grow steadily, so no compiler takes it for neighbours."""


def split_whole(function: Function, smallest: int) -> Function:
    """The kernel with both forms where it needs them. Masks of tiles of at least `smallest`
    elements are left out of the usual one."""
    ops = list(function.body.walk())
    head = _Head(ops)
    masks: set[Value] = set()
    try:
        head.watch(ops)
        if any(op.name == "dot" for op in ops) and head.conditions:
            raise Unknown
        if not any(op.regions and op.name not in _ONCE for op in ops):
            masks = head.decide(ops, smallest)
    except Unknown:
        attrs = {**function.attrs, CAREFUL: True}
        return Function(function.name, function.body, function.result_types, function.kind,
                        function.arg_attrs, attrs)
    if not head.conditions:
        return function
    return function.with_body(_both(function.body, head, masks))


class _Head:
    """Intervals, computed before the body in terms of its parameters."""

    def __init__(self, ops: list[Op]) -> None:
        self.block = Block([])
        self.b = Builder(self.block)
        self.loops = {op.regions[0].args[0]: op for op in ops if op.name == "for"}
        self.known: dict[Value, Range] = {}
        self.early: dict[Value, Value] = {}
        self.conditions: list[Value] = []

    def watch(self, ops: list[Op]) -> None:
        """Note the conditions under which no index wraps that is extended to more bits."""
        for op in ops:
            if op.name == "addptr":
                index = op.operands[1]
            elif op.name == "cast" and isinstance(op.attrs["to"], DType) and op.attrs["to"].is_int:
                index = op.operands[0]
            else:
                continue
            e = elem_of(index.type)
            if shape_of(index.type) and isinstance(e, DType) and e.is_int and 1 < e.bits < 64:
                try:
                    self.range(index)
                except Crooked:
                    continue

    def decide(self, ops: list[Op], smallest: int) -> set[Value]:
        """Masks that hold everywhere under further conditions, which are noted."""
        out: set[Value] = set()
        for op in ops:
            mask = op.operand("mask") if op.name in ("load", "store") else None
            if mask is None or mask in out or prod(shape_of(mask.type)) < smallest:
                continue
            before = len(self.conditions)
            try:
                self._holds(mask)
                out.add(mask)
            except (Crooked, Unknown):
                del self.conditions[before:]
        return out

    def _holds(self, mask: Value) -> None:
        op = mask.owner
        if op is None:
            raise Unknown
        if op.name == "and" and elem_of(mask.type) is i1:
            for v in op.operands:
                self._holds(v)
        elif op.name in _MOVES:
            self._holds(op.operands[0])
        elif op.name == "cmp" and op.attrs["pred"] in _HOLDS:
            left, pred, right = _HOLDS[op.attrs["pred"]]
            a, b = (self.range(v) for v in op.operands)
            self.conditions.append(self.b.cmp(a[left], b[right], pred=pred))
        else:
            raise Crooked

    # -- intervals

    def range(self, v: Value) -> Range:
        """The least and the largest element, as i64, if no part of it wraps around."""
        found = self.known.get(v)
        if found is None:
            found = self.known[v] = self._range(v)
        return found

    def _range(self, v: Value) -> Range:
        op, e = v.owner, elem_of(v.type)
        if not isinstance(e, DType) or not e.is_int or e.bits == 1:
            raise Crooked
        if not shape_of(v.type):
            return self._scalar(v)
        if op is None:
            raise Unknown
        if op.name == "constant":
            return (self._number(op.attrs["value"]),) * 2
        if op.name == "arange":
            return self._number(op.attrs["start"]), self._number(op.attrs["end"] - 1)
        if op.name in _MOVES or (op.name == "cast" and self._widens(op)):
            return self.range(op.operands[0])
        if op.name in _SUMS:
            return self._sum(op, e)
        raise Crooked

    @staticmethod
    def _widens(op: Op) -> bool:
        source, to = elem_of(op.operands[0].type), op.attrs["to"]
        if not (isinstance(source, DType) and isinstance(to, DType)):
            return False
        return source.is_int and to.is_int and to.bits > source.bits > 1

    def _scalar(self, v: Value) -> Range:
        loop = self.loops.get(v)
        if loop is not None:
            step = constant_value(loop.operands[2])
            if step is None or step <= 0:
                raise Unknown
            return self.range(loop.operands[0])[0], self.range(loop.operands[1])[1]
        try:
            x = self._before(v)
        except Unknown:
            op, e = v.owner, elem_of(v.type)
            if op is None or op.name not in _SUMS or not isinstance(e, DType):
                raise
            return self._sum(op, e)
        wide = x if x.type is i64 else self.b.cast(x, to=i64)
        return wide, wide

    def _before(self, v: Value) -> Value:
        """A scalar, computed before the body."""
        op = v.owner
        if op is None:
            if v in self.loops:
                raise Unknown
            return v  # a parameter, or what the caller finds out not to be one
        found = self.early.get(v)
        if found is None:
            if op.regions or not is_pure(op) or any(shape_of(x.type) for x in op.operands):
                raise Unknown
            xs = [self._before(x) for x in op.operands]
            made = Op(op.opdef, xs, op.segments, op.attrs, (), [r.type for r in op.results], op.loc)
            self.block.ops.append(made)
            self.early.update(zip(op.results, made.results))
            found = self.early[v]
        return found

    def _number(self, n: int) -> Value:
        return self.b.constant(int(n), i64)

    def _sum(self, op: Op, e: DType) -> Range:
        a, b = (self.range(v) for v in op.operands)
        if e.bits == 64:
            raise Crooked  # nothing is extended, and nothing can be checked
        make = self.b
        if op.name == "mul":
            every = [make.mul(x, y) for x in dict.fromkeys(a) for y in dict.fromkeys(b)]
            low = high = every[0]
            for x in every[1:]:
                # Not by min and max: compilers may lose there that all lanes agree.
                low = make.select(make.cmp(x, low, pred="lt"), x, low)
                high = make.select(make.cmp(x, high, pred="gt"), x, high)
        elif op.name == "add":
            low, high = make.add(a[0], b[0]), make.add(a[1], b[1])
        else:
            low, high = make.sub(a[0], b[1]), make.sub(a[1], b[0])
        least = -(1 << e.bits - 1) if e.is_signed else 0
        most = (1 << e.bits - e.is_signed) - 1
        self.conditions += [make.cmp(low, self._number(least), pred="ge"),
                            make.cmp(high, self._number(most), pred="le")]
        return low, high


def _both(body: Block, head: _Head, masks: set[Value]) -> Block:
    """The head, and a branch with both forms."""
    new = Block([a.type for a in body.args])
    for old, fresh in zip(body.args, new.args):
        fresh.name = old.name
    params = dict(zip(body.args, new.args))
    front = Cloner()
    front.map.update(params)
    front.out = new.ops
    front.ops(head.block.ops)
    *ops, end = body.ops

    def without_masks(op: Op, cloner: Cloner) -> tuple[Value, ...] | None:
        if op.name not in ("load", "store") or op.operand("mask") not in masks:
            return None
        operands = cloner.values(op.operands[: 1 if op.name == "load" else 2])
        segments = (*(1 for _ in operands), *(0 for _ in op.segments[len(operands) :]))
        fresh = Op(op.opdef, operands, segments, op.attrs, (), [r.type for r in op.results], op.loc)
        cloner.out.append(fresh)
        return tuple(fresh.results)

    forms = []
    b = Builder(new)
    for hook in (without_masks, None):
        form, cloner = Block([]), Cloner(hook)
        cloner.map.update(params)
        cloner.out = form.ops
        cloner.ops(ops)
        with b.at(form):
            b.create("yield", [])
        forms.append(form)
    whole, *rest = (front.value(v) for v in dict.fromkeys(head.conditions))
    for more in rest:
        whole = b.and_(whole, more)
    b.if_(whole, *forms)
    new.ops[-1].attrs = {**new.ops[-1].attrs, WHOLE: True}
    last: dict[str, Any] = dict(end.attrs)
    new.ops.append(Op(end.opdef, (), (), last, (), (), end.loc))
    return new
