"""Tensor descriptors made on the host: an array, seen in blocks.

desc = tegula.TensorDescriptor.from_tensor(x, block_shape=[64, 32])
kernel[grid](desc, ...)                          # in the kernel: desc.load([i, j])
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from typing import Any

from tegula.errors import ArgumentError, ArgumentValueError

PADDINGS = ("zero", "nan")
MAX_RANK = 5


class TensorDescriptor:
    """Base array, shape and strides in elements, and the block in which kernels read and write it.

    The last stride is 1. Attributes may be changed between launches, `block_shape` by tuning
    configurations, for example.
    """

    __slots__ = ("_block_shape", "_padding", "_shape", "_strides", "base", "round_f32_to_tf32")

    def __init__(
        self,
        base: Any,
        shape: Sequence[int],
        strides: Sequence[int],
        block_shape: Sequence[int],
        padding: str = "zero",
        round_f32_to_tf32: bool = False,
    ) -> None:
        self.base = base
        self._shape = _ints("shape", shape)
        self.strides = strides
        self.block_shape = block_shape
        self.padding = padding
        self.round_f32_to_tf32 = round_f32_to_tf32
        rank = len(self._shape)
        if not 1 <= rank <= MAX_RANK:
            raise ArgumentValueError(f"a descriptor has 1 to {MAX_RANK} dimensions, not {rank}")
        if not rank == len(self._strides) == len(self._block_shape):
            raise ArgumentValueError(
                f"a descriptor of shape {self._shape} needs {rank} strides and block sizes, not "
                f"{self._strides} and {self._block_shape}"
            )

    @staticmethod
    def from_tensor(
        tensor: Any,
        block_shape: Sequence[int],
        padding: str = "zero",
        round_f32_to_tf32: bool = False,
    ) -> TensorDescriptor:
        """Describe a whole array."""
        from tegula.runtime.arguments import describe

        array = describe("tensor", tensor)
        if array is None or array.shape is None or array.strides is None:
            raise ArgumentError(f"{type(tensor).__name__} has no shape and strides to describe")
        size = array.dtype.itemsize
        if any(step % size for step in array.strides):
            raise ArgumentValueError(f"strides {array.strides} are no multiples of {size} bytes")
        strides = [step // size for step in array.strides]
        return TensorDescriptor(
            tensor, array.shape, strides, block_shape, padding, round_f32_to_tf32
        )

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the array."""
        return self._shape

    @shape.setter
    def shape(self, value: Sequence[int]) -> None:
        self._shape = _ints("shape", value)

    @property
    def strides(self) -> tuple[int, ...]:
        """Strides in elements."""
        return self._strides

    @strides.setter
    def strides(self, value: Sequence[int]) -> None:
        strides = _ints("strides", value)
        if strides and strides[-1] != 1:
            raise ArgumentValueError(
                f"the last stride of a descriptor is 1, not {strides[-1]}; "
                "order the dimensions so that the last one is contiguous"
            )
        self._strides = strides

    @property
    def block_shape(self) -> tuple[int, ...]:
        """Sizes of the block that one access covers."""
        return self._block_shape

    @block_shape.setter
    def block_shape(self, value: Sequence[int]) -> None:
        block = _ints("block_shape", value)
        if any(n < 1 for n in block):
            raise ArgumentValueError(f"a block has at least one element in each dimension: {block}")
        self._block_shape = block

    @property
    def padding(self) -> str:
        """What reads outside of the array give: `zero` or `nan`."""
        return self._padding

    @padding.setter
    def padding(self, value: str) -> None:
        if value not in PADDINGS:
            raise ArgumentValueError(f"padding is one of {PADDINGS}, not {value!r}")
        self._padding = value

    def __repr__(self) -> str:
        return f"TensorDescriptor(shape={self.shape}, block_shape={self.block_shape})"


def _ints(what: str, values: Sequence[int]) -> tuple[int, ...]:
    try:
        return tuple(int(v) for v in values)
    except (TypeError, ValueError):
        raise ArgumentError(f"{what} of a descriptor is a list of ints, not {values!r}") from None


_MEMBER_POINTER = 40
"""Where a slot's descriptor keeps its definition, and the definition the slot's offset."""
_MEMBER_OFFSET = 16


@functools.cache
def slot_offsets() -> dict[str, int] | None:
    """Byte offset of each slot within a descriptor; None if this interpreter lays it out oddly."""
    probe = TensorDescriptor(object(), (2,), (1,), (4,))
    offsets = {}
    for name in TensorDescriptor.__slots__:
        member = ctypes.c_void_p.from_address(id(getattr(TensorDescriptor, name)) + _MEMBER_POINTER)
        offset = ctypes.c_ssize_t.from_address((member.value or 0) + _MEMBER_OFFSET).value
        if not 16 <= offset < 256:
            return None
        if ctypes.c_void_p.from_address(id(probe) + offset).value != id(getattr(probe, name)):
            return None
        offsets[name] = offset
    return offsets
