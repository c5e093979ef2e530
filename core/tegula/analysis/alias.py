"""Where pointers come from, and which memory effects ops have."""

from __future__ import annotations

from tegula.ir.core import Block, Function, Op, Value
from tegula.ir.types import Descriptor, is_pointer

# Ops that hand on the pointer of their first operand, element by element or rearranged.
_FORWARD = frozenset(
    {"addptr", "splat", "broadcast", "expand_dims", "reshape", "permute", "hint", "slice"}
    | {"make_descriptor", "split", "gather"}
)
_MERGE = {"select": (1, 2), "cat": (0, 1), "join": (0, 1)}


def pointer_roots(function: Function) -> dict[Value, Value | None]:
    """The parameter that every pointer value is derived from; None where it is not a single one."""
    roots: dict[Value, Value | None] = {v: v for v in function.body.args if _points(v)}
    _visit(function.body, roots)
    return roots


def _points(value: Value) -> bool:
    return isinstance(value.type, Descriptor) or is_pointer(value.type)


def _visit(block: Block, roots: dict[Value, Value | None]) -> None:
    for op in block.ops:
        if op.regions:
            _visit_regions(op, roots)
            continue
        if not any(_points(r) for r in op.results):
            continue
        if op.name in _FORWARD:
            root = roots.get(op.operands[0])
        elif op.name in _MERGE:
            found = {roots.get(op.operands[i]) for i in _MERGE[op.name]}
            root = found.pop() if len(found) == 1 else None
        else:
            root = None
        for result in op.results:
            roots[result] = root


def _visit_regions(op: Op, roots: dict[Value, Value | None]) -> None:
    """Loops: what is carried keeps its root unless some yield gives it another."""
    if op.name == "if":
        for region in op.regions:
            _visit(region, roots)
        exits = [r.terminator.operands for r in op.regions]
        for result, values in zip(op.results, zip(*exits), strict=False):
            if _points(result):
                found = {roots.get(v) for v in values}
                roots[result] = found.pop() if len(found) == 1 else None
        return
    if op.name not in ("for", "while"):
        for region in op.regions:
            _visit(region, roots)
        return
    entry = [roots.get(v) for v in op.group("inits")]
    while True:
        leave = entry
        for region in op.regions:
            for arg, root in zip(region.args[len(region.args) - len(leave) :], leave):
                if _points(arg):
                    roots[arg] = root
            _visit(region, roots)
            if region is not op.regions[-1]:  # the condition of a while chooses what goes on
                leave = [roots.get(v) for v in region.terminator.operands[1:]]
        back = [roots.get(v) for v in op.regions[-1].terminator.operands]
        merged = [a if a is b else None for a, b in zip(entry, back)]
        if merged == entry:
            break
        entry = merged
    for result, root in zip(op.results, leave):
        if _points(result):
            roots[result] = root


def effects_of(op: Op) -> frozenset[str]:
    """Effects of the op and of everything in its regions; a call may do anything."""
    if op.name == "call":
        return frozenset({"read", "write", "atomic", "io"})
    found = op.opdef.effects
    for region in op.regions:
        for inner in region.ops:
            found = found | effects_of(inner)
    return found


def is_pure(op: Op) -> bool:
    """True when the op only computes its results and always ends: it may be dropped or moved."""
    if op.name == "while":
        return False
    if op.regions:
        return all(is_pure(inner) or inner.opdef.terminator for r in op.regions for inner in r.ops)
    return op.opdef.pure
