"""From a kernel's Python source to tile IR.

Importing this package is cheap: the language, the IR and the AST visitor are loaded when something
is compiled.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .function import DeviceFunction, Param, device_function, parameters, unwrap

if TYPE_CHECKING:
    from tegula.ir.core import Module

    from .arguments import Const, HostAggregate, HostDescriptor, flat_names
    from .dependencies import (
        GlobalsSnapshot,
        constant_key,
        frontend_fingerprint,
        globals_snapshot,
        source_key,
    )

_LAZY = {
    "Const": "arguments",
    "HostAggregate": "arguments",
    "HostDescriptor": "arguments",
    "flat_names": "arguments",
    "GlobalsSnapshot": "dependencies",
    "constant_key": "dependencies",
    "frontend_fingerprint": "dependencies",
    "globals_snapshot": "dependencies",
    "source_key": "dependencies",
}

__all__ = [
    "Const",
    "DeviceFunction",
    "GlobalsSnapshot",
    "HostAggregate",
    "HostDescriptor",
    "Param",
    "compile_function",
    "constant_key",
    "device_function",
    "flat_names",
    "frontend_fingerprint",
    "globals_snapshot",
    "parameters",
    "source_key",
    "unwrap",
]


def compile_function(
    fn: Any,
    arg_types: Mapping[str, Any],
    constants: Mapping[str, Any],
    arg_attrs: Mapping[str, Mapping[str, Any]] | None = None,
    options: Mapping[str, Any] | None = None,
) -> Module:
    """Tile IR of kernel `fn` for runtime arguments of `arg_types` and the given compile-time
    constants.
    """
    from .compile import compile_function as compile_now

    return compile_now(fn, arg_types, constants, arg_attrs, options)


def __getattr__(name: str) -> Any:
    module = _LAZY.get(name)
    if module is None:
        raise AttributeError(f"module 'tegula.frontend' has no attribute {name!r}")
    import importlib
    import sys

    value = getattr(importlib.import_module(f"tegula.frontend.{module}"), name)
    # Not through `globals()`: once the submodule of that name is imported, it hides the built-in.
    setattr(sys.modules[__name__], name, value)
    return value
