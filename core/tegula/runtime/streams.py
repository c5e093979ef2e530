"""Native functions that ask a Python function for a library's current stream, for launches in which
no other Python runs.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache

from tegula.runtime import native

_PYTHON = (
    "PyLong_FromLong", "PyLong_AsVoidPtr", "PyObject_Vectorcall", "PyErr_Occurred", "Py_DecRef",
)  # fmt: skip


def asking(ask: Callable[[int], int]) -> int:
    """The address of a function such as `Device.stream_function` gives: it calls `ask` with the
    number of the device. `ask` is kept for ever, as native code is.
    """
    return _linked(ask)[_ENTRY]


_ENTRY = "tegula_stream"


@cache
def _linked(ask: Callable[[int], int]) -> native.Library:
    library = native.load(_ENTRY, TEXT, (_ENTRY, "ask"), native.python_functions(_PYTHON))
    ctypes.c_void_p.from_address(library["ask"]).value = id(ask)  # which the cache keeps
    return library


TEXT = """\
declare ptr @PyLong_FromLong(i64)
declare ptr @PyLong_AsVoidPtr(ptr)
declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)
declare ptr @PyErr_Occurred()
declare void @Py_DecRef(ptr)

@ask = global ptr null

define i32 @tegula_stream(i32 %type, i32 %index, ptr %out) {
entry:
  %argument = alloca ptr
  %index.i = sext i32 %index to i64
  %number = call ptr @PyLong_FromLong(i64 %index.i)
  %none = icmp eq ptr %number, null
  br i1 %none, label %bad, label %call
call:
  store ptr %number, ptr %argument
  %function = load ptr, ptr @ask
  %answer = call ptr @PyObject_Vectorcall(ptr %function, ptr %argument, i64 1, ptr null)
  call void @Py_DecRef(ptr %number)
  %raised = icmp eq ptr %answer, null
  br i1 %raised, label %bad, label %read
read:
  %stream = call ptr @PyLong_AsVoidPtr(ptr %answer)
  call void @Py_DecRef(ptr %answer)
  store ptr %stream, ptr %out
  %zero = icmp eq ptr %stream, null
  br i1 %zero, label %check, label %good
check:
  %error = call ptr @PyErr_Occurred()
  %clean = icmp eq ptr %error, null
  br i1 %clean, label %good, label %bad
good:
  ret i32 0
bad:
  ret i32 -1
}
"""
