"""SPIR-V from LLVM text, by LLVM's own target for OpenCL's environment."""

from __future__ import annotations

import threading
from functools import cache
from typing import Any

from tegula.runtime import stages

TRIPLE = "spirv64-unknown-unknown"
OPT_LEVEL = 2

EXTENSIONS = (
    "SPV_EXT_shader_atomic_float_add",
    "SPV_EXT_shader_atomic_float_min_max",
    "SPV_INTEL_bfloat16_conversion",
    "SPV_INTEL_subgroups",
    "SPV_INTEL_subgroup_matrix_multiply_accumulate",
    "SPV_INTEL_2d_block_io",
    "SPV_KHR_shader_clock",
)
"""What LLVM may use beyond core SPIR-V; all of it is known to Intel's drivers."""

_LOCK = threading.RLock()
"""LLVM's global context serves one thread at a time."""


@cache
def _machine() -> tuple[Any, Any]:
    """llvmlite's binding and the target machine; the options of LLVM can be set only once."""
    import llvmlite.binding as llvm

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    llvm.set_option("tegula", "--spirv-ext=" + ",".join("+" + name for name in EXTENSIONS))
    return llvm, llvm.Target.from_triple(TRIPLE).create_target_machine(opt=OPT_LEVEL)


def data_layout() -> str:
    """LLVM's data layout of the target."""
    with _LOCK:
        return str(_machine()[1].target_data)


def assemble(text: str) -> bytes:
    """A SPIR-V module of an LLVM module given as text."""
    with _LOCK:
        llvm, machine = _machine()
        module = llvm.parse_assembly(text)
        module.triple = TRIPLE
        module.data_layout = str(machine.target_data)
        module.verify()
        optimise(llvm, module, machine)
        if stages.active():
            stages.record("spirv", machine.emit_assembly(module.clone()))
        code: bytes = machine.emit_object(module)
    return code


def optimise(llvm: Any, module: Any, machine: Any) -> None:
    """Passes that leave less to translate; the device's driver has a whole optimiser of its own."""
    options = llvm.create_pipeline_tuning_options(speed_level=1)
    builder = llvm.create_pass_builder(machine, options)
    passes = llvm.create_new_function_pass_manager()
    passes.add_simplify_cfg_pass()
    passes.add_instruction_combine_pass()
    for function in module.functions:
        if not function.is_declaration:
            passes.run(function, builder)
