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
declare ptr @PyLong_FromLong(i64)
declare ptr @PyLong_AsVoidPtr(ptr)
declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)
declare ptr @PyErr_Occurred()
declare void @Py_DecRef(ptr)

; 0: launched; 2: an assertion failed; 4: the grid is too large; 5: it does not divide into clusters;
; $DRIVER$ + n: the driver's error n. What failed stands in the handle.
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

parameters: ; one address per slot, and that of the assertion buffer's address
  %room = add i64 %n, 1
  %params = alloca ptr, i64 %room
  %config = alloca [<config.size> x i8], align 8
  %out = alloca ptr
  br label %each
each:
  %i = phi i64 [0, %parameters], [%i.next, %slot]
  %left = icmp ult i64 %i, %n
  br i1 %left, label %slot, label %last
slot:
  %slot.p = getelementptr i64, ptr %slots, i64 %i
  %param.p = getelementptr ptr, ptr %params, i64 %i
  store ptr %slot.p, ptr %param.p
  %i.next = add i64 %i, 1
  br label %each
last:
  %error.p = getelementptr i8, ptr %handle, i64 <handle.error>
  %last.p = getelementptr ptr, ptr %params, i64 %n
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
  %driver.n = phi i32 [%rc, %launch], [%waited, %wait], [%copied, %look]
  %driver.rc = add i32 %driver.n, $DRIVER$
  br label %leave.bad
leave.bad:
  %bad = phi i32 [%driver.rc, %driver.bad], [2, %failed]
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
