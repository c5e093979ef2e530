"""The compilation (or debugging session) in which host code runs on a kernel's behalf.

Methods of aggregates are ordinary Python. While a kernel calls them, operators on tensors and
functions of the language take their meaning from the visitor that is active here.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any


class _Active(threading.local):
    visitor: Any = None
    target: Any = None


_ACTIVE = _Active()


def active() -> Any:
    """The visitor that gives operators their meaning now; None outside of kernels."""
    return _ACTIVE.visitor


@contextlib.contextmanager
def activated(visitor: Any) -> Iterator[None]:
    """Let operators and functions of the language work through `visitor` for a while."""
    saved, _ACTIVE.visitor = _ACTIVE.visitor, visitor
    try:
        yield
    finally:
        _ACTIVE.visitor = saved


def compiled_for() -> Any:
    """The target that this thread compiles a kernel for; None if it compiles none."""
    return _ACTIVE.target


@contextlib.contextmanager
def compiling_for(target: Any) -> Iterator[None]:
    """Let host code that runs at compile time know the target."""
    saved, _ACTIVE.target = _ACTIVE.target, target
    try:
        yield
    finally:
        _ACTIVE.target = saved
