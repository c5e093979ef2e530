"""Chooses a layout for every tile and makes conversions explicit.

Every value has a *natural* layout: accesses to memory get one that is wide and coalesced, products
the layout of the matrix unit, and what is computed from such values follows them.  What is cheap to
compute again (indices, masks, constants, anything repeated along an axis) has none: it is made in
each layout in which somebody asks for it.  So conversions remain only where data has to move.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING

from tegula.analysis.axisinfo import AxisInfos
from tegula.analysis.uses import users
from tegula.codegen.simt.buffers import Buffer
from tegula.codegen.simt.combine import reducible, segments
from tegula.codegen.simt.layout import Layout, axis_fields, blocked, expanded, log2
from tegula.codegen.simt.matrix import feeds_rows, planned, product_of, result_layout
from tegula.codegen.simt.products import SharedUnit, kept_buffer, origin, unit_of
from tegula.codegen.simt.registry import shared_size
from tegula.codegen.simt.shapes import concatenated
from tegula.ir.core import Block, Cloner, Function, Op, Value
from tegula.ir.opdef import SCHEDULED
from tegula.ir.types import Pointer, Tile, elem_of, shape_of

if TYPE_CHECKING:
    from tegula.codegen.simt.hooks import Simt

CHEAP = 24
"""Ops that may be computed again rather than moved."""

ACCESSES = frozenset(
    {"load", "store", "atomic_rmw", "atomic_cas", "atomic_load", "atomic_store", "async_copy"}
)


def is_tile(v: Value) -> bool:
    return isinstance(v.type, Tile)


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


# -- natural layouts


class Natural:
    """The layout in which each value comes into being; None where any will do."""

    def __init__(self, function: Function, simt: Simt, warps: int) -> None:
        self.function = function
        self.simt = simt
        self.warps = warps
        self.threads = warps * simt.warp_size
        self.axes = AxisInfos(function, indices=True)
        self.of: dict[Value, Layout | None] = {}
        self.cost: dict[Value, int] = {}
        self.units: dict[Op, SharedUnit] = {}
        """Products that a matrix unit makes from shared memory."""
        self.uses = users(function)
        self.widths = self._common_widths()

    def run(self) -> None:
        self.block(self.function.body)

    def block(self, block: Block) -> None:
        for op in block.ops:
            self.visit(op)

    def visit(self, op: Op) -> None:
        rule = _RULES.get(op.name)
        if rule is not None:
            rule(self, op)
        elif any(map(is_tile, op.results)):
            self.follow(op)

    def layout(self, v: Value) -> Layout | None:
        """The natural layout; None for scalars too."""
        return self.of.get(v)

    def wanted(self, v: Value) -> Layout:
        """The natural layout, or a plain one for what has none."""
        return self.of.get(v) or self.plain(shape_of(v.type))

    def plain(self, shape: Sequence[int], axis: int = -1) -> Layout:
        """Threads side by side along an axis (default: the last), a few elements each."""
        rank = len(shape)
        axis %= max(rank, 1)
        order = [axis, *(a for a in reversed(range(rank)) if a != axis)] if rank else []
        share = max(1, prod(shape) // self.threads)
        vector = min(4, share, shape[axis]) if rank else 1
        return self.blocked(shape, vector, order)

    def blocked(self, shape: Sequence[int], vector: int, order: Sequence[int] | None = None,
                rows: int = 1) -> Layout:
        return blocked(shape, vector, self.simt.warp_size, self.warps, order, rows)

    # -- anchors

    def order(self, ptr: Value) -> tuple[int, ...]:
        """The axes of an access from the one along which its addresses are neighbours on."""
        info = self.axes.of(ptr)
        axes = range(info.rank)
        return tuple(sorted(axes, key=lambda a: (-info.contiguity[a], -a)))

    def width(self, ptr: Value) -> int:
        """Elements that one access of a thread may take along the fastest axis."""
        e = elem_of(ptr.type)
        assert isinstance(e, Pointer)
        shape, axis = shape_of(ptr.type), self.order(ptr)[0]
        n = self.axes.vector_length(ptr, None, axis)
        n = min(n & -n, self.simt.vector_bits // 8 // shared_size(e.elem))
        return max(1, min(n, shape[axis], max(1, prod(shape) // self.threads)))

    def _common_widths(self) -> dict[tuple[tuple[int, ...], tuple[int, ...]], int]:
        """Accesses of one shape take the same number of elements each, so that they agree."""
        out: dict[tuple[tuple[int, ...], tuple[int, ...]], int] = {}
        for op in self.function.body.walk():
            if op.name in ACCESSES and is_tile(op.operands[0]):
                ptr = op.operands[0]
                key = (shape_of(ptr.type), self.order(ptr))
                out[key] = max(out.get(key, 1), self.width(ptr))
        return out

    def coalesced(self, ptr: Value) -> Layout:
        """The layout for an access through these pointers."""
        shape, order = shape_of(ptr.type), self.order(ptr)
        return self.blocked(shape, self.widths[shape, order], order)

    def access(self, ptr: Value) -> Layout:
        """The natural layout of an access: coalesced, or where the pointers are if nothing is
        gained by moving them."""
        known = self.of.get(ptr)
        if known is not None and self.axes.of(ptr).contiguity[self.order(ptr)[0]] == 1:
            return known
        return self.coalesced(ptr)

    def carried(self, v: Value) -> Layout:
        """For what a loop carries and nothing else decides: the layout of an access through it."""
        pointers = isinstance(elem_of(v.type), Pointer)
        if pointers and (shape_of(v.type), self.order(v)) in self.widths:
            return self.coalesced(v)
        return self.plain(shape_of(v.type))

    def served(self, ptr: Value, layout: Layout) -> bool:
        """Whether a store in this layout is as good as in the coalesced one."""
        e = elem_of(ptr.type)
        assert isinstance(e, Pointer)
        best = self.coalesced(ptr)
        if layout == best:
            return True
        axis = self.order(ptr)[0]
        size, limit = shared_size(e.elem), self.axes.of(ptr).contiguity[axis]
        need = min(max(1, 32 // size), _run(best, axis, limit, size))
        return _run(layout, axis, need, size) >= need

    # -- following

    def follow(self, op: Op) -> None:
        """Elementwise ops take the layout of an operand that has one."""
        found = [self.of.get(v) for v in op.operands if is_tile(v)]
        known = [x for x in found if x is not None]
        cost = 1 + sum(self.cost.get(v, 0) for v in op.operands if is_tile(v))
        layout = max(known, key=self.weight) if known else None
        if layout is None and cost > CHEAP:
            layout, cost = self.guess(op), 0
        self.give(op.results, layout, cost if layout is None else 0)

    def weight(self, layout: Layout) -> tuple[int, int]:
        """Prefer layouts with fewer copies, and later ones."""
        return (-bin(layout.free).count("1"), 0)

    def guess(self, op: Op) -> Layout:
        """For costly values that nothing ties to a layout: that of an access of the same shape."""
        shape = shape_of(op.results[0].type)
        for (known, order), width in self.widths.items():
            if known == shape:
                return self.blocked(shape, width, order)
        return self.plain(shape)

    def give(self, values: Iterable[Value], layout: Layout | None, cost: int = 0) -> None:
        for v in values:
            if is_tile(v):
                self.of[v] = layout
                self.cost[v] = cost


def _run(layout: Layout, axis: int, limit: int, size: int) -> int:
    """Neighbours along the axis that one instruction of a warp reaches: those in the first
    registers, as many as one access takes, and those of other lanes."""
    shift, bits = axis_fields(layout.shape)[axis]
    n = 0
    while (2 << n) * size <= 16 and layout.register[n : n + 1] == (1 << shift + n,):
        n += 1
    while n < bits and 1 << shift + n in layout.lane and 1 << n < limit:
        n += 1
    return 1 << n


Rule = Callable[[Natural, Op], None]
_RULES: dict[str, Rule] = {}


def _rule(*names: str) -> Callable[[Rule], Rule]:
    def enter(f: Rule) -> Rule:
        for name in names:
            _RULES[name] = f
        return f

    return enter


@_rule("constant", "splat", "arange", "broadcast")
def _any(n: Natural, op: Op) -> None:
    cost = sum(n.cost.get(v, 0) for v in op.operands)
    n.give(op.results, None, cost)


@_rule("expand_dims", "reshape", "permute")
def _renamed(n: Natural, op: Op) -> None:
    x = op.operands[0]
    layout = n.layout(x)
    if layout is not None:
        n.give(op.results, forward(op, layout))
    else:
        n.give(op.results, None, n.cost.get(x, 0) + 1)


@_rule("load", "atomic_rmw", "atomic_cas", "atomic_load")
def _load(n: Natural, op: Op) -> None:
    if is_tile(op.operands[0]):
        n.give(op.results, n.access(op.operands[0]))


@_rule("reduce")
def _reduce(n: Natural, op: Op) -> None:
    n.give(op.results, source_layout(n, op).without(op.attrs["axis"]))


@_rule("scan")
def _scan(n: Natural, op: Op) -> None:
    n.give(op.results, source_layout(n, op))


@_rule("join")
def _join(n: Natural, op: Op) -> None:
    known = [x for x in map(n.layout, op.operands) if x is not None]
    if known:
        n.give(op.results, known[0].stacked())
    else:
        n.give(op.results, None, 1 + sum(n.cost.get(v, 0) for v in op.operands))


@_rule("split")
def _split(n: Natural, op: Op) -> None:
    layout = n.layout(op.operands[0])
    if layout is None:
        n.give(op.results, None, n.cost.get(op.operands[0], 0) + 1)
    else:
        n.give(op.results, unstacked(layout) or n.plain(layout.shape[:-1]))


@_rule("cat")
def _cat(n: Natural, op: Op) -> None:
    known = [x for x in map(n.layout, op.operands) if x is not None]
    layout = known[0] if known else n.plain(shape_of(op.operands[0].type))
    n.give(op.results, concatenated(layout, op.attrs["axis"]))


@_rule("gather")
def _gather(n: Natural, op: Op) -> None:
    n.give(op.results, n.wanted(op.operands[1]))


@_rule("slice", "histogram")
def _slice(n: Natural, op: Op) -> None:
    n.give(op.results, n.plain(shape_of(op.results[0].type)))


@_rule("dot")
def _dot(n: Natural, op: Op) -> None:
    unit = unit_of(op, n.simt, n.warps)
    if unit is not None and not _readable(unit, op):
        unit = None
    if unit is not None:
        n.units[op] = unit
    n.give(op.results, unit.layout if unit is not None else dot_layout(n, op))


def _readable(unit: SharedUnit, op: Op) -> bool:
    """Whether a unit can read what was copied to shared memory for it; laying it down anew in every
    iteration costs more than the unit gains, except for narrow factors."""
    for side, v in zip("ab", op.operands):
        source, transposed = origin(v)
        load = source.owner
        if load is not None and load.name == "shared_load" and shared_size(elem_of(v.type)) > 2:
            if not unit.reads(side, load.attrs["buffer"], transposed):
                return False
    return True


@_rule("shared_load")
def _shared_load(n: Natural, op: Op) -> None:
    n.give(op.results, None)


@_rule("for")
def _for(n: Natural, op: Op) -> None:
    (body,) = op.regions
    args, inits = body.args[1:], op.group("inits")
    settled: list[Layout | None] = [n.layout(v) for v in inits]
    for _ in range(3):
        for a, layout in zip(args, settled):
            n.give([a], layout)
        n.block(body)
        ends = [n.layout(v) for v in body.terminator.operands]
        # A carried value follows what the body makes of it.
        fresh = [e if e is not None else s for s, e in zip(settled, ends)]
        if fresh == settled:
            break
        settled = fresh
    else:
        settled = fresh
    final = [s if s is not None else (n.carried(a) if is_tile(a) else None)
             for s, a in zip(settled, args)]
    for a, layout in zip(args, final):
        n.give([a], layout)
    n.block(body)
    for r, layout in zip(op.results, final):
        n.give([r], layout)


@_rule("while")
def _while(n: Natural, op: Op) -> None:
    before, after = op.regions
    layouts = [n.layout(v) for v in op.group("inits")]
    for _ in range(2):
        for a, layout in zip(before.args, layouts):
            n.give([a], layout)
        n.block(before)
        passed = [n.layout(v) for v in before.terminator.operands[1:]]
        passed = [p if p is not None else (n.plain(shape_of(a.type)) if is_tile(a) else None)
                  for p, a in zip(passed, after.args)]
        for a, layout in zip(after.args, passed):
            n.give([a], layout)
        n.block(after)
        ends = [n.layout(v) for v in after.terminator.operands]
        layouts = [e or s or (n.plain(shape_of(a.type)) if is_tile(a) else None)
                   for s, e, a in zip(layouts, ends, before.args)]
    for a, layout in zip(before.args, layouts):
        n.give([a], layout)
    n.block(before)
    n.block(after)
    for r, layout in zip(op.results, passed):
        n.give([r], layout)


@_rule("if")
def _if(n: Natural, op: Op) -> None:
    for region in op.regions:
        n.block(region)
    then, other = (r.terminator.operands for r in op.regions)
    for r, a, b in zip(op.results, then, other):
        if is_tile(r):
            n.give([r], n.layout(a) or n.layout(b) or n.plain(shape_of(r.type)))


def source_layout(n: Natural, op: Op) -> Layout:
    """The layout in which a reduction or scan takes its operands."""
    axis = op.attrs["axis"]
    known = [x for x in map(n.layout, op.operands) if x is not None]
    layout = known[0] if known else n.plain(shape_of(op.operands[0].type))
    if op.name == "reduce":
        return layout if reducible(layout, axis) else n.plain(layout.shape)
    if segments(layout, axis) is not None:
        return layout
    return n.plain(layout.shape, axis)


def dot_layout(n: Natural, op: Op) -> Layout:
    """The layout of a product whose operands are registers."""
    shape = shape_of(op.results[0].type)
    product = product_of(op, n.simt, n.warps)
    if product is not None:
        return result_layout(product.unit, shape, n.warps, feeds_rows(op, n.uses))
    share = max(1, prod(shape) // n.threads)
    columns = min(4, share, shape[-1])
    rows = min(4, max(1, share // columns), shape[-2])
    return n.blocked(shape, columns, rows=rows)


def forward(op: Op, layout: Layout) -> Layout:
    """The result's layout where the operand's registers are only renamed."""
    if op.name == "expand_dims":
        return expanded(layout, op.attrs["axis"])
    if op.name == "reshape":
        return layout.reshape(op.attrs["shape"])
    return layout.permute(op.attrs["dims"])


def unstacked(layout: Layout) -> Layout | None:
    """The layout of the halves of a tile whose last axis (of size 2) lies in a register bit."""
    if 1 not in layout.register:
        return None
    rest = tuple(b for b in layout.register if b != 1)
    others = (*rest, *layout.threads)
    if any(b & 1 for b in others):
        return None

    def halve(x: int) -> int:
        return x >> 1

    return Layout(layout.shape[:-1], tuple(map(halve, rest)), tuple(map(halve, layout.lane)),
                  tuple(map(halve, layout.warp)))


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


# -- rewriting


class Rewriter:
    """Builds the kernel anew, every tile in a definite layout."""

    def __init__(self, natural: Natural) -> None:
        self.n = natural
        self.out = Assigned(natural.function, natural.axes)
        self.made: dict[tuple[Value, Layout | None], Value] = {}
        self.depth: dict[Value, int] = {}
        self.kept: dict[tuple[Value, str, int], Buffer] = {}
        self.blocks: list[list[Op]] = []

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
        if groups["a"] or groups["b"]:  # the op's scratch may be written again right after it
            attrs["asynchronous"] = False
        acc = self.get(op.operands[2], unit.layout)
        operands = [acc, *(v for g in groups.values() for v in g)]
        segments = (1, *(len(g) for g in groups.values()))
        new = Op(SCHEDULED["shared_dot"], operands, segments, attrs, (), [acc.type], op.loc)
        self.blocks[-1].append(new)
        self.bind(op.results[0], new.results[0], unit.layout)

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
            if dot is None or not dot.attrs.get("asynchronous") or dot not in self.n.units:
                continue
            unit = self.n.units[dot]
            wait = Op(SCHEDULED["dot_wait"], (fresh,), (1,), {"unit": unit}, (), (fresh.type,))
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
            return [n.coalesced(ptr) if is_tile(v) else None for v in op.operands]
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
            regions = [self.block(r, ends=ends) for r in op.regions]
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


__all__ = ["Assigned", "Natural", "assign_layouts", "log2"]
