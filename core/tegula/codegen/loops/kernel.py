"""Lowers one kernel: walks its blocks, emits their slots in time, and manages buffers.

The kernel is self-contained (calls are inlined) and has no descriptors; see `prepare`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tegula.codegen.loops import access, atomics, collect, output
from tegula.codegen.loops.buffers import LINE, Arena, Buffer, strides_for
from tegula.codegen.loops.control import Control
from tegula.codegen.loops.evaluate import Evaluation, Index, Unsupported
from tegula.codegen.loops.exprs import Exprs, is_tile
from tegula.codegen.loops.folds import accumulator
from tegula.codegen.loops.lanes import Lanes, Position, Uni, mem_type, size_of
from tegula.codegen.loops.matrix import MatrixProducts
from tegula.codegen.loops.nest import Nest
from tegula.codegen.loops.plan import BlockPlan, Item, Slot, captured
from tegula.codegen.loops.prefetch import Prefetch
from tegula.codegen.loops.text import Scope, Val, Writer
from tegula.codegen.loops.vector import VectorTarget
from tegula.ir.core import Block, Function, Op, Value
from tegula.ir.types import DType, Pointer, elem_of, shape_of

SIGNATURE = ("(ptr noalias %args, ptr noalias %scratch, i32 %pid0, i32 %pid1, i32 %pid2, "
             "i32 %np0, i32 %np1, i32 %np2)")


def symbol_of(name: str) -> str:
    """The symbol of a kernel: no function that its code may call, such as `fmod`, is named so. What
    is no letter, digit or underscore of ASCII is written by its code point.
    """
    usual = [c.isascii() and (c.isalnum() or c == "_") for c in name]
    return "kernel." + "".join(c if ok else f"${ord(c):x}" for c, ok in zip(name, usual))


@dataclass
class Lowered:
    """A kernel as LLVM text, and what a launch has to know."""

    text: str
    scratch_bytes: int
    alias_pairs: list[tuple[int, int, bool]]


@dataclass
class Frame:
    """A block being emitted: its plan, and the buffers that its terminator's values go to."""

    plan: BlockPlan
    sinks: dict[Value, Buffer] = field(default_factory=dict)
    late: set[int] = field(default_factory=set)
    """Ids of buffers that may be written only after everything else at the same element."""
    reused: set[Slot] = field(default_factory=set)
    """Nests with such a buffer. A nest has one at most: a second one's value might be computed from
    what the first has overwritten."""
    owned: dict[Value, Buffer] = field(default_factory=dict)
    """Buffers that are given back after the last use."""


class KernelEmitter:
    """State of one lowering, shared by all its parts."""

    def __init__(self, function: Function, target: VectorTarget, assume_disjoint: bool,
                 debug: bool) -> None:
        self.function = function
        self.target = target
        self.assume_disjoint = assume_disjoint
        self.debug = debug
        self.w = Writer(target)
        self.exprs = Exprs(function)
        self.arena = Arena(self.w)
        self.env: dict[Value, Val] = {}
        self.homes: dict[Value, Buffer] = {}
        self.frames: list[Frame] = []
        self.pairs: dict[tuple[int, int], bool] = {}
        self.reshapes: dict[Any, Index] = {}
        self.functions: dict[str, str] = {}
        self.globals: dict[str, str] = {}
        self.targets: dict[Any, Buffer] = {}
        self.zero_index = Uni(self.w.const(0, "i64"))
        self._indices: dict[int, Uni] = {0: self.zero_index}
        self.scalar_lanes = Lanes(self.w, 1, Position(None, 0, 1, 1))
        self.control = Control(self)
        self.matrix = MatrixProducts(self)
        self.prefetch = Prefetch(self)

    @property
    def plan(self) -> BlockPlan:
        return self.frames[-1].plan

    def index_const(self, value: int) -> Uni:
        """A constant index."""
        found = self._indices.get(value)
        if found is None:
            found = self._indices[value] = Uni(self.w.const(value, "i64"))
        return found

    def scalar_evaluation(self) -> Evaluation:
        """An evaluation outside of nests, one element at a time."""
        return Evaluation(self, 1, 1)

    # -- the function

    def lower(self) -> Lowered:
        self._parameters()
        self.block(self.function.body, {})
        self.w.scope.block.term = "ret void"
        spare = 4 * LINE if self.arena.size else 0  # vectors may be read past the last buffer
        return Lowered(self._module(), self.arena.size + spare,
                       [(i, j, ok) for (i, j), ok in sorted(self.pairs.items())])

    def _parameters(self) -> None:
        w = self.w
        for i, v in enumerate(self.function.body.args):
            e = elem_of(v.type)
            p = w.gep("i8", Val("%args", "ptr", w.root), w.const(8 * i, "i64"))
            ty = mem_type(e)
            x = w.here(ty, f"load {ty}, ptr {p.text}, align 8")
            self.env[v] = access.to_reg(self.scalar_lanes, x, e)  # type: ignore[arg-type]

    def _module(self) -> str:
        body = self.w.body()
        parts = []
        if access.ZEROS in body:
            parts.append(f"{access.ZEROS} = internal constant [64 x i8] zeroinitializer, align 64")
        parts += self.globals.values()
        symbol = symbol_of(self.function.name)
        parts.append(f"define void @{symbol}{SIGNATURE} nounwind {{\n{body}\n}}")
        parts += self.functions.values()
        parts += sorted(self.w.declares.values())
        if "!nontemporal" in body:
            parts.append("!0 = !{i32 1}")
        return "\n".join(parts) + "\n"

    def add_function(self, name: str, text: str, declares: tuple[str, ...]) -> None:
        """Add a function that the kernel calls."""
        if name not in self.functions:
            self.functions[name] = text
            for line in declares:
                self.w.declares[line.split("@", 1)[1].split("(", 1)[0]] = line

    # -- blocks

    def block(self, block: Block, sinks: dict[int, Buffer], late: set[int] | None = None
              ) -> list[Val | None]:
        """Emit a block; the tile values of its terminator go to the buffers in `sinks`.

        Gives the scalar values of the terminator (None for tiles).
        """
        plan = BlockPlan(self.exprs, block, self.assume_disjoint).run()
        for pair in plan.pairs:
            key = (pair.stored, pair.loaded)
            self.pairs[key] = self.pairs.get(key, True) and pair.same_ok
        frame = Frame(plan, late=late or set())
        self.frames.append(frame)
        copies = self._aim(frame, block, sinks)
        for slot in plan.slots:
            self._open(frame, slot)
            if slot.is_nest:
                Nest(self, slot).emit()
                self._after_nest(frame, slot)
            else:
                assert slot.op is not None
                self._step(slot.op, slot)
            self._close(frame, slot)
        scalars = [None if is_tile(v) else self.scalar(v) for v in block.terminator.operands]
        self._copies(frame, copies, {id(b) for b in sinks.values()})
        for buffer in frame.owned.values():
            self.arena.release(buffer)
        frame.owned.clear()
        self.frames.pop()
        return scalars

    def _aim(self, frame: Frame, block: Block, sinks: dict[int, Buffer]
             ) -> list[tuple[Value, Buffer]]:
        """Decide which values are written straight to their sinks; the others are copied."""
        copies: list[tuple[Value, Buffer]] = []
        values = block.terminator.operands
        for i, sink in sinks.items():
            v = values[i]
            if self.homes.get(v) is sink:
                continue
            olds = [a for a in block.args if self.homes.get(a) is sink]
            if v not in frame.sinks and v.owner in frame.plan.order and all(
                    self._may_aim(frame, v, sink, old) for old in olds or [None]):
                frame.sinks[v] = sink
                acc = v.owner.group("acc")[0] if v.owner.name == "dot" else None
                if acc in frame.plan.kept and acc not in frame.sinks and (
                        frame.plan.last_use(acc) <= self._slot_time(frame.plan, v)):
                    frame.sinks[acc] = sink
            else:
                copies.append((v, sink))
        return copies

    def _copies(self, frame: Frame, copies: list[tuple[Value, Buffer]], sinks: set[int]) -> None:
        """Copies at the end of a block; what lies in another sink goes through a temporary."""
        held: list[tuple[Value, Buffer, Buffer]] = []
        for v, sink in copies:
            home = self.homes.get(v)
            if home is not None and id(home) in sinks:
                spare = self.arena.tile(shape_of(v.type), elem_of(v.type))
                self.copy(v, spare)
                held.append((v, spare, sink))
        for v, sink in copies:
            if not any(sink is s for _, _, s in held):
                self.copy(v, sink)
        for v, spare, sink in held:
            home = self.homes[v]
            self.homes[v] = spare
            self.copy(v, sink)
            self.homes[v] = home
            self.arena.release(spare)

    def _may_aim(self, frame: Frame, v: Value, sink: Buffer, old: Value | None) -> bool:
        """Whether `v` may be made in the buffer that still holds the value `old`."""
        plan = frame.plan
        if v.owner is not None and v.owner.name == "dot" and not self.matrix.fits(v.owner, sink):
            return False
        if v in plan.layout or (v.owner is not None and v.owner.name == "while"):
            return False
        if old is None:
            return True
        written = self._written_at(plan, v, old)
        if written is None:
            return False
        # Everything made from the old value where it is read must be read by then.
        return all(s.t < written or (s.t == written and (exact or s.op is not None))
                   for s, exact in plan.reads(old))

    def _written_at(self, plan: BlockPlan, v: Value, old: Value) -> int | None:
        """When the buffer of a value is first written."""
        kept = plan.kept.get(v)
        if kept is not None:
            return kept.t
        op = v.owner
        assert op is not None
        if op.name == "dot":
            acc = op.group("acc")[0]
            if acc is old:
                return self._slot_time(plan, v) if plan.last_use(old) == self._slot_time(
                    plan, v) and old not in op.operands[:2] else None
            if acc in plan.kept and plan.last_use(acc) == self._slot_time(plan, v):
                return plan.kept[acc].t
            return self._slot_time(plan, v)
        if op.name == "scan":
            return self._slot_time(plan, v)
        if op.name == "for":
            inits = op.group("inits")
            place = [i for i, x in enumerate(inits) if x is old]
            if old in captured(op) or (place and place != [op.results.index(v)]):
                return None
            return self._slot_time(plan, v)
        return None

    def _slot_time(self, plan: BlockPlan, v: Value) -> int:
        return plan._slot_of[v].t

    def copy(self, v: Value, sink: Buffer) -> None:
        """Write a value to a buffer in a nest of its own."""
        shape = shape_of(v.type)
        key = ("copy", id(sink))
        self.targets[key] = sink
        slot = Slot(0, shape, [Item("write", 0, None, v, key, (v,))])
        Nest(self, slot).emit()

    def run_region(self, block: Block, args: list[Val]) -> list[Val]:
        """Run a block of scalars on arguments, here and now; gives what it yields."""
        inside = set(block.args)
        for op in block.walk():
            inside.update(op.results)
            for region in op.regions:
                inside.update(region.args)
        self.env.update(zip(block.args, args))
        out = [x for x in self.block(block, {}) if x is not None]
        scope: Scope | None = self.w.scope
        while scope is not None:  # it may run again on other arguments
            for key in [k for k in scope.memo if isinstance(k, tuple) and k[0] in inside]:
                del scope.memo[key]
            scope = scope.parent
        for v in inside:
            self.env.pop(v, None)
        return out

    # -- slots and their buffers

    def in_order(self, items: list[Item]) -> list[Item]:
        """Items as they run at an element: what overwrites old values last."""
        late = self.frames[-1].late
        return sorted(items, key=lambda i: (
            i.kind == "write" and id(self.destination(i)) in late, i.order))

    def destination(self, item: Item) -> Buffer:
        """The buffer that a write goes to."""
        if item.target is not None:
            return self.targets[item.target]
        assert item.value is not None
        return self.homes[item.value]

    def home_of(self, item: Item) -> Buffer | None:
        return self.destination(item) if item.kind == "write" else None

    def _open(self, frame: Frame, slot: Slot) -> None:
        """Make the buffers that a slot writes."""
        plan = frame.plan
        for item in slot.items:
            if item.kind == "write":
                self._open_write(frame, item, slot)
            elif item.kind in ("reduce", "scan", "atomic"):
                assert item.op is not None
                for r in item.op.results:
                    if self._needs_home(plan, item, r):
                        e = elem_of(r.type)
                        kept = accumulator(e) if item.kind == "reduce" else e  # type: ignore
                        self.give_home(frame, r, kept)  # type: ignore[arg-type]

    def _needs_home(self, plan: BlockPlan, item: Item, r: Value) -> bool:
        if not is_tile(r):
            return False
        reads = plan.reads(r)
        if item.kind == "reduce":
            return True
        slot = plan._slot_of[r]
        return any(s is not slot or not exact for s, exact in reads)

    def _open_write(self, frame: Frame, item: Item, slot: Slot) -> None:
        v = item.value
        if item.target is None:
            assert v is not None
            if v not in self.homes and not self._reuse(frame, v, slot):
                self.give_home(frame, v, None, self._fastest(frame.plan, v, slot))
            return
        kind = item.target[0]
        if kind == "cat" and item.target not in self.targets:
            self._open_cat(frame, item.target[1])
        elif kind == "init":
            _, op, i = item.target
            if item.target not in self.targets:
                self.targets[item.target] = self.control.carried_buffer(op, i)

    def _open_cat(self, frame: Frame, result: Value) -> None:
        """The two parts of a concatenation as views of one buffer."""
        buffer = self.give_home(frame, result)
        op = result.owner
        assert op is not None
        axis, start = op.attrs["axis"], 0
        for which, source in enumerate(op.operands):
            shape = shape_of(source.type)
            base = self.w.gep(mem_type(buffer.elem), buffer.base,
                              self.w.const(start * buffer.strides[axis], "i64"))
            self.targets["cat", result, which] = Buffer(
                base, buffer.elem, shape, buffer.strides, padded=False)
            start += shape[axis]

    def _reuse(self, frame: Frame, v: Value, slot: Slot) -> bool:
        """Let a kept value overwrite one that is read for the last time at the same element."""
        plan = frame.plan
        if v in frame.sinks or v in plan.layout or slot in frame.reused:
            return False
        for u, buffer in frame.owned.items():
            if (buffer.shape == shape_of(v.type) and buffer.elem is elem_of(v.type)
                    and plan.last_use(u) == slot.t and plan.kept.get(u) is not slot
                    and all(exact for s, exact in plan.reads(u) if s is slot)
                    and buffer.strides == self._natural(v)
                    and plan._slot_of.get(u) is not slot):
                del frame.owned[u]
                frame.late.add(id(buffer))
                frame.reused.add(slot)
                self.own(frame, v, buffer)
                return True
        return False

    @staticmethod
    def _natural(v: Value) -> tuple[int, ...]:
        return strides_for(shape_of(v.type), size_of(elem_of(v.type)))

    def _fastest(self, plan: BlockPlan, v: Value, slot: Slot) -> int | None:
        """The dimension along which a kept value should be contiguous (None: the last)."""
        if v in plan.layout:
            return 1 - plan.layout[v]  # as its memory is; transposed afterwards
        if any(s.op is not None and s.op.name == "dot" for s, _ in plan.reads(v)):
            return None
        return slot.vdim

    def give_home(self, frame: Frame, v: Value, elem: DType | Pointer | None = None,
                  fastest: int | None = None) -> Buffer:
        """The buffer of a value: its sink if it has one, else fresh space."""
        sink = frame.sinks.get(v)
        if sink is not None:
            self.homes[v] = sink
            return sink
        buffer = self.arena.tile(shape_of(v.type), elem or elem_of(v.type), fastest)
        self.own(frame, v, buffer)
        return buffer

    def own(self, frame: Frame, v: Value, buffer: Buffer) -> None:
        """Make a buffer the home of a value; it is given back after the value's last use."""
        self.homes[v] = buffer
        frame.owned[v] = buffer

    def _after_nest(self, frame: Frame, slot: Slot) -> None:
        for item in slot.items:
            v = item.value
            if item.kind == "write" and v is not None and v in frame.plan.layout:
                self.matrix.transpose_home(frame, v, frame.plan.layout[v])

    def _close(self, frame: Frame, slot: Slot) -> None:
        """Give back the buffers whose values are not needed after this slot."""
        for v in [v for v in frame.owned if frame.plan.last_use(v) <= slot.t]:
            if v in frame.plan._slot_of and frame.plan._slot_of[v].t > slot.t:
                continue
            self.arena.release(frame.owned.pop(v))

    # -- steps that are not nests

    def _step(self, op: Op, slot: Slot) -> None:
        name = op.name
        if name == "dot":
            self.matrix.dot(self.frames[-1], op)
        elif name in collect.STEPS:
            collect.STEPS[name](self, self.frames[-1], op)
        elif name in ("for", "while", "if"):
            getattr(self.control, name + "_")(self.frames[-1], op, slot)
        elif name in ("load", "store") or name in atomics.NAMES:
            self._scalar_access(op)
        elif name == "print":
            self._print_scalars(op)
        elif name == "assert":
            self.check(op, [self.scalar(o) for o in op.operands])
        elif name != "assume":
            raise Unsupported(op, f"no rule to lower '{name}'")

    def scalar(self, v: Value) -> Val:
        """The value of a scalar, here and now."""
        found = self.env.get(v)
        if found is not None:
            return found
        lane = self.scalar_evaluation().eval(v, ())
        assert isinstance(lane, Uni)
        return lane.val

    def _scalar_access(self, op: Op) -> None:
        ev = self.scalar_evaluation()
        pe = elem_of(op.operands[0].type)
        assert isinstance(pe, Pointer)
        args = [self.scalar(o) for o in op.operands]
        mask_value = None if op.name in atomics.UNMASKED else op.operand("mask")
        mask = None if mask_value is None else Uni(self.scalar(mask_value))
        if op.name == "load":
            other = op.operand("other")
            lane = access.load(ev, Uni(args[0]), mask,
                               None if other is None else Uni(self.scalar(other)), pe.elem, None,
                               None, op.attrs["volatile"])
            assert isinstance(lane, Uni)
            self.env[op.results[0]] = lane.val
        elif op.name == "store":
            access.store(ev, Uni(args[0]), Uni(args[1]), mask, pe.elem, None)
        else:
            old = atomics.emit(ev, op, args)
            if old is not None:
                self.env[op.results[0]] = old

    # -- output and checks

    def _print_scalars(self, op: Op) -> None:
        for o in op.operands:
            self.print_element(op, o, self.scalar(o), [])
        if not op.operands:
            output.print_text(self, op)

    def print_element(self, op: Op, v: Value, x: Val, index: list[Val]) -> None:
        output.print_element(self, op, v, x, index)

    def check(self, op: Op, args: list[Val]) -> None:
        output.check(self, op, args)
