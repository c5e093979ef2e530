"""Pipelines: text, errors, checks between passes."""

from __future__ import annotations

import inspect
import re
import textwrap
from dataclasses import dataclass

import pytest

from tegula.config import config
from tegula.ir import Builder, Function, Module, VerifyError, i32, parse_module, print_module
from tegula.passes import PASSES, Pass, PassContext, Pipeline, default_pipeline
from tegula.passes.pipeline import PipelineError
from tegula.passes.unroll import Unroll

KERNEL = """
kernel @k(%p: ptr<i32>, %x: i32) {
  %0 = constant {value = 0} : i32
  %1 = add %x, %0 : i32
  store %p, %1
  return
}
"""


def test_options_print_and_parse() -> None:
    pipeline = Pipeline.parse(" canonicalize , unroll{max_trip = 4},dce")

    assert str(pipeline) == "canonicalize,unroll{max_trip = 4},dce"
    assert Pipeline.parse(str(pipeline)) == pipeline
    assert pipeline.passes[1] == Unroll(max_trip=4)


def test_default_options_are_not_printed() -> None:
    assert str(Pipeline([Unroll(max_trip=8)])) == "unroll"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("canonicalise", r"there is no pass 'canonicalise' .*did you mean 'canonicalize'"),
        ("unroll{max_trips=4}", r"no option 'max_trips' \(it has: max_trip, max_ops\)"),
        ("unroll{max_trip=few}", "option max_trip of pass unroll is int, not 'few'"),
        ("cse dce", "cannot read the pipeline"),
    ],
)
def test_wrong_text(text: str, message: str) -> None:
    with pytest.raises(PipelineError, match=message):
        Pipeline.parse(text)


def test_pipelines_add_up() -> None:
    assert Pipeline.parse("cse") + Pipeline.parse("dce") == Pipeline.parse("cse,dce")


@dataclass(frozen=True)
class Breaking(Pass):
    """Uses a value that does not exist."""

    name = "breaking"

    def run(self, module: Module, ctx: PassContext) -> Module:
        b = Builder()
        stray = Builder().constant(1, i32)
        b.add(stray, stray)
        b.return_()
        return Module([Function("k", b.block)])


@dataclass(frozen=True)
class Mutating(Pass):
    """Changes what it is given."""

    name = "mutating"

    def run(self, module: Module, ctx: PassContext) -> Module:
        del module.kernels[0].body.ops[-2]
        return module


def test_verification_finds_a_pass_that_breaks_the_module() -> None:
    module = parse_module(KERNEL)

    Pipeline([Breaking()]).run(module, verify=False)
    with pytest.raises(VerifyError, match="not defined before its use"):
        Pipeline([Breaking()]).run(module, verify=True)


def test_verification_finds_a_pass_that_changes_its_input() -> None:
    with pytest.raises(AssertionError, match="mutating changed the module"):
        Pipeline([Mutating()]).run(parse_module(KERNEL), verify=True)


def test_the_setting_asks_for_verification() -> None:
    with config.scope(verify=True), pytest.raises(VerifyError):
        Pipeline([Breaking()]).run(parse_module(KERNEL))


def test_what_was_done_is_recorded() -> None:
    ctx = PassContext(trace=[], timings=[])
    seen = []

    Pipeline.parse("canonicalize,canonicalize").run(
        parse_module(KERNEL), ctx=ctx, after=lambda p, m: seen.append(p.name)
    )

    assert [entry.rule for entry in ctx.trace or ()] == ["add_zero"]
    assert [(t.name, t.changed) for t in ctx.timings or ()] == [
        ("canonicalize", True),
        ("canonicalize", False),
    ]
    assert seen == ["canonicalize", "canonicalize"]


def test_the_default_pipeline_keeps_an_optimised_module() -> None:
    pipeline = default_pipeline()
    once = pipeline.run(parse_module(KERNEL))

    assert pipeline.run(once) is once


def test_extra_passes_of_a_backend() -> None:
    pipeline = Pipeline.parse("cse,breaking", extra={"breaking": Breaking})

    assert pipeline.passes[1] == Breaking()


EXAMPLE = re.compile(r"Before[^\n]*:\n(.*?)\nAfter[^\n]*:\n(.*)", re.DOTALL)


@pytest.mark.parametrize("name", [n for n in PASSES if n != "expand-math"])
def test_the_example_of_a_pass_is_true(name: str) -> None:
    pipeline = Pipeline.parse(name)
    found = EXAMPLE.search(inspect.getdoc(type(pipeline.passes[0])) or "")
    assert found is not None, "the docstring needs a before and an after"
    before, after = (parse_module(textwrap.dedent(text)) for text in found.groups())

    assert print_module(pipeline.run(before, verify=True)) == print_module(after)
