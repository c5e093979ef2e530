"""The example backend of docs/plugins.md is installed as it stands there and has to work."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from plugin.test_cli import lines_of, tegula

from tegula.ir import parse_module
from tegula.plugin import UnsupportedError
from tegula.tools import execute

PAGE = Path(__file__).parents[2] / "docs" / "plugins.md"


def blocks(language: str) -> dict[str, str]:
    """Code blocks that begin with a file's name in a comment."""
    found = re.findall(rf"```{language}\n# (\S+)\n(.*?)```", PAGE.read_text(), re.S)
    return dict(found)


@pytest.fixture
def example(install):
    files = blocks("python")
    assert set(files) == {f"tegula_acme/{n}.py" for n in ("plugin", "compiler", "driver")}
    (install.folder / "tegula_acme").mkdir()
    for path, source in files.items():
        (install.folder / path).write_text(source)
    project = blocks("toml")["pyproject.toml"]
    (entry,) = re.findall(r'\[project.entry-points."tegula.backends"\]\n(.*)\n', project)
    install.write_metadata("tegula-acme", f"[tegula.backends]\n{entry.replace(chr(34), '')}\n")
    yield install
    for module in [m for m in sys.modules if m.startswith("tegula_acme")]:
        del sys.modules[module]


def test_example_runs_a_kernel(example):
    process = tegula(example, "doctor", "acme", "--deep", "--json")
    assert process.returncode == 0, process.stdout
    assert "right results" in lines_of(process)["backend acme", "kernel on acme:0"]["message"]


def test_example_is_listed(example):
    rows = json.loads(tegula(example, "backends", "--json").stdout)["backends"]
    assert {"acme", "interpreter"} <= {r["name"] for r in rows if r["state"] == "available"}


@pytest.fixture
def acme(example, registry, monkeypatch):
    monkeypatch.setattr("tegula.plugin.registry.registry", registry)
    return registry.backend("acme")


def test_example_runs_on_arrays_without_a_mask(acme):
    module = parse_module(
        """kernel @square(%x: ptr<f64>) {
          %i = arange {start = 0, end = 5} : i32[5]
          %xs = splat %x {shape = [5]} : ptr<f64>[5]
          %p = addptr %xs, %i : ptr<f64>[5]
          %v = load %p : f64[5]
          %w = mul %v, %v : f64[5]
          store %p, %w
          return
        }"""
    )
    x = np.arange(5.0)
    execute.run_on(module, 1, {"x": x}, "acme")
    assert x.tolist() == [0, 1, 4, 9, 16]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("%w = div %v, %v : f64[5]", "cannot compile 'div'"),
        ("%b = cast %v {to = f16} : f16[5]\n  %w = cast %b {to = f64} : f64[5]", "'cast'"),
    ],
)
def test_example_says_what_it_cannot_compile(acme, line, words):
    module = parse_module(
        f"""kernel @k(%x: ptr<f64>) {{
          %i = arange {{start = 0, end = 5}} : i32[5]
          %xs = splat %x {{shape = [5]}} : ptr<f64>[5]
          %p = addptr %xs, %i : ptr<f64>[5]
          %v = load %p : f64[5]
          {line}
          store %p, %w
          return
        }}"""
    )
    with pytest.raises(UnsupportedError, match=words):
        execute.run_on(module, 1, {"x": np.arange(5.0)}, "acme")


def test_first_kernel_of_the_readme_runs_as_written(tmp_path):
    readme = (PAGE.parents[1] / "README.md").read_text()
    (program,) = re.findall(r"```python\n(.*?)```", readme, re.S)
    (tmp_path / "first.py").write_text(program)
    subprocess.run([sys.executable, str(tmp_path / "first.py")], check=True)
