"""Algebra of structured control flow."""

from __future__ import annotations

from tegula.ir.core import Block, Op, Value
from tegula.ir.types import Descriptor, Tile
from tegula.rewrite import Rewriter, Rules
from tegula.rewrite.sweep import derived

from .match import constant_of, made_by

control = Rules("control")


@control.rule("if")
def if_known(op: Op, b: Rewriter) -> tuple[Value, ...] | None:
    """if true then A else B == A; if false then A else B == B"""
    truth = constant_of(op.operands[0])
    return None if truth is None else b.splice(op.regions[0 if truth else 1])


@control.rule("if")
def if_not(op: Op, b: Rewriter) -> list[Value] | None:
    """if not(c) then A else B == if c then B else A"""
    inner = made_by(op.operands[0], "not")
    if inner is None:
        return None
    return list(b.put(derived(op, inner.operands, op.regions[::-1])))


@control.rule("if")
def if_chooses_values(op: Op, b: Rewriter) -> tuple[Value, ...] | None:
    """if c then yield x else yield y == select(c, x, y), for scalars and for x == y"""
    then, other = op.regions
    if len(then.ops) != 1 or len(other.ops) != 1:
        return None
    pairs = list(zip(then.terminator.operands, other.terminator.operands))
    if any(isinstance(x.type, (Tile, Descriptor)) and x is not y for x, y in pairs):
        return None
    c = op.operands[0]
    return tuple(x if x is y else b.select(c, x, y) for x, y in pairs)


@control.rule("if")
def if_yields_same(op: Op, b: Rewriter) -> tuple[Value, ...] | None:
    """if c then (A; yield x) else (B; yield x) == x in value, where x comes from outside"""
    then, other = op.regions
    pairs = list(zip(then.terminator.operands, other.terminator.operands))
    same = [x is y for x, y in pairs]
    if not any(same):
        return None
    regions = []
    for region in op.regions:
        kept = [v for v, s in zip(region.terminator.operands, same) if not s]
        regions.append(Block(region.args, [*region.ops[:-1], _yield(region.terminator, kept)]))
    new = Op(
        op.opdef,
        op.operands,
        op.segments,
        op.attrs,
        regions,
        [r.type for r, s in zip(op.results, same) if not s],
        op.loc,
    )
    fresh = iter(b.put(new))
    return tuple(x if s else next(fresh) for (x, _), s in zip(pairs, same))


def _yield(old: Op, values: list[Value]) -> Op:
    return Op(old.opdef, values, (len(values),), old.attrs, (), (), old.loc)


def trip_count(op: Op) -> int | None:
    """How often a `for` runs, where its bounds are constants."""
    lb, ub, step = (constant_of(v) for v in op.operands[:3])
    if step == 0:
        return 0
    if lb is not None and lb == ub:
        return 0
    if op.operands[0] is op.operands[1]:
        return 0
    if lb is None or ub is None or step is None:
        return None
    return len(range(lb, ub, step))


@control.rule("for")
def for_never(op: Op, b: Rewriter) -> tuple[Value, ...] | None:
    """for without a turn == its inits"""
    return op.group("inits") if trip_count(op) == 0 else None


@control.rule("for")
def for_once(op: Op, b: Rewriter) -> tuple[Value, ...] | None:
    """for of one turn == its body at the lower bound"""
    if trip_count(op) != 1:
        return None
    return b.splice(op.regions[0], (op.operands[0], *op.group("inits")))


@control.rule("for")
def for_carries_invariant(op: Op, b: Rewriter) -> tuple[Value, ...] | None:
    """a carried value that each turn yields as it came is its init, inside and after the loop"""
    body, inits = op.regions[0], op.group("inits")
    carried, ends = body.args[1:], body.terminator.operands
    fixed = [end is arg or end is init for arg, end, init in zip(carried, ends, inits)]
    if not any(fixed):
        return None
    for arg, init, f in zip(carried, inits, fixed):
        if f:
            b.map[arg] = init
    kept = [v for v, f in zip(ends, fixed) if not f]
    new_body = Block([body.args[0], *(a for a, f in zip(carried, fixed) if not f)])
    new_body.ops = [*body.ops[:-1], _yield(body.terminator, kept)]
    b.counters[body.args[0]] = op
    new_body = b.sweep_block(new_body)
    new_inits = [v for v, f in zip(inits, fixed) if not f]
    new = Op(
        op.opdef,
        (*op.operands[:3], *new_inits),
        (1, 1, 1, len(new_inits)),
        op.attrs,
        [new_body],
        [v.type for v in new_inits],
        op.loc,
    )
    fresh = iter(b.put(new))
    return tuple(init if f else next(fresh) for init, f in zip(inits, fixed))


@control.rule("while")
def while_never(op: Op, b: Rewriter) -> tuple[Value, ...] | None:
    """while whose flag is false at once == its condition block"""
    before = op.regions[0]
    if constant_of(before.terminator.operands[0]) != 0:
        return None
    return b.splice(before, op.operands)[1:]
