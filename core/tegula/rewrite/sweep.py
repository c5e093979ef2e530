"""A walk over a function that builds the next one and shares whatever stays the same.

The IR is immutable to passes, so an op whose operands and regions did not change is used again as
it is: a sweep costs little more than the ops it changes, and "nothing changed" is an identity test.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tegula.ir.core import Block, Function, Op, Value


def derived(
    op: Op,
    operands: Sequence[Value],
    regions: Sequence[Block] | None = None,
    segments: tuple[int, ...] | None = None,
) -> Op:
    """The op on other operands or regions, with results of the same types and names."""
    new = Op(
        op.opdef,
        operands,
        op.segments if segments is None else segments,
        op.attrs,
        op.regions if regions is None else regions,
        [r.type for r in op.results],
        op.loc,
    )
    for old, fresh in zip(op.results, new.results):
        fresh.name = old.name
    return new


class Sweep:
    """Visits ops in order; `map` says what stands for a replaced value, `out` is being filled."""

    def __init__(self) -> None:
        self.map: dict[Value, Value] = {}
        self.out: list[Op] = []

    def sweep(self, function: Function) -> Function:
        """The swept function; the same object if nothing changed."""
        body = self.sweep_block(function.body)
        return function if body is function.body else function.with_body(body)

    def sweep_block(self, block: Block) -> Block:
        """The swept block; the same object if nothing changed."""
        saved, self.out = self.out, []
        for op in block.ops:
            self.visit(op)
        out, self.out = self.out, saved
        if len(out) == len(block.ops) and all(map(_is, out, block.ops)):
            return block
        return Block(block.args, out)

    def visit(self, op: Op) -> None:
        """Handle one op.  Subclasses decide here; the default keeps it."""
        self.keep(op, self.current(op))

    def current(self, op: Op) -> Op:
        """The op on the values that now stand for its operands, its regions swept."""
        get = self.map.get
        operands = op.operands
        changed = False
        for v in operands:
            if v in self.map:
                operands = tuple([get(v, v) for v in operands])
                changed = True
                break
        if not op.regions:
            return derived(op, operands) if changed else op
        regions = tuple([self.sweep_block(r) for r in op.regions])
        if changed or not all(map(_is, regions, op.regions)):
            return derived(op, operands, regions)
        return op

    def keep(self, op: Op, new: Op) -> None:
        """Put `new` out in place of `op`."""
        self.out.append(new)
        if new is not op:
            self.replace(op, new.results)

    def replace(self, op: Op, values: Iterable[Value]) -> None:
        """Let the values stand for the op's results."""
        for old, value in zip(op.results, values, strict=True):
            if value is not old:
                self.map[old] = value

    def value(self, v: Value) -> Value:
        """What stands for a value now."""
        return self.map.get(v, v)


def _is(a: object, b: object) -> bool:
    return a is b
