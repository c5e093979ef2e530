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


NAMED = """
import tegula
import tegula.language as lang

class Numbers:
    FACTOR = lang.constexpr(2)

class Others(Numbers):
    pass

BIAS = None

@tegula.jit
def kernel(x_ptr):
    x = lang.load(x_ptr) * Numbers.FACTOR + Others.FACTOR
    if BIAS is not None:
        x += BIAS
    lang.store(x_ptr, x)
"""


def test_classes_and_names_of_the_language_are_looked_at_again(
    tmp_path: Path, recording: ModuleType
) -> None:
    import tegula.language as tl

    module = load("tegula_test_named", tmp_path / "named.py", NAMED)
    del sys.modules["tegula_test_named"]
    other = ModuleType("other_language")
    other.__dict__.update(load=tl.load, store=tl.store)
    x = np.ones(8, np.float32)
    for change in (
        lambda: setattr(module.Numbers, "FACTOR", tl.constexpr(3)),
        lambda: setattr(module, "BIAS", tl.constexpr(1)),
        lambda: setattr(module, "BIAS", None),
        lambda: setattr(module, "lang", other),
    ):
        before = module.kernel[(1,)](x)
        bound = module.kernel._table._struct.count
        assert module.kernel[(1,)](x) is before
        assert module.kernel._table._struct.count == bound
        change()
        after = module.kernel[(1,)](x)
        assert after is not before
        assert module.kernel[(1,)](x) is after


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


REACHED = """
import tegula
import tegula.language as tl

N = tl.constexpr({number})

@tl.constexpr_function
def host(i):
    return i + {host}

@tegula.jit
def inner(x):
    return x + {inner}

@tegula.jit
def outer(x, by: tl.constexpr = {default}):
    return inner(x) * by
"""

REACHING = """
import tegula
import tegula.language as tl
import tegula_test_reached as reached

def make(value):
    captured = tl.constexpr(value)
    @tegula.jit
    def kernel(x_ptr):
        where = reached
        x = reached.outer(tl.load(x_ptr))
        tl.store(x_ptr, x + captured + where.N + reached.host(1)
+ {last}
)
    return kernel

kernel = make({closure})
"""


@pytest.mark.parametrize("edited", ["number", "host", "inner", "default", "closure", "last"])
def test_every_kind_of_edit_misses_the_disk_cache(
    tmp_path: Path, cache_dir: Path, edited: str
) -> None:
    """Also where names are reached through a helper, a variable, or lines that begin at the left:
    none of these kernels is parsed before it is looked for.
    """
    values = dict(number=1, host=2, inner=3, default=5, closure=7, last=11)

    def launch(values: dict[str, int]) -> tuple[float, int]:
        load("tegula_test_reached", tmp_path / "reached.py", REACHED.format(**values))
        module = load("tegula_test_reaching", tmp_path / "main.py", REACHING.format(**values))
        x, stores = np.ones(1, np.float32), cache.counts.stores
        module.kernel[(1,)](x, device="interpreter")
        stored = cache.counts.stores - stores
        assert ("tree" in vars(module.kernel.source)) == (stored == 1)
        return float(x[0]), stored

    def expected(number: int, host: int, inner: int, default: int, closure: int, last: int) -> int:
        return (1 + inner) * default + closure + number + 1 + host + last

    changed = {**values, edited: 13}
    assert launch(values) == (expected(**values), 1)
    assert launch(values) == (expected(**values), 0)
    assert launch(changed) == (expected(**changed), 1)
    assert launch(values) == (expected(**values), 0)
    for name in ("tegula_test_reached", "tegula_test_reaching"):
        sys.modules.pop(name, None)


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
