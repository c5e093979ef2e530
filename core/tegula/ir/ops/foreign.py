"""What only some targets can do: their assembly language, and functions of their own libraries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..opdef import REQUIRED, check, op
from ..types import DTYPES, Type, shape_of, with_shape
from .rules import types_of

if TYPE_CHECKING:
    from ..core import Op


def _elementwise(op: Op) -> list[Type]:
    """Results of the element types that the attribute `elems` names, in the operands' shape."""
    names = op.attrs["elems"].split()
    check(bool(names) and all(n in DTYPES for n in names), f"{op.name}: elems names dtypes")
    shapes = {shape_of(t) for t in types_of(op)}
    check(len(shapes) <= 1, f"the operands of {op.name} differ in shape")
    shape = shapes.pop() if shapes else ()
    return [with_shape(DTYPES[n], shape) for n in names]


@op("inline_asm", effects="read write io")
class InlineAsm:
    """Assembly of the target on every element, or on `pack` elements at a time.

    `elems` names the result dtypes, `constraints` the registers in the compiler's own notation.
    """

    operands = "args*"
    attrs = {"asm": REQUIRED, "constraints": REQUIRED, "elems": REQUIRED, "pack": 1, "pure": False}
    infer = _elementwise


@op("extern_call", effects="read write io")
class ExternCall:
    """A function of a library of the target on every element. `elems` names the result dtype."""

    operands = "args*"
    attrs = {"symbol": REQUIRED, "library": "", "elems": REQUIRED, "pure": False}
    infer = _elementwise


REASONS = {
    "inline_asm": "it has no inline assembly; write the operation with the language's own "
    "functions, or choose by tl.target_info which branch a target gets",
    "extern_call": "it has no such library; use tl.math and tl.extra.libdevice, which every target "
    "has",
}
"""Why a target without the capability refuses an op, and what to do instead."""
