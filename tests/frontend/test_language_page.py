"""The kernels of docs/language.md do what the page says."""

from __future__ import annotations

import re
import sys
import types
from pathlib import Path

import numpy as np
import pytest

import tegula
import tegula.language as tl

PAGE = Path(__file__).parents[2] / "docs" / "language.md"


@pytest.fixture
def page(tmp_path, monkeypatch):
    """The page's kernels as a module."""
    source = "import tegula\nimport tegula.language as tl\n"
    source += "\n".join(re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S))
    path = tmp_path / "language_page.py"
    path.write_text(source)
    module = types.ModuleType("language_page")
    module.__file__ = str(path)
    monkeypatch.setitem(sys.modules, "language_page", module)
    exec(compile(source, str(path), "exec"), module.__dict__)
    return module


def test_routing(page, backend_name):
    logits = np.random.default_rng(1).standard_normal((5, 12)).astype(np.float32)
    weight, expert = np.zeros((5, 3), np.float32), np.zeros((5, 3), np.int32)
    with tegula.use_device(backend_name):
        page.route[(5,)](weight, expert, logits, 12, 3)
    order = np.argsort(-logits, 1)[:, :3]
    best = np.exp(np.take_along_axis(logits, order, 1))
    np.testing.assert_array_equal(expert, order)
    np.testing.assert_allclose(weight, best / best.sum(1, keepdims=True), rtol=1e-5)


def test_transposing(page, backend_name):
    x = np.random.default_rng(1).standard_normal((5, 13)).astype(np.float32)
    out = np.zeros((13, 5), np.float32)
    with tegula.use_device(backend_name):
        page.transpose[(1,)](out, x, 5, 13, 8, 4)
    np.testing.assert_array_equal(out, x.T)


def test_names_exist():
    names = set(re.findall(r"`tl\.([a-z_0-9]+)", PAGE.read_text()))
    assert len(names) > 15
    assert {n for n in names if not hasattr(tl, n)} == set()


@pytest.mark.parametrize("name", ["float8e5", "float8e5b16", "float8e4nv", "float8e4b8",
                                  "float8e4b15"])  # fmt: skip
def test_table_of_floats(name):
    from tegula.codegen.float8 import LARGEST

    (row,) = [line for line in PAGE.read_text().splitlines() if line.startswith(f"| `{name}`")]
    _, bits, bias, largest = (cell.strip() for cell in row.split("|")[1:5])
    t = getattr(tl, name)
    mantissa = t.fp_mantissa_width
    assert bits == f"{7 - mantissa}, {mantissa}" and int(bias) == t.exponent_bias
    top = LARGEST[t.ir.name][0]
    fraction = (top & ((1 << mantissa) - 1)) / 2**mantissa
    assert float(largest) == (1 + fraction) * 2.0 ** ((top >> mantissa) - int(bias))
