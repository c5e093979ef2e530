"""Compiles kernels for NVIDIA GPUs: tile IR to LLVM text to PTX, and to machine code by ptxas."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from tegula.errors import OptionWarning, OutOfResources
from tegula.plugin import (
    Artifact,
    Capabilities,
    Compiler,
    OptionError,
    Options,
    Target,
    TritonTarget,
    digest,
)
from tegula.runtime import stages
from tegula_cuda import ptxas
from tegula_cuda.options import CudaOptions
from tegula_cuda.target import WARP_SIZE, features_of

if TYPE_CHECKING:
    from llvmlite.binding import TargetMachine

    from tegula.ir import Module
    from tegula.passes import Pipeline

OPT_LEVEL = 2
"""Of LLVM's part for the machine; 3 numbers values twice more and makes the same code."""

READINGS = {
    "globaltimer": ("mov.u64 $0, %globaltimer;", "=l,~{memory}", "i64"),
    "smid": ("mov.u32 $0, %smid;", "=r", "i32"),
}
"""What kernels can read of the hardware."""

_LOCK = threading.RLock()
"""LLVM's global context serves one thread at a time."""


class CudaCompiler(Compiler):
    """Tiles spread over the threads of a block, in PTX."""

    def targets(self) -> Sequence[Target]:
        from tegula_cuda.target import known_targets

        return known_targets()

    def capabilities(self, target: Target) -> Capabilities:
        from tegula_cuda.simt import capabilities

        return capabilities(target)

    def options(self, target: Target, given: Mapping[str, Any]) -> Options:
        options = CudaOptions.make(given)
        if options.num_ctas != 1:
            warnings.warn(
                f"num_ctas={options.num_ctas} changes nothing on the cuda backend, where one "
                "multiprocessor runs a program: num_warps gives a program more threads, and "
                "cluster_dims has neighbouring programs run as a cluster",
                OptionWarning,
                stacklevel=2,
            )
        features = features_of(target)
        if options.clustered and "clusters" not in features:
            raise OptionError(f"cluster_dims needs sm_90 or later; the target is {target}")
        if options.launch_pdl and "pdl" not in features:
            raise OptionError(f"launch_pdl needs sm_90 or later; the target is {target}")
        return options

    def pipeline(self, target: Target, options: Options) -> Pipeline:
        from tegula_cuda.simt import pipeline

        return pipeline(target, options)

    def emit(self, module: Module, target: Target, options: Options) -> Artifact:
        from tegula.codegen.simt.emit import emit
        from tegula_cuda.simt import CudaSimt

        assert isinstance(options, CudaOptions)
        simt = CudaSimt(target, options)
        made = emit(module, simt, target, options, num_stages=options.num_stages)
        stages.record("llir", made.text)
        facts = {**made.facts, "prints": simt.prints}
        return finish(made.text, made.entry, made.params, facts, target, options)

    def triton(self, target: Target) -> TritonTarget:
        return TritonTarget("cuda", target["capability"], WARP_SIZE, READINGS)

    def fingerprint(self) -> str:
        import llvmlite
        import llvmlite.binding as llvm

        from tegula import __version__

        llvm_version = ".".join(map(str, llvm.llvm_version_info))
        return (
            f"cuda {__version__}, llvmlite {llvmlite.__version__}, LLVM {llvm_version}, "
            f"{_assembler()}"
        )


def finish(
    text: str, entry: str, params: Sequence[str], metadata: Mapping[str, Any], target: Target,
    options: CudaOptions,
) -> Artifact:  # fmt: skip
    """The artifact of a kernel whose LLVM text is made.

    `metadata` needs `shared_bytes` and `num_warps`; what a launch needs from the options joins it.
    """
    check_shared(entry, int(metadata["shared_bytes"]), target)
    ptx = to_ptx(text, target)
    stages.record("ptx", ptx)
    facts = {
        **metadata,
        "cluster_dims": list(options.cluster_dims),
        "launch_cooperative_grid": options.launch_cooperative_grid,
        "launch_pdl": options.launch_pdl,
    }
    assembler = ptxas.find()
    if assembler is None:
        kind, code = "ptx", ptx.encode()
    else:
        made = ptxas.assemble(assembler, ptx, target["cpu"], entry)
        kind, code = "cubin", made.code
        facts |= {"registers": made.registers, "spills": made.spills}
    return Artifact(kind, code, entry, tuple(params), {**facts, "digest": digest(code)})


def check_shared(entry: str, needed: int, target: Target) -> None:
    """Raise if a program needs more shared memory than the target has."""
    if needed > target["shared_bytes"]:
        raise OutOfResources(
            needed, target["shared_bytes"], f"bytes of shared memory (kernel `{entry}`, {target})"
        )


def _assembler() -> str:
    path = ptxas.find()
    return "assembled by the driver" if path is None else ptxas.identity(path)


# -------------------------------------------------------------------------------------------------
# LLVM


@cache
def machine(target: Target) -> TargetMachine:
    """The target machine of a target, made once."""
    import llvmlite.binding as llvm

    _start_llvm()
    return llvm.Target.from_triple(target["triple"]).create_target_machine(
        cpu=target["cpu"], features=f"+ptx{target['ptx']}", opt=OPT_LEVEL
    )


@cache
def _start_llvm() -> None:
    """Make LLVM ready. Its pass for straight-line strength reduction stays off: it takes the sum of
    an index and a constant, both of 32 bits, for one that does not wrap around. A context looks
    once at what is off, so modules are in contexts of their own.
    """
    import llvmlite.binding as llvm

    llvm.set_option("tegula", "-opt-disable=slsr")
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()


def to_ptx(text: str, target: Target) -> str:
    """PTX of an LLVM module given as text."""
    import llvmlite.binding as llvm

    with _LOCK:
        made = machine(target)
        module = llvm.parse_assembly(text, llvm.create_context())
        module.triple = target["triple"]
        module.data_layout = str(made.target_data)
        _optimise(module, made)
        ptx: str = made.emit_assembly(module)
        return ptx


def _optimise(module: Any, made: TargetMachine) -> None:
    """The passes that pay: all of LLVM's -O3 takes five times as long, and ptxas makes no fewer
    instructions and registers of its results.
    """
    import llvmlite.binding as llvm

    builder = llvm.create_pass_builder(made, llvm.create_pipeline_tuning_options())
    passes = llvm.create_new_module_pass_manager()
    passes.add_instruction_combine_pass()
    passes.add_reassociate_pass()
    passes.run(module, builder)
