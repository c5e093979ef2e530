"""What a kernel's variables hold while it is compiled.

Runtime values are `tensor`s (scalars, pointers and tiles alike) and `tensor_descriptor`s;
everything else is known at compile time and held as the plain Python value: numbers, None,
strings, dtypes, functions, and tuples of any of these.

A number that is assigned to a variable becomes a tensor, with the type it has on its own: from then
on it promotes as one. `known` gives the number back where a compile-time value is needed.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, Final

from tegula.ir.core import Value
from tegula.ir.types import Descriptor, DType, Pointer, Tile, Type, elem_of, i1, shape_of

from .active import active
from .dtypes import dtype, from_ir


class tensor:
    """A runtime value: a scalar, a pointer, or a tile of either."""

    __slots__ = ("handle", "ir_elem", "ir_shape", "ir_type")

    def __init__(self, handle: Value) -> None:
        self.handle = handle
        t: Type = handle.type
        self.ir_type = t
        self.ir_shape: tuple[int, ...] = shape_of(t)
        self.ir_elem: DType | Pointer = elem_of(t)

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the dimensions; empty for scalars."""
        return self.ir_shape

    @property
    def dtype(self) -> Any:
        """Type of one element."""
        return from_ir(self.ir_elem)

    @property
    def type(self) -> Any:
        """Type of the whole: a `block_type` for tiles."""
        return from_ir(self.ir_type)

    @property
    def numel(self) -> int:
        """Number of elements."""
        return prod(self.ir_shape)

    @property
    def is_pointer(self) -> bool:
        return isinstance(self.ir_elem, Pointer)

    if TYPE_CHECKING:  # what kernels may write; `_give_operators` and the frontend mean it

        def _binary(self, other: Any) -> tensor: ...
        def _unary(self) -> tensor: ...

        __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _binary
        __truediv__ = __rtruediv__ = __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = _binary
        __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = _binary
        __lshift__ = __rlshift__ = __rshift__ = __rrshift__ = __pow__ = __matmul__ = _binary
        __lt__ = __le__ = __gt__ = __ge__ = __getitem__ = _binary
        __neg__ = __pos__ = __invert__ = __abs__ = _unary

        def __getattr__(self, name: str) -> Any: ...

    def __repr__(self) -> str:
        data = getattr(self.handle, "data", None)  # known under the debugger only
        shown = "" if data is None else f" {data!r}" if self.ir_shape else f" {data}"
        return f"<tensor {from_ir(self.ir_type)}{shown}>"

    @property
    def data(self) -> Any:
        """The number or array, under the debugger."""
        if not hasattr(self.handle, "data"):
            raise TypeError("the value of a tensor is not known at compile time")
        return self.handle.data

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        import numpy as np

        return np.array(self.data, dtype)

    def __bool__(self) -> bool:
        return bool(self.data)

    def __int__(self) -> int:
        return int(self.data)

    def __index__(self) -> int:
        return operator.index(self.data)

    def __float__(self) -> float:
        return float(self.data)


def _visitor() -> Any:
    visitor = active()
    if visitor is None:
        raise TypeError("a kernel's tensors are computed with in kernels")
    return visitor


def _give_operators() -> None:
    """Let host code that runs on a kernel's behalf write operators."""

    def binary(op: type, reflected: bool) -> Any:
        def method(self: tensor, other: Any) -> Any:
            a, b = (other, self) if reflected else (self, other)
            return _visitor().binary(op, a, b)

        return method

    def unary(op: type) -> Any:
        return lambda self: _visitor().unary(op, self)

    def compare(op: type) -> Any:
        return lambda self, other: _visitor().compare(op, self, other)

    def equal(op: type, same: bool) -> Any:
        def method(self: tensor, other: Any) -> Any:
            visitor = active()
            return (self is other) == same if visitor is None else visitor.compare(op, self, other)

        return method

    tensor.__eq__ = equal(ast.Eq, True)  # type: ignore[method-assign]
    tensor.__ne__ = equal(ast.NotEq, False)  # type: ignore[method-assign]
    tensor.__hash__ = object.__hash__  # type: ignore[method-assign]
    for name, op in _BINARY.items():
        setattr(tensor, f"__{name}__", binary(op, False))
        setattr(tensor, f"__r{name}__", binary(op, True))
    for name, op in _UNARY.items():
        setattr(tensor, f"__{name}__", unary(op))
    for name, op in _COMPARE.items():
        setattr(tensor, f"__{name}__", compare(op))
    tensor.__getitem__ = lambda self, i: _visitor().subscript(self, i)  # type: ignore[assignment]

    def attribute(self: tensor, name: str) -> Any:
        if name.startswith("__") or active() is None:
            raise AttributeError(f"'tensor' object has no attribute {name!r}")
        return active().host_attribute(self, name)

    tensor.__getattr__ = attribute  # type: ignore[method-assign]


_BINARY: dict[str, type] = {
    "add": ast.Add, "sub": ast.Sub, "mul": ast.Mult, "truediv": ast.Div, "floordiv": ast.FloorDiv,
    "mod": ast.Mod, "pow": ast.Pow, "lshift": ast.LShift, "rshift": ast.RShift, "and": ast.BitAnd,
    "or": ast.BitOr, "xor": ast.BitXor, "matmul": ast.MatMult,
}  # fmt: skip
_UNARY: dict[str, type] = {"neg": ast.USub, "pos": ast.UAdd, "invert": ast.Invert}
_COMPARE: dict[str, type] = {"lt": ast.Lt, "le": ast.LtE, "gt": ast.Gt, "ge": ast.GtE}
_give_operators()

TENSOR_PROPERTIES: Final = ("shape", "dtype", "type", "numel")


class tensor_descriptor:
    """A strided tensor in memory that is read and written in blocks: where it begins, its runtime
    shape and strides, and the compile-time shape of a block.
    """

    __slots__ = ("base", "block_shape", "padding", "shape", "strides")

    def __init__(
        self,
        base: tensor,
        shape: Sequence[tensor],
        strides: Sequence[tensor],
        block_shape: tuple[int, ...],
        padding: str,
    ) -> None:
        self.base = base
        self.shape = tuple(shape)
        self.strides = tuple(strides)
        self.block_shape = block_shape
        self.padding = padding

    @property
    def elem(self) -> DType:
        """IR type of an element."""
        pointer = self.base.ir_elem
        assert isinstance(pointer, Pointer)
        return pointer.elem

    @property
    def dtype(self) -> Any:
        return from_ir(self.elem)

    @property
    def type(self) -> Any:
        return from_ir(Descriptor(self.elem, self.block_shape))

    @property
    def block_type(self) -> Any:
        return from_ir(Tile(self.block_shape, self.elem))

    def __repr__(self) -> str:
        return f"<tensor_descriptor {self.type}>"


class block_pointer:
    """A window of a strided tensor: like a descriptor, with the place of the block in it. `order`
    is only remembered.
    """

    __slots__ = ("base", "block_shape", "offsets", "order", "shape", "strides")

    def __init__(
        self,
        base: tensor,
        shape: Sequence[tensor],
        strides: Sequence[tensor],
        offsets: Sequence[tensor],
        block_shape: tuple[int, ...],
        order: tuple[int, ...],
    ) -> None:
        self.base = base
        self.shape = tuple(shape)
        self.strides = tuple(strides)
        self.offsets = tuple(offsets)
        self.block_shape = block_shape
        self.order = order

    @property
    def elem(self) -> DType:
        """IR type of an element."""
        pointer = self.base.ir_elem
        assert isinstance(pointer, Pointer)
        return pointer.elem

    @property
    def dtype(self) -> Any:
        return from_ir(self.base.ir_elem)

    @property
    def type(self) -> Any:
        """A pointer to tiles, as far as kernels ask: `p.type.element_ty.element_ty`."""
        return block_pointer_type(from_ir(Tile(self.block_shape, self.elem)))

    def __repr__(self) -> str:
        return f"<block_pointer {from_ir(self.elem)}{list(self.block_shape)}>"


@dataclass(frozen=True)
class block_pointer_type:
    """Type of a block pointer."""

    element_ty: Any

    def is_ptr(self) -> bool:
        return True

    def is_block(self) -> bool:
        return False

    def __str__(self) -> str:
        return f"pointer<{self.element_ty}>"


DESCRIPTOR_PROPERTIES: Final = (
    "shape", "strides", "block_shape", "dtype", "type", "block_type",
)  # fmt: skip
BLOCK_POINTER_PROPERTIES: Final = ("dtype", "type", "shape", "strides", "offsets", "block_shape")


def _unwrap(x: Any) -> Any:
    return x.value if isinstance(x, constexpr) else x


class constexpr:
    """A compile-time value. On a parameter, `x: tl.constexpr` asks for one; a global that kernels
    read is wrapped in one.
    """

    __slots__ = ("value",)

    value: Any

    def __init__(self, value: Any) -> None:
        self.value = _unwrap(value)

    def __repr__(self) -> str:
        return f"constexpr[{self.value!r}]"

    def __str__(self) -> str:
        return repr(self)

    def __hash__(self) -> int:
        return hash(self.value)

    def __bool__(self) -> bool:
        return bool(self.value)

    def __index__(self) -> int:
        return operator.index(self.value)

    def __int__(self) -> int:
        return int(self.value)

    def __float__(self) -> float:
        return float(self.value)

    def __len__(self) -> int:
        return len(self.value)

    def __iter__(self) -> Any:
        return iter(self.value)

    def __getitem__(self, index: Any) -> Any:
        return self.value[_unwrap(index)]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.value(*args, **kwargs)


def _binary(f: Callable[[Any, Any], Any], reflected: bool = False) -> Callable[[Any, Any], Any]:
    def method(self: constexpr, other: Any) -> constexpr:
        a, b = (_unwrap(other), self.value) if reflected else (self.value, _unwrap(other))
        return constexpr(f(a, b))

    return method


for _name in [
    "add",
    "sub",
    "mul",
    "truediv",
    "floordiv",
    "mod",
    "pow",
    "lshift",
    "rshift",
    "and",
    "or",
    "xor",
]:
    _f = getattr(operator, f"__{_name}__")
    setattr(constexpr, f"__{_name}__", _binary(_f))
    setattr(constexpr, f"__r{_name}__", _binary(_f, reflected=True))
for _name in ["eq", "ne", "lt", "le", "gt", "ge"]:
    setattr(constexpr, f"__{_name}__", _binary(getattr(operator, f"__{_name}__")))
for _name in ["neg", "pos", "invert", "abs"]:
    _f = getattr(operator, f"__{_name}__")
    setattr(constexpr, f"__{_name}__", lambda self, f=_f: constexpr(f(self.value)))


@dataclass(frozen=True)
class constexpr_type:
    """What a compile-time value has as its `.type`."""

    value: Any


@dataclass(frozen=True)
class tuple_type:
    """What a tuple has as its `.type`: the types of its elements."""

    types: Sequence[Any]

    def __post_init__(self) -> None:
        object.__setattr__(self, "types", tuple(self.types))


class const:
    """Annotation of a pointer parameter that is never stored through."""


@dataclass(frozen=True)
class range_spec:
    """What `range`, `tl.range` and `tl.static_range` give to a `for` loop."""

    start: Any
    stop: Any
    step: Any
    static: bool = False
    stages: int = 0
    unroll: int = 0
    hints: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[Any]:
        """The turns, under the debugger."""
        return _visitor().iterate(self)


@dataclass(frozen=True)
class condition_spec:
    """What `tl.condition` gives to a `while` loop."""

    value: Any
    hints: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.value)


class slice_all:
    """A full `:` in a subscript."""


@dataclass(frozen=True)
class BoundMethod:
    """`x.f` before it is called; under the debugger, Python calls it."""

    fn: Any
    self: Any

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.fn(self.self, *args, **kwargs)


def known(x: Any) -> Any:
    """The number that a scalar always holds; None for all that is not known to be one number."""
    if type(x) is tensor and not x.ir_shape:
        owner = x.handle.owner
        if owner is not None and owner.name == "constant" and isinstance(x.ir_elem, DType):
            value = owner.attrs["value"]
            return bool(value) if x.ir_elem is i1 else value
    return None


def as_constant(x: Any) -> Any:
    """Scalars that are known to be one number as that number, in tuples too; the rest unchanged."""
    if type(x) is tensor:
        number = known(x)
        return x if number is None else number
    if isinstance(x, tuple):
        items = [as_constant(v) for v in x]
        return tuple(items) if type(x) is tuple else type(x)(*items)
    return x


def is_number(x: Any) -> bool:
    """True for a compile-time number: bool, int or float."""
    return isinstance(x, (int, float))


def describe(x: Any) -> str:
    """A value as error messages name it."""
    if isinstance(x, tensor):
        shape = f"{list(x.ir_shape)} " if x.ir_shape else ""
        return (
            f"{'a tile' if x.ir_shape else 'a runtime value'} of type {shape}{from_ir(x.ir_elem)}"
        )
    if isinstance(x, tensor_descriptor):
        return f"a descriptor of type {x.type}"
    if isinstance(x, block_pointer):
        return f"a block pointer to {from_ir(x.elem)}{list(x.block_shape)}"
    if isinstance(x, dtype):
        return f"the dtype {x}"
    if isinstance(x, tuple):
        return f"a tuple of {len(x)}"
    if hasattr(type(x), "__aggregate_fields__"):
        return f"an aggregate `{type(x).__name__}`"
    name = getattr(x, "__name__", None)
    return f"`{name}`" if name and callable(x) else f"the constant {x!r}"
