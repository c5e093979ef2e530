"""The native function that launches kernels: no Python runs between the dispatcher and SYCL."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

from tegula_xpu import sycl

ENTRY = "tegula_xpu_launch"

REFUSED, ASSERTED = 1, 2
"""Results of the launch function besides 0."""

ERROR_BYTES = 16
"""Words of the record that a failed assertion leaves: number of the message + 1, program ids."""

_POINTER = 10
_ARGUMENT_TYPES = {"i1": 1, "i8": 0, "i16": 2, "i32": 4, "i64": 6, "u8": 1, "u16": 3, "u32": 5,
                   "u64": 7, "f16": 3, "bf16": 3, "f32": 8, "f64": 9}  # fmt: skip
"""dpctl's names for types of arguments, by dtype; what has 8 bits and is not listed is a byte."""


class Handle(ctypes.Structure):
    """What `Kernel.handle` points to; `launch.ll` has the same record."""

    _fields_ = (
        ("kernel", ctypes.c_void_p),
        ("queue", ctypes.c_void_p),
        ("count", ctypes.c_int64),
        ("threads", ctypes.c_int64),
        ("types", ctypes.c_void_p),
        ("error", ctypes.c_void_p),
    )


def argument_type(param: str) -> int:
    """dpctl's number for the type of a parameter, given as the IR writes it."""
    return _POINTER if param.startswith("ptr") else _ARGUMENT_TYPES.get(param, 1)


@cache
def native() -> tuple[Any, int]:
    """What keeps the launch function loaded, and its address."""
    from tegula.runtime.native import load

    called = [
        "DPCTLQueue_SubmitNDRange", "DPCTLQueue_SubmitBarrier", "DPCTLQueue_IsInOrder",
        "DPCTLEvent_Wait", "DPCTLEvent_Delete",
    ]  # fmt: skip
    library = load(ENTRY, TEXT, [ENTRY], {name: sycl.address_of(name) for name in called})
    return library, library[ENTRY]


TEXT = f"""
%Handle = type {{ ptr, ptr, i64, i64, ptr, ptr }}

declare ptr @DPCTLQueue_SubmitNDRange(ptr, ptr, ptr, ptr, i64, ptr, ptr, i64, ptr, i64)
declare ptr @DPCTLQueue_SubmitBarrier(ptr)
declare zeroext i1 @DPCTLQueue_IsInOrder(ptr)
declare void @DPCTLEvent_Wait(ptr)
declare void @DPCTLEvent_Delete(ptr)

; Work on a queue that runs commands in any order waits for all before it and holds up all after it.
define internal void @fence(ptr %queue) {{
  %e = call ptr @DPCTLQueue_SubmitBarrier(ptr %queue)
  %none = icmp eq ptr %e, null
  br i1 %none, label %end, label %drop
drop:
  call void @DPCTLEvent_Delete(ptr %e)
  br label %end
end:
  ret void
}}

define i32 @{ENTRY}(ptr %handle, ptr %slots, i64 %n, i32 %gx, i32 %gy, i32 %gz, ptr %stream) {{
entry:
  %grid = alloca [3 x i64]
  %group = alloca [3 x i64]
  %some.1 = icmp sgt i32 %gx, 0
  %some.2 = icmp sgt i32 %gy, 0
  %some.3 = icmp sgt i32 %gz, 0
  %some.4 = and i1 %some.1, %some.2
  %some = and i1 %some.4, %some.3
  br i1 %some, label %begin, label %nothing
nothing:
  ret i32 0
begin:
  %kernel = load ptr, ptr %handle
  %queue.p = getelementptr %Handle, ptr %handle, i64 0, i32 1
  %own = load ptr, ptr %queue.p
  %foreign = icmp ne ptr %stream, null
  %queue = select i1 %foreign, ptr %stream, ptr %own
  %threads.p = getelementptr %Handle, ptr %handle, i64 0, i32 3
  %threads = load i64, ptr %threads.p
  %types.p = getelementptr %Handle, ptr %handle, i64 0, i32 4
  %types = load ptr, ptr %types.p
  %error.p = getelementptr %Handle, ptr %handle, i64 0, i32 5
  %error = load ptr, ptr %error.p
  %room = add i64 %n, 1
  %args = alloca ptr, i64 %room
  %empty = icmp eq i64 %n, 0
  br i1 %empty, label %packed, label %pack
pack:
  %i = phi i64 [ 0, %begin ], [ %i.next, %pack ]
  %slot = getelementptr i64, ptr %slots, i64 %i
  %pointer = load ptr, ptr %slot
  %type.p = getelementptr i32, ptr %types, i64 %i
  %type = load i32, ptr %type.p
  %is.pointer = icmp eq i32 %type, {_POINTER}
  %arg = select i1 %is.pointer, ptr %pointer, ptr %slot
  %arg.p = getelementptr ptr, ptr %args, i64 %i
  store ptr %arg, ptr %arg.p
  %i.next = add i64 %i, 1
  %more = icmp ult i64 %i.next, %n
  br i1 %more, label %pack, label %packed
packed:
  %last.p = getelementptr ptr, ptr %args, i64 %n
  store ptr %error, ptr %last.p
  %checks = icmp ne ptr %error, null
  %count = select i1 %checks, i64 %room, i64 %n
  ; the last dimension is the one that OpenCL counts first
  %x = zext i32 %gx to i64
  %y = zext i32 %gy to i64
  %z = zext i32 %gz to i64
  %wide = mul i64 %x, %threads
  store i64 %z, ptr %grid
  %grid.1 = getelementptr i64, ptr %grid, i64 1
  store i64 %y, ptr %grid.1
  %grid.2 = getelementptr i64, ptr %grid, i64 2
  store i64 %wide, ptr %grid.2
  store i64 1, ptr %group
  %group.1 = getelementptr i64, ptr %group, i64 1
  store i64 1, ptr %group.1
  %group.2 = getelementptr i64, ptr %group, i64 2
  store i64 %threads, ptr %group.2
  br i1 %foreign, label %ask, label %go
ask:
  %ordered = call zeroext i1 @DPCTLQueue_IsInOrder(ptr %queue)
  br i1 %ordered, label %go, label %before
before:
  call void @fence(ptr %queue)
  br label %go
go:
  %fenced = phi i1 [ false, %packed ], [ false, %ask ], [ true, %before ]
  %event = call ptr @DPCTLQueue_SubmitNDRange(
    ptr %kernel, ptr %queue, ptr %args, ptr %types, i64 %count, ptr %grid, ptr %group, i64 3,
    ptr null, i64 0)
  %refused = icmp eq ptr %event, null
  br i1 %refused, label %bad, label %after
bad:
  ret i32 {REFUSED}
after:
  br i1 %fenced, label %fence.after, label %check
fence.after:
  call void @fence(ptr %queue)
  br label %check
check:
  br i1 %checks, label %wait, label %done
wait:
  call void @DPCTLEvent_Wait(ptr %event)
  %failed = load volatile i32, ptr %error
  %fine = icmp eq i32 %failed, 0
  br label %done
done:
  %ok = phi i1 [ true, %check ], [ %fine, %wait ]
  call void @DPCTLEvent_Delete(ptr %event)
  %code = select i1 %ok, i32 0, i32 {ASSERTED}
  ret i32 %code
}}
"""
"""LLVM IR for the host; `%Handle` is `Handle`."""
