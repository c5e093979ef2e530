"""Building IR: every op of the table is a method of `Builder`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

from .core import Block, Op, Value
from .location import Location
from .opdef import REQUIRED, IRError, OpDef
from .ops import OPS
from .types import DType, Type, elem_of


class Builder:
    """Appends ops to a block.

    `b.add(x, y)` appends an `add` and returns its result: a Value, a tuple of them for several
    results, None for
    none. Operands are positional in declared order, variadic ones as a sequence; optional ones
    may be given by name.
    Attributes are given by name, regions by `regions=[...]`. Raises IRError if the op is not well
    formed.
    """

    def __init__(self, block: Block | None = None, loc: Location | None = None) -> None:
        self.block = block if block is not None else Block()
        self.loc = loc

    @contextlib.contextmanager
    def at(self, block: Block) -> Iterator[Block]:
        """Append to another block for a while."""
        saved, self.block = self.block, block
        try:
            yield block
        finally:
            self.block = saved

    def create(self, name: str, *operands: Any, regions: Sequence[Block] = (), **named: Any) -> Any:
        """Append the op `name`; see the class."""
        op = make_op(OPS[name], operands, named, regions, self.loc)
        self.block.ops.append(op)
        results = op.results
        if len(results) == 1 and name not in _ALWAYS_TUPLE:
            return results[0]
        return results or (() if name in _ALWAYS_TUPLE else None)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = _method(name)
        if method is None:
            raise AttributeError(f"tile IR has no op {name!r}")
        return method.__get__(self)

    def constant(self, value: int | float | bool, type: Type) -> Value:
        """A constant scalar or splat tile; ints become floats where the type needs it."""
        e = elem_of(type)
        if isinstance(e, DType):
            value = float(value) if e.is_float else int(value)
        result: Value = self.create("constant", value=value, type=type)
        return result

    def for_(
        self, lb: Value, ub: Value, step: Value, inits: Sequence[Value], body: Block, **attrs: Any
    ) -> tuple[Value, ...]:
        """A counted loop; returns the last carried values as a tuple."""
        out: tuple[Value, ...] = self.create(
            "for", lb, ub, step, list(inits), regions=[body], **attrs
        )
        return out

    def while_(self, inits: Sequence[Value], before: Block, after: Block) -> tuple[Value, ...]:
        out: tuple[Value, ...] = self.create("while", list(inits), regions=[before, after])
        return out

    def if_(self, cond: Value, then: Block, other: Block) -> tuple[Value, ...]:
        out: tuple[Value, ...] = self.create("if", cond, regions=[then, other])
        return out

    def reduce(self, srcs: Sequence[Value], combine: Block, axis: int) -> tuple[Value, ...]:
        out: tuple[Value, ...] = self.create("reduce", list(srcs), regions=[combine], axis=axis)
        return out

    def scan(
        self, srcs: Sequence[Value], combine: Block, axis: int, reverse: bool = False
    ) -> tuple[Value, ...]:
        out: tuple[Value, ...] = self.create(
            "scan", list(srcs), regions=[combine], axis=axis, reverse=reverse
        )
        return out


_ALWAYS_TUPLE = frozenset({"for", "while", "if", "reduce", "scan", "call", "sort", "map"})


@cache
def _method(name: str) -> Callable[..., Any] | None:
    """The builder method of an op; a trailing underscore avoids Python's keywords (and_, or_,
    not_, assert_).
    """
    op = name[:-1] if name.endswith("_") else name
    if op not in OPS:
        return None

    def method(self: Builder, *operands: Any, **named: Any) -> Any:
        return self.create(op, *operands, **named)

    method.__name__ = name
    method.__doc__ = OPS[op].doc
    return method


def make_op(
    d: OpDef,
    operands: Sequence[Any],
    named: dict[str, Any],
    regions: Sequence[Block] = (),
    loc: Location | None = None,
) -> Op:
    """An op with its result types inferred, not yet in a block. Raises IRError."""
    flat: list[Value] = []
    if d.simple and len(operands) == len(d.operands):
        flat.extend(operands)
        segments: tuple[int, ...] = (1,) * len(flat)
    else:
        segments = _flatten(d, operands, named, flat)
    attrs = _attributes(d, named)
    if len(regions) != len(d.regions):
        raise IRError(f"{d.name} has {len(d.regions)} regions, {len(regions)} were given")
    op = Op(d, flat, segments, attrs, regions, (), loc)
    set_results(op, d.infer(op))
    return op


def set_results(op: Op, types: Sequence[Type]) -> None:
    """Give a new op its results."""
    op.results = tuple([Value(t) for t in types])
    for v in op.results:
        v.owner = op


def _flatten(
    d: OpDef, operands: Sequence[Any], named: dict[str, Any], flat: list[Value]
) -> tuple[int, ...]:
    if len(operands) > len(d.operands):
        raise IRError(f"{d.name} takes {len(d.operands)} operands, {len(operands)} were given")
    segments = []
    for i, o in enumerate(d.operands):
        given = operands[i] if i < len(operands) else named.pop(o.name, None)
        if o.arity == "variadic":
            values = tuple(given) if given is not None else ()
        elif given is None:
            if o.arity == "one":
                raise IRError(f"{d.name} needs the operand {o.name!r}")
            values = ()
        else:
            values = (given,)
        flat.extend(values)
        segments.append(len(values))
    return tuple(segments)


def _attributes(d: OpDef, named: dict[str, Any]) -> dict[str, Any]:
    attrs = {}
    for key, default in d.attrs.items():
        value = named.pop(key, default)
        if value is REQUIRED:
            raise IRError(f"{d.name} needs the attribute {key!r}")
        attrs[key] = tuple(value) if isinstance(value, list) else value
    if named:
        known = ", ".join([*(o.name for o in d.operands), *d.attrs])
        raise IRError(f"{d.name} has no operand or attribute {next(iter(named))!r}; it has {known}")
    return attrs
