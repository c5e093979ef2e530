"""Steps that touch memory or steer control, and the whole of a program."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import numpy as np

from tegula.conformance.programs.base import (
    FEATURES,
    FLOATS,
    INPUT_SIZE,
    INTS,
    SHAPES,
    WORK_SIZE,
    Program,
    dtype_of,
    numel,
)
from tegula.conformance.programs.values import Collecting
from tegula.ir import Block, Function, Module, Pointer, Value
from tegula.ir import types as t
from tegula.ir.types import shape_of, with_shape

ATOMIC_KINDS = ("add", "max", "min", "and", "or", "xor")
MATH = ("exp", "exp2", "log", "log2", "sin", "cos", "tanh", "erf", "rsqrt")
MATH_ULP = 8.0
"""Error that elementary functions may have in random programs."""


class Memory(Collecting):
    """Loads, stores, atomics and descriptors."""

    in_pointers: list[Value]
    work: Value | None

    def inside(self, size: int) -> Value:
        """Offsets within a buffer of `size` elements, of some shape."""
        shape = self.pick(((), *SHAPES))
        source = self.having(lambda v: shape_of(v.type) == shape and dtype_of(v) is t.i32)
        if source is None or self.choose(2):
            source = self.indices(shape)
        unsigned = self.b.cast(source, to=t.u32)
        limit = self.b.constant(size, with_shape(t.u32, shape))
        offsets = self.b.rem(unsigned, limit)
        return self.b.cast(offsets, to=self.pick((t.i32, t.i32, t.i64)))

    def load(self) -> None:
        pointer = self.pick(self.in_pointers)
        assert isinstance(pointer.type, Pointer)
        dtype = pointer.type.elem
        if self.choose(3) == 0:
            self.add(self.b.load(self.at(pointer, self.inside(INPUT_SIZE))))
            return
        shape = self.pick(SHAPES)
        step = self.b.splat(self.b.mul(self.pid, self.n), shape=shape)
        offsets = self.b.add(self.indices(shape), step)
        if self.choose(4) == 0:
            offsets = self.b.mul(offsets, self.b.constant(self.pick((2, 3, -1)), offsets.type))
        low = self.b.cmp(offsets, self.b.constant(0, offsets.type), pred="ge")
        high = self.b.cmp(offsets, self.b.constant(INPUT_SIZE, offsets.type), pred="lt")
        mask = self.b.and_(low, high)
        if self.choose(2):
            mask = self.b.and_(mask, self.mask_for(shape))
        other = None
        if self.choose(2):
            other = self.b.constant(self.number(dtype), with_shape(dtype, shape))
        self.add(self.b.load(self.at(pointer, offsets), mask, other))

    def store(self) -> None:
        """A value to a buffer of its own: forwards, backwards, or with a mask."""
        v = self.tile()
        shape = shape_of(v.type)
        count = numel(v)
        pointer = self.own(self.output(dtype_of(v), count * self.grid), count)
        offsets = self.indices(shape)
        if self.choose(3) == 0:
            offsets = self.b.sub(self.b.constant(count - 1, offsets.type), offsets)
        mask = self.mask_for(shape) if self.choose(2) else None
        self.b.store(self.at(pointer, offsets), v, mask)

    def math(self) -> None:
        """An elementary function; its result goes nowhere but to memory, compared with care."""
        v = self.having(lambda v: dtype_of(v) in (t.f32, t.f64))
        if v is None or self.in_function:
            return
        self.used.add("math")
        name = self.pick(MATH)
        if name in ("sin", "cos"):
            limit = 1000.0
            v = self.b.min(
                self.b.max(v, self.b.constant(-limit, v.type)), self.b.constant(limit, v.type)
            )
        result = self.b.create(name, v)
        count = numel(v)
        pointer = self.own(self.output(dtype_of(v), count * self.grid, MATH_ULP), count)
        self.b.store(self.at(pointer, self.indices(shape_of(v.type))), result)

    def work_access(self) -> None:
        """A load from, or a store to, the buffer that is read and written."""
        assert self.work is not None
        v = self.having(lambda v: dtype_of(v) is t.i32 and numel(v) <= 16)
        if v is None or self.choose(3) == 0:
            self.add(self.b.load(self.at(self.work, self.inside(WORK_SIZE))))
            return
        shape = shape_of(v.type)
        start = self.b.addptr(self.work, self.b.constant(self.choose(8), t.i32))
        mask = self.mask_for(shape) if self.choose(2) else None
        self.b.store(self.at(start, self.indices(shape)), v, mask)

    def work_atomic(self) -> None:
        """An update whose old values are seen: every address once, of this program only."""
        assert self.work is not None
        v = self.having(lambda v: dtype_of(v) is t.i32 and numel(v) <= 16)
        if v is None:
            return
        shape = shape_of(v.type)
        where = self.at(self.work, self.indices(shape))
        if self.choose(4) == 0:
            self.add(self.b.atomic_cas(where, self.like(v), v))
            return
        kind = self.pick((*ATOMIC_KINDS, "xchg"))
        mask = self.mask_for(shape) if self.choose(2) else None
        self.add(self.b.atomic_rmw(where, v, mask, kind=kind))

    def shared_atomic(self) -> None:
        """Updates of one kind to few addresses, from all lanes and programs."""
        v = self.having(lambda v: dtype_of(v) in (t.i32, t.i64, t.u32, t.u64, t.f32))
        if v is None:
            return
        dtype, shape = dtype_of(v), shape_of(v.type)
        kind = self.pick(ATOMIC_KINDS[:1] if dtype.is_float else ATOMIC_KINDS)
        target = self.output(dtype, 7)
        flat = self.indices(shape)
        where = self.b.rem(flat, self.b.constant(self.pick((1, 3, 7)), flat.type))
        mask = self.mask_for(shape) if self.choose(2) else None
        self.b.atomic_rmw(self.at(target, where), self.tame(v), mask, kind=kind)

    def descriptor(self) -> None:
        """A block of an input seen as a matrix, partly outside of it."""
        pointer = self.pick(self.in_pointers)
        assert isinstance(pointer.type, Pointer)
        b = self.b
        rows, columns, pitch = 8, 15, 18
        shape = [b.constant(rows, t.i32), b.constant(columns, t.i32)]
        strides = [b.constant(pitch, t.i64), b.constant(1, t.i64)]
        padding = "nan" if pointer.type.elem.is_float and self.choose(2) else "zero"
        block = self.pick(((4, 8), (1, 16), (3, 5), (8, 4)))
        desc = b.make_descriptor(pointer, shape, strides, block_shape=block, padding=padding)
        first = b.add(b.mul(self.pid, b.constant(3, t.i32)), b.constant(self.choose(5) - 2, t.i32))
        second = self.having(lambda v: v.type is t.i32) or first
        second = b.rem(second, b.constant(20, t.i32))
        self.add(b.desc_load(desc, [first, second]))


class ProgramMaker(Memory):
    """Makes whole programs."""

    def make(self) -> Program:
        """Build the kernel."""
        kinds = (t.f32, t.i32, self.pick(self.floats()), self.pick(INTS))
        params = []
        for index, dtype in enumerate(kinds):
            name = f"x{index}"
            self.inputs[name] = dtype
            params.append(Value(Pointer(dtype), name))
        self.in_pointers = list(params)
        self.n = Value(t.i32, "n")
        work = None
        self.pid = self.b.program_id(axis=0)
        self.work = None
        if "memory" in self.features:
            work = Value(Pointer(t.i32), "work")
            self.outputs["work"] = (t.i32, WORK_SIZE * self.grid)
            self.work = self.own(work, WORK_SIZE)
        self.pool += [self.n, self.pid]
        self.load()
        self.constant()
        for _ in range(self.size):
            self.step()
        self.finish()
        self.b.return_()
        self.body.args = [*params, *([work] if work else []), self.n, *self.out_pointers]
        module = Module([Function("kernel", self.body), *self.functions])
        seed = self.choose(1 << 16)
        return Program(
            module, self.grid, seed, self.inputs, self.outputs, self.used, self.tolerances
        )

    def finish(self) -> None:
        """Store some values, each to a buffer of its own."""
        for v in self.pool[-6:]:
            count = numel(v)
            pointer = self.own(self.output(dtype_of(v), count * self.grid), count)
            self.b.store(self.at(pointer, self.indices(shape_of(v.type))), v)

    def steps(self) -> list[Callable[[], None]]:
        """What may come next; what stands twice comes more often."""
        steps = [self.constant, self.unary, self.binary, self.binary, self.compare, self.select]
        steps += [self.cast, self.reshape, self.reshape, self.spread, self.combine_tiles]
        wanted = {
            "reductions": [self.reduce, self.scan],
            "dot": [self.dot],
            "math": [self.math],
            "collect": [self.flip, self.gather, self.sort, self.histogram, self.map],
        }
        if "memory" in self.features:
            steps += [self.load, self.load, self.store, self.work_access]
            wanted["atomics"] = [self.work_atomic, self.shared_atomic]
            wanted["descriptors"] = [self.descriptor]
        if self.depth == 0:
            wanted["calls"] = [self.call]
        if self.depth < 2:
            wanted["loops"] = [self.loop, self.branch, self.repeat]
        for feature, more in wanted.items():
            if feature in self.features:
                steps += more
        return steps

    def step(self) -> None:
        """Add one thing."""
        self.pick(self.steps())()

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
            return self.b.constant(self.choose(4), t.i32)
        return self.b.min(self.n, self.b.constant(3, t.i32))

    def loop(self) -> None:
        inits = self.carried()
        lower = self.b.constant(self.choose(2), t.i32)
        step = self.b.constant(1 + self.choose(2), t.i32)
        upper = self.bound()
        if self.choose(4) == 0:  # downwards
            lower, upper = upper, self.b.constant(-self.choose(2), t.i32)
            step = self.b.neg(step)
        body = Block([t.i32, *(v.type for v in inits)])
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
                picked = [[v for v in self.pool if v.type is kind] for kind in kinds]
                self.b.yield_([self.pick(values) for values in picked])
        self.add_all(self.b.if_(condition, *blocks))

    def repeat(self) -> None:
        """A while loop of at most three turns."""
        inits = [self.b.constant(0, t.i32), *self.carried()]
        before, after = (Block([v.type for v in inits]) for _ in range(2))
        with self.inner(before):
            self.pool.extend(before.args)
            limit = self.b.constant(1 + self.choose(3), t.i32)
            going = self.b.cmp(before.args[0], limit, pred="lt")
            self.b.condition(going, before.args)
        with self.inner(after):
            self.pool.extend(after.args)
            self.few_steps()
            count = self.b.add(after.args[0], self.b.constant(1, t.i32))
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
            self.in_function = True
            for _ in range(1 + self.choose(3)):
                self.pick((self.unary, self.binary, self.compare, self.select, self.cast))()
            result = self.pool[-1]
            self.in_function = False
            self.b.return_([result])
            self.pool = saved
        self.functions.append(Function(name, body, [result.type], "func"))
        self.add_all(self.b.call([v, u], callee=name, types=(result.type,)))


def random_program(seed: int, features: frozenset[str] = FEATURES, size: int = 14) -> Program:
    """The random tile program of a number."""
    rng = np.random.default_rng(seed)
    return ProgramMaker(lambda n: int(rng.integers(0, n)), features, size).make()


__all__ = ["FLOATS", "ProgramMaker", "random_program"]
