"""The native launch dispatcher, as LLVM IR.

`dispatcher_text()` is one function with CPython's METH_FASTCALL | METH_KEYWORDS signature that every bound launcher
shares. It walks the kernel's `Table` (see `dispatch_tables`): for each variant it checks the shape of the call and then
entry by entry types, dtypes, alignment, value classes, devices and constants, packing the 8-byte slots on its stack as
it goes; then it compares the extents of arrays that must not overlap, releases the GIL and calls the driver. The first
variant that fits is launched; if none does, the Python slow path gets the very same arguments.

Being table driven, it is compiled once per machine (object code in the disk cache) and binding a kernel costs no
compilation. The text is LLVM IR with two short forms, expanded by `_expand`:

    %x = get Struct.field %p        load of a field of a structure in `dispatch_tables`
    %x = at 16 i64 %p               load of a value at a byte offset
"""

from __future__ import annotations

import ctypes
import re

from tegula.runtime import dispatch_tables as tables
from tegula.runtime.dispatch_tables import MAX_ENTRIES, Flag, Kind

ENTRY_POINT = "tegula_dispatch"

STRUCTS: dict[str, type[ctypes.Structure]] = {
    "Entry": tables.EntryStruct,
    "Pair": tables.PairStruct,
    "Variant": tables.VariantStruct,
    "Table": tables.TableStruct,
    "Shared": tables.SharedStruct,
    "Record": tables.RecordStruct,
    "DL": tables.DLTensorStruct,
}

PYTHON_FUNCTIONS = {
    "PyContextVar_Get": "i32 (ptr, ptr, ptr)",
    "Py_IncRef": "void (ptr)",
    "Py_DecRef": "void (ptr)",
    "PyErr_Clear": "void ()",
    "PyErr_Occurred": "ptr ()",
    "PyLong_AsLongLongAndOverflow": "i64 (ptr, ptr)",
    "PyLong_AsUnsignedLongLong": "i64 (ptr)",
    "PyLong_AsVoidPtr": "ptr (ptr)",
    "PyLong_FromLong": "ptr (i64)",
    "PyObject_VectorcallMethod": "ptr (ptr, ptr, i64, ptr)",
    "PyObject_GetAttr": "ptr (ptr, ptr)",
    "PyObject_RichCompareBool": "i32 (ptr, ptr, i32)",
    "PyObject_Vectorcall": "ptr (ptr, ptr, i64, ptr)",
    "PyDict_GetItemWithError": "ptr (ptr, ptr)",
    "PyEval_SaveThread": "ptr ()",
    "PyEval_RestoreThread": "void (ptr)",
}
"""What the dispatcher calls in CPython; all of it is exported by every build since 3.11."""

NUMPY_DESCR_MASK = 0xFFFFFFFF_00FFFFFF
"""Kind, type, byte order and type number of a numpy dtype, without its internal flags byte."""
NUMPY_FLAGS_MASK = 0x500
"""ALIGNED and WRITEABLE."""

# Offsets in CPython's and numpy's objects that are not derived from a ctypes declaration.
OB_TYPE = 8
OB_SIZE = 16
FLOAT_VALUE = 16
SCALAR_VALUE = 16
NUMPY_DATA, NUMPY_NDIM, NUMPY_DIMS, NUMPY_STRIDES, NUMPY_DESCR, NUMPY_FLAGS = 16, 24, 32, 40, 56, 64
NUMPY_DESCR_KIND = 24


def _field(struct: type[ctypes.Structure], name: str) -> tuple[int, str]:
    for field, ctype, *_ in struct._fields_:
        if field == name:
            bits = 8 * ctypes.sizeof(ctype)
            pointer = ctype is ctypes.c_void_p
            return getattr(struct, name).offset, "ptr" if pointer else f"i{bits}"
    raise KeyError(name)


def _expand(text: str) -> str:
    """Replace the short forms by loads."""
    count = 0

    def load(result: str, offset: int, kind: str, base: str) -> str:
        nonlocal count
        count += 1
        return (
            f"%at.{count} = getelementptr i8, ptr {base}, i64 {offset}\n"
            f"  {result} = load {kind}, ptr %at.{count}"
        )

    def get(match: re.Match[str]) -> str:
        result, struct, name, base = match.groups()
        return load(result, *_field(STRUCTS[struct], name), base)

    def at(match: re.Match[str]) -> str:
        result, offset, kind, base = match.groups()
        return load(result, int(offset), kind, base)

    text = re.sub(r"(%[\w.]+) = get (\w+)\.(\w+) (%[\w.]+)", get, text)
    return re.sub(r"(%[\w.]+) = at (\d+) (\w+) (%[\w.]+)", at, text)


def _declarations() -> str:
    lines = []
    for name, signature in PYTHON_FUNCTIONS.items():
        result, _, params = signature.partition(" ")
        lines.append(f"declare {result} @{name}{params}")
    return "\n".join(lines)


def dispatcher_text() -> str:
    """LLVM IR of the dispatcher for the running interpreter's object layout."""
    tuple_items = tuple.__basicsize__
    bytes_data = bytes.__basicsize__ - 1
    pieces = (
        _entry(tuple_items, bytes_data),
        _call_shape(tuple_items),
        _object(tuple_items),
        _arrays(),
        _data_ptr(),
        _numbers(),
        _constants(),
        _aliases(),
        _launch(),
        _slow(tuple_items),
    )
    return _declarations() + "\n" + _expand("".join(pieces))


def _entry(tuple_items: int, bytes_data: int) -> str:
    return f"""
define ptr @{ENTRY_POINT}(ptr %self, ptr %args, i64 %nargs, ptr %kwnames) {{
entry:
  %slots = alloca [{MAX_ENTRIES} x i64], align 16
  %objects = alloca [{MAX_ENTRIES} x ptr], align 16
  %lows = alloca [{MAX_ENTRIES} x i64], align 16
  %highs = alloca [{MAX_ENTRIES} x i64], align 16
  %bases = alloca [{MAX_ENTRIES} x i64], align 16
  %dl = alloca [{ctypes.sizeof(tables.DLTensorStruct)} x i8], align 16
  %out = alloca i64, align 8
  %callargs = alloca [2 x ptr], align 16
  %bytes = at {tuple_items} ptr %self
  %record = getelementptr i8, ptr %bytes, i64 {bytes_data}
  %table = get Record.table %record
  %shared = get Table.shared %table
  %var = get Shared.context_var %shared
  %cv = call i32 @PyContextVar_Get(ptr %var, ptr null, ptr %out)
  %cv.bad = icmp ne i32 %cv, 0
  br i1 %cv.bad, label %error, label %start
start:
  %settings = load ptr, ptr %out
  call void @Py_DecRef(ptr %settings) ; interned, so it outlives this call
  %generation = get Shared.generation %shared
  %readers.p = getelementptr i8, ptr %table, i64 {tables.TableStruct.readers.offset}
  %readers = load i64, ptr %readers.p
  %readers.up = add i64 %readers, 1
  store i64 %readers.up, ptr %readers.p
  br label %variants

variants:
  %vi = phi i64 [0, %start], [%vi.next, %mismatch]
  %count = get Table.count %table
  %left = icmp ult i64 %vi, %count
  br i1 %left, label %try, label %none
try:
  %variants.p = getelementptr i8, ptr %table, i64 {tables.TableStruct.variants.offset}
  %variant.p = getelementptr ptr, ptr %variants.p, i64 %vi
  %variant = load ptr, ptr %variant.p
  %v.generation = get Variant.generation %variant
  %v.settings = get Variant.settings %variant
  %v.nargs = get Variant.nargs %variant
  %v.kwnames = get Variant.kwnames %variant
  %same.generation = icmp eq i64 %generation, %v.generation
  %same.settings = icmp eq ptr %settings, %v.settings
  %same.nargs = icmp eq i64 %nargs, %v.nargs
  %same.1 = and i1 %same.generation, %same.settings
  %same.2 = and i1 %same.1, %same.nargs
  br i1 %same.2, label %keywords, label %mismatch
mismatch:
  %vi.next = add i64 %vi, 1
  br label %variants
"""


def _call_shape(tuple_items: int) -> str:
    """Keyword names are interned: the same tuple at one call site, the same strings at all of them."""
    return f"""
keywords:
  %same.names = icmp eq ptr %v.kwnames, %kwnames
  br i1 %same.names, label %entries.begin, label %keywords.null
keywords.null:
  %null.1 = icmp eq ptr %v.kwnames, null
  %null.2 = icmp eq ptr %kwnames, null
  %null = or i1 %null.1, %null.2
  br i1 %null, label %mismatch, label %keywords.size
keywords.size:
  %names.a = at {OB_SIZE} i64 %v.kwnames
  %names.b = at {OB_SIZE} i64 %kwnames
  %same.size = icmp eq i64 %names.a, %names.b
  br i1 %same.size, label %keywords.each, label %mismatch
keywords.each:
  %ki = phi i64 [0, %keywords.size], [%ki.next, %keywords.next]
  %k.left = icmp ult i64 %ki, %names.a
  br i1 %k.left, label %keywords.compare, label %entries.begin
keywords.compare:
  %ka.p = getelementptr i8, ptr %v.kwnames, i64 {tuple_items}
  %kb.p = getelementptr i8, ptr %kwnames, i64 {tuple_items}
  %ka.i = getelementptr ptr, ptr %ka.p, i64 %ki
  %kb.i = getelementptr ptr, ptr %kb.p, i64 %ki
  %ka = load ptr, ptr %ka.i
  %kb = load ptr, ptr %kb.i
  %same.name = icmp eq ptr %ka, %kb
  br i1 %same.name, label %keywords.next, label %mismatch
keywords.next:
  %ki.next = add i64 %ki, 1
  br label %keywords.each
"""


def _object(tuple_items: int) -> str:
    """Find the object an entry speaks of and branch to its kind's check."""
    cases = "\n".join(f"    i32 {int(kind)}, label %kind.{kind.name}" for kind in Kind)
    return f"""
entries.begin:
  %nentries = get Variant.nentries %variant
  %entries = get Variant.entries %variant
  br label %entries.each
entries.each:
  %ei = phi i64 [0, %entries.begin], [%ei.next, %entries.next]
  %e.left = icmp ult i64 %ei, %nentries
  br i1 %e.left, label %entry.find, label %aliases
entries.next:
  %ei.next = add i64 %ei, 1
  br label %entries.each
entry.find:
  %e.offset = mul i64 %ei, {ctypes.sizeof(tables.EntryStruct)}
  %e = getelementptr i8, ptr %entries, i64 %e.offset
  %kind = get Entry.kind %e
  %source = get Entry.source %e
  %parent = get Entry.parent %e
  %slot = get Entry.slot %e
  %flags = get Entry.flags %e
  %e.type = get Entry.type %e
  %e.object = get Entry.object %e
  %e.low = get Entry.low %e
  %e.high = get Entry.high %e
  %e.pointer = get Entry.pointer %e
  %width = get Entry.width %e
  %source.i = sext i32 %source to i64
  %slot.i = sext i32 %slot to i64
  %slot.p = getelementptr i64, ptr %slots, i64 %slot.i
  switch i32 %parent, label %object.member [
    i32 {tables.FROM_ARGUMENTS}, label %object.argument
    i32 {tables.FROM_STORED}, label %object.stored
  ]
object.argument:
  %o.1.p = getelementptr ptr, ptr %args, i64 %source.i
  %o.1 = load ptr, ptr %o.1.p
  br label %object.found
object.stored:
  br label %object.found
object.member:
  %parent.i = sext i32 %parent to i64
  %tuple.p = getelementptr ptr, ptr %objects, i64 %parent.i
  %tuple = load ptr, ptr %tuple.p
  %items = getelementptr i8, ptr %tuple, i64 {tuple_items}
  %o.3.p = getelementptr ptr, ptr %items, i64 %source.i
  %o.3 = load ptr, ptr %o.3.p
  br label %object.found
object.found:
  %o = phi ptr [%o.1, %object.argument], [%e.object, %object.stored], [%o.3, %object.member]
  %o.keep = getelementptr ptr, ptr %objects, i64 %ei
  store ptr %o, ptr %o.keep
  %o.type = at {OB_TYPE} ptr %o
  %same.type = icmp eq ptr %o.type, %e.type
  switch i32 %kind, label %mismatch [
{cases}
  ]
"""


def _arrays() -> str:
    """numpy arrays and DLPack tensors; both end at `address` with base, shape and strides at hand."""
    return f"""
kind.NUMPY:
  br i1 %same.type, label %numpy.fields, label %mismatch
numpy.fields:
  %np.descr = at {NUMPY_DESCR} ptr %o
  %np.dtype.raw = at {NUMPY_DESCR_KIND} i64 %np.descr
  %np.dtype = and i64 %np.dtype.raw, {NUMPY_DESCR_MASK - (1 << 64)}
  %np.flags.raw = at {NUMPY_FLAGS} i32 %o
  %np.flags.masked = and i32 %np.flags.raw, {NUMPY_FLAGS_MASK}
  %np.flags = zext i32 %np.flags.masked to i64
  %np.data = at {NUMPY_DATA} i64 %o
  %np.ndim = at {NUMPY_NDIM} i32 %o
  %np.dims = at {NUMPY_DIMS} ptr %o
  %np.strides = at {NUMPY_STRIDES} ptr %o
  %np.same.1 = icmp eq i64 %np.dtype, %e.low
  %np.same.2 = icmp eq i64 %np.flags, %e.high
  %np.same = and i1 %np.same.1, %np.same.2
  br i1 %np.same, label %address, label %mismatch

kind.DLPACK:
  br i1 %same.type, label %dl.call, label %mismatch
dl.call:
  %dl.rc = call i32 %e.pointer(ptr %o, ptr %dl)
  %dl.ok = icmp eq i32 %dl.rc, 0
  br i1 %dl.ok, label %dl.fields, label %clear
dl.fields:
  %dl.data = get DL.data %dl
  %dl.offset = get DL.byte_offset %dl
  %dl.data.i = ptrtoint ptr %dl.data to i64
  %dl.base = add i64 %dl.data.i, %dl.offset
  %dl.device = get DL.device %dl
  %dl.dtype.32 = get DL.dtype %dl
  %dl.dtype = zext i32 %dl.dtype.32 to i64
  %dl.ndim = get DL.ndim %dl
  %dl.dims = get DL.shape %dl
  %dl.strides = get DL.strides %dl
  %dl.same.1 = icmp eq i64 %dl.dtype, %e.low
  %dl.same.2 = icmp eq i64 %dl.device, %e.high
  %dl.same = and i1 %dl.same.1, %dl.same.2
  br i1 %dl.same, label %address, label %mismatch

address:
  %base = phi i64 [%np.data, %numpy.fields], [%dl.base, %dl.fields]
  %ndim = phi i32 [%np.ndim, %numpy.fields], [%dl.ndim, %dl.fields]
  %dims = phi ptr [%np.dims, %numpy.fields], [%dl.dims, %dl.fields]
  %strides = phi ptr [%np.strides, %numpy.fields], [%dl.strides, %dl.fields]
  %width.i = sext i32 %width to i64
  ; numpy strides are in bytes, DLPack's in elements
  %unit.np = icmp eq i32 %kind, {int(Kind.NUMPY)}
  %unit = select i1 %unit.np, i64 1, i64 %width.i
  %extent.bit = and i32 %flags, {int(Flag.EXTENT)}
  %extent = icmp ne i32 %extent.bit, 0
  br i1 %extent, label %extent.begin, label %value
extent.begin:
  %ndim.i = sext i32 %ndim to i64
  %dense = icmp eq ptr %strides, null
  br label %extent.each
extent.each: ; from the last dimension to the first
  %d = phi i64 [%ndim.i, %extent.begin], [%d.next, %extent.next]
  %low = phi i64 [%base, %extent.begin], [%low.next, %extent.next]
  %high = phi i64 [%base, %extent.begin], [%high.next, %extent.next]
  %step.dense = phi i64 [%width.i, %extent.begin], [%step.dense.next, %extent.next]
  %d.left = icmp sgt i64 %d, 0
  br i1 %d.left, label %extent.dim, label %extent.done
extent.dim:
  %d.next = sub i64 %d, 1
  %dim.p = getelementptr i64, ptr %dims, i64 %d.next
  %dim = load i64, ptr %dim.p
  %empty = icmp eq i64 %dim, 0
  br i1 %empty, label %extent.empty, label %extent.step
extent.step:
  br i1 %dense, label %extent.next, label %extent.stride
extent.stride:
  %stride.p = getelementptr i64, ptr %strides, i64 %d.next
  %stride.raw = load i64, ptr %stride.p
  %stride = mul i64 %stride.raw, %unit
  br label %extent.next
extent.next:
  %step = phi i64 [%step.dense, %extent.step], [%stride, %extent.stride]
  %step.dense.next = mul i64 %step.dense, %dim
  %dim.1 = sub i64 %dim, 1
  %span = mul i64 %dim.1, %step
  %span.negative = icmp slt i64 %span, 0
  %low.moved = add i64 %low, %span
  %high.moved = add i64 %high, %span
  %low.next = select i1 %span.negative, i64 %low.moved, i64 %low
  %high.next = select i1 %span.negative, i64 %high, i64 %high.moved
  br label %extent.each
extent.empty: ; covers no bytes
  br label %extent.store
extent.done:
  %high.end = add i64 %high, %width.i
  br label %extent.store
extent.store:
  %x.low = phi i64 [%base, %extent.empty], [%low, %extent.done]
  %x.high = phi i64 [%base, %extent.empty], [%high.end, %extent.done]
  %x.low.p = getelementptr i64, ptr %lows, i64 %ei
  %x.high.p = getelementptr i64, ptr %highs, i64 %ei
  %x.base.p = getelementptr i64, ptr %bases, i64 %ei
  store i64 %x.low, ptr %x.low.p
  store i64 %x.high, ptr %x.high.p
  store i64 %base, ptr %x.base.p
  br label %value
"""


def _data_ptr() -> str:
    return f"""
kind.DATA_PTR:
  br i1 %same.type, label %dp.call, label %mismatch
dp.call:
  store ptr %o, ptr %callargs
  %dp.name = get Shared.name_data_ptr %shared
  %dp.int = call ptr @PyObject_VectorcallMethod(ptr %dp.name, ptr %callargs, i64 1, ptr null)
  %dp.null = icmp eq ptr %dp.int, null
  br i1 %dp.null, label %clear, label %dp.read
dp.read:
  %dp.address = call ptr @PyLong_AsVoidPtr(ptr %dp.int)
  call void @Py_DecRef(ptr %dp.int)
  %dp.value = ptrtoint ptr %dp.address to i64
  %dp.zero = icmp eq ptr %dp.address, null
  br i1 %dp.zero, label %dp.check, label %value
dp.check: ; null is a legal address of an empty tensor
  %dp.error = call ptr @PyErr_Occurred()
  %dp.fine = icmp eq ptr %dp.error, null
  br i1 %dp.fine, label %value, label %clear
clear:
  call void @PyErr_Clear()
  br label %mismatch
"""


def _numbers() -> str:
    """Scalars end at `value`, where alignment and value classes are checked and the slot is written."""
    return f"""
kind.INT:
  br i1 %same.type, label %int.read, label %mismatch
int.read:
  %int.v = call i64 @PyLong_AsLongLongAndOverflow(ptr %o, ptr %out)
  %int.over.32 = load i32, ptr %out
  %int.over = icmp ne i32 %int.over.32, 0
  %int.below = icmp slt i64 %int.v, %e.low
  %int.above = icmp sgt i64 %int.v, %e.high
  %int.out = or i1 %int.below, %int.above
  %int.bad = or i1 %int.out, %int.over
  br i1 %int.bad, label %mismatch, label %value

kind.UINT64:
  br i1 %same.type, label %uint.read, label %mismatch
uint.read:
  %uint.signed = call i64 @PyLong_AsLongLongAndOverflow(ptr %o, ptr %out)
  %uint.over.32 = load i32, ptr %out
  %uint.over = icmp eq i32 %uint.over.32, 1
  br i1 %uint.over, label %uint.convert, label %mismatch
uint.convert:
  %uint.v = call i64 @PyLong_AsUnsignedLongLong(ptr %o)
  %uint.fits = icmp slt i64 %uint.v, 0 ; 2^63 and above
  %uint.all = icmp eq i64 %uint.v, -1
  %uint.sure = xor i1 %uint.all, true
  %uint.fine = and i1 %uint.fits, %uint.sure
  br i1 %uint.fine, label %value, label %uint.check
uint.check: ; -1 is 2^64 - 1, or an error
  %uint.error = call ptr @PyErr_Occurred()
  %uint.ok = icmp eq ptr %uint.error, null
  br i1 %uint.ok, label %value, label %clear

kind.SCALAR:
  br i1 %same.type, label %scalar.read, label %mismatch
scalar.read:
  %scalar.p = getelementptr i8, ptr %o, i64 {SCALAR_VALUE}
  %unsigned.bit = and i32 %flags, {int(Flag.UNSIGNED)}
  %unsigned = icmp ne i32 %unsigned.bit, 0
  switch i32 %width, label %scalar.8 [
    i32 1, label %scalar.1
    i32 2, label %scalar.2
    i32 4, label %scalar.4
  ]
scalar.1:
  %s1 = load i8, ptr %scalar.p
  %s1.s = sext i8 %s1 to i64
  %s1.u = zext i8 %s1 to i64
  %s1.v = select i1 %unsigned, i64 %s1.u, i64 %s1.s
  br label %value
scalar.2:
  %s2 = load i16, ptr %scalar.p
  %s2.s = sext i16 %s2 to i64
  %s2.u = zext i16 %s2 to i64
  %s2.v = select i1 %unsigned, i64 %s2.u, i64 %s2.s
  br label %value
scalar.4:
  %s4 = load i32, ptr %scalar.p
  %s4.s = sext i32 %s4 to i64
  %s4.u = zext i32 %s4 to i64
  %s4.v = select i1 %unsigned, i64 %s4.u, i64 %s4.s
  br label %value
scalar.8:
  %s8.v = load i64, ptr %scalar.p
  br label %value

kind.FLOAT:
  br i1 %same.type, label %float.read, label %mismatch
float.read:
  %float.p = getelementptr i8, ptr %o, i64 {FLOAT_VALUE}
  %float.v = load double, ptr %float.p
  %float.64 = bitcast double %float.v to i64
  %float.n = fptrunc double %float.v to float
  %float.32 = bitcast float %float.n to i32
  %float.32.z = zext i32 %float.32 to i64
  %narrow.bit = and i32 %flags, {int(Flag.NARROW)}
  %narrow = icmp ne i32 %narrow.bit, 0
  %float.bits = select i1 %narrow, i64 %float.32.z, i64 %float.64
  store i64 %float.bits, ptr %slot.p
  br label %entries.next

kind.BOOL:
  br i1 %same.type, label %bool.read, label %mismatch
bool.read:
  %bool.true = icmp eq ptr %o, %e.object
  %bool.v = zext i1 %bool.true to i64
  store i64 %bool.v, ptr %slot.p
  br label %entries.next

value:
  %v = phi i64 [%base, %address], [%base, %extent.store], [%dp.value, %dp.read], [0, %dp.check],
               [%int.v, %int.read], [%uint.v, %uint.convert], [%uint.v, %uint.check],
               [%s1.v, %scalar.1], [%s2.v, %scalar.2], [%s4.v, %scalar.4], [%s8.v, %scalar.8]
  %v.rest = and i64 %v, 15
  %v.divisible = icmp eq i64 %v.rest, 0
  %v.one = icmp eq i64 %v, 1
  %f.divisible = select i1 %v.divisible, i32 {int(Flag.NOT_DIVISIBLE)}, i32 {int(Flag.DIVISIBLE)}
  %f.one = select i1 %v.one, i32 {int(Flag.NOT_ONE)}, i32 0
  %v.32 = trunc i64 %v to i32
  %v.32.64 = sext i32 %v.32 to i64
  %v.narrow = icmp eq i64 %v.32.64, %v
  %f.narrow = select i1 %v.narrow, i32 {int(Flag.WIDE)}, i32 0
  %f.broken.1 = or i32 %f.divisible, %f.one
  %f.broken = or i32 %f.broken.1, %f.narrow
  %f.hit = and i32 %flags, %f.broken
  %f.fine = icmp eq i32 %f.hit, 0
  br i1 %f.fine, label %value.store, label %mismatch
value.store:
  store i64 %v, ptr %slot.p
  br label %entries.next
"""


def _constants() -> str:
    return f"""
kind.IS:
  %is.same = icmp eq ptr %o, %e.object
  br i1 %is.same, label %entries.next, label %mismatch

kind.EQUAL:
  %eq.same = icmp eq ptr %o, %e.object
  br i1 %eq.same, label %entries.next, label %eq.type
eq.type:
  br i1 %same.type, label %eq.compare, label %mismatch
eq.compare:
  %eq.rc = call i32 @PyObject_RichCompareBool(ptr %o, ptr %e.object, i32 2)
  %eq.yes = icmp eq i32 %eq.rc, 1
  br i1 %eq.yes, label %entries.next, label %clear

kind.SAME_FLOAT:
  br i1 %same.type, label %sf.read, label %mismatch
sf.read:
  %sf.a = at {FLOAT_VALUE} i64 %o
  %sf.b = at {FLOAT_VALUE} i64 %e.object
  %sf.same = icmp eq i64 %sf.a, %sf.b
  br i1 %sf.same, label %entries.next, label %mismatch

kind.TUPLE:
  br i1 %same.type, label %tuple.size, label %mismatch
tuple.size:
  %t.size = at {OB_SIZE} i64 %o
  %t.same = icmp eq i64 %t.size, %e.low
  br i1 %t.same, label %entries.next, label %mismatch

kind.ATTRIBUTE:
  %attr = call ptr @PyObject_GetAttr(ptr %o, ptr %e.pointer)
  %attr.null = icmp eq ptr %attr, null
  br i1 %attr.null, label %clear, label %attr.compare
attr.compare:
  %attr.rc = call i32 @PyObject_RichCompareBool(ptr %attr, ptr %e.object, i32 2)
  call void @Py_DecRef(ptr %attr)
  %attr.yes = icmp eq i32 %attr.rc, 1
  br i1 %attr.yes, label %entries.next, label %clear

kind.GLOBAL:
  %global = call ptr @PyDict_GetItemWithError(ptr %o, ptr %e.pointer)
  %global.same = icmp eq ptr %global, %e.type
  br i1 %global.same, label %entries.next, label %clear
"""


def _aliases() -> str:
    def value(name: str, array: str, index: str) -> str:
        return (
            f"  {name}.p = getelementptr i64, ptr {array}, i64 {index}\n"
            f"  {name} = load i64, ptr {name}.p\n"
        )

    loads = "".join(
        value(f"%{end}.{side}", f"%{array}", f"%{side}.i")
        for end, array in (("low", "lows"), ("high", "highs"), ("base", "bases"))
        for side in ("first", "second")
    )
    return f"""
aliases:
  %npairs = get Variant.npairs %variant
  %pairs = get Variant.pairs %variant
  br label %pairs.each
pairs.each:
  %pi = phi i64 [0, %aliases], [%pi.next, %pairs.next]
  %p.left = icmp ult i64 %pi, %npairs
  br i1 %p.left, label %pair, label %launch
pairs.next:
  %pi.next = add i64 %pi, 1
  br label %pairs.each
pair:
  %pair.offset = mul i64 %pi, {ctypes.sizeof(tables.PairStruct)}
  %pair.p = getelementptr i8, ptr %pairs, i64 %pair.offset
  %first = get Pair.first %pair.p
  %second = get Pair.second %pair.p
  %same.ok = get Pair.same_ok %pair.p
  %first.i = sext i32 %first to i64
  %second.i = sext i32 %second to i64
{loads}  %before = icmp ule i64 %high.first, %low.second
  %after = icmp ule i64 %high.second, %low.first
  %apart = or i1 %before, %after
  %equal = icmp eq i64 %base.first, %base.second
  %equal.counts = icmp ne i32 %same.ok, 0
  %identical = and i1 %equal, %equal.counts
  %harmless = or i1 %apart, %identical
  br i1 %harmless, label %pairs.next, label %mismatch
"""


def _launch() -> str:
    return """
launch:
  %readers.now = load i64, ptr %readers.p
  %readers.down = sub i64 %readers.now, 1
  store i64 %readers.down, ptr %readers.p
  %compiled = get Variant.compiled %variant
  call void @Py_IncRef(ptr %compiled) ; returned; also keeps the code loaded while the GIL is away
  %launch.f = get Variant.launch %variant
  %handle = get Variant.handle %variant
  %nslots = get Variant.nslots %variant
  %stream.f = get Variant.stream_of %variant
  %x = get Record.x %record
  %y = get Record.y %record
  %z = get Record.z %record
  store ptr null, ptr %out
  %stream.none = icmp eq ptr %stream.f, null
  br i1 %stream.none, label %go, label %stream.ask
stream.ask:
  %device = get Variant.stream_device %variant
  %device.type = trunc i64 %device to i32
  %device.high = lshr i64 %device, 32
  %device.index = trunc i64 %device.high to i32
  %stream.rc = call i32 %stream.f(i32 %device.type, i32 %device.index, ptr %out)
  %stream.ok = icmp eq i32 %stream.rc, 0
  br i1 %stream.ok, label %go, label %stream.bad
stream.bad:
  call void @Py_DecRef(ptr %compiled)
  ret ptr null
go:
  %stream = load ptr, ptr %out
  %thread = call ptr @PyEval_SaveThread()
  %rc = call i32 %launch.f(ptr %handle, ptr %slots, i64 %nslots, i32 %x, i32 %y, i32 %z, ptr %stream)
  call void @PyEval_RestoreThread(ptr %thread)
  %rc.ok = icmp eq i32 %rc, 0
  br i1 %rc.ok, label %done, label %failed
done:
  ret ptr %compiled
failed: ; the compiled kernel's own method raises
  %rc.i = sext i32 %rc to i64
  %rc.o = call ptr @PyLong_FromLong(i64 %rc.i)
  %rc.null = icmp eq ptr %rc.o, null
  br i1 %rc.null, label %failed.done, label %failed.call
failed.call:
  store ptr %compiled, ptr %callargs
  %callargs.1 = getelementptr ptr, ptr %callargs, i64 1
  store ptr %rc.o, ptr %callargs.1
  %failed.name = get Shared.name_failed %shared
  %raised = call ptr @PyObject_VectorcallMethod(ptr %failed.name, ptr %callargs, i64 2, ptr null)
  call void @Py_DecRef(ptr %rc.o)
  br label %failed.done
failed.done:
  call void @Py_DecRef(ptr %compiled)
  ret ptr null
error:
  ret ptr null
"""


def _slow(tuple_items: int) -> str:
    return f"""
none:
  %readers.left = load i64, ptr %readers.p
  %readers.less = sub i64 %readers.left, 1
  store i64 %readers.less, ptr %readers.p
  %slow = at {tuple_items + 16} ptr %self
  %slow.result = call ptr @PyObject_Vectorcall(ptr %slow, ptr %args, i64 %nargs, ptr %kwnames)
  ret ptr %slow.result
}}
"""
