"""Backends with one planted fault each: the suite has to catch every one of them.

A mutant wraps another backend, the interpreter unless TEGULA_MUTANT_BASE names one. It changes the
IR right before code is made of it, or what compiler, device or kernel do. They are installed by

    TEGULA_PLUGIN_PATH=mutant_swapped=mutants:swapped
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tegula.ir import Block, Builder, Cloner, DType, Function, Module, Op, Value
from tegula.ir.builder import make_op
from tegula.ir.ops import OPS
from tegula.ir.types import Pointer, Tile, elem_of, f16, f32, i1, i32, i64, shape_of, with_elem
from tegula.plugin import (
    Artifact,
    BackendSpec,
    Capabilities,
    Compiler,
    Device,
    Driver,
    Kernel,
    Options,
    Probe,
    Target,
    UnsupportedError,
    hookimpl,
)
from tegula.plugin.records import load_object

MUTANTS: dict[str, Mutant] = {}
Edit = Callable[["Editing", Op], "Sequence[Value] | None"]


def base_name() -> str:
    return os.environ.get("TEGULA_MUTANT_BASE", "interpreter")


def base_spec() -> BackendSpec:
    from tegula.plugin.registry import registry

    return registry.backend(base_name()).spec


class Mutant:
    """One faulty backend. Subclasses override what is wrong."""

    name = ""
    hint = ""
    """Words of test ids of which at least one has to fail."""
    outcomes = frozenset({"fail", "error"})
    values = False
    """Results are wrong, so that the fuzzer has to find it too."""

    def edit(self, e: Editing, op: Op) -> Sequence[Value] | None:
        """New values in place of an op's results; None leaves the op as it is."""
        return None

    def emit(self, base: Compiler, module: Module, target: Target, options: Options) -> Artifact:
        return base.emit(mutated(module, self.edit), target, options)

    def capabilities(self, record: Capabilities) -> Capabilities:
        return record

    def launch(self, kernel: Kernel, run: Callable[[], None], memory: Sequence[Any]) -> None:
        run()

    def free(self, device: Device, address: int) -> None:
        device.free(address)

    def loaded(self, artifact: Artifact) -> None:
        """Called for each artifact that is loaded."""


class Editing:
    """Makes ops in the block that a cloner fills."""

    def __init__(self, cloner: Cloner, users: dict[Value, list[tuple[Op, str]]]) -> None:
        self.cloner = cloner
        self.users = users

    def make(self, name: str, *operands: Any, regions: Sequence[Block] = (), **attrs: Any) -> Value:
        op = make_op(OPS[name], operands, attrs, regions)
        self.cloner.out.append(op)
        return op.results[0] if op.results else None  # type: ignore[return-value]

    def constant(self, value: Any, t: Any) -> Value:
        number = float(value) if elem_of(t).is_float else int(value)  # type: ignore[union-attr]
        return self.make("constant", value=number, type=t)

    def again(self, op: Op, *operands: Value, **attrs: Any) -> list[Value]:
        """The op with other operands or attributes."""
        given = operands or self.cloner.values(op.operands)
        new = Op(op.opdef, given, op.segments, {**op.attrs, **attrs}, op.regions, (), op.loc)
        if op.regions:
            new.regions = tuple(self.cloner.block(r) for r in op.regions)
        from tegula.ir.builder import set_results

        set_results(new, op.opdef.infer(new))
        self.cloner.out.append(new)
        return list(new.results)

    def values(self, op: Op) -> tuple[Value, ...]:
        return self.cloner.values(op.operands)


def mutated(module: Module, edit: Edit) -> Module:
    """The module with every op offered to an edit."""
    functions = []
    for function in module.functions.values():
        users: dict[Value, list[tuple[Op, str]]] = {}
        for op in function.body.walk():
            for d in op.opdef.operands:
                for value in op.group(d.name):
                    users.setdefault(value, []).append((op, d.name))

        def hook(op: Op, cloner: Cloner, users: Any = users) -> Sequence[Value] | None:
            return edit(Editing(cloner, users), op)

        functions.append(Cloner(hook).function(function))
    return Module(functions, module.attrs)


# -------------------------------------------------------------------------------------------------
# The plugin around a mutant


class _Compiler(Compiler):
    mutant: Mutant

    def __init__(self) -> None:
        self.base: Compiler = load_object(base_spec().compiler)()

    def targets(self) -> Sequence[Target]:
        return self.base.targets()

    def capabilities(self, target: Target) -> Capabilities:
        return self.mutant.capabilities(self.base.capabilities(target))

    def options(self, target: Target, given: Any) -> Options:
        return self.base.options(target, given)

    def pipeline(self, target: Target, options: Options) -> Any:
        return self.base.pipeline(target, options)

    def emit(self, module: Module, target: Target, options: Options) -> Artifact:
        return self.mutant.emit(self.base, module, target, options)

    def fingerprint(self) -> str:
        return f"mutant 1, {self.base.fingerprint()}"


class _Driver(Driver):
    mutant: Mutant

    @classmethod
    def probe(cls) -> Probe:
        path = base_spec().driver
        assert path is not None
        return load_object(path).probe()

    def open(self, index: int) -> Device:
        path = base_spec().driver
        assert path is not None
        return _Device(load_object(path)().open(index), self.mutant)


class _Device(Device):
    def __init__(self, base: Device, mutant: Mutant) -> None:
        self.base, self.mutant, self.info = base, mutant, base.info

    def alloc(self, nbytes: int) -> int:
        return self.base.alloc(nbytes)

    def free(self, address: int) -> None:
        self.mutant.free(self.base, address)

    def copy(self, dst: int, src: int, nbytes: int, *, stream: int = 0) -> None:
        self.base.copy(dst, src, nbytes, stream=stream)

    def load(self, artifact: Artifact) -> Kernel:
        self.mutant.loaded(artifact)
        return _Kernel(self.base.load(artifact), artifact, self.mutant)

    def synchronize(self, stream: int = 0) -> None:
        self.base.synchronize(stream)


class _Kernel(Kernel):
    def __init__(self, base: Kernel, artifact: Artifact, mutant: Mutant) -> None:
        self.base, self.artifact, self.mutant = base, artifact, mutant

    def launch(self, grid: Any, args: Any, *, stream: int = 0, memory: Any = ()) -> None:
        self.mutant.launch(
            self, lambda: self.base.launch(grid, args, stream=stream, memory=memory), memory
        )


class Plugin:
    """What the registry loads for a mutant."""

    def __init__(self, mutant: Mutant) -> None:
        self.name = mutant.name

    @hookimpl
    def tegula_backends(self) -> list[BackendSpec]:
        return [
            BackendSpec(
                name=f"mutant_{self.name}",
                api=(0, 1),
                ir=((0, 1), (0, 1)),
                compiler=f"mutants:{self.name}_compiler",
                driver=f"mutants:{self.name}_driver",
                kind="cpu",
                priority=-200,
                summary="a backend with a planted fault",
            )
        ]


def plant(cls: type[Mutant]) -> type[Mutant]:
    """Register a mutant under its class's name and make its plugin."""
    mutant = cls()
    cls.name = "".join("_" + c.lower() if c.isupper() else c for c in cls.__name__).lstrip("_")
    MUTANTS[cls.name] = mutant
    globals()[cls.name] = Plugin(mutant)
    for suffix, kind in (("compiler", _Compiler), ("driver", _Driver)):
        globals()[f"{cls.name}_{suffix}"] = type(kind.__name__, (kind,), {"mutant": mutant})
    return cls


def dtype_of(value: Value) -> DType:
    elem = elem_of(value.type)
    return elem.elem if isinstance(elem, Pointer) else elem


# -------------------------------------------------------------------------------------------------
# Wrong code


@plant
class OffByOneMask(Mutant):
    """`offset < n` lets one element too many through, where the comparison is a mask."""

    hint = "memory.copy arith.add.f32"
    values = True

    def edit(self, e: Editing, op: Op) -> Any:
        if op.name == "cmp" and op.attrs["pred"] == "lt" and self.is_mask(e, op.result):
            return e.again(op, pred="le")
        return None

    def is_mask(self, e: Editing, value: Value, depth: int = 3) -> bool:
        for user, name in e.users.get(value, ()):
            if name == "mask":
                return True
            if depth and user.name in ("and", "broadcast", "expand_dims"):
                return self.is_mask(e, user.result, depth - 1)
        return False


@plant
class Swapped(Mutant):
    """b - a in place of a - b."""

    hint = "arith.sub"
    values = True

    def edit(self, e: Editing, op: Op) -> Any:
        return e.again(op, *e.values(op)[::-1]) if op.name == "sub" else None


@plant
class WrongRounding(Mutant):
    """f32 to f16 cuts instead of rounding."""

    hint = "cast.f32.f16"
    values = True

    def edit(self, e: Editing, op: Op) -> Any:
        if op.name == "cast" and op.attrs["to"] is f16 and dtype_of(op.operands[0]) is f32:
            return e.again(op, rounding="rtz")
        return None


@plant
class LostLastStore(Mutant):
    """The last element of a tile is not stored."""

    hint = "memory.copy shape.splat"
    values = True

    def edit(self, e: Editing, op: Op) -> Any:
        shape = shape_of(op.operands[0].type) if op.name == "store" else ()
        if len(shape) != 1 or shape[0] < 2:
            return None
        pointer, value, *rest = e.values(op)
        line = e.make("arange", start=0, end=shape[0])
        last = e.constant(shape[0] - 1, line.type)
        mask = e.make("cmp", line, last, pred="lt")
        mask = e.make("and", mask, rest[0]) if rest else mask
        e.make("store", pointer, value, mask)
        return []


@plant
class NanRule(Mutant):
    """min propagates NaN where it has to ignore it."""

    hint = "arith.min"
    values = True

    def edit(self, e: Editing, op: Op) -> Any:
        if op.name == "min" and op.attrs["nan"] == "ignore":
            return e.again(op, nan="propagate")
        return None


@plant
class NonAtomicAdd(Mutant):
    """An atomic addition that is a load, an addition and a store."""

    hint = "atomic.add atomic.histogram"
    values = True

    def edit(self, e: Editing, op: Op) -> Any:
        if op.name != "atomic_rmw" or op.attrs["kind"] != "add":
            return None
        pointer, value, *mask = e.values(op)
        old = e.make("load", pointer, *mask)
        e.make("store", pointer, e.make("add", old, value), *mask)
        return [old]


@plant
class IgnoredOther(Mutant):
    """A masked load gives 0 where it has to give `other`."""

    hint = "memory.masked"
    values = True

    def edit(self, e: Editing, op: Op) -> Any:
        if op.name == "load" and op.operand("other") is not None:
            pointer, mask, _ = e.values(op)
            return [e.make("load", pointer, mask)]
        return None


@plant
class LogicalShift(Mutant):
    """A right shift of signed integers that fills with zeros."""

    hint = "arith.shr"
    values = True

    def edit(self, e: Editing, op: Op) -> Any:
        if op.name != "shr" or dtype_of(op.operands[0]) is not i32:
            return None
        from tegula.ir.types import u32

        a, b = (e.make("bitcast", v, to=u32) for v in e.values(op))
        return [e.make("bitcast", e.make("shr", a, b), to=i32)]


@plant
class WrappingCast(Mutant):
    """A float out of range wraps where it has to saturate."""

    hint = "cast.f32.i32"
    values = True

    def edit(self, e: Editing, op: Op) -> Any:
        if op.name == "cast" and op.attrs["to"] is i32 and dtype_of(op.operands[0]).is_float:
            wide = e.make("cast", e.values(op)[0], to=i64)
            return [e.make("cast", wide, to=i32)]
        return None


@plant
class SignedOffset(Mutant):
    """A u32 offset is extended by its top bit."""

    hint = "memory.huge"
    outcomes = frozenset({"fail", "error", "crash"})

    def edit(self, e: Editing, op: Op) -> Any:
        if op.name != "addptr" or dtype_of(op.operands[1]).name != "u32":
            return None
        pointer, offset = e.values(op)
        return [e.make("addptr", pointer, e.make("bitcast", offset, to=i32))]


@plant
class ExtraTurn(Mutant):
    """Loops that count upwards run once too often."""

    hint = "control.for"
    values = True

    def edit(self, e: Editing, op: Op) -> Any:
        if op.name != "for" or dtype_of(op.operands[0]) is not i32:
            return None
        lower, upper, step, *inits = e.values(op)
        return e.again(op, lower, e.make("add", upper, step), step, *inits)


@plant
class ForwardScan(Mutant):
    """`reverse` of a scan is not looked at."""

    hint = "scan.add"
    values = True

    def edit(self, e: Editing, op: Op) -> Any:
        return e.again(op, reverse=False) if op.name == "scan" and op.attrs["reverse"] else None


@plant
class FlushedDenormals(Mutant):
    """Products of f32 that are denormal become zero."""

    hint = "arith.mul.f32"

    def edit(self, e: Editing, op: Op) -> Any:
        if op.name != "mul" or dtype_of(op.operands[0]) is not f32:
            return None
        (result,) = e.again(op)
        size = e.make("abs", result)
        tiny = e.make("cmp", size, e.constant(1.17549435e-38, size.type), pred="lt")
        zero = e.make("mul", result, e.constant(0.0, size.type))
        return [e.make("select", tiny, zero, result)]


@plant
class AccurateToTenBits(Mutant):
    """exp computed in f16."""

    hint = "math.exp.f32"

    def edit(self, e: Editing, op: Op) -> Any:
        if op.name != "exp" or dtype_of(op.operands[0]) is not f32:
            return None
        (result,) = e.again(op)
        return [e.make("cast", e.make("cast", result, to=f16), to=f32)]


@plant
class TransposedProduct(Mutant):
    """dot takes a square right operand transposed."""

    hint = "dot.f32"

    def edit(self, e: Editing, op: Op) -> Any:
        shape = shape_of(op.operands[1].type) if op.name == "dot" else ()
        if len(shape) == 2 and shape[0] == shape[1]:
            a, b, acc = e.values(op)
            return e.again(op, a, e.make("permute", b, dims=(1, 0)), acc)
        return None


@plant
class DroppedAssertion(Mutant):
    """Assertions are left out, also where debugging asks for them."""

    hint = "debug.assert device.recovers"

    def edit(self, e: Editing, op: Op) -> Any:
        return [] if op.name == "assert" else None


@plant
class NarrowArgument(Mutant):
    """Scalar i64 arguments lose their upper half."""

    hint = "argument.i64"

    def emit(self, base: Compiler, module: Module, target: Target, options: Options) -> Artifact:
        functions = []
        for function in module.functions.values():
            body = Block([Value(a.type, a.name) for a in function.body.args])
            b = Builder(body)
            cloner = Cloner()
            cloner.out = body.ops
            for old, new in zip(function.body.args, body.args):
                narrow = new
                if old.type is i64:
                    narrow = b.cast(b.cast(new, to=i32), to=i64)
                cloner.map[old] = narrow
            cloner.ops(function.body.ops)
            functions.append(
                Function(function.name, body, function.result_types, function.kind,
                         function.arg_attrs, function.attrs)
            )  # fmt: skip
        return base.emit(Module(functions), target, options)


@plant
class AxisMixedUp(Mutant):
    """Programs take their second axis for the third."""

    hint = "grid."

    def edit(self, e: Editing, op: Op) -> Any:
        swap = {0: 0, 1: 2, 2: 1}
        if op.name in ("program_id", "num_programs") and op.attrs["axis"]:
            return e.again(op, axis=swap[op.attrs["axis"]])
        return None


# -------------------------------------------------------------------------------------------------
# Wrong bookkeeping


@plant
class StaleCache(Mutant):
    """Artifacts are kept by the kernel's name alone."""

    hint = "compile.distinct device.same_name"
    values = True

    def __init__(self) -> None:
        self.kept: dict[Any, Artifact] = {}

    def emit(self, base: Compiler, module: Module, target: Target, options: Options) -> Artifact:
        made = base.emit(module, target, options)
        return self.kept.setdefault(made.entry, made)


@plant
class DifferentEveryTime(Mutant):
    """Two compilations of one kernel give two artifacts."""

    hint = "compile.deterministic"

    def emit(self, base: Compiler, module: Module, target: Target, options: Options) -> Artifact:
        made = base.emit(module, target, options)
        return replace(made, metadata={**made.metadata, "time": time.perf_counter()})


@plant
class Liar(Mutant):
    """fma is declared and cannot be compiled."""

    hint = "compile.op.fma arith.fma.f32"

    def edit(self, e: Editing, op: Op) -> Any:
        if op.name == "fma":
            raise UnsupportedError("mutant_liar", "fma", "it was only claimed")
        return None


@plant
class Modest(Mutant):
    """tanh compiles though it is not declared."""

    hint = "compile.op.tanh"

    def capabilities(self, record: Capabilities) -> Capabilities:
        return replace(record, ops={k: v for k, v in record.ops.items() if k != "tanh"})


@plant
class WrongError(Mutant):
    """What is not supported ends in an error of no known kind."""

    hint = "compile.op.erf"

    def capabilities(self, record: Capabilities) -> Capabilities:
        return replace(record, ops={k: v for k, v in record.ops.items() if k != "erf"})

    def edit(self, e: Editing, op: Op) -> Any:
        if op.name == "erf":
            raise KeyError("erf")
        return None


@plant
class LeakPerLaunch(Mutant):
    """Every launch leaves 64 KiB behind."""

    hint = "device.leak_launch"

    def __init__(self) -> None:
        self.kept: list[Any] = []

    def launch(self, kernel: Kernel, run: Callable[[], None], memory: Sequence[Any]) -> None:
        self.kept.append(np.ones(1 << 16, np.uint8))
        run()


@plant
class LeakPerLoad(Mutant):
    """Every loaded kernel leaves 1 MiB behind."""

    hint = "device.leak_load"

    def __init__(self) -> None:
        self.kept: list[Any] = []

    def loaded(self, artifact: Artifact) -> None:
        self.kept.append(np.ones(1 << 20, np.uint8))


@plant
class NeverFrees(Mutant):
    """free() does nothing."""

    hint = "device.leak_memory"

    def free(self, device: Device, address: int) -> None:
        pass


@plant
class WritesPastTheEnd(Mutant):
    """A launch changes the byte behind the last writable buffer."""

    hint = "memory.copy.i32"
    values = True

    def launch(self, kernel: Kernel, run: Callable[[], None], memory: Sequence[Any]) -> None:
        import ctypes

        run()
        for m in memory:
            if m.writable and m.nbytes:
                byte = ctypes.c_uint8.from_address(m.address + m.nbytes)
                byte.value ^= 0xFF


@plant
class WritesInput(Mutant):
    """A launch changes an input that is only read."""

    hint = "memory.copy.i32"

    def launch(self, kernel: Kernel, run: Callable[[], None], memory: Sequence[Any]) -> None:
        import ctypes

        run()
        for m in memory:
            if not m.writable and m.nbytes:
                ctypes.c_uint8.from_address(m.address).value ^= 0xFF


@plant
class Hangs(Mutant):
    """Kernels with a scan never end."""

    hint = "scan.add.i32"
    outcomes = frozenset({"timeout"})

    def emit(self, base: Compiler, module: Module, target: Target, options: Options) -> Artifact:
        made = base.emit(module, target, options)
        scans = any(op.name == "scan" for f in module.functions.values() for op in f.body.walk())
        return replace(made, metadata={**made.metadata, "scans": scans})

    def launch(self, kernel: Any, run: Callable[[], None], memory: Sequence[Any]) -> None:
        while kernel.artifact.metadata["scans"]:
            time.sleep(0.1)
        run()


@plant
class Crashes(Mutant):
    """Making code for a product ends the process."""

    hint = "dot.i32"
    outcomes = frozenset({"crash"})

    def edit(self, e: Editing, op: Op) -> Any:
        if op.name == "dot":
            os.abort()
        return None


USED = (i1, Tile, with_elem)
