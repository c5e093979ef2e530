"""Dtype objects of the kernel language: the language's names over the types of the IR.

A `dtype` and the IR type behind it (`.ir`) correspond one to one; `from_ir` goes back. Kernels
compare dtypes, ask for their widths and ranges, and pass them around as compile-time values.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable
from math import prod
from typing import Any, ClassVar, Final

from tegula.ir import types as ir

home = "tegula.language"
"""The module that `repr` of a dtype names: generated kernels are written with it."""

# language name, short name, IR type
_NAMES: Final = (
    ("int1", "int1", ir.i1),
    ("int8", "int8", ir.i8),
    ("int16", "int16", ir.i16),
    ("int32", "int32", ir.i32),
    ("int64", "int64", ir.i64),
    ("uint8", "uint8", ir.u8),
    ("uint16", "uint16", ir.u16),
    ("uint32", "uint32", ir.u32),
    ("uint64", "uint64", ir.u64),
    ("float8e5", "fp8e5", ir.f8e5),
    ("float8e5b16", "fp8e5b16", ir.f8e5b16),
    ("float8e4nv", "fp8e4nv", ir.f8e4nv),
    ("float8e4b8", "fp8e4b8", ir.f8e4b8),
    ("float8e4b15", "fp8e4b15", ir.f8e4b15),
    ("float16", "fp16", ir.f16),
    ("bfloat16", "bf16", ir.bf16),
    ("float32", "fp32", ir.f32),
    ("float64", "fp64", ir.f64),
)

_ABBREVIATIONS: Final = {
    "i1": "int1", "u1": "int1", "bool": "int1", "B": "int1",
    "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64",
    "u8": "uint8", "u16": "uint16", "u32": "uint32", "u64": "uint64",
    "f16": "fp16", "f32": "fp32", "f64": "fp64", "float": "fp32", "double": "fp64", "half": "fp16",
    "int": "int32", "float16": "fp16", "float32": "fp32", "float64": "fp64", "bfloat16": "bf16",
    "float8_e4m3fn": "fp8e4nv", "float8_e4m3fnuz": "fp8e4b8",
    "float8_e5m2": "fp8e5", "float8_e5m2fnuz": "fp8e5b16",
    "fp8_e4m3fn": "fp8e4nv", "fp8_e4m3fnuz": "fp8e4b8",
    "fp8_e5m2": "fp8e5", "fp8_e5m2fnuz": "fp8e5b16",
}  # fmt: skip


class dtype:
    """A scalar type: `tl.float32`, or `tl.dtype("fp32")` by its short name. There is one object
    per type.
    """

    SINT_TYPES: ClassVar = ["int8", "int16", "int32", "int64"]
    UINT_TYPES: ClassVar = ["int1", "uint8", "uint16", "uint32", "uint64"]
    FP_TYPES: ClassVar = [short for _, short, t in _NAMES if t.is_float]
    STANDARD_FP_TYPES: ClassVar = ["fp16", "bf16", "fp32", "fp64"]
    OTHER_TYPES: ClassVar = ["void"]

    ir: Any
    name: str

    def __new__(cls, name: str) -> Any:
        if cls is not dtype:
            return object.__new__(cls)
        found = _BY_SHORT_NAME.get(name) or _BY_SHORT_NAME.get(_ABBREVIATIONS.get(name, ""))
        if found is None:
            raise ValueError(f"{name!r} names no dtype; dtypes are {', '.join(_BY_SHORT_NAME)}")
        return found

    # -- widths and ranges

    @property
    def primitive_bitwidth(self) -> int:
        """Bits of one element."""
        return int(self.ir.bits)

    @property
    def itemsize(self) -> int:
        """Bytes of one element in memory."""
        return int(self.ir.itemsize)

    @property
    def int_bitwidth(self) -> int:
        if not self.is_int():
            raise TypeError(f"{self} is no integer type")
        return int(self.ir.bits)

    @property
    def fp_mantissa_width(self) -> int:
        if not self.is_floating():
            raise TypeError(f"{self} is no floating-point type")
        return int(self.ir.mantissa)

    @property
    def exponent_bias(self) -> int:
        if not self.is_floating():
            raise TypeError(f"{self} is no floating-point type")
        return int(self.ir.exponent_bias)

    @property
    def int_signedness(self) -> str:
        if not self.is_int():
            raise TypeError(f"{self} is no integer type")
        return "signed" if self.ir.is_signed else "unsigned"

    def get_int_max_value(self) -> int:
        """Largest value of an integer type."""
        if not self.is_int():
            raise TypeError(f"{self} is no integer type")
        return int(self.ir.max_value)

    def get_int_min_value(self) -> int:
        """Smallest value of an integer type."""
        if not self.is_int():
            raise TypeError(f"{self} is no integer type")
        return int(self.ir.min_value)

    def with_element_ty(self, element_ty: dtype) -> dtype:
        """The type with other elements: a pointer to these, a tile of these, these themselves."""
        return element_ty

    # -- what kind of type it is

    def is_void(self) -> bool:
        return False

    def is_block(self) -> bool:
        return False

    def is_ptr(self) -> bool:
        return False

    def is_const(self) -> bool:
        return False

    def is_floating(self) -> bool:
        return isinstance(self.ir, ir.DType) and self.ir.is_float

    def is_standard_floating(self) -> bool:
        """float16, bfloat16, float32 or float64."""
        return self.is_floating() and self.ir.bits >= 16

    def is_int(self) -> bool:
        return isinstance(self.ir, ir.DType) and self.ir.is_int

    def is_int_signed(self) -> bool:
        return self.is_int() and self.ir.is_signed

    def is_int_unsigned(self) -> bool:
        return self.is_int() and not self.ir.is_signed

    def is_bool(self) -> bool:
        return self.ir is ir.i1

    is_int1 = is_bool

    def is_int8(self) -> bool:
        return self.ir is ir.i8

    def is_int16(self) -> bool:
        return self.ir is ir.i16

    def is_int32(self) -> bool:
        return self.ir is ir.i32

    def is_int64(self) -> bool:
        return self.ir is ir.i64

    def is_uint8(self) -> bool:
        return self.ir is ir.u8

    def is_uint16(self) -> bool:
        return self.ir is ir.u16

    def is_uint32(self) -> bool:
        return self.ir is ir.u32

    def is_uint64(self) -> bool:
        return self.ir is ir.u64

    def is_fp8(self) -> bool:
        return self.is_floating() and self.ir.bits == 8

    def is_fp8e4nv(self) -> bool:
        return self.ir is ir.f8e4nv

    def is_fp8e4b8(self) -> bool:
        return self.ir is ir.f8e4b8

    def is_fp8e4b15(self) -> bool:
        return self.ir is ir.f8e4b15

    def is_fp8e5(self) -> bool:
        return self.ir is ir.f8e5

    def is_fp8e5b16(self) -> bool:
        return self.ir is ir.f8e5b16

    def is_fp16(self) -> bool:
        return self.ir is ir.f16

    def is_bf16(self) -> bool:
        return self.ir is ir.bf16

    def is_fp32(self) -> bool:
        return self.ir is ir.f32

    def is_fp64(self) -> bool:
        return self.ir is ir.f64

    class KIND:
        """Values of `dtype.kind()`: a number never promotes a tensor of its own or a higher
        kind."""

        BOOLEAN: ClassVar[int] = 0
        INTEGRAL: ClassVar[int] = 1
        FLOATING: ClassVar[int] = 2

    def kind(self) -> int:
        """boolean < integral < floating."""
        if self.is_bool():
            return dtype.KIND.BOOLEAN
        return dtype.KIND.FLOATING if self.is_floating() else dtype.KIND.INTEGRAL

    # -- parts

    @property
    def scalar(self) -> dtype:
        """The element type."""
        return self

    @property
    def shape(self) -> tuple[int, ...]:
        return ()

    def get_block_shapes(self) -> tuple[int, ...]:
        return self.shape

    def mangle(self) -> str:
        """A short text that differs for different types."""
        return str(self.ir)

    cache_key_part = property(mangle)
    codegen_name = property(lambda self: repr(self).replace(f"{home}.", "tl."))

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"{home}.{_LONG_NAMES[self.ir]}"

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return from_ir, (self.ir,)

    def __call__(self, *args: Any) -> Any:
        raise TypeError(f"a dtype is not called; convert a tensor with x.to({self!r})")


class pointer_type(dtype):
    """Type of pointers to elements of one dtype."""

    def __new__(
        cls, element_ty: dtype, address_space: str = "global", const: bool = False
    ) -> pointer_type:
        if not isinstance(element_ty, dtype) or not isinstance(element_ty.ir, ir.DType):
            raise TypeError(f"pointer_type takes the dtype of the elements, not {element_ty!r}")
        space = "global" if address_space in (1, "global") else address_space
        return from_ir(ir.Pointer(element_ty.ir, space, bool(const)))

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Everything is set by `from_ir`."""

    @property
    def element_ty(self) -> dtype:
        """Type of what is pointed to."""
        return from_ir(self.ir.elem)

    @property
    def address_space(self) -> str:
        return str(self.ir.space)

    @property
    def primitive_bitwidth(self) -> int:
        return 64

    @property
    def itemsize(self) -> int:
        return 8

    def is_ptr(self) -> bool:
        return True

    def is_const(self) -> bool:
        return bool(self.ir.const)

    def with_element_ty(self, element_ty: dtype) -> pointer_type:
        return pointer_type(element_ty, self.address_space, self.is_const())

    def __str__(self) -> str:
        return f"pointer<{'const ' if self.is_const() else ''}{self.element_ty}>"

    def __repr__(self) -> str:
        const = ", const=True" if self.is_const() else ""
        return f"{home}.pointer_type({self.element_ty!r}{const})"


class block_type(dtype):
    """Type of a tile: element type and shape."""

    def __new__(cls, element_ty: dtype, shape: Iterable[Any]) -> block_type:
        dims = tuple(operator.index(getattr(d, "value", d)) for d in shape)
        if not dims:
            raise TypeError("a tile has one dimension or more; a scalar's type is its dtype")
        return from_ir(ir.Tile(dims, element_ty.ir))

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Everything is set by `from_ir`."""

    @property
    def element_ty(self) -> dtype:
        return from_ir(self.ir.elem)

    @property
    def scalar(self) -> dtype:
        return from_ir(self.ir.elem)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.ir.shape)

    @property
    def numel(self) -> int:
        return prod(self.ir.shape)

    @property
    def nbytes(self) -> int:
        return self.numel * self.scalar.itemsize

    @property
    def primitive_bitwidth(self) -> int:
        return self.scalar.primitive_bitwidth

    def is_block(self) -> bool:
        return True

    def with_element_ty(self, element_ty: dtype) -> block_type:
        return block_type(element_ty, self.shape)

    def __str__(self) -> str:
        return f"<{list(self.shape)}, {self.scalar}>"

    def __repr__(self) -> str:
        return f"{home}.block_type({self.scalar!r}, {list(self.shape)})"


class tensor_descriptor_type(dtype):
    """Type of a tensor descriptor: element type and block shape."""

    def __new__(cls, block: block_type) -> tensor_descriptor_type:
        return from_ir(ir.Descriptor(block.scalar.ir, block.shape))

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Everything is set by `from_ir`."""

    @property
    def block_type(self) -> block_type:
        return block_type(from_ir(self.ir.elem), self.ir.block_shape)

    def __str__(self) -> str:
        return f"tensor_descriptor<{self.block_type}>"

    def __repr__(self) -> str:
        return f"{home}.tensor_descriptor_type({self.block_type!r})"


_LONG_NAMES: dict[Any, str] = {t: long for long, _, t in _NAMES}
_BY_SHORT_NAME: dict[str, dtype] = {}
_FACADES: dict[Any, dtype] = {}


def from_ir(t: Any) -> Any:
    """The language's object for an IR type."""
    found = _FACADES.get(t)
    if found is None:
        found = _FACADES[t] = _make(t)
    return found


def _make(t: Any) -> dtype:
    cls: type[dtype] = {
        ir.DType: dtype,
        ir.Pointer: pointer_type,
        ir.Tile: block_type,
        ir.Descriptor: tensor_descriptor_type,
    }[type(t)]
    self = object.__new__(cls)
    self.ir = t
    self.name = cls.__str__(self) if cls is not dtype else _SHORT_NAMES[t]
    return self


_SHORT_NAMES: dict[Any, str] = {t: short for _, short, t in _NAMES}
for _long, _short, _t in _NAMES:
    globals()[_long] = _BY_SHORT_NAME[_short] = from_ir(_t)

int1: dtype
int8: dtype
int16: dtype
int32: dtype
int64: dtype
uint8: dtype
uint16: dtype
uint32: dtype
uint64: dtype
float8e5: dtype
float8e5b16: dtype
float8e4nv: dtype
float8e4b8: dtype
float8e4b15: dtype
float16: dtype
bfloat16: dtype
float32: dtype
float64: dtype

SCALARS: Final = tuple(_BY_SHORT_NAME.values())

pi32_t = pointer_type(_BY_SHORT_NAME["int32"])


class _Void:
    """Type of a function that returns nothing."""

    name = "void"

    def is_void(self) -> bool:
        return True

    def __repr__(self) -> str:
        return f"{home}.void"


void: Final = _Void()


@functools.cache
def parse_type(text: str) -> Any:
    """The IR type that a text such as `"*fp32"`, `"*const i8"`, `"i64"` or `"float*"` names.
    ValueError if none.
    """
    text = text.strip()
    if text.startswith("*") or text.endswith("*"):
        inner = text.strip("*").strip()
        const = inner.startswith("const ") or (
            inner.startswith("k") and inner[1:] in _BY_SHORT_NAME
        )
        inner = inner.removeprefix("const ").removeprefix("k" if const else "").strip()
        return ir.Pointer(dtype(inner).ir, "global", const)
    return dtype(text.rpartition(".")[2]).ir


def type_of_annotation(annotation: Any) -> Any:
    """The IR type a parameter's annotation fixes, or None where it fixes none (constexpr,
    torch.Tensor, ...).
    """
    if isinstance(annotation, dtype):
        return annotation.ir
    if isinstance(annotation, str):
        try:
            return parse_type(
                annotation.rsplit(".", 1)[-1] if "*" not in annotation else annotation
            )
        except ValueError:
            return None
    return None
