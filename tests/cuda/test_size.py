"""The backend is thin: what is not NVIDIA's lies in the core."""

from __future__ import annotations

from pathlib import Path

import pytest

tegula_cuda = pytest.importorskip("tegula_cuda")

MOST = 2500


def test_the_backend_has_fewer_lines_than_allowed() -> None:
    folder = Path(tegula_cuda.__file__).parent
    files = [p for p in folder.rglob("*") if p.suffix in (".py", ".ll")]
    lines = [line for p in files for line in p.read_text(encoding="utf-8").splitlines()]
    assert any(p.name == "launch.ll" for p in files)
    assert sum(bool(line.strip()) for line in lines) < MOST
