"""Whether an artifact is what its compiler made: drivers and linkers trust the code that they get,
and damaged code ends the process.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from tegula.errors import DeviceError
from tegula.plugin.elf import Elf, ElfError
from tegula.plugin.records import Artifact

DIGEST = "digest"
"""The key in an artifact's metadata under which compilers note the digest of the code."""


def digest(code: bytes) -> str:
    """What `check_intact` compares."""
    return hashlib.sha256(code).hexdigest()


def check_intact(artifact: Artifact, backend: str, kinds: Sequence[str]) -> bool:
    """Raise a `DeviceError` unless an artifact is of one of the kinds that a driver loads, and has
    the code whose digest it notes. Whether it notes one: code without may be anything, and wants a
    look at its structure before a linker follows it.
    """
    if artifact.kind not in kinds:
        plural = "s" if len(kinds) > 1 else ""
        wanted = " and ".join(repr(kind) for kind in kinds)
        raise DeviceError(
            f"the {backend} driver loads artifacts of the kind{plural} {wanted}, not "
            f"'{artifact.kind}' (kernel '{name_of(artifact)}')"
        )
    noted = artifact.metadata.get(DIGEST)
    if noted is None:
        return False
    if noted != digest(artifact.data):
        raise damaged(artifact, f"its {len(artifact.data)} bytes are not those that were compiled")
    return True


def check_elf(artifact: Artifact, machine: int | None = None) -> Elf:
    """The object in an artifact's data, or a `DeviceError` that says what is wrong with it.

    It has to be whole, made for an architecture (by its number in ELF), and to define the entry.
    """
    try:
        elf = Elf(artifact.data)
    except ElfError as error:
        raise damaged(artifact, str(error)) from None
    if machine is not None and elf.machine != machine:
        raise damaged(artifact, f"it is made for ELF machine {elf.machine}, not {machine}")
    if (artifact.entry, True) not in elf.symbols():
        raise damaged(artifact, f"it does not define '{artifact.entry}'")
    return elf


def damaged(artifact: Artifact, why: str) -> DeviceError:
    """The error about an artifact whose code cannot be used."""
    return DeviceError(
        f"the code of kernel '{name_of(artifact)}' ({artifact.kind}) is damaged: {why}; compile it "
        "again"
    )


def name_of(artifact: Artifact) -> str:
    """What the kernel is called in messages: its function's name, where the artifact notes it."""
    return str(artifact.metadata.get("name", artifact.entry))
