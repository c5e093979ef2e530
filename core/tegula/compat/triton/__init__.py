"""Triton programs, unchanged: `import triton` means Tegula.

    import tegula.compat.triton
    tegula.compat.triton.install()
    import triton, triton.language as tl         # Tegula's

or, without touching the program, `python -m tegula.compat.triton script.py [arguments]`.
"""

from __future__ import annotations

import os
import sys

from tegula.compat.triton.finder import AliasDistribution, AliasFinder
from tegula.compat.triton.table import FOREIGN_OPTIONS, VERSION

__all__ = ["VERSION", "install", "installed", "uninstall"]

_finder = AliasFinder()


def installed() -> bool:
    """Whether `import triton` means Tegula in this process."""
    return _finder in sys.meta_path


def install() -> None:
    """Make `import triton`, and every module below it, mean Tegula in this process.

    Environment variables of Triton that have a counterpart, `TRITON_INTERPRET` for example, are
    heeded. Raises ImportError if another `triton` has already been imported.
    """
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
    rules.lax_constants = True
    environment.adopt(os.environ)
    variants.foreign_options |= FOREIGN_OPTIONS
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

    errors.restate = errors.unchanged
    rules.lax_constants = False
    sys.meta_path.remove(_finder)
    variants.foreign_options -= FOREIGN_OPTIONS
    dtypes.home = "tegula.language"
    listeners.disconnect()
    for name in [n for n in sys.modules if n == "triton" or n.startswith("triton.")]:
        del sys.modules[name]
