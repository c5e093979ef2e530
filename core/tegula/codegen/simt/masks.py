"""Comparisons that neighbours share, as in masks by which they are in or out together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tegula.analysis.axisinfo import power_of_two
from tegula.codegen.simt.layout import axis_fields, log2
from tegula.ir.core import Op

if TYPE_CHECKING:
    from tegula.codegen.simt.kernel import Emitter


def repeated(k: Emitter, op: Op) -> int:
    """Bits of a register's number without which a comparison's answer is the same."""
    info = k.axes.exact.of(k.origin(op.results[0]))
    if max(info.constancy, default=1) == 1:
        return 0
    layout = k.layout(op.results[0])
    runs = [
        range(shift, shift + log2(power_of_two(c)))
        for (shift, _), c in zip(axis_fields(layout.shape), info.constancy)
    ]
    within = {1 << bit for run in runs for bit in run}
    return sum(1 << n for n, basis in enumerate(layout.register) if basis in within)
