"""Selects whose condition seldom holds: a branch around what only they need."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tegula.codegen.loops.lanes import Lane, Uni, Vec
from tegula.codegen.loops.text import Scope, Val
from tegula.ir.core import Op, Value
from tegula.ir.types import elem_of, i1

if TYPE_CHECKING:
    from tegula.codegen.loops.evaluate import Evaluation, Index


def is_rare(op: Op) -> bool:
    """Whether the op is a select that is worth a branch."""
    return op.name == "select" and bool(op.attrs["unlikely"])


def select(ev: Evaluation, op: Op, index: Index, cond: Lane, usual: Lane) -> Lane:
    """The select's value; the unlikely operand is computed where a lane asks for it."""
    w, unlikely = ev.w, op.operands[1]
    e = elem_of(unlikely.type)
    if isinstance(cond, Uni) and cond.val.const is not None:
        return ev.eval(unlikely, index) if cond.val.const else usual
    uniform = isinstance(cond, Uni) and isinstance(usual, Uni)
    wanted = cond.val if isinstance(cond, Uni) else ev.vec(cond, i1)
    other = usual.val if isinstance(usual, Uni) and uniform else ev.vec(usual, e)
    known = {v: ev.eval(v, index) for v in _inputs(ev, unlikely, index)}
    branch = w.begin_if(_any(ev, wanted), "rare")
    for v, lane in known.items():
        ev.remember_here(v, index, _inside(lane, w.scope))
    lane = ev.eval(unlikely, index)
    value = lane.val if isinstance(lane, Uni) and uniform else ev.vec(lane, e)
    if value.ty != other.ty:  # a vector after all
        other = ev.splat(other)
    (joined,) = w.end_if(branch, [w.select(wanted, value, other)], [other])
    return Uni(joined) if uniform and isinstance(lane, Uni) else Vec(joined)


def _inputs(ev: Evaluation, v: Value, index: Index) -> list[Value]:
    """Where the computation of `v` leaves what is only elementwise and not yet computed."""
    found: list[Value] = []
    seen: set[Value] = set()
    todo = [v]
    while todo:
        x = todo.pop()
        if x in seen:
            continue
        seen.add(x)
        op = x.owner
        if op is not None and op.name == "constant":
            continue
        if op is None or not op.opdef.elementwise or ev.find(x, index) is not None:
            found.append(x)
        elif x in ev.k.env or x in ev.k.homes:
            found.append(x)
        else:
            todo += op.operands
    return found


def _inside(lane: Lane, scope: Scope) -> Lane:
    """The lane as a value of the branch, so that what is computed from it stays in there."""
    if isinstance(lane, Vec) or (isinstance(lane, Uni) and lane.val.const is None):
        return type(lane)(Val(lane.val.text, lane.val.ty, scope, lane.val.const))
    return lane


def _any(ev: Evaluation, wanted: Val) -> Val:
    """Whether a lane is set."""
    if wanted.ty == "i1":
        return wanted
    return ev.w.call(f"llvm.vector.reduce.or.v{ev.n}i1", "i1", wanted)
