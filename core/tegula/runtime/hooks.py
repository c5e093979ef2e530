"""Functions that are told about compilations, loading and launches, for tools that watch them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tegula.config import config

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tegula.runtime.compiled import CompiledKernel
    from tegula.runtime.grids import Grid
    from tegula.runtime.jit import JITFunction
    from tegula.runtime.specialize import Specialized


@dataclass(frozen=True, eq=False)
class Compilation:
    """One variant of a kernel that is compiled, or taken from the disk cache."""

    kernel: JITFunction
    key: Any
    """What distinguishes the variant in this process."""
    arguments: Mapping[str, Any]
    options: Mapping[str, Any]
    target: Any
    specialized: Specialized
    warmup: bool

    @functools.cached_property
    def data(self) -> str:
        """A text from which `kernel.preload` compiles the same variant, in another process too."""
        from tegula.runtime import preload

        return preload.encode(self.kernel, self.arguments, self.options, self.target)


@dataclass(frozen=True, eq=False)
class Launch:
    """One launch of a kernel."""

    kernel: JITFunction
    compiled: CompiledKernel
    grid: Grid
    arguments: Mapping[str, Any]


class LaunchHooks(list[Callable[[Launch], Any]]):
    """Functions called at launches. While there are any, launches go through Python; so that those
    that are bound natively notice, functions come and go by `append` and `remove` only.
    """

    def append(self, hook: Callable[[Launch], Any]) -> None:
        super().append(hook)
        config.refresh()

    def remove(self, hook: Callable[[Launch], Any]) -> None:
        super().remove(hook)
        config.refresh()


Hook = Callable[[Compilation], Any]

before_compile: list[Hook] = []
"""Called when a variant is not known in this process, before it is looked for on disk."""

after_compile: list[Hook] = []
"""Called when it is there."""

before_load: list[Callable[[CompiledKernel], Any]] = []
"""Called before code is loaded on a device, which happens at its first launch."""

after_load: list[Callable[[CompiledKernel], Any]] = []
"""Called after that."""

before_launch = LaunchHooks()
"""Called before the programs of a launch run."""

after_launch = LaunchHooks()
"""Called when a launch returns."""


def watching() -> bool:
    """Whether launches are watched."""
    return bool(before_launch or after_launch)


warming: ContextVar[bool] = ContextVar("warming", default=False)
"""Whether the compilation at hand is a warm-up's."""
