"""Comparisons that neighbours share, as in masks by which they are in or out together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tegula.codegen.simt.layout import axis_fields
from tegula.ir.core import Op, Value
from tegula.ir.types import shape_of

if TYPE_CHECKING:
    from tegula.codegen.simt.kernel import Emitter


def repeated(k: Emitter, op: Op) -> int:
    """Bits of a register's number without which a comparison's answer is the same."""
    v = k.origin(op.results[0])
    info = k.axes.of(v)
    if max(info.constancy, default=1) == 1 or not _exact(k, v):
        return 0
    layout = k.layout(op.results[0])
    runs = [
        range(shift, shift + _log2(c))
        for (shift, _), c in zip(axis_fields(layout.shape), info.constancy)
    ]
    within = {1 << bit for run in runs for bit in run}
    return sum(1 << n for n, basis in enumerate(layout.register) if basis in within)


def _log2(n: int) -> int:
    """How often 2 divides a number."""
    return (n & -n).bit_length() - 1


def _exact(k: Emitter, v: Value) -> bool:
    """Whether what `axes` knows holds for all elements, and not only for those inside of their
    buffers: it takes dividends for positive.
    """
    known = k.exact.get(v)
    if known is None:
        op = v.owner
        if op is None or op.regions:
            known = not shape_of(v.type) or not k.divides
        elif op.name in ("div", "rem") and shape_of(v.type):
            known = False
        else:
            known = all(_exact(k, x) for x in op.operands)
        k.exact[v] = known
    return known
