"""Functions that are told about compilations, for tools that watch or record them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

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


Hook = Callable[[Compilation], Any]

before_compile: list[Hook] = []
"""Called when a variant is not known in this process, before it is looked for on disk."""

after_compile: list[Hook] = []
"""Called when it is there."""

warming: ContextVar[bool] = ContextVar("warming", default=False)
"""Whether the compilation at hand is a warm-up's."""
