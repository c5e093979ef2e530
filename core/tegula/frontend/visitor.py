"""The walk over one function's syntax tree.

`Visitor` is put together from layers: `base` (variables, errors, places), `expressions`, `calls`,
`branches` and `loops`. Runtime values are emitted as IR on the way; everything else is
computed at once, in Python.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from tegula.errors import CompilationError
from tegula.ir.opdef import IRError
from tegula.language.builtin import emit
from tegula.language.debug import device_assert
from tegula.language.values import as_constant, describe, tensor

from .calls import has_runtime
from .diagnostics import LanguageError, StaticAssertion, Unsupported
from .jumps import is_manager, is_remembered
from .loops import Loops
from .state import Bind, Returned


class Visitor(Loops):
    """Compiles the body of one function for one set of argument types."""

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
        todo = statements[::-1]  # a stack: the next statement is the last
        while todo:
            st = todo.pop()
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

    def visit_expr_statement(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):
            self.locate(node)
            self.dropped = node.value
            self.visit(node.value)

    def visit_assign(self, node: ast.Assign) -> None:
        self.locate(node)
        value = self.visit(node.value)
        if is_manager(node):
            check_manager(value)
        if not is_remembered(node):
            value = self.typed(value)
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
            if node.value is not None and has_runtime(as_constant(self.visit(node.value))):
                raise LanguageError(
                    f"`{name}` is annotated constexpr, but its value is only known at run time",
                    "leave out the annotation",
                )
            self.constants[name] = node
            if node.value is not None:
                self.bind(name, as_constant(self.visit(node.value)))
        elif node.value is not None:
            self.locate(node)
            self.assign(node.target, self.typed(self.visit(node.value)))

    def visit_augmented(self, node: ast.AugAssign) -> None:
        self.locate(node)
        if not isinstance(node.target, ast.Name):
            self.assign(node.target, None)
        target: Any = node.target
        current = self.lookup(target.id)
        value = self.visit(node.value)
        self.locate(node)
        self.assign(target, self.typed(self.binary(type(node.op), current, value)))

    def visit_return(self, node: ast.Return) -> Returned:
        self.locate(node)
        return Returned(self.visit(node.value) if node.value is not None else None)

    def visit_assert(self, node: ast.Assert) -> None:
        self.locate(node)
        cond = as_constant(self.visit(node.test))
        message = self.visit(node.msg) if node.msg is not None else ""
        if not isinstance(cond, tensor) and cond:
            return
        if isinstance(cond, tensor) or self.b.block is not self.certain:
            emit(device_assert, self.s, cond if isinstance(cond, tensor) else False, message)
        else:
            raise StaticAssertion(f"assertion failed: {message}" if message else "assertion failed")

    def visit_with(self, node: ast.With) -> Returned:
        """Only a `with` that is left by a jump is still one here."""
        raise Unsupported(
            "ContextJump",
            "a `return`, `break` or `continue` out of a `with` cannot be used in kernels",
            "keep the result in a variable and leave behind the `with`",
        )

    def visit_pass(self, node: ast.Pass) -> None:
        """Nothing to do."""


_EXPRESSIONS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Attribute: Visitor.visit_attribute,
    ast.BinOp: Visitor.visit_binary,
    ast.BoolOp: Visitor.visit_boolean,
    ast.Call: Visitor.visit_call,
    ast.Compare: Visitor.visit_compare,
    ast.Constant: Visitor.visit_constant,
    ast.Dict: Visitor.visit_dict,
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
    ast.With: Visitor.visit_with,
}


def check_manager(value: Any) -> None:
    """Refuse what a `with` cannot work on."""
    if isinstance(value, tensor) or not all(hasattr(value, m) for m in ("__enter__", "__exit__")):
        raise Unsupported(
            "ContextManager",
            f"`with` cannot be used on {describe(value)}: it has no `__enter__` and `__exit__`",
            "give the aggregate these methods, or write the body alone",
        )
