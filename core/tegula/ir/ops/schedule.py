"""Ops that later stages add when they decide where values live. Programs never contain them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..opdef import REQUIRED, op
from ..types import Type
from .rules import tile_of, types_of

if TYPE_CHECKING:
    from ..core import Op


@op("convert_layout", traits="pure scheduled")
class ConvertLayout:
    """The same tile, held by other threads and registers. out = x."""

    operands = "x"
    attrs = {"layout": REQUIRED}

    def infer(op: Op) -> list[Type]:
        (t,) = types_of(op)
        return [tile_of(t, "convert_layout")]

    def evaluate(op: Op, x: Any) -> Any:
        return x
