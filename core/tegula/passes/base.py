"""What a pass is: a value with a name, whose fields are its options."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, NamedTuple

from tegula.ir.core import Function, Module
from tegula.ir.printer import format_attr


class PassTiming(NamedTuple):
    """How long a pass took and whether it changed anything."""

    name: str
    seconds: float
    changed: bool


@dataclass
class PassContext:
    """What passes may look at and write down: options, and a record of the run."""

    options: dict[str, Any] = field(default_factory=dict)
    trace: list[Any] | None = None
    """Rules note each application here when it is a list."""
    timings: list[PassTiming] | None = None


@dataclass(frozen=True)
class Pass:
    """Base of passes.  A pass never changes what it is given; the same object means no change."""

    name: ClassVar[str] = ""

    def run(self, module: Module, ctx: PassContext) -> Module:
        """The module after the pass."""
        after = [self.run_function(f, ctx) for f in module.functions.values()]
        if all(new is old for new, old in zip(after, module.functions.values())):
            return module
        return Module(after, module.attrs)

    def run_function(self, function: Function, ctx: PassContext) -> Function:
        """The function after the pass."""
        raise NotImplementedError(f"pass {self.name} handles whole modules")

    def __str__(self) -> str:
        """The pass as pipelines print it, with the options that differ from their defaults."""
        shown = [
            f"{f.name} = {format_attr(getattr(self, f.name))}"
            for f in fields(self)
            if getattr(self, f.name) != f.default
        ]
        return f"{self.name}{{{', '.join(shown)}}}" if shown else self.name
