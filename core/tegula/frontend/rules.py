"""Rules of the language that are relaxed where other projects' programs are run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

lax_constants = False
"""Whether a function may get runtime values for parameters that it annotates `constexpr`, and wrap
them in `constexpr(...)`, which then changes nothing.
"""

any_member = False
"""Whether functions may use whatever a module holds, be it a plain number or another project's
object. Its value belongs to the key of the compiled code, like that of every name.
"""

shown: Callable[[Any], str] | None = None
"""What `static_print` prints of a runtime value, if not what errors call it."""
