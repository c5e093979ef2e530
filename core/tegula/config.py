"""Settings: every `TEGULA_*` environment variable, typed and documented in one table.

    from tegula.config import config
    config.debug                        # scoped override, value set, environment, default
    config.set(debug=2)                 # for the whole process
    with config.scope(dump="out"):      # for this thread or task only
        ...

The scoped overrides in force are one interned `Settings` object in a context variable, so compiled
launch code can tell with one pointer comparison that nothing has changed since it was bound. `set`
and `refresh` bump `config.generation` for the same reason. The environment is read when a setting
is looked at; after changing `os.environ` in a running process, call `config.refresh()`, because
launches that are already bound do not look again.
"""

from __future__ import annotations

import contextlib
import functools
import os
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, ClassVar

from tegula.errors import ConfigError, ConfigWarning, nearest

PREFIX = "TEGULA_"


@dataclass(frozen=True)
class Knob:
    """One setting: `config.<name>`, or the environment variable `TEGULA_<NAME>`."""

    name: str
    parse: Callable[[str], Any]
    default: Any
    doc: str
    affects_code: bool = False
    """True if two values can give different compiled code; such settings join the cache key."""

    @functools.cached_property
    def env(self) -> str:
        """The environment variable."""
        return PREFIX + self.name.upper()


def flag(text: str) -> bool:
    """The value of a setting that is on or off."""
    value = text.strip().lower()
    if value in ("1", "true", "yes", "on"):
        return True
    if value in ("", "0", "false", "no", "off"):
        return False
    raise ValueError("expected 0 or 1")


def _names(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _count(text: str) -> int:
    value = int(text)
    if value < 0:
        raise ValueError("expected a number that is not negative")
    return value


def _text(text: str) -> str | None:
    return text or None


def _converted(knob: Knob, value: Any) -> Any:
    """A value that a program gave; texts mean what they mean in the environment."""
    if value is None:
        return None
    if isinstance(value, (str, os.PathLike)):
        return knob.parse(os.fspath(value))
    if isinstance(value, (bool, int)) and knob.parse in (flag, _count):
        return knob.parse(str(int(value)))
    if isinstance(value, (list, tuple)) and knob.parse is _names:
        return tuple(value)
    if knob.parse in (flag, _count, _names, _text):
        raise ValueError(f"{type(value).__name__} is no type for it")
    return value


KNOBS: dict[str, Knob] = {
    knob.name: knob
    for knob in (
        Knob("device", _text, None, "device of every launch that names none, such as `cpu`"),
        Knob("backend", _names, (), "backends to consider, in order; others are ignored"),
        Knob("interpret", flag, False, "run every kernel on the numpy interpreter"),
        Knob("debugger", flag, False, "step through kernels on the interpreter with pdb"),
        Knob("debug", _count, 0, "1 target and cache hits, 2 stage times, 3 passes that changed, "
             "4 emitted source, 5 IR at stage borders, 6 IR after each pass, 7 disassembly"),
        Knob("dump", _text, None, "directory that receives the stages of every compilation"),
        Knob("only", _names, (), "kernel names that debug and dump are limited to"),
        Knob("print_after", _names, (), "passes after which the IR is printed"),
        Knob("asserts", flag, False, "keep device assertions in kernels that do not say debug="),
        Knob("dot_precision", _text, None, "how `tl.dot` of f32 shortens its factors where neither "
             "the kernel nor its launch says: `ieee`, `tf32`, ...; unset: as the target does"),
        Knob("fp_fusion", flag, None, "whether products and sums are fused where a launch does "
             "not say; unset: as the target does"),
        Knob("verify", flag, False, "verify the IR after every pass"),
        Knob("cache", flag, True, "use the disk cache"),
        Knob("cache_dir", _text, None, "directory of the disk cache"),
        Knob("cache_readonly_dir", _text, None, "shared cache that is read and never written"),
        Knob("cache_size", _count, 1024, "upper bound of the disk cache in MiB"),
        Knob("cache_tuning", flag, False, "keep what autotuning finds in the disk cache"),
        Knob("print_tuning", flag, False, "print what autotuning finds"),
        Knob("native_launch", flag, True, "launch through generated native code; 0: Python"),
        Knob("num_threads", _count, 0, "threads that run a launch's programs; 0: one per core"),
        Knob("plugin_path", _text, None, "extra backends, as name=module:attribute,..."),
        Knob("disable", _names, (), "distributions or backends that are not loaded"),
        Knob("strict_plugins", flag, False, "raise when a plugin is broken, do not leave it out"),
    )
}  # fmt: skip


class Settings(Mapping[str, Any]):
    """An immutable, interned set of overrides: equal overrides are one object."""

    __slots__ = ("_items",)
    _interned: ClassVar[dict[tuple[tuple[str, Any], ...], Settings]] = {}
    _lock: ClassVar[Any] = threading.Lock()

    _items: dict[str, Any]

    @classmethod
    def of(cls, items: Mapping[str, Any]) -> Settings:
        """The one object with these overrides."""
        key = tuple(sorted(items.items()))
        with cls._lock:
            found = cls._interned.get(key)
            if found is None:
                found = cls._interned[key] = cls()
                found._items = dict(items)
            return found

    def __getitem__(self, name: str) -> Any:
        return self._items[name]

    def __contains__(self, name: object) -> bool:
        return name in self._items

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other

    def __repr__(self) -> str:
        return f"Settings({self._items})"


NO_OVERRIDES = Settings.of({})
OVERRIDES: ContextVar[Settings] = ContextVar("tegula_overrides", default=NO_OVERRIDES)


class Config:
    """Reads settings by attribute; see the module's docstring."""

    def __init__(self) -> None:
        self._set: dict[str, Any] = {}
        self._warned: set[str] = set()
        self._variables = -1
        self._listeners: list[Callable[[], None]] = []

    def __getattr__(self, name: str) -> Any:
        knob = KNOBS.get(name)
        if knob is None:
            raise AttributeError(f"there is no setting {name!r}{nearest(name, KNOBS)}")
        overrides = OVERRIDES.get()
        if overrides is not NO_OVERRIDES and name in overrides:
            return overrides[name]
        if name in self._set:
            return self._set[name]
        text = os.environ.get(knob.env)
        return knob.default if text is None else self._parse(knob, text)

    def _parse(self, knob: Knob, text: str) -> Any:
        try:
            return knob.parse(text)
        except ValueError as error:
            raise ConfigError(
                f"{knob.env}={text!r} cannot be understood ({error}); it is: {knob.doc}"
            ) from None

    def _checked(self, given: Mapping[str, Any]) -> dict[str, Any]:
        out = {}
        for name, value in given.items():
            knob = KNOBS.get(name)
            if knob is None:
                raise ConfigError(f"there is no setting {name!r}{nearest(name, KNOBS)}")
            try:
                out[name] = _converted(knob, value)
            except ValueError as error:
                raise ConfigError(
                    f"setting {name}={value!r} cannot be understood ({error}); it is: {knob.doc}"
                ) from None
        return out

    def set(self, **values: Any) -> None:
        """Set values for the whole process. `None` for a setting returns it to the environment or
        its default.
        """
        for name, value in self._checked(values).items():
            if value is None:
                self._set.pop(name, None)
            else:
                self._set[name] = value
        self.refresh()

    @contextlib.contextmanager
    def scope(self, **values: Any) -> Iterator[None]:
        """Override settings inside a `with` block, for the running thread or task only."""
        merged = {**OVERRIDES.get(), **self._checked(values)}
        token = OVERRIDES.set(Settings.of(merged))
        try:
            yield
        finally:
            OVERRIDES.reset(token)

    def refresh(self) -> None:
        """Make launches that are already bound look at the settings and the environment again."""
        for listener in self._listeners:
            listener()

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call `listener` after every process-wide change."""
        self._listeners.append(listener)

    def check_environment(self) -> None:
        """Warn, once per name, about `TEGULA_*` variables that are no setting; look only where
        variables have come or gone.
        """
        if len(os.environ) == self._variables:
            return
        self._variables = len(os.environ)
        for name in os.environ:
            if name.startswith(PREFIX) and name not in self._warned:
                knob = KNOBS.get(name.removeprefix(PREFIX).lower())
                if knob is not None and knob.env == name:
                    continue
                known = {knob.env for knob in KNOBS.values()}
                self._warned.add(name)
                warnings.warn(
                    f"environment variable {name} is not a setting of Tegula{nearest(name, known)}",
                    ConfigWarning,
                    stacklevel=2,
                )

    def code_settings(self) -> dict[str, Any]:
        """Values of the settings that can change compiled code; they join the cache key."""
        return {name: getattr(self, name) for name, knob in KNOBS.items() if knob.affects_code}


def declare(knob: Knob) -> Knob:
    """Add a setting; backends declare theirs when their plugin module is imported."""
    return KNOBS.setdefault(knob.name, knob)


config = Config()
