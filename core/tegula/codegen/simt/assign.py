"""Makes the layout of every tile and the conversions between layouts explicit.

`natural` says where values come into being. What is cheap to compute again is made in each layout
in which somebody asks for it, so that conversions remain only where data has to move.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tegula.analysis.axisinfo import AxisInfos
from tegula.codegen.simt.buffers import Buffer
from tegula.codegen.simt.layout import Layout
from tegula.codegen.simt.matrix import planned
from tegula.codegen.simt.natural import ACCESSES, Natural, is_tile, source_layout
from tegula.codegen.simt.products import SharedUnit, kept_buffer, origin
from tegula.codegen.simt.shapes import concatenated
from tegula.codegen.simt.whole import WHOLE
from tegula.ir.core import Block, Cloner, Function, Op, Value
from tegula.ir.opdef import SCHEDULED
from tegula.ir.types import shape_of

if TYPE_CHECKING:
    from tegula.codegen.simt.hooks import Simt


@dataclass
class Assigned:
    """A kernel with layouts: the table covers every tile. `origin` leads from its values to those
    of the kernel that was given, about which `axes` knows."""

    function: Function
    axes: AxisInfos
    layouts: dict[Value, Layout] = field(default_factory=dict)
    origin: dict[Value, Value] = field(default_factory=dict)


def assign_layouts(function: Function, simt: Simt, warps: int) -> Assigned:
    """The kernel with a layout for every tile."""
    natural = Natural(function, simt, warps)
    natural.run()
    return Rewriter(natural).run()


def backward(op: Op, layout: Layout) -> list[Layout]:
    """Layouts of the tile operands of an op that is made in a layout of somebody's choice."""
    if op.name == "expand_dims":
        return [layout.reshape(shape_of(op.operands[0].type))]
    if op.name == "reshape":
        return [layout.reshape(shape_of(op.operands[0].type))]
    if op.name == "permute":
        dims = op.attrs["dims"]
        inverse = [0] * len(dims)
        for i, d in enumerate(dims):
            inverse[d] = i
        return [layout.permute(inverse)]
    if op.name == "broadcast":
        small = shape_of(op.operands[0].type)
        return [layout.squeezed(i for i, (a, b) in enumerate(zip(small, layout.shape)) if a != b)]
    return [layout] * len(op.operands)


class Rewriter:
    """Builds the kernel anew, every tile in a definite layout."""

    def __init__(self, natural: Natural) -> None:
        self.n = natural
        self.out = Assigned(natural.function, natural.axes)
        self.made: dict[tuple[Value, Layout | None], Value] = {}
        self.depth: dict[Value, int] = {}
        self.kept: dict[tuple[Value, str, int], Buffer] = {}
        self.blocks: list[list[Op]] = []
        self.floor = 0
        """The outermost block in which ops may be placed."""

    def run(self) -> Assigned:
        self.out.function = self.n.function.with_body(self.block(self.n.function.body))
        return self.out

    # -- values

    def bind(self, old: Value, new: Value, layout: Layout | None) -> None:
        """`new` is `old`, in a layout."""
        new.name = old.name
        self.made[old, layout] = new
        self.out.origin[new] = old
        self.depth[new] = len(self.blocks) - 1
        if layout is not None:
            self.out.layouts[new] = layout

    def get(self, v: Value, layout: Layout | None = None) -> Value:
        """The new value for `v`, in a layout if it is a tile (default: its natural one)."""
        if not is_tile(v):
            return self.made[v, None]
        if layout is None:
            layout = self.n.wanted(v)
        found = self.made.get((v, layout))
        if found is not None:
            return found
        natural = self.n.layout(v)
        return self._converted(v, natural, layout) if natural else self._made(v, layout)

    def _converted(self, v: Value, natural: Layout, layout: Layout) -> Value:
        source = self.made[v, natural]
        op = Op(SCHEDULED["convert_layout"], (source,), (1,), {"layout": str(layout)}, (),
                (source.type,))
        return self._place(op, [v], [layout], self.depth[source])

    def _made(self, v: Value, layout: Layout) -> Value:
        """A cheap value, computed in the layout that is asked for."""
        op = v.owner
        assert op is not None, v
        if op.name in ("join", "split", "cat"):
            return self._restacked(op, v, layout)
        wanted = iter(backward(op, layout))
        operands = [self.get(x, next(wanted)) if is_tile(x) else self.get(x) for x in op.operands]
        regions = [self._region(r) for r in op.regions]
        new = Op(op.opdef, operands, op.segments, op.attrs, regions,
                 [r.type for r in op.results], op.loc)
        depth = max((self.depth[x] for x in operands), default=0)
        if op.regions:
            depth = len(self.blocks) - 1  # a region may use scalars from here
        self._place(new, op.results, [layout] * len(op.results), depth)
        return self.made[v, layout]

    def _restacked(self, op: Op, v: Value, layout: Layout) -> Value:
        """Join and split fix one register bit: made in a plain layout, then moved."""
        plain = self.n.plain(shape_of(op.operands[0].type))
        if op.name == "split":
            halves = self.n.plain(shape_of(v.type))
            whole, results = halves.stacked(), halves
        elif op.name == "join":
            whole, results = plain, plain.stacked()
        else:
            whole, results = plain, concatenated(plain, op.attrs["axis"])
        operands = [self.get(x, whole) for x in op.operands]
        new = Op(op.opdef, operands, op.segments, op.attrs, (), [r.type for r in op.results],
                 op.loc)
        depth = max(self.depth[x] for x in operands)
        self._place(new, op.results, [results] * len(op.results), depth)
        made = self.made[v, results]
        if results == layout:
            return made
        move = Op(SCHEDULED["convert_layout"], (made,), (1,), {"layout": str(layout)}, (),
                  (made.type,))
        return self._place(move, [v], [layout], self.depth[made])

    def _place(self, op: Op, olds: Sequence[Value], layouts: Sequence[Layout], depth: int) -> Value:
        """Append an op without effects as far out as its operands allow."""
        depth = max(depth, self.floor)
        self.blocks[depth].append(op)
        for old, new, layout in zip(olds, op.results, layouts):
            self.bind(old, new, layout if is_tile(new) else None)
            self.depth[new] = depth
        return op.results[0]

    # -- blocks

    def block(self, block: Block, layouts: Sequence[Layout | None] | None = None,
              ends: Sequence[Layout | None] | None = None) -> Block:
        """A copy of a block; `ends` are the layouts in which its terminator takes its operands."""
        new = Block([a.type for a in block.args])
        self.blocks.append(new.ops)
        for a, fresh in zip(block.args, new.args):
            self.bind(a, fresh, self.n.layout(a))
        saved = dict(self.made)
        for op in block.ops:
            if op.has("terminator"):
                self._terminator(op, ends)
            else:
                self.op(op)
        self.blocks.pop()
        self._forget(saved)
        return new

    def _forget(self, saved: dict[tuple[Value, Layout | None], Value]) -> None:
        """Drop what was made inside of the block; what was placed further out stays."""
        level = len(self.blocks)
        for key in [key for key, v in self.made.items() if self.depth[v] >= level]:
            if key not in saved or self.depth[self.made[key]] >= level:
                del self.made[key]

    def _terminator(self, op: Op, ends: Sequence[Layout | None] | None) -> None:
        wanted = list(ends) if ends is not None else [None] * len(op.operands)
        operands = [self.get(v, x) for v, x in zip(op.operands, wanted)]
        self._append(op, operands)

    def _append(self, op: Op, operands: Sequence[Value], regions: Sequence[Block] = ()) -> Op:
        new = Op(op.opdef, operands, op.segments, op.attrs, regions,
                 [r.type for r in op.results], op.loc)
        self.blocks[-1].append(new)
        for old, r in zip(op.results, new.results):
            self.bind(old, r, self.n.layout(old))
        return new

    def _region(self, region: Block) -> Block:
        """A region of scalars, with what it uses from outside."""
        cloner = Cloner()
        cloner.map.update({old: new for (old, layout), new in self.made.items() if layout is None})
        return cloner.block(region)

    def op(self, op: Op) -> None:
        if op.name in ("for", "while", "if"):
            self._control(op)
            return
        if op in self.n.units:
            self._shared_dot(op, self.n.units[op])
            return
        if op.name == "dot_wait":
            self._dot_wait(op)
            return
        if op.opdef.pure and op.results and all(
            is_tile(r) and self.n.layout(r) is None for r in op.results
        ):
            return  # made when somebody asks for it
        operands = [self.get(v, x) for v, x in zip(op.operands, self._needs(op))]
        self._append(op, operands, [self._region(r) for r in op.regions])

    def _shared_dot(self, op: Op, unit: SharedUnit) -> None:
        """A product whose factors come from buffers where they are there, else as tiles."""
        groups: dict[str, list[Value]] = {"a": [], "b": [], "a_slot": [], "b_slot": []}
        attrs: dict[str, object] = {"unit": unit, "a_buffer": None, "b_buffer": None,
                                    "asynchronous": bool(op.attrs.get("asynchronous"))}
        for side, v in zip("ab", op.operands):
            source, transposed = origin(v)
            load = source.owner
            if load is not None and load.name == "shared_load" and unit.reads(
                side, load.attrs["buffer"], transposed
            ):
                attrs[side + "_buffer"] = (load.attrs["buffer"], transposed)
                groups[side + "_slot"].append(self.get(load.operands[0]))
                continue
            if is_tile(v) and self._outside(v):
                attrs[side + "_buffer"] = (self._kept(side, v, unit), False)
                continue
            wanted = unit.a_registers if side == "a" else None
            groups[side].append(self.get(v, wanted))
            if wanted is None:  # the op's scratch may be written again right after it
                attrs["asynchronous"] = False
        acc = self.get(op.operands[2], unit.layout)
        operands = [acc, *(v for g in groups.values() for v in g)]
        segments = (1, *(len(g) for g in groups.values()))
        new = Op(SCHEDULED["shared_dot"], operands, segments, attrs, (), [acc.type], op.loc)
        self.blocks[-1].append(new)
        self.bind(op.results[0], new.results[0], unit.layout)

    def _dot_wait(self, op: Op) -> None:
        """A wait for earlier products of a unit; products of any other kind are done."""
        acc, (result,) = op.operands[0], op.results
        dot, layout = op.operands[-1].owner, self.n.layout(acc)
        unit = self.n.units.get(dot) if dot is not None else None
        made = self.get(acc)
        if unit is not None:
            attrs = {**op.attrs, "unit": unit}
            wait = Op(op.opdef, (made,), (1, 0), attrs, (), (made.type,), op.loc)
            self.blocks[-1].append(wait)
            made = wait.results[0]
        self.bind(result, made, layout)

    def _outside(self, v: Value) -> bool:
        """Whether a tile comes from outside of the loop or branch that is being built."""
        natural = self.n.layout(v)
        made = self.made.get((v, natural)) if natural is not None else None
        return made is not None and self.depth[made] < len(self.blocks) - 1

    def _kept(self, side: str, v: Value, unit: SharedUnit) -> Buffer:
        """The buffer of a factor that stays the same in a loop, filled before the loop."""
        key = (v, side, unit.fast(side, 1))
        found = self.kept.get(key)
        if found is None:
            source = self.get(v)
            buffer = kept_buffer(side, v, self.n.wanted(v), unit)
            put = Op(SCHEDULED["shared_put"], (source,), (1,), {"buffer": buffer}, (), ())
            self.blocks[self.depth[source]].append(put)
            found = self.kept[key] = buffer
        return found

    def _settled(self, loop: Op, new: Op) -> None:
        """After a loop whose products may still be under way: wait for them."""
        (body,) = loop.regions
        for old, fresh, end in zip(loop.results, new.results, body.terminator.operands):
            dot = end.owner
            if dot is not None and dot.name == "dot_wait":
                dot = dot.operands[0].owner
            if dot is None or not dot.attrs.get("asynchronous") or dot not in self.n.units:
                continue
            unit = self.n.units[dot]
            attrs = {"unit": unit, "pending": 0}
            wait = Op(SCHEDULED["dot_wait"], (fresh,), (1, 0), attrs, (), (fresh.type,))
            self.blocks[-1].append(wait)
            self.bind(old, wait.results[0], unit.layout)
            self.out.layouts[fresh] = unit.layout

    def _needs(self, op: Op) -> list[Layout | None]:
        """The layout of each operand; None for scalars."""
        n = self.n
        if op.name in ("reduce", "scan"):
            return [source_layout(n, op)] * len(op.operands)
        if op.name in ACCESSES:
            return self._access(op)
        if op.name in ("print", "assert"):
            first = next((v for v in op.operands if is_tile(v)), None)
            if op.name == "print" or first is None:
                return [n.wanted(v) if is_tile(v) else None for v in op.operands]
            return [n.wanted(first) if is_tile(v) else None for v in op.operands]
        if op.name == "histogram":
            return [n.wanted(op.operands[0])] * len(op.operands)
        if op.name in ("gather", "slice", "dot"):
            out = [n.wanted(v) for v in op.operands]
            if op.name == "gather":
                out[1] = n.wanted(op.results[0])
            if op.name == "dot":
                out[2] = n.wanted(op.results[0])
                plan = planned(op, n.simt, out[2])
                if plan is not None:
                    out[:2] = plan[1].a, plan[1].b
            return list(out)
        if op.name == "split":
            return [n.wanted(op.results[0]).stacked()]
        if op.name in ("join", "cat"):
            known = [x for x in map(n.layout, op.operands) if x is not None]
            layout = known[0] if known else n.plain(shape_of(op.operands[0].type))
            return [layout] * 2
        if op.name in ("expand_dims", "reshape", "permute"):
            return [n.layout(op.operands[0])]
        target = next((n.layout(r) for r in op.results if is_tile(r)), None)
        return [target if is_tile(v) else None for v in op.operands]

    def _access(self, op: Op) -> list[Layout | None]:
        n = self.n
        ptr = op.operands[0]
        if not is_tile(ptr):
            return [None] * len(op.operands)
        if op.name == "async_copy":
            return [n.copying(ptr) if is_tile(v) else None for v in op.operands]
        layout = n.layout(op.results[0]) if op.results else n.access(ptr)
        if op.name == "store":
            value = n.layout(op.operands[1])
            if value is not None and n.served(ptr, value):
                layout = value
        return [layout] * len(op.operands)

    def _control(self, op: Op) -> None:
        n = self.n
        if op.name == "if":
            ends = [n.layout(r) for r in op.results]
            outer = self.floor
            if WHOLE in op.attrs:  # its two forms share nothing
                self.floor = len(self.blocks)
            regions = [self.block(r, ends=ends) for r in op.regions]
            self.floor = outer
            self._append(op, [self.get(op.operands[0])], regions)
            return
        if op.name == "for":
            (body,) = op.regions
            bounds = [self.get(v) for v in op.operands[:3]]
            carried = [n.layout(a) for a in body.args[1:]]
            inits = [self.get(v, x) for v, x in zip(op.group("inits"), carried)]
            new = self._append(op, [*bounds, *inits], [self.block(body, ends=carried)])
            self._settled(op, new)
            return
        before, after = op.regions
        carried = [n.layout(a) for a in before.args]
        inits = [self.get(v, x) for v, x in zip(op.group("inits"), carried)]
        passed = [n.layout(a) for a in after.args]
        regions = [self.block(before, ends=[None, *passed]), self.block(after, ends=carried)]
        self._append(op, inits, regions)
