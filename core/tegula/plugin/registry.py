"""The registry: all installed backends, each loaded when needed and none able to hurt another.

    from tegula.plugin.registry import registry
    registry.backend("cpu")     # loads this one only; raises with the reason if it cannot be used
    registry.all()              # loads every plugin module; faults are states, not exceptions

The installed distributions are scanned once, at the first use; `refresh()` forgets everything.
"""

from __future__ import annotations

import functools
import threading
import warnings
from collections.abc import Iterable

import pluggy

from tegula.config import config
from tegula.errors import nearest
from tegula.plugin import loader
from tegula.plugin.backend import Backend
from tegula.plugin.errors import PluginError, TegulaPluginWarning
from tegula.plugin.loader import Rejected, Source, State, Status

_FOUND = Status(State.REGISTERED, "found, not loaded yet")


class Registry:
    """Backends by name. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._manager: pluggy.PluginManager = loader.new_manager()
        self._backends: dict[str, Backend] | None = None
        self._intruders: list[Backend] = []
        self._ordered: list[Backend] | None = None
        self._pending: set[Backend] = set()
        self._loading: set[Backend] = set()
        self._warned: set[Backend] = set()
        self.problems: list[str] = []
        """What was wrong with metadata or settings, apart from any one backend."""

    def refresh(self) -> None:
        """Forget all backends; the next use scans the installed distributions again."""
        with self._lock:
            self._manager = loader.new_manager()
            self._backends = None
            self._intruders = []
            self._ordered = None
            self._pending = set()
            self._warned = set()
            self.problems = []
        config.refresh()  # launches that are already bound choose their device again

    # ---------------------------------------------------------------------------------------------
    # Access

    def names(self) -> list[str]:
        """The names of all backends that were found; loads none."""
        return sorted(self._scanned())

    def backend(self, name: str) -> Backend:
        """The backend of this name, loaded; an error with the reason where it cannot be used."""
        found = self._scanned()
        if name not in found:
            raise PluginError(
                f"no backend '{name}' is installed{nearest(name, found)}",
                backend=name,
                hint=f"installed are: {', '.join(sorted(found))}; `tegula backends` shows more",
            )
        backend = self._load(found[name])
        if not backend.state.loaded:
            raise backend.error()
        return backend

    def all(self) -> list[Backend]:
        """Every backend, loaded if it can be, in the order of preference; faulty ones last."""
        if self._ordered is None or config.strict_plugins:
            with self._lock:
                backends = [self._load(b) for b in self.peek()]
                usable = [b for b in backends if b.state.loaded]
                faulty = [b for b in backends if not b.state.loaded]
                self._ordered = by_preference(usable) + sorted(faulty, key=lambda b: b.name)
        return list(self._ordered)

    def usable(self) -> list[Backend]:
        """Every backend whose plugin loads, in the order of preference."""
        return [b for b in self.all() if b.state.loaded]

    def peek(self) -> list[Backend]:
        """What was found, without loading anything."""
        return [*self._scanned().values(), *self._intruders]

    def warn_of_faults(self) -> None:
        """Warn about each faulty plugin, once per process."""
        for backend in self.all():
            if backend.state.faulty and backend not in self._warned:
                self._warned.add(backend)
                hint = f" ({backend.status.hint})" if backend.status.hint else ""
                warnings.warn(
                    f"backend '{backend.name}' ({backend.source}) is {backend.state}: "
                    f"{backend.status.reason}{hint}",
                    TegulaPluginWarning,
                    stacklevel=3,
                )

    # ---------------------------------------------------------------------------------------------
    # Scanning

    def _scanned(self) -> dict[str, Backend]:
        if self._backends is None:
            with self._lock:
                if self._backends is None:
                    self._backends = self._scan()
        return self._backends

    def _scan(self) -> dict[str, Backend]:
        installed, problems = loader.discover()
        extra, more_problems = loader.sources_of_path(config.plugin_path)
        self.problems = problems + more_problems
        backends: dict[str, Backend] = {}
        for source in loader.built_in_sources():
            self._add(backends, [source])
        for source in extra:  # somebody is working on this plugin: it hides an installed one
            if source.name in backends:
                self._intrude(source, backends[source.name].source)
            else:
                self._add(backends, [source])
        names = dict.fromkeys(source.name for source in installed)
        for name in names:
            claims = [source for source in installed if source.name == name]
            if name not in backends:
                self._add(backends, claims)
            elif name in loader.BUILT_IN:
                for source in claims:
                    self._intrude(source, backends[name].source)
        return backends

    def _add(self, backends: dict[str, Backend], claims: list[Source]) -> None:
        enabled = [s for s in claims if not loader.is_disabled(s, config.disable)]
        first, *others = enabled or claims
        if not enabled:
            status = Status(State.BLOCKED, "switched off by TEGULA_DISABLE")
        elif others:
            status = _conflict(enabled)
        else:
            status = _FOUND
        backend = backends[first.name] = Backend(first, status, others)
        if status is _FOUND:
            self._pending.add(backend)

    def _intrude(self, source: Source, owner: Source) -> None:
        if loader.is_disabled(source, config.disable):
            status = Status(State.BLOCKED, "switched off by TEGULA_DISABLE")
        else:
            status = Status(
                State.CONFLICT,
                f"the name '{source.name}' belongs to {owner}",
                f"rename the backend of {source.dist}",
            )
        self._intruders.append(Backend(source, status))

    # ---------------------------------------------------------------------------------------------
    # Loading

    def _load(self, backend: Backend) -> Backend:
        if backend in self._pending:
            with self._lock:
                # A plugin that asks for itself while it is being loaded gets the reason at once.
                if backend in self._pending and backend not in self._loading:
                    self._load_now(backend)
        if config.strict_plugins and backend.state.faulty:
            raise backend.error("is faulty, and TEGULA_STRICT_PLUGINS is set")
        return backend

    def _load_now(self, backend: Backend) -> None:
        backend.status = Status(State.BROKEN, "its plugin asks for itself while it is being loaded")
        self._loading.add(backend)
        try:
            spec, plugin = loader.load(backend.source, self._manager)
        except Rejected as rejected:
            backend.status = rejected.status
        else:
            backend.loaded(spec, functools.partial(loader.call, self._manager, plugin))
        finally:
            self._loading.discard(backend)
            self._pending.discard(backend)


def by_preference(backends: Iterable[Backend]) -> list[Backend]:
    """Highest priority first, ties by name."""
    return sorted(backends, key=lambda b: (-b.priority, b.name))


def _conflict(claims: list[Source]) -> Status:
    names = " and ".join(str(source) for source in claims)
    choices = " or ".join(f"TEGULA_DISABLE={source.dist}" for source in claims)
    return Status(
        State.CONFLICT,
        f"{names} both claim the name '{claims[0].name}'",
        f"uninstall one of them, or set {choices}",
    )


registry = Registry()
"""The process's registry."""
