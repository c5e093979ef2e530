"""The dispatcher's checks, one per kind of entry, as LLVM IR in the short forms of `dispatch_code`.

Each piece begins at `kind.<NAME>` with the object in `%o` and the entry's fields in `%e.*`, and
ends at `entries.next`, at `mismatch`, or at `clear` where an exception may be set.
"""

from __future__ import annotations

from tegula.runtime.dispatch_tables import FAR_BITS, Flag, Kind

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

WALKED = Flag.EXTENT | Flag.NEAR | Flag.FAR | Flag.NEGATABLE
"""What is told from an array's shape and strides."""


def arrays() -> str:
    """numpy arrays and DLPack tensors; both end at `address` with base, shape, strides."""
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
  %extent.bit = and i32 %flags, {int(WALKED)}
  %extent = icmp ne i32 %extent.bit, 0
  %ndim.i = sext i32 %ndim to i64
  %base.null = icmp eq i64 %base, 0
  br i1 %base.null, label %null.each, label %address.fine
null.each: ; only an array without elements may lie at null
  %nd = phi i64 [0, %address], [%nd.next, %null.dim]
  %nd.left = icmp slt i64 %nd, %ndim.i
  br i1 %nd.left, label %null.dim, label %mismatch
null.dim:
  %nd.p = getelementptr i64, ptr %dims, i64 %nd
  %nd.dim = load i64, ptr %nd.p
  %nd.empty = icmp eq i64 %nd.dim, 0
  %nd.next = add i64 %nd, 1
  br i1 %nd.empty, label %address.fine, label %null.each
address.fine:
  br i1 %extent, label %extent.begin, label %value
extent.begin:
  %dense = icmp eq ptr %strides, null
  br label %extent.each
extent.each: ; from the last dimension to the first
  %d = phi i64 [%ndim.i, %extent.begin], [%d.next, %extent.next]
  %low = phi i64 [%base, %extent.begin], [%low.next, %extent.next]
  %high = phi i64 [%base, %extent.begin], [%high.next, %extent.next]
  %step.dense = phi i64 [%width.i, %extent.begin], [%step.dense.next, %extent.next]
  %side = phi i1 [false, %extent.begin], [%side.next, %extent.next]
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
  %side.step = icmp eq i64 %step, %width.i
  %side.many = icmp ugt i64 %dim, 1
  %side.here = and i1 %side.step, %side.many
  %side.next = or i1 %side, %side.here
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
  %x.side = phi i1 [true, %extent.empty], [%side, %extent.done]
  %x.low.p = getelementptr i64, ptr %lows, i64 %ei
  %x.high.p = getelementptr i64, ptr %highs, i64 %ei
  %x.base.p = getelementptr i64, ptr %bases, i64 %ei
  store i64 %x.low, ptr %x.low.p
  store i64 %x.high, ptr %x.high.p
  store i64 %base, ptr %x.base.p
  %x.size = sub i64 %x.high, %x.low
  %x.limit = shl i64 %width.i, {FAR_BITS}
  %x.far = icmp ugt i64 %x.size, %x.limit
  %x.broken = select i1 %x.far, i32 {int(Flag.NEAR)}, i32 {int(Flag.FAR)}
  %x.hit = and i32 %flags, %x.broken
  %x.fine = icmp eq i32 %x.hit, 0
  br i1 %x.fine, label %extent.sign, label %mismatch
extent.sign: ; elements that lie side by side are no part of complex numbers, and never negated
  %n.bit = and i32 %flags, {int(Flag.NEGATABLE)}
  %n.able = icmp ne i32 %n.bit, 0
  %n.apart = xor i1 %x.side, true
  %n.maybe = and i1 %n.able, %n.apart
  br i1 %n.maybe, label %negated, label %value
negated:
{_is_negated("n")}
n.not:
  br label %value
"""


def _is_negated(name: str) -> str:
    """Go on at `NAME.not` if the object says that its memory holds the values themselves."""
    return f"""  store ptr %o, ptr %callargs
  %{name}.w = get Shared.name_is_neg %shared
  %{name}.o = call ptr @PyObject_VectorcallMethod(ptr %{name}.w, ptr %callargs, i64 1, ptr null)
  %{name}.null = icmp eq ptr %{name}.o, null
  br i1 %{name}.null, label %clear, label %{name}.test
{name}.test:
  %{name}.true = call i32 @PyObject_IsTrue(ptr %{name}.o)
  call void @Py_DecRef(ptr %{name}.o)
  %{name}.plain = icmp eq i32 %{name}.true, 0
  br i1 %{name}.plain, label %{name}.not, label %clear"""


def data_ptr() -> str:
    """Objects that are asked for their address."""
    return f"""
kind.DATA_PTR:
  br i1 %same.type, label %dp.sign, label %mismatch
dp.sign:
  %dp.sign.bit = and i32 %flags, {int(Flag.NEGATABLE)}
  %dp.sign.able = icmp ne i32 %dp.sign.bit, 0
  br i1 %dp.sign.able, label %dp.negated, label %dp.call
dp.negated:
{_is_negated("dpn")}
dpn.not:
  br label %dp.call
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
  br i1 %dp.zero, label %clear, label %dp.found ; an error, or the address of an empty tensor
dp.found:
  %dp.extent.bit = and i32 %flags, {int(Flag.EXTENT)}
  %dp.extent = icmp ne i32 %dp.extent.bit, 0
  br i1 %dp.extent, label %dp.dense, label %value
clear:
  call void @PyErr_Clear()
  br label %mismatch
"""


def data_ptr_extent() -> str:
    """Their extent, if they are dense."""
    return """
dp.dense:
  %dd.name = get Shared.name_is_contiguous %shared
  %dd.bool = call ptr @PyObject_VectorcallMethod(ptr %dd.name, ptr %callargs, i64 1, ptr null)
  %dd.null = icmp eq ptr %dd.bool, null
  br i1 %dd.null, label %clear, label %dd.test
dd.test:
  %dd.true = call i32 @PyObject_IsTrue(ptr %dd.bool)
  call void @Py_DecRef(ptr %dd.bool)
  %dd.dense = icmp eq i32 %dd.true, 1
  br i1 %dd.dense, label %dn.get, label %clear
dn.get:
  %dn.name = get Shared.name_nbytes %shared
  %dn.int = call ptr @PyObject_GetAttr(ptr %o, ptr %dn.name)
  %dn.null = icmp eq ptr %dn.int, null
  br i1 %dn.null, label %clear, label %dn.read
dn.read:
  %dn.bytes = call i64 @PyLong_AsLongLongAndOverflow(ptr %dn.int, ptr %out)
  call void @Py_DecRef(ptr %dn.int)
  %dn.bad = icmp slt i64 %dn.bytes, 0
  br i1 %dn.bad, label %clear, label %dn.store
dn.store:
  %dn.end = add i64 %dp.value, %dn.bytes
  %dn.low.p = getelementptr i64, ptr %lows, i64 %ei
  %dn.high.p = getelementptr i64, ptr %highs, i64 %ei
  %dn.base.p = getelementptr i64, ptr %bases, i64 %ei
  store i64 %dp.value, ptr %dn.low.p
  store i64 %dn.end, ptr %dn.high.p
  store i64 %dp.value, ptr %dn.base.p
  br label %value
"""


def numbers() -> str:
    """Scalars end at `value`, where alignment and value classes are checked and the slot is
    written.
    """
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
  %v = phi i64 [%base, %address.fine], [%base, %extent.sign], [%base, %n.not],
               [%dp.value, %dp.found],
               [%dp.value, %dn.store],
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


def constants() -> str:
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

kind.MEMBER: ; borrowed from its owner, which nobody changes while the GIL is held
  br i1 %same.type, label %member.read, label %mismatch
member.read:
  %member.p = getelementptr i8, ptr %o, i64 %e.low
  %member = load ptr, ptr %member.p
  store ptr %member, ptr %o.keep
  %member.null = icmp eq ptr %member, null
  br i1 %member.null, label %mismatch, label %entries.next

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
