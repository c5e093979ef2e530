"""Triton programs, unchanged: `import triton` means Tegula.

    import tegula.compat.triton
    tegula.compat.triton.install()
    import triton, triton.language as tl         # Tegula's

or, without touching the program, `python -m tegula.compat.triton script.py [arguments]`, which
holds for the Python processes that it starts as well, as `install(children=True)` does.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

from tegula.compat.triton.finder import AliasDistribution, AliasFinder
from tegula.compat.triton.table import FOREIGN_OPTIONS, VERSION

__all__ = ["STARTUP", "VERSION", "install", "installed", "uninstall"]

STARTUP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "startup")
"""A folder: processes that have it in their PYTHONPATH have the alias from their start."""

_finder = AliasFinder()


def installed() -> bool:
    """Whether `import triton` means Tegula in this process."""
    return _finder in sys.meta_path


def install(*, children: bool = False) -> None:
    """Make `import triton`, and every module below it, mean Tegula in this process; with `children`
    in the Python processes that it starts, too.

    Environment variables of Triton that have a counterpart, `TRITON_INTERPRET` for example, are
    heeded. Raises ImportError if another `triton` has already been imported.
    """
    if children:
        _set_path(lambda path: path if STARTUP in path else [STARTUP, *path])
    if installed():
        return
    other = sys.modules.get("triton")
    if other is not None:
        raise ImportError(
            f"another `triton` is already imported, from {getattr(other, '__file__', '?')}; call "
            "tegula.compat.triton.install() before anything imports it"
        )
    sys.meta_path.insert(0, _finder)
    from tegula import errors
    from tegula.compat.triton import environment, listeners
    from tegula.compat.triton.errors import restate
    from tegula.frontend import rules
    from tegula.language import dtypes
    from tegula.runtime import variants

    errors.restate = restate
    rules.lax_constants = rules.any_member = True
    rules.shown = _type_with_shape
    environment.adopt(os.environ)
    variants.foreign_options |= FOREIGN_OPTIONS
    variants.asserts_everywhere = True
    dtypes.home = "triton.language"
    listeners.connect()


def uninstall() -> None:
    """Undo `install`; modules that programs have already imported stay what they are."""
    if not installed():
        return
    from tegula import errors
    from tegula.compat.triton import listeners
    from tegula.frontend import rules
    from tegula.language import dtypes
    from tegula.runtime import variants

    _set_path(lambda path: [p for p in path if p != STARTUP])
    errors.restate = errors.unchanged
    rules.lax_constants = rules.any_member = False
    rules.shown = None
    sys.meta_path.remove(_finder)
    variants.foreign_options -= FOREIGN_OPTIONS
    variants.asserts_everywhere = False
    dtypes.home = "tegula.language"
    listeners.disconnect()
    for name in [n for n in sys.modules if n == "triton" or n.startswith("triton.")]:
        del sys.modules[name]


def _set_path(change: Callable[[list[str]], list[str]]) -> None:
    """Change the PYTHONPATH that child processes inherit."""
    old = os.environ.get("PYTHONPATH", "")
    new = os.pathsep.join(change(old.split(os.pathsep) if old else []))
    if new != old:
        os.environ["PYTHONPATH"] = new
    if not new:
        os.environ.pop("PYTHONPATH", None)


def _type_with_shape(value: Any) -> str:
    """A tensor as Triton's programs see it printed."""
    sizes = ", ".join(f"constexpr[{n}]" for n in value.ir_shape)
    return f"{value.dtype}[{sizes}]"
