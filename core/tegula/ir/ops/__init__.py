"""The operations of tile IR, one declaration each, by topic."""

from . import arith, control, debug, memory, reduce, shape
from ..opdef import OPS

__all__ = ["OPS", "arith", "control", "debug", "memory", "reduce", "shape"]
