"""Functions that are also methods of tensors: `x.sum(axis=0)` is `tl.sum(x, axis=0)`."""

from __future__ import annotations

from typing import Any, Final

from . import atomic, collect, creation, elementwise, memory, reduction, shape, standard
from .values import TENSOR_PROPERTIES

TENSOR_METHODS: Final[dict[str, Any]] = {
    **{
        name: getattr(module, name)
        for module, names in (
            (
                atomic,
                "atomic_add atomic_and atomic_cas atomic_load atomic_max atomic_min atomic_or "
                "atomic_poll atomic_store atomic_xchg atomic_xor",
            ),
            (collect, "argsort flip gather histogram sort topk"),
            (creation, "cast"),
            (
                elementwise,
                "abs ceil cos erf exp exp2 floor log log2 logical_and logical_or rsqrt sin sqrt "
                "sqrt_rn",
            ),
            (memory, "store"),
            (reduction, "associative_scan reduce"),
            (
                shape,
                "broadcast_to expand_dims item permute ravel reshape split squeeze trans "
                "unsqueeze view",
            ),
            (
                standard,
                "argmax argmin cdiv cumprod cumsum max min reduce_or sigmoid softmax sum xor_sum",
            ),
        )
        for name in names.split()
    },
    "to": creation.cast,
}
"""Method name -> function that takes the tensor first."""


def is_tensor_member(name: str) -> bool:
    """Whether tensors have a property or method of this name."""
    return name in TENSOR_METHODS or name in TENSOR_PROPERTIES or name == "T"
