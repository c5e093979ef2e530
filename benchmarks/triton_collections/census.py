"""What a collection of kernels contains, and which of it a case runs."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

SKIPPED = ("testing", "tests", "bench", "benchmarks", "examples", "__main__")
"""Modules of a package that hold no kernels of its own, and want more than torch."""


def kernels(package: str) -> dict[str, Any]:
    """Every function under `triton.jit` in the modules of a package, by `module:name`."""
    from tegula.runtime.interface import base_kernel
    from tegula.runtime.jit import JITFunction

    found: dict[str, Any] = {}
    for module in modules(package):
        for value in vars(module).values():
            kernel = base_kernel(value)
            if isinstance(kernel, JITFunction) and kernel.fn.__module__ == module.__name__:
                found[name_of(kernel)] = value
    return found


def modules(package: str) -> Iterator[Any]:
    """The modules of a package that mention `jit`, those for tests and benchmarks apart."""
    [folder] = importlib.import_module(package).__path__
    for file in sorted(Path(folder).rglob("*.py")):
        parts = file.relative_to(folder).with_suffix("").parts
        if not set(parts) & set(SKIPPED) and "jit" in file.read_text():
            yield importlib.import_module(".".join((package, *parts)).removesuffix(".__init__"))


def name_of(kernel: Any) -> str:
    """`module:name`, the module without its package."""
    _, _, module = kernel.fn.__module__.partition(".")
    return f"{module}:{kernel.fn.__qualname__}"


@contextmanager
def watched(package: str, seen: Callable[[str], None]) -> Iterator[None]:
    """Tell `seen` about each kernel of a package that is launched, or compiled into another."""
    from tegula.frontend import calls
    from tegula.runtime import hooks

    inner: Any = calls.bind_arguments

    def see(kernel: Any) -> None:
        if kernel.fn.__module__.split(".")[0] == package:
            seen(name_of(kernel))

    def bind_arguments(function: Any, *rest: Any) -> Any:
        see(function)
        return inner(function, *rest)

    def launched(launch: hooks.Launch) -> None:
        see(launch.kernel)

    calls.bind_arguments = bind_arguments
    hooks.before_launch.append(launched)
    try:
        yield
    finally:
        calls.bind_arguments = inner
        hooks.before_launch.remove(launched)


def pin_configs(package: str, number: int) -> None:
    """Let every tuned kernel of a package use one of its configurations: the `number`-th, counted
    around. Cases in a row run through all of them, and nothing is timed.
    """
    from tegula.runtime.autotune import Autotuner

    for name, module in list(sys.modules.items()):
        if name.split(".")[0] != package:
            continue
        for value in vars(module).values():
            while value is not None and not isinstance(value, Autotuner):
                value = getattr(value, "fn", None) if hasattr(value, "run") else None
            if value is not None:
                everything = value.__dict__.setdefault("all_configs", list(value.configs))
                value.configs = [everything[number % len(everything)]]
                value.cache.clear()
