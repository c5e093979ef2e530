"""Inline assembly and external functions: capabilities that a target has or has not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tegula.frontend.diagnostics import LanguageError
from tegula.frontend.promotion import name_of
from tegula.ir.types import DType

from .builtin import Static, builtin
from .dtypes import dtype as Dtype
from .values import describe, tensor

if TYPE_CHECKING:
    from tegula.frontend.semantic import Semantic


def _text(x: Any, what: str) -> str:
    if not isinstance(x, str):
        raise LanguageError(f"{what} must be a compile-time text, not {describe(x)}")
    return x


def _elems(s: Semantic, given: Any, what: str) -> list[DType]:
    """The dtypes of the results."""
    names = given if isinstance(given, tuple) else (given,)
    found = [s.dtype(d, f"{what}: dtype") for d in names]
    for elem in found:
        if not isinstance(elem, DType):
            raise LanguageError(f"{what}: results are numbers, not {name_of(elem)}")
    return found  # type: ignore[return-value]


@builtin
def inline_asm_elementwise(
    s: Semantic,
    asm: str,
    constraints: str,
    args: Sequence[Any],
    dtype: Static,
    is_pure: bool,
    pack: int,
) -> Any:
    """Assembly of the target on every element (on `pack` elements at a time). Targets without the
    capability `inline_asm` refuse kernels that use it.
    """
    what = "inline_asm_elementwise"
    given = args if isinstance(args, tuple) else (args,)
    values = [s.to_tensor(a, f"{what}: argument") for a in given]
    tiles = s.broadcast(*values) if values else ()
    if not isinstance(pack, int) or isinstance(pack, bool) or pack < 1:
        raise LanguageError(f"{what}: pack is a positive compile-time integer, not {pack!r}")
    results = s.b.create(
        "inline_asm",
        [t.handle for t in tiles],
        asm=_text(asm, f"{what}: asm"),
        constraints=_text(constraints, f"{what}: constraints"),
        elems=" ".join(t.name for t in _elems(s, dtype, what)),
        pack=pack,
        pure=s.flag(is_pure, f"{what}: is_pure"),
    )
    if not isinstance(dtype, tuple):
        return tensor(results)
    return tuple(tensor(v) for v in (results if len(dtype) > 1 else (results,)))


def extern_elementwise(
    lib_name: str,
    lib_path: str,
    args: Sequence[Any],
    arg_type_symbol_dict: dict[Any, tuple[str, Dtype]],
    is_pure: bool,
    _semantic: Any = None,
) -> Any:
    """A function of a library of the target on every element; the dict gives, for the dtypes of
    the arguments, the function's name and the result's dtype.
    """
    what = "extern_elementwise"
    s = _semantic
    if s is None:
        raise TypeError(f"{what} is called inside of a function under tl.core.extern")
    tiles = s.broadcast(*[s.to_tensor(a, f"{what}: argument") for a in args])
    key = tuple(t.dtype for t in tiles)
    if key not in arg_type_symbol_dict:
        known = ", ".join(str(tuple(map(str, k))) for k in arg_type_symbol_dict)
        raise LanguageError(
            f"{what}: there is no function for {', '.join(map(str, key))}",
            f"there is one for {known}",
        )
    symbol, result = arg_type_symbol_dict[key]
    (elem,) = _elems(s, result, what)
    return tensor(
        s.b.create(
            "extern_call",
            [t.handle for t in tiles],
            symbol=symbol,
            library=lib_name,
            elems=elem.name,
            pure=bool(is_pure),
        )
    )
