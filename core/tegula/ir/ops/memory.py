"""Pointers, loads, stores, atomics and tensor descriptors. Offsets count elements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..opdef import REQUIRED, check, op
from ..types import Descriptor, DType, Pointer, Tile, Type, elem_of, i1, i64, shape_of, with_elem
from .rules import mask_matches, pointee, scalar_elem, types_of

if TYPE_CHECKING:
    from ..core import Op, Value

CACHE_LOAD = ("", ".ca", ".cg", ".cs", ".cv")
CACHE_STORE = ("", ".wb", ".cg", ".cs", ".wt")
EVICT = ("", "evict_first", "evict_last", "evict_normal")
ATOMIC_KINDS = ("add", "max", "min", "and", "or", "xor", "xchg")
ORDERS = ("relaxed", "acquire", "release", "acq_rel")
LOAD_ORDERS = ("acquire", "relaxed")
STORE_ORDERS = ("release", "relaxed")
SCOPES = ("cta", "gpu", "sys")


@op("addptr", traits="pure elementwise")
class AddPtr:
    """Advance pointers by element counts. The offset is extended to 64 bits by its own sign."""

    operands = "ptr offset"

    def infer(op: Op) -> list[Type]:
        p, o = types_of(op)
        pointee(p, "addptr")
        check(scalar_elem(o, "an offset").is_int, f"offsets are integers, not {o}")
        check(shape_of(p) == shape_of(o), f"addptr: pointers {p} and offsets {o} differ in shape")
        return [p]

    def evaluate(op: Op, p: Any, o: Any) -> Any:
        size = pointee(op.operands[0].type, "addptr").itemsize
        step = np.asarray(o).astype(np.int64 if np.asarray(o).dtype.kind == "i" else np.uint64)
        return (np.asarray(p) + step.astype(np.uint64) * np.uint64(size)).astype(np.uint64)[()]


def _loaded(op: Op) -> Type:
    p = op.operands[0].type
    return with_elem(p, pointee(p, op.name))


def _check_mask(op: Op) -> None:
    mask = op.operand("mask")
    if mask is not None:
        mask_matches(mask.type, op.operands[0].type, op.name)


@op("load", effects="read")
class Load:
    """Read through pointers. Masked-off elements touch no memory and give `other`, or 0 without
    one.
    """

    operands = "ptr mask? other?"
    attrs = {"cache": "", "evict": "", "volatile": False}

    def infer(op: Op) -> list[Type]:
        t = _loaded(op)
        _check_mask(op)
        other: Value | None = op.operand("other")
        check(other is None or op.operand("mask") is not None, "load: `other` needs a mask")
        check(other is None or other.type is t, f"load: `other` must be {t}")
        check(op.attrs["cache"] in CACHE_LOAD, f"load: cache is one of {CACHE_LOAD}")
        check(op.attrs["evict"] in EVICT, f"load: evict is one of {EVICT}")
        return [t]


def _check_writable(op: Op) -> None:
    p = elem_of(op.operands[0].type)
    check(not (isinstance(p, Pointer) and p.const), f"cannot {op.name} through a constant pointer")


@op("store", effects="write")
class Store:
    """Write through pointers where the mask is set."""

    operands = "ptr value mask?"
    attrs = {"cache": "", "evict": ""}

    def infer(op: Op) -> list[Type]:
        t = _loaded(op)
        _check_mask(op)
        _check_writable(op)
        check(
            op.operands[1].type is t,
            f"store through {op.operands[0].type} needs {t}, not {op.operands[1].type}",
        )
        check(op.attrs["cache"] in CACHE_STORE, f"store: cache is one of {CACHE_STORE}")
        check(op.attrs["evict"] in EVICT, f"store: evict is one of {EVICT}")
        return []


def _check_order(op: Op) -> None:
    check(op.attrs["sem"] in ORDERS, f"{op.name}: sem is one of {ORDERS}, not {op.attrs['sem']!r}")
    check(
        op.attrs["scope"] in SCOPES,
        f"{op.name}: scope is one of {SCOPES}, not {op.attrs['scope']!r}",
    )


@op("atomic_rmw", effects="read write atomic")
class AtomicRMW:
    """Read, combine by `kind`, write, as one step; gives the old value (0 where masked off).

    Float max and min order -0.0 below 0.0 and ignore NaN operands.
    """

    operands = "ptr value mask?"
    attrs = {"kind": REQUIRED, "sem": "acq_rel", "scope": "gpu"}

    def infer(op: Op) -> list[Type]:
        t = _loaded(op)
        _check_mask(op)
        _check_writable(op)
        _check_order(op)
        check(op.attrs["kind"] in ATOMIC_KINDS, f"atomic_rmw: kind is one of {ATOMIC_KINDS}")
        check(op.operands[1].type is t, f"atomic_rmw through {op.operands[0].type} needs {t}")
        e = scalar_elem(t, "an atomic")
        check(e is not i1, "atomics of truth values do not exist: use a byte")
        check(
            not (e.is_float and op.attrs["kind"] in ("and", "or", "xor")),
            f"atomic {op.attrs['kind']} takes integers",
        )
        return [t]


@op("atomic_cas", effects="read write atomic")
class AtomicCAS:
    """Write `value` where memory equals `cmp` (bit for bit), as one step; gives the old value."""

    operands = "ptr cmp value"
    attrs = {"sem": "acq_rel", "scope": "gpu"}

    def infer(op: Op) -> list[Type]:
        t = _loaded(op)
        _check_writable(op)
        _check_order(op)
        check(
            all(v.type is t for v in op.operands[1:]),
            f"atomic_cas through {op.operands[0].type} needs {t}",
        )
        check(elem_of(t) is not i1, "atomics of truth values do not exist: use a byte")
        return [t]


def _check_atomic(op: Op, orders: tuple[str, ...]) -> Type:
    """Checks of an atomic access; the type accessed."""
    t = _loaded(op)
    check(op.attrs["sem"] in orders, f"{op.name}: sem is one of {orders}, not {op.attrs['sem']!r}")
    check(op.attrs["scope"] in SCOPES, f"{op.name}: scope is one of {SCOPES}")
    check(scalar_elem(t, "an atomic") is not i1, "atomics of truth values do not exist: use a byte")
    return t


@op("atomic_load", effects="read atomic")
class AtomicLoad:
    """Read as one step; 0 where masked off. With acquire, what the writer did before is seen."""

    operands = "ptr mask?"
    attrs = {"sem": "acquire", "scope": "gpu"}

    def infer(op: Op) -> list[Type]:
        t = _check_atomic(op, LOAD_ORDERS)
        _check_mask(op)
        return [t]


@op("atomic_store", effects="write atomic")
class AtomicStore:
    """Write as one step where the mask is set. With release, what was done before is seen by who
    reads it.
    """

    operands = "ptr value mask?"
    attrs = {"sem": "release", "scope": "gpu"}

    def infer(op: Op) -> list[Type]:
        t = _check_atomic(op, STORE_ORDERS)
        _check_mask(op)
        _check_writable(op)
        check(op.operands[1].type is t, f"atomic_store through {op.operands[0].type} needs {t}")
        return []


@op("atomic_poll", effects="read atomic")
class AtomicPoll:
    """Read one element again and again until it equals `expected` (bit for bit) or `timeout`
    nanoseconds are over; gives whether it does. Without a timeout it waits for ever.
    """

    operands = "ptr expected timeout?"
    attrs = {"sem": "acquire", "scope": "gpu"}

    def infer(op: Op) -> list[Type]:
        t = _check_atomic(op, LOAD_ORDERS)
        check(isinstance(op.operands[0].type, Pointer), "atomic_poll takes one pointer")
        check(op.operands[1].type is t, f"atomic_poll: expected must be {t}")
        timeout = op.operand("timeout")
        check(timeout is None or timeout.type is i64, "atomic_poll: the timeout is an i64")
        return [i1]


@op("make_descriptor", traits="pure")
class MakeDescriptor:
    """A descriptor of a strided tensor: base pointer, shape (ints) and strides (i64, in elements).

    `padding` (zero, nan) is what reads outside of the shape give; writes outside are dropped.
    """

    operands = "base shape* strides*"
    attrs = {"block_shape": REQUIRED, "padding": "zero"}

    def infer(op: Op) -> list[Type]:
        base, block = op.operands[0].type, tuple(op.attrs["block_shape"])
        check(isinstance(base, Pointer), f"make_descriptor takes a scalar pointer, not {base}")
        assert isinstance(base, Pointer)
        shape, strides = op.group("shape"), op.group("strides")
        check(1 <= len(block) <= 5, "a descriptor has 1 to 5 dimensions")
        check(
            len(shape) == len(strides) == len(block),
            "shape, strides and block_shape differ in length",
        )
        check(all(isinstance(v.type, DType) and v.type.is_int for v in (*shape, *strides)),
              "shape and strides are integers")  # fmt: skip
        check(op.attrs["padding"] in ("zero", "nan"), "padding is zero or nan")
        check(
            op.attrs["padding"] == "zero" or base.elem.is_float, "nan padding needs a float element"
        )
        return [Descriptor(base.elem, block)]


def _descriptor(op: Op) -> Descriptor:
    d = op.operands[0].type
    check(isinstance(d, Descriptor), f"{op.name} takes a descriptor, not {d}")
    assert isinstance(d, Descriptor)
    offsets = op.group("offsets")
    check(len(offsets) == len(d.block_shape), f"{op.name} needs {len(d.block_shape)} offsets")
    check(all(isinstance(v.type, DType) and v.type.is_int for v in offsets), "offsets are integers")
    return d


@op("desc_load", effects="read")
class DescLoad:
    """The block of a descriptor's tensor that begins at `offsets`."""

    operands = "desc offsets*"
    attrs = {"cache": "", "evict": ""}

    def infer(op: Op) -> list[Type]:
        d = _descriptor(op)
        return [Tile(d.block_shape, d.elem)]


@op("desc_store", effects="write")
class DescStore:
    """Write a block at `offsets`; what lies outside of the tensor is dropped."""

    operands = "desc value offsets*"
    attrs = {"cache": "", "evict": ""}

    def infer(op: Op) -> list[Type]:
        d = _descriptor(op)
        t = op.operands[1].type
        check(
            t is Tile(d.block_shape, d.elem),
            f"desc_store needs {Tile(d.block_shape, d.elem)}, not {t}",
        )
        return []
