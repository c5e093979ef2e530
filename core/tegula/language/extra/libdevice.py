"""The device library: functions of numbers that go beyond the language's own, on every backend.

    from tegula.language.extra import libdevice
    y = libdevice.log1p(x)

docs/libdevice.md lists them with their signatures and errors. Arguments are scalars and tiles of
the types of a signature; other mixtures of types are first promoted as operators do it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tegula.codegen.math.library import LibraryFunction, library
from tegula.errors import nearest
from tegula.frontend.diagnostics import LanguageError
from tegula.ir.types import DType, Pointer, f32, f64
from tegula.language.builtin import Builtin
from tegula.language.values import describe, tensor

if TYPE_CHECKING:
    from tegula.frontend.semantic import Semantic


def _as_builtin(function: LibraryFunction) -> Builtin:
    """The function of the kernel language that a declaration describes."""
    names = [f"arg{i}" for i in range(function.arity)]
    source = f"def {function.name}(s, {', '.join(names)}):\n    return call(s, {', '.join(names)})"

    def call(s: Semantic, *arguments: Any) -> tensor:
        return _emit(function, s, arguments)

    scope: dict[str, Any] = {"call": call}
    exec(source, scope)  # a real parameter list: keywords and errors work as for any function
    emit = scope[function.name]
    emit.__doc__ = function.doc
    emit.__module__ = __name__
    return Builtin(emit)


def _types(values: Sequence[tensor]) -> list[DType | Pointer]:
    return [v.ir_elem for v in values]


def _emit(function: LibraryFunction, s: Semantic, arguments: tuple[Any, ...]) -> tensor:
    values = [s.to_tensor(x, f"{function.name}: argument") for x in arguments]
    signature = function.signature(_types(values))
    if signature is None and len(values) > 1:
        common = values[0]
        for x in arguments[1:]:
            common = s.operands(common, x, function.name)[0]
        values = [s.cast(v, common.ir_elem) for v in values]
        signature = function.signature(_types(values))
    if signature is None:
        raise LanguageError(
            f"{function.name} does not take {', '.join(describe(x) for x in values)}",
            f"it takes {'; '.join(str(t) for t in function.signatures)}; convert first, for "
            "example x.to(tl.float32)",
        )
    handles = [t.handle for t in s.broadcast(*values)]
    widest = f64 if "f64" in s.options.get("dtypes", ("f64",)) else f32
    return tensor(function.expand(signature, handles, s.b.block, s.b.loc, widest))


__all__ = list(library())
globals().update({name: _as_builtin(function) for name, function in library().items()})


def __getattr__(name: str) -> Any:
    raise AttributeError(f"the device library has no {name!r}{nearest(name, __all__)}")
