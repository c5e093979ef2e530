"""The process in which LLVM makes SPIR-V: started once, it forks for every module.

LLVM's SPIR-V target keeps numbers of basic blocks from one module to the next, so that a second
module of a process may be wrong; and what it cannot translate ends the process. Imports nothing of
Tegula.
"""

from __future__ import annotations

import os
import sys
from functools import cache
from typing import IO, Any

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

CODE, ASSEMBLY = b"c", b"a"
"""Requests: a SPIR-V module, or its text."""
DONE, FAILED = b"d", b"f"
"""Answers: what was asked for, or what LLVM said."""

_LENGTH = 8


@cache
def _llvm() -> Any:
    """llvmlite's binding, set up; the options of LLVM can be set only once."""
    import llvmlite.binding as llvm

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    llvm.set_option("tegula", "--spirv-ext=" + ",".join("+" + name for name in EXTENSIONS))
    return llvm


def emit(kind: bytes, text: bytes) -> bytes:
    """SPIR-V of an LLVM module given as text, here and now."""
    llvm = _llvm()
    machine = llvm.Target.from_triple(TRIPLE).create_target_machine(opt=OPT_LEVEL)
    module = llvm.parse_assembly(text.decode())
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


# -------------------------------------------------------------------------------------------------
# Messages: one letter, the length of what follows, what follows


def send(stream: IO[bytes], kind: bytes, data: bytes) -> None:
    stream.write(kind + len(data).to_bytes(_LENGTH, "little") + data)
    stream.flush()


def receive(stream: IO[bytes]) -> tuple[bytes, bytes]:
    """The next message; EOFError if the other side has gone."""
    head = stream.read(1 + _LENGTH)
    size = int.from_bytes(head[1:], "little")
    data = stream.read(size) if len(head) == 1 + _LENGTH else b""
    if len(head) < 1 + _LENGTH or len(data) < size:
        raise EOFError
    return head[:1], data


def serve() -> None:
    """Answer requests until nobody is left to ask."""
    _llvm()
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # nothing else may get among the answers
    while True:
        try:
            kind, text = receive(requests)
        except EOFError:
            return
        send(answers, *_in_child(kind, text))


def _in_child(kind: bytes, text: bytes) -> tuple[bytes, bytes]:
    if not hasattr(os, "fork"):
        return DONE, emit(kind, text)
    (code, code_end), (said, said_end) = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.dup2(said_end, 2)
            with os.fdopen(code_end, "wb") as out:
                out.write(emit(kind, text))
            status = 0
        except Exception as error:
            os.write(2, str(error).encode())
        finally:
            os._exit(status)
    os.close(code_end)
    os.close(said_end)
    with os.fdopen(code, "rb") as data, os.fdopen(said, "rb") as words:
        made, message = data.read(), words.read()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status == 0:
        return DONE, made
    ended = f"LLVM ended with signal {-status}" if status < 0 else "LLVM failed"
    return FAILED, message.strip() or ended.encode()
