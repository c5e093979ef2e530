"""`triton.language.target_info`: what kernels ask about their target at compile time."""

from __future__ import annotations

from typing import Any

from tegula.language.builtin import constexpr_function


@constexpr_function
def current_target() -> Any:
    """The target that kernels are compiled for."""
    from tegula.compat.triton.driver import active

    return active.get_current_target()


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
