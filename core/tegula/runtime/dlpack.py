"""DLPack in both directions, without a library: reading other people's tensors and exporting our
own arrays.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Sequence
from typing import Any

from tegula.ir import types as ir
from tegula.runtime.dispatch_tables import DLTensorStruct

HOST = 1
DEVICE_NAMES = {
    1: "cpu", 2: "cuda", 3: "cuda_host", 4: "opencl", 7: "vulkan", 8: "metal", 10: "rocm",
    11: "rocm_host", 12: "ext", 13: "cuda_managed", 14: "oneapi", 15: "webgpu", 16: "hexagon",
}  # fmt: skip
"""DLPack's device types, for messages."""

EXCHANGE_ATTRIBUTE = "__dlpack_c_exchange_api__"
_CAPSULE_EXCHANGE = b"dlpack_exchange_api"
_CAPSULE_TENSOR = b"dltensor"
# Offsets of function pointers in DLPackExchangeAPI, part of its stable ABI since DLPack 1.3.
_EXCHANGE_TENSOR_OF, _EXCHANGE_STREAM = 40, 48
_EXCHANGE_CALL = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p)

_CODES: dict[tuple[int, int], ir.DType] = {
    (0, 8): ir.i8, (0, 16): ir.i16, (0, 32): ir.i32, (0, 64): ir.i64,
    (1, 8): ir.u8, (1, 16): ir.u16, (1, 32): ir.u32, (1, 64): ir.u64,
    (2, 16): ir.f16, (2, 32): ir.f32, (2, 64): ir.f64, (4, 16): ir.bf16, (6, 8): ir.i1,
    (10, 8): ir.f8e4nv, (11, 8): ir.f8e4b8, (12, 8): ir.f8e5, (13, 8): ir.f8e5b16,
}  # fmt: skip
"""(code, bits) of one-lane DLPack types."""
_CODE_OF = {dtype: key for key, dtype in _CODES.items()}


def _python(name: str, result: Any, *params: Any) -> Any:
    """A prototype of our own: those on `ctypes.pythonapi` are shared by all libraries."""
    return ctypes.PYFUNCTYPE(result, *params)((name, ctypes.pythonapi))


_pointer_of = _python("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
_new_capsule = _python(
    "PyCapsule_New", ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p
)
# A destructor gets a dying object, which must not be referenced again: it stays an address.
_dying_name = _python("PyCapsule_GetName", ctypes.c_char_p, ctypes.c_void_p)
_dying_pointer = _python("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)


def packed_dtype(dtype: ir.DType) -> int | None:
    """DLPack's dtype as the 32 bits that stand in a tensor; None where it has none."""
    found = _CODE_OF.get(dtype)
    return None if found is None else found[0] | found[1] << 8 | 1 << 16


def packed_device(device: tuple[int, int]) -> int:
    """DLPack's device as the 64 bits that stand in a tensor."""
    return device[0] | device[1] << 32


class TensorView:
    """What a DLTensor says: address, dtype, device, shape, byte strides."""

    __slots__ = ("address", "device", "dtype", "dtype_text", "readonly", "shape", "strides")

    def __init__(self, struct: DLTensorStruct, readonly: bool = False) -> None:
        code, bits = struct.dtype & 0xFF, struct.dtype >> 8 & 0xFF
        lanes = struct.dtype >> 16 & 0xFFFF
        self.dtype = _CODES.get((code, bits)) if lanes == 1 else None
        self.dtype_text = f"DLPack type code {code}, {bits} bits, {lanes} lanes"
        self.address = (struct.data or 0) + struct.byte_offset
        self.device = (struct.device & 0xFFFFFFFF, struct.device >> 32)
        self.readonly = readonly
        n = struct.ndim
        vector = ctypes.c_int64 * n
        self.shape = tuple(vector.from_address(struct.shape)) if n else ()
        if n and struct.strides:
            in_elements = tuple(vector.from_address(struct.strides))
        else:
            in_elements = dense_strides(self.shape, 1)
        self.strides = tuple(s * max(1, bits // 8) * lanes for s in in_elements)

    def fields(self) -> tuple[Any, ...]:
        """All that it says, to be compared."""
        return tuple(getattr(self, name) for name in self.__slots__)


def dense_strides(shape: Sequence[int], itemsize: int) -> tuple[int, ...]:
    """Byte strides of a row-major array."""
    steps = itertools.accumulate(reversed(shape[1:]), lambda a, b: a * b, initial=itemsize)
    return tuple(reversed(list(steps))) if shape else ()


class Exchange:
    """The native functions by which an array library hands out tensors without a capsule."""

    __slots__ = ("_call", "stream_of", "tensor_of")

    def __init__(self, api: int) -> None:
        self.tensor_of: int = ctypes.c_void_p.from_address(api + _EXCHANGE_TENSOR_OF).value or 0
        self.stream_of: int = ctypes.c_void_p.from_address(api + _EXCHANGE_STREAM).value or 0
        self._call = _EXCHANGE_CALL(self.tensor_of)

    @classmethod
    def of(cls, kind: type) -> Exchange | None:
        """The exchange functions of a tensor type, if its library has them in a version we know."""
        capsule = getattr(kind, EXCHANGE_ATTRIBUTE, None)
        if capsule is None:
            return None
        api: int | None = _pointer_of(capsule, _CAPSULE_EXCHANGE)
        while api is not None and ctypes.c_uint32.from_address(api).value != 1:
            api = ctypes.c_void_p.from_address(api + 8).value  # an older version, if it has one
        if api is None:
            return None
        exchange = cls(api)
        return exchange if exchange.tensor_of else None

    def view(self, tensor: Any) -> TensorView:
        """Describe a tensor; its memory stays the library's."""
        return self._told(self._call, tensor)

    def told(self, function: int, tensor: Any) -> TensorView:
        """What another function of the same kind, at an address, says of a tensor."""
        return self._told(_EXCHANGE_CALL(function), tensor)

    @staticmethod
    def _told(call: Any, tensor: Any) -> TensorView:
        struct = DLTensorStruct()
        call(tensor, ctypes.addressof(struct))
        return TensorView(struct)


def view(tensor: Any) -> tuple[TensorView, Any]:
    """Describe any object with `__dlpack__`; the second result keeps its memory alive."""
    capsule = tensor.__dlpack__()
    address = _pointer_of(capsule, _CAPSULE_TENSOR)
    return TensorView(DLTensorStruct.from_address(address)), capsule


# -------------------------------------------------------------------------------------------------
# Export


class _Managed(ctypes.Structure):
    _fields_ = (
        ("tensor", DLTensorStruct),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
    )


_exported: dict[int, tuple[Any, ...]] = {}
"""What consumers of exported tensors still hold, by the address of the managed tensor."""


@ctypes.CFUNCTYPE(None, ctypes.c_void_p)  # consumers may call it without the GIL
def _delete_managed(address: int) -> None:
    _exported.pop(address, None)


@ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
def _delete_capsule(capsule: int) -> None:
    if _dying_name(capsule) == _CAPSULE_TENSOR:  # nobody took it
        _exported.pop(_dying_pointer(capsule, _CAPSULE_TENSOR), None)


def export(
    owner: Any,
    address: int,
    dtype: ir.DType,
    device: tuple[int, int],
    shape: Sequence[int],
    strides: Sequence[int],
) -> Any:
    """A capsule for memory that `owner` keeps alive; `strides` are in bytes."""
    packed = packed_dtype(dtype)
    if packed is None:
        raise BufferError(f"DLPack has no type for {dtype}")
    n = len(shape)
    dims = (ctypes.c_int64 * max(1, n))(*shape)
    steps = (ctypes.c_int64 * max(1, n))(*(s // dtype.itemsize for s in strides))
    managed = _Managed()
    managed.tensor = DLTensorStruct(
        address,
        packed_device(device),
        n,
        packed,
        ctypes.addressof(dims),
        ctypes.addressof(steps),
        0,
    )
    managed.deleter = ctypes.cast(_delete_managed, ctypes.c_void_p).value
    key = ctypes.addressof(managed)
    _exported[key] = (managed, dims, steps, owner)
    return _new_capsule(key, _CAPSULE_TENSOR, ctypes.cast(_delete_capsule, ctypes.c_void_p).value)
