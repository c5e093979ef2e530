; The native launch function of every CUDA kernel. `launcher.py` fills in field offsets, written
; in angle brackets, and links the driver's functions by address.

declare i32 @cuCtxGetCurrent(ptr)
declare i32 @cuCtxPushCurrent(ptr)
declare i32 @cuCtxPopCurrent(ptr)
declare i32 @cuLaunchKernelEx(ptr, ptr, ptr, ptr)
declare i32 @cuMemcpyDtoH(ptr, i64, i64)
declare i32 @cuMemsetD32Async(i64, i32, i64, ptr)
declare i32 @cuStreamIsCapturing(ptr, ptr)
declare i32 @cuStreamSynchronize(ptr)
declare i32 @cuTensorMapEncodeTiled(ptr, i32, i32, ptr, ptr, ptr, ptr, ptr, i32, i32, i32, i32)
declare ptr @PyLong_FromLong(i64)
declare ptr @PyLong_AsVoidPtr(ptr)
declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)
declare ptr @PyErr_Occurred()
declare void @Py_DecRef(ptr)

; 0: launched; 2: an assertion failed; 4: the grid is too large; 5: it does not divide into clusters;
; $DRIVER$ + n: the driver's error n; $MAP$ + n: its error about a tensor map. What failed stands in
; the handle.
define i32 @tegula_cuda_launch(ptr %handle, ptr %slots, i64 %n, i32 %gx, i32 %gy, i32 %gz,
                               ptr %stream) {
entry:
  %x.some = icmp sgt i32 %gx, 0
  %y.some = icmp sgt i32 %gy, 0
  %z.some = icmp sgt i32 %gz, 0
  %xy.some = and i1 %x.some, %y.some
  %some = and i1 %xy.some, %z.some
  br i1 %some, label %limits, label %nothing
nothing:
  ret i32 0

limits: ; x may be any positive i32
  %y.fits = icmp ule i32 %gy, 65535
  %z.fits = icmp ule i32 %gz, 65535
  %fits = and i1 %y.fits, %z.fits
  br i1 %fits, label %clusters, label %refuse
clusters:
  %cx.p = getelementptr i8, ptr %handle, i64 <handle.cluster_x>
  %cy.p = getelementptr i8, ptr %handle, i64 <handle.cluster_y>
  %cz.p = getelementptr i8, ptr %handle, i64 <handle.cluster_z>
  %cx = load i32, ptr %cx.p
  %cy = load i32, ptr %cy.p
  %cz = load i32, ptr %cz.p
  %rx = urem i32 %gx, %cx
  %ry = urem i32 %gy, %cy
  %rz = urem i32 %gz, %cz
  %rxy = or i32 %rx, %ry
  %rest = or i32 %rxy, %rz
  %whole = icmp eq i32 %rest, 0
  br i1 %whole, label %parameters, label %refuse
refuse:
  %refusal = phi i32 [4, %limits], [5, %clusters]
  call void @note_grid(ptr %handle, i32 %gx, i32 %gy, i32 %gz)
  ret i32 %refusal

parameters: ; one address per slot and per tensor map, and that of the assertion buffer's address
  %maps.n.p = getelementptr i8, ptr %handle, i64 <handle.map_count>
  %maps.i = load i32, ptr %maps.n.p
  %maps.n = zext i32 %maps.i to i64
  %given = add i64 %n, %maps.n
  %room = add i64 %given, 1
  %params = alloca ptr, i64 %room
  %maps = alloca [128 x i8], i64 %maps.n, align 64
  %config = alloca [<config.size> x i8], align 8
  %out = alloca ptr
  br label %each
each:
  %i = phi i64 [0, %parameters], [%i.next, %slot]
  %left = icmp ult i64 %i, %n
  br i1 %left, label %slot, label %each.map
slot:
  %slot.p = getelementptr i64, ptr %slots, i64 %i
  %param.p = getelementptr ptr, ptr %params, i64 %i
  store ptr %slot.p, ptr %param.p
  %i.next = add i64 %i, 1
  br label %each
each.map:
  %j = phi i64 [0, %each], [%j.next, %map]
  %map.left = icmp ult i64 %j, %maps.n
  br i1 %map.left, label %map, label %last
map:
  %map.p = getelementptr [128 x i8], ptr %maps, i64 %j
  %at = add i64 %n, %j
  %map.param = getelementptr ptr, ptr %params, i64 %at
  store ptr %map.p, ptr %map.param
  %j.next = add i64 %j, 1
  br label %each.map
last:
  %error.p = getelementptr i8, ptr %handle, i64 <handle.error>
  %last.p = getelementptr ptr, ptr %params, i64 %given
  store ptr %error.p, ptr %last.p

  %block.p = getelementptr i8, ptr %handle, i64 <handle.block>
  %shared.p = getelementptr i8, ptr %handle, i64 <handle.shared>
  %attrs.n.p = getelementptr i8, ptr %handle, i64 <handle.attribute_count>
  %attrs.p = getelementptr i8, ptr %handle, i64 <handle.attributes>
  %block = load i32, ptr %block.p
  %shared = load i32, ptr %shared.p
  %attrs.n = load i32, ptr %attrs.n.p
  %attrs = load ptr, ptr %attrs.p
  store i32 %gx, ptr %config
  %c.gy = getelementptr i8, ptr %config, i64 <config.grid_y>
  store i32 %gy, ptr %c.gy
  %c.gz = getelementptr i8, ptr %config, i64 <config.grid_z>
  store i32 %gz, ptr %c.gz
  %c.bx = getelementptr i8, ptr %config, i64 <config.block_x>
  store i32 %block, ptr %c.bx
  %c.by = getelementptr i8, ptr %config, i64 <config.block_y>
  store i32 1, ptr %c.by
  %c.bz = getelementptr i8, ptr %config, i64 <config.block_z>
  store i32 1, ptr %c.bz
  %c.shared = getelementptr i8, ptr %config, i64 <config.shared>
  store i32 %shared, ptr %c.shared
  %c.stream = getelementptr i8, ptr %config, i64 <config.stream>
  store ptr %stream, ptr %c.stream
  %c.attrs = getelementptr i8, ptr %config, i64 <config.attributes>
  store ptr %attrs, ptr %c.attrs
  %c.count = getelementptr i8, ptr %config, i64 <config.attribute_count>
  store i32 %attrs.n, ptr %c.count

  %context.p = getelementptr i8, ptr %handle, i64 <handle.context>
  %context = load ptr, ptr %context.p
  %got = call i32 @cuCtxGetCurrent(ptr %out)
  %current = load ptr, ptr %out
  %same = icmp eq ptr %current, %context
  br i1 %same, label %launch, label %enter
enter:
  %entered = call i32 @cuCtxPushCurrent(ptr %context)
  %enter.ok = icmp eq i32 %entered, 0
  br i1 %enter.ok, label %launch, label %enter.bad
enter.bad:
  call void @note_grid(ptr %handle, i32 %gx, i32 %gy, i32 %gz)
  %enter.rc = add i32 %entered, $DRIVER$
  ret i32 %enter.rc

launch:
  %mapped = icmp eq i64 %maps.n, 0
  br i1 %mapped, label %go, label %encode
encode:
  %encoded = call i32 @find_maps(ptr %handle, ptr %slots, i64 %n, ptr %maps, i64 %maps.n)
  %encode.ok = icmp eq i32 %encoded, 0
  br i1 %encode.ok, label %go, label %encode.bad
encode.bad:
  %encode.rc = add i32 %encoded, $MAP$
  br label %leave.bad
go:
  %function.p = getelementptr i8, ptr %handle, i64 <handle.function>
  %function = load ptr, ptr %function.p
  %rc = call i32 @cuLaunchKernelEx(ptr %config, ptr %function, ptr %params, ptr null)
  %ok = icmp eq i32 %rc, 0
  br i1 %ok, label %launched, label %driver.bad
launched:
  %error = load i64, ptr %error.p
  %plain = icmp eq i64 %error, 0
  br i1 %plain, label %leave, label %asserts

asserts: ; what a graph records cannot be waited for: the device's synchronize looks at the buffer
  store i32 0, ptr %out
  %asked = call i32 @cuStreamIsCapturing(ptr %stream, ptr %out)
  %capturing.i = load i32, ptr %out
  %unasked = icmp ne i32 %asked, 0
  %capturing = icmp ne i32 %capturing.i, 0
  %no.wait = or i1 %unasked, %capturing
  br i1 %no.wait, label %leave, label %wait
wait:
  %waited = call i32 @cuStreamSynchronize(ptr %stream)
  %wait.ok = icmp eq i32 %waited, 0
  br i1 %wait.ok, label %look, label %driver.bad
look:
  %failure.p = getelementptr i8, ptr %handle, i64 <handle.failure>
  %copied = call i32 @cuMemcpyDtoH(ptr %failure.p, i64 %error, i64 16)
  %copy.ok = icmp eq i32 %copied, 0
  br i1 %copy.ok, label %judge, label %driver.bad
judge:
  %seen = load i32, ptr %failure.p
  %held = icmp eq i32 %seen, 0
  br i1 %held, label %leave, label %failed
failed: ; the next failure is to be seen as well
  %cleared = call i32 @cuMemsetD32Async(i64 %error, i32 0, i64 4, ptr %stream)
  %settled = call i32 @cuStreamSynchronize(ptr %stream)
  br label %leave.bad

driver.bad:
  %driver.n = phi i32 [%rc, %go], [%waited, %wait], [%copied, %look]
  %driver.rc = add i32 %driver.n, $DRIVER$
  br label %leave.bad
leave.bad:
  %bad = phi i32 [%driver.rc, %driver.bad], [2, %failed], [%encode.rc, %encode.bad]
  call void @note_grid(ptr %handle, i32 %gx, i32 %gy, i32 %gz)
  br label %leave
leave:
  %result = phi i32 [0, %launched], [0, %asserts], [0, %judge], [%bad, %leave.bad]
  br i1 %same, label %done, label %pop
pop:
  %popped = call i32 @cuCtxPopCurrent(ptr %out)
  br label %done
done:
  ret i32 %result
}

define internal void @note_grid(ptr %handle, i32 %gx, i32 %gy, i32 %gz) noinline {
  %x.p = getelementptr i8, ptr %handle, i64 <handle.grid>
  store i32 %gx, ptr %x.p
  %y.p = getelementptr i8, ptr %x.p, i64 4
  store i32 %gy, ptr %y.p
  %z.p = getelementptr i8, ptr %x.p, i64 8
  store i32 %gz, ptr %z.p
  ret void
}

; Tensor maps: those of the launch before if its slots were the same. A launch that finds the cache
; in use encodes its own.
define internal i32 @find_maps(ptr %handle, ptr %slots, i64 %n, ptr %maps, i64 %count) {
entry:
  %lock.p = getelementptr i8, ptr %handle, i64 <handle.map_lock>
  %slots.p = getelementptr i8, ptr %handle, i64 <handle.map_slots>
  %cache.p = getelementptr i8, ptr %handle, i64 <handle.map_cache>
  %records.p = getelementptr i8, ptr %handle, i64 <handle.maps>
  %known = load ptr, ptr %slots.p
  %cache = load ptr, ptr %cache.p
  %records = load ptr, ptr %records.p
  %words = mul i64 %count, 16
  %tried = cmpxchg ptr %lock.p, i32 0, i32 1 acquire monotonic
  %mine = extractvalue { i32, i1 } %tried, 1
  br i1 %mine, label %compare, label %each
compare:
  %i = phi i64 [0, %entry], [%i.next, %look]
  %more = icmp ult i64 %i, %n
  br i1 %more, label %look, label %same
look:
  %a.p = getelementptr i64, ptr %slots, i64 %i
  %b.p = getelementptr i64, ptr %known, i64 %i
  %a = load i64, ptr %a.p
  %b = load i64, ptr %b.p
  %i.next = add i64 %i, 1
  %equal = icmp eq i64 %a, %b
  br i1 %equal, label %compare, label %each
same:
  call void @copy_words(ptr %maps, ptr %cache, i64 %words)
  br label %unlock
each:
  %j = phi i64 [0, %entry], [0, %look], [%j.next, %next]
  %left = icmp ult i64 %j, %count
  br i1 %left, label %encode, label %done
encode:
  %record = getelementptr [<map.size> x i8], ptr %records, i64 %j
  %to = getelementptr [128 x i8], ptr %maps, i64 %j
  %rc = call i32 @encode_map(ptr %record, ptr %slots, ptr %to)
  %ok = icmp eq i32 %rc, 0
  br i1 %ok, label %next, label %bad
next:
  %j.next = add i64 %j, 1
  br label %each
bad:
  %j.i = trunc i64 %j to i32
  %failure.p = getelementptr i8, ptr %handle, i64 <handle.failure>
  store i32 %j.i, ptr %failure.p
  br i1 %mine, label %unlock, label %out
done:
  br i1 %mine, label %keep, label %out
keep:
  call void @copy_words(ptr %known, ptr %slots, i64 %n)
  call void @copy_words(ptr %cache, ptr %maps, i64 %words)
  br label %unlock
unlock:
  %held = phi i32 [0, %same], [0, %keep], [%rc, %bad]
  store atomic i32 0, ptr %lock.p release, align 4
  ret i32 %held
out:
  %free = phi i32 [0, %done], [%rc, %bad]
  ret i32 %free
}

define internal void @copy_words(ptr %to, ptr %from, i64 %n) {
entry:
  br label %head
head:
  %i = phi i64 [0, %entry], [%i.next, %body]
  %more = icmp ult i64 %i, %n
  br i1 %more, label %body, label %end
body:
  %a = getelementptr i64, ptr %from, i64 %i
  %b = getelementptr i64, ptr %to, i64 %i
  %x = load i64, ptr %a
  store i64 %x, ptr %b
  %i.next = add i64 %i, 1
  br label %head
end:
  ret void
}

; Kernels do not ask a map for anything where a tensor has no elements, so that it may say what it
; likes; the stride of an axis of one element does not matter either.
define internal i32 @encode_map(ptr %map, ptr %slots, ptr %to) {
entry:
  %sizes = alloca [5 x i64]
  %strides = alloca [5 x i64]
  %rank.p = getelementptr i8, ptr %map, i64 <map.rank>
  %rank = load i32, ptr %rank.p
  %itemsize.p = getelementptr i8, ptr %map, i64 <map.itemsize>
  %itemsize.i = load i32, ptr %itemsize.p
  %itemsize = zext i32 %itemsize.i to i64
  %sizes.in = getelementptr i8, ptr %map, i64 <map.sizes>
  %strides.in = getelementptr i8, ptr %map, i64 <map.strides>
  br label %size
size:
  %d = phi i32 [0, %entry], [%d.next, %size]
  %some = phi i1 [true, %entry], [%some.next, %size]
  %n.p = getelementptr [<number.size> x i8], ptr %sizes.in, i32 %d
  %n = call i64 @number(ptr %n.p, ptr %slots)
  %n.some = icmp sgt i64 %n, 0
  %some.next = and i1 %some, %n.some
  %n.low = select i1 %n.some, i64 %n, i64 1
  %n.big = icmp sgt i64 %n.low, 4294967296
  %n.fit = select i1 %n.big, i64 4294967296, i64 %n.low
  %size.p = getelementptr i64, ptr %sizes, i32 %d
  store i64 %n.fit, ptr %size.p
  %d.next = add i32 %d, 1
  %d.more = icmp ult i32 %d.next, %rank
  br i1 %d.more, label %size, label %row
row: ; a stride that the driver takes
  %inner = load i64, ptr %sizes
  %inner.bytes = mul i64 %inner, %itemsize
  %up = add i64 %inner.bytes, 15
  %any = and i64 %up, -16
  br label %stride
stride:
  %e = phi i32 [0, %row], [%e.next, %step]
  %e.next = add i32 %e, 1
  %e.more = icmp ult i32 %e.next, %rank
  br i1 %e.more, label %step, label %ask
step:
  %s.p = getelementptr [<number.size> x i8], ptr %strides.in, i32 %e
  %s = call i64 @number(ptr %s.p, ptr %slots)
  %s.bytes = mul i64 %s, %itemsize
  %axis.p = getelementptr i64, ptr %sizes, i32 %e.next
  %axis = load i64, ptr %axis.p
  %one = icmp eq i64 %axis, 1
  %none = xor i1 %some.next, true
  %free = or i1 %one, %none
  %s.fit = select i1 %free, i64 %any, i64 %s.bytes
  %stride.p = getelementptr i64, ptr %strides, i32 %e
  store i64 %s.fit, ptr %stride.p
  br label %stride
ask:
  %base.p = getelementptr i8, ptr %map, i64 <map.base>
  %base = load i32, ptr %base.p
  %address.p = getelementptr ptr, ptr %slots, i32 %base
  %address = load ptr, ptr %address.p
  %type.p = getelementptr i8, ptr %map, i64 <map.type>
  %type = load i32, ptr %type.p
  %swizzle.p = getelementptr i8, ptr %map, i64 <map.swizzle>
  %swizzle = load i32, ptr %swizzle.p
  %box = getelementptr i8, ptr %map, i64 <map.box>
  %steps = getelementptr i8, ptr %map, i64 <map.steps>
  ; not interleaved, 128 bytes at a time into the L2 cache, zeros outside
  %rc = call i32 @cuTensorMapEncodeTiled(ptr %to, i32 %type, i32 %rank, ptr %address, ptr %sizes,
      ptr %strides, ptr %box, ptr %steps, i32 0, i32 %swizzle, i32 2, i32 0)
  ret i32 %rc
}

; A Python function that gives an array library's current stream, as an int, for a device's number.
@current_stream = global ptr null

define i32 @tegula_cuda_stream(i32 %type, i32 %index, ptr %out) {
entry:
  %argument = alloca ptr
  %index.i = sext i32 %index to i64
  %number = call ptr @PyLong_FromLong(i64 %index.i)
  %none = icmp eq ptr %number, null
  br i1 %none, label %bad, label %ask
ask:
  store ptr %number, ptr %argument
  %function = load ptr, ptr @current_stream
  %stream.o = call ptr @PyObject_Vectorcall(ptr %function, ptr %argument, i64 1, ptr null)
  call void @Py_DecRef(ptr %number)
  %raised = icmp eq ptr %stream.o, null
  br i1 %raised, label %bad, label %read
read:
  %stream = call ptr @PyLong_AsVoidPtr(ptr %stream.o)
  call void @Py_DecRef(ptr %stream.o)
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
