"""What a launch argument is: arrays of every library reduced to one record, scalars to type and
value.

`describe` recognises arrays by what they offer, never by a library's name: numpy's own arrays,
DLPack's exchange functions, `data_ptr()` and `dtype`, array interfaces, and `__dlpack__`. The
record also says how the native dispatcher can check and read the next array of the same kind, where
it can.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

from tegula.errors import ArgumentError, ArgumentValueError, nearest
from tegula.ir import types as ir
from tegula.runtime import dlpack, torch_tensors
from tegula.runtime.dispatch import check_numpy_layout
from tegula.runtime.dispatch_checks import (
    NUMPY_DESCR_KIND,
    NUMPY_DESCR_MASK,
    NUMPY_FLAGS_MASK,
)
from tegula.runtime.dispatch_tables import FAR_BITS, Entry, Flag, Kind

_NUMPY_KINDS = {"i": "i", "u": "u", "f": "f"}
_NUMPY_NAMES: dict[str, ir.DType] = {
    "bfloat16": ir.bf16, "float8_e5m2": ir.f8e5, "float8_e5m2fnuz": ir.f8e5b16,
    "float8_e4m3fn": ir.f8e4nv, "float8_e4m3fnuz": ir.f8e4b8,
    "bool": ir.i1,
}  # fmt: skip
"""Names that numpy's plain kinds do not cover, in the spelling of numpy, ml_dtypes and array
libraries.
"""

_layout_known: bool | None = None


def numpy_layout_known() -> bool:
    """Whether the dispatcher may read numpy's arrays directly; looked at once."""
    global _layout_known
    if _layout_known is None:
        _layout_known = check_numpy_layout()
    return _layout_known


@functools.lru_cache(maxsize=256)
def dtype_of_numpy(dtype: np.dtype) -> ir.DType | None:
    """The IR's dtype for a native-order numpy dtype; None if kernels have no such type."""
    if dtype.name in _NUMPY_NAMES:  # first, because float8_e5m2 is of kind "f"
        return _NUMPY_NAMES[dtype.name]
    if dtype.kind in _NUMPY_KINDS and not dtype.hasobject:
        return ir.DTYPES.get(f"{dtype.kind}{8 * dtype.itemsize}")
    return None


def dtype_of(dtype: Any) -> ir.DType | None:
    """The IR's dtype for any library's dtype object or name; None if there is none."""
    inner = getattr(dtype, "ir", dtype)
    if isinstance(inner, ir.DType):
        return inner
    if isinstance(inner, np.dtype):
        return dtype_of_numpy(inner)
    if isinstance(dtype, type):
        return dtype_of_numpy(np.dtype(dtype)) if issubclass(dtype, np.generic) else None
    text = str(dtype).rsplit(".", 1)[-1]
    if text in _NUMPY_NAMES:
        return _NUMPY_NAMES[text]
    if text in ir.DTYPES:
        return ir.DTYPES[text]
    try:
        return dtype_of_numpy(np.dtype(text))
    except TypeError:
        pass
    from tegula.language.dtypes import parse_type

    try:
        parsed = parse_type(text)
    except ValueError:
        return None
    return parsed if isinstance(parsed, ir.DType) else None


@dataclass(slots=True)
class Array:
    """One array argument: where its elements are and what is known about them."""

    name: str
    value: Any
    dtype: ir.DType
    address: int
    device: tuple[int, int] | None
    """DLPack's (type, index); None where the object does not say."""
    readonly: bool
    shape: tuple[int, ...] | None
    strides: tuple[int, ...] | None
    """In bytes. None, with `shape`: the extent is unknown."""
    entry: Entry | None = None
    """How the dispatcher reads the next one like this; None: it cannot."""
    checks: tuple[Entry, ...] = ()
    """Further checks that belong to `entry`."""
    keep: Any = None
    exchange: dlpack.Exchange | None = None

    def check_memory(self) -> None:
        """Raise if there is no memory behind the array's elements."""
        if self.address == 0 and (self.shape is None or 0 not in self.shape):
            raise ArgumentValueError(
                f"argument '{self.name}' ({type(self.value).__name__}) has elements and no memory: "
                "its address is null"
            )

    @property
    def extent_is_native(self) -> bool:
        """Whether the dispatcher, if it takes the array, can learn its extent."""
        if self.entry is None or self.entry.kind is not Kind.DATA_PTR:
            return True
        dense = getattr(self.value, "is_contiguous", None)
        return hasattr(self.value, "nbytes") and dense is not None and bool(dense())

    @property
    def is_far(self) -> bool:
        """Whether offsets into the array may leave int32, as far as its kind of array tells."""
        if hasattr(self.value, "__tegula_array__"):
            return bool(self.value.traits[-1])
        if self.entry is not None and self.entry.kind is Kind.DATA_PTR:
            return False  # the dispatcher could not tell such an array from a smaller one
        extent = self.extent()
        return extent is not None and extent[1] - extent[0] > self.dtype.itemsize << FAR_BITS

    def extent(self) -> tuple[int, int] | None:
        """First byte, and first byte after; None if unknown."""
        if self.shape is None or self.strides is None:
            return None
        if 0 in self.shape:
            return self.address, self.address
        spans = [(n - 1) * s for n, s in zip(self.shape, self.strides)]
        low = self.address + sum(s for s in spans if s < 0)
        return low, self.address + sum(s for s in spans if s > 0) + self.dtype.itemsize


class Located:
    """Stands for an array without DLPack where a device is chosen by where arrays live."""

    def __init__(self, array: Array) -> None:
        self._device = array.device
        self.device = dlpack.DEVICE_NAMES.get((array.device or (0, 0))[0], "?")

    def __dlpack_device__(self) -> tuple[int, int] | None:
        return self._device


def describe(name: str, value: Any) -> Array | None:
    """The array behind an argument; None if the argument is no array."""
    if isinstance(value, np.ndarray):
        return _of_numpy(name, value)
    kind = type(value)
    if hasattr(kind, "__tegula_array__"):
        return _of_own(name, value)
    exchange = _exchange_of(kind)  # type: ignore[arg-type]
    if exchange is not None:
        return _of_exchange(name, value, exchange)
    if hasattr(value, "data_ptr") and hasattr(value, "dtype"):
        return _of_data_ptr(name, value)
    if isinstance(value, _NO_ARRAYS):
        return None
    if hasattr(value, "__array_interface__"):
        return _of_interface(name, value, value.__array_interface__)
    array = _of_declared_interface(name, value)
    if array is None and hasattr(kind, "__dlpack__"):
        return _of_dlpack(name, value)
    return array


@functools.lru_cache(maxsize=64)
def _exchange_of(kind: type) -> dlpack.Exchange | None:
    return dlpack.Exchange.of(kind)


# -------------------------------------------------------------------------------------------------
# One function per way of handing out memory


def _of_numpy(name: str, array: np.ndarray) -> Array:
    dtype = dtype_of_numpy(array.dtype)
    if dtype is None:
        raise ArgumentError(
            f"argument '{name}' is a numpy array of dtype {array.dtype}, which kernels do not "
            "have; use a float, integer or bool dtype"
        )
    if not array.dtype.isnative:
        raise ArgumentError(
            f"argument '{name}' has dtype {array.dtype.str} in foreign byte order; "
            f"convert it with {name}.astype({array.dtype.newbyteorder('=').name!r})"
        )
    flags = array.flags
    if not flags.aligned:
        raise ArgumentError(
            f"argument '{name}' is misaligned: its elements do not lie at multiples of their size; "
            f"pass {name}.copy()"
        )
    entry = None
    if numpy_layout_known():
        entry = Entry(
            Kind.NUMPY,
            type=type(array),
            low=_descr_signature(array.dtype),
            high=flags.num & NUMPY_FLAGS_MASK,
            width=dtype.itemsize,
        )
    return Array(
        name, array, dtype, _numpy_address(array), (dlpack.HOST, 0), not flags.writeable,
        array.shape, array.strides, entry,
    )  # fmt: skip


def _numpy_address(array: np.ndarray) -> int:
    if numpy_layout_known():
        return ctypes.c_size_t.from_address(id(array) + 16).value
    return int(array.ctypes.data)


def _descr_signature(dtype: np.dtype) -> int:
    raw = ctypes.c_uint64.from_address(id(dtype) + NUMPY_DESCR_KIND).value & NUMPY_DESCR_MASK
    return raw - (1 << 64) if raw >> 63 else raw


def _refuse_negated(name: str, value: Any) -> int:
    """Flags for arrays of a library that has views of negated memory; an error for such a view."""
    ask = getattr(value, "is_neg", None)
    if ask is None:
        return 0
    if _attempt(name, value, ask):
        raise ArgumentValueError(
            f"argument '{name}' ({type(value).__name__}) is a view whose memory holds the negated "
            f"values, as the imaginary part of a conjugate is; pass {name}.resolve_neg()"
        )
    return int(Flag.NEGATABLE)


def _of_exchange(name: str, tensor: Any, exchange: dlpack.Exchange) -> Array:
    flags = _refuse_negated(name, tensor)
    view = _attempt(name, tensor, lambda: exchange.view(tensor))
    dtype = _checked(name, tensor, view.dtype, getattr(tensor, "dtype", view.dtype_text))
    entry = Entry(
        Kind.DLPACK,
        type=type(tensor),
        low=dlpack.packed_dtype(dtype) or 0,
        high=dlpack.packed_device(view.device),
        pointer=torch_tensors.agreeing(tensor, exchange, view),
        width=dtype.itemsize,
        flags=flags,
    )
    return Array(
        name, tensor, dtype, view.address, view.device, False,
        view.shape, view.strides, entry, exchange=exchange,
    )  # fmt: skip


def _of_own(name: str, array: Any) -> Array:
    return Array(
        name, array, array.ir_dtype, array.data_ptr(), array.__dlpack_device__(), False,
        array.shape, array.strides, *_data_ptr_entries(array, (("traits", array.traits),)),
    )  # fmt: skip


def _of_data_ptr(name: str, value: Any) -> Array:
    flags = _refuse_negated(name, value)
    address = _attempt(name, value, value.data_ptr)
    if not isinstance(address, int):
        raise ArgumentError(
            f"data_ptr() of argument '{name}' gives {type(address).__name__}, not an int"
        )
    dtype = _checked(name, value, dtype_of(value.dtype), value.dtype)
    shape, strides = _shape_of(value, dtype)
    device = _device_of(value)
    checks = [("dtype", value.dtype)]
    if device is not None and hasattr(value, "device"):
        checks.append(("device", value.device))
    entries = _data_ptr_entries(value, checks)
    entries[0].flags |= flags
    return Array(name, value, dtype, address, device, False, shape, strides, *entries)


def _data_ptr_entries(value: Any, checks: Any) -> tuple[Entry, tuple[Entry, ...]]:
    attributes = tuple(
        Entry(
            Kind.ATTRIBUTE, object=_one_of_a_kind(expected), has_object=True,
            pointer=sys.intern(attribute),
        )
        for attribute, expected in checks
    )  # fmt: skip
    return Entry(Kind.DATA_PTR, type=type(value)), attributes


_known: dict[Any, Any] = {}


def _one_of_a_kind(value: Any) -> Any:
    """The first object seen that equals this one, so that equal checks are recognised as equal."""
    try:
        return _known.setdefault((type(value), value), value)
    except TypeError:
        return value


def _shape_of(value: Any, dtype: ir.DType) -> tuple[Any, Any]:
    """Shape and byte strides of a tensor-like object; (None, None) if it does not give both."""
    try:
        shape = tuple(int(n) for n in value.shape)
        stride = value.stride() if callable(getattr(value, "stride", None)) else None
        if stride is None:
            return None, None
        return shape, tuple(int(s) * dtype.itemsize for s in stride)
    except (AttributeError, TypeError, ValueError):
        return None, None


_TYPE_OF_DEVICE_NAME = {name: number for number, name in dlpack.DEVICE_NAMES.items()}
_TYPE_OF_DEVICE_NAME["xpu"] = 14
_TYPE_OF_DEVICE_NAME["hip"] = 10


def _device_of(value: Any) -> tuple[int, int] | None:
    ask = getattr(value, "__dlpack_device__", None)
    if ask is not None:
        kind, index = ask()
        return int(kind), int(index)
    device = getattr(value, "device", None)
    kind = getattr(device, "type", device)
    if isinstance(kind, str):
        name, _, index = kind.partition(":")
        number = _TYPE_OF_DEVICE_NAME.get(name)
        if number is not None:
            given = None if isinstance(device, str) else getattr(device, "index", None)
            return number, int(given or index or 0)
    return None


def _of_interface(name: str, value: Any, interface: Any) -> Array:
    try:
        numpy_dtype = np.dtype(interface["typestr"])
        address, readonly = interface["data"] or (0, False)
        shape = tuple(interface["shape"])
        strides = interface.get("strides") or dlpack.dense_strides(shape, numpy_dtype.itemsize)
    except (KeyError, TypeError, ValueError) as error:
        raise ArgumentError(
            f"argument '{name}' ({type(value).__name__}) has a malformed array interface: {error}"
        ) from None
    if not numpy_dtype.isnative:
        raise ArgumentError(f"argument '{name}' has dtype {numpy_dtype.str} in foreign byte order")
    dtype = _checked(name, value, dtype_of_numpy(numpy_dtype), numpy_dtype)
    return Array(
        name, value, dtype, int(address), (dlpack.HOST, 0), bool(readonly), shape, tuple(strides),
        keep=interface,
    )  # fmt: skip


def _of_declared_interface(name: str, value: Any) -> Array | None:
    """An array by a protocol that a backend declares."""
    from tegula.plugin.registry import registry

    for backend in registry.usable():
        attribute = backend.spec.interface
        if attribute and backend.spec.dlpack and hasattr(value, attribute):
            read = functools.partial(backend.driver.describe, value)
            index, interface = _attempt(name, value, read)
            array = _of_interface(name, value, interface)
            array.device = (backend.spec.dlpack[0], index)
            return array
    return None


_NO_ARRAYS = (str, bytes, bool, int, float, complex, tuple, list, dict, type, np.dtype, type(None))


def _of_dlpack(name: str, value: Any) -> Array:
    view, keep = _attempt(name, value, lambda: dlpack.view(value))
    dtype = _checked(name, value, view.dtype, view.dtype_text)
    return Array(
        name, value, dtype, view.address, view.device, False, view.shape, view.strides, keep=keep
    )


def _attempt(name: str, value: Any, read: Any) -> Any:
    try:
        return read()
    except Exception as error:
        raise ArgumentValueError(
            f"argument '{name}' ({type(value).__name__}) does not hand out its memory: "
            f"{str(error).partition(chr(10))[0]}"
        ) from error


def _checked(name: str, value: Any, dtype: ir.DType | None, given: Any) -> ir.DType:
    if dtype is None:
        raise ArgumentError(
            f"argument '{name}' ({type(value).__name__}) has dtype {given}, which kernels do not "
            f"have{nearest(str(given).rsplit('.', 1)[-1], ir.DTYPES)}"
        )
    return dtype
