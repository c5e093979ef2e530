"""The native launch dispatcher, as LLVM IR.

`dispatcher_text()` has a function with CPython's METH_FASTCALL | METH_KEYWORDS signature that
every bound launcher shares. It walks the kernel's `Table` (see `dispatch_tables`): for each variant
it checks the shape of the call and then entry by entry types, dtypes, alignment, value classes,
devices and constants, packing the 8-byte slots on its stack as it goes; then it compares the
extents of arrays that must not overlap, releases the GIL and calls the driver. The first variant
that fits is launched; if none does, the Python slow path gets the very same arguments.

A second function finds the launcher of a grid, `kernel[grid]`, as `JITFunction._launcher` does.

Being table driven, it is compiled once per machine (object code in the disk cache) and binding a
kernel costs no compilation. The text is LLVM IR with two short forms, expanded by `_expand`:

    %x = get Struct.field %p        load of a field of a structure in `dispatch_tables`
    %x = at 16 i64 %p               load of a value at a byte offset
"""

from __future__ import annotations

import ctypes
import re

from tegula.runtime import dispatch_checks as checks
from tegula.runtime import dispatch_tables as tables
from tegula.runtime.dispatch_checks import OB_SIZE, OB_TYPE
from tegula.runtime.dispatch_tables import MAX_ENTRIES, Kind

ENTRY_POINT = "tegula_dispatch"
SUBSCRIPT = "tegula_subscript"
SHARED = "tegula_shared"
"""The process's one `SharedStruct`, which the linker puts in."""

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
    "PyObject_IsTrue": "i32 (ptr)",
    "PyObject_RichCompareBool": "i32 (ptr, ptr, i32)",
    "PyObject_Vectorcall": "ptr (ptr, ptr, i64, ptr)",
    "PyDict_GetItemWithError": "ptr (ptr, ptr)",
    "PyEval_SaveThread": "ptr ()",
    "PyEval_RestoreThread": "void (ptr)",
}
"""What the dispatcher calls in CPython; all of it is exported by every build since 3.11."""


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
        checks.arrays(),
        checks.data_ptr(),
        checks.data_ptr_extent(),
        checks.numbers(),
        checks.constants(),
        _aliases(),
        _launch(),
        _slow(tuple_items),
        _subscript(tuple_items),
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
    """Keyword names are one tuple per call site, and mostly the same strings everywhere."""
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
  br i1 %same.name, label %keywords.next, label %keywords.text
keywords.text: ; names made at run time are not interned
  %kw.rc = call i32 @PyObject_RichCompareBool(ptr %ka, ptr %kb, i32 2)
  %kw.yes = icmp eq i32 %kw.rc, 1
  br i1 %kw.yes, label %keywords.next, label %clear
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
  %itself = icmp eq i32 %source, {tables.ITSELF}
  br i1 %itself, label %object.itself, label %object.item
object.itself:
  br label %object.found
object.item:
  %items = getelementptr i8, ptr %tuple, i64 {tuple_items}
  %o.3.p = getelementptr ptr, ptr %items, i64 %source.i
  %o.3 = load ptr, ptr %o.3.p
  br label %object.found
object.found:
  %o = phi ptr [%o.1, %object.argument], [%e.object, %object.stored],
               [%tuple, %object.itself], [%o.3, %object.item]
  %o.keep = getelementptr ptr, ptr %objects, i64 %ei
  store ptr %o, ptr %o.keep
  %o.type = at {OB_TYPE} ptr %o
  %same.type = icmp eq ptr %o.type, %e.type
  switch i32 %kind, label %mismatch [
{cases}
  ]
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
  %rc = call i32 %launch.f(
    ptr %handle, ptr %slots, i64 %nslots, i32 %x, i32 %y, i32 %z, ptr %stream)
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


def _subscript(tuple_items: int) -> str:
    """The bound launcher where the grid is a tuple of integers (2.0 would find what was bound for
    2) and was used before; else what the kernel's `_launcher` says.
    """
    return f"""
@{SHARED} = external global i8
define ptr @{SUBSCRIPT}(ptr %self, ptr %grid) {{
entry:
  %callargs = alloca [2 x ptr], align 16
  %shared = getelementptr i8, ptr @{SHARED}, i64 0
  %tuple = get Shared.type_tuple %shared
  %int = get Shared.type_int %shared
  %type = at {OB_TYPE} ptr %grid
  %is.tuple = icmp eq ptr %type, %tuple
  br i1 %is.tuple, label %counts, label %ask
counts:
  %n = at {OB_SIZE} i64 %grid
  %items = getelementptr i8, ptr %grid, i64 {tuple_items}
  br label %each
each:
  %i = phi i64 [0, %counts], [%i.next, %next]
  %left = icmp ult i64 %i, %n
  br i1 %left, label %count, label %find
count:
  %o.p = getelementptr ptr, ptr %items, i64 %i
  %o = load ptr, ptr %o.p
  %o.type = at {OB_TYPE} ptr %o
  %is.int = icmp eq ptr %o.type, %int
  br i1 %is.int, label %next, label %ask
next:
  %i.next = add i64 %i, 1
  br label %each
find:
  %name = get Shared.name_bound %shared
  %bound = call ptr @PyObject_GetAttr(ptr %self, ptr %name)
  %bound.null = icmp eq ptr %bound, null
  br i1 %bound.null, label %error, label %look
look:
  %found = call ptr @PyDict_GetItemWithError(ptr %bound, ptr %grid)
  %missing = icmp eq ptr %found, null
  br i1 %missing, label %miss, label %hit
hit:
  call void @Py_IncRef(ptr %found)
  call void @Py_DecRef(ptr %bound)
  ret ptr %found
miss: ; tuples of integers have a hash, so that nothing was raised
  call void @Py_DecRef(ptr %bound)
  br label %ask
ask:
  store ptr %self, ptr %callargs
  %callargs.1 = getelementptr ptr, ptr %callargs, i64 1
  store ptr %grid, ptr %callargs.1
  %launcher.name = get Shared.name_launcher %shared
  %answer = call ptr @PyObject_VectorcallMethod(ptr %launcher.name, ptr %callargs, i64 2, ptr null)
  ret ptr %answer
error:
  ret ptr null
}}
"""
