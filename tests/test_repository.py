"""Facts about the repository that a change can break without any other test noticing."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

import pytest

import tegula

ROOT = Path(__file__).parents[1]
BACKENDS = [p.parent for p in sorted((ROOT / "backends").glob("*/tegula_*/plugin.py"))]
PACKAGES = [ROOT / "core" / "tegula", *BACKENDS]
CORE = [p for p in sorted((ROOT / "core").rglob("*.py")) if "torch" not in p.parts]


def project(folder: Path) -> dict:
    return tomllib.loads((folder / "pyproject.toml").read_text())


@pytest.mark.parametrize("package", PACKAGES, ids=lambda p: p.name)
def test_every_folder_of_modules_is_a_package(package):
    # A folder without __init__.py works from a checkout and is missing in the wheel.
    folders = {module.parent for module in package.rglob("*.py")}
    assert [f for f in folders if not (f / "__init__.py").exists()] == []


@pytest.mark.parametrize("package", PACKAGES, ids=lambda p: p.name)
def test_data_files_are_declared(package):
    tables = project(package.parent if package.parent != ROOT / "core" else ROOT)
    declared = tables["tool"]["setuptools"]["package-data"][package.name]
    for file in package.rglob("*"):
        if file.is_file() and file.suffix not in (".py", ".pyc"):
            assert any(file.match(pattern) for pattern in declared), file


def test_versions_agree():
    core = project(ROOT)["project"]
    assert core["version"] == tegula.__version__
    for package in BACKENDS:
        backend = project(package.parent)["project"]
        assert backend["version"] == core["version"]
        assert "tegula>=0.1,<0.2" in backend["dependencies"]


def imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            found.add(node.module.split(".")[0])
    return found


def own(path: Path) -> bool:
    """Whether a module speaks for Tegula: `compat` answers in the terms of another library."""
    return "compat" not in path.parts


@pytest.mark.parametrize("path", filter(own, CORE), ids=lambda p: str(p.relative_to(ROOT / "core")))
def test_core_imports_neither_torch_nor_a_backend(path):
    foreign = {m for m in imports(path) if m in ("torch", "cupy") or m.startswith("tegula_")}
    # Text that only mentions torch is fine; whoever needs it looks at sys.modules.
    assert foreign == set()


@pytest.mark.parametrize("path", filter(own, CORE), ids=lambda p: str(p.relative_to(ROOT / "core")))
def test_core_does_not_ask_which_backend_it_is(path):
    # The interpreter is the core's own: it is the reference that others are compared with.
    question = r"backend(?:\.name)?\s*[!=]=\s*[\"'](?!interpreter)\w+[\"']"
    found = re.findall(question, path.read_text())
    assert found == []
