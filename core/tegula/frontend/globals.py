"""What a kernel may see of the Python around it: captured variables, globals, and some of Python's
functions.
"""

from __future__ import annotations

import builtins
import enum
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any, Final

from tegula.language.aggregates import HostFunction, plain
from tegula.language.builtin import Builtin, ConstexprFunction
from tegula.language.dtypes import dtype
from tegula.language.values import constexpr

from .diagnostics import LanguageError
from .function import DeviceFunction, unwrap


class PythonFunction:
    """One of Python's own functions that kernels may call; its meaning there is in
    `frontend.calls`.
    """

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __repr__(self) -> str:
        return f"<Python's {self.__name__}>"


PYTHON: Final[dict[str, Any]] = {
    name: PythonFunction(name)
    for name in (
        "abs", "all", "any", "bool", "breakpoint", "divmod", "enumerate", "float", "getattr",
        "hasattr", "int", "isinstance", "len", "list", "max", "min", "pow", "print", "range",
        "repr", "reversed", "round", "slice", "sorted", "str", "sum", "tuple", "type", "zip",
    )
}  # fmt: skip
PYTHON["Ellipsis"] = Ellipsis
PYTHON["NotImplemented"] = NotImplemented


class Captured(dict[str, Any]):
    """The variables of enclosing functions that a function uses, over its globals. Lookups see
    current values.
    """

    def __init__(self, closure: dict[str, Any], module: dict[str, Any]) -> None:
        super().__init__(closure)
        self.module = module

    def __missing__(self, name: str) -> Any:
        return self.module[name]

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or name in self.module


def captured(fn: FunctionType) -> Captured:
    """What the names of a function refer to outside of it."""
    closure: dict[str, Any] = {}
    for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True):
        try:
            closure[name] = cell.cell_contents
        except ValueError:  # bound later in the enclosing function
            continue
    return Captured(closure, fn.__globals__)


def is_visible(value: Any) -> bool:
    """True for what kernels may read from outside: it cannot change behind the compiled code's
    back.
    """
    if isinstance(
        value,
        (
            constexpr,
            ModuleType,
            DeviceFunction,
            Builtin,
            ConstexprFunction,
            PythonFunction,
            HostFunction,
            dtype,
            type,
            enum.Enum,
        ),
    ):
        return True
    if isinstance(value, (FunctionType, BuiltinFunctionType)):
        return True  # may be named; whether it may be called is decided at the call
    if isinstance(value, (tuple, list)):
        return all(is_visible(v) for v in value)
    return (
        value is None or unwrap(value) is not None or getattr(value, "__module__", "") == "typing"
    )


def check_global(name: str, value: Any, function: str) -> Any:
    """The value of a captured variable or global, if kernels may read it."""
    if isinstance(value, constexpr):
        return plain(value.value)
    if is_visible(value):
        python = getattr(builtins, name, None)
        return PYTHON[name] if value is python and name in PYTHON else plain(value)
    kind = type(value).__name__
    if isinstance(value, (bool, int, float, str, tuple, list)):
        raise LanguageError(
            f"`{name}` is a plain global variable of type {kind}; its value could change after "
            f"`{function}` is compiled",
            f"pass it as an argument, or define it as {name} = tl.constexpr({value!r:.40})",
        )
    raise LanguageError(
        f"`{name}` is a global of type {kind}, which kernels cannot use",
        "pass it as an argument, or wrap a constant in tl.constexpr(...)",
    )
