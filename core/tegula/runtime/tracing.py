"""Compilers of host programs that follow Python into every call."""

from __future__ import annotations

import contextlib
import sys

_RULES = "torch._dynamo.trace_rules"
_DONE = "_tegula_is_left_out"


def keep_out() -> None:
    """Have `torch.compile` run launches as they are: what it would trace, and fail to, is our own
    Python.
    """
    rules = sys.modules.get(_RULES)
    if rules is None or _DONE in rules.__dict__:
        return
    rules.__dict__[_DONE] = True
    from tegula.plugin.registry import registry

    backends = {type(b.driver).__module__.partition(".")[0] for b in registry.usable()}
    with contextlib.suppress(Exception):  # another torch may have other rules
        for name in sorted({"tegula", *backends}):
            rules.__dict__["add"](name)
