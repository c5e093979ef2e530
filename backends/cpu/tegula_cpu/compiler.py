"""Compiles kernels for processors: tile IR to loop nests to LLVM text to an object file."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

from tegula.plugin import (
    ANY,
    Artifact,
    Capabilities,
    Compiler,
    Options,
    Target,
    UnsupportedError,
    digest,
)
from tegula.runtime import stages

if TYPE_CHECKING:
    from llvmlite.binding import TargetMachine

    from tegula.ir import Module
    from tegula.passes import Pipeline

OPT_LEVEL = 2
DTYPES = frozenset(
    "i1 i8 i16 i32 i64 u8 u16 u32 u64 f8e5 f8e5b16 f8e4nv f8e4b8 f8e4b15 f16 bf16 f32 f64".split()
)

_LOCK = threading.RLock()
"""LLVM's global context serves one thread at a time."""


@dataclass(frozen=True)
class CpuOptions(Options):
    """The common options; warps, stages and clusters mean nothing here."""

    ignored: ClassVar[frozenset[str]] = frozenset(
        {
            "num_warps",
            "num_stages",
            "num_ctas",
            "maxnreg",
        }
    )

    enable_fp_fusion: bool = False
    """Contract products that are added; off, so that results are those of every other backend."""


class CpuCompiler(Compiler):
    """Loop nests, vectorised for the widest unit of the target."""

    def targets(self) -> Sequence[Target]:
        from tegula_cpu.target import known_targets

        return known_targets()

    def capabilities(self, target: Target) -> Capabilities:
        from tegula.codegen.capabilities import atomics, products
        from tegula.codegen.loops.capabilities import supported_ops

        return Capabilities(
            target,
            dtypes=DTYPES,
            ops={name: frozenset({ANY}) for name in supported_ops()},
            dot=products(DTYPES),
            atomics=atomics(DTYPES),
            features=frozenset(
                {"atomic_subnormals", "device_assert", "device_print", "unified_memory"}
            ),
            limits={"vector_bits": int(target["vector_bits"])},
            numerics={
                "fma": "contracted with enable_fp_fusion=True only",
                "denormals": "kept",
                "reduction_order": "free",
                "index_overflow": "wraps",
            },
        )

    def options(self, target: Target, given: Mapping[str, Any]) -> Options:
        return CpuOptions.make(given)

    def pipeline(self, target: Target, options: Options) -> Pipeline:
        from tegula.codegen.loops.elementwise import native_math
        from tegula.codegen.math import ExpandMath
        from tegula.passes import Pipeline
        from tegula.passes.contract import Contract
        from tegula_cpu.target import vector_target

        fused = [Contract()] if options.enable_fp_fusion else []
        return Pipeline([*fused, ExpandMath(native_math(vector_target(target)))])

    def emit(self, module: Module, target: Target, options: Options) -> Artifact:
        from tegula.codegen.loops.evaluate import Unsupported
        from tegula.codegen.loops.kernel import symbol_of
        from tegula.codegen.loops.lower import lower
        from tegula_cpu.target import vector_target

        try:
            lowered = lower(
                module,
                vector_target(target),
                assume_disjoint=options.assume_disjoint,
                debug=options.debug,
            )
        except Unsupported as error:
            op = error.op
            raise UnsupportedError("cpu", op.name, error.why, loc=op.loc) from None
        stages.record("llir", lowered.text)
        (kernel,) = module.kernels
        code = assemble(lowered.text, target)
        return Artifact(
            "elf-object",
            code,
            symbol_of(kernel.name),
            tuple(str(p.type) for p in kernel.body.args),
            {
                "name": kernel.name,
                "digest": digest(code),
                "scratch_bytes": lowered.scratch_bytes,
                "alias_pairs": [list(pair) for pair in lowered.alias_pairs],
            },
        )

    def fingerprint(self) -> str:
        import llvmlite
        import llvmlite.binding as llvm

        from tegula import __version__

        llvm_version = ".".join(map(str, llvm.llvm_version_info))
        return f"cpu {__version__}, llvmlite {llvmlite.__version__}, LLVM {llvm_version}"


@cache
def _machine(target: Target) -> TargetMachine:
    """The target machine of a target, made once: it takes longer than a small kernel."""
    from tegula_cpu.target import machine

    return machine(target, OPT_LEVEL)


def assemble(text: str, target: Target) -> bytes:
    """Object code of an LLVM module given as text."""
    import llvmlite.binding as llvm

    with _LOCK:
        machine = _machine(target)
        module = llvm.parse_assembly(text)
        module.triple = target["triple"]
        module.data_layout = str(machine.target_data)
        _optimise(module, machine)
        if stages.active():
            stages.record("asm", machine.emit_assembly(module.clone()))
        code: bytes = machine.emit_object(module)
        return code


def _optimise(module: Any, machine: TargetMachine) -> None:
    """The few passes that pay: the text is placed and shared already when it is written."""
