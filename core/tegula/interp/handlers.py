"""Steps of the ops whose meaning needs the machine: control flow, memory, combining, debugging.

Each handler takes the plan of the enclosing function and an op and returns a closure.
`HANDLERS` at the end is the whole table; ops that are not in it run their declaration's `evaluate`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from tegula import printing
from tegula.ir.core import Op, Value
from tegula.ir.ops.foreign import REASONS
from tegula.ir.types import Descriptor, DType, Pointer, elem_of, i1, numpy_dtype, shape_of

from . import combine
from .atomics import atomic_cas, atomic_load, atomic_poll, atomic_rmw, atomic_store
from .errors import DeviceAssertionError, InterpreterError
from .faults import explain
from .interpreter import Env, FunctionPlan, Step
from .memory import AccessFault

Handler = Callable[[FunctionPlan, Op], Step]


# -- control flow


def _for(plan: FunctionPlan, op: Op) -> Step:
    lb, ub, step = (plan.slot(v) for v in op.operands[:3])
    inits = [plan.slot(v) for v in op.group("inits")]
    outs = [plan.slot(r) for r in op.results]
    body = plan.block(op.regions[0])
    index = numpy_dtype(op.operands[0].type).type

    def run(env: Env) -> None:
        i, end, by = int(env[lb]), int(env[ub]), int(env[step])
        carried = [env[s] for s in inits]
        if by:
            for number in range(i, end, by):
                carried = body.enter(env, (index(number), *carried))
        for slot, value in zip(outs, carried):
            env[slot] = value

    return run


def _while(plan: FunctionPlan, op: Op) -> Step:
    inits = [plan.slot(v) for v in op.operands]
    outs = [plan.slot(r) for r in op.results]
    before, after = (plan.block(r) for r in op.regions)

    def run(env: Env) -> None:
        carried = [env[s] for s in inits]
        while True:
            flag, *passed = before.enter(env, carried)
            if not flag:
                break
            carried = after.enter(env, passed)
        for slot, value in zip(outs, passed):
            env[slot] = value

    return run


def _if(plan: FunctionPlan, op: Op) -> Step:
    condition = plan.slot(op.operands[0])
    outs = [plan.slot(r) for r in op.results]
    then, other = (plan.block(r) for r in op.regions)

    def run(env: Env) -> None:
        values = (then if env[condition] else other).enter(env, ())
        for slot, value in zip(outs, values):
            env[slot] = value

    return run


def _call(plan: FunctionPlan, op: Op) -> Step:
    inputs = [plan.slot(v) for v in op.operands]
    outs = [plan.slot(r) for r in op.results]
    planner, name = plan.planner, op.attrs["callee"]

    def run(env: Env) -> None:
        values = planner.plan(name).call(env[0], [env[s] for s in inputs])
        for slot, value in zip(outs, values, strict=True):
            env[slot] = value

    return run


def _program_id(plan: FunctionPlan, op: Op) -> Step:
    out, axis = plan.slot(op.result), op.attrs["axis"]

    def run(env: Env) -> None:
        env[out] = np.int32(env[0].pid[axis])

    return run


def _num_programs(plan: FunctionPlan, op: Op) -> Step:
    out, axis = plan.slot(op.result), op.attrs["axis"]

    def run(env: Env) -> None:
        env[out] = np.int32(env[0].grid[axis])

    return run


# -- memory


def storage(t: DType) -> np.dtype:
    """How an element lies in memory: a truth value is a byte."""
    return np.dtype(np.uint8) if t is i1 else numpy_dtype(t)


def _pointee(value: Value) -> DType:
    return elem_of(value.type).elem  # type: ignore[union-attr]


def _lanes(mask: Any) -> np.ndarray | None:
    """Flat positions where the mask is set; None means all of them."""
    flat = np.asarray(mask).reshape(-1)
    return None if flat.all() else np.nonzero(flat)[0]


def load_step(plan: FunctionPlan, op: Op) -> Step:
    pointer, out = plan.slot(op.operands[0]), plan.slot(op.result)
    mask, other = plan.optional_slot(op, "mask"), plan.optional_slot(op, "other")
    root, shape = plan.root(op.operands[0]), shape_of(op.result.type)
    element = _pointee(op.operands[0])
    dtype, kept = numpy_dtype(element), storage(element)

    def run(env: Env) -> None:
        state = env[0]
        addresses = np.asarray(env[pointer]).reshape(-1)
        lanes = None if mask is None else _lanes(env[mask])
        buffer = state.roots.get(root)
        try:
            if lanes is None:
                values = state.memory.load(addresses, kept, buffer).astype(dtype, copy=False)
            else:
                values = np.zeros(addresses.size, dtype)
                if other is not None:
                    values[:] = np.asarray(env[other]).reshape(-1)
                values[lanes] = state.memory.load(addresses[lanes], kept, buffer)
        except AccessFault as fault:
            raise explain(fault, op, plan, env, lanes) from None
        env[out] = values.reshape(shape)[()]

    return run


def store_step(plan: FunctionPlan, op: Op) -> Step:
    pointer, value = plan.slot(op.operands[0]), plan.slot(op.operands[1])
    mask = plan.optional_slot(op, "mask")
    root = plan.root(op.operands[0])
    kept = storage(_pointee(op.operands[0]))

    def run(env: Env) -> None:
        state = env[0]
        addresses = np.asarray(env[pointer]).reshape(-1)
        values = np.asarray(env[value]).reshape(-1).astype(kept, copy=False)
        lanes = None if mask is None else _lanes(env[mask])
        if lanes is not None:
            addresses, values = addresses[lanes], values[lanes]
        try:
            state.memory.store(addresses, values, state.roots.get(root))
        except AccessFault as fault:
            raise explain(fault, op, plan, env, lanes) from None

    return run


class DescriptorValue(NamedTuple):
    """A descriptor while a program runs."""

    base: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    padding: str
    root: int | None


def _make_descriptor(plan: FunctionPlan, op: Op) -> Step:
    base, out = plan.slot(op.operands[0]), plan.slot(op.result)
    shape = [plan.slot(v) for v in op.group("shape")]
    strides = [plan.slot(v) for v in op.group("strides")]
    padding, root = op.attrs["padding"], plan.root(op.operands[0])

    def run(env: Env) -> None:
        env[out] = DescriptorValue(
            int(env[base]),
            tuple(int(env[s]) for s in shape),
            tuple(int(env[s]) for s in strides),
            padding,
            root,
        )

    return run


def _block_of(op: Op) -> tuple[DType, tuple[int, ...]]:
    """Element type and block shape of the descriptor that the op accesses."""
    t = op.operands[0].type
    assert isinstance(t, Descriptor)
    return t.elem, t.block_shape


def _block(
    desc: DescriptorValue, offsets: list[int], block: tuple[int, ...], itemsize: int
) -> tuple[np.ndarray, np.ndarray | None]:
    """Flat addresses of a block's elements, and which of them lie inside of the tensor."""
    address = np.full((), desc.base, np.int64)
    inside = np.full((), True)
    rank = len(block)
    for axis in range(rank):
        along = (1,) * axis + (block[axis],) + (1,) * (rank - axis - 1)
        index = (offsets[axis] + np.arange(block[axis], dtype=np.int64)).reshape(along)
        address = address + index * (desc.strides[axis] * itemsize)
        inside = inside & (index >= 0) & (index < desc.shape[axis])
    addresses = np.broadcast_to(address, block).reshape(-1).astype(np.uint64)
    return addresses, _lanes(np.broadcast_to(inside, block))


def _desc_load(plan: FunctionPlan, op: Op) -> Step:
    desc, out = plan.slot(op.operands[0]), plan.slot(op.result)
    offsets = [plan.slot(v) for v in op.group("offsets")]
    element, block = _block_of(op)
    dtype, kept = numpy_dtype(element), storage(element)

    def run(env: Env) -> None:
        state, d = env[0], env[desc]
        addresses, lanes = _block(d, [int(env[s]) for s in offsets], block, kept.itemsize)
        fill = np.nan if d.padding == "nan" else 0
        values = np.full(addresses.size, fill, dtype)
        picked = slice(None) if lanes is None else lanes
        try:
            values[picked] = state.memory.load(addresses[picked], kept, state.roots.get(d.root))
        except AccessFault as fault:
            raise explain(fault, op, plan, env, lanes) from None
        env[out] = values.reshape(block)

    return run


def _desc_store(plan: FunctionPlan, op: Op) -> Step:
    desc, value = plan.slot(op.operands[0]), plan.slot(op.operands[1])
    offsets = [plan.slot(v) for v in op.group("offsets")]
    element, block = _block_of(op)
    kept = storage(element)

    def run(env: Env) -> None:
        state, d = env[0], env[desc]
        addresses, lanes = _block(d, [int(env[s]) for s in offsets], block, kept.itemsize)
        picked = slice(None) if lanes is None else lanes
        values = np.asarray(env[value]).reshape(-1).astype(kept, copy=False)
        try:
            state.memory.store(addresses[picked], values[picked], state.roots.get(d.root))
        except AccessFault as fault:
            raise explain(fault, op, plan, env, lanes) from None

    return run


# -- combining


def _reduce(plan: FunctionPlan, op: Op) -> Step:
    sources = [plan.slot(v) for v in op.operands]
    outs = [plan.slot(r) for r in op.results]
    axis = op.attrs["axis"]
    fold = combine.folder(plan, op)

    def run(env: Env) -> None:
        values = [np.moveaxis(np.asarray(env[s]), axis, 0) for s in sources]
        for slot, value in zip(outs, fold(env, values)):
            env[slot] = value[()]

    return run


def _scan(plan: FunctionPlan, op: Op) -> Step:
    sources = [plan.slot(v) for v in op.operands]
    outs = [plan.slot(r) for r in op.results]
    axis, reverse = op.attrs["axis"], op.attrs["reverse"]
    prefix = combine.scanner(plan, op)

    def run(env: Env) -> None:
        values = [np.moveaxis(np.asarray(env[s]), axis, 0) for s in sources]
        if reverse:
            values = [v[::-1] for v in values]
        results = prefix(env, values)
        if reverse:
            results = [v[::-1] for v in results]
        for slot, value in zip(outs, results):
            env[slot] = np.moveaxis(value, 0, axis)

    return run


def _map(plan: FunctionPlan, op: Op) -> Step:
    sources = [plan.slot(v) for v in op.operands]
    outs = [plan.slot(r) for r in op.results]
    apply = combine.mapper(plan, op)

    def run(env: Env) -> None:
        results = apply(env, [np.asarray(env[s]) for s in sources])
        for slot, value in zip(outs, results):
            env[slot] = value

    return run


# -- debugging


def _print(plan: FunctionPlan, op: Op) -> Step:
    inputs = [plan.slot(v) for v in op.operands]
    pointers = [isinstance(elem_of(v.type), Pointer) for v in op.operands]
    prefix, as_hex = op.attrs["prefix"], op.attrs["hex"]
    several = len(inputs) > 1

    def run(env: Env) -> None:
        state = env[0]
        if not inputs:
            state.output(printing.start(state.pid, None, ()) + printing.label(prefix, None))
        for number, slot in enumerate(inputs):
            label = printing.label(prefix, number if several else None)
            array = np.asarray(env[slot])
            for index in np.ndindex(array.shape):
                value = array[index]
                text = (
                    printing.pointer(int(value))
                    if pointers[number]
                    else printing.element(value, as_hex)
                )
                state.output(printing.start(state.pid, index, array.shape) + label + text)

    return run


def _assert(plan: FunctionPlan, op: Op) -> Step:
    condition, mask = plan.slot(op.operands[0]), plan.optional_slot(op, "mask")
    message = op.attrs["message"]

    def run(env: Env) -> None:
        wrong = np.logical_not(env[condition])
        if mask is not None:
            wrong = wrong & env[mask]
        if np.any(wrong):
            where = ""
            if np.ndim(wrong):
                lane = np.unravel_index(int(np.argmax(wrong)), np.shape(wrong))
                where = f", first at element {tuple(int(i) for i in lane)}"
            raise DeviceAssertionError(
                f"device-side assertion failed: {message or 'condition'}{where}", op.loc
            )

    return run


def _assume(plan: FunctionPlan, op: Op) -> Step:
    condition = plan.slot(op.operands[0])

    def run(env: Env) -> None:
        if not env[condition]:
            raise DeviceAssertionError("an assumption that the kernel makes does not hold", op.loc)

    return run


def _foreign(plan: FunctionPlan, op: Op) -> Step:
    raise InterpreterError(f"the interpreter cannot run `{op.name}`: {REASONS[op.name]}", op.loc)


def _misplaced(plan: FunctionPlan, op: Op) -> Step:
    raise InterpreterError(f"`{op.name}` may only end a block", op.loc)


HANDLERS: dict[str, Handler] = {
    "for": _for,
    "while": _while,
    "if": _if,
    "call": _call,
    "program_id": _program_id,
    "num_programs": _num_programs,
    "load": load_step,
    "store": store_step,
    "atomic_rmw": atomic_rmw,
    "atomic_cas": atomic_cas,
    "atomic_load": atomic_load,
    "atomic_store": atomic_store,
    "atomic_poll": atomic_poll,
    "make_descriptor": _make_descriptor,
    "desc_load": _desc_load,
    "desc_store": _desc_store,
    "reduce": _reduce,
    "scan": _scan,
    "map": _map,
    "print": _print,
    "assert": _assert,
    "assume": _assume,
    "inline_asm": _foreign,
    "extern_call": _foreign,
    "yield": _misplaced,
    "condition": _misplaced,
    "return": _misplaced,
}
