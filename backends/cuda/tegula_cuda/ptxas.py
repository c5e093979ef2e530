"""NVIDIA's assembler, where it is installed: PTX to machine code without a driver or a device."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tegula.config import config
from tegula.errors import CompilationError, DeviceError

BY_DRIVER = "driver"
"""Value of the setting `ptxas` that leaves assembling to the driver."""

_TIMEOUT = 600.0

_MEMORY = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1:glibc.malloc.top_pad=16777216"}
"""The C library's settings for the assembler's process: memory in large pieces. Otherwise half of
the time that a small kernel takes goes into faults of its 2,500 small pages."""


@dataclass(frozen=True)
class Assembled:
    """Machine code, and what the assembler said about it."""

    code: bytes
    registers: int
    spills: int
    """Bytes of registers that are kept in memory, stored or loaded, whichever is more."""


def find() -> str | None:
    """Path of the assembler to use; None where the driver has to assemble.

    The setting `ptxas` (`TEGULA_PTXAS`) comes first; then PATH, then the wheel `nvidia-cuda-nvcc`.
    """
    wanted = config.ptxas
    if wanted == BY_DRIVER:
        return None
    if wanted:
        path = shutil.which(wanted)
        if path is None:
            raise DeviceError(
                f"TEGULA_PTXAS is {wanted!r}, and no program is there; name NVIDIA's ptxas by its "
                f"path, or set it to '{BY_DRIVER}' to have the driver assemble"
            )
        return path
    return _installed(os.environ.get("PATH", ""))


@cache
def _installed(_path: str) -> str | None:
    found = shutil.which("ptxas")
    return found or next((str(p) for p in _in_wheels() if os.access(p, os.X_OK)), None)


def _in_wheels() -> Iterator[Path]:
    """Where NVIDIA's wheels put it, under the namespace package `nvidia`."""
    import importlib.util

    try:
        spec = importlib.util.find_spec("nvidia")
    except (ImportError, ValueError):
        return
    name = "ptxas.exe" if os.name == "nt" else "ptxas"
    for root in (spec.submodule_search_locations or ()) if spec is not None else ():
        yield from sorted(Path(root).glob(f"*/bin/{name}"), reverse=True)


def identity(path: str) -> str:
    """A text that differs between assemblers, found without running one."""
    stat = os.stat(path)
    return f"ptxas {stat.st_size} {stat.st_mtime_ns}"


@cache
def version(path: str) -> str:
    """The assembler's version, such as `13.0.88`."""
    found = re.search(r"V(\d+\.\d+\.\d+)", _run(path, "--version").stdout)
    return found[1] if found else "of unknown version"


def _run(path: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            [path, *arguments], capture_output=True, text=True, timeout=_TIMEOUT, check=False,
            env={**_MEMORY, **os.environ},
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DeviceError(
            f"{path} cannot be run ({error}); name another ptxas by TEGULA_PTXAS, or set it to "
            f"'{BY_DRIVER}' to have the driver assemble"
        ) from error


_TOO_OLD = r"gpu-name|Unsupported \.version"
_NEWER = "a newer ptxas has it: pip install -U 'nvidia-cuda-nvcc>=13', or set TEGULA_PTXAS"
_DUMP = "set TEGULA_DUMP to a directory to see the code"


def assemble(path: str, ptx: str, arch: str, kernel: str) -> Assembled:
    """Machine code for `arch` of one module with the entry `kernel`."""
    with tempfile.TemporaryDirectory(prefix="tegula-") as directory:
        source, out = Path(directory, "kernel.ptx"), Path(directory, "kernel.cubin")
        source.write_text(ptx, encoding="utf-8")
        done = _run(path, "-v", f"-arch={arch}", str(source), "-o", str(out))
        said = done.stderr + done.stdout
        if done.returncode != 0:
            raise CompilationError(
                f"ptxas {version(path)} refuses the code of kernel `{kernel}` for {arch}: "
                f"{_first_errors(said) or f'it ended with {done.returncode}'}",
                _NEWER if re.search(_TOO_OLD, said) else _DUMP,
            )
        return Assembled(out.read_bytes(), _count(r"Used (\d+) registers", said), _spills(said))


def _first_errors(said: str) -> str:
    lines = [line for line in said.splitlines() if "error" in line or "fatal" in line]
    return "; ".join(lines[:3] or said.splitlines()[:3])


def _count(pattern: str, said: str) -> int:
    return max(map(int, re.findall(pattern, said)), default=0)


def _spills(said: str) -> int:
    return max(_count(r"(\d+) bytes spill stores", said), _count(r"(\d+) bytes spill loads", said))
