"""What compiled code depends on besides its own arguments, and keys for caches.

A key changes when the text of a kernel changes, or of anything it calls, or the value of a
captured constant. Values are looked at anew for every key; texts and syntax trees are kept.
"""

from __future__ import annotations

import enum
import functools
import hashlib
import keyword
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from types import CodeType, FunctionType, ModuleType
from typing import Any

from tegula.ir.types import Descriptor, DType, Pointer, Tile
from tegula.language.aggregates import HostFunction
from tegula.language.builtin import Builtin, ConstexprFunction
from tegula.language.dtypes import dtype
from tegula.language.values import constexpr

from .function import EMPTY, DeviceFunction, is_library, unwrap
from .globals import Captured, captured
from .names import dotted, dotted_in_tree, words

Path = tuple[str, ...]
"""A dotted name: `("tl", "load")`."""

_MISSING = object()


def references(function: DeviceFunction) -> tuple[Path, ...]:
    """Dotted names in a function that may lead outside of it: `("tl", "load")`, `("BLOCK",)`; found
    once.
    """
    found = function.__dict__.get("_frontend_references")
    if found is None:
        source = function.source
        names = dotted_in_tree(source.tree) if source.code is None else dotted(source.code)
        code = function.fn.__code__
        # Another text has other variables; that parameters stay the same is all that is known.
        local = code.co_varnames[: code.co_argcount] if source.replaced else code.co_varnames
        outer = names.difference(local, keyword.kwlist)
        paths = [tuple(name.split(".")) for name in sorted(outer)]
        found = tuple(p for p in paths if p[0] not in local and p[0].isidentifier())
        function.__dict__["_frontend_references"] = found
    return found


def _uses(
    function: DeviceFunction, *, inside: bool = True
) -> Iterator[tuple[Captured, Path, Any]]:
    """What the names in a function refer to now, as `resolve` has it.

    Where a module itself is used, as a value of a variable for example, whatever it has under a
    word of the function's text counts as used. Names of the language stand for their module alone,
    once, if what is inside does not matter.
    """
    names = captured(function.fn)
    told: set[str] = set()
    for path in references(function):
        if not inside and path[0] not in told:
            root = resolve(names, path[:1])
            if isinstance(root, ModuleType) and _is_language(root):
                told.add(path[0])
                yield names, path[:1], root
        if path[0] in told:
            continue
        value = resolve(names, path)
        if value is _MISSING:
            continue
        yield names, path, value
        if isinstance(value, ModuleType) and not _is_language(value):
            yield from _uses_of_module(function, names, path, value)


def _uses_of_module(
    function: DeviceFunction, names: Captured, path: Path, module: ModuleType
) -> Iterator[tuple[Captured, Path, Any]]:
    for word in sorted(words(function.source.raw).intersection(vars(module))):
        value = vars(module)[word]
        if len(path) < MAX_DEPTH:
            yield names, (*path, word), value
            if isinstance(value, ModuleType) and not _is_language(value):
                yield from _uses_of_module(function, names, (*path, word), value)


MAX_DEPTH = 4
"""Parts of a name in modules that are used as values: packages may contain each other."""


def _is_language(module: ModuleType) -> bool:
    """Whether a module is Tegula's own: what it has changes with the core's files only."""
    return module.__name__.partition(".")[0] == "tegula"


def resolve(captured: Captured, path: Path) -> Any:
    """What a dotted name refers to now, as far as it goes through modules; `_MISSING` if it refers
    to nothing.
    """
    root = path[0]
    value = captured.get(root, _MISSING)
    if value is _MISSING:
        value = captured.module.get(root, _MISSING)
    for name in path[1:]:
        if not isinstance(value, (ModuleType, type)):
            break
        value = getattr(value, name, _MISSING)
    return value


class _Keys:
    """One computation of a key: functions in the order in which they are reached."""

    def __init__(self) -> None:
        self.seen: dict[int, int] = {}
        self.parts: list[str] = []

    def function(self, function: DeviceFunction) -> str:
        """A reference to a function; its own text is added the first time."""
        if is_library(function):
            return f"lib:{function.fn.__module__}.{function.fn.__qualname__}"
        index = self.seen.get(id(function))
        if index is not None:
            return f"fn:{index}"
        index = self.seen[id(function)] = len(self.seen)
        source = function.source
        uses = [
            f"{'.'.join(path)}={self.value(value, strict=False)}"
            for _, path, value in _uses(function)
        ]
        defaults = [
            f"{p.name}={self.value(p.default, strict=False)}"
            for p in function.params
            if getattr(p, "default", EMPTY) is not EMPTY and getattr(p, "has_default", True)
        ]
        self.parts.append(
            f"[{index}]{function.fn.__qualname__}@{source.first_line}:{function.noinline}\n{source.raw}\n"
            + "\n".join(uses + defaults)
        )
        return f"fn:{index}"

    def host(self, fn: FunctionType) -> str:
        """A host function that runs at compile time: its code, and what that refers to."""
        index = self.seen.get(id(fn))
        if index is not None:
            return f"host:{index}"
        index = self.seen[id(fn)] = len(self.seen)
        words = sorted(set(_names_of(fn.__code__)))
        names = captured(fn)
        uses = [self.value((fn.__defaults__, fn.__kwdefaults__), strict=False)]
        for name in sorted({*words, *names}):
            value = resolve(names, (name,))
            if not isinstance(value, ModuleType):
                if value is not _MISSING:
                    uses.append(f"{name}={self.value(value, strict=False)}")
            elif not _is_language(value):
                # Functions of other modules are libraries as a rule, and large.
                uses += [f"{name}.{word}={self.value(vars(value)[word], strict=False)}"
                         for word in words if _is_constant(vars(value).get(word))]  # fmt: skip
        self.parts.append(f"[{index}]{_code_key(fn.__code__)}\n" + "\n".join(uses))
        return f"host:{index}"

    def value(self, value: Any, strict: bool) -> str:
        """A stable text for a value."""
        if type(value) is Builtin:  # most of what kernels name
            return f"builtin:{value.__name__}"
        device = unwrap(value)
        if device is not None:
            return self.function(device)
        if value is None or (
            isinstance(value, (bool, int, str, bytes, float, complex))
            and not isinstance(value, enum.Enum)
        ):
            return f"{type(value).__name__}:{value!r}"
        if isinstance(value, enum.Enum):
            return f"enum:{type(value).__qualname__}.{value.name}"
        if isinstance(value, (tuple, list)):
            kind = type(value).__qualname__
            return f"{kind}({','.join(self.value(v, strict) for v in value)})"
        if isinstance(value, dict):
            items = [f"{self.value(k, strict)}:{self.value(v, strict)}" for k, v in value.items()]
            return f"dict({','.join(items)})"
        if isinstance(value, ModuleType):
            return f"module:{value.__name__}"
        if isinstance(value, type):
            return self.type(value)
        return self.other(value, strict)

    def type(self, value: type) -> str:
        """A class: an aggregate by its fields and methods, another one by its name."""
        name = f"type:{value.__module__}.{value.__qualname__}"
        fields = getattr(value, "__aggregate_fields__", None)
        if fields is None or id(value) in self.seen:
            return name
        index = self.seen[id(value)] = len(self.seen)
        uses = [f"{key}:{self.value(kind, strict=False)}" for key, kind in fields.items()]
        for base in value.__mro__[:-1]:
            uses += [
                f"{key}={self.value(_function_of(item), strict=False)}"
                for key, item in vars(base).items()
                if key == "__init__" or not key.startswith("__") or callable(item)
            ]
        self.parts.append(f"[{index}]{name}\n" + "\n".join(uses))
        return f"{name}:{index}"

    def other(self, value: Any, strict: bool) -> str:
        if isinstance(value, constexpr):
            return f"constexpr:{self.value(value.value, strict)}"
        if isinstance(value, dtype):
            return repr(value)
        if isinstance(value, (DType, Pointer, Tile, Descriptor)):
            return f"ir:{value}"
        if isinstance(value, ConstexprFunction) and isinstance(value.fn, FunctionType):
            return self.host(value.fn)
        if isinstance(value, FunctionType):
            return self.host(value)
        if isinstance(value, HostFunction) and isinstance(value.call, FunctionType):
            return self.host(value.call)
        if strict:
            raise TypeError(
                f"a constant of type {type(value).__name__} has no stable text for a cache key"
            )
        return f"{type(value).__module__}.{type(value).__qualname__}:{value!r}"


def _is_constant(value: Any) -> bool:
    """Whether a value is plain data, or device code."""
    if isinstance(value, tuple):
        return all(map(_is_constant, value))
    plain = isinstance(value, (bool, int, float, complex, str, bytes, enum.Enum, constexpr, dtype))
    return plain or isinstance(value, (DeviceFunction, ConstexprFunction))


def _is_aggregate(value: Any) -> bool:
    return isinstance(value, type) and hasattr(value, "__aggregate_fields__")


def _function_of(item: Any) -> Any:
    """What a class body's entry stands for: the function of a static method or initialiser."""
    item = getattr(item, "__func__", item)
    return item.own if getattr(item, "own", None) is not None else item


def _names_of(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names_of(constant)


def _code_key(code: CodeType) -> str:
    constants = [_code_key(c) if isinstance(c, CodeType) else repr(c) for c in code.co_consts]
    return f"{code.co_code.hex()}|{','.join(code.co_names)}|{','.join(constants)}"


def source_key(fn: Any) -> str:
    """Hash of a function's text and of everything it reaches: functions it calls, constants it
    captures.
    """
    function = unwrap(fn)
    if function is None:
        raise TypeError(f"{fn!r} is no device function")
    keys = _Keys()
    root = keys.function(function)
    return _digest(root, *keys.parts)


def constant_key(value: Any) -> str:
    """Text of a compile-time argument for a cache key; TypeError for values that have none.

    Values that compile differently have different texts: 1, 1.0 and True; functions by what they
    reach.
    """
    keys = _Keys()
    text = keys.value(value, strict=True)
    return text if not keys.parts else f"{text}:{_digest(*keys.parts)}"


def _digest(*parts: str) -> str:
    h = hashlib.sha256()
    for part in parts:
        h.update(part.encode())
        h.update(b"\0")
    return h.hexdigest()


@dataclass(frozen=True)
class GlobalsSnapshot:
    """The objects that the names of a kernel, and of what it calls, referred to at one time."""

    entries: tuple[tuple[Any, Path, Any], ...]

    def changed(self) -> list[str]:
        """Names that refer to another object now."""
        return [
            ".".join(path)
            for names, path, value in self.entries
            if resolve(names, path) is not value
        ]


def globals_snapshot(fn: Any) -> GlobalsSnapshot:
    """Remember what the captured names of a kernel refer to, for a cheap check at a launch."""
    root = unwrap(fn)
    if root is None:
        raise TypeError(f"{fn!r} is no device function")
    entries: list[tuple[Any, Path, Any]] = []
    todo: list[DeviceFunction] = [root]
    seen: set[int] = set()
    while todo:
        function = todo.pop()
        if id(function) in seen or is_library(function):
            continue
        seen.add(id(function))
        for names, path, value in _uses(function, inside=False):
            if isinstance(value, ModuleType):
                if len(path) == 1 and _is_language(value):
                    entries.append((names, path, value))
                continue
            device = unwrap(value)
            if device is not None:
                todo.append(device)
                if is_library(device):
                    continue
            for base in getattr(value, "__mro__", ()) if _is_aggregate(value) else ():
                todo += [m for m in map(_function_of, vars(base).values())
                         if isinstance(m, DeviceFunction)]  # fmt: skip
            if getattr(value, "__module__", "") != "builtins":
                entries.append((names, path, value))
    return GlobalsSnapshot(tuple(entries))


@functools.lru_cache(maxsize=1)
def frontend_fingerprint() -> str:
    """Hash of the core's own files (path, size, modification time): code that another version made
    is not reused.
    """
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    parts = [sys.implementation.cache_tag or "", str(sys.version_info[:2])]
    for folder, _, files in sorted(os.walk(root)):
        for name in sorted(files):
            if name.endswith(".py"):
                info = os.stat(os.path.join(folder, name))
                relative = os.path.relpath(os.path.join(folder, name), root)
                parts.append(f"{relative}:{info.st_size}:{info.st_mtime_ns}")
    return _digest(*parts)
