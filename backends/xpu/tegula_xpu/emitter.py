"""SPIR-V by LLVM, in a process of its own (see `tegula.codegen.isolated`).

LLVM's SPIR-V target keeps numbers of basic blocks from one module to the next, so that a second
module of a process may be wrong; and what it cannot translate ends the process. Imports nothing of
Tegula.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

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

_ZEXT = re.compile(r"^  (%\S+) = zext i(8|16) (\S+) to (i\d+)$", re.MULTILINE)

CODE, ASSEMBLY = b"c", b"a"
"""Requests: a SPIR-V module, or its text."""


@cache
def prepare() -> Any:
    """llvmlite's binding, set up; the options of LLVM can be set only once."""
    import llvmlite.binding as llvm

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    llvm.set_option("tegula", "--spirv-ext=" + ",".join("+" + name for name in EXTENSIONS))
    return llvm


def _extended(found: re.Match[str]) -> str:
    """An extension by zeros as one by the sign and a mask: the target takes one of a truncation for
    a mask of what was truncated, in a wrong width."""
    name, bits, x, wide = found.groups()
    mask = (1 << int(bits)) - 1
    return f"  {name}.s = sext i{bits} {x} to {wide}\n  {name} = and {wide} {name}.s, {mask}"


def answer(kind: bytes, text: bytes) -> bytes:
    """SPIR-V of an LLVM module given as text, here and now."""
    llvm = prepare()
    machine = llvm.Target.from_triple(TRIPLE).create_target_machine(opt=OPT_LEVEL)
    module = llvm.parse_assembly(_ZEXT.sub(_extended, text.decode()))
    module.triple = TRIPLE
    module.data_layout = str(machine.target_data)
    module.verify()
    _optimise(llvm, module, machine)
    if kind == ASSEMBLY:
        return str(machine.emit_assembly(module)).encode()
    return bytes(machine.emit_object(module))


def _optimise(llvm: Any, module: Any, machine: Any) -> None:
    """Little: the device's driver has a whole optimiser of its own. LLVM's target relies on folded
    constants; combining instructions would make integers of widths that SPIR-V lacks.
    """
    options = llvm.create_pipeline_tuning_options(speed_level=1)
    builder = llvm.create_pass_builder(machine, options)
    passes = llvm.create_new_function_pass_manager()
    passes.add_sccp_pass()
    passes.add_simplify_cfg_pass()
    passes.add_dead_code_elimination_pass()
    for function in module.functions:
        if not function.is_declaration:
            passes.run(function, builder)
