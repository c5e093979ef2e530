"""What this lowering has rules for."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tegula.ir import Module
    from tegula.plugin import Capabilities


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


def check_dtypes(module: Module, capabilities: Capabilities) -> None:
    """Raise if a kernel has a value of a dtype that the device lacks."""
    from tegula.ir.types import DTYPES, Pointer, elem_of
    from tegula.plugin import UnsupportedError

    if len(capabilities.dtypes) == len(DTYPES):
        return
    for op in (op for function in module.kernels for op in function.body.walk()):
        for value in (*op.operands, *op.results):
            e = elem_of(value.type)
            name = (e.elem if isinstance(e, Pointer) else e).name
            if name not in capabilities.dtypes:
                target = capabilities.target
                why = f"dtype '{name}' is not supported on {target}"
                raise UnsupportedError(target.backend, op.name, why, loc=op.loc)
