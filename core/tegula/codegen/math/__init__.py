"""Math functions in tile IR: accurate over the whole range, the same on every machine."""

from .expand import ExpandMath
from .functions import FUNCTIONS, MathFunction

__all__ = ["FUNCTIONS", "ExpandMath", "MathFunction"]
