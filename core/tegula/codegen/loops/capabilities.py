"""What this lowering has rules for."""

from __future__ import annotations

from tegula.codegen.loops.elementwise import RULES

STRUCTURAL = frozenset(
    "constant arange splat broadcast expand_dims reshape permute cat join split flip slice gather "
    "sort histogram map load store "
    "atomic_rmw atomic_cas atomic_load atomic_store atomic_poll make_descriptor desc_load "
    "desc_store reduce scan dot for while if yield condition return program_id num_programs "
    "print assert assume hint".split()
)
"""Ops that nests, blocks and evaluation handle by themselves."""


def supported_ops() -> frozenset[str]:
    """Names of all ops that lower, math functions that expand to others included."""
    from tegula.codegen.math import FUNCTIONS

    return STRUCTURAL | RULES.keys() | FUNCTIONS.keys()
