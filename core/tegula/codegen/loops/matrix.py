"""Matrix products: operands are packed for the micro-kernel, which then works in place on C.

Packing is a nest like any other, so what computes an operand (loads, masks, casts, functions) is
fused with it.  An operand whose memory runs along the other dimension is packed by transposing
blocks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from tegula.codegen.loops.buffers import Buffer, round_up
from tegula.codegen.loops.dot import (
    DotPlan,
    Scheme,
    choose_blocking,
    choose_scheme,
    plan_dot,
)
from tegula.codegen.loops.evaluate import Along, Index
from tegula.codegen.loops.exprs import transposed_load
from tegula.codegen.loops.lanes import Lane, Lin, Position, Uni, mem_type, size_of
from tegula.codegen.loops.nest import Nest
from tegula.codegen.loops.plan import Item, Slot
from tegula.codegen.loops.text import Loop, Val
from tegula.codegen.loops.transpose import emit_transpose
from tegula.ir.core import Op, Value
from tegula.ir.patterns import constant_value
from tegula.ir.types import DTYPES, DType, Pointer, elem_of, shape_of

if TYPE_CHECKING:
    from tegula.codegen.loops.kernel import Frame, KernelEmitter

SHORT_ROW = 256
"""Rows of A with fewer bytes than this are packed."""

MAX_ROWS = 6
"""Most rows of a micro-kernel for which A is read in memory."""

_WORD = {1: "i8", 2: "i16", 4: "f32", 8: "f64"}
"""An element type for every size, where only bits are moved."""


class Copy(NamedTuple):
    """A tile read from `source` and written to `to`: pointers, and which dimension is rows.

    Both are linear in both dimensions where `condition` holds.
    """

    source: Value
    source_rows: int
    to: Value
    to_rows: int
    condition: Val


def holds(nest: Nest, mask: Value) -> bool:
    """Whether a mask is known to hold for the whole tile."""
    stack = [mask]
    while stack:
        v = stack.pop()
        op = v.owner
        if v in nest.known or (op is not None and constant_value(v) == 1):
            continue
        if op is None or op.name not in ("and", "splat", "broadcast", "expand_dims", "permute",
                                         "reshape", "hint"):
            return False
        stack += op.operands
    return True


class MatrixProducts:
    """Emits `dot`, and transposes of tiles in buffers."""

    def __init__(self, k: KernelEmitter) -> None:
        self.k = k
        self.w = k.w

    def fits(self, op: Op, sink: Buffer) -> bool:
        """Whether the product may be accumulated in a buffer."""
        e = elem_of(op.results[0].type)
        assert isinstance(e, DType)
        return sink.elem is _stored(e) and sink.strides[-1] == 1

    # -- the product

    def dot(self, frame: Frame, op: Op) -> None:
        k = self.k
        a, b, acc = op.operands
        *batch, m, n = shape_of(op.results[0].type)
        depth = shape_of(a.type)[-1]
        c, accumulate = self._accumulator(frame, op, acc)
        if m * n == 0 or 0 in batch:
            return
        names = [elem_of(v.type).name for v in (a, b, acc)]  # type: ignore[union-attr]
        scheme = choose_scheme(*names, k.target)
        loops, prefix = self._batches(tuple(batch))
        table = self._row_table(op, scheme) if not prefix else None
        a_buffer, a_base, lda = self._rows(a, DTYPES[scheme.a], scheme.group, scheme.bias, prefix,
                                           table)
        direct = self._direct_panel(b, DTYPES[scheme.b], n, depth, scheme.group, names, m)
        plan = plan_dot(m, n, depth, *names, k.target, accumulate=accumulate, lda=lda,
                        ldc=c.strides[-2], b_row_major=direct is not None, ldb=direct,
                        a_rows=table is not None)
        if direct is None:
            b_buffer = self._panels(b, plan, prefix)
            b_base = b_buffer.base
        else:
            b_buffer = None
            b_base = self._offset(k.homes[b], prefix)
        k.add_function(plan.name, plan.text, plan.declares)
        c_base = self._offset(c, prefix)
        self.w.do(plan.call((table.base if table else a_base).text, b_base.text, c_base.text))
        for loop in reversed(loops):
            self.w.end_loop(loop)
        for buffer in (a_buffer, b_buffer, table):
            if buffer is not None:
                k.arena.release(buffer)

    def _batches(self, batch: tuple[int, ...]) -> tuple[list[Loop], Index]:
        """Loops over the leading dimensions, and the index in them."""
        w, loops, prefix = self.w, [], []
        for size in batch:
            if size == 1:
                prefix.append(self.k.zero_index)
                continue
            loop = w.begin_loop(w.const(0, "i64"), w.const(size, "i64"), w.const(1, "i64"), (),
                                False, "batch")
            loops.append(loop)
            prefix.append(Uni(loop.iv))
        return loops, tuple(prefix)

    def _offset(self, b: Buffer, prefix: Index) -> Val:
        """Where the matrix of a batch index begins."""
        w, base = self.w, b.base
        for i, stride in zip(prefix, b.strides):
            assert isinstance(i, Uni)
            base = w.gep(mem_type(b.elem), base, w.mul(i.val, w.const(stride, "i64")))
        return base

    def _accumulator(self, frame: Frame, op: Op, acc: Value) -> tuple[Buffer, bool]:
        """The buffer of the result, and whether it holds the first value."""
        k, v = self.k, op.results[0]
        e = elem_of(v.type)
        assert isinstance(e, DType)
        sink = frame.sinks.get(v)
        constant = constant_value(acc)
        home = k.homes.get(acc)
        if constant is not None and constant == 0:
            return (sink or self._fresh(frame, v, _stored(e))), False
        slot = frame.plan._slot_of[v]
        usable = home is not None and self.fits(op, home) and frame.plan.last_use(acc) <= slot.t
        if usable and sink is not None and home is sink:
            k.homes[v] = sink
            return sink, True
        if usable and sink is None and acc in frame.owned:
            buffer = frame.owned.pop(acc)
            k.own(frame, v, buffer)
            return buffer, True
        buffer = sink or self._fresh(frame, v, _stored(e))
        k.homes[v] = buffer
        k.copy(acc, buffer)
        return buffer, True

    def _fresh(self, frame: Frame, v: Value, elem: DType) -> Buffer:
        buffer = self.k.arena.tile(shape_of(v.type), elem)
        self.k.own(frame, v, buffer)
        return buffer

    # -- operands

    def _row_table(self, op: Op, scheme: Scheme) -> Buffer | None:
        """A buffer for the addresses of A's rows, if the kernel may read them in memory.

        Short rows are better packed, and so are many at once: they would share few cache sets.
        """
        k, a = self.k, op.operands[0]
        e, load = elem_of(a.type), a.owner
        m, depth = shape_of(a.type)
        n = shape_of(op.results[0].type)[-1]
        if load is None or load.name != "load" or load.attrs["volatile"] or a in k.homes:
            return None
        if e is not DTYPES[scheme.a] or scheme.bias or depth % scheme.group:
            return None
        if k.exprs.unit_dim(a) != 1 or depth * size_of(e) < SHORT_ROW:
            return None
        if choose_blocking(m, n, scheme, k.target).rows > MAX_ROWS:
            return None
        return k.arena.raw(8 * m, DTYPES["i64"], (m,), (1,))

    def holds_rows(self, nest: Nest) -> bool:
        """Whether every element of the rows that a nest packs may be read in memory.

        That takes rows of neighbours, forwards, which no index breaks by wrapping around.
        """
        load, ev = _packed_load(nest), nest.ev
        mask = load.operand("mask")
        if nest.loose or not (mask is None or holds(nest, mask)):
            return False
        ev.position = Position(None, 0, nest.n, nest.extent)
        lane = ev.eval(load.operands[0], nest.slot.view(nest, tuple(nest.probe())))
        return isinstance(lane, Lin) and lane.m == 1

    def emit_row_addresses(self, nest: Nest) -> None:
        """Fill the table of a nest with the addresses of the rows in memory."""
        load = _packed_load(nest)

        def address(row: Val) -> Val:
            at = nest.slot.view(nest, (Uni(row), self.k.zero_index))
            lane = nest.ev.eval(load.operands[0], at)
            assert isinstance(lane, Uni)
            return lane.val

        self._fill_table(nest, address)

    def emit_packed_addresses(self, nest: Nest) -> None:
        """Fill the table of a nest with the addresses of the rows that it has packed."""
        w, buffer = self.w, self.k.destination(nest.slot.items[0])

        def address(row: Val) -> Val:
            stride = w.const(buffer.strides[0], "i64")
            return w.gep(mem_type(buffer.elem), buffer.base, w.mul(row, stride))

        self._fill_table(nest, address)

    def _fill_table(self, nest: Nest, address: Callable[[Val], Val]) -> None:
        w, table = self.w, nest.slot.table
        rows = w.const(nest.slot.space[0], "i64")
        loop = w.begin_loop(w.const(0, "i64"), rows, w.const(1, "i64"), (), False, "address")
        at = address(loop.iv)
        place = w.gep("i64", table.base, loop.iv)
        w.do(f"store ptr {at.text}, ptr {place.text}, align 8")
        w.end_loop(loop)

    def _rows(self, v: Value, e: DType, group: int, bias: int, prefix: Index,
              table: Buffer | None) -> tuple[Buffer | None, Val, int]:
        """A in rows: its own buffer if that is fit, else packed.  Buffer to release, base, ld."""
        k, w = self.k, self.w
        m, depth = shape_of(v.type)[-2:]
        home = k.homes.get(v)
        if home is not None and home.elem is e and home.strides[-1] == 1 and not bias and (
                depth % group == 0):
            return None, self._offset(home, prefix), home.strides[-2]
        ld = k.arena.tile((1, depth), e)
        k.arena.release(ld)
        length = round_up(max(ld.strides[-2], depth), group)
        buffer = k.arena.raw(m * length * e.itemsize, e, (m, depth), (length, 1))
        if depth % group:
            self._clear(buffer)
        self._pack_nest(v, (m, depth), buffer, lambda nest, i: (*prefix, *i), table=table)
        if bias:
            self._add_bias(buffer, m * length)
        assert w is k.w
        return buffer, buffer.base, length

    def _clear(self, buffer: Buffer) -> None:
        self.w.declare("llvm.memset.p0.i64", "void (ptr, i8, i64, i1)")
        self.w.do(f"call void @llvm.memset.p0.i64(ptr {buffer.base.text}, i8 0, "
                  f"i64 {buffer.nbytes}, i1 false)")

    def _add_bias(self, buffer: Buffer, count: int) -> None:
        """Turn signed bytes into unsigned ones by adding 128."""
        w, n = self.w, 16
        loop = w.begin_loop(w.const(0, "i64"), w.const(round_up(count, n), "i64"),
                            w.const(n, "i64"), (), False, "bias")
        p = w.gep("i8", buffer.base, loop.iv)
        ty = f"<{n} x i8>"
        x = w.here(ty, f"load {ty}, ptr {p.text}, align 1")
        y = w.here(ty, f"xor {ty} {x.text}, splat (i8 -128)")
        w.do(f"store {ty} {y.text}, ptr {p.text}, align 1")
        w.end_loop(loop)

    def _pack_nest(self, v: Value, space: tuple[int, ...], buffer: Buffer, view: object,
                   vdim: int | None = None, table: Buffer | None = None) -> None:
        """A nest that writes `v` to a buffer of another shape."""
        key = ("pack", id(buffer), v)
        self.k.targets[key] = buffer
        item = Item("write", 0, None, v, key, (v,))
        slot = Slot(0, space, [item], vdim=len(space) - 1 if vdim is None else vdim, view=view,
                    table=table)
        self._emit(slot)
        del self.k.targets[key]

    def _emit(self, slot: Slot) -> None:
        """The nest of a slot that packs."""
        self.k.prefetch.active = True
        Nest(self.k, slot).emit()
        self.k.prefetch.active = False

    def _direct_panel(self, v: Value, e: DType, n: int, depth: int, group: int,
                      names: list[str], m: int) -> int | None:
        """Leading dimension of B if the kernel may read it where it lies."""
        home = self.k.homes.get(v)
        if home is None or group != 1 or home.elem is not e or home.strides[-1] != 1:
            return None
        plan = plan_dot(m, n, depth, *names, self.k.target)
        return home.strides[-2] if n <= plan.b.nr else None

    def _panels(self, v: Value, plan: DotPlan, prefix: Index) -> Buffer:
        """B in panels of `nr` columns, packed."""
        k, b = self.k, plan.b
        depth, n = shape_of(v.type)[-2:]
        e = DTYPES[b.elem]
        buffer = k.arena.raw(b.bytes, e, (), ())
        source = self._transposed_source(v, e, prefix)
        if source is not None and depth % b.group == 0:
            self._transpose_panels(source, plan, buffer, n, depth)
            if source.offset >= 0 and k.homes.get(v) is not source:
                if source not in k.homes.values():
                    k.arena.release(source)
            return buffer
        full, rest = divmod(n, b.nr)
        if full:
            self._panel_nests(v, plan, buffer, 0, full, b.nr, depth, prefix)
        if rest:
            self._panel_nests(v, plan, buffer, full, 1, rest, depth, prefix)
        return buffer

    def _panel_nests(self, v: Value, plan: DotPlan, buffer: Buffer, first: int, count: int,
                     width: int, depth: int, prefix: Index) -> None:
        """Pack `count` panels of `width` columns, from panel `first` on."""
        g = plan.b.group
        whole, rest = divmod(depth, g)
        if whole:
            self._panel_nest(v, plan, buffer, first, count, width, 0, whole, g, prefix)
        if rest:
            self._panel_nest(v, plan, buffer, first, count, width, whole, 1, rest, prefix)

    def _panel_nest(self, v: Value, plan: DotPlan, buffer: Buffer, first: int, count: int,
                    width: int, k0: int, steps: int, valid: int, prefix: Index) -> None:
        k, w, b = self.k, self.w, plan.b
        g = b.group
        at = w.gep(mem_type(buffer.elem), buffer.base, w.const(
            first * b.panel_stride + k0 * b.nr * g, "i64"))
        target = Buffer(at, buffer.elem, (count, steps, width), (b.panel_stride, b.nr * g, g))
        columns: dict[Lane, Val] = {}
        rows: dict[tuple[Lane, int], Uni] = {}

        def view(nest: Nest, index: Index, i: int = 0) -> Index:
            panel, step, along = index
            base = columns.get(panel)
            if base is None:
                assert isinstance(panel, Uni)
                base = w.add(w.mul(panel.val, w.const(b.nr, "i64")), w.const(first * b.nr, "i64"))
                columns[panel] = base
            row = rows.get((step, i))
            if row is None:
                assert isinstance(step, Uni)
                row = Uni(w.add(w.mul(step.val, w.const(g, "i64")), w.const(k0 * g + i, "i64")))
                rows[step, i] = row
            if isinstance(along, Uni):
                return (*prefix, row, Uni(w.add(base, along.val)))
            assert isinstance(along, Lin)
            return (*prefix, row, Along(w.add(base, along.base), along.m))

        if g == 1:
            self._pack_nest(v, (count, steps, width), target, view)
            return
        key = (("panel", id(target)), g, valid)
        k.targets[key] = target
        item = Item("panel", 0, None, v, key, (v,))
        self._emit(Slot(0, (count, steps, width), [item], vdim=2, view=view))
        del k.targets[key]

    # -- transposes

    def _transposed_source(self, v: Value, e: DType, prefix: Index) -> Buffer | None:
        """B's columns as rows of a buffer, if its memory runs along K."""
        k = self.k
        op = v.owner
        depth, n = shape_of(v.type)[-2:]
        if prefix or depth < 8 or n < 8 or v in k.homes or k.exprs.is_cheap(v):
            return None
        if op is not None and op.name == "permute" and tuple(op.attrs["dims"]) == (1, 0):
            x = op.operands[0]
            home = k.homes.get(x)
            if home is not None:
                return home if home.elem is e and home.strides[1] == 1 else None
            if k.exprs.unit_dim(x) != 1:
                return None
            buffer = k.arena.tile((n, depth), e)
            self._pack_nest(x, (n, depth), buffer, lambda nest, i: i)
            return buffer
        if k.exprs.unit_dim(v) == 0:
            buffer = k.arena.tile((depth, n), e, 0)
            self._pack_nest(v, (depth, n), buffer, lambda nest, i: i, vdim=0)
            return Buffer(buffer.base, e, (n, depth), (buffer.strides[1], 1), buffer.offset,
                          buffer.nbytes)
        return None

    def _transpose_panels(self, source: Buffer, plan: DotPlan, buffer: Buffer, n: int,
                          depth: int) -> None:
        """Every panel from `nr` rows of the source."""
        w, b = self.w, plan.b
        size = size_of(buffer.elem) * b.group
        ld = source.strides[0] // b.group
        full, rest = divmod(n, b.nr)
        if full:
            loop = w.begin_loop(w.const(0, "i64"), w.const(full, "i64"), w.const(1, "i64"), (),
                                False, "panel")
            self._one_transpose(b.nr, depth // b.group, size, source, loop.iv, b.nr, ld, buffer,
                                b.panel_stride, b.nr)
            w.end_loop(loop)
        if rest:
            self._one_transpose(rest, depth // b.group, size, source, w.const(full, "i64"), b.nr,
                                ld, buffer, b.panel_stride, b.nr)

    def _one_transpose(self, rows: int, cols: int, size: int, source: Buffer, panel: Val, nr: int,
                       lds: int, dest: Buffer, stride: int, ldd: int) -> None:
        w = self.w
        src = w.gep(mem_type(source.elem), source.base,
                    w.mul(panel, w.const(nr * source.strides[0], "i64")))
        dst = w.gep(mem_type(dest.elem), dest.base, w.mul(panel, w.const(stride, "i64")))
        self.transpose(rows, cols, size, src, lds, dst, ldd)

    def transpose(self, rows: int, cols: int, size: int, src: Val, lds: int | Val, dst: Val,
                  ldd: int | Val) -> None:
        """Call the function that transposes rows x cols elements of `size` bytes."""
        t = emit_transpose(rows, cols, _WORD[size], self.k.target)
        self.k.add_function(t.name, t.text, tuple(t.declares))
        a, b = (x.text if isinstance(x, Val) else x for x in (lds, ldd))
        self.w.do(f"call void @{t.name}(ptr {src.text}, i64 {a}, ptr {dst.text}, i64 {b})")

    def copy_of(self, nest: Nest) -> Copy | None:
        """What to move, if all that a nest does is to store a tile it loads, the other way round.

        The store runs along dimension 1 of its tile and the load along dimension 0.
        """
        items, x = nest.slot.items, self.k.exprs
        if len(items) != 1 or items[0].kind != "store" or len(nest.slot.space) != 2:
            return None
        store = items[0].op
        assert store is not None
        value, turned = transposed_load(store.operands[1])
        load = value.owner
        if load is None or value in self.k.homes or not all(
                holds(nest, m) for op in (store, load) if (m := op.operand("mask")) is not None):
            return None
        to, source = store.operands[0], load.operands[0]
        along, across = (1, 0) if turned else (0, 1)
        if (x.stride(to, 1), x.stride(source, along)) != (1, 1) or None in (
                x.stride(to, 0), x.stride(source, across)):
            return None
        linear = [nest.wrapping.everywhere(p) for p in (source, to)]
        if linear[0] is None or linear[1] is None:
            return None
        return Copy(source, across, to, 0, self.w.both(linear[0], linear[1]))

    def emit_copy(self, nest: Nest, copy: Copy) -> None:
        """Move the tile by transposing blocks."""
        src, lds = self._rows_of(nest, copy.source, copy.source_rows)
        dst, ldd = self._rows_of(nest, copy.to, copy.to_rows)
        cols, rows = nest.slot.space
        pointer = elem_of(copy.to.type)
        assert isinstance(pointer, Pointer)
        self.transpose(rows, cols, size_of(pointer.elem), src, lds, dst, ldd)

    def _rows_of(self, nest: Nest, ptr: Value, dim: int) -> tuple[Val, Val]:
        """Where a tile of pointers begins, and how far apart its rows are."""
        k, w = self.k, self.w
        one = [k.zero_index] * 2
        one[dim] = k.index_const(1 if shape_of(ptr.type)[dim] > 1 else 0)
        first = nest.ev.eval(ptr, (k.zero_index, k.zero_index))
        second = nest.ev.eval(ptr, tuple(one))
        assert isinstance(first, Uni) and isinstance(second, Uni)
        pointer = elem_of(ptr.type)
        assert isinstance(pointer, Pointer)
        a, b = (w.pure("i64", "ptrtoint ptr {} to i64", x.val) for x in (first, second))
        shift = size_of(pointer.elem).bit_length() - 1
        return first.val, w.pure("i64", f"ashr exact i64 {{}}, {shift}", w.sub(b, a))

    def transpose_home(self, frame: Frame, v: Value, fastest: int) -> None:
        """Replace the buffer of a matrix by one in which the other dimension is contiguous."""
        k = self.k
        old = k.homes[v]
        rows, cols = shape_of(v.type) if fastest == 0 else shape_of(v.type)[::-1]
        if old.strides[fastest] == 1:
            return
        new = k.arena.tile(shape_of(v.type), old.elem, fastest)
        other = 1 - fastest
        self.transpose(rows, cols, size_of(old.elem), old.base, old.strides[fastest], new.base,
                       new.strides[other])
        k.arena.release(frame.owned.pop(v))
        k.own(frame, v, new)


def _packed_load(nest: Nest) -> Op:
    """The load whose rows a nest packs."""
    value = nest.slot.items[0].value
    assert value is not None and value.owner is not None
    return value.owner


def _stored(e: DType) -> DType:
    """The dtype in which products of accumulator dtype `e` lie in memory."""
    if e.is_float:
        return DTYPES["f32"] if e.bits < 32 else e
    return e if e.bits >= 32 else DTYPES["i32"]
