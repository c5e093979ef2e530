"""Kernels to PTX and to machine code, for a target that need not be there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tegula.config import config
from tegula.plugin.records import Artifact
from tegula.plugin.registry import registry
from tegula.runtime import compiler
from tegula_cuda.target import resolve


def compiled(
    kernel: Any, constants: Mapping[str, Any], arch: str = "sm_90a", aligned: bool = True,
    **types: Any,
) -> Artifact:  # fmt: skip
    """A kernel's artifact; keywords are the types of its parameters, or options."""
    options = {n: types.pop(n) for n in list(types) if n not in kernel.arg_names}
    backend = registry.backend("cuda")
    facts = {"divisible": 16} if aligned else {}
    request = compiler.Request(
        fn=kernel,
        types=types,
        constants=constants,
        attrs=dict.fromkeys(types, facts),
        context=backend.context(resolve(arch), options),
        backend=backend,
        name=kernel.fn.__name__,
    )
    return compiler._compile(request, compiler.Timing())


def ptx_of(*args: Any, **kwargs: Any) -> str:
    """The kernel's PTX."""
    with config.scope(ptxas="driver"):
        return compiled(*args, **kwargs).data.decode()
