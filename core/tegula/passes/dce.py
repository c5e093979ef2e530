"""Dead code: what has no effect and no reader goes, values carried around loops included."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tegula.analysis.alias import effects_of
from tegula.ir.core import Block, Function, Op, Value
from tegula.rewrite import Sweep

from .base import Pass, PassContext


@dataclass(frozen=True)
class DeadCodeElimination(Pass):
    """Keep what leads to an effect; drop the rest.

    A carried value that only feeds itself is dropped from its loop, a loop that is left with
    nothing to do is dropped whole.

    Before:
        kernel @k(%p: ptr<i32>, %x: i32, %y: i32, %n: i32) {
          %0 = constant {value = 1} : i32
          %1, %2 = for %0, %n, %0, inits = [%x, %y] : i32, i32 body(%i: i32, %a: i32, %b: i32) {
            %3 = add %a, %i : i32
            %4 = mul %b, %b : i32
            yield [%3, %4]
          }
          store %p, %1
          return
        }
    After:
        kernel @k(%p: ptr<i32>, %x: i32, %y: i32, %n: i32) {
          %0 = constant {value = 1} : i32
          %1 = for %0, %n, %0, inits = [%x] : i32 body(%i: i32, %a: i32) {
            %2 = add %a, %i : i32
            yield [%2]
          }
          store %p, %1
          return
        }
    """

    name = "dce"

    def run_function(self, function: Function, ctx: PassContext) -> Function:
        while True:
            live = Liveness(function)
            if live.everything:
                return function
            after = _Dropping(live).sweep(function)
            if after is function or not live.waits:
                return after
            function = after  # a loop that was kept for a read may have lost it


def _droppable(op: Op) -> bool:
    """The op may go if nothing reads its results."""
    if op.name == "while":
        return not effects_of(op)  # one that reads memory may wait for another program
    if op.regions:
        return True  # what is inside decides
    return op.opdef.pure or (op.opdef.effects == {"read"} and not op.attrs.get("volatile"))


class Liveness:
    """Which ops of a function are needed, and which values are read by a needed one."""

    def __init__(self, function: Function) -> None:
        self.kept: set[Op] = set()
        self.live: set[Value] = set()
        self.parent: dict[Op, Op] = {}
        self.arg_of: dict[Value, tuple[Op, int, int]] = {}  # block argument -> op, region, index
        self.waits = False  # some `while` is kept only because it reads memory
        self._todo: list[Value] = []
        self._count = 0
        roots: list[Op] = []
        self._scan(function.body, None, roots)
        for op in roots:
            self._keep(op)
        while self._todo:
            self._follow(self._todo.pop())
        carried = sum(1 for arg in self.arg_of if arg not in self.live)
        self.everything = len(self.kept) == self._count and not carried and self._results_live()

    def _scan(self, block: Block, parent: Op | None, roots: list[Op]) -> None:
        for op in block.ops:
            if op.opdef.terminator:
                if parent is None:
                    self._need(op.operands)
                continue
            self._count += 1
            if parent is not None:
                self.parent[op] = parent
            if not _droppable(op):
                roots.append(op)
                self.waits = self.waits or op.name == "while"
            for number, region in enumerate(op.regions):
                if op.name in ("for", "while"):
                    for index, arg in enumerate(region.args):
                        self.arg_of[arg] = (op, number, index)
                self._scan(region, op, roots)

    def _results_live(self) -> bool:
        return all(r in self.live for op in self.kept if op.regions for r in op.results)

    def _need(self, values: Iterable[Value]) -> None:
        for v in values:
            if v not in self.live:
                self.live.add(v)
                self._todo.append(v)

    def _keep(self, op: Op) -> None:
        """The op is executed: so is what is around it, on the operands that control it."""
        while op not in self.kept:
            self.kept.add(op)
            if op.name == "for":
                self._need(op.operands[:3])
                self._need(op.regions[0].args[:1])
            elif op.name == "while":
                self._need(op.regions[0].terminator.operands[:1])
            else:
                self._need(op.operands)
                if op.regions and op.name != "if":
                    for region in op.regions:
                        self._need(region.terminator.operands)
            outer = self.parent.get(op)
            if outer is None:
                break
            op = outer

    def _follow(self, value: Value) -> None:
        """What a live value needs."""
        op = value.owner
        if op is None:
            place = self.arg_of.get(value)
            if place is not None:
                self._follow_argument(*place)
            return
        self._keep(op)
        if op.name in ("for", "if", "while"):
            index = op.results.index(value)
            if op.name == "for":
                self._need((op.regions[0].args[index + 1],))
            elif op.name == "while":
                self._need((op.regions[0].terminator.operands[index + 1],))
            else:
                self._need(r.terminator.operands[index] for r in op.regions)

    def _follow_argument(self, op: Op, region: int, index: int) -> None:
        self._keep(op)
        if op.name == "for":
            if index:
                ends = op.regions[0].terminator.operands
                self._need((op.operands[index + 2], ends[index - 1]))
        elif region == 0:
            self._need((op.operands[index], op.regions[1].terminator.operands[index]))
        else:
            self._need((op.regions[0].terminator.operands[index + 1],))


class _Dropping(Sweep):
    def __init__(self, live: Liveness) -> None:
        super().__init__()
        self.needed = live

    def visit(self, op: Op) -> None:
        if op.opdef.terminator:
            self.keep(op, self.current(op))
        elif op in self.needed.kept:
            if op.name in ("for", "while", "if"):
                self.trim(op)
            else:
                self.keep(op, self.current(op))

    def trim(self, op: Op) -> None:
        """Put out the region op without the values that nobody needs."""
        live = self.needed.live
        if op.name == "if":
            results = [r in live for r in op.results]
            self.rebuild(op, (), [(), ()], [results, results], results)
        elif op.name == "for":
            args = [a in live for a in op.regions[0].args[1:]]
            self.rebuild(op, args, [[True, *args]], [args], args)
        else:
            entering = [a in live for a in op.regions[0].args]
            passing = [
                a in live or r in live for a, r in zip(op.regions[1].args, op.results)
            ]  # fmt: skip
            flags = [[True, *passing], entering]
            self.rebuild(op, entering, [entering, passing], flags, passing)

    def rebuild(
        self,
        op: Op,
        inits: Iterable[bool],
        args: list[Iterable[bool]],
        ends: list[list[bool]],
        results: list[bool],
    ) -> None:
        """The op with only those operands, block arguments, exit values and results."""
        inits, kept_args = list(inits), [list(a) for a in args]
        if all(inits) and all(results) and all(map(all, kept_args)) and all(map(all, ends)):
            self.keep(op, self.current(op))
            return
        fixed = op.operands[: len(op.operands) - len(inits)]
        carried = op.operands[len(fixed) :]
        operands = [*map(self.value, fixed), *map(self.value, _picked(carried, inits))]
        regions = []
        for region, arg_flags, end_flags in zip(op.regions, kept_args, ends):
            swept = self.sweep_block(region)
            end = swept.terminator
            values = _picked(end.operands, end_flags)
            single = end.name == "condition"
            counts = (1, len(values) - 1) if single else (len(values),)
            new_end = Op(end.opdef, values, counts, end.attrs, (), (), end.loc)
            block_args = _picked(region.args, arg_flags) if region.args else []
            regions.append(Block(block_args, [*swept.ops[:-1], new_end]))
        segments = op.segments
        if op.name != "if":
            segments = (*op.segments[:-1], sum(inits))
        kept = _picked(op.results, results)
        new = Op(op.opdef, operands, segments, op.attrs, regions, [r.type for r in kept], op.loc)
        for old, fresh in zip(kept, new.results):
            fresh.name = old.name
            self.map[old] = fresh
        self.out.append(new)


def _picked(values: Iterable[Value], flags: Iterable[bool]) -> list[Value]:
    return [v for v, flag in zip(values, flags) if flag]
