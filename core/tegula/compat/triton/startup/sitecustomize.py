"""Run by Python when it starts, if this folder is in PYTHONPATH: `import triton` will mean Tegula.

Nothing of Tegula is imported before a program asks for triton. A `sitecustomize` that stands
behind this folder is run as well.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterable
from importlib.abc import MetaPathFinder
from importlib.machinery import PathFinder
from typing import Any


class Waiting(MetaPathFinder):
    """Installs the alias as soon as triton, or its version, is asked for."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        if fullname.partition(".")[0] != "triton":
            return None
        return self.installed().find_spec(fullname, path, target)

    def find_distributions(self, context: Any) -> Iterable[Any]:
        """What `importlib.metadata.version("triton")` asks."""
        if getattr(context, "name", None) != "triton":
            return iter(())
        return self.installed().find_distributions(context)

    def installed(self) -> Any:
        """The finder of the alias, in place of this one."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        from tegula.compat import triton

        triton.install()
        return triton._finder


def _run_the_next() -> None:
    """Run the `sitecustomize` that this one hides."""
    here = os.path.dirname(os.path.abspath(__file__))
    others = [p for p in sys.path if os.path.abspath(p or os.curdir) != here]
    spec = PathFinder.find_spec("sitecustomize", others)
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


sys.meta_path.insert(0, Waiting())
_run_the_next()
