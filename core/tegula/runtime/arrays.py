"""A minimal array on any device, so that every backend works with numpy alone.

    x = tegula.asarray(np.arange(10.0), device="acme")
    kernel[grid](x, ...)
    x.numpy()                       # on the host

Devices that work on host memory share it: there `asarray` of a numpy array makes no copy.
"""

from __future__ import annotations

import functools
import weakref
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from tegula.errors import ArgumentError
from tegula.ir import types as ir
from tegula.runtime import arguments, dlpack
from tegula.runtime.dispatch_tables import FAR_BITS

if TYPE_CHECKING:
    from tegula.plugin.select import Selection


@functools.cache
def _traits(dtype: ir.DType, device_type: int, index: int, far: bool) -> tuple[Any, ...]:
    return dtype, device_type, index, far


class DeviceArray:
    """A dense array in the memory of one device; speaks DLPack and the array interfaces."""

    __tegula_array__ = True

    def __init__(
        self,
        selection: Selection,
        dtype: ir.DType,
        shape: tuple[int, ...],
        address: int,
        strides: tuple[int, ...],
        owner: Any = None,
    ) -> None:
        self._selection = selection
        self._address = address
        self._owner = owner
        self.ir_dtype = dtype
        self.shape = shape
        self.strides = strides
        reached = selection.backend.spec.dlpack
        device_type = reached[0] if reached else dlpack.HOST
        index = 0 if device_type == dlpack.HOST else selection.id.index
        self.place = (device_type, index)
        """DLPack's (device type, index)."""
        far = prod(shape) >> FAR_BITS != 0
        self.traits = _traits(dtype, device_type, index, far)
        """What kernels are compiled for, as one object."""

    # -- what it is

    @property
    def dtype(self) -> np.dtype:
        """The numpy dtype of the elements."""
        return ir.numpy_dtype(self.ir_dtype)

    @property
    def device(self) -> str:
        """The device's name, such as `cpu:0`."""
        return str(self._selection.id)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.size * self.ir_dtype.itemsize

    @property
    def on_host(self) -> bool:
        """Whether the host reads this memory directly."""
        return self.place[0] == dlpack.HOST

    def is_contiguous(self) -> bool:
        """Whether the elements are dense, the last dimension first."""
        return self.strides == dlpack.dense_strides(self.shape, self.ir_dtype.itemsize)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of an array without dimensions")
        return self.shape[0]

    def __repr__(self) -> str:
        return f"DeviceArray(shape={self.shape}, dtype={self.dtype.name}, device='{self.device}')"

    # -- how others see it

    def data_ptr(self) -> int:
        """Address of the first element."""
        return self._address

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.place

    def __dlpack__(self, **_: Any) -> Any:
        """A DLPack capsule that keeps the memory alive; the work on it must be done (see
        `synchronize`).
        """
        return dlpack.export(
            self, self._address, self.ir_dtype, self.place, self.shape, self.strides
        )

    def _interface(self) -> dict[str, Any]:
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self._address, False),
            "strides": self.strides,
            "version": 3,
        }

    def __getattr__(self, name: str) -> Any:
        # Each interface exists only where it is true, so that hasattr() answers rightly.
        if name == "__array_interface__" and self.on_host:
            return self._interface()
        if name.startswith("__") and name == self._selection.backend.spec.interface:
            return self._selection.open().interface(self._interface())
        raise AttributeError(f"'DeviceArray' object has no attribute {name!r}")

    # -- to and from the host

    def synchronize(self) -> None:
        """Wait for launches on this array's device."""
        self._selection.open().synchronize()

    def numpy(self) -> np.ndarray:
        """The elements on the host: the same memory where the host reads it, else a copy."""
        self.synchronize()
        if self.on_host:
            return _host_view(self)
        out = np.empty(self.shape, self.dtype)
        self._selection.open().copy(out.ctypes.data, self._address, self.nbytes)
        self.synchronize()
        return out

    def copy_from(self, source: Any) -> None:
        """Overwrite the elements with those of a host array of the same shape."""
        data = np.ascontiguousarray(source, self.dtype)
        if data.shape != self.shape:
            raise ArgumentError(f"shape {data.shape} cannot be copied into shape {self.shape}")
        if self.on_host:
            self.numpy()[...] = data
            return
        self._selection.open().copy(self._address, data.ctypes.data, self.nbytes)
        self.synchronize()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        out = self.numpy()
        if dtype is not None and out.dtype != np.dtype(dtype):
            return out.astype(dtype)
        return out.copy() if copy else out


class _HostMemory:
    """Lets numpy look at an array's memory and keep the array alive."""

    def __init__(self, array: DeviceArray) -> None:
        self._array = array
        # Extension dtypes do not travel through the interface; raw bytes of the same size do.
        self.__array_interface__ = {
            **array._interface(),
            "typestr": f"|V{array.ir_dtype.itemsize}",
        }


def _host_view(array: DeviceArray) -> np.ndarray:
    if isinstance(array._owner, np.ndarray) and array._owner.shape == array.shape:
        return array._owner
    return np.asarray(_HostMemory(array)).view(array.dtype)


def _selection_for(device: Any, tensors: list[tuple[str, Any]]) -> Selection:
    from tegula.plugin.select import select_device

    return select_device(tensors, device)


def empty(shape: int | tuple[int, ...], dtype: Any = "float32", device: Any = None) -> DeviceArray:
    """An array whose elements have no particular value."""
    found = arguments.dtype_of(dtype)
    if found is None:
        raise ArgumentError(f"{dtype!r} is no dtype of kernels")
    dims = (shape,) if isinstance(shape, int) else tuple(int(n) for n in shape)
    if any(n < 0 for n in dims):
        raise ArgumentError(f"shape {dims} has a negative dimension")
    selection = _selection_for(device, [])
    opened = selection.open()
    nbytes = prod(dims) * found.itemsize
    address = opened.alloc(max(1, nbytes))
    strides = dlpack.dense_strides(dims, found.itemsize)
    array = DeviceArray(selection, found, dims, address, strides)
    weakref.finalize(array, opened.free, address)
    return array


def asarray(x: Any, device: Any = None, dtype: Any = None) -> DeviceArray:
    """`x` as an array on `device` (by default: where launches on it would run).

    Takes numpy arrays, anything numpy makes an array of, and anything that launches take. Memory is
    shared where `x` lies in memory that the device works on, and copied otherwise.
    """
    if isinstance(x, DeviceArray) and dtype is None:
        if device is None or _selection_for(device, []).id == x._selection.id:
            return x
        x = x.numpy()
    if dtype is not None or not _is_array(x):
        x = np.asarray(x, None if dtype is None else _numpy_dtype(dtype))
    described = arguments.describe("x", x)
    assert described is not None
    selection = _selection_for(device, [] if device is not None else [("x", x)])
    if _reaches(selection, described):
        return DeviceArray(
            selection, described.dtype, described.shape or (), described.address,
            described.strides or (), x,
        )  # fmt: skip
    host = np.ascontiguousarray(_to_host(x)).reshape(described.shape or ())
    out = empty(host.shape, described.dtype, selection.id)
    out.copy_from(host)
    return out


def _is_array(x: Any) -> bool:
    return not isinstance(x, int | float | list | tuple | complex | str) and (
        arguments.describe("x", x) is not None
    )


def _numpy_dtype(dtype: Any) -> np.dtype:
    found = arguments.dtype_of(dtype)
    if found is None:
        raise ArgumentError(f"{dtype!r} is no dtype of kernels")
    return ir.numpy_dtype(found)


def _reaches(selection: Selection, array: arguments.Array) -> bool:
    device = array.device
    return (
        device is not None
        and array.shape is not None
        and selection.backend.reaches(device[0])
        and (device[0] == dlpack.HOST or device[1] == selection.id.index)
    )


def _to_host(x: Any) -> np.ndarray:
    """A host copy of an array in memory that the chosen device does not reach."""
    if isinstance(x, np.ndarray):
        return x
    if hasattr(x, "numpy"):
        if hasattr(x, "detach"):
            x = x.detach()
        return np.asarray((x.cpu() if hasattr(x, "cpu") else x).numpy())
    return np.asarray(x)
