"""The table `LOWERINGS`: for each op how it is emitted and what it needs of shared memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tegula.codegen.simt.hooks import Simt
from tegula.codegen.simt.layout import Layout
from tegula.ir.core import Op, Value
from tegula.ir.types import Pointer, ScalarType

if TYPE_CHECKING:
    from tegula.codegen.simt.kernel import Emitter


@dataclass(frozen=True)
class Context:
    """What the needs of an op depend on besides the op itself."""

    layouts: Mapping[Value, Layout]
    simt: Simt
    warps: int

    @property
    def threads(self) -> int:
        return self.warps * self.simt.warp_size


Emit = Callable[["Emitter", Op], None]
Scratch = Callable[[Op, Context], int]


@dataclass(frozen=True)
class Lowering:
    """`emit` writes the op's code. `scratch` says how many bytes of shared memory it needs while it
    runs; an op with scratch writes it, waits at a barrier of its own, and reads it."""

    emit: Emit
    scratch: Scratch


LOWERINGS: dict[str, Lowering] = {}


def no_scratch(op: Op, ctx: Context) -> int:
    return 0


def lowers(*names: str, scratch: Scratch = no_scratch) -> Callable[[Emit], Emit]:
    """Enter a function into the table under the names of its ops."""

    def enter(f: Emit) -> Emit:
        for name in names:
            LOWERINGS[name] = Lowering(f, scratch)
        return f

    return enter


def shared_size(e: ScalarType) -> int:
    """Bytes of one element in shared memory."""
    return 8 if isinstance(e, Pointer) else e.itemsize
