"""Algebra of masks: accesses that always or never happen."""

from __future__ import annotations

from tegula.ir.core import Op, Value
from tegula.rewrite import Rewriter, Rules
from tegula.rewrite.sweep import derived

from .match import constant_of, is_constant, is_float

memory = Rules("memory")


def _without(op: Op, names: tuple[str, ...]) -> Op:
    """The op without some of its optional operands."""
    segments: list[int] = []
    operands: list[Value] = []
    for declared in op.opdef.operands:
        group = () if declared.name in names else op.group(declared.name)
        segments.append(len(group))
        operands.extend(group)
    return derived(op, operands, segments=tuple(segments))


@memory.rule("load")
def load_of_all(op: Op, b: Rewriter) -> list[Value] | None:
    """load(p, mask = true, other) == load(p)"""
    mask = op.operand("mask")
    if mask is None or not constant_of(mask):
        return None
    return list(b.put(_without(op, ("mask", "other"))))


@memory.rule("load")
def load_of_nothing(op: Op, b: Rewriter) -> Value | None:
    """load(p, mask = false, other) == other, or 0"""
    mask = op.operand("mask")
    if mask is None or constant_of(mask) != 0:
        return None
    other = op.operand("other")
    return other if other is not None else b.constant(0, op.results[0].type)


@memory.rule("load")
def load_other_zero(op: Op, b: Rewriter) -> list[Value] | None:
    """load(p, mask, other = 0) == load(p, mask)"""
    other = op.operand("other")
    if other is None or not is_constant(other, 0.0 if is_float(other) else 0):
        return None
    return list(b.put(_without(op, ("other",))))


@memory.rule("store", "atomic_rmw", "assert")
def access_of_all(op: Op, b: Rewriter) -> list[Value] | None:
    """store(p, x, mask = true) == store(p, x); so for atomics and assertions"""
    mask = op.operand("mask")
    if mask is None or not constant_of(mask):
        return None
    return list(b.put(_without(op, ("mask",))))


@memory.rule("store", "atomic_rmw", "assert")
def access_of_nothing(op: Op, b: Rewriter) -> tuple[Value, ...] | None:
    """store(p, x, mask = false) does nothing; so for atomics, whose result is 0, and assertions"""
    mask = op.operand("mask")
    if mask is None or constant_of(mask) != 0:
        return None
    return tuple(b.constant(0, r.type) for r in op.results)


@memory.rule("assert", "assume")
def always_holds(op: Op, b: Rewriter) -> tuple[Value, ...] | None:
    """assert(true) does nothing; neither does assume(true)"""
    return () if constant_of(op.operands[0]) else None
