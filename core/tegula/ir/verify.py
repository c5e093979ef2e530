"""The verifier: an op is right if running its inference again gives its types."""

from __future__ import annotations

from .core import Block, Function, Module, Op, Value
from .opdef import REQUIRED, IRError
from .types import Type


class VerifyError(Exception):
    """IR that breaks a rule. Names the function, the op and its source place."""

    def __init__(self, message: str, function: Function, op: Op | None = None) -> None:
        where = f"@{function.name}" + (f", {op.name}" if op else "")
        place = f" at {op.loc}" if op is not None and op.loc is not None else ""
        super().__init__(f"{where}{place}: {message}")
        self.function, self.op = function, op


def verify(module: Module) -> None:
    """Check every function of the module. Raises VerifyError."""
    for f in module.functions.values():
        _Verifier(module, f).run()


class _Verifier:
    def __init__(self, module: Module, function: Function) -> None:
        self.module, self.function = module, function
        self.visible: set[Value] = set()
        self.defined: set[Value] = set()

    def run(self) -> None:
        f = self.function
        if len(f.arg_attrs) != len(f.body.args):
            raise VerifyError("arg_attrs and parameters differ in number", f)
        if f.kind == "kernel" and f.result_types:
            raise VerifyError("a kernel returns nothing", f)
        self.block(f.body, ("return",), f.result_types)

    def fail(self, message: str, op: Op | None = None) -> VerifyError:
        return VerifyError(message, self.function, op)

    def define(self, value: Value, op: Op | None = None) -> None:
        if value in self.defined:
            raise self.fail("a value is defined twice", op)
        self.defined.add(value)
        self.visible.add(value)

    def block(
        self, block: Block, ends: tuple[str, ...], returns: tuple[Type, ...] | None = None
    ) -> None:
        added = set(block.args)
        for a in block.args:
            self.define(a)
        if not block.ops or block.ops[-1].name not in ends:
            raise self.fail(f"a block must end in {' or '.join(ends)}")
        for op in block.ops:
            if op.opdef.terminator and op is not block.ops[-1]:
                raise self.fail("a terminator must be the last op of its block", op)
            self.op(op)
            added.update(op.results)
        if returns is not None and [v.type for v in block.terminator.operands] != list(returns):
            raise self.fail(
                f"returns {[v.type for v in block.terminator.operands]}, not {list(returns)}",
                block.terminator,
            )
        self.visible -= added

    def op(self, op: Op) -> None:
        d = op.opdef
        for v in op.operands:
            if v not in self.visible:
                raise self.fail("an operand is not defined before its use", op)
        self.shape_of_op(op)
        for name, region in zip(d.regions, op.regions):
            self.block(region, ("condition",) if name == "before" else ("yield",))
        try:
            types = list(d.infer(op))
        except IRError as e:
            raise self.fail(str(e), op) from None
        if types != [r.type for r in op.results]:
            raise self.fail(f"has result types {[r.type for r in op.results]}, not {types}", op)
        if op.name == "call":
            self.call(op)
        for r in op.results:
            self.define(r, op)

    def shape_of_op(self, op: Op) -> None:
        d = op.opdef
        if sum(op.segments) != len(op.operands) or len(op.segments) != len(d.operands):
            raise self.fail("operand segments do not match the operands", op)
        for o, n in zip(d.operands, op.segments):
            if (o.arity == "one" and n != 1) or (o.arity == "optional" and n > 1):
                raise self.fail(f"the operand {o.name} has {n} values", op)
        if len(op.regions) != len(d.regions):
            raise self.fail(f"has {len(op.regions)} regions, not {len(d.regions)}", op)
        if set(op.attrs) != set(d.attrs) or any(v is REQUIRED for v in op.attrs.values()):
            raise self.fail(f"has attributes {sorted(op.attrs)}, not {sorted(d.attrs)}", op)

    def call(self, op: Op) -> None:
        callee = self.module.functions.get(op.attrs["callee"])
        if callee is None or callee.kind != "func":
            raise self.fail(f"calls @{op.attrs['callee']}, which is no func of the module", op)
        if [v.type for v in op.operands] != [a.type for a in callee.body.args]:
            raise self.fail(f"passes {[v.type for v in op.operands]} to @{callee.name}", op)
        if [r.type for r in op.results] != list(callee.result_types):
            raise self.fail(f"expects other results than @{callee.name} returns", op)
