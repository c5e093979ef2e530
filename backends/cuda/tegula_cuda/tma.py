"""Copies of blocks by the tensor memory accelerator, and what a launch tells it of the tensors.

Facts from the PTX ISA, "Data Movement and Conversion Instructions: Tensor copy" and "mbarrier", and
from the driver's cuTensorMapEncodeTiled.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any

from tegula.codegen.loops.text import Val, Writer
from tegula.codegen.simt.hooks import SHARED
from tegula.runtime.numbers import Number, number

MAP_BYTES = 128
RANKS = 5
_DATA_TYPES = {1: 0, 2: 1, 4: 2, 8: 4}
"""The driver's number of the unsigned integers of so many bytes."""
_SWIZZLES = {16: 0, 32: 1, 64: 2, 128: 3}
_WAIT = (
    "{ .reg .pred p; again: mbarrier.try_wait.parity.shared::cta.b64 p, [$0], $1; "
    "@p bra done; bra again; done: }"
)


class TensorCopies:
    """The instructions."""

    parameter = f'ptr byval([{MAP_BYTES} x i8]) align 64 "nvvm.grid_constant"'

    def elected(self, w: Writer) -> Val:
        # The assembler knows that this is one thread: it makes no loop over the warp's threads
        # around instructions whose operands are uniform.
        text = "{ .reg .pred p; elect.sync _|p, -1; selp.b32 $0, 1, 0, p; }"
        one = w.here("i32", f'call i32 asm sideeffect "{text}", "=r"() convergent')
        return w.icmp("ne", one, w.const(0, "i32"))

    def start(self, w: Writer, barrier: Val) -> None:
        _asm(w, "mbarrier.init.shared::cta.b64 [$0], 1;", "r", barrier)

    def started(self, w: Writer) -> None:
        _asm(w, "fence.mbarrier_init.release.cluster; fence.proxy.async.shared::cta;", "")

    def expect(self, w: Writer, barrier: Val, nbytes: int) -> None:
        text = f"mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], {nbytes};"
        _asm(w, text, "r", barrier)

    def wait(self, w: Writer, barrier: Val, parity: Val) -> None:
        _asm(w, _WAIT, "r,r", barrier, parity)

    def load(self, w: Writer, to: Val, tensor: Val, places: Sequence[Val], barrier: Val) -> None:
        text = (
            f"cp.async.bulk.tensor.{len(places)}d.shared::cluster.global.tile"
            f".mbarrier::complete_tx::bytes [$0], [$1, {_list(places, 3)}], [$2];"
        )
        _asm(w, text, "r,l,r" + ",r" * len(places), to, tensor, barrier, *places)

    def store(self, w: Writer, tensor: Val, places: Sequence[Val], source: Val) -> None:
        text = (
            f"cp.async.bulk.tensor.{len(places)}d.global.shared::cta.tile.bulk_group "
            f"[$0, {_list(places, 2)}], [$1];"
        )
        _asm(w, text, "l,r" + ",r" * len(places), tensor, source, *places)

    def commit(self, w: Writer) -> None:
        _asm(w, "cp.async.bulk.commit_group;", "")

    def stored(self, w: Writer, done: bool) -> None:
        _asm(w, f"cp.async.bulk.wait_group{'' if done else '.read'} 0;", "")


def _list(places: Sequence[Val], first: int) -> str:
    return "{" + ", ".join(f"${first + i}" for i in range(len(places))) + "}"


def _asm(w: Writer, text: str, constraints: str, *operands: Val) -> None:
    operands = tuple(
        w.pure("i32", f"ptrtoint {SHARED} {{}} to i32", x) if x.ty == SHARED else x
        for x in operands
    )
    args = ", ".join(f"{x.ty} {x.text}" for x in operands)
    listed = f"{constraints},~{{memory}}" if constraints else "~{memory}"
    w.do(f'call void asm sideeffect "{text}", "{listed}"({args})')


# -------------------------------------------------------------------------------------------------
# The launch


class Map(ctypes.Structure):
    """How to encode one tensor map; lists begin at the innermost axis."""

    _fields_ = (
        ("base", ctypes.c_int32),
        ("itemsize", ctypes.c_int32),
        ("type", ctypes.c_int32),
        ("rank", ctypes.c_int32),
        ("swizzle", ctypes.c_int32),
        ("box", ctypes.c_uint32 * RANKS),
        ("steps", ctypes.c_uint32 * RANKS),
        ("sizes", Number * RANKS),
        ("strides", Number * RANKS),  # of all axes but the innermost
    )


def record(m: Mapping[str, Any]) -> Map:
    """The record for what an artifact's metadata say of a map."""
    size = int(m["itemsize"])
    out = Map(int(m["base"]), size, _DATA_TYPES[size], len(m["box"]), _SWIZZLES[m["row_bytes"]])
    out.box[: out.rank] = m["box"][::-1]
    out.steps[: out.rank] = [1] * out.rank
    for to, given in ((out.sizes, m["sizes"]), (out.strides, m["strides"])):
        for i, parts in enumerate(reversed(given)):
            to[i] = number(*parts)
    return out
