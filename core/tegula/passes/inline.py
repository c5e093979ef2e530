"""Inlining: every function gets the bodies of what it calls."""

from __future__ import annotations

from collections.abc import Sequence
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
        func @twice(%a: i32) -> i32 {
          %1 = add %a, %a : i32
          return [%1]
        }
        kernel @k(%p: ptr<i32>, %x: i32) {
          %1 = call [%x] {callee = "twice"} : i32
          store %p, %1
          return
        }
    After:
        kernel @k(%p: ptr<i32>, %x: i32) {
          %0 = add %x, %x : i32
          store %p, %0
          return
        }
    """

    name = "inline"

    def run(self, module: Module, ctx: PassContext) -> Module:
        if len(module.functions) == 1 and not _calls(next(iter(module.functions.values()))):
            return module
        inliner = _Inliner(module)
        kept = module.kernels or list(module.functions.values())
        after = [inliner.inlined(f) for f in kept]
        before = list(module.functions.values())
        if len(after) == len(before) and all(new is old for new, old in zip(after, before)):
            return module
        return Module(after, module.attrs)


def _calls(function: Function) -> bool:
    return any(op.name == "call" for op in function.body.walk())


class _Inliner:
    """Inlines the calls of each function; every op of a body called is copied once, into place."""

    def __init__(self, module: Module) -> None:
        self.module = module

    def inlined(self, function: Function) -> Function:
        """The function without calls."""
        return _CallSweep(self, function.name).sweep(function) if _calls(function) else function

    def callee(self, call: Op, path: tuple[str, ...]) -> Function:
        """The function called; `path` are the functions that the call is in."""
        name = call.attrs["callee"]
        if name in path:
            chain = " -> ".join((*path[path.index(name) :], name))
            raise RecursionInKernel(
                f"device function '{name}' calls itself ({chain}). Kernels have no call stack: "
                "write the recursion as a loop, or unroll it with constexpr arguments."
            )
        found = self.module.functions.get(name)
        if found is None:
            raise TegulaError(f"the module has no function '{name}' that is called")
        return found


class _CallSweep(Sweep):
    def __init__(self, inliner: _Inliner, name: str) -> None:
        super().__init__()
        self.inliner = inliner
        self.path = (name,)

    def visit(self, op: Op) -> None:
        new = self.current(op)
        if new.opdef.name == "call":
            self.replace(op, _Body(self.inliner, self.path, new).copied(self.out, new.operands))
        else:
            self.keep(op, new)


class _Body(Cloner):
    """Copies the body of what is called; the copied ops know where the call is."""

    def __init__(self, inliner: _Inliner, path: tuple[str, ...], call: Op) -> None:
        super().__init__()
        self.inliner = inliner
        self.callee = inliner.callee(call, path)
        self.path = (*path, self.callee.name)
        self.caller = call.loc
        self.locations: dict[Location, Location] = {}

    def copied(self, out: list[Op], operands: Sequence[Value]) -> tuple[Value, ...]:
        """Copy the body to the end of `out`; returns the values that it returns."""
        body = self.callee.body
        self.map.update(zip(body.args, operands))
        self.out = out
        self.ops(body.ops[:-1])
        return self.values(body.terminator.operands)

    def copy(self, op: Op, operands: Sequence[Value] | None = None) -> Op:
        if op.opdef.name == "call":
            call = Op(op.opdef, (), (), op.attrs, (), (), self.located(op.loc))
            inner = _Body(self.inliner, self.path, call)
            self.map.update(zip(op.results, inner.copied(self.out, self.values(op.operands))))
            return op
        new = super().copy(op, operands)
        new.loc = self.located(op.loc)
        return new

    def located(self, loc: Location | None) -> Location | None:
        """The location, with the call's behind it."""
        if loc is None or self.caller is None:
            return loc or self.caller
        found = self.locations.get(loc)
        if found is None:
            found = self.locations[loc] = called_from(loc, self.caller)
        return found


def called_from(loc: Location, caller: Location) -> Location:
    """The location with a further caller at the end of its chain."""
    outer = caller if loc.caller is None else called_from(loc.caller, caller)
    return loc._replace(caller=outer)
