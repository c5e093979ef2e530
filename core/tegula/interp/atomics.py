"""Atomic updates.  Programs run one after the other and lanes take their turns in order."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from tegula.ir.core import Op
from tegula.ir.ops.rounding import limited
from tegula.ir.types import elem_of, numpy_dtype, shape_of

from .errors import InterpreterError
from .faults import explain
from .memory import AccessFault

if TYPE_CHECKING:
    from .interpreter import Env, FunctionPlan, Step

Update = Callable[[Any, Any], Any]


def _ordered(pick: Any) -> Update:
    """max or min of floats that orders -0.0 below 0.0 and ignores NaN."""

    def update(old: Any, new: Any) -> Any:
        chosen = pick(old, new)
        if old.dtype.kind in "iub":
            return chosen
        minus = np.signbit(old) | np.signbit(new) if pick is np.fmin else (
            np.signbit(old) & np.signbit(new)
        )  # fmt: skip
        zeros = (old == 0) & (new == 0)
        signed = np.where(minus, -np.zeros((), old.dtype), np.zeros((), old.dtype))
        return np.where(zeros, signed, chosen).astype(old.dtype)

    return update


def _rounded(update: Update) -> Update:
    """Narrow floats are updated in f32 and rounded once, as arithmetic on them is."""

    def run(old: Any, new: Any) -> Any:
        if old.dtype.kind in "iub" or old.dtype.itemsize > 2:
            return update(old, new).astype(old.dtype)
        result = np.asarray(update(old.astype(np.float32), new.astype(np.float32)))
        return limited(result, old.dtype).astype(old.dtype)

    return run


_UPDATES: dict[str, Update] = {
    "add": _rounded(np.add),
    "max": _rounded(_ordered(np.fmax)),
    "min": _rounded(_ordered(np.fmin)),
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "xchg": lambda old, new: new,
}


def _turns(addresses: np.ndarray) -> list[np.ndarray]:
    """Lanes in groups of distinct addresses: the first lane of each address, the second, ..."""
    _, inverse, counts = np.unique(addresses, return_inverse=True, return_counts=True)
    if counts.max(initial=0) <= 1:
        return [np.arange(addresses.size)]
    order = np.argsort(inverse, kind="stable")
    starts = np.cumsum(counts) - counts
    turn = np.empty(addresses.size, np.int64)
    turn[order] = np.arange(addresses.size) - np.repeat(starts, counts)
    return [np.nonzero(turn == t)[0] for t in range(int(counts.max()))]


def _atomic(
    plan: FunctionPlan, op: Op, values_at: list[int], mask: int | None, update: Callable[..., Any]
) -> Step:
    from .handlers import storage

    pointer, out = plan.slot(op.operands[0]), plan.slot(op.result)
    root, shape = plan.root(op.operands[0]), shape_of(op.result.type)
    element = elem_of(op.result.type)
    dtype, kept = numpy_dtype(element), storage(element)  # type: ignore[arg-type]

    def run(env: Env) -> None:
        memory, buffer = env[0].memory, env[0].roots.get(root)
        addresses = np.asarray(env[pointer]).reshape(-1)
        given = [np.asarray(env[s]).reshape(-1) for s in values_at]
        olds = np.zeros(addresses.size, dtype)
        lanes = None
        if mask is not None:
            lanes = np.nonzero(np.asarray(env[mask]).reshape(-1))[0]
        active = np.arange(addresses.size) if lanes is None else lanes
        try:
            memory.check(addresses[active], kept.itemsize, buffer)
            for turn in _turns(addresses[active]):
                at = active[turn]
                old = memory.load(addresses[at], kept, buffer).astype(dtype, copy=False)
                olds[at] = old
                new = np.asarray(update(old, *[g[at] for g in given])).astype(kept, copy=False)
                memory.store(addresses[at], new, buffer)
        except AccessFault as fault:
            raise explain(fault, op, plan, env, lanes) from None
        env[out] = olds.reshape(shape)[()]

    return run


def atomic_rmw(plan: FunctionPlan, op: Op) -> Step:
    """The step of an `atomic_rmw`."""
    mask = plan.optional_slot(op, "mask")
    return _atomic(plan, op, [plan.slot(op.operands[1])], mask, _UPDATES[op.attrs["kind"]])


def atomic_cas(plan: FunctionPlan, op: Op) -> Step:
    """The step of an `atomic_cas`; memory is compared bit for bit."""

    def swap(old: np.ndarray, expected: np.ndarray, new: np.ndarray) -> np.ndarray:
        bits = np.dtype(f"u{old.dtype.itemsize}")
        return np.where(old.view(bits) == expected.view(bits), new, old).astype(old.dtype)

    return _atomic(plan, op, [plan.slot(v) for v in op.operands[1:]], None, swap)


def atomic_load(plan: FunctionPlan, op: Op) -> Step:
    """Programs take turns, so a load is one step anyway."""
    from .handlers import load_step

    return load_step(plan, op)


def atomic_store(plan: FunctionPlan, op: Op) -> Step:
    """A store, likewise."""
    from .handlers import store_step

    return store_step(plan, op)


def atomic_poll(plan: FunctionPlan, op: Op) -> Step:
    """One look is enough: while a program waits no other one runs."""
    from .handlers import storage

    pointer, expected = plan.slot(op.operands[0]), plan.slot(op.operands[1])
    out, root = plan.slot(op.result), plan.root(op.operands[0])
    kept = storage(elem_of(op.operands[1].type))  # type: ignore[arg-type]
    bits, limited = np.dtype(f"u{kept.itemsize}"), op.operand("timeout") is not None

    def run(env: Env) -> None:
        state = env[0]
        address = np.asarray(env[pointer]).reshape(-1)
        try:
            found = state.memory.load(address, kept, state.roots.get(root))
        except AccessFault as fault:
            raise explain(fault, op, plan, env, None) from None
        wanted = np.asarray(env[expected]).astype(kept, copy=False).reshape(-1)
        same = found.view(bits)[0] == wanted.view(bits)[0]
        if not same and not limited:
            raise InterpreterError(
                f"atomic_poll waits for {wanted[0]} and finds {found[0]}; the interpreter runs one "
                "program after the other, so nobody will write it. Give timeout_ns, or launch the "
                "program that writes first",
                op.loc,
            )
        env[out] = np.bool_(same)

    return run
