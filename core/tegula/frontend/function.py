"""A Python function that is written in the kernel language, before anything is compiled."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, Final

from tegula.errors import HostCallError

if TYPE_CHECKING:
    from tegula.ir.types import Type

    from .source import Source

_VARARGS: Final = 0x04
_VARKEYWORDS: Final = 0x08
_ASYNC = 0x80 | 0x200  # a coroutine or an asynchronous generator


class _Empty:
    """Stands for "no default"."""

    def __repr__(self) -> str:
        return "<no default>"


EMPTY: Final = _Empty()


@dataclass(frozen=True)
class Param:
    """One parameter of a device function, as its signature declares it."""

    name: str
    num: int
    kind: str
    """positional, keyword (keyword-only) or varargs."""
    default: Any = EMPTY
    annotation: Any = None

    @property
    def has_default(self) -> bool:
        return self.default is not EMPTY

    @property
    def is_constexpr(self) -> bool:
        """Annotated `constexpr`: the argument is known when the kernel is compiled."""
        return _annotation_is(self.annotation, "constexpr")

    @property
    def is_const(self) -> bool:
        """Annotated `const`: a pointer that is never stored through."""
        return _annotation_is(self.annotation, "const")

    @functools.cached_property
    def annotation_type(self) -> Type | None:
        """The IR type that the annotation fixes (`tl.int64`, `"*fp32"`), if it fixes one."""
        from tegula.language.dtypes import type_of_annotation

        return type_of_annotation(self.annotation)


def _annotation_is(annotation: Any, name: str) -> bool:
    if isinstance(annotation, str):
        return annotation.rsplit(".", 1)[-1].strip() == name
    return isinstance(annotation, type) and annotation.__name__ == name


def parameters(fn: FunctionType) -> tuple[Param, ...]:
    """The parameters of a Python function, read off its code object."""
    code = fn.__code__
    names = code.co_varnames
    count, keywords = code.co_argcount, code.co_kwonlyargcount
    annotations = fn.__annotations__
    defaults = fn.__defaults__ or ()
    first_default = count - len(defaults)
    params = []
    for i in range(count):
        default = defaults[i - first_default] if i >= first_default else EMPTY
        params.append(Param(names[i], i, "positional", default, annotations.get(names[i])))
    if code.co_flags & _VARARGS:
        name = names[count + keywords]
        params.append(Param(name, count, "varargs", EMPTY, annotations.get(name)))
    for name in names[count : count + keywords]:
        default = (fn.__kwdefaults__ or {}).get(name, EMPTY)
        params.append(Param(name, len(params), "keyword", default, annotations.get(name)))
    return tuple(params)


class DeviceFunction:
    """A function in the kernel language: kernels, and what they call.

    Two device functions are equal only if they are one object. Calling one on the host is an
    error; calling it from a kernel compiles it for the arguments at hand.
    """

    fn: Any
    noinline: bool

    def __init__(self, fn: Callable[..., Any], *, noinline: bool = False) -> None:
        if isinstance(fn, FunctionType):
            fn = inspect.unwrap(fn)  # what other decorators add does not run on a device
        if not isinstance(fn, FunctionType):
            raise TypeError(
                f"only a Python function can be compiled, not {type(fn).__name__}; decorate a `def`"
            )
        if fn.__name__ == "<lambda>":
            raise TypeError("a lambda cannot be compiled; write a named function with `def`")
        if fn.__code__.co_flags & _ASYNC:
            raise TypeError(f"`{fn.__name__}` is async; kernels wait for nothing, write `def`")
        if fn.__code__.co_flags & _VARKEYWORDS:
            raise TypeError(
                f"`{fn.__name__}` takes **keywords, which kernels do not have; name each parameter"
            )
        self.fn = fn
        self.noinline = noinline
        functools.update_wrapper(self, fn)

    @property
    def __globals__(self) -> dict[str, Any]:
        return self.fn.__globals__

    @functools.cached_property
    def params(self) -> tuple[Param, ...]:
        """The declared parameters, in order."""
        return parameters(self.fn)

    @functools.cached_property
    def source(self) -> Source:
        """File, line and syntax tree. Raises `SourceError` where Python kept no source."""
        from .source import Source

        return Source.of(self.fn)

    @property
    def src(self) -> str:
        """The source text from `def` on."""
        return self.source.text

    def replace_source(self, text: str) -> None:
        """Compile another text from now on: one `def` with the same parameters."""
        from .source import Source

        self.source = Source.edited(self.source, text)
        for name in [n for n in self.__dict__ if n.startswith("_frontend_")]:
            del self.__dict__[name]

    def _unsafe_update_src(self, text: str) -> None:
        """`replace_source` under the name that generators of kernels know."""
        self.replace_source(text)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        from tegula.language.active import active

        visitor = active()
        if visitor is not None:  # host code that runs on a kernel's behalf
            return visitor.call(self, list(args), kwargs, visitor.at)
        raise HostCallError(
            f"`{self.__name__}` is device code and cannot be called on the host; "  # type: ignore[attr-defined]
            "launch it with kernel[grid](...), or call it from a kernel"
        )

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        """A method of an aggregate in host code that runs on a kernel's behalf; else itself."""
        if instance is None or not hasattr(owner, "__aggregate_fields__"):
            return self
        from tegula.language.active import active

        return self if active() is None else functools.partial(self, instance)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.fn.__module__}.{self.fn.__qualname__}>"


def device_function(fn: Callable[..., Any]) -> DeviceFunction:
    """Mark a library function that is written in the kernel language."""
    return DeviceFunction(fn)


def is_library(function: DeviceFunction) -> bool:
    """True for the language's own functions."""
    module = function.fn.__module__  # None where exec() was given globals without __name__
    return module is not None and module.startswith("tegula.language")


def unwrap(fn: Any) -> DeviceFunction | None:
    """The device function behind decorators that keep the object they wrap in `.fn`; None if there
    is none.
    """
    while not isinstance(fn, DeviceFunction):
        if isinstance(fn, (FunctionType, ModuleType)):  # a module may resolve names lazily
            return None
        inner = getattr(fn, "fn", None)
        if inner is None or inner is fn:
            return None
        fn = inner
    return fn
