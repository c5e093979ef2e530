"""Knobs: attributes of groups that are backed by environment variables."""

from __future__ import annotations

import functools
import glob
import importlib
import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Self, TypeVar

from tegula.compat.triton import environment

T = TypeVar("T")

_TRUE = ("1", "true", "on", "y", "yes")


class env_base(Generic[T]):
    """One knob: what was assigned, else the environment's text, else the default."""

    def __init__(self, key: str, default: Any = None) -> None:
        self.key = key
        self.default = default
        self.name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def parse(self, text: str) -> Any:
        """The value that a text in the environment means."""
        return text

    def get(self) -> Any:
        """The value without regard to assignments."""
        text = os.environ.get(self.key)
        if text is None:
            return self.default() if callable(self.default) else self.default
        return self.parse(text)

    def __get__(self, owner: Any, kind: type | None = None) -> Any:
        if owner is None:
            return self
        if self.name in owner.__dict__:
            return owner.__dict__[self.name]
        return self.get()

    def __set__(self, owner: Any, value: Any) -> None:
        owner.__dict__[self.name] = value
        text = to_text(value)
        if propagates() and text is not NotImplemented:
            if text is None:
                os.environ.pop(self.key, None)
            else:
                os.environ[self.key] = text
        if text is not NotImplemented:
            environment.changed(self.key, text)

    def __delete__(self, owner: Any) -> None:
        owner.__dict__.pop(self.name, None)
        environment.changed(self.key, os.environ.get(self.key))


def propagates() -> bool:
    """Whether assignments also set environment variables, so that child processes see them."""
    from tegula.compat.triton import knobs

    return knobs.propagate_env


def to_text(value: Any) -> Any:
    """A value as environment variables write it; NotImplemented if they cannot."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, type):
        return f"{value.__module__}:{value.__name__}"
    return NotImplemented


class env_str(env_base[str]):
    """A text."""


class env_opt_str(env_base[str | None]):
    """A text or None."""


class env_bool(env_base[bool]):
    """A truth value."""

    def __init__(self, key: str, default: bool = False) -> None:
        super().__init__(key, default)

    def parse(self, text: str) -> bool:
        return text.strip().lower() in _TRUE


class env_opt_bool(env_bool):
    """A truth value or None."""

    def __init__(self, key: str, default: Any = None) -> None:
        super().__init__(key, default)


class env_int(env_base[int]):
    """An int."""

    def parse(self, text: str) -> int:
        try:
            return int(text)
        except ValueError:
            raise RuntimeError(f"Unable to use {self.key}={text}: expected int") from None


class env_class(env_base[type | None]):
    """A class, written `module:name`."""

    def __init__(self, key: str, kind: str = "") -> None:
        super().__init__(key)
        self.kind = kind

    def parse(self, text: str) -> Any:
        module, _, name = text.partition(":")
        found = getattr(importlib.import_module(module), name, None)
        if not isinstance(found, type):
            raise RuntimeError(f"Unable to use {text}: it names no class")
        return found


@dataclass(frozen=True)
class Tool:
    """A program of a vendor's toolkit."""

    path: str
    version: str
    """The release that it says it is of, as `13.0`."""

    @staticmethod
    @functools.cache
    def at(path: str) -> Tool | None:
        """The program at a path, if there is one that says its release."""
        try:
            said = subprocess.run([path, "--version"], capture_output=True, text=True, check=True)
        except (OSError, subprocess.SubprocessError):
            return None
        found = re.search(r"release (\d+\.\d+)", said.stdout)
        return Tool(path, found[1]) if found else None


class env_tool(env_base[Tool]):
    """A program by its path; by default that of its name in PATH or in the vendor's wheels."""

    def __init__(self, binary: str) -> None:
        super().__init__(f"TRITON_{binary.upper().replace('-', '_')}_PATH", self._installed)
        self.binary = binary

    def _installed(self) -> Tool:
        found = shutil.which(self.binary) or next(self._in_wheels(), None)
        return self.parse(found or self.binary)

    def _in_wheels(self) -> Iterator[str]:
        spec = importlib.util.find_spec("nvidia")
        for root in (spec.submodule_search_locations or ()) if spec is not None else ():
            yield from sorted(glob.glob(os.path.join(root, "*", "bin", self.binary)), reverse=True)

    def parse(self, text: str) -> Tool:
        tool = Tool.at(text)
        if tool is None:
            raise RuntimeError(f"Cannot find {self.binary}")
        return tool

    def __get__(self, owner: Any, kind: type | None = None) -> Any:
        value = super().__get__(owner, kind)
        return self.parse(value) if isinstance(value, str) else value


class base_knobs:
    """A group of knobs. Attributes that are no knobs (hooks) are kept and copied as they are."""

    hooks: ClassVar[tuple[str, ...]] = ()

    @property
    def knob_descriptors(self) -> dict[str, env_base[Any]]:
        """The knobs by name."""
        return {n: v for n, v in vars(type(self)).items() if isinstance(v, env_base)}

    @property
    def knobs(self) -> dict[str, Any]:
        """The values by name."""
        return {name: getattr(self, name) for name in self.knob_descriptors}

    def changed(self) -> None:
        """Called after attributes that are no knobs may have changed."""

    def copy(self) -> Self:
        """A group with the same assignments."""
        new = type(self)()
        new.__dict__.update(self.__dict__)
        return new

    def reset(self) -> Self:
        """Forget assignments."""
        for name in self.knob_descriptors:
            if name in self.__dict__:
                delattr(self, name)
        return self

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Undo, at the end of a `with` block, what was assigned in it."""
        keys = {k.key for k in self.knob_descriptors.values()}
        texts = {key: os.environ.get(key) for key in keys}
        values = dict(self.__dict__)
        try:
            yield
        finally:
            self.__dict__.clear()
            self.__dict__.update(values)
            for key, text in texts.items():
                if text is None:
                    os.environ.pop(key, None)
                else:
                    os.environ[key] = text
            for name, knob in self.knob_descriptors.items():
                environment.changed(knob.key, to_text(getattr(self, name)))
            self.changed()


class HookChain:
    """Functions that are called one after another; `changed` is told when there are others."""

    def __init__(self, reversed: bool = False, changed: Callable[[], None] = lambda: None) -> None:
        self.calls: list[Callable[..., Any]] = []
        self.reversed = reversed
        self.changed = changed

    def add(self, function: Callable[..., Any]) -> None:
        """Call it too, once."""
        if function not in self.calls:
            self.calls.append(function)
            self.changed()

    def remove(self, function: Callable[..., Any]) -> None:
        """Call it no more."""
        if function in self.calls:
            self.calls.remove(function)
            self.changed()

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        for call in self.calls[::-1] if self.reversed else self.calls:
            call(*args, **kwargs)

    def __len__(self) -> int:
        return len(self.calls)
