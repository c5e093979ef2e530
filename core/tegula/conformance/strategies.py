"""Random tile programs as a Hypothesis strategy."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tegula.conformance.programs import FEATURES, Program, ProgramMaker


@st.composite
def programs(draw: Any, features: frozenset[str] = FEATURES, size: int = 14) -> Program:
    """Random tile programs; failures shrink to few steps."""

    def choose(n: int) -> int:
        return int(draw(st.integers(0, n - 1))) if n > 1 else 0

    return ProgramMaker(choose, features, size).make()
