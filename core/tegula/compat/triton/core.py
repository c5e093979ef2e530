"""Names of `triton.language.core` that programs reach for."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from tegula.language.builtin import Builtin, constexpr_function
from tegula.language.dtypes import dtype, from_ir
from tegula.language.values import constexpr

CONSTEXPR_0 = constexpr(0)
"""A default of parameters of sorting functions."""


@constexpr_function
def get_int_dtype(bitwidth: int, signed: bool) -> dtype:
    """The integer dtype of a width."""
    from tegula.ir.types import DTYPES

    kind = DTYPES.get(f"{'i' if signed else 'u'}{bitwidth}")
    if kind is None:
        raise ValueError(f"Unsupported bitwidth {bitwidth} and signedness {signed}")
    found: dtype = from_ir(kind)
    return found


def builtin(fn: Any) -> Builtin:
    """Make a function of the language out of one that takes the compilation's state as `_semantic`,
    which it hands on to the functions of the language that it calls.
    """

    @functools.wraps(fn)
    def emit(semantic: Any, *args: Any, **kwargs: Any) -> Any:
        return fn(*args, **kwargs, _semantic=semantic)

    return Builtin(emit)


extern = builtin


def dispatch(
    func: Any,
    lib_name: str,
    lib_path: str,
    args: Sequence[Any],
    arg_type_symbol_dict: dict[Any, tuple[str, Any]],
    ret_type: Any,
    is_pure: bool,
    _semantic: Any = None,
) -> Any:
    """A function of a library on values of one shape; see `extern_elementwise`."""
    from tegula.language.foreign import extern_elementwise

    known = {key: (symbol, ret_type) for key, (symbol, _) in arg_type_symbol_dict.items()}
    return extern_elementwise(lib_name, lib_path, args, known, is_pure, _semantic=_semantic)


def _unwrap_if_constexpr(value: Any) -> Any:
    return value.value if isinstance(value, constexpr) else value


def _constexpr_to_value(value: Any) -> Any:
    return _unwrap_if_constexpr(value)


def __getattr__(name: str) -> Any:
    if name == "_aggregate":
        from tegula import language

        return language.aggregate
    raise AttributeError(f"module 'triton.language.core' has no attribute {name!r}")


__all__ = [
    "CONSTEXPR_0",
    "_constexpr_to_value",
    "_unwrap_if_constexpr",
    "builtin",
    "dispatch",
    "extern",
    "get_int_dtype",
]
__all__ += ["_aggregate"]  # noqa: F822 - `__getattr__` finds it
