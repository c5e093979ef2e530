"""The device library's functions: each declared once, in the tables that `TABLES` lists.

A declaration says how a function is called, how it is computed, and how far off its results may
be; `tegula.language.extra.libdevice`, the tests, the measurement and the documentation follow from
it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

from tegula.ir.core import Block, Value
from tegula.ir.location import Location
from tegula.ir.types import DTYPES, DType, Pointer, Type, elem_of, f32, f64, with_elem

from .emitter import Emitter
from .number import Number


@dataclass(frozen=True)
class Signature:
    """The element types of a function's arguments and of its result."""

    arguments: tuple[DType, ...]
    result: DType

    @classmethod
    def parse(cls, text: str) -> Signature:
        """Of a text like `f32 i32 -> f32`."""
        left, _, right = text.partition("->")
        return cls(tuple(DTYPES[w] for w in left.split()), DTYPES[right.strip()])

    def __str__(self) -> str:
        return f"{' '.join(t.name for t in self.arguments)} -> {self.result.name}"

    @property
    def float_type(self) -> DType:
        """The float type that the formula is written for."""
        for t in (self.result, *self.arguments):
            if t in (f32, f64):
                return t
        return f32 if self.arguments[0].bits == 32 else f64


@dataclass(frozen=True)
class Bound:
    """How far off results may be, in units in the last place; 0.5 is correctly rounded.

    Where a function has zeros that no formula of moderate length resolves, `unit_at` is the size
    of result below which the unit does not shrink any more.
    """

    ulp: float
    unit_at: float = 0.0


EXACT = Bound(0.5)
Build = Callable[..., Number]


@dataclass(frozen=True)
class LibraryFunction:
    """One name of the library."""

    name: str
    doc: str
    signatures: tuple[Signature, ...]
    build: Build
    f32_bound: Bound = EXACT
    f64_bound: Bound = EXACT
    domain: str = ""
    """Where the bound holds, if not everywhere."""
    f64_inside: bool = False
    """Whether the function of f32 computes in f64."""

    @property
    def arity(self) -> int:
        return len(self.signatures[0].arguments)

    def bound(self, dtype: DType) -> Bound:
        """The bound of the function of this float type."""
        return self.f32_bound if dtype is f32 else self.f64_bound

    def signature(self, types: Sequence[DType | Pointer]) -> Signature | None:
        """The signature for arguments of these types, integers of other signedness included."""
        for wanted in self.signatures:
            if wanted.arguments == tuple(types):
                return wanted
        for wanted in self.signatures:
            if len(types) == len(wanted.arguments) and all(
                a is b or (isinstance(b, DType) and a.is_int and b.is_int and a.bits == b.bits)
                for a, b in zip(wanted.arguments, types, strict=True)
            ):
                return wanted
        return None

    def expand(
        self, signature: Signature, arguments: Sequence[Value], block: Block,
        loc: Location | None, widest: DType = f64,
    ) -> Value:  # fmt: skip
        """The formula, appended to the block. All arguments have one shape. A function of f32
        that computes in f64 does without where f32 is the widest float."""
        like: Type = with_elem(arguments[0].type, signature.float_type)
        e = Emitter(like, block, loc, max(widest, signature.float_type, key=lambda t: t.bits))
        values = []
        for value, elem in zip(arguments, signature.arguments, strict=True):
            x = Number(e, value)
            values.append(x if elem_of(value.type) is elem else x.bits(elem))
        result = self.build(*values)
        assert result.elem is signature.result, (self.name, result.elem, signature)
        return result.value


def signatures(*texts: str) -> tuple[Signature, ...]:
    return tuple(Signature.parse(text) for text in texts)


def of_floats(count: int) -> tuple[Signature, ...]:
    """`count` floats to a float, for both types."""
    return signatures(*(f"{' '.join([t] * count)} -> {t}" for t in ("f32", "f64")))


@cache
def library() -> dict[str, LibraryFunction]:
    """All functions by name."""
    from .tables import TABLES

    found: dict[str, LibraryFunction] = {}
    for function in (f for table in TABLES for f in table):
        assert function.name not in found, f"{function.name} is declared twice"
        found[function.name] = function
    return found
