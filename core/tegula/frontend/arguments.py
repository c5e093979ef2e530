"""How the runtime arguments of a kernel are described to the frontend, and flattened into
parameters.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tegula.ir.types import DType, Pointer, Type, i32, i64


@dataclass(frozen=True)
class Const:
    """A compile-time member of a tuple argument."""

    value: Any


@dataclass(frozen=True)
class HostDescriptor:
    """A tensor descriptor made on the host: its base pointer, shape and strides become
    parameters, except for the last stride, which is 1."""

    elem: DType
    block_shape: tuple[int, ...]
    padding: str = "zero"


@dataclass(frozen=True)
class HostAggregate:
    """An aggregate made on the host: its class, and its fields in order."""

    cls: type
    members: tuple[tuple[str, ArgType], ...]

    def __str__(self) -> str:
        fields = ", ".join(f"{name}: {kind}" for name, kind in self.members)
        return f"{self.cls.__module__}.{self.cls.__qualname__}({fields})"


ArgType = Any
"""An IR type, Const, None (a constant), HostDescriptor, HostAggregate, or a tuple of these."""


def flat_names(name: str, arg: ArgType) -> list[tuple[str, Type]]:
    """Parameters of the kernel that one argument becomes: names and types, in order. Constants
    become none.
    """
    if arg is None or isinstance(arg, Const):
        return []
    if isinstance(arg, HostDescriptor):
        rank = len(arg.block_shape)
        return [
            (f"{name}.base", Pointer(arg.elem)),
            *((f"{name}.shape.{i}", i32) for i in range(rank)),
            *((f"{name}.stride.{i}", i64) for i in range(rank - 1)),
        ]
    if isinstance(arg, HostAggregate):
        return [flat for n, item in arg.members for flat in flat_names(f"{name}.{n}", item)]
    if isinstance(arg, tuple):
        return [flat for i, item in enumerate(arg) for flat in flat_names(f"{name}.{i}", item)]
    return [(name, arg)]
