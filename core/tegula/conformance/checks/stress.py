"""Level 4: random programs, threads, contention, and the same result a thousand times."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial

import numpy as np

from tegula.conformance.case import Case, Sketch, combine_region
from tegula.conformance.checks.device import add_one
from tegula.conformance.needs import missing
from tegula.conformance.session import DeviceBuffers, enter
from tegula.conformance.testing import Context, Failed, Test, Unsupported, judge
from tegula.conformance.values import ordinary, small_integers
from tegula.ir.types import f32, i32

BLOCKS, PER_BLOCK = 8, 10
FULL_BLOCKS, FULL_PER_BLOCK = 40, 25


def programs(context: Context, block: int, count: int) -> None:
    """Random programs against the interpreter."""
    from tegula.conformance.programs import random_program
    from tegula.conformance.text import to_text
    from tegula.tools.fuzz import size_of

    ran = 0
    for k in range(count):
        seed = context.seed + block * count + k
        program = random_program(seed, size=size_of(seed))
        if missing(context.session.capabilities, program.module):
            continue
        case = program.case()
        try:
            judge(case, context.session.run(case.launch, case.options), context)
        except Exception as error:
            text = to_text(case)
            raise Failed(
                f"program {seed}: {type(error).__name__}: {error}; "
                f"`tegula fuzz {context.backend} -n 1 --seed {seed}` makes it smaller "
                f"({len(text.splitlines())} lines)"
            ) from error
        ran += 1
    if not ran:
        raise Unsupported("none of the programs is supported")
    context.notes.append(f"{ran} of {count} programs")


def busy_kernel() -> Case:
    """A product, a reduction and arithmetic whose order of sums could vary."""
    s = Sketch(1, (6, 1, 1))
    b = s.b
    a, c = ordinary(f32, 24 * 32).reshape(24, 32), ordinary(f32, 32 * 16, 1).reshape(32, 16)
    left, right = s.load(s.buffer("a", f32, a), (24, 32)), s.load(s.buffer("b", f32, c), (32, 16))
    product = b.dot(left, right, s.constant(0.0, (24, 16), f32))
    (sums,) = b.reduce([b.mul(product, product)], combine_region("add", f32), axis=1)
    out = s.out("out", f32, np.zeros(6 * 24, np.float32))
    own = b.addptr(out, b.mul(b.program_id(axis=0), s.constant(24)))
    s.store(own, sums)
    return s.case()


def repeats(context: Context) -> None:
    """A thousand launches give a thousand times the same bits."""
    case = busy_kernel()
    if missing(context.session.capabilities, case.launch.module):
        raise Unsupported("the kernel's ops are not all supported")
    session = context.session
    artifact = session.compile(case.launch.module)
    kernel = session.device.load(artifact)
    memory = DeviceBuffers(session.device, case.launch)
    times = 1000 if session.backend.priority >= 0 else 60
    try:
        values, ranges = memory.arguments(), memory.ranges()
        first = None
        for number in range(times):
            enter(kernel, case.launch, values, ranges)
            if number % 10 == 0 or number < 20:
                session.device.synchronize()
                bits = memory.download()["out"].tobytes()
                if first is None:
                    first = bits
                elif bits != first:
                    raise Failed(f"launch {number} gives other bits than the first")
        session.device.synchronize()
    finally:
        memory.free()


def threads(context: Context) -> None:
    """Compiling, loading and launching from several threads at once."""
    session = context.session
    session.device  # noqa: B018 (opened once, before the threads)
    problems: list[str] = []

    def work(number: int) -> None:
        mine = Context(context.backend, context.device)
        try:
            for k in range(6):
                case = add_one(number * 10 + k, 100 + 37 * k)
                judge(case, mine.session.run(case.launch), mine)
        except BaseException as error:
            problems.append(f"thread {number}: {type(error).__name__}: {error}")

    started = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    if problems:
        raise Failed(problems[0])


def shared_kernel(context: Context) -> None:
    """One loaded kernel launched by several threads, each on buffers of its own."""
    session = context.session
    case = add_one(7, 3000)
    artifact = session.compile(case.launch.module)
    kernel = session.device.load(artifact)
    problems: list[str] = []

    def work() -> None:
        mine = Context(context.backend, context.device)
        try:
            for _ in range(20):
                judge(case, session.launch(kernel, artifact, case.launch), mine)
        except BaseException as error:
            problems.append(f"{type(error).__name__}: {error}")

    started = [threading.Thread(target=work) for _ in range(4)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    if problems:
        raise Failed(problems[0])


def contention(context: Context) -> None:
    """Many programs add to few numbers; not one addition is lost.

    So many that threads which have to share a processor are interrupted in the middle, too.
    """
    slow = context.session.backend.priority < 0
    programs_, block, slots = (40 if slow else 100_000), 64, 3
    s = Sketch(block, (programs_, 1, 1))
    b = s.b
    x = small_integers(i32, block)
    p = s.buffer("x", i32, x)
    lanes = np.arange(block) % slots
    expected = np.array([x[lanes == k].sum() for k in range(slots)]) * programs_
    target = s.out("sums", i32, expected, before=np.zeros(slots))
    where = b.rem(s.flat((block,)), s.constant(slots, (block,)))
    b.atomic_rmw(s.at(target, where), s.load(p, (block,)), kind="add")
    case = s.case()
    reason = missing(context.session.capabilities, case.launch.module)
    if reason:
        raise Unsupported(reason)
    for _ in range(5):
        judge(case, context.session.run(case.launch), context)


def tests(full: bool) -> Iterator[Test]:
    """All tests of this module; a full run has more programs."""
    blocks, count = (FULL_BLOCKS, FULL_PER_BLOCK) if full else (BLOCKS, PER_BLOCK)
    for block in range(blocks):
        run = partial(programs, block=block, count=count)
        yield Test(f"stress.programs.{block:02d}", 4, run, timeout=300)
    for check in (repeats, threads, shared_kernel):
        yield Test(f"stress.{check.__name__}", 4, check, timeout=300)
    yield Test("stress.contention", 4, contention, frozenset({"atomics"}), timeout=300)
