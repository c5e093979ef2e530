"""Matching the arguments of a launch with the parameters of a kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tegula.errors import ArgumentError
from tegula.runtime.dispatch_tables import FROM_ARGUMENTS, FROM_STORED
from tegula.runtime.parameters import KernelParam


@dataclass(slots=True)
class Bound:
    """One argument: its parameter, its value, and where the dispatcher finds it."""

    param: KernelParam
    value: Any
    source: int
    parent: int
    rest: bool = False
    """The tuple that a `*parameter` collected; `source` is its first member's."""


def bind(
    kernel: str, params: Sequence[KernelParam], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[list[Bound], dict[str, tuple[Any, int]]]:
    """Arguments in parameter order, and the keywords that are no parameter with their sources."""
    source_of = {name: len(args) + i for i, name in enumerate(kwargs)}
    bound: list[Bound] = []
    missing: list[str] = []
    taken = 0
    for param in params:
        name = param.name
        if param.kind == "varargs":
            bound.append(Bound(param, tuple(args[taken:]), taken, FROM_ARGUMENTS, rest=True))
            taken = len(args)
        elif param.kind == "positional" and taken < len(args):
            if name in kwargs:
                raise ArgumentError(
                    f"kernel `{kernel}` got argument '{name}' twice: by position "
                    f"(number {taken + 1}) and by name"
                )
            bound.append(Bound(param, args[taken], taken, FROM_ARGUMENTS))
            taken += 1
        elif name in kwargs:
            bound.append(Bound(param, kwargs[name], source_of[name], FROM_ARGUMENTS))
        elif param.has_default:
            bound.append(Bound(param, param.default, 0, FROM_STORED))
        else:
            missing.append(name)
    _check_missing(kernel, missing, kwargs, params)
    if taken < len(args):
        raise ArgumentError(
            f"kernel `{kernel}` takes {taken} positional arguments "
            f"({', '.join(p.name for p in params)}), and {len(args)} were given"
        )
    names = {param.name for param in params}
    return bound, {k: (v, source_of[k]) for k, v in kwargs.items() if k not in names}


def _check_missing(
    kernel: str, missing: list[str], kwargs: Mapping[str, Any], params: Sequence[KernelParam]
) -> None:
    if not missing:
        return
    import difflib

    names = {param.name for param in params}
    stray = [name for name in kwargs if name not in names]
    near = difflib.get_close_matches(missing[0], stray, n=1)
    guess = f"; is '{near[0]}' meant for '{missing[0]}'?" if near else ""
    plural = "s" if len(missing) > 1 else ""
    listed = ", ".join(f"'{name}'" for name in missing)
    raise ArgumentError(f"kernel `{kernel}` lacks argument{plural} {listed}{guess}")
