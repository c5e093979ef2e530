"""A native function that describes a torch tensor as DLPack's exchange function does, several times
as fast: it reads what a launch looks at through the C functions of torch's stable interface for
compiled code (`torch/csrc/inductor/aoti_torch/c/shim.h`).

These take the address of the C++ tensor, which stands in the Python object. Where it stands, the
tensor itself says (`_cdata`); and no tensor's kind is trusted before both functions agree about one
of it. Whatever has another kind of device or element goes to the exchange function.
"""

from __future__ import annotations

import ctypes
import sys
from functools import cache
from pathlib import Path
from typing import Any

from tegula.ir import types as ir
from tegula.runtime import dlpack, native
from tegula.runtime.dispatch_tables import DLTensorStruct

_ENTRY = "tegula_torch_tensor"
_FALLBACK = "tegula_torch_exchange"
_SHIMS = ("data_ptr", "dtype", "device_type", "device_index", "dim", "sizes", "strides", "layout")

_SCALAR_TYPES = {
    0: ir.u8, 1: ir.i8, 2: ir.i16, 3: ir.i32, 4: ir.i64, 5: ir.f16, 6: ir.f32, 7: ir.f64,
    11: ir.i1, 15: ir.bf16, 23: ir.f8e5, 24: ir.f8e4nv, 25: ir.f8e5b16, 26: ir.f8e4b8, 27: ir.u16,
    28: ir.u32, 29: ir.u64,
}  # fmt: skip
"""torch's numbers of element types."""
_DEVICES = {0: 1, 1: 2, 12: 14}
"""torch's numbers of kinds of devices to DLPack's, the host first. Where torch has two makers'
devices under one number, DLPack has two, which `agreeing` sees."""

_PLACES = (16, 24)
"""Bytes before the C++ tensor in the Python object; in front of the latter stands a flag that is 0
where the object has a tensor of its own."""


_agreed: dict[tuple[Any, ...], int] = {}


def agreeing(tensor: Any, exchange: dlpack.Exchange, view: dlpack.TensorView) -> int:
    """The address of the function, if it says of a tensor what its exchange function says, which is
    `view`; else that of the exchange function. Tensors of one type, element type and device are
    alike.
    """
    key = (type(tensor), exchange.tensor_of, view.dtype, view.device)
    found = _agreed.get(key)
    if found is None:
        address = _function(tensor, exchange)
        agrees = address and exchange.told(address, tensor).fields() == view.fields()
        found = _agreed[key] = address if agrees else exchange.tensor_of
    return found


def _function(tensor: Any, exchange: dlpack.Exchange) -> int:
    if type(tensor).__module__.partition(".")[0] != "torch" or "torch" not in sys.modules:
        return 0
    place = _place_of(tensor)
    library = None if place is None else _linked(place, exchange.tensor_of)
    return 0 if library is None else library[_ENTRY]


def _place_of(tensor: Any) -> int | None:
    known = getattr(tensor, "_cdata", 0)
    at = id(tensor)
    found = [p for p in _PLACES if known and ctypes.c_size_t.from_address(at + p).value == known]
    return found[0] if len(found) == 1 else None


@cache
def _linked(place: int, exchange: int) -> native.Library | None:
    """The function for a layout of tensor objects; None where torch lacks what it needs."""
    root = Path(sys.modules["torch"].__file__ or "").parent / "lib"
    names = {"win32": "torch_cpu.dll", "darwin": "libtorch_cpu.dylib"}
    try:
        torch = ctypes.CDLL(str(root / names.get(sys.platform, "libtorch_cpu.so")))
        imports = native.functions_of(torch, (f"aoti_torch_get_{name}" for name in _SHIMS))
    except (OSError, AttributeError):
        return None
    return native.load(_ENTRY, _text(place), (_ENTRY,), {**imports, _FALLBACK: exchange})


def _text(place: int) -> str:
    dtypes = [0] * (max(_SCALAR_TYPES) + 1)
    for number, dtype in _SCALAR_TYPES.items():
        dtypes[number] = dlpack.packed_dtype(dtype) or 0
    values = ", ".join(f"i32 {n}" for n in dtypes)
    kinds = "\n".join(f"    i32 {ours}, label %kind.{theirs}" for ours, theirs in _DEVICES.items())
    cases = "".join(f"kind.{n}:\n  br label %index\n" for n in _DEVICES.values())
    chosen = ", ".join(f"[{n}, %kind.{n}]" for n in _DEVICES.values())
    text = TEXT.replace("$KINDS$", kinds).replace("$CASES$", cases).replace("$CHOSEN$", chosen)
    text = text.replace("$COUNT$", str(len(dtypes))).replace("$DTYPES$", values)
    own = "" if place == _PLACES[0] else _OWN
    text = text.replace("$OWN$", own)
    return native.with_fields(text.replace("$PLACE$", str(place)), {"dl": DLTensorStruct})


_OWN = """\
  %flag.p = getelementptr i8, ptr %object, i64 16
  %flag = load i8, ptr %flag.p
  %is.own = icmp eq i8 %flag, 0
  br i1 %is.own, label %own, label %other
own:
"""

TEXT = """\
declare i32 @aoti_torch_get_data_ptr(ptr, ptr)
declare i32 @aoti_torch_get_dtype(ptr, ptr)
declare i32 @aoti_torch_get_device_type(ptr, ptr)
declare i32 @aoti_torch_get_device_index(ptr, ptr)
declare i32 @aoti_torch_get_dim(ptr, ptr)
declare i32 @aoti_torch_get_sizes(ptr, ptr)
declare i32 @aoti_torch_get_strides(ptr, ptr)
declare i32 @aoti_torch_get_layout(ptr, ptr)
declare i32 @tegula_torch_exchange(ptr, ptr)

@dtypes = internal constant [$COUNT$ x i32] [$DTYPES$]

define i32 @tegula_torch_tensor(ptr %object, ptr %dl) {
entry:
  %number = alloca i32
  %many = alloca i64
$OWN$  %tensor = getelementptr i8, ptr %object, i64 $PLACE$
  %kind.rc = call i32 @aoti_torch_get_device_type(ptr %tensor, ptr %number)
  %kind = load i32, ptr %number
  switch i32 %kind, label %other [
$KINDS$
  ]
$CASES$index:
  %type = phi i64 $CHOSEN$
  %index.rc = call i32 @aoti_torch_get_device_index(ptr %tensor, ptr %number)
  %index.32 = load i32, ptr %number
  %index.some = icmp sgt i32 %index.32, 0
  %index.least = select i1 %index.some, i32 %index.32, i32 0
  %index.64 = zext i32 %index.least to i64
  %index.high = shl i64 %index.64, 32
  %device = or i64 %index.high, %type
  store i64 %device, ptr %dl->device
  %dtype.rc = call i32 @aoti_torch_get_dtype(ptr %tensor, ptr %number)
  %scalar = load i32, ptr %number
  %known = icmp ult i32 %scalar, $COUNT$
  br i1 %known, label %dtype, label %other
dtype:
  %packed.p = getelementptr i32, ptr @dtypes, i32 %scalar
  %packed = load i32, ptr %packed.p
  store i32 %packed, ptr %dl->dtype
  %none = icmp eq i32 %packed, 0
  br i1 %none, label %other, label %layout
layout: ; a layout of a library's own has an address here, but elements in an order of its own
  %layout.rc = call i32 @aoti_torch_get_layout(ptr %tensor, ptr %number)
  %arranged = load i32, ptr %number
  %strided = icmp eq i32 %arranged, 0
  br i1 %strided, label %memory, label %other
memory:
  %data.rc = call i32 @aoti_torch_get_data_ptr(ptr %tensor, ptr %dl->data)
  %dim.rc = call i32 @aoti_torch_get_dim(ptr %tensor, ptr %many)
  %dim = load i64, ptr %many
  %dim.32 = trunc i64 %dim to i32
  store i32 %dim.32, ptr %dl->ndim
  %sizes.rc = call i32 @aoti_torch_get_sizes(ptr %tensor, ptr %dl->shape)
  %strides.rc = call i32 @aoti_torch_get_strides(ptr %tensor, ptr %dl->strides)
  store i64 0, ptr %dl->byte_offset
  %rc.1 = or i32 %kind.rc, %index.rc
  %rc.2 = or i32 %rc.1, %dtype.rc
  %rc.3 = or i32 %rc.2, %data.rc
  %rc.4 = or i32 %rc.3, %dim.rc
  %rc.5 = or i32 %rc.4, %sizes.rc
  %rc.6 = or i32 %rc.5, %strides.rc
  %rc = or i32 %rc.6, %layout.rc
  %fine = icmp eq i32 %rc, 0
  br i1 %fine, label %done, label %other
done:
  ret i32 0
other:
  %answer = call i32 @tegula_torch_exchange(ptr %object, ptr %dl)
  ret i32 %answer
}
"""
