"""The GPU architectures that the CUDA backend makes code for, and what their hardware has."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from tegula.plugin import OptionError, Target

TRIPLE = "nvptx64-nvidia-cuda"
WARP_SIZE = 32
MAX_THREADS = 1024
"""Threads of one program, on every architecture here."""
STATIC_SHARED = 48 << 10
"""Bytes of shared memory that a kernel has without asking for more."""
MAX_GRID = (2**31 - 1, 65535, 65535)


@dataclass(frozen=True)
class Architecture:
    """One row of the table below; the fields are what programs of one kernel can use."""

    capability: int
    """Compute capability, times ten."""
    ptx: int
    """Version of PTX that its code is written in, times ten: the oldest with all it needs."""
    shared: int
    """Bytes of shared memory per program."""
    shared_per_sm: int
    """Bytes of shared memory per multiprocessor."""
    threads_per_sm: int
    features: tuple[str, ...]


_TURING = ("ldmatrix", "mma_f16", "mma_i8")
_AMPERE = (*_TURING, "bf16", "tf32", "mma_f64", "cp_async", "mbarrier", "redux")
_ADA = (*_AMPERE, "fp8", "mma_fp8")
_CLUSTERS = ("clusters", "tma", "stmatrix", "pdl", "atomic_f16_vector")
_HOPPER = (*_ADA, *_CLUSTERS, "mma_f64_wide")
_KIB = 1 << 10

ARCHITECTURES: dict[str, Architecture] = {
    "sm_75": Architecture(75, 78, 64 * _KIB, 64 * _KIB, 1024, _TURING),
    "sm_80": Architecture(80, 78, 163 * _KIB, 164 * _KIB, 2048, _AMPERE),
    "sm_86": Architecture(86, 78, 99 * _KIB, 100 * _KIB, 1536, _AMPERE),
    "sm_89": Architecture(89, 84, 99 * _KIB, 100 * _KIB, 1536, _ADA),
    "sm_90": Architecture(90, 84, 227 * _KIB, 228 * _KIB, 2048, _HOPPER),
    "sm_90a": Architecture(90, 84, 227 * _KIB, 228 * _KIB, 2048, (*_HOPPER, "wgmma", "setmaxnreg")),
    "sm_100a": Architecture(
        100, 86, 227 * _KIB, 228 * _KIB, 2048, (*_HOPPER, "tcgen05", "fp4", "setmaxnreg")
    ),
    "sm_103a": Architecture(
        103, 88, 227 * _KIB, 228 * _KIB, 2048, (*_HOPPER, "tcgen05", "fp4", "setmaxnreg")
    ),
    "sm_120a": Architecture(120, 87, 99 * _KIB, 100 * _KIB, 1536, (*_HOPPER, "fp4")),
}
"""The targets, the oldest first. A name that ends in `a` has instructions of that one chip family,
and its code runs on no other.
"""

DRIVERS = {78: (12, 0), 84: (12, 4), 86: (12, 7), 87: (12, 8), 88: (12, 9)}
"""The version of CUDA, 12.0 or later, from which on drivers read a version of PTX."""

_FIRST = ("sm_90a", "sm_100a", "sm_80")
"""Targets that `tegula compile` and the conformance suite take first where no device says."""


def known_targets() -> tuple[Target, ...]:
    """The targets, the most useful first."""
    return tuple(map(resolve, (*_FIRST, *(n for n in ARCHITECTURES if n not in _FIRST))))


@cache
def resolve(name: str) -> Target:
    """The target called `name`: `sm_90a`, or another name of `ARCHITECTURES`."""
    found = ARCHITECTURES.get(name)
    if found is None:
        from tegula.errors import nearest

        raise OptionError(
            f"the cuda backend knows no target '{name}'{nearest(name, ARCHITECTURES)} "
            f"(known: {', '.join(ARCHITECTURES)})"
        )
    return _target(name, found)


def _target(name: str, a: Architecture) -> Target:
    return Target(
        "cuda",
        name,
        {
            "triple": TRIPLE,
            "cpu": name,
            "capability": a.capability,
            "ptx": a.ptx,
            "warp_size": WARP_SIZE,
            "max_threads": MAX_THREADS,
            "shared_bytes": a.shared,
            "shared_per_sm": a.shared_per_sm,
            "threads_per_sm": a.threads_per_sm,
            "registers_per_sm": 65536,
            "features": ",".join(a.features),
        },
    )


def of_device(major: int, minor: int) -> Target | None:
    """The target whose code suits a device best; None if the device is older than all of them.

    Code of an older architecture of the same generation runs on its newer members, and code for
    plain (not `a`) targets on everything newer.
    """
    capability = 10 * major + minor
    exact = [n for n, a in ARCHITECTURES.items() if a.capability == capability]
    if exact:
        return resolve(exact[-1])
    older = [
        n for n, a in ARCHITECTURES.items() if a.capability < capability and not n.endswith("a")
    ]
    return resolve(older[-1]) if older else None


@cache
def features_of(target: Target) -> frozenset[str]:
    """What the target's hardware has beyond the oldest architecture's."""
    return frozenset(target["features"].split(","))
