"""Python code of a kernel that runs as it is: where the language means something else than Python,
the statement calls a helper. Lines and names stay as in the file, for debuggers.
"""

from __future__ import annotations

import ast
import copy
from types import CodeType
from typing import Any

from tegula.frontend.source import Source
from tegula.language.members import is_tensor_member

PREFIX = "__tegula_"
HELPERS = ("typed", "constant", "logical", "negate", "contains", "chain", "attribute", "sequence",
           "check")  # fmt: skip


def code_of(source: Source) -> CodeType:
    """A module that defines the function, for `exec` in its namespace."""
    tree = copy.deepcopy(source.tree)
    tree.decorator_list = []
    tree.returns = None
    args = tree.args
    for a in (*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg):
        if a is not None:
            a.annotation = None
    args.defaults = []
    args.kw_defaults = [None] * len(args.kwonlyargs)
    tree.body = [_Rewriter().visit(st) for st in tree.body]
    module = ast.fix_missing_locations(ast.Module([tree], []))
    ast.increment_lineno(module, source.offset)
    return compile(module, source.file, "exec")


def _call(helper: str, at: ast.expr, *args: ast.expr) -> ast.expr:
    name = ast.Name(PREFIX + helper, ast.Load())
    return ast.fix_missing_locations(ast.copy_location(ast.Call(name, list(args), []), at))


def _later(value: ast.expr) -> ast.expr:
    """An expression that is evaluated when it is asked for."""
    none = ast.arguments([], [], None, [], [], None, [])
    return ast.copy_location(ast.Lambda(none, value), value)


class _Rewriter(ast.NodeTransformer):
    def visit_Assign(self, node: ast.Assign) -> Any:
        self.generic_visit(node)
        node.value = _call("typed", node.value, node.value)
        return node

    def visit_AugAssign(self, node: ast.AugAssign) -> Any:
        self.generic_visit(node)
        if not isinstance(node.target, ast.Name):
            return node
        old = ast.copy_location(ast.Name(node.target.id, ast.Load()), node.target)
        value = ast.copy_location(ast.BinOp(old, node.op, node.value), node)
        return ast.copy_location(ast.Assign([node.target], _call("typed", value, value)), node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:
        if node.value is None:
            return ast.copy_location(ast.Pass(), node)
        fixed = ast.unparse(node.annotation).rsplit(".", 1)[-1] == "constexpr"
        value = _call("constant" if fixed else "typed", node.value, self.visit(node.value))
        return ast.copy_location(ast.Assign([node.target], value), node)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> Any:
        self.generic_visit(node)
        node.value = _call("typed", node.value, node.value)
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> Any:
        op = ast.Constant("and" if isinstance(node.op, ast.And) else "or")
        assigns = any(isinstance(n, ast.NamedExpr) for n in ast.walk(node))
        self.generic_visit(node)
        if assigns:  # the names have to be bound here
            return node
        return _call("logical", node, op, *[_later(v) for v in node.values])

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        self.generic_visit(node)
        return _call("negate", node, node.operand) if isinstance(node.op, ast.Not) else node

    def visit_Compare(self, node: ast.Compare) -> Any:
        self.generic_visit(node)
        if len(node.ops) == 1 and isinstance(node.ops[0], (ast.In, ast.NotIn)):
            found = _call("contains", node, node.left, node.comparators[0])
            return found if isinstance(node.ops[0], ast.In) else _call("negate", node, found)
        if len(node.ops) == 1:
            return node
        left, parts = node.left, []
        for op, right in zip(node.ops, node.comparators, strict=True):
            parts.append(ast.copy_location(ast.Compare(left, [op], [right]), node))
            left = right
        return _call("chain", node, *parts)

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        self.generic_visit(node)
        if (node.attr == "value" or is_tensor_member(node.attr)) and isinstance(node.ctx, ast.Load):
            return _call("attribute", node, node.value, ast.Constant(node.attr))
        return node

    def visit_List(self, node: ast.List) -> Any:
        self.generic_visit(node)
        return ast.copy_location(ast.Tuple(node.elts, node.ctx), node)

    def visit_comprehension(self, node: ast.comprehension) -> Any:
        self.generic_visit(node)
        node.iter = _call("sequence", node.iter, node.iter)
        return node

    def visit_ListComp(self, node: ast.ListComp) -> Any:
        self.generic_visit(node)
        return _call("sequence", node, node)

    visit_GeneratorExp = visit_ListComp

    def visit_Assert(self, node: ast.Assert) -> Any:
        self.generic_visit(node)
        message = node.msg if node.msg is not None else ast.Constant("")
        return ast.copy_location(ast.Expr(_call("check", node.test, node.test, message)), node)
