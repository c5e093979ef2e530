"""`triton.compile` and what it takes and gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tegula.compat.triton.errors import (
    CompilationError,
    CompileTimeAssertionFailure,
    UnsupportedLanguageConstruct,
)
from tegula.runtime.compiled import CompiledKernel

__all__ = [
    "ASTSource",
    "AttrsDescriptor",
    "CompilationError",
    "CompileTimeAssertionFailure",
    "CompiledKernel",
    "GPUTarget",
    "LazyDict",
    "UnsupportedLanguageConstruct",
    "compile",
]


@dataclass(frozen=True)
class GPUTarget:
    """A target: backend, architecture, and threads of a warp (1 where there are none)."""

    backend: str
    arch: Any
    warp_size: int


@dataclass(frozen=True)
class AttrsDescriptor:
    """Which arguments, by number, are divisible by 16 and which equal 1."""

    divisible_by_16: tuple[int, ...] = ()
    equal_to_1: tuple[int, ...] = ()


class ASTSource:
    """A kernel with the types of its arguments: `signature` maps names to `"*fp32"`, `"i32"` or
    `"constexpr"`; `constexprs` maps names, or paths of numbers, to values; `attrs` maps paths of
    numbers to lists like `[["tt.divisibility", 16]]`.
    """

    def __init__(
        self,
        fn: Any,
        signature: Mapping[str, str],
        constexprs: Mapping[Any, Any] | None = None,
        attrs: Any = None,
    ) -> None:
        self.fn = fn
        self.ext = "tir"
        self.name = fn.fn.__name__
        self.signature = dict(signature)
        self.constants: dict[str, Any] = {}
        for key, value in (constexprs or {}).items():
            if isinstance(key, tuple):
                (key,) = key  # members of tuples are constants of the whole tuple
            self.constants[fn.arg_names[key] if isinstance(key, int) else key] = value
        self.attrs = attrs or {}

    def hash(self) -> str:
        """Differs where the compiled code may differ."""
        import hashlib

        parts = (self.fn.cache_key, self.signature, self.constants, self.attrs)
        return hashlib.sha256(repr(parts).encode()).hexdigest()

    def divisible(self) -> set[str]:
        """Names of the arguments that 16 divides."""
        if isinstance(self.attrs, AttrsDescriptor):
            return {self.fn.arg_names[i] for i in self.attrs.divisible_by_16}
        return {
            self.fn.arg_names[path[0]]
            for path, marks in self.attrs.items()
            if any(mark[0] == "tt.divisibility" for mark in marks)
        }


class LazyDict:
    """A mapping to which parts are added as functions, called when something is read."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        self.data = dict(data)
        self.extras: list[tuple[Callable[..., Mapping[str, Any]], tuple[Any, ...]]] = []

    def add(self, function: Callable[..., Mapping[str, Any]], args: tuple[Any, ...]) -> None:
        """Add what `function(*args)` gives."""
        self.extras.append((function, args))

    def get(self) -> dict[str, Any]:
        """All of it."""
        for function, args in self.extras:
            self.data.update(function(*args))
        self.extras.clear()
        return self.data

    def __getitem__(self, name: str) -> Any:
        return self.get()[name]


def compile(
    src: ASTSource,
    target: GPUTarget | None = None,
    options: Mapping[str, Any] | None = None,
    **_: Any,
) -> CompiledKernel:
    """Compile a kernel for argument types, without arguments, for the device of the moment or for
    another target of an installed backend, which needs no device.
    """
    from tegula.compat.triton.kernels import type_argument

    if not isinstance(src, ASTSource):
        raise TypeError(f"a kernel as ASTSource is compiled, not {type(src).__name__}")
    device = _device_of(target)
    divisible = src.divisible()
    named: dict[str, Any] = {}
    for param in src.fn.params:
        if param.name in src.constants:
            named[param.name] = src.constants[param.name]
        elif src.signature.get(param.name, "constexpr") != "constexpr":
            named[param.name] = type_argument(src.signature[param.name], param.name in divisible)
    return src.fn.warmup(**named, grid=(1,), **dict(options or {}), device=device)


def _device_of(target: GPUTarget | None) -> Any:
    """What a launch is given as `device=` to be compiled for a target, or for the device of the
    moment.
    """
    from tegula.compat.triton import driver
    from tegula.compat.triton.target_info import gpu_target
    from tegula.plugin.registry import registry
    from tegula.plugin.select import DeviceId, TargetSelection

    active, arches = driver.active.get_current_target(), []
    here = driver.active.selection()
    if target is None or (active.backend, active.arch) == (target.backend, target.arch):
        return here.id
    for backend in registry.usable():
        for known in backend.compiler.targets():
            found = gpu_target(known)
            if found.backend != target.backend:
                continue
            if found.arch == target.arch:
                return TargetSelection(backend, DeviceId(backend.name), "target=", known)
            arches.append(str(found.arch))
    if active.backend == target.backend and not isinstance(active.arch, int):
        return here.id  # the one there is; programs name others by numbers
    if arches:
        raise RuntimeError(
            f"backend '{target.backend}' has no target {target.arch!r}; it has {', '.join(arches)}"
        )
    raise RuntimeError(
        f"no backend '{target.backend}' is installed; installed: {', '.join(_known_backends())}"
    )


def _known_backends() -> list[str]:
    from tegula.plugin.registry import registry

    return sorted(backend.name for backend in registry.usable())


def make_backend(target: GPUTarget) -> Any:
    """The backend of Tegula with that name."""
    from tegula.plugin.registry import registry

    return registry.backend(target.backend)
