"""Loop pipelining: what feeds matrix products is copied to shared memory some iterations ahead.

    for i:  a = load(pa(i));  acc = dot(a, b, acc)

becomes, with S copies of the buffer and copies that begin d iterations ahead,

    begin the copies of iterations 0 .. d-1
    for i:  wait for the copy of iteration i;  barrier
            a = shared_load(slot i mod S)
            begin the copy of iteration i + d
            acc = dot(a, b, acc)

Products that run beside the threads may be under way while the next iteration begins: all of them,
where nothing else needs their sums,

    for i:  wait for the copy of iteration i;  barrier
            acc = dot(a, b, acc)
            wait for the product of iteration i - 1;  barrier
            begin the copy of iteration i + d

or, if the threads are one group for the unit, those whose sums nobody needs before the first
product of the next iteration, which waits for them. Bulk copies need no first barrier. (With copies
right after the product, one of them less ahead, one barrier is enough; that was far slower.)

What the addresses and masks depend on is computed twice: once for the iteration that runs and once
for the one whose copy begins. Results do not depend on the number of stages: a copy that lies
behind the last iteration is masked off.

Where such a loop is the only one of its kind in the body of another loop, and its bulk copies need
nothing but that loop's index, the first copies for the next iteration of the outer loop begin right
after the inner loop, beside all that follows it.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field
from math import prod

from tegula.analysis.axisinfo import AxisInfos
from tegula.codegen.simt.buffers import Buffer
from tegula.codegen.simt.bulk import Arrivals, appending, emit, inside
from tegula.codegen.simt.hooks import Simt
from tegula.codegen.simt.natural import SMALLEST_COPY
from tegula.codegen.simt.products import origin, unit_of
from tegula.codegen.simt.tensormaps import TensorMap, map_of
from tegula.ir.builder import Builder
from tegula.ir.core import Block, Cloner, Function, Op, Value
from tegula.ir.patterns import constant_value
from tegula.ir.types import DType, Pointer, Tile, elem_of, i1, i32, i64, shape_of


def pipeline_loops(
    function: Function, simt: Simt, warps: int, stages: int, early: bool = True
) -> Function:
    """The kernel with its loops around matrix products pipelined, where that is possible. If
    `early`, copies may begin in the iteration before of an outer loop."""
    if not simt.async_copies:
        return function
    if not any(op.name == "dot" for op in function.body.walk()):
        return function
    axes = AxisInfos(function, indices=True)

    def look(op: Op) -> Found | None:
        found = find(op, axes, simt, warps, stages) if op.name == "for" else None
        if found is not None:
            found.maps = [map_of(_made(load), function) for load in found.bulk]
        return found

    def hook(op: Op, cloner: Cloner) -> Sequence[Value] | None:
        if op.name != "for":
            return None
        found = look(op)
        if found is not None:
            return Pipelined(found, cloner).build()
        around = _around(op, look) if early else None
        return Around(around, cloner).build() if around is not None else None

    return Cloner(hook).function(function)


@dataclass
class Found:
    """A loop that can be pipelined: its loads, and the ops that their addresses need."""

    loop: Op
    loads: list[Op]
    bulk: list[Op]
    """Loads of blocks, which the machine copies on its own."""
    tiles: dict[Value, Op]
    """What is read from the buffers, and the load of each."""
    slice: list[Op]
    carried: list[int]
    """Which of the carried values the addresses depend on."""
    fast: list[int]
    """For each load the axis along which its addresses are neighbours."""
    stages: int
    """Iterations between the begin of a copy and its use."""
    copies: int
    running: dict[Op, Value]
    """Products that may be under way when the next iteration begins, and the carried values that
    become their sums."""
    after: Op | None
    """The product after which earlier ones are waited for and copies begin; None: before all."""
    maps: list[TensorMap | None] = field(default_factory=list)


def find(loop: Op, axes: AxisInfos, simt: Simt, warps: int, stages: int) -> Found | None:
    """What can be copied ahead in a loop; None if nothing can."""
    (body,) = loop.regions
    stages = int(loop.attrs.get("stages") or stages)
    step = constant_value(loop.operands[2])
    if stages < 2 or not isinstance(step, int) or step <= 0:
        return None
    uses = _uses(body)
    loads = [op for op in body.ops if op.name == "load" and _fit(op, uses, axes)]
    bulk = [op for op in body.ops if op.name == "desc_load" and _fit_block(op, uses)]
    fed = [*loads, *bulk]
    if not fed or any(op.opdef.effects & {"write", "atomic"} for op in body.walk()):
        return None
    found = _slice(loop, fed)
    if found is None:
        return None
    ops, carried = found
    dots = [op for op in body.ops if op.name == "dot"]
    tiles = {v: load for load in bulk for v in _tiles(load, uses)}
    tiles |= {load.results[0]: load for load in loads}
    whole = len(dots) == sum(op.name == "dot" for op in body.walk())
    units = [unit_of(op, simt, warps) for op in dots] if whole else [None]
    running = _overlapped(dots, loop, uses, tiles) if all(units) else {}
    after = dots[-1] if running else None
    if not running and all(unit is not None and unit.groups == 1 for unit in units):
        running = _deferred(dots, loop, uses)
        after = dots[0] if running else None
    fast = [fast_axis(axes, load.operands[0]) for load in loads]
    return Found(loop, loads, bulk, tiles, ops, carried, fast, stages - 1, stages, running, after)


def _uses(body: Block) -> dict[Value, list[Op]]:
    out: dict[Value, list[Op]] = {}
    for op in body.walk():
        for v in op.operands:
            out.setdefault(v, []).append(op)
    return out


def _fit(load: Op, uses: dict[Value, list[Op]], axes: AxisInfos) -> bool:
    """Whether a load feeds matrix products only and can be copied in pieces of 4 bytes or more."""
    (v,) = load.results
    if not isinstance(v.type, Tile) or len(v.type.shape) != 2 or load.attrs.get("volatile"):
        return False
    e = v.type.elem
    if isinstance(e, Pointer) or e.bits < 8:
        return False
    other = load.operand("other")
    if other is not None and constant_value(other) != 0:
        return False
    if not _feeds(v, uses):
        return False
    ptr, mask = load.operands[0], load.operand("mask")
    return max(axes.vector_length(ptr, mask, a) for a in (0, 1)) * e.itemsize >= SMALLEST_COPY


def _fit_block(load: Op, uses: dict[Value, list[Op]]) -> bool:
    """Whether a block that the machine can copy feeds matrix products only."""
    return all(_feeds(v, uses) for v in _tiles(load, uses))


def _tiles(load: Op, uses: dict[Value, list[Op]]) -> list[Value]:
    """A block as tiles of two axes: itself, or what it is reshaped to."""
    (v,) = load.results
    shape = shape_of(v.type)
    if len(shape) == 2:
        return [v]
    flat = (prod(shape[:-1]), shape[-1])
    users = uses.get(v, [])
    fit = all(op.name == "reshape" and op.attrs["shape"] == flat for op in users)
    return [op.results[0] for op in users] if fit else [v]


def _made(load: Op) -> Op:
    """Where a block's descriptor is made."""
    made = load.operands[0].owner
    assert made is not None
    return made


def _feeds(v: Value, uses: dict[Value, list[Op]]) -> bool:
    users = uses.get(v, [])
    return bool(users) and all(
        (op.name == "dot" and v in op.operands[:2] and v is not op.operands[2])
        or (op.name == "permute" and _feeds(op.results[0], uses))
        for op in users
    )


def _overlapped(
    dots: Sequence[Op], loop: Op, uses: dict[Value, list[Op]], tiles: Container[Value]
) -> dict[Op, Value]:
    """All products with their sums, where nothing but the next iteration's product needs a
    product's result and all factors are copied ahead."""
    out = {}
    for dot in dots:
        acc = _carried(dot, loop, uses)
        if acc is None or acc is not dot.operands[2] or uses[acc] != [dot]:
            return {}
        if not all(origin(v)[0] in tiles for v in dot.operands[:2]):
            return {}
        out[dot] = acc
    return out


def _deferred(dots: Sequence[Op], loop: Op, uses: dict[Value, list[Op]]) -> dict[Op, Value]:
    """Products behind the first one whose results nobody needs before that of the next iteration,
    with their sums."""
    (body,) = loop.regions
    order = {inner: i for i, op in enumerate(body.ops)
             for inner in (op, *(x for region in op.regions for x in region.walk()))}
    out = {}
    for dot in dots[1:]:
        acc = _carried(dot, loop, uses)
        if acc is not None and all(order[op] > order[dots[0]] for op in uses.get(acc, ())):
            out[dot] = acc
    return out


def _carried(dot: Op, loop: Op, uses: dict[Value, list[Op]]) -> Value | None:
    """The carried value that becomes a product's result; None if that is needed elsewhere."""
    (body,) = loop.regions
    (result,), ends = dot.results, body.terminator
    if uses[result] != [ends] or ends.operands.count(result) != 1:
        return None
    return body.args[ends.operands.index(result) + 1]


def _slice(loop: Op, loads: Sequence[Op]) -> tuple[list[Op], list[int]] | None:
    """The ops of the body that addresses and masks need, the carried values among it, and the ops
    that carry those on; None if a load or a product is among them."""
    (body,) = loop.regions
    inside = {r: op for op in body.ops for r in op.results}
    carried: set[int] = set()
    needed: set[Op] = set()
    work = [v for load in loads for v in _places(load)]
    while work:
        v = work.pop()
        if v in inside:
            op = inside[v]
            if op in needed:
                continue
            if not op.opdef.pure or op.regions or op.name == "dot":
                return None
            needed.add(op)
            work += op.operands
        elif v in body.args[1:]:
            i = body.args.index(v) - 1
            if i not in carried:
                carried.add(i)
                work.append(body.terminator.operands[i])
    return [op for op in body.ops if op in needed], sorted(carried)


def _places(load: Op) -> list[Value]:
    """What a load's addresses and mask are made from."""
    if load.name == "desc_load":
        return list(load.group("offsets"))
    mask = load.operand("mask")
    return [load.operands[0], *([mask] if mask is not None else [])]


def fast_axis(axes: AxisInfos, ptr: Value) -> int:
    """The axis of a tile of two axes along which its addresses are neighbours."""
    first, second = (axes.vector_length(ptr, None, a) for a in (0, 1))
    return 0 if first > second else 1


def under(b: Builder, mask: Value, runs: Value) -> Value | None:
    """A mask that is false where the scalar `runs` is; None if it would not be cheaper than both.
    A comparison with one number for all elements gets a number that nothing is less than."""
    op = mask.owner
    if op is None:
        return None
    if op.name in ("broadcast", "expand_dims"):
        inner = under(b, op.operands[0], runs)
        return inner and b.create(op.name, inner, **op.attrs)
    if op.name == "and":
        for x, y in (op.operands, op.operands[::-1]):
            inner = under(b, x, runs)
            if inner is not None:
                return b.and_(inner, y)
    if op.name != "cmp" or op.attrs["pred"] != "lt":
        return None
    x, y = op.operands
    least = lowest(elem_of(y.type))
    bound = y.owner
    if least is None or bound is None or bound.name != "splat":
        return None
    (limit,) = bound.operands
    limit = b.select(runs, limit, b.constant(least, limit.type))
    return b.cmp(x, b.splat(limit, **bound.attrs), pred="lt")


def lowest(e: object) -> int | None:
    """The least number of an integer type."""
    if not isinstance(e, DType) or not e.is_int:
        return None
    return -(1 << e.bits - 1) if e.is_signed else 0


class Pipelined:
    """Builds one loop anew."""

    def __init__(self, found: Found, cloner: Cloner) -> None:
        self.f = found
        self.cloner = cloner
        self.loop = found.loop
        self.b = appending(cloner, self.loop)
        self.index = elem_of(self.loop.operands[0].type)
        self.buffers: dict[Op, Buffer] = {}
        for load, fast in zip(found.loads, found.fast):
            t = load.results[0].type
            assert isinstance(t, Tile) and isinstance(t.elem, DType)
            self.buffers[load] = Buffer(t.shape, t.elem, fast, found.copies)
        self.blocks = [(m, m.buffer(found.copies)) for m in found.maps if m is not None]
        for load, (_, buffer) in zip(found.bulk, self.blocks, strict=True):
            self.buffers[load] = buffer
        self.arrivals = {"arrivals": Arrivals(found.copies)}

    def build(self, begun: bool = False) -> list[Value]:
        """The loop and what stands before and after it; the first copies may have begun."""
        f, b, loop = self.f, self.b, self.loop
        lb, ub, step = (self.cloner.value(v) for v in loop.operands[:3])
        inits = [self.cloner.value(v) for v in loop.group("inits")]
        ahead: list[Value] = [inits[i] for i in f.carried]
        parities = []
        if f.bulk:
            attrs = {**self.arrivals, "waits": not begun}
            parities = list(emit(b, "bulk_begin", [], attrs).results)
        else:
            emit(b, "barrier", [], {})  # a loop around this one may have read the buffers
        if not begun:
            ahead = self.begin(b, self.cloner, ahead)
        zero = b.constant(0, i32)
        slots = [*parities, zero, b.constant(f.stages % f.copies, i32)]
        fresh = Block([self.index, *(v.type for v in (*inits, *ahead, *slots))])
        self._body(fresh, ub, step, len(inits), len(ahead))
        attrs = {**loop.attrs}
        results = b.for_(lb, ub, step, [*inits, *ahead, *slots], fresh, **attrs)
        if f.loads:
            emit(b, "async_wait", [], {"pending": 0})
        if f.bulk:
            emit(b, "bulk_end", [results[len(inits) + len(ahead)]], self.arrivals)
        return list(results[: len(inits)])

    def begin(self, b: Builder, outer: Cloner, ahead: list[Value]) -> list[Value]:
        """Begin the copies of the first iterations; gives the carried values of the next."""
        lb, ub, step = (outer.value(v) for v in self.loop.operands[:3])
        for n in range(self.f.stages):
            iv = lb if n == 0 else b.add(lb, self._times(b, step, n))
            runs = self.runs(b, lb, ub, step, n)
            ahead = self._begin(b, outer, iv, runs, ahead, b.constant(n, i32))
        return ahead

    def _times(self, b: Builder, step: Value, n: int) -> Value:
        return b.mul(step, b.constant(n, self.index))

    def runs(self, b: Builder, iv: Value, ub: Value, step: Value, n: int) -> Value:
        """Whether the iteration n steps after `iv` exists; in 64 bits, where nothing overflows."""
        wide = [b.cast(v, to=i64) if v.type is not i64 else v for v in (iv, ub, step)]
        later = b.add(wide[0], b.mul(wide[2], b.constant(n, i64)))
        return b.cmp(later, wide[1], pred="lt")

    def _begin(self, b: Builder, outer: Cloner, iv: Value, runs: Value, carried: Sequence[Value],
               slot: Value) -> list[Value]:
        """Begin the copies of one iteration; gives the carried values of the next."""
        f = self.f
        (body,) = self.loop.regions
        inner = Cloner()
        inner.map.update(outer.map)
        inner.map[body.args[0]] = iv
        for i, v in zip(f.carried, carried):
            inner.map[body.args[i + 1]] = v
        inner.out = b.block.ops
        for op in f.slice:
            inner.copy(op)
        for load in f.loads:
            ptr = inner.value(load.operands[0])
            shape = shape_of(ptr.type)
            given = load.operand("mask")
            mask = None
            if given is not None:
                mask = under(b, inner.value(given), runs)
            if mask is None:
                mask = b.splat(runs, shape=shape)
                if given is not None:
                    mask = b.and_(mask, inner.value(given))
            assert elem_of(mask.type) is i1
            emit(b, "async_copy", [ptr, slot, mask], {"buffer": self.buffers[load]}, (1, 1, 1))
        if f.loads:
            emit(b, "async_commit", [], {})
        if f.bulk:
            self._begin_blocks(b, inner, runs, slot)
        return [inner.value(body.terminator.operands[i]) for i in f.carried]

    def _begin_blocks(self, b: Builder, inner: Cloner, runs: Value, slot: Value) -> None:
        bases, offsets = [], []
        for load in self.f.bulk:
            made = _made(load)
            bases.append(inner.value(made.operands[0]))
            offsets += inside(b, made, inner.values(load.group("offsets")), inner)
        emit(b, "bulk_copy", [slot, runs, *bases, *offsets],
             {**self.arrivals, "loads": tuple(self.blocks)}, (1, 1, len(bases), len(offsets)))

    def _body(self, fresh: Block, ub: Value, step: Value, inits: int, ahead: int) -> None:
        f, cloner = self.f, self.cloner
        (body,) = self.loop.regions
        saved, cloner.out = cloner.out, fresh.ops
        b = appending(cloner, self.loop)
        for old, new in zip(body.args, fresh.args):
            cloner.map[old] = new
        iv = fresh.args[0]
        carried = fresh.args[1 + inits : 1 + inits + ahead]
        read, write = fresh.args[-2:]
        if f.loads:
            emit(b, "async_wait", [], {"pending": f.stages - 1})
        nexts: list[Value] = []

        def begin() -> None:
            later = b.add(iv, self._times(b, step, f.stages))
            runs = self.runs(b, iv, ub, step, f.stages)
            nexts.extend(self._begin(b, cloner, later, runs, carried, write))

        if f.loads or f.after is None:
            emit(b, "barrier", [], {})
        if f.after is None:
            begin()
        parities = []
        if f.bulk:
            given = [read, fresh.args[-3]]
            parities = list(emit(b, "bulk_wait", given, self.arrivals).results)
        for op in body.ops[:-1]:
            load = f.tiles.get(op.results[0]) if op.results else None
            if load is not None:
                tile = emit(b, "shared_load", [read], {"buffer": self.buffers[load]}, (1,))
                cloner.map[op.results[0]] = tile.results[0]
            elif op in f.bulk:
                continue
            elif op in f.running:
                operands = cloner.values(op.operands)
                attrs = {**op.attrs, "asynchronous": True}
                dot = Op(op.opdef, operands, op.segments, attrs, (), [op.results[0].type], op.loc)
                b.block.ops.append(dot)
                cloner.map[op.results[0]] = dot.results[0]
            else:
                cloner.ops([op])
            if op is not f.after:
                continue
            self._wait(b, op)
            emit(b, "barrier", [], {})
            begin()
        ends = [cloner.value(v) for v in body.terminator.operands]
        ends += [*nexts, *parities, self._next(b, read), self._next(b, write)]
        b.create("yield", ends)
        cloner.out = saved

    def _wait(self, b: Builder, product: Op) -> None:
        """After a product: wait for those of the iteration before."""
        running, cloner = self.f.running, self.cloner
        of = cloner.value(product.results[0])
        own = product in running  # then all products run, and those of this iteration may go on
        for dot, carried in running.items():
            v = dot.results[0] if own else carried
            pending = len(running) if own else 0
            wait = emit(b, "dot_wait", [cloner.value(v), of], {"pending": pending}, (1, 1))
            cloner.map[v] = wait.results[0]

    def _next(self, b: Builder, slot: Value) -> Value:
        after = b.add(slot, b.constant(1, i32))
        last = b.cmp(after, b.constant(self.f.copies, i32), pred="eq")
        return b.select(last, b.constant(0, i32), after)


@dataclass
class FoundAround:
    """A loop around one that is pipelined, and the ops of its body that the copies need."""

    loop: Op
    inner: Found
    slice: list[Op]


def _around(loop: Op, look: Callable[[Op], Found | None]) -> FoundAround | None:
    """Whether the copies of a loop inside can begin before the iteration that needs them: nothing
    that they depend on is carried from one iteration to the next."""
    (body,) = loop.regions
    step = constant_value(loop.operands[2])
    found = [f for f in map(look, body.ops) if f is not None]
    if not isinstance(step, int) or step <= 0 or len(found) != 1:
        return None
    (inner,) = found
    if inner.loads or inner.carried:
        return None
    inside = {r: op for op in body.ops for r in op.results}
    needed: set[Op] = set()
    work = [*inner.loop.operands[:3], *(v for op in inner.slice for v in op.operands)]
    work += [v for load in inner.bulk for v in (*_places(load), *_made(load).operands)]
    while work:
        v = work.pop()
        op = inside.get(v)
        if v in body.args[1:]:
            return None
        if op is None or op in needed:
            continue
        if not op.opdef.pure or op.regions:
            return None
        needed.add(op)
        work += op.operands
    return FoundAround(loop, inner, [op for op in body.ops if op in needed])


class Around:
    """Builds a loop anew whose iterations begin copies for the next."""

    def __init__(self, found: FoundAround, cloner: Cloner) -> None:
        self.f = found
        self.cloner = cloner
        self.pipelined: Pipelined

    def build(self) -> list[Value]:
        loop, cloner = self.f.loop, self.cloner
        (body,) = loop.regions
        b = appending(cloner, loop)
        lb, ub, step = (cloner.value(v) for v in loop.operands[:3])
        inits = [cloner.value(v) for v in loop.group("inits")]
        self.pipelined = Pipelined(self.f.inner, cloner)
        self._begin(b, lb, self.pipelined.runs(b, lb, ub, step, 0))
        fresh = Block([a.type for a in body.args])
        saved, cloner.out = cloner.out, fresh.ops
        cloner.map.update(zip(body.args, fresh.args))
        b = appending(cloner, loop)
        for op in body.ops:
            if op is not self.f.inner.loop:
                cloner.ops([op])
                continue
            self.pipelined.b = b
            results = self.pipelined.build(begun=True)
            cloner.map.update(zip(op.results, results))
            iv = fresh.args[0]
            self._begin(b, b.add(iv, step), self.pipelined.runs(b, iv, ub, step, 1))
        cloner.out = saved
        return list(appending(cloner, loop).for_(lb, ub, step, inits, fresh, **loop.attrs))

    def _begin(self, b: Builder, iv: Value, runs: Value) -> None:
        """Begin the first copies for an iteration of the loop, if there is such a one."""
        (body,) = self.f.loop.regions
        emit(b, "bulk_begin", [], {**self.pipelined.arrivals, "waits": True})
        then, other = Block(), Block()
        outer = Cloner()
        outer.map.update(self.cloner.map)
        outer.map[body.args[0]] = iv
        outer.out = then.ops
        outer.ops(self.f.slice)
        inner = Builder(then, b.loc)
        self.pipelined.begin(inner, outer, [])
        for block in (then, other):
            Builder(block, b.loc).create("yield", [])
        b.if_(runs, then, other)
