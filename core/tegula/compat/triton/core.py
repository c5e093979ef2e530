"""Names of `triton.language.core` that programs reach for."""

from __future__ import annotations

from typing import Any

from tegula.language.dtypes import dtype, from_ir
from tegula.language.values import constexpr


def get_int_dtype(bitwidth: int, signed: bool) -> dtype:
    """The integer dtype of a width."""
    from tegula.ir.types import DTYPES

    kind = DTYPES.get(f"{'i' if signed else 'u'}{bitwidth}")
    if kind is None:
        raise ValueError(f"Unsupported bitwidth {bitwidth} and signedness {signed}")
    found: dtype = from_ir(kind)
    return found


def _unwrap_if_constexpr(value: Any) -> Any:
    return value.value if isinstance(value, constexpr) else value


def _constexpr_to_value(value: Any) -> Any:
    return _unwrap_if_constexpr(value)


def __getattr__(name: str) -> Any:
    if name == "_aggregate":
        from tegula import language

        return language.aggregate  # type: ignore[attr-defined]
    raise AttributeError(f"module 'triton.language.core' has no attribute {name!r}")


__all__ = ["_aggregate", "_constexpr_to_value", "_unwrap_if_constexpr", "get_int_dtype"]  # noqa: F822
