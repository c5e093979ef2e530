"""Processors that the CPU backend makes code for: the host, and generic ones for offline use."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from tegula.codegen.loops.vector import VectorTarget
from tegula.plugin import OptionError, Target

if TYPE_CHECKING:
    from llvmlite.binding import TargetMachine

_V2 = ("cx16", "popcnt", "sahf", "sse3", "ssse3", "sse4.1", "sse4.2")
_V3 = (*_V2, "avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "xsave")
_V4 = (*_V3, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")

_X86 = "x86_64-unknown-linux-gnu"
_ARM = "aarch64-unknown-linux-gnu"

GENERIC: dict[str, tuple[str, str, int, tuple[str, ...]]] = {
    "x86-64": (_X86, "x86-64", 128, ()),
    "x86-64-v2": (_X86, "x86-64-v2", 128, _V2),
    "x86-64-v3": (_X86, "x86-64-v3", 256, _V3),
    "x86-64-v4": (_X86, "x86-64-v4", 512, _V4),
    "aarch64": (_ARM, "generic", 128, ("neon",)),
    "aarch64-v8.6a": (_ARM, "generic", 128, ("v8.6a", "neon", "dotprod", "bf16", "fullfp16")),
}
"""Name of a generic target to triple, LLVM's name of the processor, vector bits, features."""


def known_targets() -> tuple[Target, ...]:
    """The host first, then every generic target."""
    return (host(), *(resolve(name) for name in GENERIC))


def resolve(name: str) -> Target:
    """The target called `name`: ``host``, or one of `GENERIC`."""
    if name == "host":
        return host()
    if name not in GENERIC:
        from tegula.errors import nearest

        known = ("host", *GENERIC)
        raise OptionError(
            f"the cpu backend knows no target '{name}'{nearest(name, known)} "
            f"(known: {', '.join(known)})"
        )
    triple, cpu, bits, features = GENERIC[name]
    signed = ",".join("+" + feature for feature in features)
    return _target(name, triple, cpu, signed, bits)


@cache
def host() -> Target:
    """The processor that this process runs on."""
    llvm = _llvm(_native=True)
    cpu = llvm.get_host_cpu_name() or "generic"
    flags = llvm.get_host_cpu_features()
    present = frozenset(name for name, on in flags.items() if on)
    triple = llvm.get_process_triple()
    return _target(cpu, triple, cpu, flags.flatten(), _vector_bits(_family(triple), present))


def _vector_bits(family: str, features: frozenset[str]) -> int:
    if family == "x86-64":
        if features.issuperset(("avx512f", "avx512bw", "avx512dq", "avx512vl")):
            return 512
        if "avx2" in features:
            return 256
    return 128


def _target(arch: str, triple: str, cpu: str, features: str, bits: int) -> Target:
    attrs: dict[str, str | int | float | bool | None] = {
        "triple": triple,
        "family": _family(triple),
        "cpu": cpu,
        "features": features,
        "vector_bits": bits,
    }
    return Target("cpu", arch, attrs)


def _family(triple: str) -> str:
    machine = triple.split("-", 1)[0]
    return {"x86_64": "x86-64", "amd64": "x86-64", "arm64": "aarch64"}.get(machine, machine)


def vector_target(target: Target) -> VectorTarget:
    """What the loop lowering needs to know about `target`."""
    features = frozenset(part[1:] for part in target["features"].split(",") if part.startswith("+"))
    return VectorTarget(target["family"], target["vector_bits"], features)


def machine(target: Target, opt: int = 3) -> TargetMachine:
    """A new LLVM target machine that makes objects the driver can load anywhere in memory."""
    llvm = _llvm(_native=target["triple"] == host()["triple"])
    backend = llvm.Target.from_triple(target["triple"])
    made: TargetMachine = backend.create_target_machine(
        cpu=target["cpu"], features=target["features"], opt=opt, reloc="pic", codemodel="small"
    )
    return made


@cache
def _llvm(_native: bool) -> Any:
    """llvmlite's binding, with the backends initialised that are asked for."""
    import llvmlite.binding as llvm

    if _native:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        llvm.initialize_native_asmparser()
    else:
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
    return llvm
