"""The layout in which every tile comes into being: the class `Natural`.

Accesses to memory get a layout that is wide and coalesced, products that of the matrix unit, and
what is computed from such values follows them. What is cheap to compute again (indices, masks,
constants, anything repeated along an axis) has none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import prod
from typing import TYPE_CHECKING

from tegula.analysis.axisinfo import AxisInfos
from tegula.analysis.uses import users
from tegula.codegen.simt.combine import reducible, segments
from tegula.codegen.simt.layout import Layout, axis_fields, blocked, expanded
from tegula.codegen.simt.matrix import feeds_rows, product_of, result_layout
from tegula.codegen.simt.products import SharedUnit, origin, unit_of
from tegula.codegen.simt.registry import shared_size
from tegula.codegen.simt.shapes import concatenated
from tegula.ir.core import Block, Function, Op, Value
from tegula.ir.types import Pointer, Tile, elem_of, shape_of

if TYPE_CHECKING:
    from tegula.codegen.simt.hooks import Simt

CHEAP = 24
"""Ops that may be computed again rather than moved."""

SMALLEST_COPY = 4
"""Bytes that one asynchronous copy moves at least."""

ACCESSES = frozenset(
    {"load", "store", "atomic_rmw", "atomic_cas", "atomic_load", "atomic_store", "async_copy"}
)


def is_tile(v: Value) -> bool:
    return isinstance(v.type, Tile)


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

    def copying(self, ptr: Value) -> Layout:
        """The layout for copies that run by themselves: they move 4 bytes or more, though threads
        be left over."""
        e = elem_of(ptr.type)
        assert isinstance(e, Pointer)
        shape, order = shape_of(ptr.type), self.order(ptr)
        width = max(self.widths[shape, order], SMALLEST_COPY // shared_size(e.elem))
        return self.blocked(shape, width, order)

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


@_rule("inline_asm")
def _assembly(n: Natural, op: Op) -> None:
    """It runs where it stands, once, so its results are in one layout."""
    n.follow(op)
    if any(is_tile(r) and n.layout(r) is None for r in op.results):
        n.give(op.results, n.guess(op))


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


@_rule("dot_wait")
def _dot_wait(n: Natural, op: Op) -> None:
    n.give(op.results, n.layout(op.operands[0]))


@_rule("shared_load")
def _shared_load(n: Natural, op: Op) -> None:
    n.give(op.results, None)


@_rule("block_load")
def _block_load(n: Natural, op: Op) -> None:
    n.give(op.results, op.attrs["layout"])


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
