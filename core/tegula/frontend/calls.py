"""Calls: of the language's functions, of other device functions, and of those of Python's that
make sense in kernels.
"""

from __future__ import annotations

import ast
import builtins
import inspect
from collections.abc import Callable, Sequence
from types import BuiltinFunctionType, BuiltinMethodType, FunctionType, MethodType
from typing import Any

from tegula.errors import CompilationError
from tegula.ir.types import DType, f32, i32
from tegula.language.active import activated
from tegula.language.aggregates import (
    HostFunction,
    is_aggregate,
    is_aggregate_class,
    plain,
    takes_semantic,
)
from tegula.language.builtin import Builtin, ConstexprFunction, emit
from tegula.language.debug import device_print, python_range
from tegula.language.descriptor import DESCRIPTOR_METHODS
from tegula.language.dtypes import dtype
from tegula.language.elementwise import abs as absolute
from tegula.language.elementwise import builtin_extreme
from tegula.language.members import is_tensor_member
from tegula.language.values import (
    DESCRIPTOR_PROPERTIES,
    BoundMethod,
    as_constant,
    block_pointer,
    constexpr,
    describe,
    is_number,
    tensor,
    tensor_descriptor,
)

from . import rules
from .diagnostics import LanguageError, Unsupported
from .expressions import Expressions
from .function import EMPTY, DeviceFunction, unwrap
from .globals import PYTHON, PythonFunction
from .structure import build, handles, members, require_constant, types_of

RUNTIME = (tensor, tensor_descriptor, block_pointer)
Arguments = tuple[list[Any], dict[str, Any]]


class Calls(Expressions):
    """Layer of the visitor: calls."""

    def visit_call(self, node: ast.Call) -> Any:
        function = self.visit(node.func)
        args = list(self.elements(node.args))
        named = {}
        for keyword in node.keywords:
            if keyword.arg is None:
                raise Unsupported(
                    "DoubleStar", "`**` in calls cannot be used in kernels", "name each argument"
                )
            named[keyword.arg] = self.visit(keyword.value)
        self.locate(node)
        return self.call(function, args, named, node)

    def call(self, function: Any, args: list[Any], named: dict[str, Any], node: ast.AST) -> Any:
        """Call any value that can be called."""
        if isinstance(function, BoundMethod):
            args = [function.self, *args]
            function = function.fn
        if isinstance(function, HostFunction):
            return self.call_host(function.call, args, named)
        if isinstance(function, Builtin):
            return self.call_builtin(function, args, named)
        if isinstance(function, PythonFunction):
            return PYTHON_CALLS[function.__name__](self, args, named)
        device = unwrap(function)
        if device is not None:
            return self.call_device(device, args, named, node)
        if isinstance(function, ConstexprFunction):
            self.result_needed(function, node)
        return self.call_python(function, args, named)

    def call_builtin(self, function: Builtin, args: list[Any], named: dict[str, Any]) -> Any:
        places, rest, names = function.static
        args = [
            as_constant(a) if (places[i] if i < len(places) else rest) else a
            for i, a in enumerate(args)
        ]
        named = {n: as_constant(v) if n in names else v for n, v in named.items()}
        try:
            return function.emit(self.s, *args, **named)
        except TypeError as error:
            # A wrong argument list is told apart from an error inside by binding again.
            try:
                inspect.signature(function.emit).bind(self.s, *args, **named)
            except TypeError as mismatch:
                signature = inspect.signature(function.emit)
                shown = ", ".join(
                    str(p).split(":")[0].split(" =")[0]
                    for p in list(signature.parameters.values())[1:]
                )
                raise LanguageError(
                    f"{function.__name__}: {mismatch}", f"its parameters are ({shown})"
                ) from None
            raise error

    def call_python(self, function: Any, args: list[Any], named: dict[str, Any]) -> Any:
        """Compile-time calls: classes, constexpr functions, Python's math, methods of constants."""
        name = getattr(function, "__name__", repr(function))
        if function is constexpr:
            if rules.lax_constants and has_runtime(args[0]):
                return args[0]
            return require_constant(as_constant(args[0]), "the value of a constexpr")
        if isinstance(function, dtype):
            raise LanguageError(
                "a dtype is not called",
                f"convert with x.to({function.codegen_name})",
            )
        if isinstance(function, type):
            if is_aggregate_class(function):
                return self.call_host(function, args, named)
            if issubclass(function, tuple):
                return tuple(args[0]) if function is tuple and args else function(*args, **named)
            if function in (int, float, bool, str, list):
                return PYTHON_CALLS[function.__name__](self, args, named)
        if is_aggregate(function):
            found = self.special(function, "__call__", *args)
            if found is not NotImplemented:
                return found
        compile_time = isinstance(
            function, (ConstexprFunction, type, BuiltinFunctionType, BuiltinMethodType, MethodType)
        )
        if not compile_time:
            if isinstance(function, FunctionType):
                raise Unsupported(
                    "PythonFunction",
                    f"`{name}` is an ordinary Python function, which kernels cannot call",
                    "put @tegula.jit above it to compile it too, or @tegula.constexpr_function "
                    "to run it at compile time",
                )
            raise LanguageError(f"{describe(function)} cannot be called")
        if isinstance(function, ConstexprFunction) and any(map(is_aggregate, args)):
            return self.call_host(function, args, named)  # fields may be tensors
        args = [as_constant(a) for a in args]
        named = {n: as_constant(v) for n, v in named.items()}
        for value in (*args, *named.values()):
            if has_runtime(value):
                remedy = f"use tl.{name}" if in_language(function) else "pass constants only"
                raise LanguageError(
                    f"`{name}` runs at compile time and cannot take {describe(value)}", remedy
                )
        result = function(*args, **named)
        return result.value if isinstance(result, constexpr) else result

    def call_host(self, function: Any, args: list[Any], named: dict[str, Any]) -> Any:
        """Host code of an aggregate, which may hold runtime values and compute with them."""
        if takes_semantic(function) and not isinstance(function, type):
            named = {"_semantic": self.s, **named}
        try:
            with activated(self):
                return plain(function(*args, **named))
        except (TypeError, AttributeError) as error:
            raise LanguageError(str(error)) from error

    # ---- device functions

    def call_device(
        self,
        function: DeviceFunction,
        args: list[Any],
        named: dict[str, Any],
        node: ast.AST,
    ) -> Any:
        """Call a function written in the kernel language, compiled for these types and
        constants."""
        bound = bind_arguments(function, args, named)
        loc = self.b.loc
        self.result_needed(function, node)
        try:
            special = self.compilation.specialise(function, bound, self.b.block is self.certain)
        except CompilationError as error:
            error.frames = (self.frame(node), *error.frames)
            raise
        self.b.loc = loc
        values = [h for spec, value in zip(special.arg_specs, bound.values(), strict=True)
                  for h in handles(self.s, value, spec)]  # fmt: skip
        if special.empty:
            return build(special.result, iter(()))
        results = self.b.create(
            "call", values, callee=special.name, types=tuple(types_of(special.result))
        )
        return build(special.result, iter(results))

    def result_needed(self, function: DeviceFunction | ConstexprFunction, node: ast.AST) -> None:
        """Refuse a call whose result is dropped although it is what the function is for."""
        why = getattr(function, "must_use_result", None)
        if why and node is self.dropped:
            called = getattr(node, "func", None)
            name = ast.unparse(called) if called is not None else function.fn.__name__
            text = why if isinstance(why, str) else "it has no other effect"
            raise LanguageError(
                f"the result of `{name}` has to be used: {text}", f"write y = {name}(...)"
            )

    def inline_call(
        self, function: Any, args: Sequence[Any], what: str, named: dict[str, Any] | None = None
    ) -> Any:
        """Compile a function's body at this place; for the small functions that reduce and scan
        take, and for those that fill an aggregate.
        """
        device = unwrap(function)
        if isinstance(function, Builtin):
            return self.call_builtin(function, list(args), {})
        if device is None:
            raise LanguageError(
                f"{what}: the combining function must be under @tegula.jit, not "
                f"{describe(function)}",
                "write `@tegula.jit def combine(a, b): return a + b`",
            )
        from .visitor import Visitor as Inner

        loc = self.b.loc
        bound = bind_arguments(device, list(args), named or {})
        with self.compilation.entered(device, None):
            inner = Inner(self.compilation, device, self.b, caller=loc)
            inner.certain = self.certain
            inner.env.update(bound)
            out = inner.run(inner.body)
        self.b.loc = loc
        return out.value if out is not None else None


def bind_arguments(
    function: DeviceFunction, args: list[Any], named: dict[str, Any]
) -> dict[str, Any]:
    """Arguments by parameter name, defaults filled in."""
    name = function.fn.__name__
    bound: dict[str, Any] = {}
    rest = list(args)
    named = dict(named)
    for p in parameters_of(function):
        if p.kind == "varargs":
            bound[p.name] = tuple(rest)
            rest = []
        elif p.kind == "positional" and rest:
            if p.name in named:
                raise LanguageError(f"`{name}` got `{p.name}` twice")
            bound[p.name] = rest.pop(0)
        elif p.name in named:
            bound[p.name] = named.pop(p.name)
        elif p.default is not EMPTY:
            bound[p.name] = p.default.value if isinstance(p.default, constexpr) else p.default
        else:
            raise LanguageError(f"`{name}` needs a value for its parameter `{p.name}`")
        if p.is_constexpr:
            bound[p.name] = as_constant(bound[p.name])
        if p.is_constexpr and has_runtime(bound[p.name]) and not rules.lax_constants:
            raise LanguageError(
                f"parameter `{p.name}` of `{name}` must be known at compile time, not "
                f"{describe(bound[p.name])}",
                "annotate the value's origin with tl.constexpr, or remove the annotation of the "
                "parameter",
            )
        if isinstance(bound[p.name], list):
            bound[p.name] = tuple(bound[p.name])
    if rest:
        raise LanguageError(f"`{name}` takes {len(bound)} arguments, {len(args)} were given")
    if named:
        raise LanguageError(f"`{name}` has no parameter `{next(iter(named))}`")
    return bound


def parameters_of(function: DeviceFunction) -> Any:
    """The frontend's own view of a function's parameters."""
    found = function.__dict__.get("_frontend_params")
    if found is None:
        from .function import parameters

        found = function.__dict__["_frontend_params"] = parameters(function.fn)
    return found


def in_language(function: Any) -> bool:
    """Whether a function of the host's has a namesake that takes runtime values."""
    from tegula import language

    hosts = getattr(function, "__module__", "") in ("math", "tegula.integers")
    return hosts and hasattr(language, function.__name__)


def has_runtime(value: Any) -> bool:
    """True if a value, or a part of it, is only known at run time."""
    parts = members(value)
    if parts is not None:
        return any(has_runtime(v) for v in parts)
    return isinstance(value, RUNTIME)


# ---- Python's functions


def _constant_only(f: Callable[..., Any]) -> Callable[[Any, list[Any], dict[str, Any]], Any]:
    def call(visitor: Calls, args: list[Any], named: dict[str, Any]) -> Any:
        args = [as_constant(a) for a in args]
        for value in (*args, *named.values()):
            if has_runtime(value):
                raise LanguageError(
                    f"Python's {f.__name__} takes compile-time values only, not {describe(value)}"
                )
        return f(*args, **named)

    return call


def _sequences(f: Callable[..., Any]) -> Callable[[Any, list[Any], dict[str, Any]], Any]:
    def call(visitor: Calls, args: list[Any], named: dict[str, Any]) -> Any:
        what = f"Python's {f.__name__}"
        rows = [visitor.sequence(a, what) if not isinstance(a, int) else a for a in args]
        return tuple(f(*rows, **named))

    return call


def _convert(kind: type, to: Any) -> Callable[[Any, list[Any], dict[str, Any]], Any]:
    def call(visitor: Calls, args: list[Any], named: dict[str, Any]) -> Any:
        if len(args) != 1 or named or not isinstance(args[0], tensor):
            return _constant_only(kind)(visitor, args, named)
        x = args[0]
        if kind is bool:
            return visitor.s.truth(x, "the operand of bool")
        if isinstance(x.ir_elem, DType) and x.ir_elem.is_float == to.is_float:
            return x
        return visitor.s.cast(x, to)

    return call


def _print(visitor: Calls, args: list[Any], named: dict[str, Any]) -> None:
    prefix = ""
    if args and isinstance(args[0], str):
        prefix, args = args[0], args[1:]
    emit(device_print, visitor.s, prefix, *args, **named)


def _isinstance(visitor: Calls, args: list[Any], named: dict[str, Any]) -> bool:
    value, classes = args
    classes = classes if isinstance(classes, tuple) else (classes,)
    plain: Any = tuple(
        _TYPES.get(c.__name__, c) if isinstance(c, PythonFunction) else c for c in classes
    )
    if constexpr in plain and not has_runtime(value):
        return True
    return isinstance(value, plain)


_TYPES = {
    "int": int,
    "float": float,
    "bool": bool,
    "str": str,
    "tuple": tuple,
    "list": tuple,
    "range": range,
}


def _hasattr(visitor: Calls, args: list[Any], named: dict[str, Any]) -> bool:
    value, name = args
    if isinstance(value, tensor) or (is_number(value) and is_tensor_member(name)):
        return is_tensor_member(name)
    if is_aggregate(value) or is_aggregate_class(value):
        return hasattr(value, name)
    if isinstance(value, tensor_descriptor):
        return name in DESCRIPTOR_PROPERTIES or name in DESCRIPTOR_METHODS
    return hasattr(value, name)


def _getattr(visitor: Calls, args: list[Any], named: dict[str, Any]) -> Any:
    if len(args) == 3 and not _hasattr(visitor, args[:2], {}):
        return args[2]
    return visitor.attribute(args[0], args[1], visitor.source.tree)


def _len(visitor: Calls, args: list[Any], named: dict[str, Any]) -> int:
    (value,) = args
    if isinstance(value, tensor):
        if not value.ir_shape:
            raise LanguageError("a scalar has no length")
        return value.ir_shape[0]
    return len(value)


def _extreme(name: str) -> Callable[[Any, list[Any], dict[str, Any]], Any]:
    def call(visitor: Calls, args: list[Any], named: dict[str, Any]) -> Any:
        if named:
            raise LanguageError(f"Python's {name} takes no options in kernels")
        return builtin_extreme(visitor.s, name, tuple(args))

    return call


def _abs(visitor: Calls, args: list[Any], named: dict[str, Any]) -> Any:
    (x,) = args
    return abs(x) if is_number(x) else emit(absolute, visitor.s, x)


def _sum(visitor: Calls, args: list[Any], named: dict[str, Any]) -> Any:
    if args and isinstance(args[0], tensor):
        raise LanguageError(
            "Python's sum adds up a tuple", "to reduce a tile write tl.sum(x, axis=0)"
        )
    items = visitor.sequence(args[0], "Python's sum")
    total = args[1] if len(args) > 1 else 0
    for item in items:
        total = visitor.binary(ast.Add, total, item)
    return total


def _type(visitor: Calls, args: list[Any], named: dict[str, Any]) -> Any:
    if len(args) == 1 and not isinstance(args[0], RUNTIME):
        kind = type(args[0])
        plain = getattr(builtins, kind.__name__, None) is kind
        return PYTHON.get(kind.__name__, kind) if plain else kind  # what its name means in kernels
    raise LanguageError("Python's type does not tell tensors apart", "look at x.dtype and x.shape")


def _truths(op: str) -> Callable[[Any, list[Any], dict[str, Any]], Any]:
    """Python's `all` and `any`, on tuples with runtime scalars too."""

    def call(visitor: Calls, args: list[Any], named: dict[str, Any]) -> Any:
        result: Any = op == "and"
        for item in visitor.sequence(args[0], "Python's " + ("all" if op == "and" else "any")):
            value = as_constant(item)
            if isinstance(value, tensor) or isinstance(result, tensor):
                value = value if isinstance(value, tensor) else bool(value)
                result = visitor.s.logical(op, result, value)
            else:
                result = (result and bool(value)) if op == "and" else (result or bool(value))
        return result

    return call


def _divmod(visitor: Calls, args: list[Any], named: dict[str, Any]) -> tuple[Any, Any]:
    a, b = args
    return visitor.binary(ast.FloorDiv, a, b), visitor.binary(ast.Mod, a, b)


def _pow(visitor: Calls, args: list[Any], named: dict[str, Any]) -> Any:
    a, b = args
    return visitor.binary(ast.Pow, a, b)


def _tuple(visitor: Calls, args: list[Any], named: dict[str, Any]) -> tuple[Any, ...]:
    return visitor.sequence(args[0], "tuple") if args else ()


PYTHON_CALLS: dict[str, Callable[[Any, list[Any], dict[str, Any]], Any]] = {
    "abs": _abs,
    "all": _truths("and"),
    "any": _truths("or"),
    "divmod": _divmod,
    "pow": _pow,
    "breakpoint": lambda visitor, args, named: None,  # the debugger stops there
    "bool": _convert(bool, None),
    "enumerate": _sequences(enumerate),
    "float": _convert(float, f32),
    "getattr": _getattr,
    "hasattr": _hasattr,
    "int": _convert(int, i32),
    "isinstance": _isinstance,
    "len": _len,
    "list": _tuple,
    "max": _extreme("max"),
    "min": _extreme("min"),
    "print": _print,
    "range": lambda visitor, args, named: python_range(tuple(args)),
    "repr": _constant_only(repr),
    "reversed": _sequences(reversed),
    "round": _constant_only(round),
    "slice": _constant_only(slice),
    "sorted": _constant_only(lambda *a, **k: tuple(sorted(*a, **k))),
    "str": _constant_only(str),
    "sum": _sum,
    "tuple": _tuple,
    "type": _type,
    "zip": _sequences(zip),
}
"""What Python's functions mean in a kernel."""
