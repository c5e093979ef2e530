"""The walk over one function's syntax tree: names, statements without control flow, places of
errors.

Expressions, calls and control flow are in modules of their own, as mixins of `Visitor`. Runtime
values are emitted as IR on the way; everything else is computed at once, in Python.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tegula.errors import (
    CompilationError,
    CompileTimeAssertionFailure,
    SourceFrame,
    UnsupportedLanguageConstruct,
    nearest,
)
from tegula.ir.builder import Builder
from tegula.ir.location import Location
from tegula.ir.opdef import IRError
from tegula.language.debug import device_assert
from tegula.language.values import describe, tensor

from .calls import Calls
from .control import Control
from .diagnostics import LanguageError, StaticAssertion, Unsupported, frame_of
from .expressions import BINARY, Expressions
from .function import DeviceFunction
from .globals import PYTHON, captured, check_global
from .semantic import Semantic
from .state import Bind, Poison, Returned
from .unsupported import STATEMENTS

if TYPE_CHECKING:
    from .compile import Compilation


class Visitor(Expressions, Calls, Control):
    """Compiles the body of one function for one set of argument types."""

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
        self.flow = compilation.flow_of(function)
        self.b = builder
        self.s = Semantic(builder, compilation.options)
        self.s.visitor = self
        self.env: dict[str, Any] = {}
        self.captured = captured(function.fn)
        self.constants: dict[str, ast.AST] = {}
        """Names annotated constexpr, and where."""
        self.loop_specs: dict[tuple[ast.stmt, str], Any] = {}
        """Types that constants turned out to need as loop variables."""
        self.loops: list[ast.stmt] = []
        """Runtime loops around the statement at hand."""
        self.copies = 0
        self.caller = caller
        self.file = self.source.file
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
                kind = UnsupportedLanguageConstruct
            elif isinstance(cause, StaticAssertion):
                kind = CompileTimeAssertionFailure
        elif isinstance(cause, IRError):
            message = str(cause)
        else:
            message = f"{type(cause).__name__}: {cause}"
        return kind(message, hint, (self.frame(node),))

    def locate(self, node: Any) -> None:
        """Ops from here on come from this node."""
        self.b.loc = Location(self.file, node.lineno + self.offset, node.col_offset, self.caller)

    def visit(self, node: ast.expr) -> Any:
        """The value of an expression."""
        try:
            method = _EXPRESSIONS.get(type(node))
            if method is None:
                raise self.unsupported(node)
            return method(self, node)
        except CompilationError:
            raise
        except Exception as cause:
            error = self.error(node, cause)
            raise error from (None if isinstance(cause, (LanguageError, IRError)) else cause)

    # ---- statements

    def run(self, statements: list[Any]) -> Returned | None:
        """Compile statements in order. `Returned` if a return was reached on every path, None if
        the end was.
        """
        todo = list(statements)
        while todo:
            st = todo.pop(0)
            kind = type(st)
            try:
                if kind is ast.If:
                    out = self.visit_if(st, todo)
                elif kind is ast.For:
                    out = self.visit_for(st, todo)
                elif kind is Bind:
                    self.assign(st.target, st.value)
                    continue
                else:
                    method = _STATEMENTS.get(kind)
                    if method is None:
                        raise self.unsupported(st)
                    out = method(self, st)
            except CompilationError:
                raise
            except Exception as cause:
                place = st.target if kind is Bind else st
                error = self.error(place, cause)
                raise error from (None if isinstance(cause, (LanguageError, IRError)) else cause)
            if out is not None:
                return out
        return None

    def unsupported(self, node: ast.AST) -> Unsupported:
        """The error for a part of Python that kernels cannot use."""
        what, hint = STATEMENTS.get(
            type(node), (f"`{type(node).__name__.lower()}`", "write it another way")
        )
        return Unsupported(f"{what} cannot be used in kernels", hint)

    def visit_expr_statement(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):
            self.locate(node)
            self.visit(node.value)

    def visit_assign(self, node: ast.Assign) -> None:
        self.locate(node)
        value = self.visit(node.value)
        for target in node.targets:
            self.assign(target, value)

    def visit_annotated(self, node: ast.AnnAssign) -> None:
        text = ast.unparse(node.annotation).rsplit(".", 1)[-1]
        if text == "constexpr" and isinstance(node.target, ast.Name):
            name = node.target.id
            if self.constants.get(name, node) is not node:
                raise LanguageError(
                    f"`{name}` is already a compile-time constant and cannot be given another "
                    "value",
                    "use another name, or leave out the annotation",
                )
            if node.value is not None and isinstance(self.visit(node.value), tensor):
                raise LanguageError(
                    f"`{name}` is annotated constexpr, but its value is only known at run time",
                    "leave out the annotation",
                )
            self.constants[name] = node
        if node.value is not None:
            self.locate(node)
            self.assign(node.target, self.visit(node.value))

    def visit_augmented(self, node: ast.AugAssign) -> None:
        self.locate(node)
        if not isinstance(node.target, ast.Name):
            self.assign(node.target, None)
        target: Any = node.target
        current = self.lookup(target.id)
        value = self.visit(node.value)
        self.locate(node)
        self.assign(target, self.binary(type(node.op), current, value))

    def visit_return(self, node: ast.Return) -> Returned:
        if self.loops:
            raise Unsupported(
                "`return` cannot leave a loop whose number of turns is only known at run time",
                "remember the result in a variable and return after the loop, or use "
                "tl.static_range",
            )
        self.locate(node)
        return Returned(self.visit(node.value) if node.value is not None else None)

    def visit_assert(self, node: ast.Assert) -> None:
        self.locate(node)
        cond = self.visit(node.test)
        message = self.visit(node.msg) if node.msg is not None else ""
        if isinstance(cond, tensor):
            device_assert.emit(self.s, cond, message)  # type: ignore[attr-defined]
        elif not cond:
            raise StaticAssertion(f"assertion failed: {message}" if message else "assertion failed")

    def visit_pass(self, node: ast.Pass) -> None:
        """Nothing to do."""

    # ---- names

    def assign(self, target: ast.expr, value: Any) -> None:
        """Bind a name, or take a tuple apart."""
        if isinstance(target, ast.Name):
            self.bind(target.id, value)
        elif isinstance(target, (ast.Tuple, ast.List)):
            self.unpack(target, value)
        elif isinstance(target, ast.Subscript):
            raise Unsupported(
                "elements of a tensor or tuple cannot be assigned: values never change",
                "choose with x = tl.where(index == i, value, x), or write to memory with tl.store",
            )
        elif isinstance(target, ast.Attribute):
            raise Unsupported("attributes cannot be assigned in kernels", "bind a variable instead")
        else:
            raise Unsupported(
                f"`{ast.unparse(target)}` cannot be assigned to in kernels", "bind a variable"
            )

    def bind(self, name: str, value: Any) -> None:
        if isinstance(value, list):
            value = tuple(value)
        self.env[name] = value

    def unpack(self, target: ast.Tuple | ast.List, value: Any) -> None:
        if not isinstance(value, tuple):
            raise LanguageError(
                f"{describe(value)} cannot be taken apart into {len(target.elts)} variables",
                "only tuples can; tl.split takes the two halves of a tile",
            )
        elements, count = target.elts, len(target.elts)
        star = next((i for i, e in enumerate(elements) if isinstance(e, ast.Starred)), None)
        if (star is None and count != len(value)) or (star is not None and count - 1 > len(value)):
            raise LanguageError(
                f"a tuple of {len(value)} cannot be taken apart into {count} variables"
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
                f"`{name}` is used before it has a value",
                f"give `{name}` a value on every path, for example before the `if` or the loop "
                "that sets it",
            )
        if name in self.captured:
            return check_global(name, self.captured[name], self.function.fn.__name__)
        if name in PYTHON:
            return PYTHON[name]
        known = [*env, *self.captured, *self.captured.module, *PYTHON]
        raise LanguageError(f"`{name}` is not defined{nearest(name, known)}")

    def binary(self, op: type, a: Any, b: Any) -> Any:
        """A binary operator of Python on two values."""
        return BINARY[op](self.s, a, b)


_EXPRESSIONS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Attribute: Visitor.visit_attribute,
    ast.BinOp: Visitor.visit_binary,
    ast.BoolOp: Visitor.visit_boolean,
    ast.Call: Visitor.visit_call,
    ast.Compare: Visitor.visit_compare,
    ast.Constant: Visitor.visit_constant,
    ast.FormattedValue: Visitor.visit_formatted,
    ast.GeneratorExp: Visitor.visit_comprehension,
    ast.IfExp: Visitor.visit_ternary,
    ast.JoinedStr: Visitor.visit_fstring,
    ast.List: Visitor.visit_tuple,
    ast.ListComp: Visitor.visit_comprehension,
    ast.Name: Visitor.visit_name,
    ast.NamedExpr: Visitor.visit_walrus,
    ast.Slice: Visitor.visit_slice,
    ast.Subscript: Visitor.visit_subscript,
    ast.Tuple: Visitor.visit_tuple,
    ast.UnaryOp: Visitor.visit_unary,
}

_STATEMENTS: dict[type, Callable[[Any, Any], Returned | None]] = {
    ast.AnnAssign: Visitor.visit_annotated,
    ast.Assert: Visitor.visit_assert,
    ast.Assign: Visitor.visit_assign,
    ast.AugAssign: Visitor.visit_augmented,
    ast.Expr: Visitor.visit_expr_statement,
    ast.Pass: Visitor.visit_pass,
    ast.Return: Visitor.visit_return,
    ast.While: Visitor.visit_while,
}
