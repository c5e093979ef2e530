"""What a backend's compiler makes of a module with one kernel, up to LLVM text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tegula.codegen.loops.evaluate import Unsupported
from tegula.codegen.simt import lower as lowering

if TYPE_CHECKING:
    from tegula.codegen.simt.hooks import Simt
    from tegula.ir.core import Module
    from tegula.plugin import Options, Target


@dataclass(frozen=True)
class Emitted:
    """A kernel's text, its symbol, the types of its parameters, and facts for the artifact."""

    text: str
    entry: str
    params: tuple[str, ...]
    facts: dict[str, Any]


def emit(module: Module, simt: Simt, target: Target, options: Options, **more: Any) -> Emitted:
    """The module's kernel; `more` goes to `lower`. An op that has no rule is an error that names
    the backend.
    """
    from tegula.plugin import UnsupportedError

    (kernel,) = module.kernels
    try:
        made = lowering.lower(
            module, simt, num_warps=options.num_warps, assume_disjoint=options.assume_disjoint,
            debug=options.debug, **more,
        )  # fmt: skip
    except Unsupported as error:
        op = error.op
        raise UnsupportedError(target.backend, op.name, error.why, loc=op.loc) from None
    facts = {
        **made.metadata,
        "shared_bytes": made.shared_bytes,
        "shared": made.shared_bytes,
        "num_warps": options.num_warps,
        "asserts": list(made.asserts),
        "alias_pairs": [list(pair) for pair in made.alias_pairs],
    }
    params = tuple(str(p.type) for p in kernel.body.args)
    return Emitted(made.text, lowering.entry_of(kernel.name), params, facts)
