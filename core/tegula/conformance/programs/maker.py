"""Steps that steer control, and the whole of a program."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import numpy as np

from tegula.conformance.programs.base import (
    FEATURES,
    FLOATS,
    INTS,
    WORK_SIZE,
    Program,
    dtype_of,
    numel,
)
from tegula.conformance.programs.memory import Memory
from tegula.ir import Block, Function, Module, Pointer, Value
from tegula.ir import types as t
from tegula.ir.types import shape_of


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
        self.n, self.far = Value(t.i32, "n"), Value(t.i32, "far")
        work = None
        self.pid = self.b.program_id(axis=0)
        self.work = None
        if "memory" in self.features:
            work = Value(Pointer(t.i32), "work")
            self.outputs["work"] = (t.i32, WORK_SIZE * self.grid)
            self.work = self.own(work, WORK_SIZE)
        self.pool += [self.n, self.pid, self.far]
        self.load()
        self.constant()
        for _ in range(self.size):
            self.step()
        self.finish()
        self.b.return_()
        self.body.args = [*params, *([work] if work else []), self.n, self.far, *self.out_pointers]
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
        steps += [self.slice, self.grid_number, self.promise]
        wanted = {
            "reductions": [self.reduce, self.scan, self.reduce_pair, self.scan_pair],
            "dot": [self.dot],
            "math": [self.math],
            "collect": [self.flip, self.gather, self.sort, self.histogram, self.map],
        }
        if "memory" in self.features:
            steps += [self.load, self.load, self.store, self.work_access]
            steps += [self.far_index, self.far_load]
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
