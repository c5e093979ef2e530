"""Pipelines: lists of passes that print and parse, and the default one."""

from __future__ import annotations

import dataclasses
import importlib
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from tegula.errors import TegulaError, nearest
from tegula.ir.core import Module

from .base import Pass, PassContext, PassTiming

# Name of a pass -> where its class is.  Nothing is imported before a pipeline needs it.
PASSES: dict[str, str] = {
    "inline": "tegula.passes.inline:Inline",
    "canonicalize": "tegula.passes.canonicalize:Canonicalize",
    "cse": "tegula.passes.cse:CommonSubexpressionElimination",
    "dce": "tegula.passes.dce:DeadCodeElimination",
    "licm": "tegula.passes.licm:LoopInvariantCodeMotion",
    "unroll": "tegula.passes.unroll:Unroll",
    "contract": "tegula.passes.contract:Contract",
    "expand-math": "tegula.codegen.math:ExpandMath",
    "expand-collect": "tegula.codegen.collecting:ExpandCollect",
    "expand-float8": "tegula.codegen.float8:ExpandFloat8",
}

DEFAULT = "inline,canonicalize,cse,licm,canonicalize,cse,dce"


class PipelineError(TegulaError, ValueError):
    """A pipeline's text names no such pass or option."""


class Pipeline:
    """Passes in order.  `str` of a pipeline parses to an equal one."""

    def __init__(self, passes: Iterable[Pass]) -> None:
        self.passes = tuple(passes)

    @classmethod
    def parse(cls, text: str, extra: Mapping[str, type[Pass]] | None = None) -> Pipeline:
        """A pipeline from text such as `canonicalize,licm{max_hoist = 8},dce`.

        `extra` adds passes of a backend to the table.  Raises PipelineError.
        """
        return cls([_pass(name, options, extra or {}) for name, options in _items(text)])

    def __str__(self) -> str:
        return ",".join(map(str, self.passes))

    def __repr__(self) -> str:
        return f"Pipeline({str(self)!r})"

    def __iter__(self) -> Iterator[Pass]:
        return iter(self.passes)

    def __len__(self) -> int:
        return len(self.passes)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Pipeline) and self.passes == other.passes

    def __hash__(self) -> int:
        return hash(self.passes)

    def __add__(self, other: Pipeline) -> Pipeline:
        return Pipeline((*self.passes, *other.passes))

    def run(
        self,
        module: Module,
        verify: bool | None = None,
        ctx: PassContext | None = None,
        after: Callable[[Pass, Module], None] | None = None,
    ) -> Module:
        """The module after all passes.

        With the setting `verify` (TEGULA_VERIFY=1) the module is checked before the first pass
        and after each that changed it; `verify=True` also checks that passes leave what they are
        given alone.  `after` is called with each pass and the module it left.
        """
        from tegula.ir.verify import verify as check

        thorough = bool(verify)
        verify = _verify_wanted() if verify is None else verify
        ctx = PassContext() if ctx is None else ctx
        if verify:
            check(module)
        for p in self.passes:
            start = time.perf_counter()
            text = str(module) if thorough else ""
            before, module = module, p.run(module, ctx)
            if ctx.timings is not None:
                spent = time.perf_counter() - start
                ctx.timings.append(PassTiming(p.name, spent, module is not before))
            if thorough and str(before) != text:
                raise AssertionError(f"pass {p} changed the module that it was given")
            if verify and module is not before:
                check(module)
            if after is not None:
                after(p, module)
        return module


@lru_cache(maxsize=1)
def default_pipeline() -> Pipeline:
    """The passes that every kernel goes through before its backend's own."""
    return Pipeline.parse(DEFAULT)


def _verify_wanted() -> bool:
    from tegula.config import config

    return bool(config.verify)


_ITEM = re.compile(r"\s*([A-Za-z][\w-]*)\s*(?:\{([^{}]*)\})?\s*(,|$)")


def _items(text: str) -> Iterator[tuple[str, str]]:
    position = 0
    while position < len(text):
        found = _ITEM.match(text, position)
        if found is None:
            raise PipelineError(
                f"cannot read the pipeline at {text[position:]!r}: expected passes between commas, "
                "such as canonicalize,licm{max_hoist = 8}"
            )
        yield found.group(1), found.group(2) or ""
        position = found.end()


def _pass(name: str, options: str, extra: Mapping[str, type[Pass]]) -> Pass:
    cls = extra.get(name) or _load(name, extra)
    known = {f.name: f for f in dataclasses.fields(cls)}
    given: dict[str, Any] = {}
    for part in filter(None, (p.strip() for p in options.split(","))):
        key, equals, value = (s.strip() for s in part.partition("="))
        if key not in known:
            has = ", ".join(known) or "none"
            raise PipelineError(
                f"pass {name} has no option {key!r} (it has: {has}){nearest(key, known)}"
            )
        given[key] = _value(name, key, value if equals else "true", known[key].default)
    return cls(**given)


def _value(name: str, key: str, text: str, default: Any) -> Any:
    """An option's value, read as what its default is."""
    try:
        if isinstance(default, bool):
            return {"true": True, "1": True, "false": False, "0": False}[text.lower()]
        if isinstance(default, int | float):
            return type(default)(text)
    except (ValueError, KeyError):
        want = type(default).__name__
        raise PipelineError(f"option {key} of pass {name} is {want}, not {text!r}") from None
    return text.strip('"')


def _load(name: str, extra: Mapping[str, type[Pass]]) -> type[Pass]:
    where = PASSES.get(name)
    if where is None:
        known = sorted({*PASSES, *extra})
        raise PipelineError(
            f"there is no pass {name!r} (known: {', '.join(known)}){nearest(name, known)}"
        )
    module, _, attribute = where.partition(":")
    found: type[Pass] = getattr(importlib.import_module(module), attribute)
    return found
