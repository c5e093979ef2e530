"""Names that a function refers to are found in its text, however they are written; what it does not
read is no dependency. The answers of text and tree agree.
"""

from __future__ import annotations

import ast
import linecache
import textwrap
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from kernel_runner import jit

import tegula
import tegula.language as tl
from tegula.frontend import DeviceFunction, globals_snapshot, source_key
from tegula.frontend.names import bare, dotted, dotted_in_tree, is_whole
from tegula.frontend.source import Source

settings: Any = ModuleType("settings")
choices: Any = ModuleType("choices")
mask = None

# fmt: off


@jit
def by_path(out):
    tl.store(out, settings.N + settings . N)


@jit
def by_parentheses(out):
    tl.store(out, (settings).N)


@jit
def by_choice(out, first: tl.constexpr = True):
    tl.store(out, (settings if first else choices).N)


@jit
def by_variable(out):
    where = settings
    tl.store(out, where.N)


@jit
def by_text(out):
    tl.store(out, getattr(settings, "N"))  # noqa: B009


@jit
def by_continued_line(out):
    tl.store(out, settings\
.N)


@jit
def by_interpolation(out):
    tl.static_print(f"{settings.N}")
    tl.store(out, 1)


@jit
def by_comparison(out):
    tl.store(out, settings.N==1)


@jit
def by_exclusion(out, n: tl.constexpr = 1):
    tl.store(out, n if n!=settings.N else 1)


@jit
def by_assertion(out):
    """Names in assertions are no less read where Python itself leaves assertions out."""
    assert settings.N


# fmt: on


@pytest.mark.parametrize(
    "kernel",
    [
        by_path, by_parentheses, by_choice, by_variable, by_text, by_continued_line,
        by_interpolation, by_comparison, by_exclusion, by_assertion,
    ],
    ids=lambda kernel: kernel.fn.__name__,
)  # fmt: skip
def test_names_are_found_however_they_are_written(kernel):
    settings.N = choices.N = tl.constexpr(1)
    before, snapshot = source_key(kernel), globals_snapshot(kernel)
    settings.N = tl.constexpr(2)
    assert source_key(kernel) != before
    assert set(snapshot.changed()) == {"settings.N"}


LABEL = "one"


def decorated(text):
    return lambda fn: DeviceFunction(fn)


@decorated(LABEL)
def reads_little(out, settings):
    """Mentions choices.N, which "is" not read."""  # choices.N
    tl.load(out, mask=None)
    tl.store(out, settings.N)


def test_what_is_not_read_is_no_dependency(monkeypatch):
    kernel = reads_little
    before, snapshot = source_key(kernel), globals_snapshot(kernel)
    for name in ("mask", "settings", "choices", "LABEL", "decorated", "reads_little"):
        monkeypatch.setitem(globals(), name, object())
    assert snapshot.changed() == []
    assert source_key(kernel) == before


def test_modules_that_contain_each_other_have_a_key(monkeypatch):
    monkeypatch.setattr(settings, "where", settings, raising=False)
    monkeypatch.setattr(settings, "settings", settings, raising=False)
    settings.N = tl.constexpr(1)
    before = source_key(by_variable)
    settings.N = tl.constexpr(2)
    assert source_key(by_variable) != before


@pytest.mark.parametrize(
    "text",
    [
        '"""a "b\n', "'''a\n", "f(\n", "[1,\n", "x = {\n", "x = 1 + \\\n", "'''a \\'''\n",
        '"""\n#""" )"\n', "x = ('''(\n''')]\n",
    ],
)  # fmt: skip
def test_lines_that_go_on_are_no_whole_function(text):
    code = bare("def f():\n " + text)
    assert code is not None
    assert not is_whole(code)


@pytest.mark.parametrize(
    "text",
    [
        "x = '(' + \"[\"\n", "x = '''\n(\n'''\n", "x = 1  # (\n", "x = '\\'('\n", "x = ''\n",
        'x = """a\\"""" + "("\n', 'x = "" ""\n', "x = '#'\n", "x = r'\\('\n", "x = (1 +\n# )\n2)\n",
        "x = '''it's'''\n", "x = 'a\\\nb'\n",
    ],
)  # fmt: skip
def test_strings_and_comments_are_no_code(text):
    ast.parse(text)
    code = bare("def f():\n " + text)
    assert code is not None
    assert is_whole(code)


@pytest.mark.parametrize("text", ["f'{N}'", 'x = F"{N}"', "rf'{N}'", "fR'''{N}'''", "x = Ñ"])
def test_what_only_parsing_tells_is_not_guessed(text):
    assert bare(text) is None


CORE = Path(tegula.__file__).parent
FILES = [*(CORE / "frontend").glob("*.py"), *(CORE / "runtime").glob("*.py"),
         Path(ast.__file__), Path(textwrap.__file__)]  # fmt: skip


def functions_of(path):
    """Every function of a file: its tree, and its source as found for a function object."""
    lines = linecache.getlines(str(path))
    for node in ast.walk(ast.parse("".join(lines))):
        if isinstance(node, ast.FunctionDef):
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            code = SimpleNamespace(co_filename=str(path), co_firstlineno=first)
            fn: Any = SimpleNamespace(__code__=code, __name__=node.name, __globals__={})
            yield node, Source.of(fn)


def test_text_and_tree_agree_about_many_functions():
    """Ends and names of all functions of some files, and few of them need parsing."""
    count = parsed = 0
    for node, source in (pair for path in FILES for pair in functions_of(path)):
        count += 1
        if source.code is None:
            parsed += 1
            continue
        own = node.end_lineno - source.first_line + 1
        assert source.first_line + source.header == node.lineno
        assert len(source.lines) >= own
        assert all(not s.strip() or s.strip().startswith("#") for s in source.lines[own:])
        written = {n.id for n in ast.walk(node)
                   if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)}  # fmt: skip
        found = dotted(source.code)
        for name in dotted_in_tree(node):
            root, *rest = name.split(".")
            starts = {".".join([root, *rest[:i]]) for i in range(len(rest) + 1)}
            assert starts & found or root in written, (source.file, node.name, name)
    assert count > 500
    assert parsed < 0.3 * count


def test_sources_of_usual_functions_are_not_parsed():
    for function in (by_variable, by_choice, reads_little, tl.cdiv, tl.softmax):
        source = Source.of(function.fn)
        assert source.text.startswith("def ")
        assert "tree" not in vars(source)
        assert source.tree.name == function.fn.__name__
