"""Steps that need whole tiles in buffers: sorting, counting, functions of single elements."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tegula.codegen.loops.buffers import Buffer
from tegula.codegen.loops.nest import Nest
from tegula.codegen.loops.plan import Item, Slot
from tegula.codegen.loops.sorting import DECLARES, permute_text, sort_text, words_text
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
    name = f"sort_{kind}{e.bits}{'_down' if op.attrs['descending'] else ''}"
    k.add_function(f"sort_words_{bits}", words_text(bits), DECLARES)
    k.add_function(name, sort_text(name, kind, e, bits, op.attrs["descending"]), ())
    n = shape[axis]
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


STEPS = {"histogram": histogram, "map": map_, "sort": sort}
