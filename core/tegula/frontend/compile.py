"""Compiling a kernel: one `Compilation` gathers the kernel and the functions it calls."""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tegula import errors
from tegula.errors import CompilationError, SourceError, SourceFrame
from tegula.ir.builder import Builder
from tegula.ir.core import Block, Function, Module, Value
from tegula.ir.location import Location
from tegula.ir.types import i64
from tegula.language.active import activated, compiling_for
from tegula.language.aggregates import instance
from tegula.language.values import constexpr, describe, tensor, tensor_descriptor

from .arguments import Const, HostAggregate, HostDescriptor, flat_names
from .calls import parameters_of
from .diagnostics import LanguageError, frame_of
from .function import EMPTY, DeviceFunction, is_library, unwrap
from .jumps import without_jumps
from .liveness import Flow
from .offsets import FAR, OPTION
from .semantic import Semantic
from .structure import Spec, argument_spec, build, handles, spec_of, types_of
from .visitor import Visitor

MAX_DEPTH = 100


@dataclass(frozen=True)
class Specialisation:
    """A device function compiled for one set of argument specs."""

    name: str
    arg_specs: tuple[Spec, ...]
    result: Spec
    empty: bool
    """There is nothing to call: the function only computes constants."""


class Compilation:
    """State of compiling one kernel: its module, and the functions specialised so far."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self.options = options
        self.functions: list[Function] = []
        self.done: dict[Any, Specialisation] = {}
        self.active: list[tuple[DeviceFunction, Any]] = []
        self.names: dict[str, int] = {}

    def body_of(self, function: DeviceFunction) -> tuple[list[ast.stmt], Flow]:
        """The statements of a function, loops without jumps, and the liveness facts about them;
        found once.
        """
        found: Any = function.__dict__.get("_frontend_body")
        if found is None:
            body = without_jumps(function.source.tree)
            found = function.__dict__["_frontend_body"] = body, Flow.of_body(body)
        return found

    def unique(self, name: str) -> str:
        """A name that no other function of the module has."""
        count = self.names.get(name, 0)
        self.names[name] = count + 1
        return name if count == 0 else f"{name}__{count}"

    @contextlib.contextmanager
    def entered(self, function: DeviceFunction, key: Any) -> Iterator[None]:
        """Guard against functions that call themselves without an end."""
        name = function.fn.__name__
        if key is not None and (function, key) in self.active:
            raise LanguageError(
                f"`{name}` calls itself with the same types, which would never end: there is no "
                "stack on a device",
                "write a loop, or let a constexpr argument that changes end the recursion",
            )
        if len(self.active) >= MAX_DEPTH:
            raise LanguageError(
                f"calls are nested more than {MAX_DEPTH} deep, at `{name}`",
                "end the recursion with a compile-time condition, or write a loop",
            )
        self.active.append((function, key))
        try:
            yield
        finally:
            self.active.pop()

    def specialise(
        self, function: DeviceFunction, bound: dict[str, Any], certain: bool
    ) -> Specialisation:
        """The function compiled for these arguments: found, or compiled now. certain: the call is
        reached whenever the kernel runs.
        """
        spec = argument_spec if is_library(function) else spec_of
        specs = tuple(spec(value) for value in bound.values())
        key = (function, specs)
        found = self.done.get(key)
        if found is None:
            with self.entered(function, specs):
                found = self.done[key] = self.compile_callee(function, bound, specs, certain)
        return found

    def compile_callee(
        self,
        function: DeviceFunction,
        bound: dict[str, Any],
        specs: tuple[Spec, ...],
        certain: bool,
    ) -> Specialisation:
        types = [t for spec in specs for t in types_of(spec)]
        block = Block(types)
        names = [n for p, spec in zip(bound, specs, strict=True) for n in _names(p, types_of(spec))]
        for arg, name in zip(block.args, names, strict=True):
            arg.name = name
        visitor = Visitor(self, function, Builder(block))
        visitor.certain = block if certain else None
        visitor.s.offsets.given |= set(block.args)
        arguments = iter(block.args)
        for name, spec in zip(bound, specs, strict=True):
            visitor.env[name] = build(spec, arguments, visitor.s)
        slot = len(self.functions)
        out = visitor.run(visitor.body)
        value = out.value if out is not None else None
        result = spec_of(value)
        visitor.b.create("return", handles(visitor.s, value, result))
        result_types = types_of(result)
        used = [op for op in block.ops if not op.opdef.pure]
        empty = len(used) == 1 and not result_types
        name = ""
        if not empty:
            name = self.unique(function.fn.__name__)
            attrs = {"noinline": True} if function.noinline else {}
            self.functions.insert(slot, Function(name, block, result_types, "func", None, attrs))
        return Specialisation(name, specs, result, empty)

    def compile_kernel(
        self,
        function: DeviceFunction,
        arg_types: Mapping[str, Any],
        constants: Mapping[str, Any],
        arg_attrs: Mapping[str, Mapping[str, Any]],
    ) -> Module:
        """The module of a kernel."""
        kernel_name = self.unique(function.fn.__name__)
        block = Block()
        visitor = Visitor(self, function, Builder(block))
        visitor.certain = block
        attrs: list[Mapping[str, Any]] = []
        visitor.b.loc = Location(visitor.file, visitor.source.line_of(function.source.tree), 0)
        for p in parameters_of(function):
            visitor.env[p.name] = self.argument(visitor, p, arg_types, constants, arg_attrs, attrs)
        with self.entered(function, None):
            out = visitor.run(visitor.body)
        if out is not None and out.value is not None:
            raise CompilationError(
                f"kernel `{kernel_name}` returns {describe(out.value)}; a launch has no result",
                "write results to memory with tl.store",
                (visitor.frame(function.source.tree),),
            )
        visitor.b.create("return", [])
        kernel = Function(kernel_name, block, (), "kernel", attrs)
        return Module([kernel, *self.functions])

    def argument(
        self,
        visitor: Visitor,
        p: Any,
        arg_types: Mapping[str, Any],
        constants: Mapping[str, Any],
        arg_attrs: Mapping[str, Mapping[str, Any]],
        attrs: list[Mapping[str, Any]],
    ) -> Any:
        """The value of one parameter inside of the kernel; runtime arguments become parameters of
        the IR.
        """
        if p.name in arg_types and arg_types[p.name] is not None:
            arg = arg_types[p.name]
            values = []
            for name, t in flat_names(p.name, arg):
                value = Value(t, name)
                visitor.b.block.args.append(value)
                visitor.s.offsets.given.add(value)
                known = arg_attrs.get(name, {})
                attrs.append({k: v for k, v in known.items() if k != FAR})
                values.append(value)
            return _argument_value(visitor.s, p.name, arg, iter(values), constants)
        if p.name in constants:
            return _constant(constants[p.name])
        if p.default is not EMPTY:
            return _constant(p.default)
        if p.kind == "varargs":
            return ()
        raise CompilationError(
            f"parameter `{p.name}` of kernel `{visitor.function.fn.__name__}` has no value",
            "pass it at the launch",
            (visitor.frame(visitor.source.tree),),
        )


def _names(name: str, types: list[Any]) -> list[str]:
    return [name] if len(types) == 1 else [f"{name}.{i}" for i in range(len(types))]


def _constant(value: Any) -> Any:
    if isinstance(value, constexpr):
        value = value.value
    return tuple(_constant(v) for v in value) if isinstance(value, list) else value


def _argument_value(
    s: Semantic, name: str, arg: Any, values: Iterator[Value], constants: Mapping[str, Any]
) -> Any:
    if arg is None:
        return _constant(_member(name, constants))
    if isinstance(arg, Const):
        return _constant(arg.value)
    if isinstance(arg, HostDescriptor):
        rank = len(arg.block_shape)
        base, *rest = (tensor(next(values)) for _ in range(2 * rank))
        strides = [*rest[rank:], s.constant(1, i64)]
        return tensor_descriptor(base, rest[:rank], strides, arg.block_shape, arg.padding)
    if isinstance(arg, HostAggregate):
        with activated(s.visitor):
            return instance(arg.cls, [
                _argument_value(s, f"{name}.{n}", item, values, constants)
                for n, item in arg.members
            ])  # fmt: skip
    if isinstance(arg, tuple):
        items = [
            _argument_value(s, f"{name}.{i}", item, values, constants) for i, item in enumerate(arg)
        ]
        return tuple(items) if type(arg) is tuple else type(arg)(*items)
    return tensor(next(values))


def _member(path: str, constants: Mapping[str, Any]) -> Any:
    """A constant inside of a tuple argument: by its flat name, or inside of its parent's value."""
    if path in constants:
        return constants[path]
    parent, _, index = path.rpartition(".")
    if not parent:
        return None
    value = _member(parent, constants)
    return value[int(index)] if isinstance(value, (tuple, list)) else None


def compile_function(
    fn: Any,
    arg_types: Mapping[str, Any],
    constants: Mapping[str, Any],
    arg_attrs: Mapping[str, Mapping[str, Any]] | None = None,
    options: Mapping[str, Any] | None = None,
) -> Module:
    """Tile IR of a kernel; see `tegula.frontend.compile_function`."""
    function = unwrap(fn)
    if function is None:
        raise TypeError(f"{fn!r} is no device function; put @tegula.jit above its definition")
    try:
        options = dict(options or {})
        options[OPTION] = any(a.get(FAR) for a in (arg_attrs or {}).values())
        compilation = Compilation(options)
        with compiling_for(options.get("target")):
            return compilation.compile_kernel(function, arg_types, constants, arg_attrs or {})
    except CompilationError as error:
        told = errors.restate(error)
        raise told.with_traceback(None) from told.__cause__
    except SourceError as error:
        raise error.with_traceback(None) from error.__cause__
    except LanguageError as error:
        frames: tuple[SourceFrame, ...] = (
            frame_of(function.source, function.fn.__name__, function.source.tree),
        )
        raise CompilationError(error.message, error.hint, frames) from None
