"""Cache keys follow what compiled code depends on; sources are found cheaply and exactly."""

from __future__ import annotations

import importlib.util
import itertools
import subprocess
import sys
import textwrap
from types import ModuleType

import pytest
from kernel_runner import jit

import tegula.language as tl
from tegula.frontend import (
    DeviceFunction,
    constant_key,
    frontend_fingerprint,
    globals_snapshot,
    source_key,
)

_numbers = itertools.count()

KERNEL = """
import tegula.language as tl
from tegula.frontend import DeviceFunction as jit

N = tl.constexpr({n})
DTYPE = tl.{dtype}

@tl.constexpr_function
def table(i):
    return i + {table}

@jit
def helper(x):
    return x + {added}

@jit
def kernel(out, x, f=None):
    y = helper(tl.load(x)).to(DTYPE) + N + table(1)
    tl.store(out, y){tail}
"""


def load(tmp_path, **changes):
    """A module with the kernel above, changed in places."""
    values = {"n": 4, "dtype": "int32", "table": 1, "added": 2, "tail": "", **changes}
    path = tmp_path / f"kernels_{next(_numbers)}.py"
    path.write_text(KERNEL.format(**values))
    spec = importlib.util.spec_from_file_location("kernels_under_test", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_equal_text_gives_equal_keys(tmp_path):
    assert source_key(load(tmp_path).kernel) == source_key(load(tmp_path).kernel)


@pytest.mark.parametrize(
    "change",
    [{"n": 5}, {"dtype": "int64"}, {"added": 3}, {"tail": "  # seen"}, {"table": 7}],
    ids=str,
)
def test_every_dependency_is_in_the_key(tmp_path, change):
    assert source_key(load(tmp_path).kernel) != source_key(load(tmp_path, **change).kernel)


def test_a_changed_global_changes_the_key(tmp_path):
    module = load(tmp_path)
    before, snapshot = source_key(module.kernel), globals_snapshot(module.kernel)
    assert snapshot.changed() == []

    module.N = tl.constexpr(17)
    assert source_key(module.kernel) != before
    assert snapshot.changed() == ["N"]

    module.N = tl.constexpr(4)
    assert source_key(module.kernel) == before


def test_a_replaced_helper_changes_the_key(tmp_path):
    module, other = load(tmp_path), load(tmp_path, added=9)
    before, snapshot = source_key(module.kernel), globals_snapshot(module.kernel)
    module.helper = other.helper
    assert source_key(module.kernel) != before
    assert snapshot.changed() == ["helper"]


def test_names_of_the_language_are_watched_by_their_module(tmp_path):
    module = load(tmp_path)
    snapshot = globals_snapshot(module.kernel)
    assert [path for _, path, _ in snapshot.entries if path[0] == "tl"] == [("tl",)]
    module.tl = ModuleType("other")
    assert snapshot.changed() == ["tl"]


def make(value):
    captured = tl.constexpr(value)

    @jit
    def kernel(out):
        tl.store(out, captured)

    return kernel


def test_closures_are_in_the_key():
    assert source_key(make(1)) == source_key(make(1)) != source_key(make(2))


@jit
def recursive(n: tl.constexpr):
    return 1 if n == 0 else recursive(n - 1)


def test_recursive_functions_have_a_key():
    assert source_key(recursive) == source_key(recursive)


def test_keys_of_constants_differ_where_code_differs():
    values = [
        1, True, 1.0, 0.0, -0.0, float("nan"), "1", None, (1, 2), (1, (2,)), tl.float32, tl.int32,
        tl.pointer_type(tl.float32), tl.PropagateNan.ALL, tl.PropagateNan.NONE, recursive, make(1),
        make(2), int, tl.constexpr(1), b"1", [1, 2],
    ]  # fmt: skip
    keys = [constant_key(v) for v in values]
    assert len(set(keys)) == len(values)
    assert keys == [constant_key(v) for v in values]
    with pytest.raises(TypeError, match="no stable text"):
        constant_key(object())


def test_keys_are_the_same_in_every_process(tmp_path):
    module = load(tmp_path)
    code = f"""
        import importlib.util
        spec = importlib.util.spec_from_file_location("kernels_under_test", {module.__file__!r})
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        from tegula.frontend import source_key
        print(source_key(module.kernel))
    """
    out = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True
    )
    assert out.stdout.strip() == source_key(module.kernel)


def test_fingerprint_is_stable():
    assert frontend_fingerprint() == frontend_fingerprint()


# ---- sources


# fmt: off
def odd_layout(
    out,
):
    text = """
not indented (
"""
# a comment further left is part of nothing

    if text:
        tl.store(out,
1)


# fmt: on
class Holder:
    @jit
    def method(out):
        """One indented function."""
        tl.store(out, 1)

    after = 1


def test_the_end_of_a_function_is_found():
    source = DeviceFunction(odd_layout).source
    assert source.lines[0] == "def odd_layout(\n" and source.lines[-1] == "1)\n"
    assert source.text.startswith("def odd_layout(")


def test_indented_functions_keep_their_columns():
    source = Holder.method.source
    assert source.lines[0].strip() == "@jit"
    assert source.text.startswith("def method(out):\n    ")
    statement = source.tree.body[1]
    assert statement.col_offset == 8
    assert source.line_text(source.line_of(statement)).strip() == "tl.store(out, 1)"


def test_a_file_that_changed_is_noticed(tmp_path):
    from tegula.errors import SourceError

    module = load(tmp_path)
    with open(module.__file__, "w") as f:
        f.write("# nothing here\n" * 40)
    with pytest.raises(SourceError, match="has changed since it was imported"):
        module.kernel.source  # noqa: B018


# ---- host functions that run at compile time

limits = ModuleType("limits")


def make_host(captured, default):
    @tl.constexpr_function
    def host(i, step=default):
        return i + captured + step + limits.N

    @jit
    def kernel(out):
        tl.store(out, host(1))

    return kernel


def test_host_functions_count_with_what_they_capture():
    limits.N = 1
    before = source_key(make_host(1, 2))
    assert source_key(make_host(1, 2)) == before
    assert source_key(make_host(5, 2)) != before
    assert source_key(make_host(1, 5)) != before
    limits.N = 5
    assert source_key(make_host(1, 2)) != before


@jit
def takes_texts(out):
    N = 1
    tl.store(out, N)


N = tl.constexpr(1)


def test_a_replaced_text_has_other_variables(monkeypatch):
    takes_texts.replace_source("def takes_texts(out):\n    tl.store(out, N)\n")
    before, snapshot = source_key(takes_texts), globals_snapshot(takes_texts)
    monkeypatch.setitem(globals(), "N", tl.constexpr(2))
    assert source_key(takes_texts) != before
    assert snapshot.changed() == ["N"]
