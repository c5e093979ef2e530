"""The pages on math functions say what the declarations say, and what was measured."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tegula.codegen.math.library import library
from tegula.codegen.math.references import SAME, has_reference

BENCHMARKS = Path(__file__).parents[2] / "benchmarks/math"


def _pages() -> ModuleType:
    spec = importlib.util.spec_from_file_location("pages_of_math", BENCHMARKS / "pages.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _results() -> dict[str, Any]:
    results: dict[str, Any] = json.loads((BENCHMARKS / "accuracy.json").read_text())
    return results


def test_pages_are_those_that_the_declarations_give() -> None:
    for path, text in _pages().render(_results()).items():
        assert path.read_text() == text, "run `python benchmarks/math/accuracy.py --write`"


@pytest.mark.parametrize("f", [f for f in library().values() if has_reference(f.name)],
                         ids=lambda f: f.name)  # fmt: skip
def test_measured_errors_are_within_the_bounds(f: Any) -> None:
    results = _results()
    for s in f.signatures:
        entry = results[f"{SAME.get(f.name, f.name)}: {s}"]
        assert entry["error"] <= f.bound(s.float_type).ulp and entry["tried"] > 0
