"""Properties of the IR's text and of every pass, on random programs."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from strategies import Program, programs

from tegula.interp import run_kernel
from tegula.ir import ParseError, parse_module, print_module, verify
from tegula.passes import PASSES, Pipeline, default_pipeline

SEARCH = settings(
    max_examples=20,
    deadline=None,
    derandomize=True,  # one run is like another; `tegula fuzz` looks further
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)

# Passes that have nothing left to do after themselves.
IDEMPOTENT = ("inline", "canonicalize", "cse", "dce", "licm")
PIPELINES = (
    *IDEMPOTENT,
    "unroll",
    str(default_pipeline()),
    "inline,canonicalize,licm,unroll,canonicalize,cse,dce",
)


def results(program: Program, pipeline: str = "") -> dict[str, np.ndarray]:
    """What the program leaves in memory, after a pipeline."""
    module = Pipeline.parse(pipeline).run(program.module, verify=True)
    args = program.arguments()
    run_kernel(module, program.grid, args)
    return {name: a for name, a in args.items() if isinstance(a, np.ndarray)}


def assert_same_bits(expected: dict[str, np.ndarray], actual: dict[str, np.ndarray]) -> None:
    """Equal to the bit; one NaN is as good as another."""
    for name, want in expected.items():
        got = actual[name]
        if want.dtype.kind in "iub":
            assert np.array_equal(want, got), name
            continue
        wide_want, wide_got = want.astype(np.float64), got.astype(np.float64)
        assert np.array_equal(wide_want, wide_got, equal_nan=True), name
        zeros = wide_want == 0
        assert np.array_equal(np.signbit(wide_want[zeros]), np.signbit(wide_got[zeros])), name


@SEARCH
@given(programs())
def test_built_programs_verify_and_their_text_is_read_back(program: Program) -> None:
    verify(program.module)
    text = print_module(program.module)

    assert print_module(parse_module(text)) == text


@pytest.mark.parametrize("pipeline", PIPELINES)
@SEARCH
@given(program=programs())
def test_passes_keep_the_meaning(pipeline: str, program: Program) -> None:
    assert_same_bits(results(program), results(program, pipeline))


@pytest.mark.parametrize("name", IDEMPOTENT)
@SEARCH
@given(program=programs())
def test_passes_leave_nothing_for_themselves(name: str, program: Program) -> None:
    pipeline = Pipeline.parse(name)
    once = pipeline.run(program.module)

    assert pipeline.run(once) is once


@SEARCH
@given(st.text(alphabet='kernel@f(%x:i32){}=[],.0->ptr<>\n"; add-1e', max_size=80))
def test_any_text_gives_a_module_or_a_parse_error(text: str) -> None:
    with contextlib.suppress(ParseError):
        parse_module(text)


@SEARCH
@given(programs(), st.data())
def test_damaged_text_gives_a_module_or_a_parse_error(
    program: Program, data: st.DataObject
) -> None:
    text = print_module(program.module)
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 20)))
    inserted = data.draw(st.sampled_from(["", "%0", "}", "{", "i32", "[", "]", ",", "-1", "add "]))

    with contextlib.suppress(ParseError):
        parse_module(text[:start] + inserted + text[end:])


def test_every_listed_pass_prints_and_parses() -> None:
    for name in PASSES:
        if name == "expand-math":
            continue  # belongs to the math library and is tested there
        pipeline = Pipeline.parse(name)
        assert str(pipeline) == name
        assert Pipeline.parse(str(pipeline)) == pipeline
