"""What every part of the visitor stands on: variables, errors and places."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tegula.errors import (
    CompilationError,
    CompileTimeAssertionFailure,
    SourceFrame,
    nearest,
    unsupported_class,
)
from tegula.ir.builder import Builder
from tegula.ir.core import Block, Value
from tegula.ir.location import Location
from tegula.ir.opdef import IRError
from tegula.language.aggregates import is_aggregate
from tegula.language.values import as_constant, describe, is_number, tensor

from .diagnostics import (
    LanguageError,
    ResultMismatch,
    StaticAssertion,
    Unsupported,
    frame_of,
)
from .function import DeviceFunction
from .globals import PYTHON, captured, check_global
from .semantic import Semantic
from .state import Poison, Returned
from .unsupported import STATEMENTS

if TYPE_CHECKING:
    from .compile import Compilation


class Base:
    """State of compiling the body of one function for one set of argument types."""

    def __init__(
        self,
        compilation: Compilation,
        function: DeviceFunction,
        builder: Builder,
        caller: Location | None = None,
    ) -> None:
        self.compilation = compilation
        self.function = function
        self.source = function.source
        self.body, self.flow = compilation.body_of(function)
        self.b = builder
        self.s = Semantic(builder, compilation.options)
        self.s.visitor = self
        self.env: dict[str, Any] = {}
        self.captured = captured(function.fn)
        self.constants: dict[str, ast.AST] = {}
        """Names annotated constexpr, and where."""
        self.loop_specs: dict[tuple[ast.stmt, str], Any] = {}
        """Types that constants turned out to need as loop variables."""
        self.tries: dict[tuple[ast.stmt, str], int] = {}
        self.weak: dict[Value, tuple[ast.stmt, str, Any]] = {}
        """Loop variables that still hold the constant they began with, in the first turn: where."""
        self.certain: Block | None = None
        """The block that runs whenever the kernel does."""
        self.copies = 0
        self.dropped: ast.AST | None = None
        """The call that is a statement of its own."""
        self.caller = caller
        self.file = self.source.file
        self.at: ast.AST = self.source.tree
        """The node at hand."""
        self.offset = self.source.offset

    # ---- errors and places

    def frame(self, node: ast.AST) -> SourceFrame:
        """The place of a node, for an error."""
        return frame_of(self.source, self.function.fn.__name__, node)

    def error(self, node: ast.AST, cause: Exception) -> CompilationError:
        """What the user sees of an exception that was raised while a node was compiled."""
        kind: type[CompilationError] = CompilationError
        hint = ""
        if isinstance(cause, LanguageError):
            message, hint = cause.message, cause.hint
            if isinstance(cause, Unsupported):
                kind = unsupported_class(cause.construct)
            elif isinstance(cause, StaticAssertion):
                kind = CompileTimeAssertionFailure
        elif isinstance(cause, IRError):
            message = str(cause)
        elif isinstance(cause, RecursionError):
            message, hint = "this is nested too deeply", "split it into several statements"
        else:
            message = f"{type(cause).__name__}: {cause}"
        frames: tuple[SourceFrame, ...] = (self.frame(node),)
        if isinstance(cause, ResultMismatch):
            frames = (self.frame(self.source.tree), *frames)
        return kind(message, hint, frames)

    def locate(self, node: Any) -> None:
        """Ops from here on come from this node."""
        self.at = node
        self.b.loc = Location(self.file, node.lineno + self.offset, node.col_offset, self.caller)

    # ---- what the parts above supply

    def visit(self, node: ast.expr) -> Any:
        """The value of an expression."""
        raise NotImplementedError

    def run(self, statements: list[Any]) -> Returned | None:
        """Compile statements in order. `Returned` if a return was reached on every path, None if
        the end was.
        """
        raise NotImplementedError

    def call(self, function: Any, args: list[Any], named: dict[str, Any], node: ast.AST) -> Any:
        """Call any value that can be called."""
        raise NotImplementedError

    def inline_call(
        self, function: Any, args: Sequence[Any], what: str, named: dict[str, Any] | None = None
    ) -> Any:
        """Compile a function's body at this place."""
        raise NotImplementedError

    def choose(self, flag: tensor, then: Callable[[], Any], other: Callable[[], Any]) -> Any:
        """A conditional expression on a runtime scalar."""
        raise NotImplementedError

    def unsupported(self, node: ast.AST) -> Unsupported:
        """The error for a part of Python that kernels cannot use."""
        unknown = ("Syntax", f"`{type(node).__name__.lower()}`", "write it another way")
        construct, what, hint = STATEMENTS.get(type(node), unknown)
        return Unsupported(construct, f"{what} cannot be used in kernels", hint)

    # ---- names

    def typed(self, value: Any) -> Any:
        """What a variable holds of an assigned value: numbers become tensors of their own type."""
        if is_number(value):
            return self.s.to_tensor(value)
        if isinstance(value, (tuple, list)):
            items = [self.typed(v) for v in value]
            return tuple(items) if type(value) in (tuple, list) else type(value)(*items)
        return value

    def assign(self, target: ast.expr, value: Any) -> None:
        """Bind a name, or take a tuple apart."""
        if isinstance(target, ast.Name):
            self.bind(target.id, value)
        elif isinstance(target, (ast.Tuple, ast.List)):
            self.unpack(target, value)
        elif isinstance(target, ast.Subscript):
            raise Unsupported(
                "ItemAssignment",
                "elements of a tensor or tuple cannot be assigned: values never change",
                "choose with x = tl.where(index == i, value, x), or write to memory with tl.store",
            )
        else:
            assert isinstance(target, ast.Attribute)
            self.assign_attribute(target, value)

    def assign_attribute(self, target: ast.Attribute, value: Any) -> None:
        """`self.field = value` inside of the `__init__` of an aggregate."""
        owner = self.visit(target.value)
        if is_aggregate(owner):
            try:
                setattr(owner, target.attr, value)
            except AttributeError as error:
                raise Unsupported("AttributeAssignment", str(error)) from None
            return
        raise Unsupported(
            "AttributeAssignment",
            "attributes cannot be assigned in kernels",
            "bind a variable instead",
        )

    def bind(self, name: str, value: Any) -> None:
        if isinstance(value, list):
            value = tuple(value)
        if name in self.constants:
            value = as_constant(value)
        self.env[name] = value

    def unpack(self, target: ast.Tuple | ast.List, value: Any) -> None:
        if not isinstance(value, tuple):
            raise LanguageError(
                f"{describe(value)} cannot be taken apart into {len(target.elts)} variables",
                "only tuples can; tl.split takes the two halves of a tile",
            )
        elements, count = target.elts, len(target.elts)
        star = next((i for i, e in enumerate(elements) if isinstance(e, ast.Starred)), None)
        least = count - (star is not None)
        if len(value) < least:
            raise LanguageError(
                f"not enough values to unpack (expected {least}, got {len(value)})",
                "name as many variables as the tuple has elements",
            )
        if star is None and len(value) > count:
            raise LanguageError(
                f"too many values to unpack (expected {count}, got {len(value)})",
                "name as many variables as the tuple has elements, or take the rest with `*rest`",
            )
        if star is not None:
            middle = len(value) - count + 1
            value = (*value[:star], value[star : star + middle], *value[star + middle :])
        for element, part in zip(elements, value, strict=True):
            self.assign(element.value if isinstance(element, ast.Starred) else element, part)

    def lookup(self, name: str) -> Any:
        """The value of a name: a local, what the function captures, a global, or one of Python's
        functions.
        """
        env = self.env
        if name in env:
            value = env[name]
            if type(value) is Poison:
                raise LanguageError(value.message, value.hint)
            return value
        if name in self.function.fn.__code__.co_varnames:
            raise LanguageError(
                f"`{name}` is not defined here: it is used before it has a value",
                f"give `{name}` a value on every path, for example before the `if` or the loop "
                "that sets it",
            )
        if name in self.captured:
            return check_global(name, self.captured[name], self.function.fn.__name__)
        if name in PYTHON:
            return PYTHON[name]
        known = [*env, *self.captured, *self.captured.module, *PYTHON]
        raise LanguageError(f"`{name}` is not defined{nearest(name, known)}")
