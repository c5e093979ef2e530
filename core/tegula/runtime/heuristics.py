"""Arguments computed from other arguments at every launch."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from tegula.errors import ArgumentError
from tegula.runtime.interface import KernelInterface, base_function, base_kernel

Heuristic = Callable[[dict[str, Any]], Any]


class Heuristics(KernelInterface):
    """A kernel some of whose arguments are computed from the others."""

    def __init__(self, fn: Any, arg_names: Sequence[str], values: Mapping[str, Heuristic]) -> None:
        self.fn = fn
        self.arg_names = list(arg_names)
        self.values = dict(values)
        functools.update_wrapper(cast(Any, self), base_kernel(fn), updated=())

    @property
    def base_fn(self) -> Any:
        """The Python function of the kernel."""
        return base_function(self.fn)

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the arguments and launch."""
        known = {**dict(zip(self.arg_names, args)), **kwargs}
        for name, heuristic in self.values.items():
            try:
                kwargs[name] = known[name] = heuristic(dict(known))
            except KeyError as error:
                raise ArgumentError(
                    f"the heuristic {name!r} of kernel `{self.base_fn.__name__}` asks for {error}, "
                    "which is neither an argument nor an option of this launch"
                ) from error
        return self.fn.run(*args, **kwargs)


def heuristics(values: Mapping[str, Heuristic]) -> Callable[[Any], Heuristics]:
    """Compute arguments from other ones: `@heuristics({"EVEN": lambda args: args["N"] % 16 == 0})`
    above `@jit`. Each function gets all arguments known so far by name, the results of those before
    it included.
    """

    def decorate(fn: Any) -> Heuristics:
        return Heuristics(fn, fn.arg_names, values)

    return decorate
