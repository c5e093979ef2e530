"""Parameters of a kernel as a launch sees them: the declaration, and what specialises."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from tegula.errors import nearest
from tegula.frontend.function import Param

if TYPE_CHECKING:
    from tegula.ir.types import Type

_PLAIN_INT = (int, "int")


@dataclass(frozen=True)
class KernelParam(Param):
    """One parameter of a kernel."""

    do_not_specialize: bool = False
    do_not_specialize_on_alignment: bool = False

    @property
    def annotation_type(self) -> Type | None:
        """The IR type the annotation fixes. Plain `int` names no width and fixes nothing."""
        return None if self.annotation is None else self._annotation_type

    @functools.cached_property
    def _annotation_type(self) -> Type | None:
        annotation: Any = self.annotation
        if isinstance(annotation, str):
            annotation = annotation.strip("\"'")  # a string, once more under deferred annotations
        if annotation in _PLAIN_INT or self.is_constexpr:
            return None
        from tegula.language.dtypes import type_of_annotation

        if annotation is float or annotation is bool:
            annotation = "fp32" if annotation is float else "int1"
        return type_of_annotation(annotation)

    @property
    def specialize_value(self) -> bool:
        """Whether an int 1 becomes a constant."""
        return not self.do_not_specialize

    @property
    def specialize_divisible(self) -> bool:
        """Whether divisibility of an int by 16 is compiled in."""
        return not (self.do_not_specialize or self.do_not_specialize_on_alignment)

    @property
    def specialize_alignment(self) -> bool:
        """Whether the alignment of an array is compiled in."""
        return self.specialize_divisible


def kernel_params(
    kernel: str,
    declared: Iterable[Param],
    do_not_specialize: Iterable[str | int],
    do_not_specialize_on_alignment: Iterable[str | int],
) -> tuple[KernelParam, ...]:
    """The declared parameters with what the decorator says about them, by name or number."""
    params = tuple(declared)
    names = [p.name for p in params]
    off = _named(kernel, "do_not_specialize", do_not_specialize, names)
    unaligned = _named(
        kernel, "do_not_specialize_on_alignment", do_not_specialize_on_alignment, names
    )
    out = []
    for param in params:
        declared_fields: dict[str, Any] = {f.name: getattr(param, f.name) for f in fields(Param)}
        out.append(
            KernelParam(
                **declared_fields,
                do_not_specialize=param.name in off,
                do_not_specialize_on_alignment=param.name in unaligned,
            )
        )
    return tuple(out)


def _named(
    kernel: str, option: str, given: Iterable[str | int], names: list[str]
) -> frozenset[str]:
    found = set()
    for item in (given,) if isinstance(given, str | int) else given:
        if isinstance(item, int) and -len(names) <= item < len(names):
            found.add(names[item])
        elif item in names:
            found.add(str(item))
        else:
            raise ValueError(
                f"{option} of kernel `{kernel}` lists {item!r}, which is none of its parameters "
                f"({', '.join(names)}){nearest(str(item), names)}"
            )
    return frozenset(found)
