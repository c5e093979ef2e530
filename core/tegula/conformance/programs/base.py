"""What a random program is, and how one grows: a pool of values, choices, parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from tegula.conformance.case import Buffer, Case, Expected, Launch
from tegula.conformance.programs.order import Watch, Wide
from tegula.conformance.values import Rule, storage, ulp_error
from tegula.interp.errors import InterpreterError
from tegula.interp.interpreter import Around
from tegula.ir import Block, Builder, DType, Function, Module, Pointer, Value
from tegula.ir import types as t
from tegula.ir.types import elem_of, shape_of, with_shape

INTS = (t.i32, t.i64, t.i8, t.i16, t.u8, t.u32, t.u64, t.u16)
FLOATS = (t.f32, t.f64, t.f16, t.bf16)
SHAPES = (
    (1,), (5,), (8,), (3, 4), (1, 6), (4, 1), (2, 3, 2), (7, 1), (16,), (1, 1),
    (33,), (64,), (4, 16), (3, 20), (17, 5), (2, 1, 9), (100,),
)  # fmt: skip
MAX_ELEMENTS = 512
INPUT_SIZE = 150
WORK_SIZE = 24
"""Elements of the buffer that a program reads and writes, per program."""
MAX_GRID = 3
FEATURES = frozenset(
    {
        "memory", "loops", "reductions", "dot", "math", "calls", "atomics", "descriptors",
        "narrow", "collect",
    }
)  # fmt: skip
"""What programs may contain: `narrow` stands for fp8 values, `collect` for sorting and the like."""

NOT_COMPARED = {
    "print": "what programs of a grid print comes in any order",
    "inline_asm": "is not the same on two targets",
    "extern_call": "is not the same on two targets",
}
"""Ops that no random program has, and why."""

Choose = Callable[[int], int]


@dataclass
class Program:
    """A kernel, its grid, and how to make its arguments."""

    module: Module
    grid: int
    seed: int
    inputs: dict[str, DType]
    outputs: dict[str, tuple[DType, int]]
    used: set[str] = field(default_factory=set)
    tolerances: dict[str, float] = field(default_factory=dict)
    """Outputs that may differ by some units in the last place."""

    def arguments(self) -> dict[str, Any]:
        """Fresh arguments by name, in order: the same ones each time."""
        rng = np.random.default_rng(self.seed)
        args: dict[str, Any] = {n: sample(rng, d, INPUT_SIZE) for n, d in self.inputs.items()}
        args["n"] = int(rng.integers(-3, 40))
        args["far"] = int(t.i32.max_value - rng.integers(0, 80))
        for name, (dtype, size) in self.outputs.items():
            args[name] = np.zeros(size, storage(dtype))
        order = [p.name for p in self.module.kernels[0].body.args]
        return {name or "": args[name or ""] for name in order}

    def case(self) -> Case:
        """The program as a case, with what the interpreter says as what is expected."""
        launch = self.launch()
        after = interpret(launch)
        expected = {
            name: Expected(after[name], Rule(ulp=self.tolerances.get(name, 0)))
            for name in self.outputs
        }
        return Case(launch, expected, options=dict(OPTIONS))

    def launch(self) -> Launch:
        """Kernel, arguments and grid."""
        dtypes = {**self.inputs, **{n: d for n, (d, _) in self.outputs.items()}}
        args: list[Any] = []
        for name, value in self.arguments().items():
            if isinstance(value, np.ndarray):
                args.append(Buffer(name, dtypes[name], value, writable=name in self.outputs))
            else:
                args.append(value)
        return Launch(self.module, args, (self.grid, 1, 1))

    def __repr__(self) -> str:
        return f"grid {self.grid}, seed {self.seed}\n{self.module}"


ORDER_ULP = 16.0
ORDER_FACTOR = 8.0
"""What orders of sums explain: a little, and several times the error against sums in 64 bits."""

OPTIONS = {"enable_fp_fusion": False}
"""Compile options under which a program has one right result."""


class Ambiguous(InterpreterError):
    """A program whose results depend on an order that nobody promises."""


class OrderOfSums(Ambiguous):
    """A program with a sum of floats that is rounded on the way."""


def interpret(
    launch: Launch, strict: bool = False, free_sums: bool = False
) -> dict[str, np.ndarray]:
    """What the launch leaves in its buffers, by the interpreter with checked memory.

    With `strict`, a store that writes an address twice, results that depend on the order of
    programs and sums that depend on theirs raise Ambiguous; with `free_sums`, the last do not.
    """
    watch = Watch() if strict and not free_sums else None
    after = _interpret(launch, strict, False, watch and watch.around)
    if watch is not None and watch.shows is not None:
        raise OrderOfSums(f"the order of a sum shows ({watch.shows.name})")
    if strict and launch.grid != (1, 1, 1):
        other = _interpret(launch, strict, True)
        if any(after[n].tobytes() != other[n].tobytes() for n in after):
            raise Ambiguous("the order of programs shows")
    return after


def explained(launch: Launch, after: dict[str, np.ndarray]) -> dict[str, float]:
    """The units in the last place, by buffer, that another order of sums can explain."""
    exact = _interpret(launch, False, False, Wide().around)
    found = {}
    for buffer in launch.buffers:
        if buffer.dtype.is_float and buffer.dtype.bits > 8:
            error = ulp_error(exact[buffer.name], after[buffer.name], buffer.dtype)
            worst = float(error.max(initial=0.0))
            found[buffer.name] = ORDER_ULP + ORDER_FACTOR * (worst if np.isfinite(worst) else 0.0)
    return found


def _interpret(
    launch: Launch, strict: bool, backwards: bool, around: Around | None = None
) -> dict[str, np.ndarray]:
    from tegula.interp import Interpreter
    from tegula.interp.interpreter import State
    from tegula.interp.memory import Memory

    class Checked(Memory):
        def store(self, addresses: Any, values: Any, root: Any) -> None:
            if strict and np.unique(addresses).size != addresses.size:
                raise Ambiguous("a store writes one address twice")
            super().store(addresses, values, root)

    memory = launch.fresh()
    args = [memory[a.name] if isinstance(a, Buffer) else a for a in launch.args]
    interpreter = Interpreter(launch.module, around=around)
    if not strict:
        with np.errstate(all="ignore"):
            interpreter.run(launch.grid, args, output=lambda line: None)
        return memory
    values, table, roots = interpreter._bind(args, ())
    state = State("kernel", Checked(table, False), lambda line: None)
    state.roots, state.grid = roots, launch.grid
    gx, gy, gz = launch.grid
    places = [(x, y, z) for z in range(gz) for y in range(gy) for x in range(gx)]
    with np.errstate(all="ignore"):
        for place in reversed(places) if backwards else places:
            state.pid = place
            interpreter._plan.call(state, values)
    return memory


def sample(rng: np.random.Generator, dtype: DType, size: int) -> np.ndarray:
    """Values of a dtype with its edge cases among them."""
    kept = storage(dtype)
    if dtype.is_float:
        values = (rng.integers(-40, 40, size) / 4.0).astype(np.float64)
        odd = rng.random(size) < 0.1  # of which narrower types do not hold all bits
        values[odd] = rng.standard_normal(int(odd.sum())) * 3.0
        values[rng.random(size) < 0.05] = 0.0
        values[rng.random(size) < 0.05] = -0.0
        special = rng.random(size) < 0.04
        values[special] = rng.choice([np.inf, -np.inf, np.nan, 1e6, 1e-6], int(special.sum()))
        if dtype.bits == 8:  # an infinity becomes finite at the next rounding, whenever that is
            values[np.isinf(values)] = 1.0
        with np.errstate(all="ignore"):
            return values.astype(kept)
    if dtype is t.i1:
        return rng.integers(0, 2, size).astype(kept)
    values = rng.integers(max(dtype.min_value, -9), min(dtype.max_value, 20), size).astype(kept)
    edge = rng.random(size) < 0.08
    values[edge] = rng.choice(np.array([dtype.min_value, dtype.max_value], kept), int(edge.sum()))
    return values


class Base:
    """Grows a kernel op by op; `choose(n)` gives a number below n."""

    def __init__(self, choose: Choose, features: frozenset[str] = FEATURES, size: int = 14) -> None:
        self.choose = choose
        self.features = features
        self.size = size
        self.body = Block()
        self.b = Builder(self.body)
        self.pool: list[Value] = []
        self.inputs: dict[str, DType] = {}
        self.outputs: dict[str, tuple[DType, int]] = {}
        self.tolerances: dict[str, float] = {}
        self.functions: list[Function] = []
        self.used: set[str] = set()
        self.depth = 0
        self.in_function = False
        self.out_pointers: list[Value] = []
        self.grid = 1 + choose(MAX_GRID)

    # -- choices

    def pick(self, items: Any) -> Any:
        items = list(items)
        return items[self.choose(len(items))]

    def having(self, test: Callable[[Value], bool]) -> Value | None:
        """A value of the pool that passes the test."""
        found = [v for v in self.pool if test(v)]
        return self.pick(found) if found else None

    def number(self, dtype: DType) -> int | float:
        if dtype.is_float:
            return float(self.pick([0.0, 1.0, -0.0, -1.0, 2.0, 0.5, 3.0, -0.25, 8.0]))
        wanted = (0, 1, 2, 3, 7, 31, dtype.max_value, dtype.min_value, -1)
        fits = sorted({n for n in wanted if dtype.min_value <= n <= dtype.max_value})
        return int(self.pick(fits))

    def floats(self) -> tuple[DType, ...]:
        return (*FLOATS, t.f8e4nv, t.f8e5) if "narrow" in self.features else FLOATS

    def tile(self) -> Value:
        """Any value of the pool, the latest ones more often."""
        if self.choose(3) == 0:
            return self.pick(self.pool[-4:])
        return self.pick(self.pool)

    def like(self, v: Value) -> Value:
        """A value of the same type: another one, the same one, or a constant."""
        same = [u for u in self.pool if u.type is v.type]
        if self.choose(3) == 0:
            return self.b.constant(self.number(dtype_of(v)), v.type)
        return self.pick(same) if same else v

    def add(self, value: Value) -> Value:
        self.pool.append(value)
        return value

    def add_all(self, values: Iterable[Value]) -> None:
        self.pool.extend(values)

    # -- parameters and addresses

    def output(self, dtype: DType, size: int, ulp: float = 0) -> Value:
        """The pointer to a new output buffer."""
        name = f"out{len(self.out_pointers)}"
        self.outputs[name] = (dtype, max(1, size))
        if ulp:
            self.tolerances[name] = ulp
        pointer = Value(Pointer(dtype), name)
        self.out_pointers.append(pointer)
        return pointer

    def indices(self, shape: tuple[int, ...]) -> Value:
        """0, 1, 2, ... in row-major order."""
        if not shape:
            return self.b.constant(0, t.i32)
        flat = self.b.arange(start=0, end=prod(shape))
        return flat if len(shape) == 1 else self.b.reshape(flat, shape=shape)

    def at(self, pointer: Value, offsets: Value) -> Value:
        shape = shape_of(offsets.type)
        return self.b.addptr(self.b.splat(pointer, shape=shape) if shape else pointer, offsets)

    def own(self, pointer: Value, count: int) -> Value:
        """The part of a buffer that belongs to this program."""
        return self.b.addptr(pointer, self.b.mul(self.pid, self.b.constant(count, t.i32)))

    def mask_for(self, shape: tuple[int, ...]) -> Value:
        """A mask of the shape."""
        wanted = with_shape(t.i1, shape)
        found = self.having(lambda v: v.type is wanted)
        if found is not None and self.choose(3):
            return found
        source = self.having(lambda v: shape_of(v.type) == shape)
        if source is None:
            return self.b.constant(self.choose(2), wanted)
        return self.b.cmp(source, self.like(source), pred=self.pick(("lt", "ne", "ge")))

    pid: Value
    n: Value
    far: Value
    """A number near the largest one."""


def dtype_of(v: Value) -> DType:
    """The dtype of a value that is no pointer."""
    dtype = elem_of(v.type)
    assert isinstance(dtype, DType)
    return dtype


def numel(v: Value) -> int:
    return prod(shape_of(v.type))
