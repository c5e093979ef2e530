"""Random tile programs: well typed, in bounds, terminating, and with one right result.

`random_program(seed)` makes one from a number; `tegula.conformance.strategies.programs()` lets
Hypothesis choose, so that failures shrink.
"""

from __future__ import annotations

from tegula.conformance.programs.base import FEATURES, Program, sample
from tegula.conformance.programs.maker import ProgramMaker, random_program
from tegula.conformance.values import storage as storage_of

__all__ = ["FEATURES", "Program", "ProgramMaker", "random_program", "sample", "storage_of"]
