; The native launch function of every CUDA kernel. `launcher.py` has the records, whose fields are
; written `%record->field` here, and links the driver's functions by address.

declare i32 @cuCtxGetCurrent(ptr)
declare i32 @cuCtxPushCurrent(ptr)
declare i32 @cuCtxPopCurrent(ptr)
declare i32 @cuGraphAddKernelNode(ptr, ptr, ptr, i64, ptr)
declare i32 @cuGraphCreate(ptr, i32)
declare i32 @cuGraphExecKernelNodeSetParams(ptr, ptr, ptr)
declare i32 @cuGraphInstantiateWithFlags(ptr, ptr, i64)
declare i32 @cuGraphLaunch(ptr, ptr)
declare i32 @cuLaunchKernelEx(ptr, ptr, ptr, ptr)
declare i32 @cuMemcpyDtoH(ptr, i64, i64)
declare i32 @cuMemsetD32Async(i64, i32, i64, ptr)
declare i32 @cuStreamGetCtx(ptr, ptr)
declare i32 @cuStreamGetPriority(ptr, ptr)
declare i32 @cuStreamIsCapturing(ptr, ptr)
declare i32 @cuStreamSynchronize(ptr)
declare i32 @cuTensorMapEncodeTiled(ptr, i32, i32, ptr, ptr, ptr, ptr, ptr, i32, i32, i32, i32)
declare i32 @cuThreadExchangeStreamCaptureMode(ptr)
declare i32 @memcmp(ptr, ptr, i64)
declare ptr @memcpy(ptr, ptr, i64)

; 0: launched; 2: an assertion failed; $DRIVER$ + n: the driver's error n; $MAP$ + n: its error
; about a tensor map. What failed stands in the handle.
define i32 @tegula_cuda_launch(ptr %handle, ptr %slots, i64 %n, i32 %gx, i32 %gy, i32 %gz,
                               ptr %stream) {
entry:
  %out = alloca ptr
  %x = insertelement <3 x i32> poison, i32 %gx, i32 0
  %xy = insertelement <3 x i32> %x, i32 %gy, i32 1
  %grid = insertelement <3 x i32> %xy, i32 %gz, i32 2
  %none = icmp slt <3 x i32> %grid, splat (i32 1)
  %any.none = bitcast <3 x i1> %none to i3
  %some = icmp eq i3 %any.none, 0
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
  %code = call i32 @launch(ptr %handle, ptr %slots, i64 %n, <3 x i32> %grid, ptr %stream)
  br i1 %same, label %judge, label %leave
leave:
  %left = call i32 @cuCtxPopCurrent(ptr %out)
  br label %judge
judge:
  %result = phi i32 [%refusal, %refused], [%code, %inside], [%code, %leave]
  %fine = icmp eq i32 %result, 0
  br i1 %fine, label %end, label %note
note:
  store <3 x i32> %grid, ptr %handle->grid, align 4
  br label %end
end:
  ret i32 %result
}

; A launch keeps what it was given, so that the next one with the same arguments finds its tensor maps
; encoded and its graph told. One that finds that in use keeps nothing.
define internal i32 @launch(ptr %handle, ptr %slots, i64 %n, <3 x i32> %grid, ptr %stream) {
entry:
  %graph = load ptr, ptr %handle->graph
  %tried = cmpxchg ptr %graph->lock, i32 0, i32 1 acquire monotonic
  %mine = extractvalue { i32, i1 } %tried, 1
  br i1 %mine, label %compare, label %aside
aside:
  %aside.rc = call i32 @launch_aside(ptr %handle, ptr %slots, i64 %n, <3 x i32> %grid, ptr %stream)
  br label %launched
compare:
  %known = load ptr, ptr %graph->slots
  %size = mul i64 %n, 8
  %differ = call i32 @memcmp(ptr %slots, ptr %known, i64 %size)
  %known.grid = load <3 x i32>, ptr %graph->grid, align 4
  %moved.axes = icmp ne <3 x i32> %known.grid, %grid
  %moved = bitcast <3 x i1> %moved.axes to i3
  %same.grid = icmp eq i3 %moved, 0
  %same.slots = icmp eq i32 %differ, 0
  %same = and i1 %same.slots, %same.grid
  br i1 %same, label %go, label %keep
keep:
  %copied = call ptr @memcpy(ptr %known, ptr %slots, i64 %size)
  store <3 x i32> %grid, ptr %graph->grid, align 4
  store i32 0, ptr %graph->told
  %maps = load ptr, ptr %graph->maps
  %map.rc = call i32 @encode_maps(ptr %handle, ptr %slots, ptr %maps)
  %map.ok = icmp eq i32 %map.rc, 0
  br i1 %map.ok, label %go, label %forget
forget: ; no grid is empty, so that nothing is known
  store i32 0, ptr %graph->grid
  br label %unlock
go:
  %replayed = call i1 @replay(ptr %graph, ptr %stream)
  br i1 %replayed, label %unlock, label %plainly
plainly:
  %params = load ptr, ptr %graph->parameters
  %plain.rc = call i32 @launch_plainly(ptr %handle, ptr %params, <3 x i32> %grid, ptr %stream)
  br label %unlock
unlock:
  %held.rc = phi i32 [%map.rc, %forget], [0, %go], [%plain.rc, %plainly]
  store atomic i32 0, ptr %graph->lock release, align 4
  br label %launched
launched:
  %rc = phi i32 [%aside.rc, %aside], [%held.rc, %unlock]
  %failed.rc = icmp ne i32 %rc, 0
  %error = load i64, ptr %handle->error
  %plain = icmp eq i64 %error, 0
  %over = or i1 %failed.rc, %plain
  br i1 %over, label %done, label %asserts
done:
  ret i32 %rc
asserts: ; what a graph records cannot be waited for: the device's synchronize looks at the buffer
  %recorded = call i1 @is_recorded(ptr %stream)
  br i1 %recorded, label %done, label %wait
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
  br i1 %held, label %done, label %failed
failed: ; the next failure is to be seen as well
  %cleared = call i32 @cuMemsetD32Async(i64 %error, i32 0, i64 4, ptr %stream)
  %settled = call i32 @cuStreamSynchronize(ptr %stream)
  ret i32 2
bad:
  %number = phi i32 [%waited, %wait], [%looked, %look]
  %bad.rc = add i32 %number, $DRIVER$
  ret i32 %bad.rc
}

define internal i32 @launch_plainly(ptr %handle, ptr %params, <3 x i32> %grid, ptr %stream) {
  %config = alloca [<config> x i8], align 8
  %copied = call ptr @memcpy(ptr %config, ptr %handle->config, i64 <config>)
  store <3 x i32> %grid, ptr %config->grid, align 4
  store ptr %stream, ptr %config->stream
  %function = load ptr, ptr %handle->function
  %rc = call i32 @cuLaunchKernelEx(ptr %config, ptr %function, ptr %params, ptr null)
  %ok = icmp eq i32 %rc, 0
  %bad.rc = add i32 %rc, $DRIVER$
  %code = select i1 %ok, i32 0, i32 %bad.rc
  ret i32 %code
}

; With parameters of its own: one address per slot and per tensor map, and that of the address of the
; buffer for assertions.
define internal i32 @launch_aside(ptr %handle, ptr %slots, i64 %n, <3 x i32> %grid, ptr %stream) {
  %maps.i = load i32, ptr %handle->map_count
  %maps.n = zext i32 %maps.i to i64
  %given = add i64 %n, %maps.n
  %room = add i64 %given, 1
  %params = alloca ptr, i64 %room
  %maps = alloca [128 x i8], i64 %maps.n, align 64
  call void @addresses(ptr %slots, i64 8, i64 %n, ptr %params)
  %after = getelementptr ptr, ptr %params, i64 %n
  call void @addresses(ptr %maps, i64 128, i64 %maps.n, ptr %after)
  %last.p = getelementptr ptr, ptr %params, i64 %given
  store ptr %handle->error, ptr %last.p
  %map.rc = call i32 @encode_maps(ptr %handle, ptr %slots, ptr %maps)
  %map.ok = icmp eq i32 %map.rc, 0
  br i1 %map.ok, label %go, label %bad
go:
  %rc = call i32 @launch_plainly(ptr %handle, ptr %params, <3 x i32> %grid, ptr %stream)
  ret i32 %rc
bad:
  ret i32 %map.rc
}

; Whether a graph records what the stream is told, or nothing may be asked of it.
define internal i1 @is_recorded(ptr %stream) {
  %state.p = alloca i32
  store i32 0, ptr %state.p
  %asked = call i32 @cuStreamIsCapturing(ptr %stream, ptr %state.p)
  %state = load i32, ptr %state.p
  %either = or i32 %asked, %state
  %recorded = icmp ne i32 %either, 0
  ret i1 %recorded
}

; Launches the kernel as a graph of its own, for which a driver writes far less to the device; says
; whether it did. Where the stream is another one or is recorded, a launch is to go the plain way.
define internal i1 @replay(ptr %graph, ptr %stream) {
entry:
  %own.stream = load ptr, ptr %graph->stream
  %own = icmp eq ptr %own.stream, %stream
  %others = load i32, ptr %graph->others
  %others.1 = add i32 %others, 1
  %others.now = select i1 %own, i32 0, i32 %others.1
  store i32 %others.now, ptr %graph->others
  br i1 %own, label %ask, label %other
other: ; a stream that launches the kernel often gets the graph
  %often = icmp sgt i32 %others.now, $OFTEN$
  br i1 %often, label %move, label %no
move:
  store i32 0, ptr %graph->others
  call void @move_graph(ptr %graph, ptr %stream)
  br label %no
ask:
  %launchable = load ptr, ptr %graph->launchable
  %told = load i32, ptr %graph->told
  %recorded = call i1 @is_recorded(ptr %stream)
  br i1 %recorded, label %no, label %inform
inform:
  %informed = icmp ne i32 %told, 0
  br i1 %informed, label %go, label %tell
tell:
  %node = load ptr, ptr %graph->node
  %rc = call i32 @cuGraphExecKernelNodeSetParams(ptr %launchable, ptr %node, ptr %graph)
  %ok = icmp eq i32 %rc, 0
  %ok.i = zext i1 %ok to i32
  store i32 %ok.i, ptr %graph->told
  br i1 %ok, label %go, label %no
go:
  %launch.rc = call i32 @cuGraphLaunch(ptr %launchable, ptr %stream)
  %launched = icmp eq i32 %launch.rc, 0
  ret i1 %launched
no:
  ret i1 false
}

; Gives the graph to a stream, if what it launches is as if it were launched plainly there: a graph
; has priority and context of its own (none for kernels that go the plain way always). It is made for
; the first such stream.
define internal void @move_graph(ptr %graph, ptr %stream) {
entry:
  %priority.p = alloca i32
  %context.p = alloca ptr
  %mode = alloca i32
  %asked = call i32 @cuStreamGetPriority(ptr %stream, ptr %priority.p)
  %asked.too = call i32 @cuStreamGetCtx(ptr %stream, ptr %context.p)
  %refused = or i32 %asked, %asked.too
  %heard = icmp eq i32 %refused, 0
  br i1 %heard, label %judge, label %no
judge:
  %priority = load i32, ptr %priority.p
  %context = load ptr, ptr %context.p
  %wanted = load ptr, ptr %graph->context
  %usual = icmp eq i32 %priority, 0
  %here = icmp eq ptr %context, %wanted
  %fits = and i1 %usual, %here
  br i1 %fits, label %look, label %no
look:
  %made = load ptr, ptr %graph->launchable
  %missing = icmp eq ptr %made, null
  br i1 %missing, label %make, label %yes
make: ; which other threads that record graphs do not forbid in this mode
  store i32 2, ptr %mode
  %relaxed = call i32 @cuThreadExchangeStreamCaptureMode(ptr %mode)
  %rc.1 = call i32 @cuGraphCreate(ptr %graph->graph, i32 0)
  %new = load ptr, ptr %graph->graph
  %rc.2 = call i32 @cuGraphAddKernelNode(ptr %graph->node, ptr %new, ptr null, i64 0, ptr %graph)
  %added = icmp eq i32 %rc.2, 0
  %whole = select i1 %added, ptr %new, ptr null
  %rc.3 = call i32 @cuGraphInstantiateWithFlags(ptr %graph->launchable, ptr %whole, i64 0)
  %restored = call i32 @cuThreadExchangeStreamCaptureMode(ptr %mode)
  %ready = icmp eq i32 %rc.3, 0
  br i1 %ready, label %yes, label %never
never: ; or in two thousand million launches
  store i32 -2147483648, ptr %graph->others
  br label %no
yes:
  store ptr %stream, ptr %graph->stream
  br label %no
no:
  ret void
}

define internal i32 @encode_maps(ptr %handle, ptr %slots, ptr %maps) {
entry:
  %count = load i32, ptr %handle->map_count
  %records = load ptr, ptr %handle->maps
  br label %each
each:
  %j = phi i32 [0, %entry], [%j.next, %next]
  %left = icmp ult i32 %j, %count
  br i1 %left, label %encode, label %done
encode:
  %record = getelementptr [<map> x i8], ptr %records, i32 %j
  %to = getelementptr [128 x i8], ptr %maps, i32 %j
  %rc = call i32 @encode_map(ptr %record, ptr %slots, ptr %to)
  %ok = icmp eq i32 %rc, 0
  br i1 %ok, label %next, label %bad
next:
  %j.next = add i32 %j, 1
  br label %each
bad:
  store i32 %j, ptr %handle->failure
  %bad.rc = add i32 %rc, $MAP$
  ret i32 %bad.rc
done:
  ret i32 0
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
