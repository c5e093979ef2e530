; The thread pool that runs the programs of a launch; `pool_ir.pool_text` fills in the numbers.
;
; A launch fills a `job` record on its own stack. One program, or a grid that earlier launches showed
; to be shorter than waking a thread, runs on the caller's thread. Otherwise the launcher takes
; `state.busy` (a second launcher that finds it taken runs its grid itself), publishes the job, raises
; `state.epoch` and wakes as many sleeping workers as can help. Everybody, the launcher too, takes
; chunks of linear program ids from `job.next`.
;
; The launcher closes the job (`state.open` = 0) when no chunk is left, and waits until no worker is
; inside (`state.running` == 0). A worker that comes late raises `running` first and looks at `open`
; second; the launcher writes `open` first and looks at `running` second, all sequentially consistent:
; so no worker ever touches a job that has ended, and none is waited for needlessly.
;
; A worker that has nothing to do spins for a while and then sleeps on a condition variable. It counts
; itself in `sleepers` before it looks at `epoch` a last time; a launcher raises `epoch` before it looks
; at `sleepers`: so no call is missed.
;
; `handle.cost` remembers the nanoseconds of one program. Chunks are cut so that taking one costs little
; beside running it, and so that enough of them remain to balance the threads.
;
; Every thread owns an arena: a 64-byte header (`arena`), then the scratch memory that programs see.

@state = global [<state.size> x i8] zeroinitializer, align 64

declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_join(i64, ptr)
declare i32 @pthread_mutex_init(ptr, ptr)
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_init(ptr, ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_signal(ptr)
declare i32 @pthread_cond_broadcast(ptr)
declare i32 @pthread_key_create(ptr, ptr)
declare ptr @pthread_getspecific(i64)
declare i32 @pthread_setspecific(i64, ptr)
declare i32 @pthread_sigmask(i32, ptr, ptr)
declare i32 @sigfillset(ptr)
declare i32 @sigdelset(ptr, i32)
declare i32 @posix_memalign(ptr, i64, i64)
declare ptr @malloc(i64)
declare ptr @realloc(ptr, i64)
declare void @free(ptr)
declare i32 @sched_yield()
declare i32 @clock_gettime(i32, ptr)
declare {i64, i1} @llvm.umul.with.overflow.i64(i64, i64)
declare i64 @llvm.fptosi.sat.i64.f64(double)
declare i64 @llvm.smax.i64(i64, i64)
declare i64 @llvm.smin.i64(i64, i64)
declare i32 @llvm.smin.i32(i32, i32)
$PAUSE_DECLARE$
$FP_DECLARE$

; ---- memory

; The scratch memory of an arena of at least `bytes`; `old` is the arena so far or null.
define internal ptr @grow(ptr %old, i64 %bytes) {
entry:
  %slot = alloca ptr
  %none = icmp eq ptr %old, null
  br i1 %none, label %new, label %check
check:
  %have.p = getelementptr i8, ptr %old, i64 <arena.bytes>
  %have = load i64, ptr %have.p
  %enough = icmp sge i64 %have, %bytes
  br i1 %enough, label %done, label %drop
drop:
  call void @free(ptr %old)
  br label %new
new:
  %room = call i64 @llvm.smax.i64(i64 %bytes, i64 16320)
  %all = add i64 %room, <arena.header>
  %rc = call i32 @posix_memalign(ptr %slot, i64 64, i64 %all)
  %bad = icmp ne i32 %rc, 0
  br i1 %bad, label %fail, label %init
init:
  %fresh = load ptr, ptr %slot
  store ptr null, ptr %fresh
  %bytes.p = getelementptr i8, ptr %fresh, i64 <arena.bytes>
  store i64 %room, ptr %bytes.p
  %fail.p = getelementptr i8, ptr %fresh, i64 <arena.fail>
  store ptr null, ptr %fail.p
  br label %done
done:
  %arena = phi ptr [ %old, %check ], [ %fresh, %init ]
  ret ptr %arena
fail:
  ret ptr null
}

; The calling thread's own arena with room for `bytes`, or null.
define internal ptr @own_arena(i64 %bytes) {
  %key.p = getelementptr i8, ptr @state, i64 <state.key>
  %key = load i64, ptr %key.p
  %old = call ptr @pthread_getspecific(i64 %key)
  %arena = call ptr @grow(ptr %old, i64 %bytes)
  %same = icmp eq ptr %arena, %old
  br i1 %same, label %done, label %keep
keep:
  %rc = call i32 @pthread_setspecific(i64 %key, ptr %arena)
  br label %done
done:
  ret ptr %arena
}

define internal i64 @now() {
  %t = alloca [2 x i64]
  %rc = call i32 @clock_gettime(i32 $CLOCK$, ptr %t)
  %s = load i64, ptr %t
  %ns.p = getelementptr i8, ptr %t, i64 8
  %ns = load i64, ptr %ns.p
  %big = mul i64 %s, 1000000000
  %sum = add i64 %big, %ns
  ret i64 %sum
}

; ---- running programs

; Take chunks until none is left, or until `limit` programs were run here; returns their number.
define internal i64 @run_chunks(ptr %job, ptr %scratch, i64 %limit) noinline {
entry:
  %entry.p = getelementptr i8, ptr %job, i64 <job.entry>
  %fn = load ptr, ptr %entry.p
  %slots.p = getelementptr i8, ptr %job, i64 <job.slots>
  %slots = load ptr, ptr %slots.p
  %gx.p = getelementptr i8, ptr %job, i64 <job.gx>
  %gx = load i32, ptr %gx.p
  %gy.p = getelementptr i8, ptr %job, i64 <job.gy>
  %gy = load i32, ptr %gy.p
  %gz.p = getelementptr i8, ptr %job, i64 <job.gz>
  %gz = load i32, ptr %gz.p
  %total.p = getelementptr i8, ptr %job, i64 <job.total>
  %total = load i64, ptr %total.p
  %chunk.p = getelementptr i8, ptr %job, i64 <job.chunk>
  %chunk = load i64, ptr %chunk.p
  %next.p = getelementptr i8, ptr %job, i64 <job.next>
  %rc.p = getelementptr i8, ptr %job, i64 <job.rc>
  %gx64 = zext i32 %gx to i64
  %gy64 = zext i32 %gy to i64
  br label %take
take:
  %ran = phi i64 [ 0, %entry ], [ %ran.new, %taken ]
  %first = atomicrmw add ptr %next.p, i64 %chunk seq_cst
  %none = icmp sge i64 %first, %total
  br i1 %none, label %done, label %start
start:
  %stop.raw = add i64 %first, %chunk
  %stop = call i64 @llvm.smin.i64(i64 %stop.raw, i64 %total)
  %x0.64 = urem i64 %first, %gx64
  %rows = udiv i64 %first, %gx64
  %y0.64 = urem i64 %rows, %gy64
  %z0.64 = udiv i64 %rows, %gy64
  %x0 = trunc i64 %x0.64 to i32
  %y0 = trunc i64 %y0.64 to i32
  %z0 = trunc i64 %z0.64 to i32
  br label %program
program:
  %i = phi i64 [ %first, %start ], [ %i.next, %program ]
  %x = phi i32 [ %x0, %start ], [ %x.next, %program ]
  %y = phi i32 [ %y0, %start ], [ %y.next, %program ]
  %z = phi i32 [ %z0, %start ], [ %z.next, %program ]
  call void %fn(ptr %slots, ptr %scratch, i32 %x, i32 %y, i32 %z, i32 %gx, i32 %gy, i32 %gz)
  %i.next = add i64 %i, 1
  %x.1 = add i32 %x, 1
  %x.wrap = icmp eq i32 %x.1, %gx
  %x.next = select i1 %x.wrap, i32 0, i32 %x.1
  %y.1 = add i32 %y, 1
  %y.wrap = icmp eq i32 %y.1, %gy
  %y.carry = select i1 %y.wrap, i32 0, i32 %y.1
  %y.next = select i1 %x.wrap, i32 %y.carry, i32 %y
  %z.1 = add i32 %z, 1
  %both = and i1 %x.wrap, %y.wrap
  %z.next = select i1 %both, i32 %z.1, i32 %z
  %last = icmp eq i64 %i.next, %stop
  %rc = load atomic i32, ptr %rc.p monotonic, align 4
  %failed = icmp ne i32 %rc, 0
  %end = or i1 %last, %failed
  br i1 %end, label %taken, label %program
taken:
  %size = sub i64 %stop, %first
  %ran.new = add i64 %ran, %size
  %enough = icmp sge i64 %ran.new, %limit
  br i1 %enough, label %done, label %take
done:
  %result = phi i64 [ %ran, %take ], [ %ran.new, %taken ]
  ret i64 %result
}

; Run chunks with this arena, under the default floating-point mode.
define internal i64 @work(ptr %job, ptr %arena, i64 %limit) {
entry:
  store ptr %job, ptr %arena
  %scratch = getelementptr i8, ptr %arena, i64 <arena.header>
$FP_CONTROL$
  %n = call i64 @run_chunks(ptr %job, ptr %scratch, i64 %limit)
  ret i64 %n
}

; Make everybody find that no chunk is left, and remember why.
define internal void @abandon(ptr %job, i32 %why) {
  %rc.p = getelementptr i8, ptr %job, i64 <job.rc>
  %old = cmpxchg ptr %rc.p, i32 0, i32 %why seq_cst seq_cst
  %total.p = getelementptr i8, ptr %job, i64 <job.total>
  %total = load i64, ptr %total.p
  %next.p = getelementptr i8, ptr %job, i64 <job.next>
  store atomic i64 %total, ptr %next.p seq_cst, align 8
  ret void
}

; Run everything that is left, and learn from the clock what one program costs.
define internal void @learn(ptr %handle, ptr %job, ptr %arena) {
entry:
  %start = call i64 @now()
  %n = call i64 @work(ptr %job, ptr %arena, i64 9223372036854775807)
  %none = icmp eq i64 %n, 0
  br i1 %none, label %done, label %note
note:
  %end = call i64 @now()
  %ns = sub i64 %end, %start
  %ns.f = sitofp i64 %ns to double
  %n.f = sitofp i64 %n to double
  %cost = fdiv double %ns.f, %n.f
  %cost.p = getelementptr i8, ptr %handle, i64 <handle.cost>
  store double %cost, ptr %cost.p
  br label %done
done:
  ret void
}

; ---- workers

define internal void @block_signals() {
  %set = alloca [16 x i64], align 8
  %r0 = call i32 @sigfillset(ptr %set)
  %r1 = call i32 @sigdelset(ptr %set, i32 4)
  %r2 = call i32 @sigdelset(ptr %set, i32 $SIGBUS$)
  %r3 = call i32 @sigdelset(ptr %set, i32 8)
  %r4 = call i32 @sigdelset(ptr %set, i32 11)
  %r5 = call i32 @pthread_sigmask(i32 $SET_MASK$, ptr %set, ptr null)
  ret void
}

define internal ptr @worker(ptr %nothing) {
entry:
  call void @block_signals()
  %open.p = getelementptr i8, ptr @state, i64 <state.open>
  %running.p = getelementptr i8, ptr @state, i64 <state.running>
  %sleepers.p = getelementptr i8, ptr @state, i64 <state.sleepers>
  %stop.p = getelementptr i8, ptr @state, i64 <state.stop>
  %job.p = getelementptr i8, ptr @state, i64 <state.job>
  %mutex = getelementptr i8, ptr @state, i64 <state.mutex>
  %condition = getelementptr i8, ptr @state, i64 <state.condition>
  br label %idle
idle:
  %seen = phi i32 [ 0, %entry ], [ %epoch, %left ]
  %arena = phi ptr [ null, %entry ], [ %arena.new, %left ]
  br label %spin
spin:
  %turn = phi i32 [ 0, %idle ], [ %turn.next, %polite ], [ %turn.next, %yield ]
  %epoch.spin = load atomic i32, ptr @state seq_cst, align 4
  %fresh = icmp ne i32 %epoch.spin, %seen
  br i1 %fresh, label %join, label %pause
pause:
  $PAUSE$
  %turn.next = add i32 %turn, 1
  %tired = icmp eq i32 %turn.next, $SPINS$
  br i1 %tired, label %bed, label %polite
polite:
  ; On a crowded machine the launcher itself may wait for this core.
  %rest = and i32 %turn.next, 31
  %share = icmp eq i32 %rest, 0
  br i1 %share, label %yield, label %spin
yield:
  %y = call i32 @sched_yield()
  br label %spin
bed:
  %l = call i32 @pthread_mutex_lock(ptr %mutex)
  %s0 = atomicrmw add ptr %sleepers.p, i32 1 seq_cst
  br label %sleep
sleep:
  %epoch.sleep = load atomic i32, ptr @state seq_cst, align 4
  %awake = icmp ne i32 %epoch.sleep, %seen
  br i1 %awake, label %rise, label %doze
doze:
  %w = call i32 @pthread_cond_wait(ptr %condition, ptr %mutex)
  br label %sleep
rise:
  %s1 = atomicrmw sub ptr %sleepers.p, i32 1 seq_cst
  %u = call i32 @pthread_mutex_unlock(ptr %mutex)
  br label %join
join:
  %epoch = phi i32 [ %epoch.spin, %spin ], [ %epoch.sleep, %rise ]
  %stop = load atomic i32, ptr %stop.p seq_cst, align 4
  %quit = icmp ne i32 %stop, 0
  br i1 %quit, label %exit, label %enter
enter:
  %r0 = atomicrmw add ptr %running.p, i32 1 seq_cst
  %open = load atomic i32, ptr %open.p seq_cst, align 4
  %late = icmp eq i32 %open, 0
  br i1 %late, label %left, label %prepare
prepare:
  %job = load ptr, ptr %job.p
  %bytes.p = getelementptr i8, ptr %job, i64 <job.scratch>
  %bytes = load i64, ptr %bytes.p
  %grown = call ptr @grow(ptr %arena, i64 %bytes)
  %poor = icmp eq ptr %grown, null
  br i1 %poor, label %left, label %run
run:
  %n = call i64 @work(ptr %job, ptr %grown, i64 9223372036854775807)
  br label %left
left:
  %arena.new = phi ptr [ %arena, %enter ], [ null, %prepare ], [ %grown, %run ]
  %r1 = atomicrmw sub ptr %running.p, i32 1 seq_cst
  br label %idle
exit:
  call void @free(ptr %arena)
  ret ptr null
}

; Start the missing workers; called with `busy` held. Failure to start one means fewer workers.
define internal void @start_workers() {
entry:
  %started.p = getelementptr i8, ptr @state, i64 <state.started>
  %started = load i32, ptr %started.p
  %ids.p = getelementptr i8, ptr @state, i64 <state.ids>
  %threads.p = getelementptr i8, ptr @state, i64 <state.threads>
  %threads = load i32, ptr %threads.p
  %want = sub i32 %threads, 1
  %any = icmp slt i32 %started, %want
  br i1 %any, label %room, label %done
room:
  %n64 = zext i32 %want to i64
  %ids.bytes = mul i64 %n64, 8
  %ids.old = load ptr, ptr %ids.p
  %ids = call ptr @realloc(ptr %ids.old, i64 %ids.bytes)
  %poor = icmp eq ptr %ids, null
  br i1 %poor, label %done, label %keep
keep:
  store ptr %ids, ptr %ids.p
  br label %next
next:
  %i = phi i32 [ %started, %keep ], [ %i.next, %made ]
  %more = icmp slt i32 %i, %want
  br i1 %more, label %make, label %done
make:
  %i64 = zext i32 %i to i64
  %id = getelementptr i64, ptr %ids, i64 %i64
  %rc = call i32 @pthread_create(ptr %id, ptr null, ptr @worker, ptr null)
  %ok = icmp eq i32 %rc, 0
  br i1 %ok, label %made, label %done
made:
  %i.next = add i32 %i, 1
  store atomic i32 %i.next, ptr %started.p seq_cst, align 4
  %kept_off.p = getelementptr i8, ptr @state, i64 <state.kept_off>
  store i32 -1, ptr %kept_off.p
  br label %next
done:
  ret void
}

define internal void @lock(ptr %word) {
entry:
  br label %try
try:
  %turn = phi i32 [ 0, %entry ], [ %turn.next, %paused ]
  %old = atomicrmw xchg ptr %word, i32 1 seq_cst
  %free = icmp eq i32 %old, 0
  br i1 %free, label %done, label %again
again:
  $PAUSE$
  %turn.next = add i32 %turn, 1
  %rest = and i32 %turn.next, 63
  %tired = icmp eq i32 %rest, 0
  br i1 %tired, label %yield, label %paused
yield:
  %rc = call i32 @sched_yield()
  br label %paused
paused:
  br label %try
done:
  ret void
}

; ---- entry points

; Call once, before anything else.
define i32 @pool_init(i32 %threads, ptr %on_print) {
  %threads.p = getelementptr i8, ptr @state, i64 <state.threads>
  store i32 %threads, ptr %threads.p
  %on_print.p = getelementptr i8, ptr @state, i64 <state.on_print>
  store ptr %on_print, ptr %on_print.p
  call void @learn_processors()
  call void @pool_forked()
  %key.p = getelementptr i8, ptr @state, i64 <state.key>
  %rc = call i32 @pthread_key_create(ptr %key.p, ptr @free)
  ret i32 %rc
}

; The child of a fork has no workers, whatever the parent's pool was doing.
define void @pool_forked() {
  %running.p = getelementptr i8, ptr @state, i64 <state.running>
  store i32 0, ptr %running.p
  %open.p = getelementptr i8, ptr @state, i64 <state.open>
  store i32 0, ptr %open.p
  %started.p = getelementptr i8, ptr @state, i64 <state.started>
  store i32 0, ptr %started.p
  %sleepers.p = getelementptr i8, ptr @state, i64 <state.sleepers>
  store i32 0, ptr %sleepers.p
  %stop.p = getelementptr i8, ptr @state, i64 <state.stop>
  store i32 0, ptr %stop.p
  %mutex = getelementptr i8, ptr @state, i64 <state.mutex>
  %m = call i32 @pthread_mutex_init(ptr %mutex, ptr null)
  %condition = getelementptr i8, ptr @state, i64 <state.condition>
  %c = call i32 @pthread_cond_init(ptr %condition, ptr null)
  %busy.p = getelementptr i8, ptr @state, i64 <state.busy>
  store atomic i32 0, ptr %busy.p seq_cst, align 4
  ret void
}

; End all workers and set how many threads the next launch starts.
define void @pool_resize(i32 %threads) {
entry:
  %busy.p = getelementptr i8, ptr @state, i64 <state.busy>
  call void @lock(ptr %busy.p)
  %stop.p = getelementptr i8, ptr @state, i64 <state.stop>
  store atomic i32 1, ptr %stop.p seq_cst, align 4
  %mutex = getelementptr i8, ptr @state, i64 <state.mutex>
  %condition = getelementptr i8, ptr @state, i64 <state.condition>
  %l = call i32 @pthread_mutex_lock(ptr %mutex)
  %e = atomicrmw add ptr @state, i32 1 seq_cst
  %b = call i32 @pthread_cond_broadcast(ptr %condition)
  %u = call i32 @pthread_mutex_unlock(ptr %mutex)
  %started.p = getelementptr i8, ptr @state, i64 <state.started>
  %started = load i32, ptr %started.p
  %ids.p = getelementptr i8, ptr @state, i64 <state.ids>
  %ids = load ptr, ptr %ids.p
  br label %next
next:
  %i = phi i32 [ 0, %entry ], [ %i.next, %join ]
  %more = icmp slt i32 %i, %started
  br i1 %more, label %join, label %done
join:
  %i64 = zext i32 %i to i64
  %id.p = getelementptr i64, ptr %ids, i64 %i64
  %id = load i64, ptr %id.p
  %rc = call i32 @pthread_join(i64 %id, ptr null)
  %i.next = add i32 %i, 1
  br label %next
done:
  store i32 0, ptr %started.p
  store atomic i32 0, ptr %stop.p seq_cst, align 4
  %threads.p = getelementptr i8, ptr @state, i64 <state.threads>
  store i32 %threads, ptr %threads.p
  store atomic i32 0, ptr %busy.p seq_cst, align 4
  ret void
}

; The calling thread's arena: `arena.fail` tells about its last launch.
define ptr @pool_last_arena() {
  %arena = call ptr @own_arena(i64 0)
  ret ptr %arena
}

; Print records go to Python when the launch is over.
define internal void @flush_prints(ptr %job, ptr %records) noinline {
entry:
  %count.p = getelementptr i8, ptr %job, i64 <job.count>
  %count = load i64, ptr %count.p
  %on_print.p = getelementptr i8, ptr @state, i64 <state.on_print>
  %on_print = load ptr, ptr %on_print.p
  %none = icmp eq ptr %on_print, null
  br i1 %none, label %done, label %tell
tell:
  call void %on_print(ptr %records, i64 %count)
  br label %done
done:
  call void @free(ptr %records)
  ret void
}

; Wake at most `want` sleepers.
define internal void @wake(i32 %want) {
entry:
  %sleepers.p = getelementptr i8, ptr @state, i64 <state.sleepers>
  %asleep = load atomic i32, ptr %sleepers.p seq_cst, align 4
  %none = icmp eq i32 %asleep, 0
  br i1 %none, label %done, label %call
call:
  %mutex = getelementptr i8, ptr @state, i64 <state.mutex>
  %condition = getelementptr i8, ptr @state, i64 <state.condition>
  %l = call i32 @pthread_mutex_lock(ptr %mutex)
  %all = icmp sge i32 %want, %asleep
  br i1 %all, label %everybody, label %some
everybody:
  %b = call i32 @pthread_cond_broadcast(ptr %condition)
  br label %called
some:
  %i = phi i32 [ 0, %call ], [ %i.next, %some ]
  %s = call i32 @pthread_cond_signal(ptr %condition)
  %i.next = add i32 %i, 1
  %enough = icmp eq i32 %i.next, %want
  br i1 %enough, label %called, label %some
called:
  %u = call i32 @pthread_mutex_unlock(ptr %mutex)
  br label %done
done:
  ret void
}

; Spread what is left of the job over the pool; false if another launch has the pool.
define internal i1 @share(ptr %handle, ptr %job, ptr %arena, i64 %chunks) {
entry:
  %busy.p = getelementptr i8, ptr @state, i64 <state.busy>
  %taken = cmpxchg ptr %busy.p, i32 0, i32 1 seq_cst seq_cst
  %mine = extractvalue { i32, i1 } %taken, 1
  br i1 %mine, label %begin, label %refuse
refuse:
  ret i1 false
begin:
  call void @start_workers()
  call void @keep_apart()
  %job.p = getelementptr i8, ptr @state, i64 <state.job>
  store ptr %job, ptr %job.p
  %open.p = getelementptr i8, ptr @state, i64 <state.open>
  store atomic i32 1, ptr %open.p seq_cst, align 4
  %e = atomicrmw add ptr @state, i32 1 seq_cst
  %others = sub i64 %chunks, 1
  %others.s = call i64 @llvm.smin.i64(i64 %others, i64 65536)
  %others.32 = trunc i64 %others.s to i32
  call void @wake(i32 %others.32)
  call void @learn(ptr %handle, ptr %job, ptr %arena)
  store atomic i32 0, ptr %open.p seq_cst, align 4
  %running.p = getelementptr i8, ptr @state, i64 <state.running>
  br label %wait
wait:
  %turn = phi i32 [ 0, %begin ], [ %turn.next, %pause ], [ %turn.next, %yield ]
  %running = load atomic i32, ptr %running.p seq_cst, align 4
  %alone = icmp eq i32 %running, 0
  br i1 %alone, label %over, label %again
again:
  $PAUSE$
  %turn.next = add i32 %turn, 1
  %patient = icmp ult i32 %turn.next, $SPINS$
  br i1 %patient, label %pause, label %yield
pause:
  br label %wait
yield:
  %rc = call i32 @sched_yield()
  br label %wait
over:
  store atomic i32 0, ptr %busy.p seq_cst, align 4
  ret i1 true
}

; Least nanoseconds of work that are worth calling the workers for.
define internal double @worth() {
  %sleepers.p = getelementptr i8, ptr @state, i64 <state.sleepers>
  %asleep = load atomic i32, ptr %sleepers.p monotonic, align 4
  %started.p = getelementptr i8, ptr @state, i64 <state.started>
  %started = load atomic i32, ptr %started.p monotonic, align 4
  %all = icmp sge i32 %asleep, %started
  %ns = select i1 %all, double $ASLEEP$, double $AWAKE$
  ret double %ns
}

; A grid of several programs, with the pool.
define internal void @run_grid(ptr %handle, ptr %job, ptr %arena, i32 %threads) noinline {
entry:
  %total.p = getelementptr i8, ptr %job, i64 <job.total>
  %total = load i64, ptr %total.p
  %chunk.p = getelementptr i8, ptr %job, i64 <job.chunk>
  %cost.p = getelementptr i8, ptr %handle, i64 <handle.cost>
  %cost = load double, ptr %cost.p
  %known = fcmp ogt double %cost, 0.0
  %threads64 = zext i32 %threads to i64
  %parts = shl i64 %threads64, 2
  %largest.0 = udiv i64 %total, %parts
  %largest = call i64 @llvm.smax.i64(i64 %largest.0, i64 1)
  %fine.0 = lshr i64 %largest, 2
  %fine = call i64 @llvm.smax.i64(i64 %fine.0, i64 1)
  %ideal.f = fdiv double $CHUNK$, %cost
  %ideal.i = call i64 @llvm.fptosi.sat.i64.f64(double %ideal.f)
  %ideal = call i64 @llvm.smax.i64(i64 %ideal.i, i64 1)
  %cut = call i64 @llvm.smin.i64(i64 %ideal, i64 %largest)
  %chunk = select i1 %known, i64 %cut, i64 %fine
  store i64 %chunk, ptr %chunk.p
  %total.f = uitofp i64 %total to double
  %work = fmul double %cost, %total.f
  %worth = call double @worth()
  %short.0 = fcmp olt double %work, %worth
  %short.1 = and i1 %known, %short.0
  br i1 %short.1, label %try, label %parallel
try:
  ; Expected to be short: run a part here, and believe it only if the clock agrees.
  %part.0 = lshr i64 %total, 3
  %part = call i64 @llvm.smax.i64(i64 %part.0, i64 1)
  store i64 %part, ptr %chunk.p
  %start = call i64 @now()
  %n = call i64 @work(ptr %job, ptr %arena, i64 %part)
  %end = call i64 @now()
  %spent.i = sub i64 %end, %start
  %spent = sitofp i64 %spent.i to double
  %long = fcmp ogt double %spent, %worth
  br i1 %long, label %surprise, label %alone
surprise:
  store i64 1, ptr %chunk.p
  br label %parallel
parallel:
  %chunk.now = load i64, ptr %chunk.p
  %chunks.0 = sub i64 %total, 1
  %chunks.1 = udiv i64 %chunks.0, %chunk.now
  %chunks = add i64 %chunks.1, 1
  %shared = call i1 @share(ptr %handle, ptr %job, ptr %arena, i64 %chunks)
  br i1 %shared, label %done, label %alone
alone:
  call void @learn(ptr %handle, ptr %job, ptr %arena)
  br label %done
done:
  ret void
}

define i32 @tegula_cpu_launch(ptr %handle, ptr %slots, i64 %nslots, i32 %gx, i32 %gy, i32 %gz,
                              ptr %stream) {
entry:
  %gx.yes = icmp sgt i32 %gx, 0
  %gy.yes = icmp sgt i32 %gy, 0
  %gz.yes = icmp sgt i32 %gz, 0
  %xy.yes = and i1 %gx.yes, %gy.yes
  %some = and i1 %xy.yes, %gz.yes
  br i1 %some, label %prepare, label %ok
prepare:
  %job = alloca [<job.size> x i8], align 64
  %entry.p = getelementptr i8, ptr %handle, i64 <handle.entry>
  %fn = load ptr, ptr %entry.p
  store ptr %fn, ptr %job
  %slots.p = getelementptr i8, ptr %job, i64 <job.slots>
  store ptr %slots, ptr %slots.p
  %scratch.h = getelementptr i8, ptr %handle, i64 <handle.scratch>
  %bytes = load i64, ptr %scratch.h
  %scratch.p = getelementptr i8, ptr %job, i64 <job.scratch>
  store i64 %bytes, ptr %scratch.p
  %gx.p = getelementptr i8, ptr %job, i64 <job.gx>
  store i32 %gx, ptr %gx.p
  %gy.p = getelementptr i8, ptr %job, i64 <job.gy>
  store i32 %gy, ptr %gy.p
  %gz.p = getelementptr i8, ptr %job, i64 <job.gz>
  store i32 %gz, ptr %gz.p
  %rc.p = getelementptr i8, ptr %job, i64 <job.rc>
  store i32 0, ptr %rc.p
  %prints.p = getelementptr i8, ptr %job, i64 <job.prints>
  store ptr null, ptr %prints.p
  %count.p = getelementptr i8, ptr %job, i64 <job.count>
  store i64 0, ptr %count.p
  %capacity.p = getelementptr i8, ptr %job, i64 <job.capacity>
  store i64 0, ptr %capacity.p
  %lock.p = getelementptr i8, ptr %job, i64 <job.lock>
  store i32 0, ptr %lock.p
  %next.p = getelementptr i8, ptr %job, i64 <job.next>
  store i64 0, ptr %next.p
  %gx64 = zext i32 %gx to i64
  %gy64 = zext i32 %gy to i64
  %gz64 = zext i32 %gz to i64
  %plane = mul i64 %gx64, %gy64
  %volume = call {i64, i1} @llvm.umul.with.overflow.i64(i64 %plane, i64 %gz64)
  %total = extractvalue {i64, i1} %volume, 0
  %over.u = extractvalue {i64, i1} %volume, 1
  %over.s = icmp slt i64 %total, 0
  %over = or i1 %over.u, %over.s
  br i1 %over, label %too_large, label %arena
arena:
  %total.p = getelementptr i8, ptr %job, i64 <job.total>
  store i64 %total, ptr %total.p
  %chunk.p = getelementptr i8, ptr %job, i64 <job.chunk>
  store i64 %total, ptr %chunk.p
  %own = call ptr @own_arena(i64 %bytes)
  %poor = icmp eq ptr %own, null
  br i1 %poor, label %no_memory, label %size
size:
  %threads.p = getelementptr i8, ptr @state, i64 <state.threads>
  %threads = load i32, ptr %threads.p
  %one = icmp eq i64 %total, 1
  %single = icmp sle i32 %threads, 1
  %here = or i1 %one, %single
  br i1 %here, label %serial, label %grid
serial:
  %n = call i64 @work(ptr %job, ptr %own, i64 9223372036854775807)
  br label %finish
grid:
  call void @run_grid(ptr %handle, ptr %job, ptr %own, i32 %threads)
  br label %finish
finish:
  %records = load ptr, ptr %prints.p
  %silent = icmp eq ptr %records, null
  br i1 %silent, label %judge, label %flush
flush:
  call void @flush_prints(ptr %job, ptr %records)
  br label %judge
judge:
  %rc = load i32, ptr %rc.p
  %good = icmp eq i32 %rc, 0
  br i1 %good, label %ok, label %bad
bad:
  %job.fail = getelementptr i8, ptr %job, i64 <job.fail_pid>
  %arena.fail_pid = getelementptr i8, ptr %own, i64 <arena.fail_pid>
  %pids = load [3 x i32], ptr %job.fail
  store [3 x i32] %pids, ptr %arena.fail_pid
  %message.p = getelementptr i8, ptr %job, i64 <job.fail>
  %message = load ptr, ptr %message.p
  %arena.fail = getelementptr i8, ptr %own, i64 <arena.fail>
  store ptr %message, ptr %arena.fail
  ret i32 %rc
ok:
  ret i32 0
no_memory:
  ret i32 1
too_large:
  ret i32 3
}

; ---- what kernels call

define void @tegula_cpu_assert_fail(ptr %scratch, ptr %message, i32 %x, i32 %y, i32 %z) cold {
entry:
  %arena = getelementptr i8, ptr %scratch, i64 -<arena.header>
  %job = load ptr, ptr %arena
  %lock.p = getelementptr i8, ptr %job, i64 <job.lock>
  call void @lock(ptr %lock.p)
  %rc.p = getelementptr i8, ptr %job, i64 <job.rc>
  %rc = load atomic i32, ptr %rc.p seq_cst, align 4
  %first = icmp eq i32 %rc, 0
  br i1 %first, label %record, label %done
record:
  %fail.p = getelementptr i8, ptr %job, i64 <job.fail>
  store ptr %message, ptr %fail.p
  %x.p = getelementptr i8, ptr %job, i64 <job.fail_pid>
  store i32 %x, ptr %x.p
  %y.p = getelementptr i8, ptr %x.p, i64 4
  store i32 %y, ptr %y.p
  %z.p = getelementptr i8, ptr %x.p, i64 8
  store i32 %z, ptr %z.p
  call void @abandon(ptr %job, i32 2)
  br label %done
done:
  store atomic i32 0, ptr %lock.p seq_cst, align 4
  ret void
}

define void @tegula_cpu_print(ptr %scratch, ptr %prefix, i32 %kind, i64 %bits, i32 %x, i32 %y,
                              i32 %z, i32 %rank, ptr %index) cold {
entry:
  %arena = getelementptr i8, ptr %scratch, i64 -<arena.header>
  %job = load ptr, ptr %arena
  %lock.p = getelementptr i8, ptr %job, i64 <job.lock>
  call void @lock(ptr %lock.p)
  %prints.p = getelementptr i8, ptr %job, i64 <job.prints>
  %count.p = getelementptr i8, ptr %job, i64 <job.count>
  %capacity.p = getelementptr i8, ptr %job, i64 <job.capacity>
  %old = load ptr, ptr %prints.p
  %count = load i64, ptr %count.p
  %capacity = load i64, ptr %capacity.p
  %full = icmp eq i64 %count, %capacity
  br i1 %full, label %grow, label %write
grow:
  %double = shl i64 %capacity, 1
  %larger = call i64 @llvm.smax.i64(i64 %double, i64 64)
  %bytes = mul i64 %larger, <print.size>
  %new = call ptr @realloc(ptr %old, i64 %bytes)
  %poor = icmp eq ptr %new, null
  br i1 %poor, label %done, label %grown
grown:
  store ptr %new, ptr %prints.p
  store i64 %larger, ptr %capacity.p
  br label %write
write:
  %records = phi ptr [ %old, %entry ], [ %new, %grown ]
  %at = mul i64 %count, <print.size>
  %record = getelementptr i8, ptr %records, i64 %at
  store ptr %prefix, ptr %record
  %bits.p = getelementptr i8, ptr %record, i64 <print.bits>
  store i64 %bits, ptr %bits.p
  %kind.p = getelementptr i8, ptr %record, i64 <print.kind>
  store i32 %kind, ptr %kind.p
  %x.p = getelementptr i8, ptr %record, i64 <print.pid>
  store i32 %x, ptr %x.p
  %y.p = getelementptr i8, ptr %x.p, i64 4
  store i32 %y, ptr %y.p
  %z.p = getelementptr i8, ptr %x.p, i64 8
  store i32 %z, ptr %z.p
  %kept = call i32 @llvm.smin.i32(i32 %rank, i32 8)
  %rank.p = getelementptr i8, ptr %record, i64 <print.rank>
  store i32 %kept, ptr %rank.p
  br label %next
next:
  %i = phi i32 [ 0, %write ], [ %i.next, %copy ]
  %more = icmp slt i32 %i, %kept
  br i1 %more, label %copy, label %counted
copy:
  %i64 = zext i32 %i to i64
  %from = getelementptr i32, ptr %index, i64 %i64
  %coordinate = load i32, ptr %from
  %indices = getelementptr i8, ptr %record, i64 <print.index>
  %to = getelementptr i32, ptr %indices, i64 %i64
  store i32 %coordinate, ptr %to
  %i.next = add i32 %i, 1
  br label %next
counted:
  %count.new = add i64 %count, 1
  store i64 %count.new, ptr %count.p
  br label %done
done:
  store atomic i32 0, ptr %lock.p seq_cst, align 4
  ret void
}
