"""Aggregates: classes whose instances group runtime and compile-time values in kernels.

    @tegula.aggregate
    class Accumulator:
        total: tl.tensor
        scale: tl.constexpr = 2

        @tegula.jit
        def add(self, x):
            return tl.aggregate_replace(self, total=self.total + x * self.scale)

Instances never change: `aggregate_replace` makes another one. They go through loops, branches,
calls and returns as the values of their fields do. Methods are functions of the kernel language, or
ordinary Python that runs while the kernel is compiled. Without an `__init__` the class takes its
fields in order, those of base classes first, by position or by name.
"""

from __future__ import annotations

import functools
import inspect
import typing
from typing import Any

from .active import active
from .builtin import ConstexprFunction
from .values import constexpr, describe, is_number, tensor

FIELDS = "__aggregate_fields__"
_OPEN = "_aggregate_open"


def is_aggregate(value: Any) -> bool:
    """True for instances of aggregates."""
    return hasattr(type(value), FIELDS)


def is_aggregate_class(value: Any) -> bool:
    """True for classes made by `aggregate`."""
    return isinstance(value, type) and hasattr(value, FIELDS)


def fields_of(value: Any) -> dict[str, Any]:
    """Names of the fields of an aggregate (class or instance), and what they are annotated with."""
    found: dict[str, Any] = getattr(value, FIELDS)
    return found


def plain(value: Any) -> Any:
    """A value without the wrappers of compile-time values, in tuples too."""
    if isinstance(value, constexpr):
        return value.value
    if isinstance(value, tuple):
        items = [plain(v) for v in value]
        return tuple(items) if type(value) is tuple else type(value)(*items)
    return value


def field_values(value: Any) -> tuple[Any, ...]:
    """The values of an instance's fields, in order."""
    return tuple(plain(value.__dict__[name]) for name in fields_of(value))


def instance(cls: type, values: Any) -> Any:
    """An instance with these field values, its `__init__` left out."""
    new: Any = object.__new__(cls)
    for (name, annotation), value in zip(fields_of(cls).items(), values, strict=True):
        new.__dict__[name] = _field(cls, name, annotation, value)
    return new


def aggregate(cls: type) -> type:
    """Make a class whose instances kernels can hold; see the module's page."""
    for base in cls.__bases__:
        if base is not object and not is_aggregate_class(base):
            raise TypeError(
                f"`{cls.__name__}` inherits from `{base.__name__}`, which is no aggregate. "
                "Aggregates can only inherit from other aggregates"
            )
    init = cls.__dict__.get("__init__")
    setattr(cls, FIELDS, _annotations(cls))
    cls.__init__ = _initialiser(cls, init)  # type: ignore[misc]
    cls.__setattr__ = _refuse  # type: ignore[method-assign, assignment]
    if "__repr__" not in cls.__dict__:
        cls.__repr__ = _show  # type: ignore[method-assign, assignment]
    return cls


class HostFunction:
    """Ordinary Python that a kernel runs while it is compiled, with runtime values too."""

    def __init__(self, fn: Any) -> None:
        self.call = fn
        self.__name__ = getattr(fn, "__name__", repr(fn))
        self.__doc__ = fn.__doc__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.call(*args, **kwargs)


@HostFunction
def aggregate_replace(instance: Any, /, **changes: Any) -> Any:
    """A copy of an aggregate with other values for some of its fields."""
    if not is_aggregate(instance):
        raise TypeError(f"aggregate_replace expects an aggregate instance, not {instance!r}")
    cls = type(instance)
    for name in changes:
        if name not in fields_of(cls):
            known = ", ".join(fields_of(cls))
            raise TypeError(f"`{cls.__name__}` has no field '{name}'; its fields are: {known}")
    new = object.__new__(cls)
    for name, annotation in fields_of(cls).items():
        value = changes.get(name, instance.__dict__[name])
        new.__dict__[name] = _field(cls, name, annotation, value)
    return new


def member(value: Any, name: str) -> Any:
    """What `value.name` is to a kernel, for an aggregate or its class: the value of a field, or a
    method. The second result tells whether a method takes the instance.
    """
    if is_aggregate(value) and name in value.__dict__:
        return plain(value.__dict__[name]), False
    cls = value if isinstance(value, type) else type(value)
    found = inspect.getattr_static(cls, name)
    bound = not isinstance(value, type)
    if isinstance(found, staticmethod):
        return _callable(found.__func__), False
    if isinstance(found, classmethod):
        return _callable(functools.partial(found.__func__, cls)), False
    if isinstance(found, property):
        return HostFunction(found.fget), bound
    return (_callable(found), bound) if callable(found) else (plain(found), False)


def _callable(found: Any) -> Any:
    return HostFunction(found) if isinstance(found, (type(plain), functools.partial)) else found


def takes_semantic(fn: Any) -> bool:
    """True for host functions that ask for the state of the compilation."""
    try:
        return "_semantic" in inspect.signature(fn).parameters
    except (TypeError, ValueError):
        return False


def _annotations(cls: type) -> dict[str, Any]:
    try:
        found = typing.get_type_hints(cls)
    except Exception:  # names of an enclosing function: take what the text says
        found = {}
        for base in reversed(cls.__mro__):
            found.update(inspect.get_annotations(base))
    return {name: _NAMED.get(str(a).rsplit(".", 1)[-1], a) if isinstance(a, str) else a
            for name, a in found.items() if not name.startswith("__")}  # fmt: skip


_NAMED = {"constexpr": constexpr, "tensor": tensor, "tuple": tuple}


def _field(cls: type, name: str, annotation: Any, value: Any) -> Any:
    """A value as a field keeps it."""
    kind = annotation if isinstance(annotation, type) else object
    where = f"field `{name}` of `{cls.__name__}`"
    if kind is constexpr:
        if isinstance(plain(value), tensor):
            raise TypeError(f"{where} is a compile-time value, not {describe(value)}")
        return value if isinstance(value, constexpr) else constexpr(plain(value))
    value = value if isinstance(value, tuple) else plain(value)
    if kind is tensor:
        visitor = active()
        if is_number(value) and visitor is not None:
            return visitor.s.to_tensor(value)
        if not isinstance(value, tensor) and visitor is not None:  # the host holds arrays there
            raise TypeError(f"{where} takes a tensor, not {describe(value)}")
        return value
    if isinstance(value, list):
        value = tuple(value)
    if kind is tuple or isinstance(value, tuple):
        if not isinstance(value, tuple):
            raise TypeError(f"{where} takes a tuple, not {describe(value)}")
        return _kept(value)
    if is_aggregate_class(kind) and not isinstance(value, kind):
        raise TypeError(f"{where} takes a `{kind.__name__}`, not {describe(value)}")
    return value


def _kept(value: Any) -> Any:
    """A member of a tuple: compile-time values are wrapped, as in fields."""
    if isinstance(value, tuple):
        items = [_kept(v) for v in value]
        return tuple(items) if type(value) is tuple else type(value)(*items)
    return constexpr(value) if is_number(value) else value


def _initialiser(cls: type, own: Any) -> Any:
    above = [b.__dict__.get("__init__") for b in cls.__mro__[1:]]
    inherited = next((init for init in above if getattr(init, "own", None)), None)

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        outermost = _OPEN not in self.__dict__
        self.__dict__[_OPEN] = True
        try:
            if own is not None:
                _run(own, self, args, kwargs)
            elif inherited is not None and not inspect.get_annotations(cls):
                inherited(self, *args, **kwargs)
            else:
                _assign_fields(cls, self, args, kwargs)
        finally:
            if outermost:
                del self.__dict__[_OPEN]
        if outermost:
            _finish(self)

    __init__.own = own  # type: ignore[attr-defined]
    return __init__


def _run(own: Any, self: Any, args: Any, kwargs: Any) -> None:
    visitor = active()
    if isinstance(own, ConstexprFunction):
        own = own.fn
    if isinstance(own, type(_run)):
        if takes_semantic(own) and visitor is not None:
            kwargs = {"_semantic": visitor.s, **kwargs}
        own(self, *args, **kwargs)
    else:
        visitor.inline_call(own, [self, *args], "__init__", kwargs)


def _assign_fields(cls: type, self: Any, args: Any, kwargs: Any) -> None:
    names = list(fields_of(cls))
    if len(args) > len(names):
        raise TypeError(f"`{cls.__name__}` takes {len(names)} fields, {len(args)} were given")
    given = dict(zip(names, args, strict=False))
    for name, value in kwargs.items():
        if name in given:
            raise TypeError(f"`{cls.__name__}` got its field `{name}` twice")
        if name not in names:
            raise TypeError(f"`{cls.__name__}` has no field `{name}`; it has {', '.join(names)}")
        given[name] = value
    for name in names:
        if name not in given and hasattr(cls, name):
            given[name] = getattr(cls, name)
        if name not in given:
            raise TypeError(f"`{cls.__name__}` needs a value for its field `{name}`")
        self.__dict__[name] = given[name]


def _finish(self: Any) -> None:
    cls = type(self)
    for name, annotation in fields_of(cls).items():
        if name not in self.__dict__ and hasattr(cls, name):
            self.__dict__[name] = getattr(cls, name)
        if name not in self.__dict__:
            raise TypeError(f"`{cls.__name__}.__init__` leaves the field `{name}` without a value")
        self.__dict__[name] = _field(cls, name, annotation, self.__dict__[name])
    after = getattr(cls, "__post_init__", None)
    if after is not None:
        _run(inspect.getattr_static(cls, "__post_init__"), self, (), {})


def _refuse(self: Any, name: str, value: Any) -> None:
    if _OPEN in self.__dict__:
        if name not in fields_of(self):
            known = ", ".join(fields_of(self))
            raise AttributeError(f"`{type(self).__name__}` has no field '{name}'; it has {known}")
        self.__dict__[name] = value
        return
    raise AttributeError(
        f"cannot assign to field '{name}' on immutable aggregate {type(self).__name__}; make "
        f"another one with aggregate_replace(x, {name}=...)"
    )


def _show(self: Any) -> str:
    shown = ", ".join(f"{n}={self.__dict__.get(n)!r}" for n in fields_of(self))
    return f"{type(self).__name__}({shown})"
