"""The four hooks. Each hands over typed records; behaviour lives in the classes that they name.

A hook implementation may leave out arguments that it does not need, so arguments can be appended
here without breaking a plugin; they are never renamed.
"""

from __future__ import annotations

from collections.abc import Iterable

import pluggy

from tegula.plugin.records import BackendSpec, ConformanceProfile, Extension, HealthCheck

PROJECT = "tegula"

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)
"""Decorates a plugin's implementations of the hooks below."""


@hookspec
def tegula_backends() -> Iterable[BackendSpec]:  # type: ignore[empty-body]
    """The plugin's one backend, named like its entry point. No I/O and no heavy import."""


@hookspec
def tegula_extensions(ir_version: tuple[int, int]) -> Iterable[Extension]:  # type: ignore[empty-body]
    """Passes to run in every compilation, whichever the backend."""


@hookspec
def tegula_health_checks(backend: str | None) -> Iterable[HealthCheck]:  # type: ignore[empty-body]
    """Checks for `tegula doctor` about one backend, or about the machine where it is None."""


@hookspec(firstresult=True)
def tegula_conformance(backend: str, device: int | None) -> ConformanceProfile | None:
    """Exceptions and tolerances that the plugin declares for one of its backends."""
