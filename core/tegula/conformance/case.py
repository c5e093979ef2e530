"""A case: one kernel, its inputs and what its outputs have to be. Data, and nothing but data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from tegula.conformance.values import EXACT, Rule, storage
from tegula.ir import Block, Builder, DType, Function, Module, Pointer, Type, Value
from tegula.ir.types import i32, shape_of, with_shape

Scalar = int | float


@dataclass
class Buffer:
    """Memory that a kernel gets a pointer to."""

    name: str
    dtype: DType
    data: np.ndarray
    """Flat elements before the launch."""
    writable: bool = False
    start: int = 0
    """Which element the pointer points to."""
    shift: int = 0
    """Bytes that the memory is moved off its natural alignment."""
    alias_of: str = ""
    """Another buffer whose memory this one is."""


@dataclass
class Expected:
    """What a buffer has to hold after the launch."""

    data: np.ndarray
    rule: Rule = EXACT


@dataclass
class Launch:
    """A kernel with its arguments, in the order of its parameters, and a grid."""

    module: Module
    args: list[Buffer | Scalar]
    grid: tuple[int, int, int] = (1, 1, 1)

    @property
    def buffers(self) -> list[Buffer]:
        return [a for a in self.args if isinstance(a, Buffer)]

    def fresh(self) -> dict[str, np.ndarray]:
        """Copies of all buffers' contents."""
        return {b.name: b.data.copy() for b in self.buffers}


@dataclass
class Case:
    """One kernel, its data and what has to come out."""

    launch: Launch
    expected: dict[str, Expected]
    options: Mapping[str, Any] = field(default_factory=dict)
    output: tuple[str, ...] = ()
    """Texts that the launch has to print, in order."""
    raises: str = ""
    """Name of an exception of `tegula.errors` that the launch has to end in."""


PROFILE_OF_DTYPE = {
    "f16": "f16", "bf16": "bf16", "f64": "f64", "i64": "i64", "u64": "i64",
    "f8e5": "fp8", "f8e5b16": "fp8", "f8e4nv": "fp8", "f8e4b8": "fp8", "f8e4b15": "fp8",
}  # fmt: skip
PROFILE_OF_OP = {
    "atomic_rmw": "atomics", "atomic_cas": "atomics", "atomic_load": "atomics",
    "atomic_store": "atomics", "atomic_poll": "atomics", "scan": "scan", "print": "printf",
    "make_descriptor": "descriptors", "desc_load": "descriptors", "desc_store": "descriptors",
}  # fmt: skip
PROFILES = (
    "f16", "bf16", "fp8", "f64", "i64", "atomics", "scan", "dot-mixed", "descriptors", "printf",
)  # fmt: skip
CORE_DTYPES = frozenset({"i1", "i32", "f32"})


@dataclass(frozen=True)
class Spec:
    """What is known of a case before it is made: its name and what it needs."""

    id: str
    make: Callable[[], Case]
    subjects: tuple[str, ...]
    """Ops that the case is about; only they count as covered by it."""
    dtypes: tuple[DType, ...] = ()
    """Dtypes that the case is about."""
    tags: frozenset[str] = frozenset()
    """Edges that the case stands for, where its inputs and shapes do not show them."""
    extra_profiles: frozenset[str] = frozenset()
    features: frozenset[str] = frozenset()
    """Features that the backend has to declare for the case to run."""
    full: bool = False
    """Not among what every backend must do, though its dtypes are."""

    @property
    def profiles(self) -> frozenset[str]:
        """The sets of features that the case belongs to; empty for the common core."""
        found = {PROFILE_OF_DTYPE[t.name] for t in self.dtypes if t.name in PROFILE_OF_DTYPE}
        found |= {PROFILE_OF_OP[name] for name in self.subjects if name in PROFILE_OF_OP}
        return frozenset(found) | self.extra_profiles

    @property
    def level(self) -> int:
        """2 for what every backend must do, else 3."""
        core = not self.profiles and {t.name for t in self.dtypes} <= CORE_DTYPES
        return 2 if core and not self.full and not self.features else 3


class Sketch:
    """Builds the kernel of a case together with its data."""

    def __init__(self, block: int = 64, grid: tuple[int, int, int] = (1, 1, 1)) -> None:
        self.block = block
        self.grid = grid
        self.body = Block()
        self.b = Builder(self.body)
        self.params: list[Value] = []
        self.args: list[Buffer | Scalar] = []
        self.expected: dict[str, Expected] = {}
        self.functions: list[Function] = []

    # -- parameters

    def buffer(self, name: str, dtype: DType, data: Any, **more: Any) -> Value:
        """A buffer and the pointer to it; read-only unless `writable`."""
        data = np.ascontiguousarray(np.asarray(data)).reshape(-1)
        if data.dtype != storage(dtype):
            data = data.astype(storage(dtype))
        made = Buffer(name, dtype, data, **more)
        self.args.append(made)
        return self._param(Pointer(dtype, "global", not made.writable), name)

    def out(self, name: str, dtype: DType, expected: Any, rule: Rule = EXACT, **more: Any) -> Value:
        """A buffer that the kernel writes, filled with junk first, and what it has to hold."""
        expected = np.ascontiguousarray(np.asarray(expected)).reshape(-1)
        if expected.dtype != storage(dtype):
            expected = expected.astype(storage(dtype))
        before = more.pop("before", None)
        if before is None:
            before = np.full(expected.nbytes, 0x5B, np.uint8).view(storage(dtype))
        self.expected[name] = Expected(expected, rule)
        return self.buffer(name, dtype, before, writable=True, **more)

    def scalar(self, name: str, dtype: DType, value: Scalar) -> Value:
        self.args.append(value)
        return self._param(dtype, name)

    def _param(self, t: Type, name: str) -> Value:
        value = Value(t, name)
        self.params.append(value)
        return value

    # -- code

    def constant(self, value: Scalar, shape: Sequence[int] = (), dtype: DType = i32) -> Value:
        return self.b.constant(value, with_shape(dtype, tuple(shape)))

    def flat(self, shape: Sequence[int]) -> Value:
        """0, 1, 2, ... in row-major order, as i32 of the shape."""
        b = self.b
        if not shape:
            return self.constant(0)
        line = b.arange(start=0, end=prod(shape))
        return line if len(shape) == 1 else b.reshape(line, shape=tuple(shape))

    def at(self, pointer: Value, offsets: Value) -> Value:
        """Pointers at offsets from one scalar pointer."""
        shape = shape_of(offsets.type)
        return self.b.addptr(self.b.splat(pointer, shape=shape) if shape else pointer, offsets)

    def load(self, pointer: Value, shape: Sequence[int] = ()) -> Value:
        """A whole tile from the start of a buffer."""
        return self.b.load(self.at(pointer, self.flat(shape)))

    def store(self, pointer: Value, value: Value) -> None:
        """A whole tile to the start of a buffer."""
        self.b.store(self.at(pointer, self.flat(shape_of(value.type))), value)

    def lanes(self, n: Value) -> tuple[Value, Value]:
        """Offsets of this program's block, and which of them are below n."""
        b, shape = self.b, (self.block,)
        start = b.mul(b.program_id(axis=0), self.constant(self.block))
        offsets = b.add(b.splat(start, shape=shape), b.arange(start=0, end=self.block))
        return offsets, b.cmp(offsets, b.splat(n, shape=shape), pred="lt")

    def kernel(self, name: str = "case") -> Module:
        """The finished kernel."""
        self.b.return_()
        self.body.args = self.params
        return Module([Function(name, self.body), *self.functions])

    def case(self, **more: Any) -> Case:
        """The finished case."""
        return Case(Launch(self.kernel(), self.args, self.grid), self.expected, **more)


def combine_region(kind: str, dtype: DType) -> Block:
    """The combine region of `reduce` and `scan` that applies one op."""
    block = Block([dtype, dtype])
    b = Builder(block)
    name = kind.removesuffix("nan") if kind in ("maxnan", "minnan") else kind
    attrs = {"nan": "propagate"} if kind.endswith("nan") else {}
    b.yield_([b.create(name, *block.args, **attrs)])
    return block


__all__ = [
    "EXACT",
    "Buffer",
    "Case",
    "Expected",
    "Launch",
    "Rule",
    "Sketch",
    "Spec",
    "combine_region",
]
