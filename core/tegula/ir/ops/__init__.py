"""The operations of tile IR, one declaration each, by topic."""

from ..opdef import OPS
from . import arith, control, debug, memory, reduce, shape

__all__ = ["OPS", "arith", "control", "debug", "memory", "reduce", "shape"]
