"""The collections: where their kernels and cases are, and what cannot run on a host at all."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from typing import Any


@dataclass(frozen=True)
class Package:
    """A package of kernels."""

    distribution: str
    module: str
    version: str
    """The version that the cases were written for."""
    not_applicable: Mapping[str, str] = field(default_factory=dict)
    """Kernels that need what no host has, and why."""

    def cases(self) -> Sequence[Any]:
        """Its cases; the package has to be importable."""
        module = importlib.import_module(f"cases.{self.module}")
        cases: Sequence[Any] = module.cases
        return cases

    def installed(self) -> str:
        """The version that is there."""
        return metadata.version(self.distribution)


# fmt: off
PACKAGES = {
    package.distribution: package
    for package in (
        Package("conch-triton-kernels", "conch", "1.3"),
        Package("adasplash", "adasplash", "0.2.2", dict.fromkeys(
            ("adasplash_v2:get_next_block", "adasplash_v2:_get_output",
             "adasplash_v2:_bwd_q_kernel", "adasplash_v2:_bwd_kv_kernel"),
            "inline assembly of NVIDIA's (`fns.b32`); with a function in its place, it passes",
        )),
        Package("flash-sinkhorn", "flash_sinkhorn", "0.4.1"),
        Package("mase-triton", "mase_triton", "0.0.7"),
        Package("late-interaction-kernels", "late_interaction_kernels", "0.4.5"),
        Package("jvp-flash-attention", "jvp_flash_attention", "0.14.0"),
        Package("flash-kmeans", "flash_kmeans", "0.3.1"),
        Package("lanczos-triton", "lanczos_triton", "0.1.0"),
    )
}
# fmt: on
"""By the name that they are installed by."""
