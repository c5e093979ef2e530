"""Control flow, calls, the grid, printing, checks and hints."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from tegula.conformance.case import Case, Sketch, Spec, combine_region
from tegula.conformance.cases.elementwise import INTS
from tegula.conformance.cases.shapes import data
from tegula.conformance.reference import wrap
from tegula.conformance.values import ordinary
from tegula.ir import Block, Builder, DType, Function, Value
from tegula.ir.ops.debug import HINTS
from tegula.ir.types import Tile, f32, i1, i32, i64


def _grid(grid: tuple[int, int, int]) -> Case:
    """Every program runs once and knows its place on three axes."""
    gx, gy, gz = grid
    s = Sketch(1, grid)
    b = s.b
    rows = [(x, y, z, gx, gy, gz, 1) for z in range(gz) for y in range(gy) for x in range(gx)]
    total = max(1, len(rows) * 7)
    expected = np.zeros(total, np.int32)
    expected[: len(rows) * 7] = np.array(rows, np.int32).reshape(-1)
    out = s.out("out", i32, expected, before=np.zeros(total))
    ids = [b.program_id(axis=a) for a in range(3)]
    sizes = [b.num_programs(axis=a) for a in range(3)]
    flat = b.add(b.mul(b.add(b.mul(ids[2], sizes[1]), ids[1]), sizes[0]), ids[0])
    base = b.addptr(out, b.mul(flat, s.constant(7)))
    for k, value in enumerate((*ids, *sizes)):
        b.store(b.addptr(base, s.constant(k)), value)
    seen = b.addptr(base, s.constant(6))
    b.store(seen, b.add(b.load(seen), s.constant(1)))
    return s.case()


def _for(t: DType) -> Case:
    """Bounds and steps of every kind; each turn counts and adds its index."""
    s = Sketch()
    b = s.b
    low, high = t.min_value, t.max_value
    loops = [(0, 5, 1), (0, 0, 1), (3, 1, 1), (1, 10, 3), (2, 11, 4), (0, 7, 0)]
    loops += [(high - 5, high, 2), (high - 1, high, 1), (high, high, 1), (high - 3, high, 3)]
    if t.is_signed:
        loops += [
            (5, 0, -1),
            (5, -4, -3),
            (0, 5, -1),
            (-3, 3, 2),
            (low + 4, low, -3),
            (low, low + 2, 1),
        ]
        loops += [(high - 90 % high, high, high // 2)]
    for number, (lower, upper, step) in enumerate(loops):
        turns = list(range(lower, upper, step)) if step else []
        bounds = [s.scalar(f"v{number}_{k}", t, v) for k, v in enumerate((lower, upper, step))]
        body = Block([t, i32, i64])
        inner = Builder(body)
        index, count, total = body.args
        more = inner.add(count, inner.constant(1, i32))
        inner.yield_([more, inner.add(total, index if t is i64 else inner.cast(index, to=i64))])
        count, total = b.for_(*bounds, [s.constant(0), s.constant(0, (), i64)], body)
        b.store(s.out(f"count{number}", i32, [len(turns)]), count)
        expected = (sum(turns) + 2**63) % 2**64 - 2**63
        b.store(s.out(f"total{number}", i64, [expected]), total)
    return s.case()


def _for_hints(stages: int, unroll: int, hints: tuple[str, ...]) -> Case:
    """Attributes of a loop change no value; values are carried crosswise."""
    s = Sketch()
    b = s.b
    x, y = ordinary(f32, 12), ordinary(f32, 12, 1)
    tiles = [s.load(s.buffer(n, f32, v), (12,)) for n, v in (("x", x), ("y", y))]
    turns = s.scalar("turns", i32, 7)
    body = Block([i32, tiles[0].type, tiles[1].type])
    inner = Builder(body)
    _, p, q = body.args
    inner.yield_([q, inner.add(inner.mul(p, inner.constant(0.5, p.type)), q)])
    results = b.for_(
        s.constant(0), turns, s.constant(1), tiles, body, stages=stages, unroll=unroll, hints=hints
    )
    for _ in range(7):
        x, y = y, x * np.float32(0.5) + y
    for name, value, expected in zip("pq", results, (x, y)):
        s.store(s.out(name, f32, expected), value)
    return s.case(options={"enable_fp_fusion": False})


def _nested() -> Case:
    """Loops in loops whose bounds depend on the outer counter, over a grid."""
    s = Sketch(1, (6, 1, 1))
    b = s.b
    out = s.out("out", i32, [sum(i * j for i in range(n) for j in range(i, n)) for n in range(6)])
    n = b.program_id(axis=0)
    outer = Block([i32, i32])
    ob = Builder(outer)
    i, total = outer.args
    inner = Block([i32, i32])
    ib = Builder(inner)
    ib.yield_([ib.add(inner.args[1], ib.mul(i, inner.args[0]))])
    (deep,) = ob.for_(i, n, ob.constant(1, i32), [total], inner)
    ob.yield_([deep])
    (result,) = b.for_(s.constant(0), n, s.constant(1), [s.constant(0)], outer)
    b.store(b.addptr(out, n), result)
    return s.case()


def _carried_tiles() -> Case:
    """Tiles of several shapes through a loop, with a reduction that feeds back."""
    s = Sketch()
    b = s.b
    x = data(i32, (4, 6))
    tile = s.load(s.buffer("x", i32, x), (4, 6))
    row = b.constant(0, Tile((6,), i32))
    body = Block([i32, tile.type, row.type])
    inner = Builder(body)
    i, t, r = body.args
    (sums,) = inner.reduce([t], combine_region("add", i32), axis=0)
    wide = inner.broadcast(inner.expand_dims(sums, axis=0), shape=(4, 6))
    inner.yield_([inner.xor(t, wide), inner.add(r, inner.mul(sums, inner.splat(i, shape=(6,))))])
    a, c = b.for_(s.constant(0), s.constant(5), s.constant(1), [tile, row], body)
    tv, rv = x.astype(np.int32), np.zeros(6, np.int32)
    with np.errstate(all="ignore"):
        for k in range(5):
            sums_v = tv.sum(0, dtype=np.int32)
            tv, rv = tv ^ sums_v, rv + sums_v * np.int32(k)
    s.store(s.out("a", i32, tv), a)
    s.store(s.out("c", i32, rv), c)
    return s.case()


def _while() -> Case:
    """Steps of the Collatz sequence, a different number in each program."""

    def steps(n: int) -> int:
        count = 0
        while n != 1:
            n, count = (3 * n + 1 if n % 2 else n // 2), count + 1
        return count

    s = Sketch(1, (30, 1, 1))
    b = s.b
    out = s.out("out", i32, [steps(n + 1) for n in range(30)])
    pid = b.program_id(axis=0)
    one, two = s.constant(1), s.constant(2)
    before, after = Block([i32, i32]), Block([i32, i32])
    with b.at(before):
        b.condition(b.cmp(before.args[0], one, pred="ne"), before.args)
    with b.at(after):
        n, count = after.args
        odd = b.cmp(b.rem(n, two), one, pred="eq")
        then, other = Block(), Block()
        with b.at(then):
            b.yield_([b.add(b.mul(n, s.constant(3)), one)])
        with b.at(other):
            b.yield_([b.div(n, two)])
        (following,) = b.if_(odd, then, other)
        b.yield_([following, b.add(count, one)])
    _, result = b.while_([b.add(pid, one), s.constant(0)], before, after)
    b.store(b.addptr(out, pid), result)
    return s.case()


def _while_types() -> Case:
    """The two blocks of a while may carry different values, and it may run no time at all."""
    s = Sketch()
    b = s.b
    x = ordinary(f32, 10)
    tile = s.load(s.buffer("x", f32, x), (10,))
    for number, limit in enumerate((0, 1, 4)):
        before, after = Block([i32, tile.type]), Block([tile.type, i64])
        with b.at(before):
            k, t = before.args
            going = b.cmp(k, s.constant(limit), pred="lt")
            b.condition(going, [b.add(t, t), b.cast(k, to=i64)])
        with b.at(after):
            t, k = after.args
            b.yield_([b.add(b.cast(k, to=i32), s.constant(1)), t])
        doubled, last = b.while_([s.constant(0), tile], before, after)
        s.store(s.out(f"tile{number}", f32, x * np.float32(2 ** (limit + 1))), doubled)
        b.store(s.out(f"last{number}", i64, [limit]), last)
    return s.case()


def _if() -> Case:
    """Branches by program, nested, that yield scalars and tiles, or only store."""
    programs = 9
    s = Sketch(1, (programs, 1, 1))
    b = s.b
    x = ordinary(f32, 8)
    p = s.buffer("x", f32, x)
    rows = [x * 2 if n % 3 == 0 else x + n if n % 3 == 1 else -x for n in range(programs)]
    out = s.out("out", f32, np.array(rows, np.float32))
    marks = s.out(
        "marks", i32, [n if n > 4 else -1 for n in range(programs)], before=[-1] * programs
    )
    pid = b.program_id(axis=0)
    tile = s.load(p, (8,))
    kind = b.rem(pid, s.constant(3))
    then, other = Block(), Block()
    with b.at(then):
        b.yield_([b.add(tile, tile), s.constant(0)])
    with b.at(other):
        inner_then, inner_other = Block(), Block()
        with b.at(inner_then):
            b.yield_([b.add(tile, b.splat(b.cast(pid, to=f32), shape=(8,)))])
        with b.at(inner_other):
            b.yield_([b.neg(tile)])
        (value,) = b.if_(b.cmp(kind, s.constant(1), pred="eq"), inner_then, inner_other)
        b.yield_([value, s.constant(1)])
    result, _ = b.if_(b.cmp(kind, s.constant(0), pred="eq"), then, other)
    offsets = b.add(b.splat(b.mul(pid, s.constant(8)), shape=(8,)), s.flat((8,)))
    b.store(s.at(out, offsets), result)
    then, other = Block(), Block()
    with b.at(then):
        b.store(b.addptr(marks, pid), pid)
        b.yield_([])
    with b.at(other):
        b.yield_([])
    b.if_(b.cmp(pid, s.constant(4), pred="gt"), then, other)
    return s.case()


def _guarded_memory() -> Case:
    """What a branch not taken would touch is not touched."""
    s = Sketch(1, (4, 1, 1))
    b = s.b
    x = data(f32, (3,))
    p, q = s.buffer("x", f32, x), s.out("out", f32, x)
    pid = b.program_id(axis=0)
    then, other = Block(), Block()
    with b.at(then):
        b.store(b.addptr(q, pid), b.load(b.addptr(p, pid)))
        b.yield_([])
    with b.at(other):
        b.yield_([])
    b.if_(b.cmp(pid, s.constant(3), pred="lt"), then, other)
    then, other = Block(), Block()
    with b.at(then):
        far = b.addptr(q, s.constant(1 << 40, (), i64))
        b.store(far, b.load(far))
        b.yield_([])
    with b.at(other):
        b.yield_([])
    b.if_(b.cmp(pid, s.constant(100), pred="gt"), then, other)
    return s.case()


def _call() -> Case:
    """Device functions with several results, called twice, from a loop and from each other."""
    s = Sketch()
    b = s.b
    t = Tile((6,), f32)
    both = Block([t, f32])
    with b.at(both):
        scale = b.splat(both.args[1], shape=(6,))
        b.return_([b.mul(both.args[0], scale), b.add(both.args[0], scale)])
    twice = Block([t])
    with b.at(twice):
        first, _ = b.call([twice.args[0], b.constant(2.0, f32)], callee="both", types=(t, t))
        b.return_([first])
    nothing = Block([])
    with b.at(nothing):
        b.return_([])
    s.functions += [
        Function("both", both, [t, t], "func"),
        Function("twice", twice, [t], "func"),
        Function("nothing", nothing, [], "func"),
    ]
    x = ordinary(f32, 6)
    tile = s.load(s.buffer("x", f32, x), (6,))
    body = Block([i32, t])
    inner = Builder(body)
    (again,) = inner.call([body.args[1]], callee="twice", types=(t,))
    inner.yield_([again])
    b.call([], callee="nothing", types=())
    (value,) = b.for_(s.constant(0), s.constant(3), s.constant(1), [tile], body)
    p, q = b.call([value, b.constant(0.5, f32)], callee="both", types=(t, t))
    s.store(s.out("p", f32, x * 4), p)
    s.store(s.out("q", f32, x * 8 + np.float32(0.5)), q)
    return s.case()


# -------------------------------------------------------------------------------------------------
# Printing, checks and hints


def _print(as_hex: bool) -> Case:
    s = Sketch()
    b = s.b
    tile = b.arange(start=7, end=10)
    b.print([tile], prefix="tile ", hex=as_hex)
    b.print([s.constant(-5) if not as_hex else s.constant(255)], prefix="scalar ", hex=as_hex)
    b.print([b.constant(0.25, f32)], prefix="float ")
    b.print([], prefix="plain")
    s.store(s.out("out", i32, [7, 8, 9]), tile)
    seen = ("tile", "0x", "7", "8", "9") if as_hex else ("tile", "7", "8", "9")
    last = ("scalar", "ff") if as_hex else ("scalar", "-5")
    return s.case(output=(*seen, *last, "float", "plain"))


def _assert(holds: bool, masked: bool) -> Case:
    """A condition that fails ends the launch with the message; a masked one is not looked at."""
    s = Sketch(32, (2, 1, 1))
    b = s.b
    x = np.arange(50, dtype=np.int32)
    p = s.buffer("x", i32, x)
    q = s.out("out", i32, x)
    offsets, mask = s.lanes(s.scalar("n", i32, 50))
    value = b.load(s.at(p, offsets), mask, s.constant(-1, (32,)))
    limit = s.constant(0 if holds else 3, (32,))
    condition = b.cmp(value, limit, pred="ge")
    b.assert_(condition, mask if masked else None, message="value below the limit")
    b.assert_(s.constant(1, (), i1), message="never")
    b.store(s.at(q, offsets), value, mask)
    fails = not holds or not masked
    case = s.case(options={"debug": True}, raises="DeviceAssertionError" if fails else "")
    if fails:
        case.expected.clear()
    return case


def _hint(kind: str) -> Case:
    s = Sketch()
    b = s.b
    x = ordinary(i32, 32) * 0 + np.arange(32, dtype=np.int32)
    value = s.load(s.buffer("x", i32, x * 0 + 8 if kind == "max_constancy" else x), (32,))
    hinted = b.hint(value, kind=kind, values=(1,))
    s.store(s.out("out", i32, (x * 0 + 8 if kind == "max_constancy" else x) + 1),
            b.add(hinted, s.constant(1, (32,))))  # fmt: skip
    start = b.hint(b.mul(b.program_id(axis=0), s.constant(64)), kind=kind, values=(1,))
    b.store(s.out("start", i32, [0]), start)
    return s.case()


def _assume() -> Case:
    s = Sketch(16, (3, 1, 1))
    b = s.b
    n = s.scalar("n", i32, 40)
    b.assume(b.cmp(n, s.constant(0), pred="gt"))
    b.assume(b.cmp(b.rem(n, s.constant(8)), s.constant(0), pred="eq"))
    x = ordinary(f32, 40)
    p, q = s.buffer("x", f32, x), s.out("out", f32, x + x)
    offsets, mask = s.lanes(n)
    value = b.load(s.at(p, offsets), mask)
    b.store(s.at(q, offsets), b.add(value, value), mask)
    return s.case()


def _argument_hints() -> Case:
    """Parameters that are known to be divisible; scalar arguments of several dtypes."""
    s = Sketch(64, (3, 1, 1))
    b = s.b
    x = ordinary(f32, 160)
    p, q = s.buffer("x", f32, x), s.out("out", f32, x * np.float32(1.5) + np.float32(-7))
    n = s.scalar("n", i32, 160)
    scale, shift = s.scalar("scale", f32, 1.5), s.scalar("shift", i64, -7)
    offsets, mask = s.lanes(n)
    value: Value = b.mul(b.load(s.at(p, offsets), mask), b.splat(scale, shape=(64,)))
    moved = b.add(value, b.splat(b.cast(shift, to=f32), shape=(64,)))
    b.store(s.at(q, offsets), moved, mask)
    case = s.case(options={"enable_fp_fusion": False})
    (function,) = case.launch.module.kernels
    function.arg_attrs = [{"divisible": 16}] * 3 + [{}] * 2
    return case


def _scalars(t: DType) -> Case:
    """Scalar parameters hold every value of their dtype."""
    s = Sketch()
    values = [t.min_value, t.max_value, 0, 1, t.max_value // 3]
    out = s.out("out", t, wrap(values, t))
    for k, v in enumerate(values):
        given = s.scalar(f"v{k}", t, v)
        s.b.store(s.b.addptr(out, s.constant(k)), given)
    return s.case()


def specs() -> Iterator[Spec]:
    """All cases of this module."""
    grids = ((1, 1, 1), (5, 1, 1), (3, 4, 2), (1, 1, 6), (300, 1, 1), (0, 1, 1), (2, 0, 3))
    for grid in grids:
        label = "grid." + "x".join(map(str, grid))
        tags = frozenset({"empty"} if 0 in grid else set())
        yield Spec(label, partial(_grid, grid), ("program_id", "num_programs"), (i32,), tags)
    for t in INTS:
        if t is not i1:
            yield Spec(f"control.for.{t}", partial(_for, t), ("for", "yield"), (t, i64))
        yield Spec(f"argument.{t}", partial(_scalars, t), ("store",), (t,))
    for number, (stages, unroll, hints) in enumerate(
        ((0, 0, ()), (3, 0, ()), (0, 4, ()), (2, 2, ("disallow_acc_multi_buffer",)))
    ):
        make = partial(_for_hints, stages, unroll, hints)
        yield Spec(f"control.for.hints{number}", make, ("for", "yield"), (f32,))
    yield Spec("control.nested", _nested, ("for",), (i32,))
    yield Spec("control.carried", _carried_tiles, ("for", "reduce"), (i32,))
    yield Spec("control.while", _while, ("while", "condition", "if", "yield"), (i32,))
    yield Spec("control.while.types", _while_types, ("while", "condition"), (f32, i64))
    yield Spec("control.if", _if, ("if", "yield"), (f32, i32))
    yield Spec("control.if.memory", _guarded_memory, ("if",), (f32, i64))
    yield Spec("control.call", _call, ("call", "return"), (f32,))
    printing = frozenset({"device_print"})
    for as_hex in (False, True):
        yield Spec(
            f"debug.print{'.hex' if as_hex else ''}", partial(_print, as_hex), ("print",), (i32,),
            features=printing,
        )  # fmt: skip
    checking = frozenset({"device_assert"})
    for holds in (True, False):
        for masked in (True, False):
            label = f"debug.assert.{'holds' if holds else 'fails'}{'.masked' if masked else ''}"
            make = partial(_assert, holds, masked)
            yield Spec(label, make, ("assert",), (i32,), features=checking)
    for kind in HINTS:
        yield Spec(f"debug.hint.{kind}", partial(_hint, kind), ("hint",), (i32,))
    yield Spec("debug.assume", _assume, ("assume",), (f32,))
    yield Spec("argument.divisible", _argument_hints, ("load", "store"), (f32, i64))
