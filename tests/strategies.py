"""Random tile programs for tests. They are those of `tegula fuzz`: one generator serves both."""

from __future__ import annotations

from tegula.conformance.programs import (
    FEATURES,
    Program,
    ProgramMaker,
    random_program,
    sample,
    storage_of,
)
from tegula.conformance.strategies import programs

__all__ = [
    "FEATURES",
    "Program",
    "ProgramMaker",
    "programs",
    "random_program",
    "sample",
    "storage_of",
]
