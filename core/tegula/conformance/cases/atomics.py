"""Atomic updates: every kind and dtype, collisions inside of a tile and between programs."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from tegula.conformance import reference
from tegula.conformance.case import Case, Rule, Sketch, Spec
from tegula.conformance.cases.elementwise import ALL
from tegula.conformance.cases.shapes import data
from tegula.conformance.values import bits_of, edges, ordinary, small_integers, storage
from tegula.ir import Block, Builder, DType
from tegula.ir.ops.memory import ATOMIC_KINDS, LOAD_ORDERS, ORDERS, SCOPES, STORE_ORDERS
from tegula.ir.types import f32, i1, i32, i64

INT_KINDS = ("and", "or", "xor")


def kinds_of(t: DType) -> list[str]:
    return [k for k in ATOMIC_KINDS if not (t.is_float and k in INT_KINDS)]


def updated(kind: str, t: DType, old: np.ndarray, value: np.ndarray) -> np.ndarray:
    """Memory after one update of each element."""
    if kind == "xchg":
        return value
    if kind in ("max", "min") and t.is_float:
        # -0.0 is below 0.0, and NaN is ignored.
        out = reference.extremum(kind, t, old, value, "ignore")
        both = (old.astype(np.float64) == 0) & (value.astype(np.float64) == 0)
        negative = np.signbit(old) | np.signbit(value)
        if kind == "max":
            negative = np.signbit(old) & np.signbit(value)
        zero = np.where(negative, -np.zeros(1, storage(t)), np.zeros(1, storage(t)))
        return np.where(both, zero, out).astype(storage(t))
    return reference.binary(kind, t, old, value)


def operands(kind: str, t: DType) -> tuple[np.ndarray, np.ndarray]:
    e = data(t, (40,)) if t.is_float and t.bits == 8 else np.concatenate([edges(t), data(t, (30,))])
    return e, np.roll(e, 7)


def _subnormal(x: np.ndarray, t: DType) -> np.ndarray:
    size = np.abs(x.astype(np.float64))
    return (size > 0) & (size < 2.0 ** (1 - t.exponent_bias))


def _distinct(kind: str, t: DType, subnormal: bool | None = None) -> Case:
    """Every address once: the old value comes back and memory is updated. `subnormal` asks for
    updates in which subnormal numbers take part, or for those in which none does."""
    old, value = operands(kind, t)
    if subnormal is not None:
        found = [_subnormal(x, t) for x in (old, value, updated(kind, t, old, value))]
        kept = np.logical_or.reduce(found) == subnormal
        old, value = old[kept], value[kept]
    n = old.size
    s = Sketch(32, (-(-n // 32), 1, 1))
    target = s.out("memory", t, updated(kind, t, old, value), before=old)
    given = s.buffer("value", t, value)
    out = s.out("old", t, old)
    offsets, mask = s.lanes(s.scalar("n", i32, n))
    v = s.b.load(s.at(given, offsets), mask)
    result = s.b.atomic_rmw(s.at(target, offsets), v, mask, kind=kind)
    s.b.store(s.at(out, offsets), result, mask)
    return s.case()


def _collisions(kind: str, t: DType) -> Case:
    """Many lanes and many programs on few addresses: no update is lost."""
    programs, block, slots = 6, 48, 5
    s = Sketch(block, (programs, 1, 1))
    start = small_integers(t, slots, 1, 2)
    start[:] = np.abs(start.astype(np.float64)).astype(storage(t))
    value = small_integers(t, block, 2, 2)
    narrow = (t.is_float and t.bits <= 16) or t.bits == 8
    if kind == "add" and narrow:
        value = np.where(np.arange(block) < slots, 1, 0).astype(storage(t))
    given = s.buffer("value", t, value)
    expected = start.copy()
    for _ in range(programs):
        for lane in range(block):
            at = lane % slots
            expected[at : at + 1] = updated(kind, t, expected[at : at + 1], value[lane : lane + 1])
    target = s.out("memory", t, expected, Rule(zero_sign=False), before=start)
    line = s.flat((block,))
    where = s.b.rem(line, s.constant(slots, (block,)))
    s.b.atomic_rmw(s.at(target, where), s.load(given, (block,)), kind=kind)
    return s.case()


def _masked(t: DType) -> Case:
    """Masked-off lanes change nothing and give 0; a scalar update works alone."""
    n = 33
    s = Sketch()
    old, value, keep = data(t, (n,)), data(t, (n,), 1), ordinary(i1, n)
    new = np.where(keep, reference.binary("add", t, old, value), old)
    target = s.out("memory", t, new, before=old)
    out = s.out("old", t, np.where(keep, old, np.zeros(n, storage(t))))
    given, flags = s.buffer("value", t, value), s.buffer("keep", i1, keep)
    line = s.flat((n,))
    mask = s.load(flags, (n,))
    result = s.b.atomic_rmw(s.at(target, line), s.load(given, (n,)), mask, kind="add")
    s.b.store(s.at(out, line), result)
    one = np.array([1]).astype(storage(t))
    single = s.out("single", t, [*one, *one, *old[:1]], before=[*one, *old[:1], *old[:1]])
    got = s.b.atomic_rmw(single, s.constant(0, (), t), kind="add")
    s.b.atomic_rmw(s.b.addptr(single, s.constant(1)), got, kind="xchg")
    off = s.constant(0, (), i1)
    s.b.atomic_rmw(s.b.addptr(single, s.constant(2)), got, off, kind="xchg")
    return s.case()


def _cas(t: DType) -> Case:
    """Compared bit for bit: NaN equals itself, -0.0 is not 0.0."""
    old = edges(t)
    n = old.size
    expected_value = old.copy()
    expected_value[::3] = np.roll(old, 1)[::3]
    value = np.roll(old, 5)
    hit = bits_of(old) == bits_of(expected_value)
    s = Sketch(16, (-(-n // 16), 1, 1))
    padded = -(-n // 16) * 16

    def pad(x: np.ndarray) -> np.ndarray:
        return np.concatenate([x, np.repeat(x[:1], padded - n)])

    old, value, expected_value = pad(old), pad(value), pad(expected_value)
    hit = bits_of(old) == bits_of(expected_value)
    after = np.where(hit, bits_of(value), bits_of(old)).view(storage(t))
    target = s.out("memory", t, after, before=old)
    out = s.out("old", t, old)
    compare, given = s.buffer("compare", t, expected_value), s.buffer("value", t, value)
    offsets, _ = s.lanes(s.scalar("n", i32, padded))
    c, v = s.b.load(s.at(compare, offsets)), s.b.load(s.at(given, offsets))
    s.b.store(s.at(out, offsets), s.b.atomic_cas(s.at(target, offsets), c, v))
    return s.case()


def _tickets() -> Case:
    """Each program draws a number; together they are all numbers, each once."""
    programs = 200
    s = Sketch(1, (programs, 1, 1))
    counter = s.out("counter", i32, [programs], before=[0])
    out = s.out("out", i32, np.full(programs, 1), before=np.zeros(programs))
    ticket = s.b.atomic_rmw(counter, s.constant(1), kind="add")
    s.b.atomic_rmw(s.b.addptr(out, ticket), s.constant(1), kind="add")
    return s.case()


def _spin() -> Case:
    """A compare-and-swap loop that adds to a float, from many programs."""
    programs = 60
    s = Sketch(1, (programs, 1, 1))
    b = s.b
    total = s.out("total", f32, [float(sum(range(programs)))], before=[0.0])
    mine = b.cast(b.program_id(axis=0), to=f32)
    first = b.load(total, volatile=True)
    before, after = Block([f32]), Block([f32])
    with b.at(before):
        seen = before.args[0]
        old = b.atomic_cas(total, seen, b.add(seen, mine))
        same = b.cmp(b.bitcast(old, to=i32), b.bitcast(seen, to=i32), pred="ne")
        b.condition(same, [old])
    with b.at(after):
        b.yield_([after.args[0]])
    b.while_([first], before, after)
    return s.case()


def _histogram(sem: str, scope: str) -> Case:
    """Data decides the addresses, over a grid."""
    n, bins = 1000, 17
    x = np.random.default_rng(1).integers(0, bins, n).astype(np.int32)
    s = Sketch(64, (-(-n // 64), 1, 1))
    p = s.buffer("x", i32, x)
    counts = s.out("counts", i32, np.bincount(x, minlength=bins), before=np.zeros(bins))
    swapped = s.out("swapped", i32, [9], before=[4])
    offsets, mask = s.lanes(s.scalar("n", i32, n))
    where = s.b.load(s.at(p, offsets), mask)
    ones = s.constant(1, (64,))
    s.b.atomic_rmw(s.at(counts, where), ones, mask, kind="add", sem=sem, scope=scope)
    s.b.atomic_cas(swapped, s.constant(4), s.constant(9), sem=sem, scope=scope)
    return s.case()


def _barrier() -> Case:
    """What was written before a release is seen after the matching acquire."""
    programs, n = 8, 32
    s = Sketch(n, (programs, 1, 1))
    b = s.b
    partial_sums = s.out("partial", i32, np.repeat(np.arange(programs), n))
    counter = s.out("counter", i32, [programs], before=[0])
    total = s.out("total", i32, np.full(n, sum(range(programs))), before=np.zeros(n))
    pid = b.program_id(axis=0)
    offsets = b.add(b.splat(b.mul(pid, s.constant(n)), shape=(n,)), s.flat((n,)))
    b.store(s.at(partial_sums, offsets), b.splat(pid, shape=(n,)))
    ticket = b.atomic_rmw(counter, s.constant(1), kind="add", sem="acq_rel")
    last = b.cmp(ticket, s.constant(programs - 1), pred="eq")
    then, other = Block(), Block()
    with b.at(then):
        zero = s.constant(0, (n,))
        body = Block([i32, zero.type])
        inner = Builder(body)
        row = inner.splat(inner.mul(body.args[0], inner.constant(n, i32)), shape=(n,))
        at = inner.add(row, inner.arange(start=0, end=n))
        part = inner.load(inner.addptr(inner.splat(partial_sums, shape=(n,)), at))
        inner.yield_([inner.add(body.args[1], part)])
        (result,) = b.for_(s.constant(0), s.constant(programs), s.constant(1), [zero], body)
        b.store(s.at(total, s.flat((n,))), result)
        b.yield_([])
    with b.at(other):
        b.yield_([])
    b.if_(last, then, other)
    return s.case()


def _load(t: DType, sem: str, scope: str) -> Case:
    """Reads as one step: a tile, a masked one, a single element."""
    n = 37
    s = Sketch()
    x, keep = data(t, (n,)), ordinary(i1, n)
    p, m = s.buffer("x", t, x), s.buffer("keep", i1, keep)
    line = s.flat((n,))
    order = {"sem": sem, "scope": scope}
    s.store(s.out("whole", t, x), s.b.atomic_load(s.at(p, line), **order))
    mask = s.load(m, (n,))
    some = s.b.atomic_load(s.at(p, line), mask, **order)
    s.store(s.out("some", t, np.where(keep, x, np.zeros(n, storage(t)))), some)
    far = s.b.addptr(p, s.constant(1 << 20))
    missing = s.b.atomic_load(far, s.constant(0, (), i1), **order)
    s.store(s.out("one", t, x[:1]), s.b.atomic_load(p, **order))
    s.store(s.out("none", t, np.zeros(1, storage(t))), missing)
    return s.case()


def _store(t: DType, sem: str, scope: str) -> Case:
    """Writes as one step: a tile, a masked one, a single element; seen by later loads."""
    n = 37
    s = Sketch()
    x, keep = data(t, (n,)), ordinary(i1, n)
    before = data(t, (n,), 5)
    tile = s.load(s.buffer("x", t, x), (n,))
    mask = s.load(s.buffer("keep", i1, keep), (n,))
    line = s.flat((n,))
    order = {"sem": sem, "scope": scope}
    whole = s.out("whole", t, x, before=before)
    s.b.atomic_store(s.at(whole, line), tile, **order)
    some = s.out("some", t, np.where(keep, x, before), before=before)
    s.b.atomic_store(s.at(some, line), tile, mask, **order)
    one = s.out("one", t, [x[0], before[1]], before=before[:2])
    first = s.load(whole)
    s.b.atomic_store(one, first, **order)
    off = s.constant(0, (), i1)
    s.b.atomic_store(s.b.addptr(one, s.constant(1)), first, off, **order)
    s.store(s.out("again", t, x), s.load(whole, (n,)))
    return s.case()


def _poll(t: DType, sem: str, scope: str) -> Case:
    """A value that is there ends the waiting, one that is not ends it with the timeout."""
    s = Sketch()
    b = s.b
    x = data(t, (2,))
    x[1] = np.array([3]).astype(storage(t))[0]
    flag = s.out("flag", t, [x[1], x[1]], before=x)
    order = {"sem": sem, "scope": scope}
    three, seven = s.constant(3, (), t), s.constant(7, (), t)
    short = s.constant(2000, (), i64)
    there = b.atomic_poll(b.addptr(flag, s.constant(1)), three, **order)
    timed = b.atomic_poll(b.addptr(flag, s.constant(1)), three, short, **order)
    never = b.atomic_poll(b.addptr(flag, s.constant(1)), seven, short, **order)
    b.atomic_store(flag, three)
    own = b.atomic_poll(flag, three, **order)
    out = s.out("seen", i1, [1, 1, 0, 1])
    for k, value in enumerate((there, timed, never, own)):
        b.store(b.addptr(out, s.constant(k)), value)
    return s.case()


def _accesses() -> Iterator[Spec]:
    """Atomic loads, stores and waiting."""
    makers = {"atomic_load": _load, "atomic_store": _store, "atomic_poll": _poll}
    tags = frozenset({"masked", "scalar"})
    for name, make in makers.items():
        orders = STORE_ORDERS if name == "atomic_store" else LOAD_ORDERS
        label = name.replace("atomic_", "atomic.")
        for number, t in enumerate(t for t in ALL if t is not i1):
            sem, scope = orders[number % len(orders)], SCOPES[number % len(SCOPES)]
            yield Spec(f"{label}.{t}", partial(make, t, sem, scope), (name,), (t,), tags)


def specs() -> Iterator[Spec]:
    """All cases of this module."""
    for t in ALL:
        if t is i1:
            continue
        for kind in kinds_of(t):
            sums = kind == "add" and t is f32
            make = partial(_distinct, kind, t, False if sums else None)
            yield Spec(f"atomic.{kind}.{t}", make, ("atomic_rmw",), (t,), frozenset({"tail"}))
            if sums:  # memory that adds by itself may know no subnormal numbers
                make = partial(_distinct, kind, t, True)
                yield Spec(
                    f"atomic.{kind}.{t}.subnormal", make, ("atomic_rmw",), (t,),
                    features=frozenset({"atomic_subnormals"}),
                )  # fmt: skip
            if kind != "xchg":
                make = partial(_collisions, kind, t)
                tags = frozenset({"collision"})
                yield Spec(f"atomic.{kind}.{t}.collisions", make, ("atomic_rmw",), (t,), tags)
        yield Spec(
            f"atomic.masked.{t}",
            partial(_masked, t),
            ("atomic_rmw",),
            (t,),
            frozenset({"masked", "scalar"}),
        )
        yield Spec(f"atomic.cas.{t}", partial(_cas, t), ("atomic_cas",), (t,))
    yield from _accesses()
    yield Spec("atomic.tickets", _tickets, ("atomic_rmw",), (i32,), frozenset({"scalar"}))
    yield Spec("atomic.spin", _spin, ("atomic_cas",), (f32,), frozenset({"scalar", "collision"}))
    yield Spec("atomic.barrier", _barrier, ("atomic_rmw",), (i32,), frozenset({"order"}))
    for sem in ORDERS:
        for scope in SCOPES:
            make = partial(_histogram, sem, scope)
            ops = ("atomic_rmw", "atomic_cas")
            yield Spec(f"atomic.histogram.{sem}.{scope}", make, ops, (i32,), frozenset({"gather"}))
