"""From bound arguments to what a kernel is compiled for.

Every argument becomes a *leaf* or, for tuples, a tree of leaves: a pointer to a dtype, a scalar of
a dtype, or a constant. The rules are the language's:

    int            1 is a constant; else i32, i64 or u64 by its value, and whether 16 divides it
    bool, float    i1, f32 (as numpy's float64 scalars too: they are Python floats); never by value
    numpy scalar   its own dtype; ints of 32 and 64 bits by value, as Python's
    array          pointer to its dtype, const if read-only, and whether 16 divides its address
    None, a kernel function, a dtype, anything annotated constexpr: a constant
    tuple          member by member

An annotation that names a type fixes it: the value has to fit, and 1 is no constant.
`do_not_specialize` turns off everything that depends on a value, `do_not_specialize_on_alignment`
divisibility alone.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tegula.errors import ArgumentError, ArgumentOverflowError
from tegula.frontend.function import DeviceFunction
from tegula.ir import types as ir
from tegula.runtime import arguments
from tegula.runtime.arguments import Array
from tegula.runtime.descriptor import TensorDescriptor, slot_offsets
from tegula.runtime.dispatch_tables import (
    FROM_ARGUMENTS,
    FROM_STORED,
    ITSELF,
    Entry,
    Flag,
    Kind,
)
from tegula.runtime.parameters import KernelParam

INT32 = (-(1 << 31), (1 << 31) - 1)
INT64 = (-(1 << 63), (1 << 63) - 1)
UINT64_MAX = (1 << 64) - 1

ArgType = Any
"""An IR type, None for a constant, or a tuple of these."""


@dataclass(slots=True)
class Specialized:
    """All arguments of one launch, specialised."""

    key: list[Any] = field(default_factory=list)
    types: dict[str, ArgType] = field(default_factory=dict)
    """By parameter; what `compile_function` takes."""
    constants: dict[str, Any] = field(default_factory=dict)
    attrs: dict[str, dict[str, Any]] = field(default_factory=dict)
    values: list[Any] = field(default_factory=list)
    """What the kernel gets, in slot order: an `Array` or a number."""
    slots: dict[str, ir.Type] = field(default_factory=dict)
    """Types of the slots, by the name of the parameter, and of its member behind a dot."""
    entries: list[Entry] = field(default_factory=list)
    entry_of_slot: list[int] = field(default_factory=list)
    native: bool = True
    """Whether the dispatcher can check and pack all of it."""

    @property
    def arrays(self) -> list[Array]:
        return [v for v in self.values if isinstance(v, Array)]


class Specializer:
    """Builds a `Specialized`, one parameter at a time."""

    def __init__(self) -> None:
        self.out = Specialized()

    def add(self, param: KernelParam, value: Any, source: int, parent: int) -> None:
        """Specialise the argument of one parameter, which the dispatcher finds at `source`."""
        out = self.out
        if param.is_constexpr:
            out.constants[param.name] = constexpr_value(value)
            out.key.append(("=", constant_identity(out.constants[param.name])))
            self._constant(value, source, parent)
            return
        kind = self._value(param, param.name, value, source, parent)
        if kind is not None:
            out.types[param.name] = kind

    def add_members(self, param: KernelParam, values: Sequence[Any], first_source: int) -> None:
        """Specialise what a `*parameter` collected: a tuple that the caller did not make."""
        self.out.key.append(("(", len(values)))
        self.out.types[param.name] = tuple(
            self._value(param, f"{param.name}.{i}", value, first_source + i, FROM_ARGUMENTS)
            for i, value in enumerate(values)
        )

    def option(self, value: Any, source: int) -> None:
        """An option given at the launch: part of the call's shape, checked by value."""
        self._constant(value, source, FROM_ARGUMENTS)

    # -- one value

    def _value(
        self, param: KernelParam, path: str, value: Any, source: int, parent: int
    ) -> ArgType:
        """Add one value; returns its type, or None if it became a constant."""
        kind = type(value)
        if kind is int or kind is bool or kind is float or isinstance(value, np.generic):
            return self._scalar(param, path, value, source, parent)
        if isinstance(value, tuple):
            return self._tuple(param, path, value, source, parent)
        if value is None or isinstance(value, DeviceFunction) or is_language_constant(value):
            return self._as_constant(path, constexpr_value(value), value, source, parent)
        if kind is TensorDescriptor:
            return self._descriptor(param, path, value, source, parent)
        if hasattr(kind, "__aggregate_fields__"):
            return self._aggregate(param, path, value, source)
        array = arguments.describe(path, value)
        if array is not None:
            return self._pointer(param, path, array, source, parent)
        if isinstance(value, int | float):  # subclasses: enumerations and the like
            plain = int(value) if isinstance(value, int) else float(value)
            self.out.native = False
            return self._scalar(param, path, plain, source, parent)
        if _is_kernel_wrapper(value):
            return self._as_constant(path, value, value, source, parent)
        raise ArgumentError(
            f"argument '{path}' is of type {kind.__module__}.{kind.__qualname__}, which a kernel "
            "cannot take; it takes arrays, numbers, None and tuples of these"
            f"{_remedy(param, value)}"
        )

    def _tuple(
        self, param: KernelParam, path: str, value: tuple[Any, ...], source: int, parent: int
    ) -> ArgType:
        out = self.out
        index = len(out.entries)
        out.entries.append(
            Entry(Kind.TUPLE, source, parent, type=type(value), low=len(value))
            if parent != FROM_STORED
            else _stored(Entry(Kind.TUPLE, type=type(value), low=len(value)), value)
        )
        out.key.append(("(", type(value), len(value)))
        members = [
            self._value(param, f"{path}.{i}", member, i, index) for i, member in enumerate(value)
        ]
        kind = type(value)
        return kind(*members) if hasattr(kind, "_fields") else tuple(members)

    def _aggregate(self, param: KernelParam, path: str, value: Any, source: int) -> ArgType:
        """An aggregate made on the host, field by field; launched through Python."""
        from tegula.frontend import HostAggregate
        from tegula.language.aggregates import fields_of, plain
        from tegula.language.values import constexpr

        out, kind = self.out, type(value)
        out.native = False
        out.key.append(("aggregate", kind))
        out.constants[f"{path}.__class__"] = kind  # its methods are part of the code
        members: list[tuple[str, ArgType]] = []
        for name, annotation in fields_of(kind).items():
            member = plain(value.__dict__[name])
            if annotation is constexpr:
                member = constexpr(member)
            at = f"{path}.{name}"
            members.append((name, self._value(param, at, member, source, FROM_ARGUMENTS)))
        return HostAggregate(kind, tuple(members))

    def _as_constant(
        self, path: str, constant: Any, value: Any, source: int, parent: int
    ) -> ArgType:
        """Add a constant; the result is what stands for its type."""
        self.out.constants[path] = constant
        self.out.key.append(("=", constant_identity(constant)))
        self._constant(value, source, parent)
        return None

    def _runtime(self, path: str, kind: ir.Type, value: Any, divisible: bool | None) -> None:
        out = self.out
        out.values.append(value)
        out.slots[path] = kind
        out.key.append((kind, divisible))
        if divisible:
            out.attrs[path] = {"divisible": 16}

    def _place(self, entry: Entry, value: Any, source: int, parent: int) -> None:
        """Add the entry that checks and packs the slot added last."""
        out = self.out
        entry.source, entry.parent, entry.slot = source, parent, len(out.values) - 1
        if parent == FROM_STORED:
            _stored(entry, value)
        out.entry_of_slot.append(len(out.entries))
        out.entries.append(entry)

    # -- arrays

    def _pointer(
        self, param: KernelParam, path: str, array: Array, source: int, parent: int
    ) -> ir.Pointer:
        elem = self._element(param, path, array)
        divisible: bool | None = array.address % 16 == 0
        if not param.specialize_alignment:
            divisible = None
        kind = ir.Pointer(elem, const=array.readonly or param.is_const)
        self._runtime(path, kind, array, divisible)
        entry = array.entry
        if entry is None:
            self.out.native = False
            entry = Entry(Kind.IS)
        elif divisible is not None:
            entry.flags |= Flag.DIVISIBLE if divisible else Flag.NOT_DIVISIBLE
        far = array.is_far
        if far:
            self.out.attrs.setdefault(path, {})["far"] = True
            self.out.key.append("far")
        if entry.kind in (Kind.NUMPY, Kind.DLPACK):
            entry.flags |= Flag.FAR if far else Flag.NEAR
        self._place(entry, array.value, source, parent)
        for check in array.checks:
            check.source, check.parent = source, parent
            self.out.entries.append(check)
        if array.checks and parent == FROM_STORED:
            self.out.native = False
        return kind

    def _element(self, param: KernelParam, path: str, array: Array) -> ir.DType:
        fixed = param.annotation_type
        if fixed is None:
            return array.dtype
        if not isinstance(fixed, ir.Pointer):
            raise ArgumentError(
                f"argument '{path}' is an array, and the parameter is annotated as the number "
                f'{fixed}; pass a number, or annotate it "*{fixed}"'
            )
        if fixed.elem.itemsize != array.dtype.itemsize:
            raise ArgumentError(
                f"argument '{path}' has elements of type {array.dtype}, and the parameter is "
                f"annotated as a pointer to {fixed.elem}, which has another size"
            )
        return fixed.elem

    def _descriptor(
        self, param: KernelParam, path: str, value: TensorDescriptor, source: int, parent: int
    ) -> ArgType:
        """A descriptor: a base pointer, and sizes and strides that are no constants."""
        from tegula.frontend import HostDescriptor

        base = arguments.describe(f"{path}.base", value.base)
        if base is None:
            raise ArgumentError(f"argument '{path}' describes {value.base!r}, which is no array")
        self.out.key.append(("desc", value.block_shape, value.padding))
        members = self._members(value, source, parent)
        pointer = self._pointer(param, f"{path}.base", base, ITSELF, members["base"])
        for name, kind, numbers in (
            ("shape", ir.i32, value.shape),
            ("stride", ir.i64, value.strides[:-1]),  # the last is 1
        ):
            owner = members["_shape" if name == "shape" else "_strides"]
            for i, number in enumerate(numbers):
                self._size(f"{path}.{name}.{i}", kind, number, i, owner)
        self._constant(value.block_shape, ITSELF, members["_block_shape"])
        self._constant(value.padding, ITSELF, members["_padding"])
        return HostDescriptor(pointer.elem, value.block_shape, value.padding)

    def _members(self, value: TensorDescriptor, source: int, parent: int) -> dict[str, int]:
        """Entries for the descriptor's slots, by slot; what they hold is checked by others."""
        out, offsets = self.out, slot_offsets()
        if offsets is None or parent == FROM_STORED:
            out.native = False
            offsets = offsets or dict.fromkeys(TensorDescriptor.__slots__, 0)
        members = {}
        for name in ("base", "_shape", "_strides", "_block_shape", "_padding"):
            members[name] = len(out.entries)
            out.entries.append(
                Entry(Kind.MEMBER, source, parent, type=type(value), low=offsets[name])
            )
        for name, length in (("_shape", len(value.shape)), ("_strides", len(value.strides))):
            out.entries.append(Entry(Kind.TUPLE, ITSELF, members[name], type=tuple, low=length))
        return members

    def _size(self, path: str, kind: ir.DType, number: int, index: int, owner: int) -> None:
        if not kind.min_value <= number <= kind.max_value:
            raise ArgumentOverflowError(f"'{path}' is {number}, which {kind} cannot hold")
        divisible = number % 16 == 0
        self._runtime(path, kind, number, divisible)
        flags = _int_flags(divisible, not_one=False)
        entry = Entry(Kind.INT, type=int, low=kind.min_value, high=kind.max_value, flags=flags)
        self._place(entry, number, index, owner)

    # -- numbers

    def _scalar(
        self, param: KernelParam, path: str, value: Any, source: int, parent: int
    ) -> ArgType:
        fixed = param.annotation_type
        if isinstance(fixed, ir.Pointer):
            raise ArgumentError(
                f"argument '{path}' is {value!r}, and the parameter is annotated as a pointer to "
                f"{fixed.elem}; pass an array"
            )
        if fixed is not None:
            return self._fixed(param, path, value, fixed, source, parent)
        if isinstance(value, bool):
            self._runtime(path, ir.i1, int(value), None)
            self._place(_bool_entry(), value, source, parent)
            return ir.i1
        if isinstance(value, float):
            self._runtime(path, ir.f32, float(value), None)
            entry = Entry(Kind.FLOAT, type=type(value), flags=Flag.NARROW)
            self._place(entry, value, source, parent)
            return ir.f32
        if isinstance(value, np.generic):
            return self._numpy_scalar(param, path, value, source, parent)
        return self._int(param, path, value, source, parent)

    def _int(self, param: KernelParam, path: str, value: int, source: int, parent: int) -> ArgType:
        if value == 1 and param.specialize_value:
            return self._as_constant(path, 1, value, source, parent)
        kind, (low, high) = _int_class(path, value)
        divisible = value % 16 == 0 if param.specialize_divisible else None
        self._runtime(path, kind, value, divisible)
        self._place(_int_entry(kind, low, high, divisible, param), value, source, parent)
        return kind

    def _fixed(
        self, param: KernelParam, path: str, value: Any, fixed: Any, source: int, parent: int
    ) -> ir.Type:
        """A number for a parameter whose annotation names its type."""
        if fixed.is_float:
            if isinstance(value, np.generic):
                _known_numpy_scalar(path, value)
            self._runtime(path, fixed, float(value), None)
            native = type(value) is float and fixed in (ir.f32, ir.f64)
            flags = Flag.NARROW if fixed is ir.f32 else 0
            self._place(Entry(Kind.FLOAT, type=float, flags=flags), value, source, parent)
            self.out.native &= native
            return fixed
        if not isinstance(value, int | np.integer | np.bool_):
            raise ArgumentError(
                f"argument '{path}' is {value!r}, and the parameter is annotated as the integer "
                f"{fixed}; pass int({path}) if that is meant"
            )
        number = int(value)
        if fixed is ir.i1:
            number = int(bool(number))
        if not fixed.min_value <= number <= fixed.max_value:
            raise ArgumentOverflowError(
                f"argument '{path}' is {number}, which {fixed}, the type its annotation names, "
                f"cannot hold ({fixed.min_value} to {fixed.max_value})"
            )
        divisible = number % 16 == 0 if param.specialize_divisible and fixed.bits >= 32 else None
        self._runtime(path, fixed, number, divisible)
        if type(value) is bool:
            entry = _bool_entry()
        else:
            high = min(fixed.max_value, INT64[1])
            entry = _int_entry(fixed, fixed.min_value, high, divisible, param, ones=True)
        self._place(entry, value, source, parent)
        self.out.native &= type(value) in (int, bool) and number <= INT64[1]
        self.out.native &= not (fixed is ir.i1 and type(value) is int)
        return fixed

    def _numpy_scalar(
        self, param: KernelParam, path: str, value: np.generic, source: int, parent: int
    ) -> ArgType:
        kind = _known_numpy_scalar(path, value)
        entry = Entry(Kind.SCALAR, type=type(value), width=kind.itemsize)
        divisible = None
        if kind.is_int:
            number: Any = int(value)
            entry.flags = 0 if kind.is_signed else Flag.UNSIGNED
            if kind.bits >= 32:
                if number == 1 and param.specialize_value:
                    self.out.native = False
                    return self._as_constant(path, 1, value, source, parent)
                divisible = number % 16 == 0 if param.specialize_divisible else None
                entry.flags |= _int_flags(divisible, not_one=param.specialize_value)
        else:
            number = float(value)
            entry.flags = Flag.UNSIGNED
        self._runtime(path, kind, number, divisible)
        self._place(entry, value, source, parent)
        self.out.native &= type(value).__module__ == "numpy"
        return kind

    # -- constants

    def _constant(self, value: Any, source: int, parent: int) -> None:
        """Entries that check a constant, whose value is part of the key."""
        if parent == FROM_STORED:
            return  # a default: the same object at every launch
        kind = type(value)
        where = {"source": source, "parent": parent, "object": value, "has_object": True}
        if kind is int or kind is str:
            self.out.entries.append(Entry(Kind.EQUAL, type=kind, **where))
        elif kind is float:
            self.out.entries.append(Entry(Kind.SAME_FLOAT, type=kind, **where))
        elif isinstance(value, np.generic):
            self.out.native = False  # a new object each time
        elif isinstance(value, tuple):
            index = len(self.out.entries)
            self.out.entries.append(Entry(Kind.TUPLE, source, parent, type=kind, low=len(value)))
            for i, member in enumerate(value):
                self._constant(member, i, index)
        else:
            self.out.entries.append(Entry(Kind.IS, **where))


def _stored(entry: Entry, value: Any) -> Entry:
    entry.parent, entry.object, entry.has_object = FROM_STORED, value, True
    return entry


def _bool_entry() -> Entry:
    return Entry(Kind.BOOL, type=bool, object=True, has_object=True)


def _known_numpy_scalar(path: str, value: np.generic) -> ir.DType:
    """The dtype of a numpy scalar, ml_dtypes' included; an error if kernels have no such type."""
    kind = arguments.dtype_of_numpy(value.dtype)
    if kind is None:
        raise ArgumentError(
            f"argument '{path}' is a numpy scalar of dtype {value.dtype}, which kernels do not have"
        )
    return kind


def _int_class(path: str, value: int) -> tuple[ir.DType, tuple[int, int]]:
    if INT32[0] <= value <= INT32[1]:
        return ir.i32, INT32
    if INT64[0] <= value <= INT64[1]:
        return ir.i64, INT64
    if 0 <= value <= UINT64_MAX:
        return ir.u64, (INT64[1] + 1, UINT64_MAX)
    raise ArgumentOverflowError(
        f"argument '{path}' is {value}, which does not fit 64 bits (-2^63 to 2^64 - 1)"
    )


def _int_flags(divisible: bool | None, *, not_one: bool) -> int:
    flags = 0 if divisible is None else Flag.DIVISIBLE if divisible else Flag.NOT_DIVISIBLE
    return int(flags) | (int(Flag.NOT_ONE) if not_one else 0)


def _int_entry(
    kind: ir.DType,
    low: int,
    high: int,
    divisible: bool | None,
    param: KernelParam,
    ones: bool = False,
) -> Entry:
    flags = _int_flags(divisible, not_one=param.specialize_value and not ones)
    if low > INT64[1]:
        return Entry(Kind.UINT64, type=int, flags=flags)
    if kind is ir.i64 and not ones:
        # Values that fit 32 bits have a variant of their own; it may come later in the table.
        return Entry(Kind.INT, type=int, low=low, high=high, flags=flags | Flag.WIDE)
    return Entry(Kind.INT, type=int, low=low, high=high, flags=flags)


def constexpr_value(value: Any) -> Any:
    """What a constexpr argument stands for: the wrapper of the language is taken off, and a numpy
    scalar is the number that it holds.
    """
    kind = type(value)
    if kind.__name__ == "constexpr" and kind.__module__.startswith("tegula."):
        return constexpr_value(value.value)
    if isinstance(value, np.integer | np.floating | np.bool_):
        return value.item()
    return value


def is_language_constant(value: Any) -> bool:
    """Whether a value is a constant wherever it is passed: a dtype, a constexpr, a string."""
    kind = type(value)
    return isinstance(value, str) or (
        kind.__module__.startswith("tegula.language") and kind.__name__ in _LANGUAGE_CONSTANTS
    )


_LANGUAGE_CONSTANTS = frozenset({"constexpr", "dtype", "pointer_type", "block_type"})


def _is_kernel_wrapper(value: Any) -> bool:
    return isinstance(getattr(value, "fn", None), DeviceFunction)


def constant_identity(value: Any) -> Any:
    """A hashable that is equal for equal constants and tells 1, 1.0, True, 0.0 and -0.0 apart."""
    kind = type(value)
    if kind is float:
        return (kind, struct.pack("d", value))
    if kind is tuple or isinstance(value, tuple | list):
        return (kind, tuple(constant_identity(v) for v in value))
    if isinstance(value, dict):
        return (kind, tuple((k, constant_identity(v)) for k, v in value.items()))
    try:
        hash(value)
    except TypeError:
        return (kind, _ById(value))
    return (kind, value)


class _ById:
    """Keeps an unhashable constant alive as part of a key and compares it by identity."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __hash__(self) -> int:
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ById) and other.value is self.value


def _remedy(param: KernelParam, value: Any) -> str:
    if isinstance(value, list):
        return "; make it an array, or a tuple of a few values"
    if isinstance(value, complex):
        return "; pass the real and the imaginary part"
    return f"; annotate '{param.name}: tl.constexpr' if it is a compile-time constant"


def pack(kind: ir.Type, value: Any) -> int:
    """The 8-byte slot of one value, as an int that ctypes takes for a signed 64-bit field."""
    if isinstance(value, Array):
        raw = value.address
    elif isinstance(kind, ir.DType) and kind.is_float:
        raw = _float_bits(kind, float(value))
    else:
        raw = int(value)
    return raw - (1 << 64) if raw > INT64[1] else raw


def _float_bits(kind: ir.DType, value: float) -> int:
    if kind is ir.f64:
        return int.from_bytes(struct.pack("<d", value), "little")
    if kind is ir.f32:
        if math.isfinite(value) and abs(value) > 3.5e38:
            value = math.copysign(math.inf, value)
        try:
            return int.from_bytes(struct.pack("<f", value), "little")
        except OverflowError:
            return int.from_bytes(struct.pack("<f", math.copysign(math.inf, value)), "little")
    with np.errstate(over="ignore"):
        return int.from_bytes(np.array(value, ir.numpy_dtype(kind)).tobytes(), "little")
