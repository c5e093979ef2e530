"""Rules of the language that are relaxed where other projects' programs are run."""

from __future__ import annotations

lax_constants = False
"""Whether a function may get runtime values for parameters that it annotates `constexpr`."""
