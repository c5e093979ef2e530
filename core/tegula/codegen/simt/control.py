"""Loops and branches: every register that is carried becomes a phi.

Bounds and conditions are scalars, which are the same in all threads of a program, so all threads
take the same way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tegula.codegen.loops.lanes import reg_type, signed
from tegula.codegen.loops.text import Scope, Val
from tegula.codegen.simt.registry import lowers
from tegula.codegen.simt.whole import WHOLE
from tegula.ir.core import Op, Value
from tegula.ir.types import elem_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tegula.codegen.simt.kernel import Emitter


def _flat(k: Emitter, values: Sequence[Value]) -> list[Val]:
    return [x for v in values for x in k.regs(v)]


def _bind(k: Emitter, values: Sequence[Value], flat: Sequence[Val]) -> None:
    """Give values their registers from one long list."""
    at = 0
    for v in values:
        n = k.layout(v).registers
        k.set(v, flat[at : at + n])
        at += n


@lowers("for")
def _for(k: Emitter, op: Op) -> None:
    w = k.w
    (body,) = op.regions
    inits = op.group("inits")
    first = _flat(k, inits)
    e = elem_of(op.operands[0].type)
    is_signed = signed(e)
    lb, ub, step = (k.scalar(v) for v in op.operands[:3])
    narrow = reg_type(e) == "i32" and is_signed and step.const is not None and step.const > 0
    if narrow and isinstance(ub.const, int) and ub.const < (1 << 31) - int(step.const or 0):
        ty = "i32"
    else:
        ty = "i64"
    lo, hi, by = (w.resize(x, ty, is_signed) for x in (lb, ub, step))
    counted = by.const is None or by.const <= 0
    start, stride = lo, by
    if counted:
        hi = w.trips(lo, hi, by)
        lo, by = w.const(0, "i64"), w.const(1, "i64")

    def emit(iv: Val, carried: Sequence[Val]) -> list[Val]:
        at = w.add(start, w.mul(iv, stride)) if counted else iv
        k.env[body.args[0]] = w.resize(at, reg_type(e), is_signed)
        _bind(k, body.args[1:], carried)
        return _flat(k, k.block(body))

    if k.simt.loops_tested_first:
        _bind(k, op.results, _tested_first(k, lo, hi, by, first, emit))
        return
    loop = w.begin_loop(lo, hi, by, first, True, "for")
    _bind(k, op.results, w.end_loop(loop, emit(loop.iv, loop.carried)))


def _tested_first(k: Emitter, lo: Val, hi: Val, step: Val, first: list[Val],
                  emit: Callable[[Val, list[Val]], list[Val]]) -> list[Val]:
    """A counted loop whose condition stands at its head; gives the carried values after it."""
    w = k.w
    outer, pre = w.scope, w.scope.block
    head = w.new_block("for")
    pre.term = f"br label %{head.label}"
    w.scope = header = Scope(outer, head)
    iv = Val(w.name(), lo.ty, header)
    carried = [Val(w.name(), x.ty, header) for x in first]
    goes_on = w.here("i1", f"icmp slt {lo.ty} {iv.text}, {hi.text}")
    body = w.new_block("do")
    w.scope = Scope(header, body)
    nexts = emit(iv, carried)
    after = w.here(lo.ty, f"add nsw {lo.ty} {iv.text}, {step.text}")
    latch = w.scope.block
    latch.term = f"br label %{head.label}"
    end = w.new_block("done")
    header.block.term = f"br i1 {goes_on.text}, label %{body.label}, label %{end.label}"
    head.phis = [f"  {c.text} = phi {c.ty} [ {a.text}, %{pre.label} ], "
                 f"[ {b.text}, %{latch.label} ]"
                 for c, a, b in zip([iv, *carried], [lo, *first], [after, *nexts])]
    outer.block = end
    w.scope = outer
    return [Val(c.text, c.ty, outer) for c in carried]


@lowers("while")
def _while(k: Emitter, op: Op) -> None:
    w = k.w
    before, after = op.regions
    first = _flat(k, op.group("inits"))
    outer, pre = w.scope, w.scope.block
    head = w.new_block("while")
    pre.term = f"br label %{head.label}"
    w.scope = Scope(outer, head)
    carried = [Val(w.name(), v.ty, w.scope) for v in first]
    _bind(k, before.args, carried)
    flag, *passed = k.block(before)
    values = _flat(k, passed)
    test, header = w.scope.block, w.scope
    body = w.new_block("do")
    w.scope = Scope(header, body)
    _bind(k, after.args, values)
    nexts = _flat(k, k.block(after))
    latch = w.scope.block
    latch.term = f"br label %{head.label}"
    end = w.new_block("endwhile")
    test.term = f"br i1 {k.scalar(flag).text}, label %{body.label}, label %{end.label}"
    head.phis += [f"  {c.text} = phi {c.ty} [ {a.text}, %{pre.label} ], "
                  f"[ {b.text}, %{latch.label} ]" for c, a, b in zip(carried, first, nexts)]
    outer.block = end
    w.scope = outer
    _bind(k, op.results, [Val(x.text, x.ty, outer, x.const) for x in values])


@lowers("if")
def _if(k: Emitter, op: Op) -> None:
    w = k.w
    branch = w.begin_if(k.scalar(op.operands[0]))
    then = _flat(k, k.block(op.regions[0]))
    w.begin_else(branch)
    if WHOLE in op.attrs:
        k.hidden = k.simt.hidden_lane(w)
    other = _flat(k, k.block(op.regions[1]))
    _bind(k, op.results, w.end_if(branch, then, other))


@lowers("map")
def _map(k: Emitter, op: Op) -> None:
    (body,) = op.regions
    if not op.results:
        return
    count = k.layout(op.results[0]).registers
    columns = [k.regs(v) for v in op.operands]
    rows = [k.apply(body, [c[r] for c in columns]) for r in range(count)]
    for result, regs in zip(op.results, zip(*rows)):
        k.set(result, regs)
