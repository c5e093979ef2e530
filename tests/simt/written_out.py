"""A device without copies of its own and without a matrix unit, with both written out: copies are
finished at once, and a product is one multiplication after the other.
"""

from __future__ import annotations

from dataclasses import dataclass

from tegula.codegen.simt.buffers import Buffer, pointer
from tegula.codegen.simt.hooks import PLAIN, packed
from tegula.codegen.simt.layout import Layout, blocked
from tegula.codegen.simt.products import Factor, SharedUnit
from tegula.ir.types import f32


def missing() -> str:
    """Why there is no device; empty where there is one."""
    from tegula.plugin.registry import registry

    backend = registry.backend("xpu")
    return "" if backend.available else f"no device: {backend.probe().reason}"


@dataclass(frozen=True)
class Written(SharedUnit):
    """A product [m, k] @ [k, n] of f32, one multiplication after the other."""

    shape: tuple[int, int, int]
    lanes: int
    warps: int

    @property
    def layout(self) -> Layout:  # type: ignore[override]
        return blocked(self.shape[:2], 1, self.lanes, self.warps)

    def reads(self, side: str, buffer: Buffer, transposed: bool) -> bool:
        return True

    def fast(self, side: str, wanted: int) -> int:
        return wanted

    def emit(self, k, acc, a: Factor, b: Factor, asynchronous: bool):
        rows, columns = k.coordinates(self.layout, 0), k.coordinates(self.layout, 1)
        out = list(acc)
        for step in range(self.shape[2]):
            at = k.i32(step)
            for r, (row, column) in enumerate(zip(rows, columns)):
                x, y = _element(k, a, row, at), _element(k, b, at, column)
                out[r] = k.w.call("llvm.fma.f32", "float", x, y, out[r])
        return out

    def wait(self, k, acc, pending):
        return list(acc)


def _element(k, f: Factor, row, column):
    """An element of a factor, its place computed step by step as the arrangement is described."""
    w, buffer = k.w, f.buffer
    if f.transposed:
        row, column = column, row
    slow, fast = (row, column) if buffer.fast == 1 else (column, row)

    def shifted(x, by: int):
        return w.pure("i32", "lshr i32 {}, {}", x, k.i32(by))

    nbytes = w.mul(fast, k.i32(buffer.elem.itemsize))
    per_row = buffer.row_bytes
    panel = shifted(nbytes, per_row.bit_length() - 1)
    within = w.pure("i32", "and i32 {}, {}", nbytes, k.i32(per_row - 1))
    plain = w.add(w.add(w.mul(panel, k.i32(buffer.panel_bytes)), w.mul(slow, k.i32(per_row))),
                  within)
    turn = w.pure("i32", "and i32 {}, {}", shifted(plain, 7), k.i32(per_row // 16 - 1))
    place = w.pure("i32", "xor i32 {}, {}", plain, w.mul(turn, k.i32(16)))
    start = f.address
    if f.slot is not None:
        start = w.add(start, w.mul(f.slot, k.i32(buffer.nbytes)))
    (x,) = k.get(pointer(k, w.add(start, place)), 1, f32)
    return x


class AsOnGpus:
    """A mixin: code as GPUs have it, though a processor runs it."""

    def in_turn(self) -> None:
        self.products_written_out = 512


def written_out(base: type, unit: bool) -> type:
    """The machine `base` with asynchronous copies, and perhaps the unit."""

    class Machine(AsOnGpus, base):  # type: ignore[misc]
        async_copies = True

        def async_copy(self, w, to, ptr, nbytes, pred):
            x = packed(w, self.load(w, ptr, "i32", nbytes // 4, pred, None, PLAIN, 4))
            w.do(f"store {x.ty} {x.text}, {to.ty} {to.text}, align 4")

        def async_commit(self, w):
            pass

        def async_wait(self, w, pending):
            pass

        def shared_unit(self, a, b, acc, shape, precision, warps):
            if not unit or {a, b, acc} != {f32}:
                return None
            return Written(shape, self.warp_size, warps)

    return Machine
