"""What kernels and the wrappers around them have in common."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any


class KernelInterface:
    """Something that is launched as `kernel[grid](*args)`: a kernel, or a wrapper that keeps the
    kernel in `.fn` and changes how it is launched.

    Wrappers define `run(*args, grid, warmup, **kwargs)`, and wrap each other in any order.
    """

    fn: Any

    def run(self, *args: Any, grid: Any, warmup: bool = False, **kwargs: Any) -> Any:
        """Launch on `grid`; with `warmup`, compile only."""
        raise NotImplementedError(f"{type(self).__name__} does not define run()")

    def warmup(self, *args: Any, grid: Any = (1,), **kwargs: Any) -> Any:
        """Compile for these arguments, launch nothing."""
        return self.run(*args, grid=grid, warmup=True, **kwargs)

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        """The launcher for a grid."""
        return functools.partial(self.run, grid=grid, warmup=False)

    def __reduce__(self) -> str:
        """Kernels are pickled by name, as functions are; so are those in wrappers."""
        return str(base_function(self).__qualname__)


def base_function(kernel: Any) -> Any:
    """The Python function inside of all wrappers."""
    kernel = base_kernel(kernel)
    return getattr(kernel, "fn", kernel)


def base_kernel(kernel: Any) -> Any:
    """The kernel inside of all wrappers."""
    from tegula.frontend.function import DeviceFunction

    while not isinstance(kernel, DeviceFunction) and hasattr(kernel, "fn"):
        kernel = kernel.fn
    return kernel
