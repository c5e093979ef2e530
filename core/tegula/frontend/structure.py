"""Language values as flat lists of IR values and back.

A loop, an `if`, a call or a return hands on whole language values: tuples of tensors and
constants, descriptors with their shapes. A *spec* is the static part of such a value, hashable and
compared by value; the dynamic part is a list of IR values. Types of tensors are IR types and stand
for themselves as specs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from tegula.ir.core import Value
from tegula.ir.types import (
    DType,
    Pointer,
    Tile,
    Type,
    bf16,
    elem_of,
    f16,
    f32,
    f64,
    i1,
    shape_of,
)
from tegula.language.aggregates import (
    field_values,
    fields_of,
    instance,
    is_aggregate,
    is_aggregate_class,
)
from tegula.language.values import (
    block_pointer,
    constexpr,
    describe,
    is_number,
    known,
    tensor,
    tensor_descriptor,
)

from .diagnostics import LanguageError
from .promotion import kind_of, kind_of_number, name_of, promote, type_of_number
from .semantic import Semantic


def constant_identity(value: Any) -> Any:
    """Something hashable that is equal only for constants that compile alike: 1, 1.0 and True
    differ, as do 0.0 and -0.0.
    """
    if isinstance(value, float):
        return (float, repr(value))
    if isinstance(value, tuple):
        return (type(value), tuple(constant_identity(v) for v in value))
    try:
        hash(value)
    except TypeError:
        return (type(value), id(value))
    return (type(value), value)


@dataclass(frozen=True, eq=False)
class ConstSpec:
    """A compile-time value: there is nothing dynamic about it."""

    value: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ConstSpec) and constant_identity(self.value) == constant_identity(
            other.value
        )

    def __hash__(self) -> int:
        return hash(constant_identity(self.value))


@dataclass(frozen=True)
class KnownSpec:
    """A scalar of a type, known to be one number: it promotes as a tensor; nothing is passed."""

    type: DType
    value: ConstSpec


@dataclass(frozen=True)
class TupleSpec:
    """A tuple, or a named tuple of class `cls`."""

    cls: type
    items: tuple[Spec, ...]

    @property
    def fixed(self) -> tuple[bool, ...]:
        """Which members are compile-time values by declaration."""
        if is_aggregate_class(self.cls):
            return tuple(kind is constexpr for kind in fields_of(self.cls).values())
        return (False,) * len(self.items)

    @property
    def what(self) -> str:
        """The kind of value, for messages."""
        named = is_aggregate_class(self.cls)
        return f"an aggregate `{self.cls.__name__}`" if named else f"a tuple of {len(self.items)}"


@dataclass(frozen=True)
class DescriptorSpec:
    """A descriptor or a block pointer: the specs of its dynamic parts, and its constants."""

    cls: type
    parts: tuple[Spec, ...]
    constants: tuple[Any, ...]

    def __str__(self) -> str:
        what = "descriptor" if self.cls is tensor_descriptor else "block pointer"
        return f"a {what} of blocks {list(self.constants[0])}"


Spec: TypeAlias = "DType | Pointer | Tile | ConstSpec | KnownSpec | TupleSpec | DescriptorSpec"
WINDOWS = (tensor_descriptor, block_pointer)
"""Values that consist of a pointer, tuples of scalars, and constants."""


def _parts(value: Any) -> tuple[Any, ...]:
    """The dynamic parts of a descriptor or block pointer."""
    if isinstance(value, block_pointer):
        return value.base, value.shape, value.strides, value.offsets
    return value.base, value.shape, value.strides


def _constants(value: Any) -> tuple[Any, ...]:
    last = value.order if isinstance(value, block_pointer) else value.padding
    return value.block_shape, last


def build_tuple(cls: type, items: Sequence[Any]) -> Any:
    """A tuple of the class, named or not."""
    if is_aggregate_class(cls):
        return instance(cls, items)
    return tuple(items) if cls is tuple else cls(*items)


def members(value: Any) -> tuple[Any, ...] | None:
    """The parts of a tuple or aggregate; None for other values."""
    if isinstance(value, tuple):
        return value
    return field_values(value) if is_aggregate(value) else None


def composite(value: Any, spec: Any) -> TupleSpec | None:
    """The spec of a tuple or aggregate whose parts have the specs that `spec` gives them."""
    parts = members(value)
    return None if parts is None else TupleSpec(type(value), tuple(spec(v) for v in parts))


def spec_of(value: Any) -> Spec:
    """The static part of a value."""
    if type(value) is tensor:
        return value.ir_type  # type: ignore[return-value]
    found = composite(value, spec_of)
    if found is not None:
        return found
    if isinstance(value, WINDOWS):
        parts = tuple(spec_of(p) for p in _parts(value))
        return DescriptorSpec(type(value), parts, _constants(value))
    return ConstSpec(value)


def argument_spec(value: Any) -> Spec:
    """The spec of an argument of a library function, which may use what is known of it."""
    found = composite(value, argument_spec)
    if found is not None:
        return found
    number = known(value)
    return spec_of(value) if number is None else KnownSpec(value.ir_elem, ConstSpec(number))


def loose_spec(value: Any) -> Spec:
    """The spec of a value that meets another one: numbers that have the type they have on their own
    may still adapt to it.
    """
    found = composite(value, loose_spec)
    if found is not None:
        return found
    number = plain_number(value)
    return spec_of(value) if number is None else ConstSpec(number)


def plain_number(value: Any) -> Any:
    """The number behind a value that has a number's own type; None otherwise."""
    if is_number(value):
        return value
    number = known(value)
    return number if number is not None and type_of_number(number) is value.ir_elem else None


def types_of(spec: Spec) -> list[Type]:
    """Types of the dynamic part."""
    if isinstance(spec, TupleSpec):
        return [t for item in spec.items for t in types_of(item)]
    if isinstance(spec, DescriptorSpec):
        return [t for part in spec.parts for t in types_of(part)]
    return [] if isinstance(spec, (ConstSpec, KnownSpec)) else [spec]


def build(spec: Spec, values: Iterator[Value], s: Semantic | None = None) -> Any:
    """The language value with this static part and the next IR values as its dynamic part."""
    if isinstance(spec, TupleSpec):
        return build_tuple(spec.cls, [build(item, values, s) for item in spec.items])
    if isinstance(spec, KnownSpec):
        assert s is not None
        return s.constant(spec.value.value, spec.type)
    if isinstance(spec, DescriptorSpec):
        return spec.cls(*[build(part, values, s) for part in spec.parts], *spec.constants)
    return spec.value if isinstance(spec, ConstSpec) else tensor(next(values))


def handles(s: Semantic, value: Any, spec: Spec) -> list[Value]:
    """The dynamic part of a value as `spec` asks for it; numbers become constants in the current
    block.
    """
    if isinstance(spec, (ConstSpec, KnownSpec)):
        return []
    if isinstance(spec, TupleSpec):
        pairs = zip(members(value) or (), spec.items, strict=True)
        return [h for v, item in pairs for h in handles(s, v, item)]
    if isinstance(spec, DescriptorSpec):
        pairs = zip(_parts(value), spec.parts, strict=True)
        return [h for part, item in pairs for h in handles(s, part, item)]
    if not is_number(value) and widens(value.ir_type, spec):
        return [s.cast(value, spec).handle]  # type: ignore[arg-type]
    if is_number(value) or value.ir_type is not spec:
        elem, number = elem_of(spec), plain_number(value)
        assert isinstance(elem, DType) and number is not None, f"{value} is not {spec}"
        return [s.number(number, elem, shape_of(spec)).handle]
    return [value.handle]


def zeros(s: Semantic, spec: Spec) -> list[Value]:
    """The dynamic part of a value of this spec that consists of zeros."""
    return [s.constant(0, elem_of(t), shape_of(t)).handle for t in types_of(spec)]


def runtime_spec(value: Any) -> Spec:
    """The spec of a value that must be able to change while the program runs: numbers become
    tensors.
    """
    if is_number(value):
        return type_of_number(value)
    found = composite(value, runtime_spec)
    if found is not None:
        items = zip(found.items, found.fixed, members(value) or (), strict=True)
        return TupleSpec(found.cls, tuple(spec_of(v) if fix else s for s, fix, v in items))
    return spec_of(value)


def widens(old: Any, new: Any) -> bool:
    """True if a scalar type holds every number of another one: converting to it loses nothing."""
    if not (isinstance(old, DType) and isinstance(new, DType)) or old is new or i1 in (old, new):
        return False
    if old.is_float:
        return new.is_float and (old, new) in _EXACT_FLOATS
    if new.is_float:
        return old.bits < MANTISSA[new.bits] and new is not bf16
    return new.min_value <= old.min_value and old.max_value <= new.max_value


_EXACT_FLOATS = {(f16, f32), (bf16, f32), (f16, f64), (bf16, f64), (f32, f64)}
MANTISSA = {8: 0, 16: 11, 32: 24, 64: 53}


class Mismatch(Exception):
    """Two values have no common spec. The texts name the two sides."""

    def __init__(self, first: str, second: str) -> None:
        self.first, self.second = first, second
        super().__init__(f"{first} and {second}")


def show(spec: Spec) -> str:
    """A spec as error messages name it."""
    if isinstance(spec, ConstSpec):
        if is_number(spec.value):
            return f"{name_of(type_of_number(spec.value))} ({spec.value})"
        return describe(spec.value)
    if isinstance(spec, TupleSpec):
        return spec.what
    if isinstance(spec, DescriptorSpec):
        return str(spec)
    return name_of(spec.type if isinstance(spec, KnownSpec) else spec)


def unify(a: Spec, b: Spec) -> Spec:
    """The spec that values of both specs can be given: equal specs, and constants that adapt to a
    tensor's type.

    Two different numbers become a tensor of their common type.
    """
    if a == b:
        return a
    if isinstance(a, TupleSpec) and isinstance(b, TupleSpec):
        if a.cls is b.cls and len(a.items) == len(b.items):
            items = tuple(unify(x, y) for x, y in zip(a.items, b.items, strict=True))
            for fix, x, y in zip(a.fixed, a.items, b.items, strict=True):
                if fix and x != y:
                    raise Mismatch(f"{a.what} with {show(x)}", f"one with {show(y)}")
            return TupleSpec(a.cls, items)
    elif isinstance(a, DescriptorSpec) and isinstance(b, DescriptorSpec):
        if (a.cls, a.constants) == (b.cls, b.constants):
            parts = tuple(unify(x, y) for x, y in zip(a.parts, b.parts, strict=True))
            return DescriptorSpec(a.cls, parts, a.constants)
    elif isinstance(a, ConstSpec) and isinstance(b, ConstSpec):
        if is_number(a.value) and is_number(b.value):
            x, y = type_of_number(a.value), type_of_number(b.value)
            return x if x is y else promote(x, y)
    elif isinstance(a, ConstSpec) and adapts(a.value, b):
        return b
    elif isinstance(b, ConstSpec) and adapts(b.value, a):
        return a
    elif widens(a, b):
        return b
    elif widens(b, a):
        return a
    raise Mismatch(show(a), show(b))


NOT_TENSORS = (ConstSpec, KnownSpec, TupleSpec, DescriptorSpec)


def adapts(value: Any, spec: Spec) -> bool:
    """True if a number can take the type of a tensor: its kind is not higher, and an integer type
    can hold it.
    """
    if not is_number(value) or isinstance(spec, NOT_TENSORS):
        return False
    elem = elem_of(spec)
    if not isinstance(elem, DType) or kind_of_number(value) > kind_of(elem):
        return False
    if elem is i1:
        return isinstance(value, bool)
    return elem.is_float or elem.min_value <= value <= elem.max_value


def widen(init: Any, old: Spec, new: Spec) -> Spec | None:
    """A loop variable begins with `init` and gets `new` in the body: the spec it can have from the
    start, if `init` is a constant that can be of that type. None if it cannot."""
    parts = members(init)
    if parts is not None and isinstance(old, TupleSpec) and isinstance(new, TupleSpec):
        if old.cls is not new.cls or len(old.items) != len(new.items):
            return None
        items = [
            o if o == n or _fits(n, o) else None if fix else widen(v, o, n)
            for v, o, n, fix in zip(parts, old.items, new.items, old.fixed, strict=True)
        ]
        return None if None in items else TupleSpec(old.cls, tuple(items))  # type: ignore[arg-type]
    init = plain_number(init)
    if init is None or isinstance(new, (KnownSpec, TupleSpec, DescriptorSpec)):
        return None
    if isinstance(new, ConstSpec):
        if not is_number(new.value):
            return None
        target: Any = promote(type_of_number(init), type_of_number(new.value))
    else:
        target = new
    return target if adapts(init, target) and target != old else None


def _fits(new: Spec, old: Spec) -> bool:
    return isinstance(new, ConstSpec) and adapts(new.value, old)


def fits(new: Any, spec: Spec) -> bool:
    """True if a value can be handed on as `spec` without a change of type."""
    if isinstance(spec, TupleSpec):
        parts = members(new)
        if parts is None or type(new) is not spec.cls or len(parts) != len(spec.items):
            return False
        return all(fits(v, item) for v, item in zip(parts, spec.items, strict=True))
    if not is_number(new) and spec_of(new) == spec:
        return True
    number = plain_number(new)
    if number is None or isinstance(spec, NOT_TENSORS):
        found = spec_of(new)
        return found == spec or widens(found, spec)
    return adapts(number, spec)


def require_constant(value: Any, what: str) -> Any:
    """The value, if it is known at compile time."""
    if isinstance(value, (tensor, *WINDOWS)):
        raise LanguageError(f"{what} must be known at compile time, not {describe(value)}")
    for v in members(value) or ():
        require_constant(v, what)
    return value
