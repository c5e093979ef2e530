; ---- workers keep off the launcher's processor (Linux)
;
; A launcher works on its own job, so a worker that is woken onto the same processor halves both. The
; kernel does that where every processor is busy: for some 100 ms after another library's call, say,
; whose threads still spin. The workers' affinity leaves the launcher's processor out; it is changed
; only when the launcher has moved, and only if there is a processor for every thread.

@allowed = internal global [16 x i64] zeroinitializer, align 64

declare i32 @sched_getcpu()
declare i32 @sched_getaffinity(i32, i64, ptr)
declare i32 @pthread_setaffinity_np(i64, i64, ptr)
declare i64 @llvm.ctpop.i64(i64)

; Remember the processors that the process may use.
define internal void @learn_processors() {
entry:
  %rc = call i32 @sched_getaffinity(i32 0, i64 128, ptr @allowed)
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %i.next, %next ]
  %n = phi i32 [ 0, %entry ], [ %n.next, %next ]
  %word.p = getelementptr i64, ptr @allowed, i64 %i
  %word = load i64, ptr %word.p
  %bits = call i64 @llvm.ctpop.i64(i64 %word)
  %bits.32 = trunc i64 %bits to i32
  %n.next = add i32 %n, %bits.32
  %i.next = add i64 %i, 1
  %more = icmp ult i64 %i.next, 16
  br i1 %more, label %next, label %done
done:
  %cpus.p = getelementptr i8, ptr @state, i64 <state.cpus>
  store i32 %n.next, ptr %cpus.p
  ret void
}

; Called with `busy` held, after the workers were started.
define internal void @keep_apart() {
entry:
  %mask = alloca [16 x i64], align 8
  %kept_off.p = getelementptr i8, ptr @state, i64 <state.kept_off>
  %kept_off = load i32, ptr %kept_off.p
  %cpu = call i32 @sched_getcpu()
  %same = icmp eq i32 %cpu, %kept_off
  br i1 %same, label %done, label %check
check:
  %known = icmp ult i32 %cpu, 1024
  %threads.p = getelementptr i8, ptr @state, i64 <state.threads>
  %threads = load i32, ptr %threads.p
  %cpus.p = getelementptr i8, ptr @state, i64 <state.cpus>
  %cpus = load i32, ptr %cpus.p
  %room = icmp sle i32 %threads, %cpus
  %change = and i1 %known, %room
  br i1 %change, label %make, label %done
make:
  call void @llvm.memcpy.p0.p0.i64(ptr %mask, ptr @allowed, i64 128, i1 false)
  %index = lshr i32 %cpu, 6
  %word.p = getelementptr i64, ptr %mask, i32 %index
  %shift.32 = and i32 %cpu, 63
  %shift = zext i32 %shift.32 to i64
  %bit = shl i64 1, %shift
  %others = xor i64 %bit, -1
  %word = load i64, ptr %word.p
  %left = and i64 %word, %others
  store i64 %left, ptr %word.p
  %ids.p = getelementptr i8, ptr @state, i64 <state.ids>
  %ids = load ptr, ptr %ids.p
  %started.p = getelementptr i8, ptr @state, i64 <state.started>
  %started = load i32, ptr %started.p
  br label %next
next:
  %i = phi i32 [ 0, %make ], [ %i.next, %set ]
  %more = icmp slt i32 %i, %started
  br i1 %more, label %set, label %keep
set:
  %i64 = zext i32 %i to i64
  %id.p = getelementptr i64, ptr %ids, i64 %i64
  %id = load i64, ptr %id.p
  %rc = call i32 @pthread_setaffinity_np(i64 %id, i64 128, ptr %mask)
  %i.next = add i32 %i, 1
  br label %next
keep:
  store i32 %cpu, ptr %kept_off.p
  br label %done
done:
  ret void
}

declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
