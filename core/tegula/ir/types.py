"""Types of tile IR: scalars, pointers, tiles and tensor descriptors.

All types are immutable and interned, so `==` is identity in the common case and they may be
dictionary keys.
No type assumes that a dimension is a power of two; a dimension may be 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import prod
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import numpy as np

Kind = Literal["int", "uint", "float"]


@dataclass(frozen=True, eq=False)
class DType:
    """A scalar type. `i1` is an unsigned one-bit integer that memory holds as one byte."""

    name: str
    kind: Kind
    bits: int
    mantissa: int = 0
    """Stored mantissa bits of a float."""
    exponent_bias: int = 0

    @property
    def itemsize(self) -> int:
        """Bytes one element takes in memory."""
        return max(1, self.bits // 8)

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    @property
    def is_int(self) -> bool:
        """True for signed and unsigned integers, i1 included."""
        return self.kind != "float"

    @property
    def is_signed(self) -> bool:
        return self.kind == "int"

    @property
    def min_value(self) -> int:
        """Smallest value of an integer type."""
        return -(1 << (self.bits - 1)) if self.kind == "int" else 0

    @property
    def max_value(self) -> int:
        """Largest value of an integer type."""
        return (1 << (self.bits - 1)) - 1 if self.kind == "int" else (1 << self.bits) - 1

    def __str__(self) -> str:
        return self.name

    __repr__ = __str__

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return _dtype_by_name, (self.name,)


def _dtype_by_name(name: str) -> DType:
    return DTYPES[name]


i1 = DType("i1", "uint", 1)
i8 = DType("i8", "int", 8)
i16 = DType("i16", "int", 16)
i32 = DType("i32", "int", 32)
i64 = DType("i64", "int", 64)
u8 = DType("u8", "uint", 8)
u16 = DType("u16", "uint", 16)
u32 = DType("u32", "uint", 32)
u64 = DType("u64", "uint", 64)
f8e5 = DType("f8e5", "float", 8, 2, 15)
f8e5b16 = DType("f8e5b16", "float", 8, 2, 16)
f8e4nv = DType("f8e4nv", "float", 8, 3, 7)
f8e4b8 = DType("f8e4b8", "float", 8, 3, 8)
f8e4b15 = DType("f8e4b15", "float", 8, 3, 15)
f16 = DType("f16", "float", 16, 10, 15)
bf16 = DType("bf16", "float", 16, 7, 127)
f32 = DType("f32", "float", 32, 23, 127)
f64 = DType("f64", "float", 64, 52, 1023)

DTYPES: dict[str, DType] = {
    t.name: t
    for t in (
        i1, i8, i16, i32, i64, u8, u16, u32, u64,
        f8e5, f8e5b16, f8e4nv, f8e4b8, f8e4b15, f16, bf16, f32, f64,
    )
}  # fmt: skip


class _Interned:
    """Gives a frozen dataclass identity semantics: equal arguments return the same object."""

    __slots__ = ()


@dataclass(frozen=True, eq=False)
class Pointer(_Interned):
    """A pointer to elements of one dtype. `const` forbids stores and is part of the type."""

    elem: DType
    space: str = "global"
    const: bool = False

    def __str__(self) -> str:
        space = "" if self.space == "global" else f", {self.space}"
        return f"ptr<{'const ' if self.const else ''}{self.elem}{space}>"

    __repr__ = __str__


@dataclass(frozen=True, eq=False)
class Tile(_Interned):
    """A tile: a shape of rank 1 or more, and an element type (scalar or pointer)."""

    shape: tuple[int, ...]
    elem: DType | Pointer

    @property
    def numel(self) -> int:
        return prod(self.shape)

    def __str__(self) -> str:
        return f"{self.elem}[{','.join(map(str, self.shape))}]"

    __repr__ = __str__


@dataclass(frozen=True, eq=False)
class Descriptor(_Interned):
    """A tensor descriptor: base pointer, runtime shape and strides, read and written in blocks."""

    elem: DType
    block_shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"desc<{self.elem}[{','.join(map(str, self.block_shape))}]>"

    __repr__ = __str__


Type = DType | Pointer | Tile | Descriptor
ScalarType = DType | Pointer


def _intern(cls: Any) -> None:
    """Make `cls(...)` return one object per distinct set of arguments.

    Types compare by identity, which keeps the checks of the verifier and the frontend cheap.
    """
    make = cls.__new__

    @cache
    def build(*key: object) -> object:
        self = make(cls)
        for name, value in zip(cls.__dataclass_fields__, key):
            object.__setattr__(self, name, value)
        return self

    fields = list(cls.__dataclass_fields__.values())

    def new(klass: type, *args: object, **kwargs: object) -> object:
        key = list(args)
        for field in fields[len(args) :]:
            key.append(kwargs.pop(field.name, field.default))
        if kwargs:
            raise TypeError(f"{cls.__name__} has no field {next(iter(kwargs))!r}")
        return build(*(tuple(k) if isinstance(k, list) else k for k in key))

    def reduce(self: Any) -> tuple[Any, tuple[object, ...]]:
        return cls, tuple(getattr(self, f.name) for f in fields)

    cls.__new__ = new
    cls.__init__ = lambda self, *args, **kwargs: None
    cls.__reduce__ = reduce


for _cls in (Pointer, Tile, Descriptor):
    _intern(_cls)


def shape_of(t: Type) -> tuple[int, ...]:
    """Shape of a value of this type; () for scalars, pointers and descriptors."""
    return t.shape if isinstance(t, Tile) else ()


def elem_of(t: Type) -> ScalarType:
    """Element type of a tile, or the type itself for a scalar."""
    if isinstance(t, Tile):
        return t.elem
    assert not isinstance(t, Descriptor), "a descriptor has no scalar element"
    return t


def with_shape(t: Type, shape: tuple[int, ...]) -> Type:
    """The element type of `t` in another shape; () gives the scalar."""
    elem = elem_of(t)
    return Tile(tuple(shape), elem) if shape else elem


def with_elem(t: Type, elem: ScalarType) -> Type:
    """The shape of `t` with another element type."""
    return Tile(t.shape, elem) if isinstance(t, Tile) else elem


def is_pointer(t: Type) -> bool:
    """True for a pointer or a tile of pointers."""
    return isinstance(elem_of(t), Pointer) if not isinstance(t, Descriptor) else False


def broadcast_shapes(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    """Numpy broadcasting of two shapes. Raises ValueError if they do not fit."""
    n = max(len(a), len(b))
    a, b = (1,) * (n - len(a)) + a, (1,) * (n - len(b)) + b
    out = []
    for x, y in zip(a, b):
        if x != y and x != 1 and y != 1:
            raise ValueError(f"shapes {list(a)} and {list(b)} cannot be broadcast together")
        out.append(y if x == 1 else x)
    return tuple(out)


@cache
def numpy_dtype(t: DType) -> np.dtype:
    """The numpy dtype that holds one element (bfloat16 and the fp8 kinds come from ml_dtypes).

    `f8e4b15` has no numpy counterpart and raises TypeError.
    """
    import numpy as np

    if t is i1:
        return np.dtype(np.bool_)
    if t.kind != "float":
        return np.dtype(f"{'u' if t.kind == 'uint' else 'i'}{t.itemsize}")
    if t in (f16, f32, f64):
        return np.dtype(f"f{t.itemsize}")
    import ml_dtypes

    name = {
        bf16: "bfloat16", f8e5: "float8_e5m2", f8e5b16: "float8_e5m2fnuz",
        f8e4nv: "float8_e4m3fn", f8e4b8: "float8_e4m3fnuz",
    }.get(t)  # fmt: skip
    if name is None:
        raise TypeError(f"{t} has no numpy dtype")
    return np.dtype(getattr(ml_dtypes, name))
