"""Blocks of tensors that a machine reads straight into the fragments of its matrix unit.

A load through a descriptor whose only user is a product becomes a branch: where the tensor is as
the machine wants it, each warp reads the blocks of its fragments and what is outside is zero; else
the load goes over pointers and masks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tegula.analysis.uses import users
from tegula.codegen.loops.text import Val
from tegula.codegen.simt.elementwise import from_memory
from tegula.codegen.simt.layout import Layout, log2
from tegula.codegen.simt.matrix import choose, feeds_rows, result_layout, tiling
from tegula.codegen.simt.registry import lowers
from tegula.ir.builder import Builder
from tegula.ir.core import Block, Cloner, Function, Op, Value
from tegula.ir.opdef import SCHEDULED
from tegula.ir.patterns import constant_value
from tegula.ir.types import DType, elem_of, i32, i64, shape_of

if TYPE_CHECKING:
    from tegula.codegen.simt.hooks import Simt
    from tegula.codegen.simt.kernel import Emitter

LINE = 64
"""What bases are multiples of; also the least bytes of a row."""
STEP = 16
"""What distances of rows are multiples of."""
LONGEST = 1 << 24
"""Neither sides of a tensor nor distances of rows may be longer, in bytes and rows."""


def block_loads(function: Function, simt: Simt, warps: int) -> Function:
    """The kernel with block loads where products take what descriptors load."""
    uses = users(function)
    found: dict[Op, tuple[str, Layout]] = {}
    for op in function.body.walk():
        if op.name == "desc_load" and (layout := _fragments(op, uses, simt, warps)) is not None:
            found[op] = layout
    return Cloner(_Rewriter(found).hook).function(function) if found else function


def _fragments(op: Op, uses: dict[Value, list[Op]], simt: Simt, warps: int
               ) -> tuple[str, Layout] | None:
    """Which factor of a product a load makes, and the layout in which the unit takes it."""
    made, found = op.operands[0].owner, uses.get(op.results[0], [])
    if made is None or made.name != "make_descriptor" or made.attrs["padding"] != "zero":
        return None
    if constant_value(made.group("strides")[-1]) != 1 or len(made.group("shape")) != 2:
        return None
    if len(found) != 1 or found[0].name != "dot" or op.results[0] is found[0].operands[2]:
        return None
    (dot,) = found
    a, b, acc = (elem_of(v.type) for v in dot.operands)
    assert isinstance(a, DType) and isinstance(b, DType) and isinstance(acc, DType)
    depth, shape = shape_of(dot.operands[0].type)[-1], shape_of(dot.results[0].type)
    if len(shape) != 2 or any(n & (n - 1) for n in (*shape, depth)):
        return None
    product = choose(simt, a, b, acc, dot.attrs["precision"], (*shape, depth), warps)
    if product is None or product.unit.factors != (a, b) or a.itemsize != 2:
        return None
    if any(n < least for n, least in zip((*shape, depth), product.unit.shape)):
        return None
    plan = tiling(product.unit, result_layout(product.unit, shape, warps, feeds_rows(dot, uses)),
                  depth)
    if plan is None:
        return None
    left = op.results[0] is dot.operands[0]
    return ("a", plan.a) if left else ("b", plan.b)


class _Rewriter:
    def __init__(self, found: dict[Op, tuple[str, Layout]]) -> None:
        self.found = found

    def hook(self, op: Op, cloner: Cloner) -> Sequence[Value] | None:
        if op not in self.found:
            return None
        side, layout = self.found[op]
        made, t = op.operands[0].owner, op.results[0].type
        assert made is not None
        whole = Block([])
        whole.ops = cloner.out  # what is made here stands before the branch
        b = Builder(whole, op.loc)
        fits, arguments = _surface(b, made, op, cloner)
        then, other = Block([]), Block([])
        load = Op(SCHEDULED["block_load"], arguments, (1,) * len(arguments),
                  {"side": side, "layout": layout, "type": t}, (), [t], op.loc)
        then.ops.append(load)
        plain = Op(op.opdef, cloner.values(op.operands), op.segments, op.attrs, (), [t], op.loc)
        other.ops.append(plain)
        for block, made_there in ((then, load), (other, plain)):
            with b.at(block):
                b.create("yield", [made_there.results[0]])
        return list(b.if_(fits, then, other))


def _surface(b: Builder, made: Op, op: Op, cloner: Cloner) -> tuple[Value, list[Value]]:
    """Whether the machine reads the tensor: and base, bytes of a row, rows, distance of rows in
    bytes, column and row of the block."""
    size = elem_of(op.results[0].type).itemsize  # type: ignore[union-attr]

    def wide(v: Value) -> Value:
        v = cloner.value(v)
        return v if v.type is i64 else b.cast(v, to=i64)

    def number(n: int) -> Value:
        return b.constant(n, i64)

    base = cloner.value(made.operands[0])
    rows, columns = map(wide, made.group("shape"))
    row, column = map(wide, op.group("offsets"))
    pitch = b.mul(wide(made.group("strides")[0]), number(size))
    # A base within a line counts as elements before the first column.
    before = b.and_(b.cast(base, to=i64), number(LINE - 1))
    skipped = b.div(before, number(size))
    start = b.addptr(base, b.sub(number(0), skipped))
    width = b.add(b.mul(columns, number(size)), before)
    fits = b.cmp(b.rem(before, number(4)), number(0), pred="eq")
    for x, pred, y in (
        (b.rem(pitch, number(STEP)), "eq", number(0)), (b.rem(width, number(4)), "eq", number(0)),
        (pitch, "ge", width), (pitch, "ge", number(LINE)), (pitch, "le", number(LONGEST)),
        (width, "ge", number(LINE)), (columns, "gt", number(0)), (rows, "gt", number(0)),
        (rows, "le", number(LONGEST)), (column, "ge", number(0)), (row, "ge", number(0)),
        (column, "le", number(LONGEST)), (row, "le", number(LONGEST)),
    ):  # fmt: skip
        fits = b.and_(fits, b.cmp(x, y, pred=pred))
    narrow = [b.cast(v, to=i32) for v in (width, rows, pitch, b.add(column, skipped), row)]
    return fits, [start, *narrow]


@lowers("block_load")
def _block_load(k: Emitter, op: Op) -> None:
    """One block for each fragment, at a place that all lanes agree on."""
    base, width, rows, pitch, column, row = (k.scalar(v) for v in op.operands)
    layout, side, w = k.layout(op.results[0]), op.attrs["side"], k.w
    e = elem_of(op.results[0].type)
    assert isinstance(e, DType)
    columns = layout.shape[1]
    mine = k.linear(k.warp, layout.warp)
    out: list[Val] = []
    while len(out) < layout.registers:
        at = w.pure("i32", "xor i32 {}, {}", mine, k.i32(layout.offsets[len(out)]))
        y = w.add(row, w.pure("i32", "lshr i32 {}, {}", at, k.i32(log2(columns))))
        x = w.add(column, w.pure("i32", "and i32 {}, {}", at, k.i32(columns - 1)))
        values = k.simt.load_fragment(w, side, e, base, (width, rows, pitch), (x, y))
        out += [from_memory(w, v, e) for v in values]
    k.set(op.results[0], out)
