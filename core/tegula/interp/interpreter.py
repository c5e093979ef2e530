"""Runs kernels on numpy, a whole grid, one program after the other.

Every op means what its declaration evaluates to; this module supplies what a declaration cannot:
control flow, memory, atomics, combining regions, and the launch.  A function is first planned
(each op becomes a closure over slots of an environment), then run once per program.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from tegula.analysis.alias import pointer_roots
from tegula.ir.core import Block, Function, Module, Op, Value
from tegula.ir.types import Descriptor, Pointer, Tile, elem_of, numpy_dtype

from .errors import InterpreterError
from .memory import Buffer, Memory

Env = list[Any]
Step = Callable[[Env], None]
Around = Callable[["FunctionPlan", Op, Step], Step]


class State:
    """What a running program sees besides its values; slot 0 of every environment."""

    def __init__(self, kernel: str, memory: Memory, output: Callable[[str], None]) -> None:
        self.kernel = kernel
        self.memory = memory
        self.output = output
        self.pid = (0, 0, 0)
        self.grid = (1, 1, 1)
        self.roots: dict[int, Buffer] = {}  # parameter index -> the buffer it points into


class BlockPlan:
    """A block made ready to run: its steps, and the slots of its arguments and exit values."""

    def __init__(self, args: list[int], ops: list[Op], steps: list[Step], exits: list[int]):
        self.args = args
        self.ops = ops
        self.steps = steps
        self.exits = exits

    def run(self, env: Env) -> None:
        """Execute the steps; failures get the location of the op that caused them."""
        steps = self.steps
        position = 0
        try:
            for position, step in enumerate(steps):  # noqa: B007 (names the op that failed)
                step(env)
        except InterpreterError as error:
            if error.loc is None:
                error.loc = self.ops[position].loc
            error.kernel = error.kernel or env[0].kernel
            error.program = error.program or env[0].pid
            raise
        except RecursionError:
            raise
        except Exception as error:
            op = self.ops[position]
            raise InterpreterError(
                f"cannot evaluate `{op.name}` on "
                f"({', '.join(str(v.type) for v in op.operands)}): {type(error).__name__}: {error}",
                op.loc,
                env[0].kernel,
                env[0].pid,
            ) from error

    def enter(self, env: Env, values: Iterable[Any]) -> list[Any]:
        """Bind the arguments, run, and return the exit values."""
        for slot, value in zip(self.args, values):
            env[slot] = value
        self.run(env)
        return [env[slot] for slot in self.exits]


class FunctionPlan:
    """A planned function: the size of its environment and its body."""

    def __init__(self, planner: Planner, function: Function) -> None:
        self.planner = planner
        self.function = function
        self.slots: dict[Value, int] = {}
        roots = pointer_roots(function) if function.kind == "kernel" else {}
        index = {v: i for i, v in enumerate(function.body.args)}
        self.root_of = {v: index[r] for v, r in roots.items() if r is not None and r in index}
        self.body = self.block(function.body)
        self.size = len(self.slots) + 1

    def slot(self, value: Value) -> int:
        """The environment slot of a value."""
        found = self.slots.get(value)
        if found is None:
            found = self.slots[value] = len(self.slots) + 1
        return found

    def optional_slot(self, op: Op, name: str) -> int | None:
        """Slot of an operand that may have been left out."""
        value = op.operand(name) if name in op.opdef.operand_index else None
        return None if value is None else self.slot(value)

    def root(self, value: Value) -> int | None:
        """Index of the kernel parameter that the pointer comes from."""
        return self.root_of.get(value)

    def block(self, block: Block) -> BlockPlan:
        """Plan a block."""
        from .handlers import HANDLERS

        args = [self.slot(a) for a in block.args]
        ops: list[Op] = []
        steps: list[Step] = []
        exits: list[int] = []
        for op in block.ops:
            if op.opdef.terminator:
                exits = [self.slot(v) for v in op.operands]
                break
            handler = HANDLERS.get(op.name, evaluated)
            try:
                step = handler(self, op)
            except TypeError as error:  # a type that numpy does not have
                raise InterpreterError(f"cannot interpret `{op.name}`: {error}", op.loc) from error
            around = self.planner.around
            steps.append(step if around is None else around(self, op, step))
            ops.append(op)
        return BlockPlan(args, ops, steps, exits)

    def call(self, state: State, values: Sequence[Any]) -> list[Any]:
        """Run the function in an environment of its own."""
        env: Env = [None] * self.size
        env[0] = state
        return self.body.enter(env, values)


class Planner:
    """Plans the functions of a module once each."""

    def __init__(self, module: Module, around: Around | None = None) -> None:
        self.module = module
        self.around = around
        self._plans: dict[str, FunctionPlan] = {}

    def plan(self, name: str) -> FunctionPlan:
        """The plan of a function of the module."""
        found = self._plans.get(name)
        if found is None:
            function = self.module.functions.get(name)
            if function is None:
                known = ", ".join(self.module.functions) or "none"
                raise InterpreterError(f"the module has no function '{name}' (it has: {known})")
            found = self._plans[name] = FunctionPlan(self, function)
        return found


def evaluated(plan: FunctionPlan, op: Op) -> Step:
    """The step of an op whose meaning is its declaration's `evaluate`."""
    evaluate = op.opdef.evaluate
    if evaluate is None:
        raise InterpreterError(f"the interpreter does not know the op `{op.name}`", op.loc)
    inputs = [plan.slot(v) for v in op.operands]
    outputs = [plan.slot(r) for r in op.results]
    if len(outputs) != 1:

        def many(env: Env) -> None:
            results = evaluate(op, *[env[i] for i in inputs])
            for slot, value in zip(outputs, results, strict=True):
                env[slot] = value

        return many
    (out,) = outputs
    if not inputs:
        if op.opdef.pure:
            value = evaluate(op)

            def constant(env: Env) -> None:
                env[out] = value

            return constant
    elif len(inputs) == 1:
        (a,) = inputs

        def unary(env: Env) -> None:
            env[out] = evaluate(op, env[a])

        return unary
    elif len(inputs) == 2:
        a, b = inputs

        def binary(env: Env) -> None:
            env[out] = evaluate(op, env[a], env[b])

        return binary

    def general(env: Env) -> None:
        env[out] = evaluate(op, *[env[i] for i in inputs])

    return general


class Interpreter:
    """A kernel made ready to be run any number of times."""

    def __init__(
        self, module: Module, kernel: str | None = None, around: Around | None = None
    ) -> None:
        """`around` may put another step in place of any op's."""
        module = _without_f8e4b15(module)
        self.function = _kernel_of(module, kernel)
        with np.errstate(all="ignore"):
            self._plan = Planner(module, around).plan(self.function.name)

    def run(
        self,
        grid: Sequence[int] | int,
        args: Sequence[Any] | Mapping[str, Any],
        buffers: Iterable[Buffer] = (),
        *,
        allow_unknown: bool = False,
        output: Callable[[str], None] | None = None,
    ) -> None:
        """Run every program of the grid.  See `run_kernel`."""
        values, table, roots = self._bind(args, tuple(buffers))
        state = State(self.function.name, Memory(table, allow_unknown), output or _to_stdout)
        state.roots = roots
        state.grid = normal_grid(grid)
        gx, gy, gz = state.grid
        with np.errstate(all="ignore"):
            for z, y, x in itertools.product(range(gz), range(gy), range(gx)):
                state.pid = (x, y, z)
                self._plan.call(state, values)

    def _bind(
        self, args: Sequence[Any] | Mapping[str, Any], buffers: tuple[Buffer, ...]
    ) -> tuple[list[Any], list[Buffer], dict[int, Buffer]]:
        params = self.function.body.args
        names = [p.name or f"argument {i}" for i, p in enumerate(params)]
        if isinstance(args, Mapping):
            missing = [n for n in names if n not in args]
            if missing:
                raise InterpreterError(f"missing arguments: {', '.join(missing)}")
            args = [args[n] for n in names]
        if len(args) != len(params):
            raise InterpreterError(
                f"kernel '{self.function.name}' takes {len(params)} arguments "
                f"({', '.join(names)}), {len(args)} were given"
            )
        values: list[Any] = []
        table = list(buffers)
        roots: dict[int, Buffer] = {}
        for index, (param, name, given) in enumerate(zip(params, names, args)):
            if not isinstance(param.type, Pointer):
                values.append(_scalar(param, name, given))
                continue
            if isinstance(given, np.ndarray):
                buffer = Buffer.of_array(given, name)
                address = given.ctypes.data
                table.append(buffer)
                roots[index] = buffer
            else:
                address = 0 if given is None else int(given)
                found = _buffer_at(address, name, buffers)
                if found is not None:
                    roots[index] = found
            values.append(np.uint64(address))
        return values, table, roots


def run_kernel(
    module: Module,
    grid: Sequence[int] | int,
    args: Sequence[Any] | Mapping[str, Any],
    buffers: Iterable[Buffer] = (),
    kernel: str | None = None,
    *,
    allow_unknown: bool = False,
    output: Callable[[str], None] | None = None,
) -> None:
    """Run a kernel of the module over a grid, on host memory, in place.

    `args` are in the order of the parameters, or by name.  A pointer is given as a numpy array or
    as an address that lies in one of `buffers`; anything else in memory may be touched only with
    `allow_unknown`.  `kernel` may be left out if the module has one kernel.  Lines that the kernel
    prints go to `output` (standard output if left out).
    """
    Interpreter(module, kernel).run(grid, args, buffers, allow_unknown=allow_unknown, output=output)


def _without_f8e4b15(module: Module) -> Module:
    """numpy has no such type: its values are held as bytes."""
    from tegula.codegen.float8 import ExpandFloat8
    from tegula.passes import PassContext

    return ExpandFloat8("f8e4b15").run(module, PassContext())


def _kernel_of(module: Module, name: str | None) -> Function:
    kernels = {f.name: f for f in module.functions.values() if f.kind == "kernel"}
    if name is None and len(kernels) == 1:
        return next(iter(kernels.values()))
    if name not in kernels:
        known = ", ".join(kernels) or "none"
        what = f"no kernel '{name}' in the module" if name else "the kernel must be named"
        raise InterpreterError(f"{what} (kernels: {known})")
    return kernels[name]


def normal_grid(grid: Sequence[int] | int) -> tuple[int, int, int]:
    """A grid as three sizes."""
    sizes = (grid,) if isinstance(grid, int) else tuple(int(g) for g in grid)
    if not 1 <= len(sizes) <= 3 or any(g < 0 for g in sizes):
        raise InterpreterError(f"a grid has one to three sizes of 0 or more, not {grid!r}")
    x, y, z = (*sizes, 1, 1)[:3]
    return x, y, z


def _scalar(param: Value, name: str, given: Any) -> Any:
    if isinstance(param.type, Tile | Descriptor):
        raise InterpreterError(f"argument '{name}' of type {param.type} cannot be passed")
    dtype = numpy_dtype(elem_of(param.type))
    if dtype.kind in "iu" and isinstance(given, int):
        bits = dtype.itemsize * 8
        low = -(1 << (bits - 1)) if dtype.kind == "i" else 0
        if not low <= given < low + (1 << bits):
            raise InterpreterError(f"argument '{name}': {given} does not fit {param.type}")
    with np.errstate(over="ignore"):  # a float64 beyond float32 becomes infinite
        return np.asarray(given).astype(dtype)[()]


def _buffer_at(address: int, name: str, buffers: tuple[Buffer, ...]) -> Buffer | None:
    """The buffer that an address argument means: its namesake, else the first that holds it."""
    inside = [b for b in buffers if b.address <= address < max(b.end, b.address + 1)]
    return next((b for b in inside if b.name == name), inside[0] if inside else None)


def _to_stdout(line: str) -> None:
    sys.stdout.write(line + "\n")
