"""Level 3: memory, loading, launching, errors and leaks of a device."""

from __future__ import annotations

import ctypes
import gc
import os
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from tegula.conformance.case import Case, Launch, Sketch
from tegula.conformance.session import DeviceBuffers, enter
from tegula.conformance.testing import Context, Failed, Test, Unsupported, judge
from tegula.errors import KernelError
from tegula.ir.types import f32, i32
from tegula.plugin.records import Artifact

LEAK_BYTES = 24 << 20
"""Growth of the process that counts as a leak; what is leaked in the tests is larger."""


def add_one(value: int = 1, n: int = 200) -> Case:
    """out = x + value."""
    s = Sketch(64, (-(-n // 64), 1, 1))
    x = np.arange(n, dtype=np.int32)
    p, q = s.buffer("x", i32, x), s.out("out", i32, x + value)
    offsets, mask = s.lanes(s.scalar("n", i32, n))
    loaded = s.b.load(s.at(p, offsets), mask)
    s.b.store(s.at(q, offsets), s.b.add(loaded, s.constant(value, (64,))), mask)
    return s.case()


def allocation(context: Context) -> None:
    """Allocations are aligned and apart, also empty ones, and come back when freed."""
    device = context.session.device
    sizes = [0, 1, 3, 64, 100, 4096, 1 << 20, 5]
    addresses = [device.alloc(size) for size in sizes]
    try:
        spans = sorted((a, a + s) for a, s in zip(addresses, sizes))
        for (_, end), (start, _) in pairwise(spans):
            if start < end:
                raise Failed("two live allocations overlap")
        for address in addresses:
            if address % 64:
                raise Failed(f"an allocation at {address:#x} is not aligned to 64 bytes")
    finally:
        for address in addresses:
            device.free(address)


def copies(context: Context) -> None:
    """Bytes come back as they went, also in pieces and from device to device."""
    device = context.session.device
    data = np.random.default_rng(1).integers(0, 256, 10_001, dtype=np.uint8)
    a, b = device.alloc(data.nbytes), device.alloc(data.nbytes)
    try:
        device.copy(a, data.ctypes.data, 4000)
        device.copy(a + 4000, data.ctypes.data + 4000, data.nbytes - 4000)
        device.synchronize()
        device.copy(b, a, data.nbytes)
        device.synchronize()
        back = np.zeros_like(data)
        device.copy(back.ctypes.data + 7, b + 7, data.nbytes - 7)
        device.copy(back.ctypes.data, b, 7)
        device.copy(back.ctypes.data, b, 0)
        device.synchronize()
        if not np.array_equal(back, data):
            raise Failed("bytes that were copied to the device came back changed")
    finally:
        device.free(a)
        device.free(b)


def same_name(context: Context) -> None:
    """Kernels of one name and different bodies do not take each other's place."""
    session = context.session
    cases = [add_one(k) for k in (1, 5, 9)]
    loaded = []
    for case in cases:
        artifact = session.compile(case.launch.module)
        loaded.append((session.device.load(artifact), artifact))
    for _ in range(3):
        for case, (kernel, artifact) in zip(cases, loaded):
            judge(case, session.launch(kernel, artifact, case.launch), context)
    for case in reversed(cases):
        judge(case, session.run(case.launch), context)


def same_artifact(context: Context) -> None:
    """An artifact can be loaded again, also from bytes that were stored, and launched twice."""
    session = context.session
    case = add_one(3)
    a = session.compile(case.launch.module)
    copy = Artifact(a.kind, bytes(a.data), a.entry, a.params, dict(a.metadata))
    for artifact in (a, copy, a):
        kernel = session.device.load(artifact)
        for _ in range(2):
            judge(case, session.launch(kernel, artifact, case.launch), context)


def fresh_scratch(context: Context) -> None:
    """Nothing of a launch is left for the next: inputs change, results follow."""
    session = context.session
    case = add_one(2)
    artifact = session.compile(case.launch.module)
    kernel = session.device.load(artifact)
    for seed in range(5):
        x = np.random.default_rng(seed).integers(-99, 99, 200).astype(np.int32)
        args: list[Any] = list(case.launch.args)
        args[0] = type(args[0])(**{**vars(args[0]), "data": x})
        case.expected["out"].data = x + 2
        launch = Launch(case.launch.module, args, case.launch.grid)
        judge(case, session.launch(kernel, artifact, launch), context)


def sizes(context: Context) -> None:
    """One kernel serves every length; nothing past the end is written."""
    session = context.session
    artifact = kernel = None
    for n in (1, 2, 63, 64, 65, 127, 128, 129, 1000, 0):
        case = add_one(1, n)
        if artifact is None:
            artifact = session.compile(case.launch.module)
            kernel = session.device.load(artifact)
        judge(case, session.launch(kernel, artifact, case.launch), context)


def large_grid(context: Context) -> None:
    """A grid of many programs, each of which runs once."""
    n = 100_000
    s = Sketch(1, (n, 1, 1))
    out = s.out("out", i32, np.arange(n) + 1, before=np.arange(n))
    pid = s.b.program_id(axis=0)
    place = s.b.addptr(out, pid)
    s.b.store(place, s.b.add(s.b.load(place), s.constant(1)))
    if context.backend and _slow(context):
        s.grid = (2000, 1, 1)
        s.expected["out"].data[2000:] -= 1
    case = s.case()
    judge(case, context.session.run(case.launch), context)


def _slow(context: Context) -> bool:
    """Whether the backend interprets: thousands of programs are enough then."""
    return context.session.backend.priority < 0


def many_parameters(context: Context) -> None:
    """A kernel of sixty parameters gets each of them."""
    s = Sketch()
    out = s.out("out", i32, np.arange(59) * 3 - 7)
    for k in range(59):
        s.b.store(s.b.addptr(out, s.constant(k)), s.scalar(f"v{k}", i32, k * 3 - 7))
    case = s.case()
    judge(case, context.session.run(case.launch), context)


def large_tile(context: Context) -> None:
    """A tile of 64 Ki elements, and a buffer of several MiB."""
    n = 1 << 16
    limit = context.session.capabilities.limits.get("tile_elements", n)
    n = min(n, int(limit))
    s = Sketch(n, (3, 1, 1))
    total = 3 * n - 17
    x = (np.arange(total) % 1000).astype(np.float32)
    p, q = s.buffer("x", f32, x), s.out("out", f32, x * np.float32(2))
    offsets, mask = s.lanes(s.scalar("n", i32, total))
    value = s.b.load(s.at(p, offsets), mask)
    s.b.store(s.at(q, offsets), s.b.add(value, value), mask)
    case = s.case()
    judge(case, context.session.run(case.launch), context)


# -------------------------------------------------------------------------------------------------
# Errors


def wrong_artifact(context: Context) -> None:
    """An artifact of another kind or with damaged bytes is an error, not a crash."""
    session = context.session
    good = session.compile(add_one().launch.module)
    size = len(good.data)
    damaged = (
        good.data[: size // 3],
        good.data[: size // 2] + bytes(size - size // 2),
        bytes(size),
        b"",
    )
    bad = [Artifact("no-such-kind", good.data, good.entry, good.params)]
    bad += [
        Artifact(good.kind, data, good.entry, good.params, dict(good.metadata)) for data in damaged
    ]
    for artifact in bad:
        try:
            session.device.load(artifact)
        except Exception:
            continue
        raise Failed("a damaged artifact is loaded without an error")
    case = add_one(4)
    judge(case, session.run(case.launch), context)


def recovers(context: Context) -> None:
    """After a failed assertion the device goes on working."""
    context.need("device_assert")
    s = Sketch()
    pid = s.b.program_id(axis=0)
    s.b.assert_(s.b.cmp(pid, s.constant(1), pred="ge"), message="on purpose")
    s.store(s.out("out", i32, [1]), s.constant(1))
    failing = s.case(options={"debug": True})
    for _ in range(3):
        try:
            context.session.run(failing.launch, failing.options)
        except KernelError as error:
            if "on purpose" not in str(error):
                raise Failed(f"the error lacks the assertion's message: {error}") from None
        else:
            raise Failed("a failed assertion goes unnoticed")
        case = add_one(6)
        judge(case, context.session.run(case.launch), context)


def null_masked(context: Context) -> None:
    """A null pointer may be passed where nothing is accessed through it."""
    s = Sketch()
    s.store(s.out("out", i32, [5]), s.constant(5))
    null = s.buffer("null", f32, [0.0], writable=True)
    flag = s.b.cmp(s.scalar("flag", i32, 0), s.constant(1), pred="eq")
    s.b.store(null, s.constant(1.0, (), f32), flag)
    case = s.case()
    session = context.session
    artifact = session.compile(case.launch.module)
    kernel = session.device.load(artifact)
    memory = DeviceBuffers(session.device, case.launch)
    try:
        values = memory.arguments()
        values[1] = 0
        enter(kernel, case.launch, values, memory.ranges())
        session.device.synchronize()
        judge(case, memory.download(), context)
    finally:
        memory.free()


# -------------------------------------------------------------------------------------------------
# Leaks


def resident() -> int:
    """Bytes of memory that this process has, as the system counts them."""
    statm = Path("/proc/self/statm")
    if statm.exists():
        return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def return_free_memory() -> None:
    """Give memory that earlier work has freed back to the system, where the C library can: a leak
    that is served from it would not show.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if os.name == "posix" else None
    if trim is not None:
        trim(ctypes.c_size_t(0))


def grows(action: Callable[[], None], warm: int, times: int) -> int:
    """By how many bytes the process grows while something is repeated."""
    for _ in range(warm):
        action()
    gc.collect()
    return_free_memory()
    before = resident()
    for _ in range(times):
        action()
    gc.collect()
    return resident() - before


def leak_memory(context: Context) -> None:
    """Memory that is freed can be had again: twenty times what there ever is at once."""
    device = context.session.device
    block = np.ones(8 << 20, np.uint8)

    def once() -> None:
        address = device.alloc(block.nbytes)
        device.copy(address, block.ctypes.data, block.nbytes)
        device.synchronize()
        device.free(address)

    _judge_growth(grows(once, 3, 25), "allocating and freeing 25 times 8 MiB")


def leak_launch(context: Context) -> None:
    """Launches leave nothing behind."""
    session = context.session
    case = add_one(1, 64)
    artifact = session.compile(case.launch.module)
    kernel = session.device.load(artifact)
    memory = DeviceBuffers(session.device, case.launch)
    values, ranges = memory.arguments(), memory.ranges()

    def once() -> None:
        enter(kernel, case.launch, values, ranges)
        session.device.synchronize()

    try:
        _judge_growth(grows(once, 50, 2000), "2000 launches")
    finally:
        memory.free()


def leak_load(context: Context) -> None:
    """Kernels that are dropped are unloaded."""
    session = context.session
    artifact = session.compile(add_one(1, 64).launch.module)

    def once() -> None:
        session.device.load(artifact)

    _judge_growth(grows(once, 20, 200), "loading a kernel 200 times")


def _judge_growth(grown: int, what: str) -> None:
    if grown > LEAK_BYTES:
        raise Failed(f"{what}: the process grew by {grown >> 20} MiB")


# -------------------------------------------------------------------------------------------------
# Streams and devices


def streams(context: Context) -> None:
    """Work on one stream happens in order."""
    context.need("streams")
    session = context.session
    device = session.device
    case = add_one(1, 64)
    artifact = session.compile(case.launch.module)
    kernel = device.load(artifact)
    memory = DeviceBuffers(device, case.launch)
    try:
        stream = device.stream_of(None)
        values = memory.arguments()
        for _ in range(10):
            enter(kernel, case.launch, values, memory.ranges(), stream)
        device.synchronize(stream)
        judge(case, memory.download(), context)
    finally:
        memory.free()


def marks(context: Context) -> None:
    """Time between two marks is a number of seconds that is not negative."""
    device = context.session.device
    start = device.mark()
    time.sleep(0.01)
    stop = device.mark()
    spent = device.elapsed(start, stop)
    if not 0 <= spent < 60:
        raise Failed(f"elapsed() gives {spent} for a pause of 10 ms")


def two_devices(context: Context) -> None:
    """Every device runs kernels on memory of its own."""
    backend = context.session.backend
    if len(backend.devices) < 2:
        raise Unsupported("there is one device only")
    for index in range(len(backend.devices)):
        other = Context(context.backend, index)
        case = add_one(index + 1)
        judge(case, other.session.run(case.launch), other)


CHECKS = (
    allocation, copies, same_name, same_artifact, fresh_scratch, sizes, large_grid,
    many_parameters, large_tile, wrong_artifact, recovers, null_masked, leak_memory, leak_launch,
    leak_load, streams, marks, two_devices,
)  # fmt: skip


def tests() -> Iterator[Test]:
    """All tests of this module."""
    for check in CHECKS:
        yield Test(f"device.{check.__name__}", 3, check, timeout=120)
