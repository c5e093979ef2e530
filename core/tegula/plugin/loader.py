"""Finds plugins and loads one of them without letting its faults out.

Every outcome is a state with a reason and a hint, kept as data. pluggy checks hook names and
arguments and calls the hooks; its own loading loop is not used, because there the first fault of
one plugin ends the loop for all.
"""

from __future__ import annotations

import importlib
import re
import traceback
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from types import ModuleType
from typing import Any

import pluggy

from tegula.errors import nearest
from tegula.plugin import hookspecs, installed
from tegula.plugin.records import CORE_FEATURES, BackendSpec
from tegula.versions import API, API_MIN, IR_VERSION

GROUP = "tegula.backends"

BUILT_IN = {"interpreter": "tegula.interp.backend"}
"""Backends that the core brings along; they register through the same hooks as all others."""


class State(StrEnum):
    """Where a backend stands, from what was learned about it so far."""

    BLOCKED = "blocked"  # switched off by the user
    CONFLICT = "conflict"  # two distributions claim one name
    BROKEN = "broken"  # its plugin could not be loaded
    INCOMPATIBLE = "incompatible"  # written for another version of the contract or the IR
    REGISTERED = "registered"  # loaded; nobody asked for its devices yet
    CRASHED = "crashed"  # its probe raised or died
    UNAVAILABLE = "unavailable"  # works, but finds no device
    AVAILABLE = "available"
    OPEN = "open"  # at least one device is in use

    @property
    def loaded(self) -> bool:
        """Whether the plugin's record is there and fits."""
        return self in _LOADED

    @property
    def faulty(self) -> bool:
        """Whether somebody has to mend something."""
        return self in (State.CONFLICT, State.BROKEN, State.INCOMPATIBLE, State.CRASHED)


_LOADED = frozenset(
    {State.REGISTERED, State.CRASHED, State.UNAVAILABLE, State.AVAILABLE, State.OPEN}
)


@dataclass(frozen=True)
class Source:
    """Where a backend comes from: an entry point of a distribution, or something like it."""

    name: str
    module: str
    dist: str
    version: str = ""
    requires: tuple[str, ...] = ()
    """The distribution's requirements that speak of tegula."""

    def __str__(self) -> str:
        return f"{self.dist} {self.version}".strip()


@dataclass(frozen=True)
class Status:
    """A state with its reason and what can be done about it."""

    state: State
    reason: str = ""
    hint: str = ""
    details: str = ""
    """The traceback, where an exception led here."""


class Rejected(Exception):
    """Ends the loading of a plugin with a status."""

    def __init__(self, state: State, reason: str, hint: str = "", details: str = "") -> None:
        super().__init__(reason)
        self.status = Status(state, reason, hint, details)


# -------------------------------------------------------------------------------------------------
# Finding


def discover() -> tuple[list[Source], list[str]]:
    """The sources of all installed distributions, and what was wrong with unreadable ones."""
    points, problems = installed.entry_points(GROUP)
    return [_source(point) for point in points], problems


def _source(point: installed.EntryPoint) -> Source:
    requires = tuple(r for r in point.requires if re.match(r"tegula\b(?!-)", r))
    return Source(point.name, point.module, point.dist, point.version, requires)


def built_in_sources() -> list[Source]:
    from tegula import __version__

    return [Source(name, module, "tegula", __version__) for name, module in BUILT_IN.items()]


def sources_of_path(text: str | None) -> tuple[list[Source], list[str]]:
    """Sources of a `name=module,name=module` setting, for plugins that are not installed."""
    sources, problems = [], []
    for part in (text or "").split(","):
        name, _, module = (piece.strip() for piece in part.partition("="))
        if name and module:
            sources.append(Source(name, module, "TEGULA_PLUGIN_PATH"))
        elif part.strip():
            problems.append(f"TEGULA_PLUGIN_PATH: '{part.strip()}' is not of the form name=module")
    return sources, problems


def is_disabled(source: Source, disabled: Iterable[str]) -> bool:
    """Whether the user switched the source off by its name or its distribution's name."""
    names = {installed.normal(name) for name in disabled}
    return installed.normal(source.name) in names or installed.normal(source.dist) in names


# -------------------------------------------------------------------------------------------------
# Loading


def new_manager() -> pluggy.PluginManager:
    """A plugin manager that knows the hooks and no plugin."""
    manager = pluggy.PluginManager(hookspecs.PROJECT)
    manager.add_hookspecs(hookspecs)
    return manager


def load(source: Source, manager: pluggy.PluginManager) -> tuple[BackendSpec, ModuleType]:
    """Import and register one plugin and return its checked record; raises only `Rejected`."""
    plugin = _import(source)
    try:
        _register(source, plugin, manager)
        spec = _one_spec(source, call(manager, plugin, "tegula_backends"))
        _check_versions(source, spec)
    except Rejected:
        _unregister(plugin, manager)
        raise
    return spec, plugin


def call(manager: pluggy.PluginManager, plugin: ModuleType, hook: str, **arguments: Any) -> Any:
    """Call one hook of one plugin; an exception becomes `Rejected`.

    Hooks that give records return one list of them; a `firstresult` hook returns its result.
    """
    others = [p for p in manager.get_plugins() if p is not plugin]
    try:
        results = manager.subset_hook_caller(hook, others)(**arguments)
        if not isinstance(results, list):
            return results
        return [record for records in results for record in (records or ())]
    except (Exception, SystemExit) as error:
        raise _broken(f"{hook}() raised {one_line(error)}", error) from error


def _import(source: Source) -> Any:
    module, _, attribute = source.module.partition(":")
    try:
        plugin = importlib.import_module(module)
        for name in filter(None, attribute.split(".")):
            plugin = getattr(plugin, name)
    except (Exception, SystemExit) as error:
        verb = "exits the process when imported" if isinstance(error, SystemExit) else ""
        reason = f"'{source.module}' {verb or 'cannot be imported'}: {one_line(error)}"
        raise _broken(reason, error, _requirement_hint(source)) from error
    return plugin


def _requirement_hint(source: Source) -> str:
    if not source.requires:
        return f"reinstall {source.dist}, or set TEGULA_DISABLE={source.name}"
    from tegula import __version__

    return f"{source.dist} requires {', '.join(source.requires)}; installed is tegula {__version__}"


def _register(source: Source, plugin: Any, manager: pluggy.PluginManager) -> None:
    hooks = {h.name for h in _hook_callers(manager)}
    for name in dir(plugin):
        if manager.parse_hookimpl_opts(plugin, name) is not None and name not in hooks:
            raise Rejected(
                State.BROKEN,
                f"there is no hook '{name}'{nearest(name, hooks)}",
                f"hooks are: {', '.join(sorted(hooks))}",
            )
    try:
        manager.register(plugin, name=source.name)
    except Exception as error:  # a hook implementation with arguments that the hook lacks
        raise _broken(one_line(error), error) from error


def _hook_callers(manager: pluggy.PluginManager) -> list[pluggy.HookCaller]:
    return [h for h in vars(manager.hook).values() if isinstance(h, pluggy.HookCaller)]


def _unregister(plugin: Any, manager: pluggy.PluginManager) -> None:
    # Registration is not atomic: a plugin that failed half way still sits in the manager.
    if manager.is_registered(plugin):
        manager.unregister(plugin)


def _one_spec(source: Source, specs: list[Any]) -> BackendSpec:
    if len(specs) != 1 or not isinstance(specs[0], BackendSpec):
        given = ", ".join(type(spec).__name__ for spec in specs) or "nothing"
        raise Rejected(
            State.BROKEN, f"tegula_backends() has to return exactly one BackendSpec, not {given}"
        )
    spec = specs[0]
    if spec.name != source.name:
        raise Rejected(
            State.BROKEN,
            f"the entry point is called '{source.name}' and its backend '{spec.name}'",
            f"give both one name in {source.dist}",
        )
    return spec


def _check_versions(source: Source, spec: BackendSpec) -> None:
    if not (API_MIN <= spec.api <= API and spec.api[0] == API[0]):
        wanting = "tegula" if spec.api > API else source.dist
        raise Rejected(
            State.INCOMPATIBLE,
            f"written for plugin API {_dotted(spec.api)}; "
            f"this tegula serves {_dotted(API_MIN)} to {_dotted(API)}",
            f"upgrade {wanting}",
        )
    oldest, newest = spec.ir
    if not oldest <= IR_VERSION <= newest:
        wanting = "tegula" if oldest > IR_VERSION else source.dist
        raise Rejected(
            State.INCOMPATIBLE,
            f"reads IR {_dotted(oldest)} to {_dotted(newest)}; "
            f"this tegula writes IR {_dotted(IR_VERSION)}",
            f"upgrade {wanting}",
        )
    unknown = spec.requires - CORE_FEATURES
    if unknown:
        raise Rejected(
            State.INCOMPATIBLE,
            f"requires {', '.join(sorted(unknown))}, which this tegula does not have",
            "upgrade tegula",
        )


def _dotted(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))


def _broken(reason: str, error: BaseException, hint: str = "") -> Rejected:
    return Rejected(State.BROKEN, reason, hint, "".join(traceback.format_exception(error)))


def one_line(error: BaseException) -> str:
    """`ValueError: message`, on one line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
