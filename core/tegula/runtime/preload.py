"""Descriptions of compiled variants: texts that record what a kernel was compiled for, so that
another process can compile it before it is needed.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tegula.errors import ArgumentError, DeviceError
from tegula.frontend.function import DeviceFunction
from tegula.runtime import arguments
from tegula.runtime.descriptor import TensorDescriptor
from tegula.runtime.mock import MockTensor

if TYPE_CHECKING:
    from tegula.plugin.records import Target
    from tegula.runtime.jit import JITFunction

ALIGNED = 16


class RecordedArray(MockTensor):
    """Stands for an array of a recorded dtype and alignment."""

    def __init__(self, dtype: Any, aligned: bool) -> None:
        super().__init__(dtype)
        self.aligned = aligned

    def data_ptr(self) -> int:
        return super().data_ptr() + (0 if self.aligned else 1)


def encode(
    kernel: JITFunction, args: Mapping[str, Any], options: Mapping[str, Any], target: Target
) -> str:
    """The text for a kernel, its arguments by name, the options given, and the target."""
    return json.dumps(
        {
            "name": kernel.fn.__qualname__,
            "module": kernel.fn.__module__,
            "target": {"backend": target.backend, "arch": target.arch},
            "arguments": {name: _encoded(name, value) for name, value in args.items()},
            "options": dict(options),
        }
    )


def decode(kernel: JITFunction, text: str, target: Target) -> tuple[dict[str, Any], dict[str, Any]]:
    """Arguments by name and options out of such a text; it has to be for this kernel and target."""
    data = json.loads(text)
    if data["name"] != kernel.fn.__qualname__:
        raise DeviceError(
            f"Specialization data is for kernel {data['name']}, not {kernel.fn.__qualname__}"
        )
    here = {"backend": target.backend, "arch": target.arch}
    if data["target"] != here:
        raise DeviceError(f"Specialization data is for {data['target']}, and this device is {here}")
    return {name: _decoded(v) for name, v in data["arguments"].items()}, data["options"]


def _encoded(name: str, value: Any) -> Any:
    from tegula.language.dtypes import dtype
    from tegula.language.values import constexpr

    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return {"float": value.hex()}
    if isinstance(value, constexpr):
        return {"constexpr": _encoded(name, value.value)}
    if isinstance(value, dtype):
        return {"dtype": str(value)}
    if isinstance(value, tuple):
        kind = type(value)
        return {
            "tuple": [_encoded(name, v) for v in value],
            "class": None if kind is tuple else f"{kind.__module__}:{kind.__qualname__}",
        }
    if isinstance(value, TensorDescriptor):
        parts = {n: list(getattr(value, n)) for n in ("shape", "strides", "block_shape")}
        return {"descriptor": parts, "base": _encoded(name, value.base), "padding": value.padding}
    function = getattr(value, "fn", None)
    if isinstance(value, DeviceFunction) and function is not None:
        return {"function": f"{function.__module__}:{function.__qualname__}"}
    array = arguments.describe(name, value)
    if array is None:
        raise ArgumentError(f"argument '{name}' of type {type(value).__name__} cannot be recorded")
    return {"array": array.dtype.name, "aligned": array.address % ALIGNED == 0}


def _decoded(value: Any) -> Any:
    from tegula.language.dtypes import dtype
    from tegula.language.values import constexpr

    if not isinstance(value, dict):
        return value
    if "float" in value:
        return float.fromhex(value["float"])
    if "constexpr" in value:
        return constexpr(_decoded(value["constexpr"]))
    if "dtype" in value:
        return dtype(value["dtype"])
    if "tuple" in value:
        members = [_decoded(v) for v in value["tuple"]]
        return tuple(members) if value["class"] is None else _named(value["class"])(*members)
    if "descriptor" in value:
        base = _decoded(value["base"])
        return TensorDescriptor(base, **value["descriptor"], padding=value["padding"])
    if "function" in value:
        return _named(value["function"])
    return RecordedArray(value["array"], value["aligned"])


def _named(path: str) -> Any:
    module, _, name = path.partition(":")
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found
