"""Values, operations, blocks, functions and modules.

The IR is SSA with structured control flow. A region is one block; blocks carry arguments. Passes
treat the IR as
immutable: they build a new function from an old one through a `Cloner`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from .location import Location
from .types import Type

if TYPE_CHECKING:
    from .opdef import OpDef


class Value:
    """An SSA value: a type and, for dumps, an optional name."""

    __slots__ = ("name", "owner", "type")

    def __init__(self, type: Type, name: str | None = None) -> None:
        self.type = type
        self.name = name
        self.owner: Op | None = None
        """The op that makes the value; None for a block argument."""

    def __repr__(self) -> str:
        return f"<Value {self.name or hex(id(self))}: {self.type}>"


class Op:
    """One operation. Operands are flat; `segments` counts how many belong to each declared
    operand.
    """

    __slots__ = ("attrs", "loc", "opdef", "operands", "regions", "results", "segments")

    def __init__(
        self,
        opdef: OpDef,
        operands: Sequence[Value],
        segments: tuple[int, ...],
        attrs: dict[str, Any],
        regions: Sequence[Block],
        result_types: Iterable[Type],
        loc: Location | None = None,
    ) -> None:
        self.opdef = opdef
        self.operands = tuple(operands)
        self.segments = segments
        self.attrs = attrs
        self.regions = tuple(regions)
        self.loc = loc
        self.results = tuple(Value(t) for t in result_types)
        for value in self.results:
            value.owner = self

    @property
    def name(self) -> str:
        return self.opdef.name

    @property
    def result(self) -> Value:
        """The only result."""
        (value,) = self.results
        return value

    def group(self, name: str) -> tuple[Value, ...]:
        """The values given for the declared operand `name` (any number)."""
        index = self.opdef.operand_index[name]
        if len(self.segments) == len(self.operands) and self.segments[index] == 1:
            start = index if self.opdef.simple else sum(self.segments[:index])
        else:
            start = sum(self.segments[:index])
        return self.operands[start : start + self.segments[index]]

    def operand(self, name: str) -> Value | None:
        """The value given for a single or optional operand; None if it was left out."""
        values = self.group(name)
        return values[0] if values else None

    def has(self, trait: str) -> bool:
        return trait in self.opdef.traits

    def __repr__(self) -> str:
        return f"<Op {self.name}>"


class Block:
    """A list of operations with arguments; the last op is a terminator."""

    __slots__ = ("args", "ops")

    def __init__(self, args: Iterable[Value | Type] = (), ops: Iterable[Op] = ()) -> None:
        self.args = [a if isinstance(a, Value) else Value(a) for a in args]
        self.ops = list(ops)

    @property
    def terminator(self) -> Op:
        return self.ops[-1]

    def walk(self) -> Iterator[Op]:
        """Every op of the block and of the regions inside, outer before inner."""
        for op in self.ops:
            yield op
            for region in op.regions:
                yield from region.walk()


class Function:
    """A kernel or a device function. `body.args` are the parameters, `arg_attrs` what is known of
    each.
    """

    __slots__ = ("arg_attrs", "attrs", "body", "kind", "name", "result_types")

    def __init__(
        self,
        name: str,
        body: Block,
        result_types: Sequence[Type] = (),
        kind: Literal["kernel", "func"] = "kernel",
        arg_attrs: Sequence[Mapping[str, Any]] | None = None,
        attrs: Mapping[str, Any] | None = None,
    ) -> None:
        self.name = name
        self.kind = kind
        self.body = body
        self.result_types = tuple(result_types)
        self.arg_attrs = [dict(a) for a in arg_attrs] if arg_attrs else [{} for _ in body.args]
        self.attrs = dict(attrs or {})

    def with_body(self, body: Block) -> Function:
        """The same function around another body."""
        return Function(self.name, body, self.result_types, self.kind, self.arg_attrs, self.attrs)


class Module:
    """Functions by name, in order, and module-wide attributes."""

    __slots__ = ("attrs", "functions")

    def __init__(
        self, functions: Iterable[Function] = (), attrs: Mapping[str, Any] | None = None
    ) -> None:
        self.functions: dict[str, Function] = {f.name: f for f in functions}
        self.attrs = dict(attrs or {})

    @property
    def kernels(self) -> list[Function]:
        return [f for f in self.functions.values() if f.kind == "kernel"]

    def __str__(self) -> str:
        from .printer import print_module

        return print_module(self)


Hook = Callable[[Op, "Cloner"], "Sequence[Value] | None"]


class Cloner:
    """Copies blocks through a value map.

    `hook(op, cloner)` may replace an op: it returns the new values of the op's results (an empty
    sequence drops an
    op without results), or None to copy the op. Ops that a hook makes go to `cloner.out`, the
    block being filled.
    `changed` is set when a hook replaced anything.
    """

    def __init__(self, hook: Hook | None = None) -> None:
        self.map: dict[Value, Value] = {}
        self.hook = hook
        self.out: list[Op] = []
        self.changed = False

    def value(self, v: Value) -> Value:
        return self.map.get(v, v)

    def values(self, vs: Iterable[Value]) -> tuple[Value, ...]:
        get = self.map.get
        return tuple([get(v, v) for v in vs])

    def function(self, f: Function) -> Function:
        return f.with_body(self.block(f.body))

    def block(self, block: Block) -> Block:
        """A copy of the block, with fresh arguments and ops."""
        args = []
        for a in block.args:
            fresh = Value(a.type, a.name)
            self.map[a] = fresh
            args.append(fresh)
        new = Block(args)
        saved, self.out = self.out, new.ops
        self.ops(block.ops)
        self.out = saved
        return new

    def ops(self, ops: Iterable[Op]) -> None:
        """Copy ops to the end of the block being filled."""
        hook = self.hook
        for op in ops:
            if hook is not None:
                replaced = hook(op, self)
                if replaced is not None:
                    self.changed = True
                    for old, new in zip(op.results, replaced, strict=True):
                        self.map[old] = new
                    continue
            self.copy(op)

    def copy(self, op: Op, operands: Sequence[Value] | None = None) -> Op:
        """Append a copy of one op (its regions included) and map its results."""
        mapped = self.values(op.operands) if operands is None else tuple(operands)
        regions = tuple([self.block(r) for r in op.regions]) if op.regions else ()
        new = Op(
            op.opdef, mapped, op.segments, op.attrs, regions, [r.type for r in op.results], op.loc
        )
        self.out.append(new)
        for a, b in zip(op.results, new.results):
            b.name = a.name
            self.map[a] = b
        return new
