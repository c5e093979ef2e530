"""The operations of tile IR, one declaration each, by topic."""

from ..opdef import OPS
from . import arith, collect, control, debug, foreign, memory, reduce, schedule, shape

__all__ = ["OPS", "arith", "collect", "control", "debug", "foreign", "memory", "reduce", "schedule",
           "shape"]
