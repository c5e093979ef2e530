"""Steps that need whole tiles in buffers: sorting, counting, functions of single elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tegula.codegen.loops.buffers import Buffer
from tegula.codegen.loops.evaluate import Evaluation, Index
from tegula.codegen.loops.lanes import Uni
from tegula.codegen.loops.nest import Nest
from tegula.codegen.loops.plan import Item, Slot
from tegula.codegen.loops.sorting import permute_text, sort_text, words_sorter
from tegula.codegen.loops.text import Val
from tegula.ir.core import Op, Value
from tegula.ir.types import DType, elem_of, i8, shape_of

if TYPE_CHECKING:
    from tegula.codegen.loops.kernel import Frame, KernelEmitter


def histogram(k: KernelEmitter, frame: Frame, op: Op) -> None:
    """Clear the counters, then count element by element."""
    buffer = k.give_home(frame, op.results[0])
    w, nbytes = k.w, 4 * max(1, op.attrs["bins"])
    w.declare("llvm.memset.p0.i64", "void (ptr, i8, i64, i1)")
    w.do(f"call void @llvm.memset.p0.i64(ptr {buffer.base.text}, i8 0, i64 {nbytes}, i1 false)")
    _each(k, op, "histogram")


def map_(k: KernelEmitter, frame: Frame, op: Op) -> None:
    """Run the region once per element."""
    for r in op.results:
        k.give_home(frame, r)
    _each(k, op, "map")


def fold(k: KernelEmitter, frame: Frame, op: Op) -> None:
    """Reduce or scan one element after the other: for regions with effects or control flow."""
    w, axis, scan = k.w, op.attrs["axis"], op.name == "scan"
    shape = shape_of(op.operands[0].type)
    homes = [k.give_home(frame, r) if shape_of(r.type) else None for r in op.results]
    if 0 in shape:
        return
    (body,) = op.regions
    ev, elems = k.scalar_evaluation(), [elem_of(o.type) for o in op.operands]
    count, last = len(elems), shape[axis] - 1
    backwards = scan and op.attrs["reverse"]
    loops, prefix = k.matrix._batches(shape[:axis] + shape[axis + 1 :])

    def place(at: Uni) -> Index:
        return (*prefix[:axis], at, *prefix[axis:])

    def keep(index: Index, values: Sequence[Val]) -> None:
        for home, x, e in zip(homes, values, elems):
            if home is not None:
                ev.write(home, index, Uni(x), e)

    start = place(k.index_const(last if backwards else 0))
    first = [_element(ev, k, o, start) for o in op.operands]
    if scan:
        keep(start, first)
    loop = w.begin_loop(w.const(1, "i64"), w.const(last + 1, "i64"), w.const(1, "i64"), first,
                        True, "fold")
    at = w.sub(w.const(last, "i64"), loop.iv) if backwards else loop.iv
    index = place(Uni(at))
    given = [*loop.carried, *(_element(ev, k, o, index) for o in op.operands)]
    k.env.update(zip(body.args, given))
    nexts = [x for x in k.block(body, {}) if x is not None]
    if scan:
        keep(index, nexts)
    totals = w.end_loop(loop, nexts)
    if not scan:
        keep(prefix, totals)
    for outer in reversed(loops):
        w.end_loop(outer)
    assert len(totals) == count
    if not scan:
        k.env.update((r, x) for r, x, home in zip(op.results, totals, homes) if home is None)


def _element(ev: Evaluation, k: KernelEmitter, v: Value, index: Index) -> Val:
    """One element of a tile that lies in a buffer."""
    lane = ev.read(k.homes[v], index, elem_of(v.type))
    assert isinstance(lane, Uni)
    return lane.val


def _each(k: KernelEmitter, op: Op, kind: str) -> None:
    space = shape_of(op.operands[0].type)
    item = Item(kind, 0, op, needs=op.operands)
    Nest(k, Slot(0, space, [item], scalar=True)).emit()


# -- sorting


def sort(k: KernelEmitter, frame: Frame, op: Op) -> None:
    """Sort every row through words that hold a key's order and its place."""
    shape, axis = shape_of(op.results[0].type), op.attrs["axis"]
    e = elem_of(op.operands[0].type)
    assert isinstance(e, DType)
    spares: list[Buffer] = []
    sources = [_exact(k, v, spares) for v in op.operands]
    homes = [k.give_home(frame, r) for r in op.results]
    if 0 in shape:
        return
    bits = 64 if e.bits <= 32 else 128
    kind = "float" if e.is_float else "int" if e.is_signed else "uint"
    n, down = shape[axis], op.attrs["descending"]
    sorter, text, declares = words_sorter(bits, e.itemsize, n)
    k.add_function(sorter, text, declares)
    name = f"{sorter}_{kind}{e.bits}{'_down' if down else ''}"
    k.add_function(name, sort_text(name, kind, e, bits, down, sorter), ())
    words = [k.arena.raw(n * bits // 8, i8, (), ()) for _ in range(2)]
    w = k.w
    loops, prefix = k.matrix._batches(shape[:axis] + shape[axis + 1 :])
    index = (*prefix[:axis], k.zero_index, *prefix[axis:])
    key, key_step = k.matrix._offset(sources[0], index), sources[0].strides[axis]
    order = w.here("ptr", f"call ptr @{name}(ptr {key.text}, i64 {key_step}, "
                          f"ptr {words[0].base.text}, ptr {words[1].base.text}, i64 {n})")
    for source, home in zip(sources, homes):
        size = 8 * source.elem.itemsize if isinstance(source.elem, DType) else 64
        permute = f"permute_{size}_{bits}"
        k.add_function(permute, permute_text(permute, size, bits), ())
        a, b = k.matrix._offset(source, index), k.matrix._offset(home, index)
        w.do(f"call void @{permute}(ptr {a.text}, i64 {source.strides[axis]}, ptr {b.text}, "
             f"i64 {home.strides[axis]}, ptr {order.text}, i64 {n})")
    for loop in reversed(loops):
        w.end_loop(loop)
    for buffer in (*words, *spares):
        k.arena.release(buffer)


def _exact(k: KernelEmitter, v: Value, spares: list[Buffer]) -> Buffer:
    """A buffer that holds the value in its own element type."""
    home, e = k.homes.get(v), elem_of(v.type)
    if home is not None and home.elem is e:
        return home
    spare = k.arena.tile(shape_of(v.type), e)
    k.copy(v, spare)
    spares.append(spare)
    return spare


STEPS = {"histogram": histogram, "map": map_, "sort": sort, "reduce": fold, "scan": fold}
