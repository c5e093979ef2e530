"""Turns a (kernel, grid) pair into a native callable.

`launcher(table, grid, slow)` makes a built-in function object; calling it runs the dispatcher of
`dispatch_code` over the kernel's table and, where nothing bound fits, `slow(*args, **kwargs)`.
`available()` says whether this interpreter can: it needs llvmlite, a 64-bit little-endian build
with a GIL, and the object layout the dispatcher was written for.
"""

from __future__ import annotations

import ctypes
import struct
import sys
import threading
from typing import TYPE_CHECKING, Any

from tegula.config import OVERRIDES, config
from tegula.runtime import dispatch_tables as tables

if TYPE_CHECKING:
    from collections.abc import Callable

METH_FASTCALL_KEYWORDS = 0x0080 | 0x0002
METH_O = 0x0008
_NEW_FUNCTION = ctypes.PYFUNCTYPE(
    ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p
)
_NEW_METHOD = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object, ctypes.c_void_p)

_lock = threading.Lock()
_native: _Native | None = None
_unavailable: str | None = None


class _MethodDef(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


class _Native:
    """The loaded dispatcher and the process-wide state it compares launches with.

    Its object code comes from the disk cache where it is there.
    """

    def __init__(self) -> None:
        from tegula.runtime import native
        from tegula.runtime.dispatch_code import (
            ENTRY_POINT,
            PYTHON_FUNCTIONS,
            SHARED,
            SUBSCRIPT,
            dispatcher_text,
        )

        names = ("data_ptr", "is_contiguous", "nbytes", "_raise_failure", "is_neg", "_bound",
                 "_launcher")  # fmt: skip
        self.names = tuple(map(sys.intern, names))
        objects = (OVERRIDES, *self.names, tuple, int)
        self.shared = tables.SharedStruct(0, *map(id, objects))
        needed = native.python_functions(PYTHON_FUNCTIONS)
        needed[SHARED] = ctypes.addressof(self.shared)
        exports = ENTRY_POINT, SUBSCRIPT
        self.library = native.load("dispatcher", dispatcher_text(), exports, needed)
        self.method = _MethodDef(
            b"launch", self.library[ENTRY_POINT], METH_FASTCALL_KEYWORDS,
            b"Launch a kernel on a fixed grid.",
        )  # fmt: skip
        self.subscript = _MethodDef(
            b"__getitem__", self.library[SUBSCRIPT], METH_O, b"The launcher for a grid."
        )
        self.new_function = _NEW_FUNCTION(("PyCFunction_NewEx", ctypes.pythonapi))
        self.new_method = _NEW_METHOD(("PyDescr_NewMethod", ctypes.pythonapi))
        config.on_change(self.invalidate)

    def invalidate(self) -> None:
        """Make every bound variant stale; the next launch of each looks at the settings again."""
        self.shared.generation += 1


def _check_interpreter() -> str | None:
    """Why the dispatcher cannot work here, or None."""
    if sys.implementation.name != "cpython":
        return f"{sys.implementation.name} is not CPython"
    if struct.calcsize("P") != 8 or sys.byteorder != "little":
        return "it needs a 64-bit little-endian build"
    if not getattr(sys, "_is_gil_enabled", lambda: True)() or "t" in getattr(sys, "abiflags", ""):
        return "it relies on the GIL"
    if hasattr(sys, "getobjects"):
        return "this is a tracing build of CPython"
    sample = 1.5
    if ctypes.c_double.from_address(id(sample) + 16).value != sample:
        return "objects are laid out in another way than expected"
    return None


def check_numpy_layout() -> bool:
    """Whether numpy's arrays have their fields where the dispatcher reads them."""
    import numpy as np

    a = np.zeros((3, 5), np.float32)[:, 1:4]
    base = id(a)
    pointer = ctypes.c_void_p.from_address
    flags = a.flags.num
    return (
        pointer(base + 8).value == id(np.ndarray)
        and pointer(base + 16).value == a.ctypes.data
        and ctypes.c_int.from_address(base + 24).value == 2
        and (ctypes.c_int64 * 2).from_address(pointer(base + 32).value or 0)[:] == [3, 3]
        and (ctypes.c_int64 * 2).from_address(pointer(base + 40).value or 0)[:] == [20, 4]
        and pointer(base + 56).value == id(a.dtype)
        and ctypes.c_int.from_address(base + 64).value == flags
        and ctypes.c_int.from_address(id(a.dtype) + 28).value == a.dtype.num
        and ctypes.c_char.from_address(id(a.dtype) + 26).value == a.dtype.byteorder.encode()
        and ctypes.c_int64.from_address(id(np.int64(77)) + 16).value == 77
    )


def native() -> _Native | None:
    """The dispatcher, loaded on first use; None where it cannot work (see `why_not`)."""
    global _native, _unavailable
    if _native is None and _unavailable is None:
        with _lock:
            if _native is None and _unavailable is None:
                _unavailable = _check_interpreter()
                if _unavailable is None:
                    try:
                        _native = _Native()
                    except (ImportError, OSError, RuntimeError, AttributeError) as error:
                        _unavailable = f"{type(error).__name__}: {error}"
    return _native


def why_not() -> str:
    """The reason why launches take the Python path here; empty where they do not."""
    native()
    return _unavailable or ""


def generation() -> int:
    """Number that changes whenever bound launches have to be looked at again."""
    return _native.shared.generation if _native is not None else 0


def launcher(
    table: tables.Table, grid: tuple[int, int, int], slow: Callable[..., Any]
) -> Callable[..., Any]:
    """A built-in function that launches on `grid` the variant of `table` that fits."""
    n = native()
    assert n is not None
    record = bytes(tables.RecordStruct(table.address, *grid, 0))
    function: Callable[..., Any] = n.new_function(
        ctypes.addressof(n.method), (record, table, slow), None
    )
    return function


def quicken(owner: Any) -> None:
    """Have a class of kernels find the launchers of grids natively."""
    n = native()
    assert n is not None
    if owner.__dict__["__getitem__"] is owner.__dict__["_launcher"]:
        owner.__getitem__ = n.new_method(owner, ctypes.addressof(n.subscript))


def new_table() -> tables.Table:
    """An empty table for one kernel."""
    n = native()
    assert n is not None
    return tables.Table(n.shared)
