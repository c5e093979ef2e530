"""Running a kernel's Python eagerly: each operation of the language is evaluated as it is met."""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from tegula.frontend.calls import PYTHON_CALLS, bind_arguments, parameters_of
from tegula.frontend.compile import Compilation
from tegula.frontend.diagnostics import LanguageError
from tegula.frontend.function import DeviceFunction, is_library
from tegula.frontend.globals import PYTHON, PythonFunction, captured
from tegula.frontend.structure import build, handles, spec_of
from tegula.frontend.visitor import Visitor
from tegula.interp.errors import InterpreterError
from tegula.interp.handlers import HANDLERS
from tegula.interp.interpreter import FunctionPlan, Planner, State, evaluated
from tegula.interp.memory import Buffer, Memory
from tegula.ir.builder import Builder
from tegula.ir.core import Block, Op, Value
from tegula.ir.location import Location
from tegula.ir.types import Pointer, numpy_dtype
from tegula.language.active import activated
from tegula.language.aggregates import plain
from tegula.language.builtin import emit
from tegula.language.debug import device_assert
from tegula.language.values import as_constant, is_number, range_spec, tensor

from .rewrite import PREFIX, code_of

MARK = PREFIX + "session"
PACKAGE = __name__.split(".")[0]


class EagerValue(Value):
    """A value of the IR that is known: a numpy array or scalar."""

    __slots__ = ("data",)

    def __init__(self, type: Any, data: Any) -> None:
        super().__init__(type)
        self.data = data


class OpPlan(FunctionPlan):
    """Plans one op alone."""

    def __init__(self, planner: Planner) -> None:
        self.planner = planner
        self.slots = {}
        self.root_of = {}


class EagerBuilder(Builder):
    """Evaluates ops at once; only the blocks of regions are built as IR."""

    def __init__(self, session: Session) -> None:
        super().__init__(Block())
        self.session = session
        self.root = self.block

    def create(self, name: str, *operands: Any, regions: Sequence[Block] = (), **named: Any) -> Any:
        if self.block is not self.root:
            return super().create(name, *operands, regions=regions, **named)
        scratch = Builder(Block(), self.session.here() or self.loc)
        out = scratch.create(name, *operands, regions=regions, **named)
        op = scratch.block.ops[0]
        values = self.session.execute(op)
        for value in values:
            value.owner = op if name == "constant" else None
        return tuple(values) if isinstance(out, tuple) else values[0] if values else None


class EagerVisitor(Visitor):
    """Gives operators and functions their meaning while a kernel's Python runs."""

    def __init__(self, session: Session, compilation: Compilation, kernel: DeviceFunction) -> None:
        self.session = session
        super().__init__(compilation, kernel, session.builder)

    def call_builtin(self, function: Any, args: list[Any], named: dict[str, Any]) -> Any:
        args = [plain(_tuples(a)) for a in args]
        return super().call_builtin(function, args, {n: plain(v) for n, v in named.items()})

    def call_device(
        self, function: DeviceFunction, args: list[Any], named: dict[str, Any], node: Any
    ) -> Any:
        if self.b.block is not self.session.builder.root or is_library(function):
            return super().call_device(function, args, named, node)
        bound = bind_arguments(function, [_tuples(a) for a in args], named)
        return self.session.call(function, bound)

    def binary(self, op: type, a: Any, b: Any) -> Any:
        return super().binary(op, plain(a), plain(b))

    def compare(self, op: type, a: Any, b: Any) -> Any:
        return super().compare(op, plain(a), plain(b))

    def subscript(self, value: Any, index: Any) -> Any:
        return super().subscript(value, as_constant(plain(index)))

    def iterate(self, spec: range_spec) -> Iterator[Any]:
        """The turns of a loop over a range."""
        values, t = self.bounds(spec)
        start, stop, step = (int(data_of(v)) for v in values)
        kind = numpy_dtype(t).type
        for i in range(start, stop, step):
            yield i if spec.static else tensor(EagerValue(t, kind(i)))


class Session:
    """One launch of a kernel under the debugger."""

    def __init__(
        self, kernel: DeviceFunction, options: Mapping[str, Any], memory: Memory,
        output: Callable[[str], None],
    ) -> None:  # fmt: skip
        self.kernel = kernel
        self.builder = EagerBuilder(self)
        self.compilation = Compilation(options)
        self.visitor = EagerVisitor(self, self.compilation, kernel)
        self.state = State(kernel.fn.__name__, memory, output)
        self.natives: dict[DeviceFunction, Any] = {}
        compilation = self.compilation

        class Functions(SimpleNamespace):
            @property
            def functions(self) -> dict[str, Any]:
                return {f.name: f for f in compilation.functions}

        self.planner = Planner(Functions())  # type: ignore[arg-type]

    # ---- ops

    def execute(self, op: Op) -> list[EagerValue]:
        """Evaluate one op now."""
        plan = OpPlan(self.planner)
        try:
            step = HANDLERS.get(op.name, evaluated)(plan, op)
            env: list[Any] = [None] * (len(plan.slots) + 1)
            env[0] = self.state
            for value, slot in plan.slots.items():
                if isinstance(value, EagerValue):
                    env[slot] = value.data
            with np.errstate(all="ignore"):
                if op.name == "constant" or not op.opdef.terminator:
                    step(env)
        except InterpreterError as error:
            error.loc = error.loc or op.loc
            error.kernel = error.kernel or self.state.kernel
            error.program = error.program or self.state.pid
            raise
        return [EagerValue(r.type, env[plan.slots[r]]) for r in op.results]

    def here(self) -> Location | None:
        """The line of the kernel that is running."""
        frame: Any = sys._getframe(2)
        while frame is not None:
            if MARK in frame.f_globals:
                return Location(frame.f_code.co_filename, frame.f_lineno, 0)
            frame = frame.f_back
        return None

    # ---- functions

    def native(self, function: DeviceFunction) -> Any:
        """The function as Python that can be called and stepped through."""
        found = self.natives.get(function)
        if found is None:
            names = captured(function.fn)
            space = {n: _visible(v) for n, v in (*names.module.items(), *names.items())}
            for name in PYTHON:
                if isinstance(PYTHON[name], PythonFunction) and name != "breakpoint":
                    space.setdefault(name, Python(self, name))
            helpers = Helpers(self.visitor)
            for name in dir(helpers):
                if not name.startswith("_"):
                    space[PREFIX + name] = getattr(helpers, name)
            space[MARK] = self
            space.setdefault("breakpoint", stop)
            exec(code_of(function.source), space)
            found = self.natives[function] = space[function.source.tree.name]
        return found

    def call(self, function: DeviceFunction, bound: Mapping[str, Any]) -> Any:
        """Run a function of the kernel language on bound arguments."""
        positional: list[Any] = []
        named: dict[str, Any] = {}
        for p in parameters_of(function):
            if p.kind == "keyword":
                named[p.name] = bound[p.name]
            elif p.kind == "varargs":
                positional += bound[p.name]
            else:
                positional.append(bound[p.name])
        return plain(self.native(function)(*positional, **named))

    def arguments(
        self,
        types: Mapping[str, Any],
        constants: Mapping[str, Any],
        values: Sequence[Any],
    ) -> dict[str, Any]:
        """The kernel's arguments as it sees them."""
        params = self.builder.root.args
        bound = {
            p.name: self.compilation.argument(self.visitor, p, types, constants, {}, [])
            for p in parameters_of(self.kernel)
        }
        known = {p: _scalar(p, v) for p, v in zip(params, values, strict=True)}
        out = {}
        for name, value in bound.items():
            spec = spec_of(value)
            parts = [h if isinstance(h, EagerValue) else EagerValue(h.type, known[h])
                     for h in handles(self.visitor.s, value, spec)]  # fmt: skip
            out[name] = build(spec, iter(parts))
        return out


class Python(PythonFunction):
    """One of Python's functions, with the meaning it has in kernels."""

    def __init__(self, session: Session, name: str) -> None:
        super().__init__(name)
        self.session = session

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        given = [plain(_tuples(a)) for a in args]
        return PYTHON_CALLS[self.__name__](self.session.visitor, given, kwargs)


class Helpers:
    """What rewritten statements call."""

    def __init__(self, visitor: EagerVisitor) -> None:
        self._visitor = visitor

    def typed(self, value: Any) -> Any:
        return self._visitor.typed(plain(_tuples(value)))

    def constant(self, value: Any) -> Any:
        return as_constant(plain(_tuples(value)))

    def logical(self, op: str, *operands: Callable[[], Any]) -> Any:
        result: Any = op == "and"
        for operand in operands:
            value = as_constant(plain(operand()))
            if isinstance(result, tensor):
                result = self._visitor.s.logical(op, result, value)
            elif not isinstance(value, tensor) and bool(value) != (op == "and"):
                return value
            else:
                result = value
        return result

    def negate(self, value: Any) -> Any:
        value = as_constant(plain(value))
        return self._visitor.s.logical_not(value) if isinstance(value, tensor) else not value

    def contains(self, value: Any, sequence: Any) -> Any:
        return self._visitor.contains(plain(value), plain(sequence))

    def chain(self, *parts: Any) -> Any:
        result: Any = True
        for part in parts:
            if isinstance(result, tensor) or isinstance(part, tensor):
                result = self._visitor.s.logical("and", result, part)
            else:
                result = result and part
        return result

    def attribute(self, value: Any, name: str) -> Any:
        value = as_constant(value)
        if name not in ("type", "value"):
            number = is_number(value) and not hasattr(value, name)
            return getattr(self._visitor.s.to_tensor(value) if number else value, name)
        return self._visitor.attribute(value, name, self._visitor.source.tree)

    def sequence(self, value: Any) -> Any:
        value = list(value) if not isinstance(value, (range_spec, tuple, list, dict)) else value
        return self._visitor.sequence(value, "a comprehension")

    def check(self, cond: Any, message: Any) -> None:
        if isinstance(as_constant(cond), tensor):
            emit(device_assert, self._visitor.s, cond, message)
        elif not as_constant(cond):
            raise AssertionError(message)


def stop(*args: Any, **kwargs: Any) -> None:
    """`breakpoint()` in a kernel: pdb, which steps over what lies between kernels."""
    if sys.breakpointhook is not sys.__breakpointhook__ or os.environ.get("PYTHONBREAKPOINT"):
        sys.breakpointhook(*args, **kwargs)
        return
    import pdb

    class KernelPdb(pdb.Pdb):
        def stop_here(self, frame: Any) -> bool:
            inside = MARK in frame.f_globals and not frame.f_code.co_name.startswith("<")
            return inside and super().stop_here(frame)

        def get_stack(self, frame: Any, traceback: Any) -> Any:
            stack, index = super().get_stack(frame, traceback)
            shown = [entry for i, entry in enumerate(stack) if i == index or _of_program(entry[0])]
            return shown, shown.index(stack[index])

    KernelPdb().set_trace(sys._getframe(1))


def _of_program(frame: Any) -> bool:
    """Whether a frame runs a kernel, or Python outside of this package."""
    return MARK in frame.f_globals or frame.f_globals.get("__name__", "").split(".")[0] != PACKAGE


def data_of(value: Value) -> Any:
    """The number or array behind a value."""
    if not isinstance(value, EagerValue):
        raise LanguageError("a value of a region is only known while the region runs")
    return value.data


def _tuples(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _visible(value: Any) -> Any:
    return plain(value)


def _scalar(param: Value, given: Any) -> Any:
    if isinstance(param.type, Pointer):
        return np.uint64(given or 0)
    return np.asarray(given).astype(numpy_dtype(param.type))[()]  # type: ignore[arg-type]


def run_kernel(
    kernel: DeviceFunction,
    types: Mapping[str, Any],
    constants: Mapping[str, Any],
    options: Mapping[str, Any],
    grid: tuple[int, int, int],
    values: Sequence[Any],
    buffers: Sequence[Buffer],
    output: Callable[[str], None] | None = None,
) -> None:
    """Run every program of a grid in turn. `types` and `constants` are those that the kernel is
    compiled with; `values` are its flat arguments, pointers as addresses inside of `buffers`.
    """
    memory = Memory(list(buffers), not buffers)
    session = Session(kernel, options, memory, output or (lambda line: print(line)))
    with activated(session.visitor):
        bound = session.arguments(types, constants, values)
        session.state.grid = grid
        gx, gy, gz = grid
        for z, y, x in itertools.product(range(gz), range(gy), range(gx)):
            session.state.pid = (x, y, z)
            session.call(kernel, bound)
