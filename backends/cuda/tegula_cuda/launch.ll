; The native launch function of every CUDA kernel. `launcher.py` has the records, whose fields are
; written `%record->field` here, and links the driver's functions by address.

declare i32 @cuCtxGetCurrent(ptr)
declare i32 @cuCtxPushCurrent(ptr)
declare i32 @cuCtxPopCurrent(ptr)
declare i32 @cuLaunchKernelEx(ptr, ptr, ptr, ptr)
declare i32 @cuMemcpyDtoH(ptr, i64, i64)
declare i32 @cuMemsetD32Async(i64, i32, i64, ptr)
declare i32 @cuStreamIsCapturing(ptr, ptr)
declare i32 @cuStreamSynchronize(ptr)
declare i32 @cuTensorMapEncodeTiled(ptr, i32, i32, ptr, ptr, ptr, ptr, ptr, i32, i32, i32, i32)
declare i32 @memcmp(ptr, ptr, i64)
declare ptr @memcpy(ptr, ptr, i64)

; 0: launched; 2: an assertion failed; $DRIVER$ + n: the driver's error n; $MAP$ + n: its error
; about a tensor map. What failed stands in the handle.
define i32 @tegula_cuda_launch(ptr %handle, ptr %slots, i64 %n, i32 %gx, i32 %gy, i32 %gz,
                               ptr %stream) {
entry:
  %out = alloca ptr
  %x.some = icmp sgt i32 %gx, 0
  %y.some = icmp sgt i32 %gy, 0
  %z.some = icmp sgt i32 %gz, 0
  %xy.some = and i1 %x.some, %y.some
  %some = and i1 %xy.some, %z.some
  br i1 %some, label %ask, label %nothing
nothing:
  ret i32 0
ask:
  %context = load ptr, ptr %handle->context
  %got = call i32 @cuCtxGetCurrent(ptr %out)
  %current = load ptr, ptr %out
  %same = icmp eq ptr %current, %context
  br i1 %same, label %inside, label %enter
enter:
  %entered = call i32 @cuCtxPushCurrent(ptr %context)
  %enter.ok = icmp eq i32 %entered, 0
  br i1 %enter.ok, label %inside, label %refused
refused:
  %refusal = add i32 %entered, $DRIVER$
  br label %judge
inside:
  %code = call i32 @launch(ptr %handle, ptr %slots, i64 %n, i32 %gx, i32 %gy, i32 %gz, ptr %stream)
  br i1 %same, label %judge, label %leave
leave:
  %left = call i32 @cuCtxPopCurrent(ptr %out)
  br label %judge
judge:
  %result = phi i32 [%refusal, %refused], [%code, %inside], [%code, %leave]
  %fine = icmp eq i32 %result, 0
  br i1 %fine, label %end, label %note
note:
  store i32 %gx, ptr %handle->grid_x
  store i32 %gy, ptr %handle->grid_y
  store i32 %gz, ptr %handle->grid_z
  br label %end
end:
  ret i32 %result
}

define internal i32 @launch(ptr %handle, ptr %slots, i64 %n, i32 %gx, i32 %gy, i32 %gz,
                            ptr %stream) {
entry: ; one address per slot and per tensor map, and that of the assertion buffer's address
  %maps.i = load i32, ptr %handle->map_count
  %maps.n = zext i32 %maps.i to i64
  %given = add i64 %n, %maps.n
  %room = add i64 %given, 1
  %params = alloca ptr, i64 %room
  %maps = alloca [128 x i8], i64 %maps.n, align 64
  %config = alloca [<config> x i8], align 8
  %capturing.p = alloca i32
  br label %each
each:
  %i = phi i64 [0, %entry], [%i.next, %slot]
  %more = icmp ult i64 %i, %n
  br i1 %more, label %slot, label %each.map
slot:
  %slot.p = getelementptr i64, ptr %slots, i64 %i
  %param.p = getelementptr ptr, ptr %params, i64 %i
  store ptr %slot.p, ptr %param.p
  %i.next = add i64 %i, 1
  br label %each
each.map:
  %j = phi i64 [0, %each], [%j.next, %map]
  %map.more = icmp ult i64 %j, %maps.n
  br i1 %map.more, label %map, label %last
map:
  %map.p = getelementptr [128 x i8], ptr %maps, i64 %j
  %at = add i64 %n, %j
  %map.param = getelementptr ptr, ptr %params, i64 %at
  store ptr %map.p, ptr %map.param
  %j.next = add i64 %j, 1
  br label %each.map
last:
  %last.p = getelementptr ptr, ptr %params, i64 %given
  store ptr %handle->error, ptr %last.p
  %copied = call ptr @memcpy(ptr %config, ptr %handle->config, i64 <config>)
  store i32 %gx, ptr %config->grid_x
  store i32 %gy, ptr %config->grid_y
  store i32 %gz, ptr %config->grid_z
  store ptr %stream, ptr %config->stream
  %mapped = icmp eq i64 %maps.n, 0
  br i1 %mapped, label %go, label %encode
encode:
  %encoded = call i32 @find_maps(ptr %handle, ptr %slots, i64 %n, ptr %maps, i64 %maps.n)
  %encode.ok = icmp eq i32 %encoded, 0
  br i1 %encode.ok, label %go, label %encode.bad
encode.bad:
  %encode.rc = add i32 %encoded, $MAP$
  ret i32 %encode.rc
go:
  %function = load ptr, ptr %handle->function
  %rc = call i32 @cuLaunchKernelEx(ptr %config, ptr %function, ptr %params, ptr null)
  %ok = icmp eq i32 %rc, 0
  br i1 %ok, label %launched, label %bad
launched:
  %error = load i64, ptr %handle->error
  %plain = icmp eq i64 %error, 0
  br i1 %plain, label %good, label %asserts
asserts: ; what a graph records cannot be waited for: the device's synchronize looks at the buffer
  store i32 0, ptr %capturing.p
  %asked = call i32 @cuStreamIsCapturing(ptr %stream, ptr %capturing.p)
  %capturing = load i32, ptr %capturing.p
  %either = or i32 %asked, %capturing
  %may.wait = icmp eq i32 %either, 0
  br i1 %may.wait, label %wait, label %good
wait:
  %waited = call i32 @cuStreamSynchronize(ptr %stream)
  %wait.ok = icmp eq i32 %waited, 0
  br i1 %wait.ok, label %look, label %bad
look:
  %looked = call i32 @cuMemcpyDtoH(ptr %handle->failure, i64 %error, i64 16)
  %look.ok = icmp eq i32 %looked, 0
  br i1 %look.ok, label %judge, label %bad
judge:
  %seen = load i32, ptr %handle->failure
  %held = icmp eq i32 %seen, 0
  br i1 %held, label %good, label %failed
failed: ; the next failure is to be seen as well
  %cleared = call i32 @cuMemsetD32Async(i64 %error, i32 0, i64 4, ptr %stream)
  %settled = call i32 @cuStreamSynchronize(ptr %stream)
  ret i32 2
good:
  ret i32 0
bad:
  %number = phi i32 [%rc, %go], [%waited, %wait], [%looked, %look]
  %bad.rc = add i32 %number, $DRIVER$
  ret i32 %bad.rc
}

; Tensor maps: those of the launch before if its slots were the same. A launch that finds the cache
; in use encodes its own.
define internal i32 @find_maps(ptr %handle, ptr %slots, i64 %n, ptr %maps, i64 %count) {
entry:
  %known = load ptr, ptr %handle->map_slots
  %cache = load ptr, ptr %handle->map_cache
  %records = load ptr, ptr %handle->maps
  %slots.size = mul i64 %n, 8
  %maps.size = mul i64 %count, 128
  %tried = cmpxchg ptr %handle->map_lock, i32 0, i32 1 acquire monotonic
  %mine = extractvalue { i32, i1 } %tried, 1
  br i1 %mine, label %compare, label %each
compare:
  %differ = call i32 @memcmp(ptr %slots, ptr %known, i64 %slots.size)
  %same = icmp eq i32 %differ, 0
  br i1 %same, label %reuse, label %each
reuse:
  %reused = call ptr @memcpy(ptr %maps, ptr %cache, i64 %maps.size)
  br label %unlock
each:
  %j = phi i64 [0, %entry], [0, %compare], [%j.next, %next]
  %left = icmp ult i64 %j, %count
  br i1 %left, label %encode, label %done
encode:
  %record = getelementptr [<map> x i8], ptr %records, i64 %j
  %to = getelementptr [128 x i8], ptr %maps, i64 %j
  %rc = call i32 @encode_map(ptr %record, ptr %slots, ptr %to)
  %ok = icmp eq i32 %rc, 0
  br i1 %ok, label %next, label %bad
next:
  %j.next = add i64 %j, 1
  br label %each
bad:
  %j.i = trunc i64 %j to i32
  store i32 %j.i, ptr %handle->failure
  br i1 %mine, label %unlock, label %out
done:
  br i1 %mine, label %keep, label %out
keep:
  %kept.slots = call ptr @memcpy(ptr %known, ptr %slots, i64 %slots.size)
  %kept.maps = call ptr @memcpy(ptr %cache, ptr %maps, i64 %maps.size)
  br label %unlock
unlock:
  %held = phi i32 [0, %reuse], [0, %keep], [%rc, %bad]
  store atomic i32 0, ptr %handle->map_lock release, align 4
  ret i32 %held
out:
  %free = phi i32 [0, %done], [%rc, %bad]
  ret i32 %free
}

; Kernels do not ask a map for anything where a tensor has no elements, so that it may say what it
; likes; the stride of an axis of one element does not matter either.
define internal i32 @encode_map(ptr %map, ptr %slots, ptr %to) {
entry:
  %sizes = alloca [5 x i64]
  %strides = alloca [5 x i64]
  %rank = load i32, ptr %map->rank
  %itemsize.i = load i32, ptr %map->itemsize
  %itemsize = zext i32 %itemsize.i to i64
  br label %size
size:
  %d = phi i32 [0, %entry], [%d.next, %size]
  %some = phi i1 [true, %entry], [%some.next, %size]
  %n.p = getelementptr [<number> x i8], ptr %map->sizes, i32 %d
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
  %s.p = getelementptr [<number> x i8], ptr %map->strides, i32 %e
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
ask: ; not interleaved, 128 bytes at a time into the L2 cache, zeros outside
  %base = load i32, ptr %map->base
  %address.p = getelementptr ptr, ptr %slots, i32 %base
  %address = load ptr, ptr %address.p
  %type = load i32, ptr %map->type
  %swizzle = load i32, ptr %map->swizzle
  %rc = call i32 @cuTensorMapEncodeTiled(ptr %to, i32 %type, i32 %rank, ptr %address, ptr %sizes,
      ptr %strides, ptr %map->box, ptr %map->steps, i32 0, i32 %swizzle, i32 2, i32 0)
  ret i32 %rc
}
