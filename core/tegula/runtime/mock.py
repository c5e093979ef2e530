"""Stand-ins for arrays, for compiling without any."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tegula.ir import types as ir
from tegula.runtime.arguments import dtype_of
from tegula.runtime.parameters import KernelParam

_addresses = itertools.count(1 << 40, 1 << 30)


class MockTensor:
    """An array that has a dtype and no memory: `kernel.warmup(MockTensor(np.float32), ...)`.

    It counts as aligned to 16 bytes, as fresh arrays are.
    """

    def __init__(self, dtype: Any, shape: Sequence[int] = (1,)) -> None:
        found = dtype_of(dtype)
        if found is None:
            raise TypeError(f"{dtype!r} is no dtype of kernels")
        self.dtype: ir.DType = found
        self.shape = tuple(shape)
        self._address = next(_addresses)

    def data_ptr(self) -> int:
        """An address of its own, which 16 divides: stand-ins do not overlap."""
        return self._address

    def stride(self) -> tuple[int, ...]:
        """Strides in elements of a dense array."""
        from tegula.runtime.dlpack import dense_strides

        return dense_strides(self.shape, 1)

    @property
    def nbytes(self) -> int:
        """Bytes that an array like this would have."""
        return math.prod(self.shape) * self.dtype.itemsize

    def is_contiguous(self) -> bool:
        """Whether its elements lie side by side: yes."""
        return True

    @staticmethod
    def wrap_dtype(value: Any) -> Any:
        """A stand-in for a dtype or a text like `"*fp32"`; anything else unchanged."""
        return MockTensor(value) if _is_dtype(value) else value

    def __repr__(self) -> str:
        return f"MockTensor({self.dtype})"


def _is_dtype(value: Any) -> bool:
    if isinstance(value, np.dtype | ir.DType):
        return True
    if isinstance(value, type) and issubclass(value, np.generic):
        return True
    kind = type(value)
    return kind.__name__ == "dtype" and kind.__module__.partition(".")[0] in ("torch", "tegula")


def mock_arguments(
    params: Sequence[KernelParam], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """Arguments with a stand-in wherever a dtype was given for a parameter that is no constexpr."""

    def one(param: KernelParam | None, value: Any) -> Any:
        if param is None or param.is_constexpr:
            return value
        if isinstance(value, str) and value.startswith("*"):
            return MockTensor(value.lstrip("*"))
        return MockTensor.wrap_dtype(value)

    positional = [p for p in params if p.kind != "keyword"]
    rest = positional[-1] if positional and positional[-1].kind == "varargs" else None
    by_position = [*positional, *[rest] * max(0, len(args) - len(positional))]
    by_name = {p.name: p for p in params}
    return (
        [one(p, a) for p, a in zip(by_position, args)] + list(args[len(by_position) :]),
        {name: one(by_name.get(name), value) for name, value in kwargs.items()},
    )
