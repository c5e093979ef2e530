"""What the backend makes code for: kinds of Intel GPUs, and a processor seen as an OpenCL device.

Facts of a device that is present are asked of its driver; the table serves compilation without one.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, replace
from typing import Any

from tegula.plugin import OptionError, Target

KIB = 1 << 10


@dataclass(frozen=True)
class Architecture:
    """Facts of one kind of device."""

    subgroups: tuple[int, ...] = (16, 32)
    """Sizes of a subgroup that the compiler may ask for; the first is the default."""
    shared_bytes: int = 64 * KIB
    max_threads: int = 1024
    """Work-items of a work-group."""
    fp64: bool = True
    fp16: bool = True
    bf16: bool = True
    """Conversions between bfloat16 and float32 are instructions."""
    atomic64: bool = True
    register: int = 0
    """Bytes of a register, of which a hardware thread has 128 or, of fewer threads, 256."""
    matrix: int = 0
    """Columns of a matrix instruction (DPAS); 0: there is none."""
    block2d: bool = False
    """Two-dimensional block loads and stores."""
    names: str = ""
    """Pattern of the names by which drivers call such devices."""


ARCHITECTURES = {
    "cpu": Architecture(max_threads=4096, bf16=False, shared_bytes=256 * KIB),
    "xe-lpg": Architecture(bf16=False, register=32, names=r"Meteor ?Lake|Arc\(TM\) Graphics\b"),
    "xe-hpg": Architecture(
        subgroups=(16, 8, 32), fp64=False, register=32, matrix=8, names=r"Arc\(TM\) A\d|Flex"
    ),
    "xe-hpc": Architecture(
        shared_bytes=128 * KIB, register=64, matrix=16, block2d=True,
        names=r"GPU Max|Ponte ?Vecchio"
    ),
    "xe2": Architecture(
        shared_bytes=128 * KIB, register=64, matrix=16, block2d=True,
        names=r"Arc\(TM\) (Pro )?B\d|Arc\(TM\) 1[34]0V|Battlemage|Lunar ?Lake",
    ),
}  # fmt: skip
"""Name of an architecture to its facts."""


def known_targets() -> tuple[Target, ...]:
    """Every architecture with its default subgroup size; the processor first."""
    return tuple(resolve(name) for name in ARCHITECTURES)


def resolve(name: str) -> Target:
    """The target called `name`: an architecture, or one with a subgroup size (``xe2/32``)."""
    arch, slash, size = name.partition("/")
    facts = ARCHITECTURES.get(arch)
    if facts is None:
        from tegula.errors import nearest

        raise OptionError(
            f"the xpu backend knows no target '{name}'{nearest(arch, ARCHITECTURES)} "
            f"(known: {', '.join(ARCHITECTURES)})"
        )
    if slash and size not in map(str, facts.subgroups):
        sizes = ", ".join(map(str, facts.subgroups))
        raise OptionError(f"target '{name}': subgroups of {arch} have {sizes} work-items")
    return make(arch, facts, int(size) if slash else facts.subgroups[0])


def make(arch: str, facts: Architecture, subgroup: int) -> Target:
    """The target of an architecture with the facts of one device."""
    attrs = {k: v for k, v in asdict(facts).items() if k not in ("subgroups", "names")}
    return Target("xpu", arch, {**attrs, "subgroup": subgroup})


def of_device(device: Any) -> Target:
    """The target of a `dpctl.SyclDevice`."""
    arch = architecture_of(device.name, device.is_cpu)
    known = ARCHITECTURES.get(arch, Architecture(bf16=False))
    sizes = [int(size) for size in device.sub_group_sizes]
    wanted = [size for size in known.subgroups if size in sizes]
    facts = replace(
        known,
        subgroups=tuple(wanted or sorted(sizes)),
        shared_bytes=int(device.local_mem_size),
        max_threads=min(int(device.max_work_group_size), 4096),
        fp64=bool(device.has_aspect_fp64),
        fp16=bool(device.has_aspect_fp16),
        atomic64=bool(device.has_aspect_atomic64),
    )
    return make(arch, facts, facts.subgroups[0])


def architecture_of(name: str, is_cpu: bool) -> str:
    """The architecture of a device by the name that its driver gives; `xe` for an unknown GPU."""
    if is_cpu:
        return "cpu"
    for arch in reversed(ARCHITECTURES):
        pattern = ARCHITECTURES[arch].names
        if pattern and re.search(pattern, name):
            return arch
    return "xe"
