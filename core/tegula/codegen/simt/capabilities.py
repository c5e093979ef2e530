"""What this lowering has rules for."""

from __future__ import annotations


def supported_ops() -> frozenset[str]:
    """Names of all ops that lower, those that passes expand into others included; not those that
    a machine has to have."""
    from tegula.codegen.collecting import FORMULAS
    from tegula.codegen.math import FUNCTIONS
    from tegula.codegen.simt import lower  # noqa: F401  (fills the tables)
    from tegula.codegen.simt.elementwise import RULES
    from tegula.codegen.simt.registry import LOWERINGS
    from tegula.ir.opdef import OPS
    from tegula.ir.ops.foreign import REASONS

    known = LOWERINGS.keys() | RULES.keys() | FUNCTIONS.keys() | FORMULAS.keys() | STRUCTURAL
    return frozenset(known & OPS.keys()) - REASONS.keys()


STRUCTURAL = frozenset(
    "make_descriptor desc_load desc_store yield condition return expand_dims call".split()
)
"""Ops that are rewritten before the lowering, or end blocks."""
