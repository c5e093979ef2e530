"""Edits of helpers and captured globals are seen by the next launch, in this process and through
the disk cache.
"""

from __future__ import annotations

import importlib.util
import linecache
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tegula.config import config
from tegula.runtime import cache

HELPERS = """
import tegula
import tegula.language as tl

SCALE = tl.constexpr({scale})

@tegula.jit
def shift(x):
    return x + {shift}
"""

KERNELS = """
import tegula
import tegula.language as tl
import {helpers} as helpers
from {helpers} import shift

FACTOR = tl.constexpr(10)

@tegula.jit
def kernel(x_ptr, n, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n)
    tl.store(x_ptr + offs, shift(x) * FACTOR * helpers.SCALE, mask=offs < n)
"""

DEVICES = ["interpreter", "recording"]


def load(name: str, path: Path, text: str) -> ModuleType:
    path.write_text(textwrap.dedent(text))
    linecache.checkcache()
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def modules(tmp_path: Path, recording: ModuleType) -> Any:
    helpers = load("tegula_test_helpers", tmp_path / "h.py", HELPERS.format(scale=1, shift=2))
    kernels = load(
        "tegula_test_kernels", tmp_path / "k.py", KERNELS.format(helpers="tegula_test_helpers")
    )
    yield helpers, kernels
    for name in ("tegula_test_helpers", "tegula_test_kernels"):
        sys.modules.pop(name, None)


def result(kernels: ModuleType) -> float:
    x = np.ones(8, np.float32)
    kernels.kernel[(1,)](x, 8, BLOCK=8)
    return float(x[0])


def test_global_edits_are_seen(modules: Any, tmp_path: Path) -> None:
    import tegula.language as tl

    helpers, kernels = modules
    with config.scope(device="interpreter"):
        assert result(kernels) == 30
        kernels.FACTOR = tl.constexpr(100)
        assert result(kernels) == 300
        helpers.SCALE = tl.constexpr(2)
        assert result(kernels) == 600
        other = load("tegula_test_helpers2", tmp_path / "h2.py", HELPERS.format(scale=1, shift=9))
        kernels.shift = other.shift
        assert result(kernels) == 2000
        kernels.FACTOR = tl.constexpr(10)
        assert result(kernels) == 200


def test_global_edits_are_seen_by_the_native_path(modules: Any) -> None:
    import tegula.language as tl

    helpers, kernels = modules
    x = np.ones(8, np.float32)

    def launch() -> Any:
        return kernels.kernel[(1,)](x, 8, BLOCK=8)

    first = launch()
    assert launch() is first
    for change in (
        lambda: setattr(kernels, "FACTOR", tl.constexpr(7)),
        lambda: setattr(helpers, "SCALE", tl.constexpr(3)),
        lambda: setattr(kernels, "helpers", ModuleType("empty")),
    ):
        before = launch()
        change()
        try:
            after = launch()
        except Exception as error:
            assert "SCALE" in str(error)  # the empty module
            continue
        assert after is not before
        assert after.hash != before.hash
        assert launch() is after


SCRIPT = """
import sys
sys.path.insert(0, {folder!r})
import numpy as np
import tegula.frontend
tegula.frontend.frontend_fingerprint = lambda: "the core did not change"
from k import kernel
from tegula.runtime import cache
x = np.ones(8, np.float32)
kernel[(1,)](x, 8, BLOCK=8, device="interpreter")
print(float(x[0]), cache.counts.hits, cache.counts.stores)
"""


def test_edited_files_miss_the_disk_cache(tmp_path: Path, cache_dir: Path) -> None:
    def run(scale: int, shift: int) -> list[float]:
        (tmp_path / "h.py").write_text(HELPERS.format(scale=scale, shift=shift))
        (tmp_path / "k.py").write_text(KERNELS.format(helpers="h"))
        out = subprocess.run(
            [sys.executable, "-B", "-c", SCRIPT.format(folder=str(tmp_path))],
            env={**os.environ, "TEGULA_CACHE_DIR": str(cache_dir)},
            capture_output=True,
            text=True,
            check=True,
        )
        return [float(v) for v in out.stdout.split()]

    value, _, stores = run(1, 2)
    assert (value, stores >= 1) == (30, True)
    value, hits, stores = run(1, 2)
    assert (value, hits >= 1, stores) == (30, True, 0)
    value, _, stores = run(1, 4)
    assert (value, stores) == (50, 1)
    value, _, stores = run(3, 4)
    assert (value, stores) == (150, 1)
    value, hits, stores = run(1, 2)
    assert (value, stores) == (30, 0)


@pytest.mark.parametrize("given", [{"__name__": "__main__"}, {}], ids=["named", "nameless"])
def test_notebook_cells_work(given: dict[str, Any]) -> None:
    """A kernel from a string that linecache knows, as notebooks and the newer prompts provide."""
    text = textwrap.dedent(
        """
        import tegula
        import tegula.language as tl
        @tegula.jit
        def cell_kernel(x_ptr):
            tl.store(x_ptr, 5.0)
        """
    )
    linecache.cache["<cell 1>"] = (len(text), None, text.splitlines(True), "<cell 1>")
    space = dict(given)
    exec(compile(text, "<cell 1>", "exec"), space)
    x = np.zeros(1, np.float32)
    space["cell_kernel"][(1,)](x, device="interpreter")
    assert x[0] == 5


def test_kernel_without_source_is_explained() -> None:
    space: dict[str, Any] = {"__name__": "__main__"}
    exec("import tegula\n@tegula.jit\ndef lost(x):\n    pass\n", space)
    with pytest.raises(Exception, match="source"):
        space["lost"][(1,)](np.zeros(1), device="interpreter")


def test_unhashable_constants_are_not_cached_on_disk(recording: ModuleType) -> None:
    import tegula
    import tegula.language as tl

    class Odd:
        pass

    @tegula.jit
    def takes_odd(x, C: tl.constexpr):
        pass

    x = np.zeros(4, np.float32)
    odd = Odd()
    stores = cache.counts.stores
    compiled = takes_odd[(1,)](x, odd)
    assert compiled.hash == ""
    assert takes_odd[(1,)](x, odd) is compiled
    assert takes_odd[(1,)](x, Odd()) is not compiled
    assert cache.counts.stores == stores
