"""Makes a failing case smaller while it keeps failing.

    reduce_case(case, fails)

`fails(case)` says whether a case still shows the fault; what it is asked about is always well
formed, runs on the interpreter, and has one right result: sums of floats are exact in any order.
Where they are not in the case that is given, only what is beyond the order of sums counts as a
difference (`Expected.rule` says how much that is).

Simplifications: a smaller grid, fewer stores, constants or operands in place of results, branches
and loops replaced by what is in them, plainer inputs.
"""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from tegula.conformance.case import Buffer, Case, Expected, Launch
from tegula.conformance.programs.base import OrderOfSums, explained, interpret
from tegula.conformance.values import Rule
from tegula.ir import Block, Cloner, DType, Function, Module, Op, Value, verify
from tegula.ir.builder import make_op
from tegula.ir.opdef import IRError
from tegula.ir.ops import OPS
from tegula.ir.types import Descriptor, Pointer, elem_of
from tegula.ir.verify import VerifyError

Fails = Callable[[Case], bool]
Edit = Callable[[Op, Cloner], "Sequence[Value] | None"]

EFFECTS = frozenset(
    {"store", "desc_store", "atomic_rmw", "atomic_cas", "atomic_store", "print", "assert", "assume"}
)


CANDIDATE_SECONDS = 5.0
"""What the interpreter may take for a candidate: a changed condition can make a loop endless."""


class TookTooLong(Exception):
    """A candidate runs on and on."""


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise TookTooLong in the main thread when the time is over."""
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "SIGALRM"):
        yield
        return

    def over(number: int, frame: object) -> None:
        raise TookTooLong

    saved = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, saved)


class Reducer:
    """Reduces one case."""

    def __init__(self, case: Case, fails: Fails, seconds: float = 120.0) -> None:
        self.case = case
        self.fails = fails
        self.free_sums = order_of_sums_shows(case)
        self.deadline = time.monotonic() + seconds
        self.tried = 0

    def run(self) -> Case:
        """The smallest case found before the time is over."""
        self._accept(self._inlined())
        while True:
            before = str(self.case.launch.module)
            for stage in (
                self._grid, self._effects, self._regions, self._values, self._inputs,
            ):  # fmt: skip
                if self._late():
                    return self.case
                stage()
            if str(self.case.launch.module) == before:
                return self.case

    def _late(self) -> bool:
        return time.monotonic() > self.deadline

    def _accept(self, candidate: Case | None) -> bool:
        """Take a candidate if it is well formed, runs and still fails."""
        if candidate is None or self._late():
            return False
        self.tried += 1
        checked = completed(candidate, self.free_sums)
        if checked is None or not self.fails(checked):
            return False
        self.case = checked
        return True

    # -- stages

    def _inlined(self) -> Case:
        from tegula.passes import Pipeline

        module = Pipeline.parse("inline").run(self.case.launch.module)
        return self._with_module(module)

    def _grid(self) -> None:
        launch = self.case.launch
        if launch.grid != (1, 1, 1):
            self._accept(replace(self.case, launch=replace(launch, grid=(1, 1, 1))))

    def _effects(self) -> None:
        """Drop stores and the like: halves first, then one by one."""
        size = max(1, len(self._ops(EFFECTS)) // 2)
        while size:
            start = 0
            while not self._late():
                ops = self._ops(EFFECTS)
                if start >= len(ops):
                    break
                chunk = set(map(id, ops[start : start + size]))
                if not self._accept(self._edited(drop(chunk))):
                    start += size
            size //= 2

    def _regions(self) -> None:
        """Put the inside of a branch or one turn of a loop in its place."""
        for name in ("if", "for", "while"):
            position = 0
            while not self._late():
                ops = self._ops(frozenset({name}))
                if position >= len(ops):
                    break
                tries = [unwrap(id(ops[position]), way) for way in (0, 1)]
                if not any(self._accept(self._edited(edit)) for edit in tries):
                    position += 1

    def _values(self) -> None:
        """Constants or operands in place of results, from the end."""
        position = 0
        while not self._late():
            ops = [o for o in self._ops() if o.results and o.name != "constant"][::-1]
            if position >= len(ops):
                break
            op = ops[position]
            if not any(self._accept(self._edited(edit)) for edit in replacements(op)):
                position += 1

    def _inputs(self) -> None:
        """Plainer contents of buffers, and arguments without a reason."""
        for index, arg in enumerate(self.case.launch.args):
            if self._late():
                return
            if isinstance(arg, Buffer):
                zero = np.zeros_like(arg.data)
                ones = zero + np.ones((), arg.data.dtype)
                line = (np.arange(arg.data.size) % 8).astype(arg.data.dtype)
                plain: list[Any] = [replace(arg, data=d) for d in (zero, ones, line)]
                if any(np.array_equal(arg.data, p.data) for p in plain):
                    continue
            elif arg in (0, 1):
                continue
            else:
                plain = [0, 1]
            for new in plain:
                args = list(self.case.launch.args)
                args[index] = new
                if self._accept(replace(self.case, launch=replace(self.case.launch, args=args))):
                    break

    # -- editing

    def _ops(self, names: frozenset[str] | None = None) -> list[Op]:
        """Ops that may be edited; combine regions stay as they are, to remain associative."""
        (kernel,) = self.case.launch.module.kernels
        return [
            op
            for op in editable(kernel.body)
            if not op.opdef.terminator and (names is None or op.name in names)
        ]

    def _edited(self, edit: Edit) -> Case | None:
        (kernel,) = self.case.launch.module.kernels
        try:
            function = Cloner(edit).function(kernel)
        except (IRError, KeyError, ValueError):
            return None
        return self._with_module(Module([function]))

    def _with_module(self, module: Module) -> Case:
        return replace(self.case, launch=replace(self.case.launch, module=module))


def editable(block: Block) -> Iterator[Op]:
    for op in block.ops:
        yield op
        if op.name not in ("reduce", "scan"):
            for region in op.regions:
                yield from editable(region)


def order_of_sums_shows(case: Case) -> bool:
    """Whether a sum of floats in the case is rounded on the way."""
    try:
        with time_limit(CANDIDATE_SECONDS):
            interpret(case.launch, strict=True)
    except OrderOfSums:
        return True
    except Exception:  # whatever else is wrong with it
        return False
    return False


def completed(case: Case, free_sums: bool = False) -> Case | None:
    """The case without dead code and unused arguments, with what the interpreter says of it.

    None if it has no single right result. With `free_sums` floats may be added up in any order, and
    what that can explain is allowed.
    """
    from tegula.passes import Pipeline

    launch = case.launch
    try:
        verify(launch.module)
        module = Pipeline.parse("dce").run(launch.module)
        (kernel,) = module.kernels
        module, args = without_unused(kernel, launch.args)
        launch = Launch(module, args, launch.grid)
        verify(module)
        with time_limit(CANDIDATE_SECONDS):
            after = interpret(launch, strict=True, free_sums=free_sums)
            allowed = explained(launch, after) if free_sums else {}
    except (VerifyError, IRError):
        return None
    except Exception:  # the simplified program does something that it must not
        return None
    writable = {b.name for b in launch.buffers if b.writable}
    expected = {
        name: Expected(after[name], _at_least(wanted.rule, allowed.get(name, 0.0)))
        for name, wanted in case.expected.items()
        if name in writable
    }
    return replace(case, launch=launch, expected=expected)


def _at_least(rule: Rule, ulp: float) -> Rule:
    return replace(rule, ulp=ulp) if ulp > rule.ulp else rule


def without_unused(kernel: Function, args: list[Any]) -> tuple[Module, list[Any]]:
    used = {v for op in kernel.body.walk() for v in op.operands}
    kept = [i for i, p in enumerate(kernel.body.args) if p in used]
    body = Block([kernel.body.args[i] for i in kept], kernel.body.ops)
    attrs = [kernel.arg_attrs[i] for i in kept]
    function = Function(kernel.name, body, kernel.result_types, kernel.kind, attrs, kernel.attrs)
    return Module([function]), [args[i] for i in kept]


def drop(ids: set[int]) -> Edit:
    """Leave ops out; a result that is used becomes zero."""

    def edit(op: Op, cloner: Cloner) -> Sequence[Value] | None:
        if id(op) not in ids:
            return None
        return [constant(cloner, r) for r in op.results]

    return edit


def constant(cloner: Cloner, like: Value, value: int = 0) -> Value:
    """A constant of the type of a value, in the block being filled."""
    if isinstance(like.type, Descriptor):
        raise IRError("descriptors have no constants")
    elem = elem_of(like.type)
    number: Any = float(value) if isinstance(elem, DType) and elem.is_float else value
    if isinstance(elem, Pointer) and value:
        raise IRError("pointers have no constants but null")
    op = make_op(OPS["constant"], (), {"value": number, "type": like.type})
    cloner.out.append(op)
    return op.result


def replacements(op: Op) -> Iterator[Edit]:
    """Edits that take an op away: constants first, then operands of the same type."""
    target = id(op)
    if all(not isinstance(r.type, Descriptor) for r in op.results):
        pointers = any(isinstance(elem_of(r.type), Pointer) for r in op.results)
        for value in () if pointers else (0, 1):
            yield partial(_as_constants, target, value)
    if len(op.results) == 1:
        for index, operand in enumerate(op.operands):
            if operand.type is op.result.type:
                yield partial(_as_operand, target, index)


def _as_constants(target: int, value: int, op: Op, cloner: Cloner) -> list[Value] | None:
    return [constant(cloner, r, value) for r in op.results] if id(op) == target else None


def _as_operand(target: int, index: int, op: Op, cloner: Cloner) -> list[Value] | None:
    return [cloner.value(op.operands[index])] if id(op) == target else None


def unwrap(target: int, way: int) -> Edit:
    """Replace a branch by one of its blocks, a loop by one turn or by none."""

    def edit(op: Op, cloner: Cloner) -> Sequence[Value] | None:
        if id(op) != target:
            return None
        if op.name == "if":
            return splice(op.regions[way], (), cloner)
        inits = cloner.values(op.group("inits"))
        if op.name == "for":
            if way == 0:
                return inits
            return splice(op.regions[0], (cloner.value(op.operands[0]), *inits), cloner)
        passed = splice(op.regions[0], inits, cloner)[1:]
        if way == 0:
            return passed
        again = splice(op.regions[1], passed, cloner)
        return splice(op.regions[0], again, cloner)[1:]

    return edit


def splice(block: Block, args: Sequence[Value], cloner: Cloner) -> Sequence[Value]:
    """Copy a block's ops to where the cloner is; gives the values that it ends with."""
    cloner.map.update(zip(block.args, args))
    cloner.ops(block.ops[:-1])
    return cloner.values(block.terminator.operands)


def reduce_case(case: Case, fails: Fails, seconds: float = 120.0) -> Case:
    """The case made smaller while `fails` stays true of it."""
    return Reducer(case, fails, seconds).run()
