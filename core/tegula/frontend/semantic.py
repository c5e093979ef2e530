"""Meaning of the language's operators on runtime values: promotion, casts, broadcasting, and the
IR they become.

One `Semantic` accompanies one function while it is compiled. The functions of `tegula.language`
receive it as their first argument and build IR through it; `s.b` is the builder.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

from tegula.ir.builder import Builder, make_op
from tegula.ir.core import Value
from tegula.ir.ops import OPS
from tegula.ir.types import (
    DType,
    Pointer,
    Tile,
    f8e4b15,
    f32,
    i1,
    i8,
    i16,
    i32,
    i64,
    numpy_dtype,
    u64,
)
from tegula.language.dtypes import dtype, from_ir
from tegula.language.values import as_constant, describe, is_number, tensor, tensor_descriptor

from .diagnostics import LanguageError
from .function import is_library
from .offsets import Offsets
from .promotion import (
    check_range,
    name_of,
    promote,
    promote_integers,
    promote_number,
    type_of_number,
)

if TYPE_CHECKING:
    from .base import Base

Shape = tuple[int, ...]


class Semantic:
    """Builds IR from language values; see the module's page."""

    def __init__(self, builder: Builder, options: Mapping[str, Any]) -> None:
        self.b = builder
        self.options = options
        self.offsets = Offsets(self)
        self.visitor: Base
        """Set by the visitor: higher-order functions compile their argument through it."""

    # ---- making values

    def emit(self, name: str, *operands: Value, **attrs: Any) -> tensor:
        """Append an op with one result. What only depends on constants is computed at once."""
        if operands and name in FOLDED and all(is_constant(x) for x in operands):
            if isinstance(attrs.get("to"), Pointer):
                pass  # an address is no number
            elif f8e4b15 not in (attrs.get("to"), *(x.type for x in operands)):  # numpy has none
                return self.fold(name, operands, attrs)
        return tensor(self.b.create(name, *operands, **attrs))

    def fold(self, name: str, operands: Sequence[Value], attrs: dict[str, Any]) -> tensor:
        """An operation on constant scalars, by the meaning that its declaration states."""
        import numpy as np

        op = make_op(OPS[name], operands, dict(attrs))
        values = []
        for x in operands:
            assert x.owner is not None and isinstance(x.type, DType)
            values.append(numpy_dtype(x.type).type(x.owner.attrs["value"]))
        assert op.opdef.evaluate is not None
        with np.errstate(all="ignore"):
            result = op.opdef.evaluate(op, *values)
        elem = op.result.type
        assert isinstance(elem, DType)
        return self.constant(float(result) if elem.is_float else int(result), elem)

    def constant(self, value: Any, elem: DType | Pointer, shape: Shape = ()) -> tensor:
        """A constant scalar or tile."""
        return tensor(self.b.constant(value, Tile(shape, elem) if shape else elem))

    def number(self, value: Any, elem: DType, shape: Shape = ()) -> tensor:
        """A compile-time number as `elem`; refused if an integer type cannot hold it."""
        check_range(value, elem)
        if elem.is_int and isinstance(value, float):
            value = int(value)
        return self.constant(value, elem, shape)

    def cast_number(self, value: Any, elem: DType, shape: Shape = ()) -> tensor:
        """A number converted as a tensor is: integers wrap, floats truncate and saturate."""
        if elem is i1:
            value = value != 0
        elif elem.is_int and isinstance(value, float):
            limit = float(elem.max_value)
            clipped = 0.0 if value != value else min(max(value, float(elem.min_value)), limit)
            value = min(int(clipped), elem.max_value)
        elif elem.is_int:
            value &= (1 << elem.bits) - 1
            if value > elem.max_value:
                value -= 1 << elem.bits
        return self.constant(value, elem, shape)

    def to_tensor(self, x: Any, what: str = "this value") -> tensor:
        """A runtime value: itself, or a number with the type it has on its own."""
        if isinstance(x, tensor):
            return x
        if is_number(x):
            return self.constant(x, type_of_number(x))
        raise LanguageError(f"{what} must be a tensor or a number, not {describe(x)}")

    def to_type(self, x: Any, elem: DType, what: str = "this value") -> tensor:
        """A runtime value of element type `elem`: numbers directly, tensors by a cast."""
        if is_number(x):
            return self.number(x, elem)
        return self.cast(self.to_tensor(x, what), elem)

    # ---- shapes

    def broadcast_to(self, x: tensor, shape: Shape) -> tensor:
        """Splat a scalar, add leading dimensions, expand sizes of 1."""
        if x.ir_shape == shape:
            return x
        if not shape:
            raise LanguageError(f"{describe(x)} cannot become a scalar")
        if not x.ir_shape:
            return self.emit("splat", x.handle, shape=shape)
        missing = len(shape) - len(x.ir_shape)
        fits = missing >= 0 and all(
            a == b or a == 1 for a, b in zip(x.ir_shape, shape[missing:], strict=True)
        )
        if not fits:
            raise LanguageError(
                f"shape {list(x.ir_shape)} cannot be broadcast to {list(shape)}",
                "sizes must be equal or 1; add dimensions with x[:, None] or x[None, :]",
            )
        for _ in range(missing):
            x = self.emit("expand_dims", x.handle, axis=0)
        return x if x.ir_shape == shape else self.emit("broadcast", x.handle, shape=shape)

    def common_shape(self, shapes: Sequence[Shape]) -> Shape:
        """The shape that all of `shapes` broadcast to."""
        out: Shape = ()
        for shape in shapes:
            if shape == out or not shape:
                continue
            if not out:
                out = shape
                continue
            n = max(len(out), len(shape))
            a, b = (1,) * (n - len(out)) + out, (1,) * (n - len(shape)) + shape
            for i, (p, q) in enumerate(zip(a, b, strict=True)):
                if p != q and p != 1 and q != 1:
                    raise LanguageError(
                        f"shapes {list(out)} and {list(shape)} do not fit: dimension {i} is {p} "
                        f"in one and {q} in the other",
                        "sizes must be equal or 1; add dimensions with x[:, None] or x[None, :]",
                    )
            out = tuple(q if p == 1 else p for p, q in zip(a, b, strict=True))
        return out

    def broadcast(self, *xs: tensor) -> tuple[tensor, ...]:
        """All values in their common shape."""
        first = xs[0].ir_shape
        if all(x.ir_shape == first for x in xs):
            return xs
        shape = self.common_shape([x.ir_shape for x in xs])
        return tuple(self.broadcast_to(x, shape) for x in xs)

    # ---- conversions

    def cast(self, x: tensor, elem: DType | Pointer, rounding: str | None = None) -> tensor:
        """Convert the elements by value."""
        source = x.ir_elem
        if source is elem:
            return x
        if isinstance(elem, Pointer) and isinstance(source, DType):
            if not source.is_int:
                raise LanguageError(f"{name_of(source)} does not convert to a pointer")
            x = self.cast(x, i64)
        elif isinstance(source, Pointer) and isinstance(elem, DType) and elem is not i1:
            if not elem.is_int:
                raise LanguageError(
                    f"a pointer does not convert to {name_of(elem)}", "go through tl.int64"
                )
            if elem.bits != 64:
                x = self.emit("cast", x.handle, to=i64)
        if rounding in (None, "rtne"):
            return self.emit("cast", x.handle, to=elem)
        return self.emit("cast", x.handle, to=elem, rounding=rounding)

    def bitcast(self, x: tensor, elem: DType | Pointer) -> tensor:
        """Reinterpret the bits of the elements."""
        if x.ir_elem is elem:
            return x
        widths = [64 if isinstance(e, Pointer) else e.bits for e in (x.ir_elem, elem)]
        if widths[0] != widths[1]:
            raise LanguageError(
                f"bitcast from {name_of(x.ir_elem)} ({widths[0]} bits) to {name_of(elem)} "
                f"({widths[1]} bits)",
                "a bitcast keeps the width; convert the value with x.to(dtype) instead",
            )
        return self.emit("bitcast", x.handle, to=elem)

    def truth(self, x: Any, what: str) -> tensor:
        """A runtime value as a boolean: itself if it is one, otherwise whether it differs from
        zero.
        """
        x = self.to_tensor(x, what)
        return x if x.ir_elem is i1 else self.cast(x, i1)

    # ---- binary operators

    def numbers(self, x: Any, what: str) -> DType | None:
        """The dtype of a tensor operand, None for a number; everything else is refused."""
        if isinstance(x, tensor):
            if isinstance(x.ir_elem, Pointer):
                raise LanguageError(
                    f"`{what}` does not take pointers, got {describe(x)}",
                    "pointers take + and - with integers, comparisons, tl.load and tl.store",
                )
            return x.ir_elem
        if is_number(x):
            return None
        hint = ""
        if x is None:
            hint = "test it first with `if x is not None:`"
        elif isinstance(x, tensor_descriptor):
            hint = "read a tile with desc.load(offsets)"
        elif isinstance(x, dtype):
            hint = "a dtype is no value; convert with x.to(dtype)"
        raise LanguageError(f"`{what}` does not take {describe(x)}", hint)

    def operands(
        self, a: Any, b: Any, what: str, division: bool = False
    ) -> tuple[tensor, tensor, DType]:
        """Both operands in the type and shape that the operation is computed in."""
        ta, tb = self.numbers(a, what), self.numbers(b, what)
        if ta is None and tb is None:
            a, ta = self.to_tensor(a), type_of_number(a)
        if ta is None:
            assert tb is not None
            t = promote_number(a, tb, division)
            check_range(a, t)
            return self.number(a, t, b.ir_shape), self.cast(b, t), t
        if tb is None:
            t = promote_number(b, ta, division)
            check_range(b, t)
            return self.cast(a, t), self.number(b, t, a.ir_shape), t
        t = promote(ta, tb, division)
        a, b = self.broadcast(self.cast(a, t), self.cast(b, t))
        return a, b, t

    def arithmetic(self, op: str, symbol: str, a: Any, b: Any, checked: bool = False) -> tensor:
        a, b, t = self.operands(a, b, symbol)
        result = self.emit(op, a.handle, b.handle)
        if checked and t.is_int and 1 < t.bits < 64 and not is_constant(result.handle):
            self.check_overflow(op, symbol, a, b, t)
        return result

    def check_overflow(self, op: str, symbol: str, a: tensor, b: tensor, t: DType) -> None:
        """Stop the launch where an integer result does not fit; only in debugging."""
        if not (self.options.get("debug") and self.options.get("sanitize_overflow", True)):
            return
        if is_library(self.visitor.function):
            return
        wide = i64 if t.is_signed or op != "mul" else u64
        exact = self.emit(op, self.cast(a, wide).handle, self.cast(b, wide).handle)
        low, high = (self.constant(v, wide, exact.ir_shape) for v in (t.min_value, t.max_value))
        fits = self.emit("cmp", exact.handle, high.handle, pred="le")
        if wide is i64:
            above = self.emit("cmp", exact.handle, low.handle, pred="ge")
            fits = self.emit("and", above.handle, fits.handle)
        message = f"`{symbol}` overflows {name_of(t)}"
        self.b.create("assert", fits.handle, message=message)

    def add(self, a: Any, b: Any, checked: bool = False) -> tensor:
        pa = isinstance(a, tensor) and a.is_pointer
        pb = isinstance(b, tensor) and b.is_pointer
        if pa and pb:
            raise LanguageError(
                "two pointers cannot be added", "add an integer offset to a pointer"
            )
        if pa or pb:
            return self.add_pointer(a, b) if pa else self.add_pointer(b, a)
        return self.arithmetic("add", "+", a, b, checked)

    def sub(self, a: Any, b: Any, checked: bool = False) -> tensor:
        if isinstance(a, tensor) and a.is_pointer:
            if isinstance(b, tensor) and b.is_pointer:
                raise LanguageError(
                    "two pointers cannot be subtracted",
                    "convert both first: p.to(tl.int64) - q.to(tl.int64)",
                )
            if is_number(b):
                return self.add_pointer(a, -b)
            offset = self.to_tensor(b, "an offset")
            if isinstance(offset.ir_elem, DType) and not offset.ir_elem.is_signed:
                offset = self.cast(offset, i64)
            return self.add_pointer(a, self.neg(offset))
        return self.arithmetic("sub", "-", a, b, checked)

    def mul(self, a: Any, b: Any, checked: bool = False) -> tensor:
        return self.arithmetic("mul", "*", a, b, checked)

    def add_pointer(self, pointer: tensor, offset: Any) -> tensor:
        """Advance pointers by elements."""
        if is_number(offset):
            if isinstance(offset, float):
                raise LanguageError(
                    f"a pointer cannot be advanced by {offset}", "offsets are integers"
                )
            elem = promote_integers(i32, type_of_number(offset))
            return self.emit(
                "addptr", pointer.handle, self.constant(offset, elem, pointer.ir_shape).handle
            )
        offset = self.to_tensor(offset, "an offset")
        if not (isinstance(offset.ir_elem, DType) and offset.ir_elem.is_int):
            raise LanguageError(
                f"a pointer cannot be advanced by {describe(offset)}",
                "offsets are integers: x.to(tl.int64)",
            )
        offset = tensor(self.offsets.exact(offset.handle))
        pointer, offset = self.broadcast(pointer, offset)
        return self.emit("addptr", pointer.handle, offset.handle)

    def truediv(self, a: Any, b: Any) -> tensor:
        a, b, t = self.operands(a, b, "/", division=True)
        if t.is_int:
            a, b = self.cast(a, f32), self.cast(b, f32)
        return self.emit("div", a.handle, b.handle)

    def integer_division(self, op: str, symbol: str, a: Any, b: Any) -> tensor:
        a, b, t = self.operands(a, b, symbol, division=True)
        if not t.is_int:
            raise LanguageError(
                f"`{symbol}` takes integers, not {name_of(t)}", "for floats write tl.floor(a / b)"
            )
        return self.emit(op, a.handle, b.handle)

    def floordiv(self, a: Any, b: Any) -> tensor:
        """Integer quotient, truncated toward zero as in C."""
        return self.integer_division("div", "//", a, b)

    def mod(self, a: Any, b: Any) -> tensor:
        """Remainder with the sign of the dividend, as in C."""
        a, b, _ = self.operands(a, b, "%", division=True)
        return self.emit("rem", a.handle, b.handle)

    def bitwise(self, op: str, symbol: str, a: Any, b: Any) -> tensor:
        for x in (a, b):
            t = self.numbers(x, symbol)
            if (t is not None and not t.is_int) or isinstance(x, float):
                shown = " and ".join(
                    str(from_ir(v.ir_elem)) if isinstance(v, tensor) else repr(v) for v in (a, b)
                )
                raise LanguageError(
                    f"`{symbol}` has invalid operands of type {shown}: {describe(x)} is neither "
                    "an integer nor a boolean",
                    "reinterpret the bits with x.to(tl.int32, bitcast=True) if that is meant",
                )
        return self.arithmetic(op, symbol, a, b)

    def and_(self, a: Any, b: Any) -> tensor:
        return self.bitwise("and", "&", a, b)

    def or_(self, a: Any, b: Any) -> tensor:
        return self.bitwise("or", "|", a, b)

    def xor(self, a: Any, b: Any) -> tensor:
        return self.bitwise("xor", "^", a, b)

    def shl(self, a: Any, b: Any) -> tensor:
        return self.bitwise("shl", "<<", a, b)

    def shr(self, a: Any, b: Any) -> tensor:
        """Shift right: arithmetic if and only if `a` itself is signed, whatever `b` is."""
        signed = isinstance(a, tensor) and isinstance(a.ir_elem, DType) and a.ir_elem.is_signed
        x, y, t = self.operands(a, b, ">>")
        if not signed or t.is_signed or not t.is_int:
            return self.bitwise("shr", ">>", a, b)
        wide = SIGNED[t.bits]
        shifted = self.emit("shr", self.cast(x, wide).handle, self.cast(y, wide).handle)
        return self.cast(shifted, t)

    def matmul(self, a: Any, b: Any) -> tensor:
        """`a @ b`: tl.dot with an accumulator of zeros of its default type."""
        from tegula.language.builtin import emit
        from tegula.language.reduction import dot

        return emit(dot, self, a, b)

    def power(self, a: Any, b: Any) -> tensor:
        """`a ** b`: constant integer powers by multiplication, other powers of floats as pow."""
        a, b = as_constant(a), as_constant(b)
        whole = isinstance(b, int) or (isinstance(b, float) and b.is_integer())
        if isinstance(a, tensor) and whole and abs(b) <= MAX_POWER:
            t = self.numbers(a, "**")
            if isinstance(b, float) and t is not None and t.is_int:
                a = self.cast(a, promote_number(b, t))
            elif b < 0 and t is not None and t.is_int:
                raise LanguageError(
                    "a negative power of an integer is no integer",
                    "convert the base: x.to(tl.float32) ** b",
                )
            return self.whole_power(a, int(b))
        if a == 2 and isinstance(a, int) and isinstance(b, tensor) and b.ir_elem in SIGNED.values():
            return self.shl(self.constant(1, b.ir_elem), b)
        x, y, t = self.operands(a, b, "**")
        if not t.is_float:
            raise LanguageError(
                "`**` of integers takes a constant exponent from 0 to 64 (or the base 2)",
                "compute in floats: x.to(tl.float32) ** y",
            )
        from tegula.language.elementwise import power

        return power(self, x, y)

    def whole_power(self, a: tensor, n: int) -> tensor:
        """A constant integer power by squaring."""
        if n < 0:
            return self.truediv(1.0, self.whole_power(a, -n))
        if n == 0:
            assert isinstance(a.ir_elem, DType)
            return self.constant(1, a.ir_elem, a.ir_shape)
        result: tensor | None = None
        while n:
            if n & 1:
                result = a if result is None else self.mul(result, a)
            n >>= 1
            a = self.mul(a, a) if n else a
        assert result is not None
        return result

    def compare(self, pred: str, a: Any, b: Any) -> tensor:
        pointers = [isinstance(x, tensor) and x.is_pointer for x in (a, b)]
        if all(pointers):
            a, b = self.broadcast(a, b)
            if a.ir_type is not b.ir_type:
                b = self.cast(b, a.ir_elem)
        elif any(pointers) and any(is_number(x) and x == 0 for x in (a, b)):
            pointer = a if pointers[0] else b
            null = self.constant(0, pointer.ir_elem, pointer.ir_shape)
            a, b = (pointer, null) if pointers[0] else (null, pointer)
        else:
            a, b, _ = self.operands(self.exact(a, b), self.exact(b, a), _SYMBOLS[pred])
        return self.emit("cmp", a.handle, b.handle, pred=pred)

    def exact(self, x: Any, other: Any) -> Any:
        """An operand of a comparison that may have left int32, in int64, if there are far arrays;
        see `offsets`.
        """
        if not (self.offsets.far and isinstance(x, tensor) and x.ir_elem is i32):
            return x
        if isinstance(other, tensor) and not (
            isinstance(other.ir_elem, DType) and other.ir_elem.is_signed and other.ir_elem.is_int
        ):
            return x
        if not self.offsets.leaves_its_type(x.handle):
            return x
        return tensor(self.offsets.widened(x.handle))

    # ---- unary operators

    def neg(self, x: tensor) -> tensor:
        self.numbers(x, "-")
        return self.emit("neg", x.handle)

    def invert(self, x: tensor) -> tensor:
        t = self.numbers(x, "~")
        if t is None or not t.is_int:
            raise LanguageError(f"`~` takes integers and booleans, not {describe(x)}")
        return self.emit("not", x.handle)

    def logical_not(self, x: tensor) -> tensor:
        """Whether a value is zero."""
        return self.emit("not", self.truth(x, "the operand of `not`").handle)

    def logical(self, op: str, a: Any, b: Any) -> tensor:
        """Elementwise `and`/`or` of truth values; both sides are evaluated."""
        what = f"the operand of `{op}`"
        a, b = self.broadcast(self.truth(a, what), self.truth(b, what))
        return self.emit(op, a.handle, b.handle)

    # ---- arguments of the language's functions

    def axis(self, axis: Any, rank: int, what: str) -> int:
        """A compile-time axis, counted from the end if negative."""
        axis = as_constant(axis)
        if not isinstance(axis, int) or isinstance(axis, bool):
            raise LanguageError(
                f"{what}: axis must be a compile-time integer, not {describe(axis)}"
            )
        if not -rank <= axis < rank:
            raise LanguageError(f"{what}: axis {axis} is outside of a tensor of rank {rank}")
        return axis % rank

    def shape(self, shape: Any, what: str) -> Shape:
        """A compile-time shape from one size, a sequence of sizes, or a sequence given as several
        arguments.
        """
        shape = as_constant(shape)
        if isinstance(shape, tuple) and len(shape) == 1 and isinstance(shape[0], tuple):
            (shape,) = shape
        dims = shape if isinstance(shape, tuple) else (shape,)
        for d in dims:
            if not isinstance(d, int) or isinstance(d, bool):
                raise LanguageError(
                    f"{what}: the shape must consist of compile-time integers, got {describe(d)}",
                    "annotate the parameter with tl.constexpr",
                )
            if d < 0:
                raise LanguageError(f"{what}: sizes cannot be negative, got {list(dims)}")
        return dims

    def flag(self, x: Any, what: str) -> bool:
        """A compile-time boolean."""
        x = as_constant(x)
        if not isinstance(x, (bool, int)):
            raise LanguageError(f"{what} must be True or False at compile time, not {describe(x)}")
        return bool(x)

    def dtype(self, x: Any, what: str) -> DType | Pointer:
        """The IR type of a dtype argument."""
        if isinstance(x, dtype) and isinstance(x.ir, (DType, Pointer)):
            return x.ir
        raise LanguageError(f"{what} must be a dtype such as tl.float32, not {describe(x)}")

    def choice(self, x: Any, choices: Sequence[str], what: str) -> str:
        """One of a few words; None and "" stand for the first."""
        if x is None or x == "":
            return choices[0]
        if x not in choices:
            known = ", ".join(repr(c) for c in choices)
            raise LanguageError(f"{what} is one of {known}, not {x!r}")
        return str(x)

    def mask(self, mask: Any, shape: Shape, what: str) -> tensor | None:
        """A mask in the given shape; None if everything is enabled."""
        mask = as_constant(mask)
        if mask is None or mask is True:
            return None
        if mask is False:
            return self.constant(False, i1, shape)
        if is_number(mask):
            mask = bool(mask)
            return self.mask(mask, shape, what)
        mask = self.to_tensor(mask, f"the mask of {what}")
        if mask.ir_elem is not i1:
            raise LanguageError(
                f"the mask of {what} must be boolean (int1), not {describe(mask)}",
                "compare it, for example `mask != 0`",
            )
        if not shape and mask.ir_shape:
            raise LanguageError(
                f"{what}: the mask has shape {list(mask.ir_shape)} and the pointer is a scalar",
                "make the pointer a tile: ptr + offsets",
            )
        return self.broadcast_to(mask, shape)


FOLDED = frozenset(
    "add sub mul div rem and or xor not neg abs shl shr cmp min max cast bitcast select".split()
)
MAX_POWER = 64
SIGNED = {8: i8, 16: i16, 32: i32, 64: i64}


def is_constant(x: Value) -> bool:
    """True for a scalar number made by a `constant`."""
    return x.owner is not None and x.owner.name == "constant" and isinstance(x.type, DType)


_SYMBOLS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}

BinaryOperator = Callable[[Semantic, Any, Any], tensor]


def numel(shape: Shape) -> int:
    """Number of elements of a shape."""
    return prod(shape)
