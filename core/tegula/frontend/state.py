"""Small records that the parts of the visitor exchange."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Poison:
    """The value of a variable that has none here, and why."""

    message: str
    hint: str


UNSET = Poison("this variable has no value", "give it one first")
"""The value of a variable that no statement has set."""


@dataclass(frozen=True)
class Returned:
    """A `return` was reached, with this value."""

    value: Any


@dataclass(frozen=True)
class Bind:
    """A pseudo-statement that gives a target of the source a value: one turn of an unrolled
    loop."""

    target: ast.expr
    value: Any
