"""Random tile programs, and the other Hypothesis strategies of the tests.

`ProgramMaker` builds a well-typed kernel from a stream of choices; `programs()` draws the choices
from Hypothesis, so failures shrink, and a plain random number generator serves for long runs.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tegula import ir
from tegula.ir import Block, Builder, DType, Function, Module, Pointer, Tile, Value
from tegula.ir.types import elem_of, numpy_dtype, shape_of, with_shape

INTS = (ir.i32, ir.i64, ir.i8, ir.i16, ir.u8, ir.u32, ir.u64, ir.u16)
FLOATS = (ir.f32, ir.f64, ir.f16, ir.bf16)
SHAPES = ((1,), (5,), (8,), (3, 4), (1, 6), (4, 1), (2, 3, 2), (7, 1), (16,), (1, 1))
INPUT_SIZE = 29
SCRATCH_SIZE = 24
FEATURES = frozenset({"memory", "loops", "reductions", "dot", "math", "calls", "atomics"})


@dataclass
class Program:
    """A kernel, its grid, and how to make its arguments."""

    module: Module
    grid: int
    seed: int
    inputs: dict[str, DType]
    outputs: dict[str, tuple[DType, int]]
    used: set[str] = field(default_factory=set)

    def arguments(self) -> dict[str, Any]:
        """Fresh arguments by name: the same ones each time."""
        rng = np.random.default_rng(self.seed)
        args: dict[str, Any] = {n: sample(rng, t, INPUT_SIZE) for n, t in self.inputs.items()}
        args["n"] = int(rng.integers(-3, 9))
        for name, (dtype, size) in self.outputs.items():
            args[name] = np.zeros(size, storage_of(dtype))
        order = [p.name for p in self.module.kernels[0].body.args]
        return {name: args[name] for name in order}

    def __repr__(self) -> str:
        return f"grid {self.grid}, seed {self.seed}\n{self.module}"


def storage_of(t: DType) -> np.dtype:
    """numpy dtype of elements in memory."""
    return np.dtype(np.uint8) if t is ir.i1 else numpy_dtype(t)


def sample(rng: np.random.Generator, t: DType, size: int) -> np.ndarray:
    """Values of a dtype with its edge cases among them."""
    dtype = storage_of(t)
    if t.is_float:
        values = (rng.integers(-40, 40, size) / 4.0).astype(np.float64)
        values[rng.random(size) < 0.05] = 0.0
        values[rng.random(size) < 0.05] = -0.0
        special = rng.random(size) < 0.04
        values[special] = rng.choice([np.inf, -np.inf, np.nan, 1e6, 1e-6], int(special.sum()))
        with np.errstate(all="ignore"):
            return values.astype(dtype)
    if t is ir.i1:
        return rng.integers(0, 2, size).astype(dtype)
    values = rng.integers(max(t.min_value, -9), min(t.max_value, 20), size).astype(dtype)
    edge = rng.random(size) < 0.08
    values[edge] = rng.choice(np.array([t.min_value, t.max_value], dtype), int(edge.sum()))
    return values


class ProgramMaker:
    """Grows a kernel op by op; `choose(n)` gives a number below n."""

    def __init__(
        self, choose: Callable[[int], int], features: frozenset[str] = FEATURES, size: int = 14
    ) -> None:
        self.choose = choose
        self.features = features
        self.size = size
        self.body = Block()
        self.b = Builder(self.body)
        self.pool: list[Value] = []
        self.inputs: dict[str, DType] = {}
        self.outputs: dict[str, tuple[DType, int]] = {}
        self.functions: list[Function] = []
        self.used: set[str] = set()
        self.depth = 0

    # -- choices

    def pick(self, items: Any) -> Any:
        items = list(items)
        return items[self.choose(len(items))]

    def having(self, test: Callable[[Value], bool]) -> Value | None:
        """A value of the pool that passes the test."""
        found = [v for v in self.pool if test(v)]
        return self.pick(found) if found else None

    def number(self, t: DType) -> int | float:
        if t.is_float:
            return float(self.pick([0.0, 1.0, -0.0, -1.0, 2.0, 0.5, 3.0, -0.25, 8.0]))
        return int(self.pick(sorted({0, 1, 2, 3, 7, t.max_value, max(-1, t.min_value)} & _fits(t))))

    def tile(self) -> Value:
        return self.pick(self.pool)

    def like(self, v: Value) -> Value:
        """A value of the same type: another one, the same one, or a constant."""
        same = [u for u in self.pool if u.type is v.type]
        if self.choose(3) == 0:
            return self.b.constant(self.number(elem_of(v.type)), v.type)
        return self.pick(same) if same else v

    # -- the kernel

    def make(self) -> Program:
        """Build the kernel."""
        grid = 1 + self.choose(2)
        kinds = (ir.f32, ir.i32, self.pick(FLOATS), self.pick(INTS))
        params = []
        for index, t in enumerate(kinds):
            name = f"x{index}"
            self.inputs[name] = t
            params.append(Value(Pointer(t), name))
        n = Value(ir.i32, "n")
        self.in_pointers = list(params)
        self.n = n
        self.scratch: Value | None = None
        self.alone = grid == 1
        if self.alone and "memory" in self.features:
            self.scratch = Value(Pointer(ir.i32), "scratch")
            self.outputs["scratch"] = (ir.i32, SCRATCH_SIZE)
        self.pool.append(n)
        self.pid = self.b.program_id(axis=0)
        self.pool.append(self.pid)
        self.load()
        self.constant()
        for _ in range(self.size):
            self.step()
        stores = self.finish(grid)
        self.b.return_()
        self.body.args = [*params, *([self.scratch] if self.scratch else []), n, *stores]
        kernel = Function("kernel", self.body)
        module = Module([kernel, *self.functions])
        seed = self.choose(1 << 16)
        return Program(module, grid, seed, self.inputs, self.outputs, self.used)

    def finish(self, grid: int) -> list[Value]:
        """Store some values, each to a buffer of its own."""
        pointers = []
        chosen = [v for v in self.pool if isinstance(elem_of(v.type), DType)][-6:]
        for index, v in enumerate(chosen):
            t, count = elem_of(v.type), prod(shape_of(v.type))
            name = f"out{index}"
            self.outputs[name] = (t, max(1, count * grid))
            pointer = Value(Pointer(t), name)
            pointers.append(pointer)
            base = self.b.mul(self.pid, self.b.constant(count, ir.i32))
            self.b.store(self.at(self.b.addptr(pointer, base), self.indices(shape_of(v.type))), v)
        return pointers

    def indices(self, shape: tuple[int, ...]) -> Value:
        """0, 1, 2, ... in row-major order."""
        if not shape:
            return self.b.constant(0, ir.i32)
        flat = self.b.arange(start=0, end=prod(shape))
        return flat if len(shape) == 1 else self.b.reshape(flat, shape=shape)

    def at(self, pointer: Value, offsets: Value) -> Value:
        shape = shape_of(offsets.type)
        return self.b.addptr(self.b.splat(pointer, shape=shape) if shape else pointer, offsets)

    def step(self) -> None:
        """Add one thing."""
        steps = [self.constant, self.unary, self.binary, self.binary, self.compare, self.select]
        steps += [self.cast, self.reshape, self.reshape, self.spread, self.combine_tiles]
        if "memory" in self.features:
            steps += [self.load, self.load]
            if self.scratch is not None:
                steps += [self.scratch_access]
        if "atomics" in self.features and self.scratch is not None:
            steps += [self.atomic]
        if "reductions" in self.features:
            steps += [self.reduce, self.scan]
        if "dot" in self.features:
            steps += [self.dot]
        if "math" in self.features:
            steps += [self.math]
        if "calls" in self.features and self.depth == 0:
            steps += [self.call]
        if "loops" in self.features and self.depth < 2:
            steps += [self.loop, self.branch, self.repeat]
        self.pick(steps)()

    def add(self, value: Value) -> Value:
        self.pool.append(value)
        return value

    # -- arithmetic

    def constant(self) -> None:
        t = self.pick((*INTS[:4], *FLOATS, ir.i1))
        shape = self.pick(((), *SHAPES))
        if t is ir.i32 and len(shape) == 1 and self.choose(2):
            start = self.choose(5) - 2
            self.add(self.b.arange(start=start, end=start + shape[0]))
        else:
            self.add(self.b.constant(self.number(t), with_shape(t, shape)))

    def unary(self) -> None:
        v = self.tile()
        t = elem_of(v.type)
        name = self.pick(("neg", "abs") if t.is_float else ("neg", "abs", "not"))
        if t.is_float and self.choose(3) == 0:
            name = self.pick(("floor", "ceil", "trunc", "rint"))
        self.add(self.b.create(name, v))

    def binary(self) -> None:
        v = self.tile()
        t = elem_of(v.type)
        u = self.like(v)
        names = ["add", "sub", "mul", "div", "rem", "min", "max"]
        if not t.is_float:
            names += ["and", "or", "xor", "shl", "shr"] + (["mulhi"] if t is not ir.i1 else [])
        elif self.choose(4) == 0:
            self.add(self.b.fma(v, u, self.like(v)))
            return
        name = self.pick(names)
        attrs = {"nan": self.pick(("ignore", "propagate"))} if name in ("min", "max") else {}
        a, c = (v, u) if self.choose(2) else (u, v)
        self.add(self.one_zero(self.b.create(name, a, c, **attrs), name in ("min", "max")))

    def one_zero(self, v: Value, tie: bool) -> Value:
        """-0.0 becomes 0.0 where a tie of zeros may give either, so that results are unique."""
        if not tie or not elem_of(v.type).is_float:
            return v
        return self.b.add(v, self.b.constant(0.0, v.type))

    def compare(self) -> None:
        v = self.tile()
        self.add(self.b.cmp(v, self.like(v), pred=self.pick(("eq", "ne", "lt", "le", "gt", "ge"))))

    def select(self) -> None:
        v = self.tile()
        u = self.like(v)
        self.add(self.b.select(self.mask_for(shape_of(v.type)), v, u))

    def mask_for(self, shape: tuple[int, ...]) -> Value:
        """A mask of the shape."""
        t = with_shape(ir.i1, shape)
        found = self.having(lambda v: v.type is t)
        if found is not None and self.choose(3):
            return found
        source = self.having(lambda v: shape_of(v.type) == shape)
        if source is None:
            return self.b.constant(self.choose(2), t)
        return self.b.cmp(source, self.like(source), pred=self.pick(("lt", "ne", "ge")))

    def cast(self) -> None:
        v = self.tile()
        t = elem_of(v.type)
        to = self.pick((*INTS, *FLOATS, ir.i1))
        if t.bits == to.bits and t is not ir.i1 and self.choose(3) == 0:
            if not t.is_float:  # bits of NaN are nobody's promise
                self.add(self.b.bitcast(v, to=to) if not to.is_float else v)
            return
        rounding = "rtz" if t.is_float and to.is_float and self.choose(4) == 0 else "rtne"
        self.add(self.b.cast(v, to=to, rounding=rounding))

    def math(self) -> None:
        v = self.having(lambda v: elem_of(v.type) in (ir.f32, ir.f64))
        if v is not None:
            self.used.add("math")
            self.add(self.b.create(self.pick(("exp", "exp2", "log2", "sqrt", "sin", "tanh")), v))

    # -- shapes

    def reshape(self) -> None:
        v = self.tile()
        shape = shape_of(v.type)
        if not shape:
            self.add(self.b.splat(v, shape=self.pick(SHAPES)))
            return
        which = self.choose(4)
        if which == 0 and len(shape) < 4:
            self.add(self.b.expand_dims(v, axis=self.choose(len(shape) + 1)))
        elif which == 1:
            dims = list(range(len(shape)))
            first = self.choose(len(dims))
            self.add(self.b.permute(v, dims=tuple(dims[first:] + dims[:first])))
        elif which == 2:
            forms = [(prod(shape),), (1, prod(shape)), (prod(shape), 1), shape[::-1]]
            self.add(self.b.reshape(v, shape=self.pick(forms)))
        else:
            larger = tuple(self.pick((1, 2, 3)) if s == 1 else s for s in shape)
            self.add(self.b.broadcast(v, shape=larger))

    def spread(self) -> None:
        """Two tiles brought to one shape, as broadcasting does."""
        v = self.having(lambda v: len(shape_of(v.type)) == 1)
        if v is None:
            return
        n = shape_of(v.type)[0]
        m = self.pick((1, 2, 5))
        column = self.b.arange(start=0, end=m)
        wide = self.b.broadcast(self.b.expand_dims(v, axis=0), shape=(m, n))
        tall = self.b.broadcast(self.b.expand_dims(column, axis=1), shape=(m, n))
        self.add(self.b.add(wide, self.b.cast(tall, to=elem_of(v.type))))

    def combine_tiles(self) -> None:
        v = self.tile()
        shape = shape_of(v.type)
        which = self.choose(3)
        if which == 0 and shape:
            self.add(self.b.cat(v, self.like(v), axis=self.choose(len(shape))))
        elif which == 1 and len(shape) < 3:
            self.add(self.b.join(v, self.like(v)))
        elif shape and shape[-1] == 2:
            for half in self.b.split(v):
                self.add(half)

    # -- memory

    def inside(self, size: int) -> Value:
        """Offsets within a buffer of `size` elements, of some shape."""
        shape = self.pick(((), *SHAPES))
        source = self.having(lambda v: shape_of(v.type) == shape and elem_of(v.type) is ir.i32)
        if source is None:
            source = self.indices(shape)
        unsigned = self.b.cast(source, to=ir.u32)
        limit = self.b.constant(size, with_shape(ir.u32, shape))
        return self.b.cast(self.b.rem(unsigned, limit), to=ir.i32)

    def load(self) -> None:
        pointer = self.pick(self.in_pointers)
        t = pointer.type.elem
        if self.choose(3):
            self.add(self.b.load(self.at(pointer, self.inside(INPUT_SIZE))))
            return
        shape = self.pick(SHAPES)
        offsets = self.b.add(
            self.indices(shape), self.b.splat(self.b.mul(self.pid, self.n), shape=shape)
        )
        low = self.b.cmp(offsets, self.b.constant(0, offsets.type), pred="ge")
        high = self.b.cmp(offsets, self.b.constant(INPUT_SIZE, offsets.type), pred="lt")
        mask = self.b.and_(self.b.and_(low, high), self.mask_for(shape))
        other = self.b.constant(self.number(t), with_shape(t, shape)) if self.choose(2) else None
        self.add(self.b.load(self.at(pointer, offsets), mask, other))

    def scratch_access(self) -> None:
        """A load from, or a store to, the buffer that is read and written."""
        assert self.scratch is not None
        v = self.having(lambda v: elem_of(v.type) is ir.i32 and prod(shape_of(v.type)) <= 16)
        if v is None or self.choose(3) == 0:
            self.add(self.b.load(self.at(self.scratch, self.inside(SCRATCH_SIZE))))
            return
        shape = shape_of(v.type)
        start = self.b.addptr(self.scratch, self.b.constant(self.choose(8), ir.i32))
        mask = self.mask_for(shape) if self.choose(2) else None
        self.b.store(self.at(start, self.indices(shape)), v, mask)

    def atomic(self) -> None:
        assert self.scratch is not None
        v = self.having(lambda v: elem_of(v.type) is ir.i32 and prod(shape_of(v.type)) <= 16)
        if v is None:
            return
        shape = shape_of(v.type)
        kind = self.pick(("add", "max", "min", "and", "or", "xor", "xchg"))
        mask = self.mask_for(shape) if self.choose(2) else None
        where = self.at(self.scratch, self.indices(shape))
        self.add(self.b.atomic_rmw(where, v, mask, kind=kind))

    # -- combining

    def region(self, t: DType, allowed: tuple[str, ...]) -> Block:
        block = Block([t, t])
        inner = Builder(block)
        inner.yield_([inner.create(self.pick(allowed), *block.args)])
        return block

    def source(self) -> Value | None:
        return self.having(lambda v: bool(shape_of(v.type)) and 0 not in shape_of(v.type))

    def kinds(self, t: DType) -> tuple[str, ...]:
        return ("add", "max", "min") if t.is_float else ("add", "max", "min", "and", "or", "xor")

    def reduce(self) -> None:
        v = self.source()
        if v is None:
            return
        t = elem_of(v.type)
        axis = self.choose(len(shape_of(v.type)))
        if t.is_float:
            self.used.add("float sums")
        if self.choose(3) == 0 and t is not ir.i1:
            self.add_all(self.b.reduce([v, self.positions(v, axis)], _argmax(t), axis=axis))
        else:
            folded = self.b.reduce([v], self.region(t, self.kinds(t)), axis=axis)
            self.add(self.one_zero(folded[0], True))

    def positions(self, v: Value, axis: int) -> Value:
        shape = shape_of(v.type)
        along = self.b.arange(start=0, end=shape[axis])
        ones = tuple(s if i == axis else 1 for i, s in enumerate(shape))
        return self.b.broadcast(self.b.reshape(along, shape=ones), shape=shape)

    def scan(self) -> None:
        v = self.source()
        if v is None:
            return
        t = elem_of(v.type)
        if t.is_float:
            self.used.add("float sums")
        axis, reverse = self.choose(len(shape_of(v.type))), bool(self.choose(2))
        region = self.region(t, self.kinds(t))
        (prefix,) = self.b.scan([v], region, axis=axis, reverse=reverse)
        self.add(self.one_zero(prefix, True))

    def dot(self) -> None:
        v = self.having(lambda v: len(shape_of(v.type)) == 2 and elem_of(v.type) is not ir.i1)
        if v is None:
            return
        t, (m, k) = elem_of(v.type), shape_of(v.type)
        acc = ir.i32 if not t.is_float else ir.f64 if t is ir.f64 else ir.f32
        if not t.is_float and t.bits > 8:
            return
        n = self.pick((1, 3, 4))
        other = self.b.constant(self.number(t), Tile((k, n), t))
        known = self.having(lambda u: shape_of(u.type) == (k, n) and elem_of(u.type) is t)
        self.used.add("float sums")
        self.add(
            self.b.dot(v, known or other, self.b.constant(self.number(acc), Tile((m, n), acc)))
        )

    def add_all(self, values: tuple[Value, ...]) -> None:
        self.pool.extend(values)

    # -- control flow and calls

    @contextlib.contextmanager
    def inner(self, block: Block) -> Iterator[None]:
        """Work in a block; what it defines is out of reach afterwards."""
        saved, self.pool = self.pool, list(self.pool)
        self.depth += 1
        with self.b.at(block):
            yield
        self.depth -= 1
        self.pool = saved

    def few_steps(self) -> None:
        for _ in range(1 + self.choose(4)):
            self.step()

    def carried(self) -> list[Value]:
        return [self.tile() for _ in range(self.choose(3))]

    def bound(self) -> Value:
        if self.choose(2):
            return self.b.constant(self.choose(4), ir.i32)
        return self.b.min(self.n, self.b.constant(3, ir.i32))

    def loop(self) -> None:
        inits = self.carried()
        lower = self.b.constant(self.choose(2), ir.i32)
        step = self.b.constant(1 + self.choose(2), ir.i32)
        upper = self.bound()
        body = Block([ir.i32, *(v.type for v in inits)])
        with self.inner(body):
            self.pool.extend(body.args)
            self.few_steps()
            self.b.yield_([self.like(v) for v in body.args[1:]])
        self.add_all(self.b.for_(lower, upper, step, inits, body))

    def branch(self) -> None:
        kinds = [v.type for v in self.carried()]
        condition = self.mask_for(())
        blocks = [Block(), Block()]
        for block in blocks:
            with self.inner(block):
                self.few_steps()
                picked = [[v for v in self.pool if v.type is t] for t in kinds]
                self.b.yield_([self.pick(values) for values in picked])
        self.add_all(self.b.if_(condition, *blocks))

    def repeat(self) -> None:
        """A while loop of at most three turns."""
        inits = [self.b.constant(0, ir.i32), *self.carried()]
        before, after = (Block([v.type for v in inits]) for _ in range(2))
        with self.inner(before):
            self.pool.extend(before.args)
            limit = self.b.constant(1 + self.choose(3), ir.i32)
            going = self.b.cmp(before.args[0], limit, pred="lt")
            self.b.condition(going, before.args)
        with self.inner(after):
            self.pool.extend(after.args)
            self.few_steps()
            count = self.b.add(after.args[0], self.b.constant(1, ir.i32))
            self.b.yield_([count, *(self.like(v) for v in after.args[1:])])
        self.add_all(self.b.while_(inits, before, after))

    def call(self) -> None:
        """Call a new device function of two arguments."""
        v = self.tile()
        u = self.like(v)
        name = f"f{len(self.functions)}"
        body = Block([v.type, u.type])
        with self.b.at(body):
            saved, self.pool = self.pool, list(body.args)
            self.depth += 1
            for _ in range(1 + self.choose(3)):
                self.pick((self.unary, self.binary, self.compare, self.select, self.cast))()
            result = self.pool[-1]
            self.depth -= 1
            self.b.return_([result])
            self.pool = saved
        self.functions.append(Function(name, body, [result.type], "func"))
        self.add_all(self.b.call([v, u], callee=name, types=(result.type,)))


def _fits(t: DType) -> set[int]:
    return {n for n in (0, 1, 2, 3, 7, t.max_value, -1) if t.min_value <= n <= t.max_value}


def _argmax(t: DType) -> Block:
    """(value, index) pairs to the larger value, of equal ones to the smaller index."""
    block = Block([t, ir.i32, t, ir.i32])
    b = Builder(block)
    v0, i0, v1, i1 = block.args
    more = b.cmp(v0, v1, pred="gt")
    tie = b.and_(b.cmp(v0, v1, pred="eq"), b.cmp(i0, i1, pred="lt"))
    first = b.or_(more, tie)
    b.yield_([b.select(first, v0, v1), b.select(first, i0, i1)])
    return block


@st.composite
def programs(draw: Any, features: frozenset[str] = FEATURES, size: int = 14) -> Program:
    """Random tile programs."""

    def choose(n: int) -> int:
        return draw(st.integers(0, n - 1)) if n > 1 else 0

    return ProgramMaker(choose, features, size).make()


def random_program(seed: int, features: frozenset[str] = FEATURES, size: int = 14) -> Program:
    """A random tile program without Hypothesis, for long runs."""
    rng = np.random.default_rng(seed)
    return ProgramMaker(lambda n: int(rng.integers(0, n)), features, size).make()
