"""`triton.runtime.jit` beyond kernels themselves: wrapped tensors, stand-ins, names of types."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tegula.errors import ArgumentError
from tegula.ir import types as ir
from tegula.runtime.arguments import dtype_of
from tegula.runtime.mock import MockTensor

type_canonicalisation_dict: dict[str, str] = {
    "bool": "i1", "int1": "u1", "uint1": "u1", "i1": "i1", "u1": "u1", "void": "void",
    **{f"int{n}": f"i{n}" for n in (8, 16, 32, 64)},
    **{f"uint{n}": f"u{n}" for n in (8, 16, 32, 64)},
    **{f"i{n}": f"i{n}" for n in (8, 16, 32, 64)},
    **{f"u{n}": f"u{n}" for n in (8, 16, 32, 64)},
    "float16": "fp16", "float32": "fp32", "float64": "fp64", "bfloat16": "bf16", "half": "fp16",
    "float": "fp32", "double": "fp64", "float8e4nv": "fp8e4nv", "float8e5": "fp8e5",
    "float8e4b15": "fp8e4b15", "float8e4b8": "fp8e4b8", "float8e5b16": "fp8e5b16",
    "float8_e4m3fn": "fp8e4nv", "float8_e4m3fnuz": "fp8e4b8", "float8_e5m2": "fp8e5",
    "float8_e5m2fnuz": "fp8e5b16", "float8_e4b15": "fp8e4b15",
    "fp8_e4m3fn": "fp8e4nv", "fp8_e4m3fnuz": "fp8e4b8", "fp8_e5m2": "fp8e5",
    "fp8_e5m2fnuz": "fp8e5b16",
}  # fmt: skip
"""Name of a dtype in torch or the language -> its short name in signatures."""


def canonicalize_dtype(dtype: Any) -> str:
    """Short name of a dtype of torch, numpy or the language."""
    text = str(dtype).rsplit(".", 1)[-1]
    short = type_canonicalisation_dict.get(text)
    if short is None and text in type_canonicalisation_dict.values():
        return text
    if short is None:
        raise KeyError(text)
    return short


def mangle_type(value: Any, specialize: bool = False) -> str:
    """The type of an argument, as signatures write it."""
    from tegula.runtime.parameters import KernelParam
    from tegula.runtime.specialize import Specializer

    specializer = Specializer()
    specializer.add(
        KernelParam("x", 0, "positional", do_not_specialize=not specialize), value, 0, 0
    )
    kind = specializer.out.types.get("x")
    return "constexpr" if kind is None else type_text(kind)


def type_text(kind: ir.Type) -> str:
    """A type of the IR as signatures write it."""
    if isinstance(kind, ir.Pointer):
        return "*" + type_text(kind.elem)
    assert isinstance(kind, ir.DType)
    from tegula.language.dtypes import from_ir

    return canonicalize_dtype(from_ir(kind))


class TensorWrapper:
    """A tensor whose elements are taken for another dtype of the same size."""

    def __init__(self, base: Any, dtype: Any) -> None:
        self.base = base
        self.dtype = dtype
        self.data = base.data
        self.device = base.device
        self.shape = base.shape

    def data_ptr(self) -> int:
        """Where it begins."""
        return int(self.base.data_ptr())

    def stride(self, *args: Any) -> Any:
        """Strides in elements."""
        return self.base.stride(*args)

    def element_size(self) -> int:
        """Bytes of an element."""
        return int(self.base.element_size())

    def cpu(self) -> TensorWrapper:
        """The same in host memory."""
        return TensorWrapper(self.base.cpu(), self.dtype)

    def copy_(self, other: TensorWrapper) -> None:
        """Take the elements of another one."""
        self.base.copy_(other.base)

    def clone(self) -> TensorWrapper:
        """A copy."""
        return TensorWrapper(self.base.clone(), self.dtype)

    def to(self, device: Any) -> TensorWrapper:
        """The same on another device."""
        return TensorWrapper(self.base.to(device), self.dtype)

    def new_empty(self, sizes: Sequence[int]) -> TensorWrapper:
        """A new one of the same kind."""
        return TensorWrapper(self.base.new_empty(sizes), self.dtype)

    def __str__(self) -> str:
        return f"TensorWrapper[{self.dtype}]({self.base})"


def reinterpret(tensor: Any, dtype: Any) -> Any:
    """The tensor with its elements taken for `dtype`, which has as many bits."""
    base = tensor.base if isinstance(tensor, TensorWrapper) else tensor
    if not hasattr(base, "data_ptr"):
        raise TypeError(f"Cannot reinterpret a {type(tensor)}.")
    if dtype == base.dtype:
        return base
    return TensorWrapper(base, dtype)


def type_argument(text: str, divisible: bool) -> Any:
    """An argument of the type that a signature names, for a compilation without arguments."""
    if text.startswith("*"):
        return UnalignedMock(text) if not divisible else MockTensor(_pointee(text))
    kind = dtype_of(text)
    if kind is None:
        raise ArgumentError(f"{text!r} names no type of arguments")
    if kind is ir.i1:
        return True
    if kind.is_float:
        return 0.5
    base = 16 if divisible else 17
    wide = {"i64": 1 << 40, "u64": 1 << 63}.get(kind.name, 0)
    return base + wide


def _pointee(text: str) -> str:
    return text.lstrip("*k")


class UnalignedMock(MockTensor):
    """A stand-in for an array of which nothing is known but its dtype."""

    def __init__(self, text: str) -> None:
        super().__init__(_pointee(text))

    def data_ptr(self) -> int:
        return super().data_ptr() + 8


def is_power_of_two(n: int) -> bool:
    """Whether `n` is a power of two."""
    return n > 0 and n & (n - 1) == 0


def validate_block_shape(shape: Sequence[int]) -> int:
    """Number of elements of a block."""
    numel = 1
    for i, n in enumerate(shape):
        if not isinstance(n, int):
            raise TypeError(f"Shape element {i} must have type `constexpr[int]`, got {type(n)}")
        numel *= n
    return numel
