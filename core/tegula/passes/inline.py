"""Inlining: every function gets the bodies of what it calls."""

from __future__ import annotations

from dataclasses import dataclass

from tegula.errors import TegulaError
from tegula.ir.core import Cloner, Function, Module, Op, Value
from tegula.ir.location import Location
from tegula.rewrite import Sweep

from .base import Pass, PassContext


class RecursionInKernel(TegulaError):
    """A device function calls itself, directly or through others."""


@dataclass(frozen=True)
class Inline(Pass):
    """Replace calls by the bodies called; kernels become self-contained and stay alone.

    Before:
        func @twice(%a: i32) -> i32 { %1 = add %a, %a : i32  return [%1] }
        kernel @k(%x: i32) { %1 = call [%x] {callee = "twice"} : i32  ... }
    After:
        kernel @k(%x: i32) { %1 = add %x, %x : i32  ... }
    """

    name = "inline"

    def run(self, module: Module, ctx: PassContext) -> Module:
        if len(module.functions) == 1 and not _calls(next(iter(module.functions.values()))):
            return module
        inliner = _Inliner(module)
        after = [inliner.inlined(name, ()) for name in module.functions]
        if any(f.kind == "kernel" for f in after):
            after = [f for f in after if f.kind == "kernel"]
        before = list(module.functions.values())
        if len(after) == len(before) and all(new is old for new, old in zip(after, before)):
            return module
        return Module(after, module.attrs)


def _calls(function: Function) -> bool:
    return any(op.name == "call" for op in function.body.walk())


class _Inliner:
    """Inlines bottom up, each function once."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.done: dict[str, Function] = {}

    def inlined(self, name: str, path: tuple[str, ...]) -> Function:
        """The function without calls; `path` are the functions being inlined around it."""
        found = self.done.get(name)
        if found is None:
            if name in path:
                chain = " -> ".join((*path[path.index(name) :], name))
                raise RecursionInKernel(
                    f"device function '{name}' calls itself ({chain}). Kernels have no call stack: "
                    "write the recursion as a loop, or unroll it with constexpr arguments."
                )
            function = self.module.functions.get(name)
            if function is None:
                raise TegulaError(f"the module has no function '{name}' that is called")
            found = function
            if _calls(function):
                found = _CallSweep(self, (*path, name)).sweep(function)
            self.done[name] = found
        return found


class _CallSweep(Sweep):
    def __init__(self, inliner: _Inliner, path: tuple[str, ...]) -> None:
        super().__init__()
        self.inliner = inliner
        self.path = path

    def visit(self, op: Op) -> None:
        new = self.current(op)
        if new.name != "call":
            self.keep(op, new)
            return
        callee = self.inliner.inlined(new.attrs["callee"], self.path)
        self.replace(op, self.body(callee, new))

    def body(self, callee: Function, call: Op) -> tuple[Value, ...]:
        """Put out a copy of the callee's body; returns the values that it returns."""
        cloner = _Located(call.loc)
        cloner.map.update(zip(callee.body.args, call.operands))
        cloner.out = self.out
        cloner.ops(callee.body.ops[:-1])
        return cloner.values(callee.body.terminator.operands)


class _Located(Cloner):
    """A cloner that notes where the copied ops were called from."""

    def __init__(self, caller: Location | None) -> None:
        super().__init__()
        self.caller = caller

    def copy(self, op: Op, operands: tuple[Value, ...] | None = None) -> Op:  # type: ignore[override]
        new = super().copy(op, operands)
        if self.caller is not None and new.loc is not None:
            new.loc = called_from(new.loc, self.caller)
        return new


def called_from(loc: Location, caller: Location) -> Location:
    """The location with a further caller at the end of its chain."""
    outer = caller if loc.caller is None else called_from(loc.caller, caller)
    return loc._replace(caller=outer)
