"""The backend `interpreter`: runs every kernel on numpy, anywhere, slowly and right by definition.

It comes with the core and is registered through the same hooks as any backend that is installed.
What it compiles to is the text of the IR, with source locations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from tegula.plugin import (
    ANY,
    Artifact,
    BackendSpec,
    Capabilities,
    Compiler,
    Device,
    DeviceInfo,
    Driver,
    Kernel,
    MemoryRange,
    Options,
    Probe,
    Target,
    UnsupportedError,
    hookimpl,
)

if TYPE_CHECKING:
    import numpy as np

    from tegula.interp.memory import Buffer
    from tegula.ir.core import Module
    from tegula.passes import Pipeline

TARGET = Target("interpreter", "numpy")
ARTIFACT_KIND = "tile-ir"
ALIGNMENT = 64


@hookimpl
def tegula_backends() -> list[BackendSpec]:
    return [
        BackendSpec(
            name="interpreter",
            api=(0, 1),
            ir=((0, 1), (0, 1)),
            compiler="tegula.interp.backend:InterpreterCompiler",
            driver="tegula.interp.backend:InterpreterDriver",
            kind="cpu",
            priority=-100,
            dlpack=(1,),
            torch="cpu",
            summary="numpy, one program after another: for debugging and as the reference",
        )
    ]


@dataclass(frozen=True)
class InterpreterOptions(Options):
    """The common options; those that steer code generation change nothing here."""

    ignored: ClassVar[frozenset[str]] = frozenset(Options.names()) - {
        "debug",
        "sanitize_overflow",
        "enable_fp_fusion",
    }

    enable_fp_fusion: bool = False


class InterpreterCompiler(Compiler):
    """Keeps the IR as it is."""

    def targets(self) -> Sequence[Target]:
        return [TARGET]

    def capabilities(self, target: Target) -> Capabilities:
        from tegula.ir import DTYPES, OPS
        from tegula.ir.ops.foreign import REASONS

        floats = [name for name, dtype in DTYPES.items() if dtype.is_float]
        ints = [name for name, dtype in DTYPES.items() if dtype.is_int and dtype.bits > 1]
        wide = [name for name in ints if DTYPES[name].bits >= 32]
        return Capabilities(
            target,
            dtypes=frozenset(DTYPES),
            ops={name: frozenset({ANY}) for name in OPS if name not in REASONS},
            dot=frozenset(
                (a, b, acc)
                for operands, accumulators in (
                    (floats, [name for name in floats if DTYPES[name].bits >= 16]),
                    (ints, wide),
                )
                for a in operands
                for b in operands
                for acc in accumulators
            ),
            atomics={
                **{kind: frozenset(floats + ints) for kind in ("add", "max", "min", "xchg", "cas")},
                **{kind: frozenset(ints) for kind in ("and", "or", "xor")},
            },
            features=frozenset(
                "atomic_subnormals device_assert device_print debug_info unified_memory".split()
            ),
            numerics={"fma": "single rounding", "denormals": "kept", "deterministic": True},
        )

    def options(self, target: Target, given: Mapping[str, Any]) -> Options:
        return InterpreterOptions.make(given)

    def pipeline(self, target: Target, options: Options) -> Pipeline:
        from tegula.passes import Pipeline
        from tegula.passes.contract import Contract

        return Pipeline((Contract(),) if options.enable_fp_fusion else ())

    def emit(self, module: Module, target: Target, options: Options) -> Artifact:
        from tegula.ir import print_module
        from tegula.ir.ops.foreign import REASONS

        for function in module.functions.values():
            for op in function.body.walk():
                if op.name in REASONS:
                    raise UnsupportedError(target.backend, op.name, REASONS[op.name], loc=op.loc)
        kernel = next(f for f in module.functions.values() if f.kind == "kernel")
        return Artifact(
            ARTIFACT_KIND,
            print_module(module, locations=True).encode(),
            kernel.name,
            tuple(str(param.type) for param in kernel.body.args),
        )

    def fingerprint(self) -> str:
        import numpy as np

        from tegula import __version__

        return f"interpreter {__version__}, numpy {np.__version__}"


class InterpreterKernel(Kernel):
    """A kernel made ready to be interpreted."""

    def __init__(self, device: InterpreterDevice, artifact: Artifact) -> None:
        from tegula.interp import Interpreter
        from tegula.ir import parse_module

        self._device = device
        self._interpreter = Interpreter(parse_module(artifact.data.decode()), artifact.entry)

    def launch(
        self,
        grid: tuple[int, int, int],
        args: Sequence[Any],
        *,
        stream: int = 0,
        memory: Sequence[MemoryRange] = (),
    ) -> None:
        """Run the whole grid before returning.

        Accesses are checked against `memory` and the device's own allocations; if nothing is known
        about the arguments' memory, they are let through.
        """
        from tegula.interp import Buffer

        buffers = [Buffer(m.address, m.nbytes, m.name, m.writable, m.shape) for m in memory]
        buffers += self._device.allocations()
        self._interpreter.run(grid, args, buffers, allow_unknown=not memory)


class InterpreterDevice(Device):
    """Host memory."""

    def __init__(self, info: DeviceInfo) -> None:
        self.info = info
        self._memory: dict[int, np.ndarray] = {}

    def alloc(self, nbytes: int) -> int:
        import numpy as np

        block = np.empty(nbytes + ALIGNMENT, np.uint8)
        address = -(-block.ctypes.data // ALIGNMENT) * ALIGNMENT
        start = address - block.ctypes.data
        self._memory[address] = block[start : start + nbytes]
        return address

    def free(self, address: int) -> None:
        del self._memory[address]

    def allocations(self) -> list[Buffer]:
        """What `alloc` gave out, as the interpreter checks it."""
        from tegula.interp import Buffer

        return [
            Buffer(address, block.nbytes, "device allocation")
            for address, block in list(self._memory.items())
        ]

    def copy(self, dst: int, src: int, nbytes: int, *, stream: int = 0) -> None:
        import ctypes

        ctypes.memmove(dst, src, nbytes)

    def load(self, artifact: Artifact) -> Kernel:
        if artifact.kind != ARTIFACT_KIND:
            raise ValueError(
                f"the interpreter loads artifacts of kind '{ARTIFACT_KIND}', not '{artifact.kind}'"
            )
        return InterpreterKernel(self, artifact)

    def synchronize(self, stream: int = 0) -> None:
        """Launches are over when they return."""


class InterpreterDriver(Driver):
    """The one device that is always there."""

    @classmethod
    def probe(cls) -> Probe:
        import numpy as np

        return Probe(
            "available", devices=(DeviceInfo(0, f"numpy {np.__version__} in host memory", TARGET),)
        )

    def open(self, index: int) -> Device:
        return InterpreterDevice(self.probe().devices[index])
