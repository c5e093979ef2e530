"""`triton.language.target_info`: what kernels ask about their target at compile time, and what the
host asks about the active device's.
"""

from __future__ import annotations

from typing import Any

from tegula.compat.triton.compiler import GPUTarget
from tegula.language.active import compiled_for
from tegula.language.builtin import constexpr_function
from tegula.plugin import Target, TritonTarget

NO_WARPS = 32
"""The warp size of devices without warps: programs divide by it to choose `num_warps`."""


def known_target(target: Target | None) -> TritonTarget | None:
    """How the backend of a target says that programs know it."""
    from tegula.plugin.registry import registry

    return None if target is None else registry.backend(target.backend).compiler.triton(target)


def gpu_target(target: Target) -> GPUTarget:
    """A target as programs see it. On host memory the backend is `cpu`, so that
    `getattr(torch, backend)` finds something.
    """
    from tegula.plugin.registry import registry

    known = known_target(target)
    if known is not None:
        return GPUTarget(known.backend, known.arch, known.warp_size)
    backend = registry.backend(target.backend)
    warp = backend.compiler.capabilities(target).limits.get("warp_size", NO_WARPS)
    return GPUTarget(backend.spec.torch or backend.name, target.arch, warp)


@constexpr_function
def current_target() -> GPUTarget:
    """The target that kernels are compiled for."""
    target = compiled_for()
    if target is not None:
        return gpu_target(target)
    from tegula.compat.triton import driver

    found: GPUTarget = driver.active.get_current_target()
    return found


@constexpr_function
def is_cuda() -> bool:
    """Whether the target is an NVIDIA GPU."""
    return bool(current_target().backend == "cuda")


@constexpr_function
def is_hip() -> bool:
    """Whether the target is an AMD GPU."""
    return bool(current_target().backend == "hip")


@constexpr_function
def cuda_capability_geq(major: int, minor: int = 0) -> bool:
    """Whether the target is an NVIDIA GPU of this compute capability or above."""
    arch = current_target().arch
    return is_cuda() and isinstance(arch, int) and arch >= 10 * major + minor


def _is_arch(name: str) -> Any:
    def check() -> bool:
        return is_hip() and current_target().arch == name

    check.__name__ = f"is_{name}"
    return constexpr_function(check)


is_hip_cdna3 = _is_arch("gfx942")
is_hip_cdna4 = _is_arch("gfx950")
is_hip_gfx1250 = _is_arch("gfx1250")
