"""Sums of floats whose order shows: where they are, and how much an order can explain.

A sum is exact in any order if all its parts are multiples of one unit and their magnitudes add up
to no more than the mantissa can hold of it; then every partial sum is exact.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tegula.interp.interpreter import Env, FunctionPlan, Step
from tegula.ir import DType, Op
from tegula.ir.ops.rounding import narrow
from tegula.ir.patterns import combine_kind
from tegula.ir.types import elem_of, numpy_dtype

SUMS = frozenset({"reduce", "scan", "dot", "atomic_rmw"})
ROUNDED = frozenset({"add", "sub", "mul", "div", "fma", "sqrt", "rsqrt"})
"""Ops of a combining region that round floats."""


LARGEST = {"f16": 65504.0, "bf16": 3.0e38, "f32": 3.0e38, "f64": 1.0e308}
"""No sum may come near the largest number; 8-bit floats have less than this."""


def sums_floats(op: Op) -> bool:
    """Whether an op adds up (or multiplies) floats in an order that nobody promises."""
    if op.name not in SUMS:
        return False
    if op.name in ("dot", "atomic_rmw"):
        e = elem_of(op.operands[-1 if op.name == "dot" else 1].type)
        adds = op.name == "dot" or op.attrs["kind"] == "add"
        return adds and isinstance(e, DType) and e.is_float
    return any(
        inner.name in ROUNDED and getattr(elem_of(inner.results[0].type), "is_float", False)
        for inner in op.regions[0].walk()
    )


def lowest_bit(x: np.ndarray) -> np.ndarray:
    """The exponent of the last bit that is set; of zero, and of what is not finite, a large one."""
    with np.errstate(all="ignore"):
        fraction, exponent = np.frexp(np.where(np.isfinite(x), x, 0.0))
    whole = np.abs(fraction * 2.0**53).astype(np.int64)
    trailing = np.log2((whole & -whole).astype(np.float64), where=whole != 0, out=np.zeros(x.shape))
    return np.where(whole == 0, 4096, exponent - 53 + trailing.astype(np.int64))


def is_exact(size: Any, unit: Any, dtype: DType) -> bool:
    """Whether parts that are multiples of 2**unit, of magnitude `size` in all, add up exactly."""
    with np.errstate(all="ignore"):
        fits = np.asarray(size) <= np.ldexp(1.0, np.minimum(unit, 900) + dtype.mantissa + 1)
        largest = LARGEST.get(dtype.name, 240.0)
        return bool(np.all(fits & (np.asarray(size) <= largest)))


def magnitude(x: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        return np.where(np.isfinite(x), np.abs(x), 0.0)


class Watch:
    """Looks at the sums of a run: `shows` is the first op whose order may be seen."""

    def __init__(self) -> None:
        self.shows: Op | None = None
        self.totals: dict[Op, tuple[float, int]] = {}
        """What atomic additions have added, and the unit of it."""

    def around(self, plan: FunctionPlan, op: Op, step: Step) -> Step:
        if not sums_floats(op):
            return step
        inputs = [plan.slot(v) for v in op.operands]

        def watched(env: Env) -> None:
            if self.shows is None:
                given = [np.asarray(env[i]).astype(np.float64) for i in inputs
                         if np.asarray(env[i]).dtype.kind not in "iub"]  # fmt: skip
                if not self.exact(op, given):
                    self.shows = op
            step(env)

        return watched

    def exact(self, op: Op, given: list[np.ndarray]) -> bool:
        dtype = elem_of(op.results[0].type)
        assert isinstance(dtype, DType)
        if op.name == "dot":
            a, b, acc = given
            unit = min(int(lowest_bit(a).min()) + int(lowest_bit(b).min()),
                       int(lowest_bit(acc).min()))  # fmt: skip
            return is_exact(magnitude(a) @ magnitude(b) + magnitude(acc), unit, dtype)
        if op.name == "atomic_rmw":
            total, unit = self.totals.get(op, (0.0, 4096))
            (added,) = given[-1:]
            total += float(magnitude(added).sum())
            unit = min(unit, int(lowest_bit(added).min(initial=4096)))
            self.totals[op] = total, unit
            return is_exact(total, unit, dtype)
        if combine_kind(op.regions[0]) != "add" or len(op.operands) != 1:
            return False
        (x,), axis = given, op.attrs["axis"]
        if 0 in x.shape:
            return True
        return is_exact(magnitude(x).sum(axis), lowest_bit(x).min(axis), dtype)


class Wide:
    """Computes sums of floats in 64 bits and rounds them once."""

    def around(self, plan: FunctionPlan, op: Op, step: Step) -> Step:
        if not sums_floats(op) or op.name == "atomic_rmw":
            return step
        floats = [v for v in op.operands if getattr(elem_of(v.type), "is_float", False)]
        inputs, outs = [plan.slot(v) for v in floats], [plan.slot(r) for r in op.results]
        kept = [numpy_dtype(elem_of(r.type)) for r in op.results]  # type: ignore[arg-type]

        def wide(env: Env) -> None:
            saved = [env[i] for i in inputs]
            for i, x in zip(inputs, saved):
                env[i] = np.asarray(x).astype(np.float64)
            if op.name == "dot":
                a, b, acc = (env[i] for i in inputs)
                env[outs[0]] = a @ b + acc
            else:
                step(env)
            for i, x in zip(inputs, saved):
                if i not in outs:
                    env[i] = x
            for slot, dtype in zip(outs, kept):
                x = np.asarray(env[slot])
                env[slot] = x if x.dtype == dtype else narrow(x, dtype)[()]

        return wide
