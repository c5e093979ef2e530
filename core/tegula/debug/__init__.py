"""Stepping through kernels: with `TEGULA_DEBUGGER=1`, launches run a kernel's own Python on the
interpreter, statement by statement, one program after the other.

`breakpoint()` in a kernel, and breakpoints that a debugger sets in its file, stop there; variables
show as numpy arrays. Every operation means what the compiled code means: it goes through the same
promotion rules, and through the `evaluate` of the same IR ops.
"""

from __future__ import annotations

from .session import run_kernel

__all__ = ["run_kernel"]
