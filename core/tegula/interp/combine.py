"""Folding and scanning tiles with the combine region of `reduce` and `scan`.

A region is written for scalars.  When all of its ops are elementwise it runs on whole arrays, so a
fold takes log2(n) steps; the two halves of each step keep their order, hence an operation need only
be associative.  Common combinations of standard dtypes use one numpy ufunc.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tegula.ir.core import Block, Op
from tegula.ir.ops.rounding import narrow
from tegula.ir.types import elem_of, numpy_dtype

from .interpreter import BlockPlan, Env, FunctionPlan, Planner

Arrays = list[Any]
Combine = Callable[[Env, Arrays, Arrays], Arrays]

_UFUNCS = {
    "add": np.add,
    "mul": np.multiply,
    "max": np.fmax,
    "min": np.fmin,
    "maxnan": np.maximum,
    "minnan": np.minimum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


def _ufunc(op: Op) -> np.ufunc | None:
    """The numpy function that a single-source combine region computes, if it is a common one."""
    from tegula.ir.patterns import combine_kind

    if len(op.operands) != 1:
        return None
    kind = combine_kind(op.regions[0])
    return None if kind is None else _UFUNCS.get(kind)


def _fits(ufunc: np.ufunc, dtype: np.dtype) -> bool:
    """The ufunc means on this dtype what the region means."""
    return dtype.kind != "b" or ufunc not in (np.add, np.multiply)


def _widened(x: Any) -> Any:
    """Narrow floats as f32, in which they are folded; the rest unchanged."""
    plain = x.dtype.kind in "biu" or x.dtype in (np.float32, np.float64)
    return x if plain else x.astype(np.float32)


def _narrowed(x: Any, dtype: np.dtype) -> Any:
    """f32 results rounded once to where they came from."""
    return x if x.dtype == dtype else narrow(x, dtype)


def vectorisable(block: Block, planner: Planner) -> bool:
    """The block computes the same on arrays as on scalars."""
    for op in block.ops:
        if op.name == "call":
            callee = planner.module.functions.get(op.attrs["callee"])
            if callee is None or not vectorisable(callee.body, planner):
                return False
        elif not (op.opdef.elementwise or op.opdef.terminator):
            return False
    return True


def _combiner(plan: FunctionPlan, op: Op) -> Combine:
    """The region as a function of two lists of arrays."""
    region: BlockPlan = plan.block(op.regions[0])
    count = len(op.operands)

    def whole(env: Env, left: Arrays, right: Arrays) -> Arrays:
        results = region.enter(env, (*left, *right))
        return [np.broadcast_to(r, a.shape) for r, a in zip(results, left)]

    def by_element(env: Env, left: Arrays, right: Arrays) -> Arrays:
        outs = [np.empty(a.shape, a.dtype) for a in left]
        for index in np.ndindex(left[0].shape):
            values = region.enter(env, (*(a[index] for a in left), *(a[index] for a in right)))
            for i in range(count):
                outs[i][index] = values[i]
        return outs

    return whole if vectorisable(op.regions[0], plan.planner) else by_element


def folder(plan: FunctionPlan, op: Op) -> Callable[[Env, Arrays], Arrays]:
    """Fold arrays along their first axis."""
    ufunc = _ufunc(op)
    combine = _combiner(plan, op)

    def fold(env: Env, values: Arrays) -> Arrays:
        if ufunc is not None and _fits(ufunc, values[0].dtype):
            # In one piece: the order of a sum must not depend on strides.
            x = np.ascontiguousarray(_widened(values[0]))
            total = np.asarray(ufunc.reduce(x, axis=0, dtype=x.dtype))
            return [_narrowed(total, values[0].dtype)]
        while values[0].shape[0] > 1:
            pairs = values[0].shape[0] // 2
            rest = [v[2 * pairs :] for v in values]
            left = [v[0 : 2 * pairs : 2] for v in values]
            right = [v[1 : 2 * pairs : 2] for v in values]
            values = combine(env, left, right)
            if rest[0].shape[0]:
                values = [np.concatenate([v, r]) for v, r in zip(values, rest)]
        return [v[0] if v.ndim > 1 else np.asarray(v[0]) for v in values]

    return fold


def scanner(plan: FunctionPlan, op: Op) -> Callable[[Env, Arrays], Arrays]:
    """Inclusive prefixes of arrays along their first axis."""
    ufunc = _ufunc(op)
    combine = _combiner(plan, op)

    def scan(env: Env, values: Arrays) -> Arrays:
        if ufunc is not None and _fits(ufunc, values[0].dtype):
            x = _widened(values[0])
            sums = ufunc.accumulate(x, axis=0, dtype=x.dtype)
            return [_narrowed(sums, values[0].dtype)]
        distance, length = 1, values[0].shape[0]
        while distance < length:
            joined = combine(env, [v[:-distance] for v in values], [v[distance:] for v in values])
            values = [np.concatenate([v[:distance], j]) for v, j in zip(values, joined)]
            distance *= 2
        return values

    return scan


def mapper(plan: FunctionPlan, op: Op) -> Callable[[Env, Arrays], Arrays]:
    """Apply the region of a `map` to every element."""
    region: BlockPlan = plan.block(op.regions[0])
    types = [numpy_dtype(elem_of(r.type)) for r in op.results]

    def whole(env: Env, values: Arrays) -> Arrays:
        shape = values[0].shape
        return [np.broadcast_to(r, shape) for r in region.enter(env, values)]

    def by_element(env: Env, values: Arrays) -> Arrays:
        outs = [np.empty(values[0].shape, t) for t in types]
        for index in np.ndindex(values[0].shape):
            for out, value in zip(outs, region.enter(env, [v[index] for v in values])):
                out[index] = value
        return outs

    return whole if vectorisable(op.regions[0], plan.planner) else by_element
