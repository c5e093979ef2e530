"""Expressions other than calls."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any, cast

from tegula.errors import nearest
from tegula.ir.types import i1
from tegula.language.aggregates import (
    HostFunction,
    fields_of,
    is_aggregate,
    is_aggregate_class,
    member,
)
from tegula.language.block_pointer import advance
from tegula.language.builtin import emit
from tegula.language.descriptor import DESCRIPTOR_METHODS
from tegula.language.members import TENSOR_METHODS, is_tensor_member
from tegula.language.shape import subscript, trans
from tegula.language.values import (
    BLOCK_POINTER_PROPERTIES,
    DESCRIPTOR_PROPERTIES,
    TENSOR_PROPERTIES,
    BoundMethod,
    as_constant,
    block_pointer,
    constexpr,
    constexpr_type,
    describe,
    is_number,
    range_spec,
    tensor,
    tensor_descriptor,
    tuple_type,
)

from . import rules
from .base import Base
from .diagnostics import LanguageError, Unsupported
from .function import DeviceFunction, unwrap
from .globals import check_global, is_visible
from .semantic import Semantic

RUNTIME = (tensor, tensor_descriptor, block_pointer)
VIEWS: tuple[type, ...] = (type({}.keys()), type({}.values()), type({}.items()))


def _binary(
    constant: Callable[[Any, Any], Any], runtime: Callable[[Semantic, Any, Any], Any]
) -> Callable[[Semantic, Any, Any], Any]:
    """An operator: Python's on constants, the language's where a tensor takes part."""

    def apply(s: Semantic, a: Any, b: Any) -> Any:
        if isinstance(a, RUNTIME) or isinstance(b, RUNTIME):
            return runtime(s, a, b)
        if isinstance(a, list):
            a = tuple(a)
        if isinstance(b, list):
            b = tuple(b)
        return constant(a, b)

    return apply


BINARY: dict[type, Callable[[Semantic, Any, Any], Any]] = {
    ast.Add: _binary(operator.add, partial(Semantic.add, checked=True)),
    ast.Sub: _binary(operator.sub, partial(Semantic.sub, checked=True)),
    ast.Mult: _binary(operator.mul, partial(Semantic.mul, checked=True)),
    ast.Div: _binary(operator.truediv, Semantic.truediv),
    ast.FloorDiv: _binary(operator.floordiv, Semantic.floordiv),
    ast.Mod: _binary(operator.mod, Semantic.mod),
    ast.Pow: _binary(operator.pow, Semantic.power),
    ast.LShift: _binary(operator.lshift, Semantic.shl),
    ast.RShift: _binary(operator.rshift, Semantic.shr),
    ast.BitAnd: _binary(operator.and_, Semantic.and_),
    ast.BitOr: _binary(operator.or_, Semantic.or_),
    ast.BitXor: _binary(operator.xor, Semantic.xor),
    ast.MatMult: _binary(operator.matmul, Semantic.matmul),
}

UNARY: dict[type, tuple[Callable[[Any], Any], Callable[[Semantic, Any], Any]]] = {
    ast.USub: (operator.neg, Semantic.neg),
    ast.UAdd: (operator.pos, lambda s, x: x),
    ast.Invert: (operator.invert, Semantic.invert),
    ast.Not: (operator.not_, Semantic.logical_not),
}

COMPARE: dict[type, tuple[str, Callable[[Any, Any], Any]]] = {
    ast.Eq: ("eq", operator.eq),
    ast.NotEq: ("ne", operator.ne),
    ast.Lt: ("lt", operator.lt),
    ast.LtE: ("le", operator.le),
    ast.Gt: ("gt", operator.gt),
    ast.GtE: ("ge", operator.ge),
}


DUNDER: dict[type, str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "truediv", ast.FloorDiv: "floordiv",
    ast.Mod: "mod", ast.Pow: "pow", ast.LShift: "lshift", ast.RShift: "rshift",
    ast.BitAnd: "and", ast.BitOr: "or", ast.BitXor: "xor", ast.MatMult: "matmul",
    ast.USub: "neg", ast.UAdd: "pos", ast.Invert: "invert",
}  # fmt: skip
SWAPPED = {"eq": "eq", "ne": "ne", "lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}


class Expressions(Base):
    """Layer of the visitor: values of expressions."""

    def visit_constant(self, node: ast.Constant) -> Any:
        if isinstance(node.value, complex):
            raise Unsupported(
                "Complex", "complex numbers cannot be used in kernels", "keep two real tiles"
            )
        return node.value

    def visit_name(self, node: ast.Name) -> Any:
        return self.lookup(node.id)

    def visit_walrus(self, node: ast.NamedExpr) -> Any:
        value = self.typed(self.visit(node.value))
        self.assign(node.target, value)
        return value

    def visit_tuple(self, node: ast.Tuple | ast.List) -> tuple[Any, ...]:
        return self.elements(node.elts)

    def elements(self, nodes: list[ast.expr]) -> tuple[Any, ...]:
        """Values of a list of expressions, `*t` unpacked."""
        out: list[Any] = []
        for n in nodes:
            if isinstance(n, ast.Starred):
                out.extend(self.sequence(self.visit(n.value), "`*`"))
            else:
                out.append(self.visit(n))
        return tuple(out)

    def sequence(self, value: Any, what: str) -> tuple[Any, ...]:
        """The elements of a compile-time sequence."""
        if isinstance(value, range_spec):
            bounds = as_constant((value.start, value.stop, value.step))
            if all(isinstance(x, int) for x in bounds):
                return tuple(range(*bounds))
            raise LanguageError(f"{what} needs a range with compile-time bounds")
        if isinstance(value, (tuple, list, dict, *VIEWS)):
            return tuple(cast(Any, value))
        raise LanguageError(f"{what} takes a tuple, not {describe(value)}")

    def binary(self, op: type, a: Any, b: Any) -> Any:
        """A binary operator of Python on two values; those of aggregates come first."""
        if is_aggregate(a) or is_aggregate(b):
            name = DUNDER[op]
            found = self.special(a, f"__{name}__", b)
            if found is NotImplemented:
                found = self.special(b, f"__r{name}__", a)
            if found is NotImplemented:
                raise LanguageError(
                    f"{describe(a)} and {describe(b)} have no operator `__{name}__`",
                    "define it in the class of the aggregate",
                )
            return found
        return BINARY[op](self.s, a, b)

    def special(self, value: Any, name: str, *args: Any) -> Any:
        """What a method of an aggregate for one of Python's operators gives; NotImplemented if it
        has none.
        """
        if not is_aggregate(value) or not hasattr(type(value), name):
            return NotImplemented
        return self.call(self.attribute(value, name, self.source.tree), list(args), {}, self.at)

    def unary(self, op: type, value: Any) -> Any:
        """A unary operator of Python."""
        constant, runtime = UNARY[op]
        if is_aggregate(value) and op in DUNDER:
            found = self.special(value, f"__{DUNDER[op]}__")
            if found is NotImplemented:
                raise LanguageError(f"{describe(value)} has no operator `__{DUNDER[op]}__`")
            return found
        return runtime(self.s, value) if isinstance(value, tensor) else constant(value)

    # ---- operators

    def visit_binary(self, node: ast.BinOp) -> Any:
        left = self.visit(node.left)
        right = self.visit(node.right)
        self.locate(node)
        return self.binary(type(node.op), left, right)

    def visit_unary(self, node: ast.UnaryOp) -> Any:
        value = self.visit(node.operand)
        self.locate(node)
        return self.unary(type(node.op), value)

    def visit_boolean(self, node: ast.BoolOp) -> Any:
        """Constants decide without a look at the rest; runtime values are all evaluated and
        combined elementwise.
        """
        is_and = isinstance(node.op, ast.And)
        result: Any = is_and
        for operand in node.values:
            value = as_constant(self.visit(operand))
            if isinstance(result, tensor):
                self.locate(node)
                result = self.s.logical("and" if is_and else "or", result, value)
            elif not isinstance(value, tensor) and bool(value) != is_and:
                return value
            else:
                result = value
        return result

    def visit_compare(self, node: ast.Compare) -> Any:
        left = self.visit(node.left)
        result: Any = None
        for op, operand in zip(node.ops, node.comparators, strict=True):
            right = self.visit(operand)
            self.locate(node)
            value = self.compare(type(op), left, right)
            if result is None:
                result = value
            elif isinstance(result, tensor) or isinstance(value, tensor):
                result = self.s.logical("and", result, value)
            else:
                result = result and value
            if result is False:
                return False
            left = right
        return result

    def compare(self, op: type, a: Any, b: Any) -> Any:
        """One comparison of a chain."""
        if op is ast.Is or op is ast.IsNot:
            return self.identical(a, b) == (op is ast.Is)
        if op is ast.In or op is ast.NotIn:
            found = self.contains(a, b)
            if isinstance(found, tensor):
                return found if op is ast.In else self.s.logical_not(found)
            return found == (op is ast.In)
        pred, constant = COMPARE[op]
        if is_aggregate(a) or is_aggregate(b):
            found = self.special(a, f"__{pred}__", b)
            if found is NotImplemented:
                found = self.special(b, f"__{SWAPPED[pred]}__", a)
            if found is not NotImplemented:
                return found
            raise LanguageError(
                f"{describe(a)} and {describe(b)} cannot be compared with `__{pred}__`",
                "define it in the class of the aggregate, or compare fields",
            )
        if isinstance(a, tensor) or isinstance(b, tensor):
            other = b if isinstance(a, tensor) else a
            if pred in ("eq", "ne") and not (isinstance(other, tensor) or is_number(other)):
                return pred == "ne"
            return self.s.compare(pred, a, b)
        if any(isinstance(x, tuple) and any(isinstance(v, RUNTIME) for v in x) for x in (a, b)):
            return self.compare_tuples(pred, as_constant(a), as_constant(b))
        return bool(constant(a, b))

    def compare_tuples(self, pred: str, a: Any, b: Any) -> Any:
        """Whether two tuples with runtime members are equal, member by member."""
        if pred not in ("eq", "ne"):
            raise LanguageError(
                "tuples of runtime values are only compared with == and !=",
                "compare their elements: (a[0] < b[0]) | (a[0] == b[0]) & (a[1] < b[1])",
            )
        equal: Any = isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b)
        if equal:
            for x, y in zip(a, b, strict=True):
                same = self.compare(ast.Eq, x, y)
                if same is False:
                    equal = False
                    break
                runtime = isinstance(equal, tensor)
                equal = self.s.logical("and", equal, same) if runtime else same
        if pred == "eq":
            return equal
        return self.s.logical_not(equal) if isinstance(equal, tensor) else not equal

    def identical(self, a: Any, b: Any) -> bool:
        for x, y in ((a, b), (b, a)):
            if isinstance(x, RUNTIME) and y is not None and not isinstance(y, RUNTIME):
                raise LanguageError(
                    "`is` on a runtime value is only for None", "compare values with `==`"
                )
        if isinstance(a, (int, float, str)) and type(a) is type(b):
            return bool(a == b)
        return a is b

    def contains(self, a: Any, b: Any) -> Any:
        if isinstance(b, str):
            return a in b
        found: Any = False
        for element in self.sequence(b, "`in`"):
            same = self.compare(ast.Eq, a, element)
            if isinstance(found, tensor) or isinstance(same, tensor):
                found = self.s.logical("or", found, same)
            elif same:
                found = True
        return found

    # ---- parts of values

    def visit_attribute(self, node: ast.Attribute) -> Any:
        self_value = self.visit(node.value)
        return self.attribute(self_value, node.attr, node)

    def attribute(self, value: Any, name: str, node: ast.AST) -> Any:
        """`value.name`."""
        if isinstance(value, tensor):
            if name in TENSOR_PROPERTIES:
                return getattr(value, name)
            if name in TENSOR_METHODS:
                return BoundMethod(TENSOR_METHODS[name], value)
            if name == "T":
                self.locate(node)
                return emit(trans, self.s, value)
            known = [*TENSOR_PROPERTIES, "T", *TENSOR_METHODS]
            raise LanguageError(f"tensors have no attribute `{name}`{nearest(name, known)}")
        if isinstance(value, tensor_descriptor):
            if name in DESCRIPTOR_PROPERTIES:
                return getattr(value, name)
            if name in DESCRIPTOR_METHODS:
                return BoundMethod(DESCRIPTOR_METHODS[name], value)
            known = [*DESCRIPTOR_PROPERTIES, *DESCRIPTOR_METHODS]
            raise LanguageError(f"descriptors have no attribute `{name}`{nearest(name, known)}")
        if is_aggregate(value) or is_aggregate_class(value):
            return self.member(value, name)
        if isinstance(value, block_pointer) and name == "advance":
            return BoundMethod(advance, value)
        if isinstance(value, block_pointer) and name not in BLOCK_POINTER_PROPERTIES:
            near = nearest(name, BLOCK_POINTER_PROPERTIES)
            raise LanguageError(f"block pointers have no attribute `{name}`{near}")
        if name == "value" and not hasattr(value, "value"):
            return value  # constexpr.value: constants are plain values in here
        if name == "type" and type(value) is tuple:
            return tuple_type(tuple(self.attribute(v, "type", node) for v in value))
        if name == "type" and not hasattr(value, "type"):
            return constexpr_type(value)
        if is_number(value) and not hasattr(value, name) and is_tensor_member(name):
            return self.attribute(self.s.to_tensor(value), name, node)  # n.to(dtype), also for 1
        try:
            found = getattr(value, name)
        except AttributeError as error:
            if isinstance(value, ModuleType):
                text = (
                    str(error)
                    if "kernel language" in str(error)
                    else f"module {value.__name__} has no `{name}`"
                )
                raise LanguageError(
                    text + (nearest(name, dir(value)) if "mean" not in text else "")
                ) from None
            if isinstance(value, tuple) and name in dir(list):
                raise Unsupported(
                    "Mutation",
                    f"`{name}` would change a list; lists are tuples in kernels, and never change",
                    "make a new one: values = values + (value,)",
                ) from None
            raise LanguageError(
                f"{describe(value)} has no attribute `{name}`{nearest(name, dir(value))}"
            ) from None
        if isinstance(value, ModuleType):
            if is_number(found) and value.__name__ in ("math", "numpy"):
                return found  # numbers that never change: math.pi, numpy.inf
            if rules.any_member and not is_visible(found):
                return found.value if isinstance(found, constexpr) else found
            return check_global(f"{value.__name__}.{name}", found, self.function.fn.__name__)
        return found.value if isinstance(found, constexpr) else found

    def member(self, value: Any, name: str) -> Any:
        """A field or method of an aggregate, or of its class."""
        try:
            found, bound = member(value, name)
        except AttributeError:
            if name in ("type", "__class__"):
                return type(value)
            raise LanguageError(
                f"{describe(value)} has no field or method `{name}`"
                + nearest(name, [*fields_of(value), *vars(type(value))])
            ) from None
        if isinstance(found, DeviceFunction | HostFunction) or callable(found):
            return BoundMethod(found, value) if bound else found
        return found

    def host_attribute(self, value: tensor, name: str) -> Any:
        """`tensor.name` in host code: methods can be called."""
        found = self.attribute(value, name, self.source.tree)
        if not isinstance(found, BoundMethod):
            return found
        return lambda *args, **named: self.call(found, list(args), named, self.at)

    def visit_subscript(self, node: ast.Subscript) -> Any:
        value = self.visit(node.value)
        index = as_constant(self.visit(node.slice))
        self.locate(node)
        return self.subscript(value, index)

    def subscript(self, value: Any, index: Any) -> Any:
        """`value[index]`."""
        if is_aggregate(value):
            found = self.special(value, "__getitem__", index)
            if found is NotImplemented:
                raise LanguageError(
                    f"{describe(value)} is not indexed", "define `__getitem__` in its class"
                )
            return found
        if isinstance(value, tensor):
            return subscript(self.s, value, index if isinstance(index, tuple) else (index,))
        if isinstance(index, tensor):
            raise LanguageError(
                f"{describe(value)} takes compile-time indices only",
                "index with a constexpr, or unroll the loop with tl.static_range",
            )
        if isinstance(value, tensor_descriptor):
            raise LanguageError(
                "a descriptor is not indexed", "read a block with desc.load([row, column])"
            )
        if unwrap(value) is not None:
            raise Unsupported(
                "Launch", "kernels cannot be launched from kernels", "call the function: f(x)"
            )
        if (
            isinstance(value, tuple)
            and isinstance(index, int)
            and not -len(value) <= index < len(value)
        ):
            raise LanguageError(f"index {index} is outside of a tuple of {len(value)}")
        return value[index]

    def visit_slice(self, node: ast.Slice) -> slice:
        parts = [
            None if p is None else as_constant(self.visit(p))
            for p in (node.lower, node.upper, node.step)
        ]
        if any(isinstance(p, tensor) for p in parts):
            raise LanguageError(
                "slices with runtime bounds do not exist: the size of a tile is fixed when it is "
                "compiled",
                "load a tile of fixed size and mask it: tl.load(p + i, mask=i < n)",
            )
        return slice(*parts)

    # ---- the rest

    def visit_ternary(self, node: ast.IfExp) -> Any:
        cond = as_constant(self.visit(node.test))
        if not isinstance(cond, tensor):
            return self.visit(node.body if cond else node.orelse)
        self.locate(node)
        flag = self.scalar_condition(cond, "a conditional expression")
        return self.choose(flag, lambda: self.visit(node.body), lambda: self.visit(node.orelse))

    def visit_fstring(self, node: ast.JoinedStr) -> str:
        return "".join(str(self.visit(v)) for v in node.values)

    def visit_formatted(self, node: ast.FormattedValue) -> str:
        value = as_constant(self.visit(node.value))
        if isinstance(value, RUNTIME):
            raise LanguageError(
                f"an f-string cannot show {describe(value)}: texts are made when the kernel is "
                "compiled",
                'print runtime values with tl.device_print("x: ", x)',
            )
        convert: Any = {115: str, 114: repr, 97: ascii}.get(node.conversion)
        shown = convert(value) if convert else value
        spec = self.visit(node.format_spec) if node.format_spec is not None else ""
        return format(shown, spec)

    def visit_comprehension(self, node: ast.ListComp | ast.GeneratorExp) -> tuple[Any, ...]:
        saved, self.env = self.env, dict(self.env)
        try:
            return self.comprehended(node.elt, node.generators)
        finally:
            self.env = saved

    def comprehended(
        self, element: ast.expr, generators: list[ast.comprehension]
    ) -> tuple[Any, ...]:
        """The elements that the first `for` of a comprehension and those behind it make."""
        if not generators:
            return (self.visit(element),)
        generator, *inner = generators
        out: list[Any] = []
        for item in self.sequence(self.visit(generator.iter), "a comprehension"):
            self.assign(generator.target, item)
            keep = True
            for test in generator.ifs:
                flag = as_constant(self.visit(test))
                if isinstance(flag, tensor):
                    raise LanguageError(
                        "the condition of a comprehension must be known at compile time",
                        "a tuple has a fixed length; use tl.where on the elements",
                    )
                keep = keep and bool(flag)
            if keep:
                out.extend(self.comprehended(element, inner))
        return tuple(out)

    def visit_dict(self, node: ast.Dict) -> dict[Any, Any]:
        """A table of compile-time values."""
        table: dict[Any, Any] = {}
        for key, value in zip(node.keys, node.values, strict=True):
            entry = as_constant(self.visit(value))
            if key is None:
                table.update(entry)
                continue
            name = as_constant(self.visit(key))
            for part in (name, entry):
                if isinstance(part, RUNTIME):
                    raise Unsupported(
                        "RuntimeDictionary",
                        f"dictionaries hold compile-time values only, not {describe(part)}",
                        "use a tuple, a named tuple, or an aggregate",
                    )
            table[name] = entry
        return table

    def scalar_condition(self, cond: tensor, what: str) -> tensor:
        """A runtime condition as a scalar boolean."""
        if cond.ir_shape:
            if cond.numel == 1:
                cond = self.s.emit("reshape", cond.handle, shape=())
            else:
                raise LanguageError(
                    f"the condition of {what} is {describe(cond)}; which of its elements decides "
                    "is not clear",
                    "choose elementwise with tl.where(cond, a, b), or reduce it: "
                    "tl.max(cond.to(tl.int32)) != 0",
                )
        return cond if cond.ir_elem is i1 else self.s.truth(cond, f"the condition of {what}")
