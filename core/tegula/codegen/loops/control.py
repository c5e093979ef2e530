"""Loops and branches: scalars become phis, tiles stay in one buffer for the whole loop."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tegula.codegen.loops.buffers import Buffer
from tegula.codegen.loops.demands import captured
from tegula.codegen.loops.exprs import is_tile
from tegula.codegen.loops.lanes import reg_type, signed
from tegula.codegen.loops.plan import Slot
from tegula.codegen.loops.text import Scope, Val
from tegula.ir.core import Block, Op, Value
from tegula.ir.types import elem_of, shape_of

if TYPE_CHECKING:
    from tegula.codegen.loops.kernel import Frame, KernelEmitter


class Control:
    """Emits `for`, `while` and `if`."""

    def __init__(self, k: KernelEmitter) -> None:
        self.k = k
        self.w = k.w

    # -- carried tiles

    def carried_buffer(self, op: Op, i: int) -> Buffer:
        """A fresh buffer for the i-th value that a loop carries (or its result's sink)."""
        frame = self.k.frames[-1]
        if op.name == "for":
            sink = frame.sinks.get(op.results[i])
            if sink is not None:
                return sink
        v = op.group("inits")[i]
        return self.k.arena.tile(shape_of(v.type), elem_of(v.type))

    def _buffers(self, frame: Frame, op: Op, slot: Slot) -> dict[int, Buffer]:
        """The buffer of every carried tile, holding its first value."""
        k, out = self.k, {}
        inits = op.group("inits")
        for i, v in enumerate(inits):
            if not is_tile(v):
                continue
            known = k.targets.pop(("init", op, i), None)
            if known is not None:
                out[i] = known
                continue
            sink = frame.sinks.get(op.results[i]) if op.name == "for" else None
            home = k.homes.get(v)
            if home is not None and home is sink:
                out[i] = home
            elif (sink is None and v in frame.owned and inits.count(v) == 1
                  and frame.plan.last_use(v) <= slot.t and not self._captures(op, v)):
                out[i] = frame.owned.pop(v)
            else:
                out[i] = self.carried_buffer(op, i)
                k.copy(v, out[i])
        return out

    def _captures(self, op: Op, v: Value) -> bool:
        """Whether a region of `op` reads `v`, also through values that are computed in place."""
        leaves = self.k.exprs.leaves
        return any(v is c or (is_tile(c) and v in leaves(c)) for c in captured(op))

    def _adopt(self, frame: Frame, v: Value, buffer: Buffer) -> None:
        """Make a loop's buffer the home of its result."""
        if frame.sinks.get(v) is buffer:
            self.k.homes[v] = buffer
        else:
            self.k.own(frame, v, buffer)

    def _enter(self, args: list[Value], scalars: list[Val], buffers: dict[int, Buffer]) -> None:
        """Bind the arguments of a block."""
        rest = iter(scalars)
        for i, a in enumerate(args):
            if is_tile(a):
                self.k.homes[a] = buffers[i]
            else:
                self.k.env[a] = next(rest)

    # -- for

    def for_(self, frame: Frame, op: Op, slot: Slot) -> None:
        k, w = self.k, self.w
        (body,) = op.regions
        inits = op.group("inits")
        buffers = self._buffers(frame, op, slot)
        k.prefetch.enter(body)
        first = [k.scalar(v) for v in inits if not is_tile(v)]
        lb, ub, step = (k.scalar(v) for v in op.operands[:3])
        is_signed = signed(elem_of(op.operands[0].type))
        lo, hi, by = (w.resize(x, "i64", is_signed) for x in (lb, ub, step))
        counted = by.const is None or by.const <= 0
        if counted:
            hi, start, stride = w.trips(lo, hi, by), lo, by
            lo, by = w.const(0, "i64"), w.const(1, "i64")
        loop = w.begin_loop(lo, hi, by, first, True, "for")
        at = w.add(start, w.mul(loop.iv, stride)) if counted else loop.iv
        k.env[body.args[0]] = w.resize(at, reg_type(elem_of(body.args[0].type)), is_signed)
        self._enter(body.args[1:], loop.carried, buffers)
        nexts = k.block(body, buffers, {id(b) for b in buffers.values()})
        after = iter(w.end_loop(loop, [x for x in nexts if x is not None]))
        for i, r in enumerate(op.results):
            if is_tile(r):
                self._adopt(frame, r, buffers[i])
            else:
                k.env[r] = next(after)

    # -- while

    def while_(self, frame: Frame, op: Op, slot: Slot) -> None:
        k, w = self.k, self.w
        before, after = op.regions
        buffers = self._buffers(frame, op, slot)
        inits = op.group("inits")
        first = [k.scalar(v) for v in inits if not is_tile(v)]
        outer, pre = w.scope, w.scope.block
        head = w.new_block("while")
        pre.term = f"br label %{head.label}"
        w.scope = Scope(outer, head)
        carried = [Val(w.name(), v.ty, w.scope) for v in first]
        self._enter(before.args, carried, buffers)
        passed = self._passed(before, buffers)
        fresh = {i: b for i, b in passed.items() if id(b) not in {id(x) for x in
                                                                  buffers.values()}}
        values = k.block(before, {i + 1: b for i, b in fresh.items()})
        flag = values[0]
        assert flag is not None
        scalars = [x for x in values[1:] if x is not None]
        test = w.scope.block
        body = w.new_block("do")
        header = w.scope
        w.scope = Scope(header, body)
        self._enter(after.args, scalars, passed)
        nexts = [x for x in k.block(after, buffers, {id(b) for b in buffers.values()})
                 if x is not None]
        latch = w.scope.block
        latch.term = f"br label %{head.label}"
        end = w.new_block("endwhile")
        test.term = f"br i1 {flag.text}, label %{body.label}, label %{end.label}"
        head.phis += [f"  {c.text} = phi {c.ty} [ {a.text}, %{pre.label} ], "
                      f"[ {b.text}, %{latch.label} ]"
                      for c, a, b in zip(carried, first, nexts)]
        outer.block = end
        w.scope = outer
        rest = iter(scalars)
        adopted: set[int] = set()
        for i, r in enumerate(op.results):
            if not is_tile(r):
                x = next(rest)
                k.env[r] = Val(x.text, x.ty, outer, x.const)
            elif id(passed[i]) in adopted:
                self.k.homes[r] = self._duplicate(frame, r, passed[i])
            else:
                adopted.add(id(passed[i]))
                self._adopt(frame, r, passed[i])
        for b in buffers.values():
            if id(b) not in adopted:
                k.arena.release(b)

    def _duplicate(self, frame: Frame, v: Value, buffer: Buffer) -> Buffer:
        """A second buffer with the same contents, for a value that is passed on twice."""
        k = self.k
        k.homes[v] = buffer
        fresh = k.arena.tile(shape_of(v.type), elem_of(v.type))
        k.copy(v, fresh)
        k.own(frame, v, fresh)
        return fresh

    def _passed(self, before: Block, buffers: dict[int, Buffer]) -> dict[int, Buffer]:
        """The buffers in which the condition hands on its tiles."""
        out = {}
        for i, v in enumerate(before.terminator.operands[1:]):
            if is_tile(v):
                home = self.k.homes.get(v) if v in before.args else None
                out[i] = home or self.k.arena.tile(shape_of(v.type), elem_of(v.type))
        return out

    # -- if

    def if_(self, frame: Frame, op: Op, slot: Slot) -> None:
        k, w = self.k, self.w
        cond = k.scalar(op.operands[0])
        buffers = {}
        for i, r in enumerate(op.results):
            if is_tile(r):
                buffers[i] = k.give_home(frame, r)
        branch = w.begin_if(cond)
        then = [x for x in k.block(op.regions[0], buffers) if x is not None]
        w.begin_else(branch)
        other = [x for x in k.block(op.regions[1], buffers) if x is not None]
        out = iter(w.end_if(branch, then, other))
        for r in op.results:
            if not is_tile(r):
                k.env[r] = next(out)
