"""Compile options that launches on NVIDIA GPUs understand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tegula.errors import OptionValueError
from tegula.plugin import OptionError, Options

MAX_WARPS = 32
_PORTABLE_CLUSTER = 8
"""Programs of one cluster that every device with clusters can run."""


@dataclass(frozen=True)
class CudaOptions(Options):
    """The common options, and the attributes of a launch."""

    ignored: ClassVar[frozenset[str]] = frozenset({"num_ctas"})

    num_stages: int = 3
    default_dot_precision: str = "tf32"
    cluster_dims: tuple[int, ...] = (1, 1, 1)
    """Programs that run on neighbouring multiprocessors and may share their memory."""
    launch_cooperative_grid: bool = False
    """All programs of the grid run at the same time, so that they can wait for each other."""
    launch_pdl: bool = False
    """The kernel may start while the one before it in the stream ends."""
    tensor_copies: bool = True
    """Blocks of tensor descriptors are copied by the tensor memory accelerator where it can."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.num_warps not in (1, 2, 4, 8, 16, 32):
            raise OptionValueError(
                f"num_warps must be a power of 2 from 1 to {MAX_WARPS}, not {self.num_warps}"
            )
        if self.maxnreg is not None and not 1 <= self.maxnreg <= 255:
            raise OptionError(f"maxnreg has to lie between 1 and 255, not {self.maxnreg}")
        if self.num_stages < 1:
            raise OptionError(f"num_stages has to be at least 1, not {self.num_stages}")
        object.__setattr__(self, "cluster_dims", self._checked_cluster())

    def _checked_cluster(self) -> tuple[int, int, int]:
        dims = tuple(self.cluster_dims)
        x, y, z = (*dims, 1, 1, 1)[:3]
        fits = len(dims) <= 3 and all(isinstance(n, int) and n > 0 for n in dims)
        if not fits or x * y * z > _PORTABLE_CLUSTER:
            raise OptionError(
                f"cluster_dims has to be up to three counts whose product is at most "
                f"{_PORTABLE_CLUSTER}, not {dims}"
            )
        return x, y, z

    @property
    def clustered(self) -> bool:
        """Whether a cluster has more than one program."""
        return self.cluster_dims != (1, 1, 1)
