"""The entry of the lowering: a module with one kernel becomes LLVM text."""

from __future__ import annotations

from tegula.codegen.loops.kernel import KernelEmitter, Lowered
from tegula.codegen.loops.prepare import prepare
from tegula.codegen.loops.vector import VectorTarget
from tegula.ir.core import Module


def lower(module: Module, target: VectorTarget, *, assume_disjoint: bool = True,
          debug: bool = False) -> Lowered:
    """Lower the module's kernel for a vector unit."""
    (kernel,) = module.kernels
    function = prepare(module, kernel)
    return KernelEmitter(function, target, assume_disjoint, debug).lower()
