"""The code of docs/python.md does what the page says."""

from __future__ import annotations

import builtins
import re
import sys
import types
from pathlib import Path

import numpy as np
import pytest

import tegula
import tegula.language as tl
from tegula.config import config
from tegula.frontend.globals import PYTHON

PAGE = Path(__file__).parents[2] / "docs" / "python.md"

MEANS = """
@tegula.jit
def means(out, x, n):
    r = Running(0.0, 0)
    for i in range(n):
        r = r.push(tl.load(x + i))
    tl.store(out, r.mean)
    tl.store(out + 1, r.count + r.unbiased)
"""


@pytest.fixture
def page(tmp_path, monkeypatch):
    """The page's code as a module."""
    source = "import tegula\nimport tegula.language as tl\n"
    source += "\n".join(re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)) + MEANS
    path = tmp_path / "python_page.py"
    path.write_text(source)
    module = types.ModuleType("python_page")
    module.__file__ = str(path)
    monkeypatch.setitem(sys.modules, "python_page", module)
    exec(compile(source, str(path), "exec"), module.__dict__)
    return module


@pytest.mark.parametrize("debugger", [False, True])
@pytest.mark.parametrize("place", [0, 9, 36, None])
def test_first_positive(page, backend_name, place, debugger):
    x, out = -np.ones(37, np.float32), np.zeros(1, np.int32)
    if place is not None:
        x[place:] = 1
    device = "interpreter" if debugger else backend_name
    with tegula.use_device(device), config.scope(debugger=debugger):
        page.first_positive[(1,)](out, x, 37, B=8)
    assert out[0] == (-1 if place is None else place)


def test_running_mean(page, backend_name):
    x, out = np.array([1, 2, 6], np.float32), np.zeros(2, np.float32)
    with tegula.use_device(backend_name):
        page.means[(1,)](out, x, 3)
    assert out.tolist() == [3.0, 4.0]


def test_the_functions_that_the_page_lists():
    listed = re.search(r"`(abs all.*?)`", PAGE.read_text(), re.S)
    assert listed is not None
    names = set(listed.group(1).split())
    assert names <= set(PYTHON) and all(hasattr(builtins, name) for name in names)
    assert hasattr(tl, "aggregate_replace")
