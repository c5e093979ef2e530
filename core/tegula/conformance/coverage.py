"""What the cases cover, measured on the cases themselves, against what the op table asks for.

Required are, all derived from the declarations of the ops:

- `op.dtype` for every op and every dtype that it can be built with;
- `op.cast:from->to` for every pair that a cast accepts, by rounding;
- `op{attribute=value}` for every attribute and every value that it may take;
- `op:shape` for scalars, one element, no elements, several dimensions, where the op takes them;
- `op.kind:edge` for the values where implementations go wrong: zeros of both signs, denormals, NaN,
  infinities, the extremes of integers;
- `op:memory` for masks, masked ends, strides, alignment, order, aliases and far offsets.

A case covers only what it is about: ops among its subjects.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from tegula.conformance.case import Case, Spec
from tegula.conformance.catalog import all_specs
from tegula.conformance.needs import dtype_of, subject_dtype
from tegula.conformance.samples import STRUCTURAL, is_foreign, signatures
from tegula.conformance.values import bits_of
from tegula.ir import DTYPES, OPS, Op
from tegula.ir.ops.arith import NAN_RULES, PREDICATES
from tegula.ir.ops.debug import HINTS
from tegula.ir.ops.memory import (
    ATOMIC_KINDS,
    CACHE_LOAD,
    CACHE_STORE,
    EVICT,
    LOAD_ORDERS,
    ORDERS,
    SCOPES,
    STORE_ORDERS,
)
from tegula.ir.ops.reduce import PRECISIONS
from tegula.ir.types import DType, Tile, shape_of

FREE = "any value"
"""Stands for attributes whose values are data: constants, shapes, names, messages."""

VALUES: dict[tuple[str, str], tuple[Any, ...] | str] = {
    ("constant", "value"): FREE, ("constant", "type"): FREE, ("arange", "start"): FREE,
    ("arange", "end"): FREE, ("splat", "shape"): FREE, ("broadcast", "shape"): FREE,
    ("reshape", "shape"): FREE, ("expand_dims", "axis"): (0, 1, 2), ("permute", "dims"): FREE,
    ("cat", "axis"): (0, 1, 2), ("min", "nan"): NAN_RULES, ("max", "nan"): NAN_RULES,
    ("cmp", "pred"): PREDICATES, ("cast", "to"): FREE, ("cast", "rounding"): ("rtne", "rtz"),
    ("bitcast", "to"): FREE, ("select", "unlikely"): (False, True),
    ("load", "cache"): CACHE_LOAD, ("load", "evict"): EVICT,
    ("load", "volatile"): (False, True), ("store", "cache"): CACHE_STORE,
    ("store", "evict"): EVICT, ("atomic_rmw", "kind"): ATOMIC_KINDS,
    ("atomic_rmw", "sem"): ORDERS, ("atomic_rmw", "scope"): SCOPES, ("atomic_cas", "sem"): ORDERS,
    ("atomic_cas", "scope"): SCOPES, ("atomic_load", "sem"): LOAD_ORDERS,
    ("atomic_load", "scope"): SCOPES, ("atomic_store", "sem"): STORE_ORDERS,
    ("atomic_store", "scope"): SCOPES, ("atomic_poll", "sem"): LOAD_ORDERS,
    ("atomic_poll", "scope"): SCOPES, ("make_descriptor", "block_shape"): FREE,
    ("make_descriptor", "padding"): ("zero", "nan"), ("desc_load", "cache"): CACHE_LOAD,
    ("desc_load", "evict"): EVICT, ("desc_store", "cache"): CACHE_STORE,
    ("desc_store", "evict"): EVICT, ("reduce", "axis"): (0, 1, 2), ("scan", "axis"): (0, 1, 2),
    ("scan", "reverse"): (False, True), ("dot", "precision"): PRECISIONS,
    ("for", "stages"): FREE, ("for", "unroll"): FREE, ("for", "hints"): FREE,
    ("call", "callee"): FREE, ("call", "types"): FREE, ("program_id", "axis"): (0, 1, 2),
    ("num_programs", "axis"): (0, 1, 2), ("print", "prefix"): FREE, ("print", "hex"): (False, True),
    ("slice", "starts"): FREE, ("slice", "steps"): FREE, ("slice", "shape"): FREE,
    ("flip", "axis"): (0, 1, 2), ("gather", "axis"): (0, 1, 2), ("sort", "axis"): (0, 1, 2),
    ("sort", "descending"): (False, True), ("histogram", "bins"): FREE,
    ("assert", "message"): FREE, ("hint", "kind"): HINTS, ("hint", "values"): FREE,
}  # fmt: skip
"""The values of every attribute. One that is missing here counts as uncovered."""

FLOAT_EDGES = ("nan", "inf", "zero", "negative zero", "denormal", "largest")
INT_EDGES = ("zero", "lowest", "highest")
MEMORY_EDGES = {
    "load": ("masked", "tail", "wild", "unaligned", "strided", "gather", "empty", "scalar",
             "order", "overlap", "alias", "huge"),
    "store": ("masked", "tail", "wild", "unaligned", "strided", "gather", "empty", "scalar",
              "order", "overlap", "alias", "huge"),
    "addptr": ("huge", "strided", "unaligned", "scalar"),
    "atomic_rmw": ("masked", "tail", "scalar", "collision", "gather", "order"),
    "atomic_cas": ("scalar", "collision"), "atomic_load": ("masked", "scalar"),
    "atomic_store": ("masked", "scalar"), "atomic_poll": ("scalar",),
}  # fmt: skip
SHAPES = ("scalar", "one", "empty", "dimensions")


@dataclass
class Coverage:
    """What is asked for and what there is."""

    required: list[str]
    covered: set[str]

    @property
    def missing(self) -> list[str]:
        return [key for key in self.required if key not in self.covered]

    def to_json(self) -> dict[str, Any]:
        return {"required": len(self.required), "missing": self.missing}


def measure() -> Coverage:
    """Make every case and look at it."""
    covered: set[str] = set()
    with np.errstate(all="ignore"):
        for spec in all_specs():
            covered.update(covered_by(spec, spec.make()))
    return Coverage(list(dict.fromkeys(required())), covered)


# -------------------------------------------------------------------------------------------------
# What is asked for


def required() -> Iterator[str]:
    """All keys, from the declarations."""
    for name, dtype in signatures():
        if not _no_meaning(name, dtype):
            yield f"{name}.{dtype}"
    for name in OPS:
        if is_foreign(name):
            continue
        if name in STRUCTURAL:
            yield name
        for attribute in OPS[name].attrs:
            values = VALUES.get((name, attribute), ("?",))
            for value in (FREE,) if values is FREE else values:
                yield f"{name}{{{attribute}={value}}}"
        for edge in MEMORY_EDGES.get(name, ()):
            yield f"{name}:{edge}"
    yield from _casts()
    yield from _value_edges()
    yield from _shape_edges()


def _no_meaning(name: str, dtype: DType) -> bool:
    """Combinations that the IR lets through and that mean nothing to anybody."""
    if name == "bitcast":
        return dtype.name == "i1"  # nothing else has one bit
    return name in ("print", "hint", "while", "if") and dtype.name != "i32"


def _casts() -> Iterator[str]:
    known = [t for t in DTYPES.values() if t.name != "f8e4b15"]
    for source in known:
        for to in known:
            yield f"cast.{source}->{to}"
            if source.is_float and to.is_float and to.bits < source.bits:
                yield f"cast.{source}->{to}.rtz"


def _elementwise() -> Iterator[tuple[str, DType]]:
    for name, dtype in signatures():
        if OPS[name].elementwise and name not in ("constant", "addptr"):
            yield name, dtype


def _value_edges() -> Iterator[str]:
    for name, dtype in _elementwise():
        if dtype.name == "i1":
            continue
        for edge in FLOAT_EDGES if dtype.is_float else INT_EDGES:
            if edge == "inf" and dtype.name in ("f8e4nv", "f8e5b16", "f8e4b8"):
                continue
            if edge == "negative zero" and dtype.name in ("f8e5b16", "f8e4b8"):
                continue
            yield f"{name}.{dtype}:{edge}"


def _shape_edges() -> Iterator[str]:
    moves = {
        "splat": ("one", "empty", "dimensions"), "broadcast": SHAPES[1:],
        "expand_dims": ("empty", "dimensions"), "reshape": SHAPES, "permute": SHAPES[1:],
        "cat": SHAPES[1:], "join": SHAPES, "split": ("one", "empty", "dimensions"),
        "reduce": ("one", "empty", "dimensions"), "scan": ("one", "empty", "dimensions"),
        "slice": SHAPES[1:], "flip": SHAPES[1:], "gather": SHAPES[1:], "sort": SHAPES[1:],
        "map": SHAPES[1:],
        "histogram": ("empty", "dimensions"), "dot": ("empty", "one", "dimensions"),
        "arange": ("one", "empty"),
    }  # fmt: skip
    for name in dict.fromkeys(n for n, _ in _elementwise()):
        for shape in SHAPES:
            yield f"{name}:{shape}"
    for name, shapes in moves.items():
        for shape in shapes:
            yield f"{name}:{shape}"


# -------------------------------------------------------------------------------------------------
# What there is


def covered_by(spec: Spec, case: Case) -> Iterator[str]:
    """Keys that a case covers."""
    edges = list(_edges_of(case))
    for function in case.launch.module.functions.values():
        for op in function.body.walk():
            if op.name not in spec.subjects:
                continue
            yield op.name
            dtype = _about(op)
            if dtype:
                yield f"{op.name}.{dtype}"
                for owner, edge in edges:
                    if owner == dtype:
                        yield f"{op.name}.{dtype}:{edge}"
            for attribute, value in op.attrs.items():
                yield f"{op.name}{{{attribute}={value}}}"
                yield f"{op.name}{{{attribute}={FREE}}}"
            for shape in _shapes_of(op):
                yield f"{op.name}:{shape}"
            if op.name == "cast":
                yield from _cast_keys(op)
    for name in spec.subjects:
        for tag in spec.tags:
            yield f"{name}:{tag}"


def _about(op: Op) -> str:
    if op.name == "addptr":
        return dtype_of(op.operands[1]).name
    return subject_dtype(op)


def _cast_keys(op: Op) -> Iterator[str]:
    source, to = dtype_of(op.operands[0]), op.attrs["to"]
    if isinstance(to, DType):
        suffix = ".rtz" if op.attrs["rounding"] == "rtz" else ""
        yield f"cast.{source}->{to}{suffix}"


def _shapes_of(op: Op) -> Iterator[str]:
    for value in (*op.operands, *op.results):
        shape = shape_of(value.type)
        if not isinstance(value.type, Tile):
            yield "scalar"
        elif 0 in shape:
            yield "empty"
        elif all(n == 1 for n in shape):
            yield "one"
        if len(shape) > 1:
            yield "dimensions"


def _edges_of(case: Case) -> Iterable[tuple[str, str]]:
    """Edge values among the inputs, by dtype."""
    for buffer in case.launch.buffers:
        if buffer.writable and buffer.name in case.expected and buffer.name.startswith("out"):
            continue
        t, data = buffer.dtype, buffer.data
        if not data.size:
            continue
        if t.is_int:
            for edge, value in (("zero", 0), ("lowest", t.min_value), ("highest", t.max_value)):
                if (data == np.array(value).astype(data.dtype)).any():
                    yield t.name, edge
            continue
        yield from ((t.name, edge) for edge in _float_edges(t, data))


def _float_edges(t: DType, data: np.ndarray) -> Iterator[str]:
    with np.errstate(all="ignore"):
        wide = data.astype(np.float64)
    bits = bits_of(data)
    magnitude = bits & bits.dtype.type((1 << (t.bits - 1)) - 1)
    finite = np.isfinite(wide)
    if np.isnan(wide).any():
        yield "nan"
    if np.isinf(wide).any():
        yield "inf"
    if (bits == 0).any():
        yield "zero"
    if ((magnitude == 0) & (bits != 0) & (wide == 0)).any():
        yield "negative zero"
    if ((magnitude > 0) & (magnitude < (1 << t.mantissa)) & finite).any():
        yield "denormal"
    from tegula.conformance.reference import largest

    if (np.abs(wide[finite]) == largest(t)).any():
        yield "largest"
