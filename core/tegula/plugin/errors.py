"""Errors and warnings of the plugin system: each says what failed, why, and what to do."""

from __future__ import annotations

from tegula.errors import TegulaError


class PluginError(TegulaError):
    """A plugin could not be found, loaded or used."""

    def __init__(self, message: str, *, backend: str = "", hint: str = "") -> None:
        self.backend = backend
        self.hint = hint
        super().__init__(f"{message}\n  hint: {hint}" if hint else message)


class RecordError(PluginError, ValueError):
    """A record handed over by a plugin breaks its contract."""


class UnsupportedError(TegulaError):
    """A backend cannot compile an op for a target; the message says which and why."""

    def __init__(self, backend: str, op: str, why: str, *, loc: object = None) -> None:
        self.backend, self.op, self.why, self.loc = backend, op, why, loc
        place = f"{loc}: " if loc is not None and str(loc) else ""
        super().__init__(f"{place}backend '{backend}' cannot compile '{op}': {why}")


class TegulaPluginWarning(UserWarning):
    """Something is wrong with an installed plugin, or hardware that looks present is not used."""
