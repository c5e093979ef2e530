"""What a kernel can call that is not itself written in the kernel language."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeAlias, TypeVar

from tegula.errors import HostCallError

from .active import active

if TYPE_CHECKING:
    from tegula.frontend.semantic import Semantic

Static: TypeAlias = Any
"""Annotates a parameter that takes compile-time values (beside those annotated int, bool, str)."""

STATIC = frozenset(
    "Static int bool str Sequence[int]".split() + [f"{t} | None" for t in ("int", "bool", "str")]
)

P = ParamSpec("P")
R = TypeVar("R")


class Builtin:
    """A function that emits IR. Its first parameter, the semantic state of the compilation, is
    filled in by the frontend; users see the others."""

    __name__: str

    def __init__(self, emit: Any) -> None:
        self.emit = emit
        functools.update_wrapper(self, emit)

    @functools.cached_property
    def static(self) -> tuple[tuple[bool, ...], bool, frozenset[str]]:
        """Which parameters take compile-time values: by position, for the rest of the positions,
        and by name.
        """
        code, texts = self.emit.__code__, self.emit.__annotations__
        names = code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount]
        places = tuple(texts.get(n) in STATIC for n in code.co_varnames[1 : code.co_argcount])
        rest = False
        if code.co_flags & 0x04:
            rest = texts.get(code.co_varnames[code.co_argcount + code.co_kwonlyargcount]) in STATIC
        return places, rest, frozenset(n for n in names if texts.get(n) in STATIC)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        semantic = kwargs.pop("_semantic", None)  # from a function that emits device code itself
        if semantic is not None:
            return self.emit(semantic, *args, **kwargs)
        visitor = active()
        if visitor is not None:
            return visitor.call_builtin(self, list(args), kwargs)
        raise HostCallError(
            f"`tl.{self.__name__}` emits device code; it is called inside of a @tegula.jit function"
        )

    def __repr__(self) -> str:
        return f"<builtin tl.{self.__name__}>"


def builtin(emit: Callable[Concatenate[Semantic, P], R]) -> Callable[P, R]:
    """Make a function of the language out of one that takes the compilation's state as its first
    parameter.
    """
    return Builtin(emit)


def emit(function: Callable[..., R], s: Semantic, *args: Any, **kwargs: Any) -> R:
    """Call a function of the language from another one."""
    return function.emit(s, *args, **kwargs)  # type: ignore[attr-defined]


class ConstexprFunction:
    """Host Python that kernels run at compile time, on compile-time arguments."""

    __name__: str

    def __init__(self, fn: Callable[..., Any]) -> None:
        self.fn = fn
        functools.update_wrapper(self, fn)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.fn(*args, **kwargs)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else functools.partial(self, instance)


def constexpr_function(fn: Callable[P, R]) -> Callable[P, R]:
    """Let kernels call a host function on compile-time values; the result is a compile-time
    value."""
    return ConstexprFunction(fn)


def must_use_result(given: Any = None) -> Any:
    """Mark a device or constexpr function whose result callers have to use;
    `@must_use_result("why")` says why.
    """

    def mark(fn: Any, why: Any = True) -> Any:
        fn.must_use_result = why
        return fn

    return mark(given) if callable(given) else lambda fn: mark(fn, given or True)
