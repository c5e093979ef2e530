"""The table of rules: every rule has its algebra, and is seen at work by a file test."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tegula.ir import Value, parse_module
from tegula.passes import PassContext, Pipeline
from tegula.passes.canonicalize import RULES
from tegula.rewrite import Rewriter, Rules, apply_rules
from tegula.tools.filetest import read_cases

HERE = Path(__file__).parent


def applied_rules() -> set[str]:
    """Names of the rules that the file tests apply."""
    names: set[str] = set()
    for path in sorted(HERE.glob("canonicalize*.tir")):
        for case in read_cases(path):
            ctx = PassContext(trace=[])
            Pipeline.parse(case.argument).run(parse_module(case.code), ctx=ctx)
            names.update(entry.rule for entry in ctx.trace or ())
    return names


def test_every_rule_is_applied_by_some_file_test() -> None:
    assert sorted({rule.name for rule in RULES} - applied_rules()) == []


def test_every_rule_says_what_it_does() -> None:
    for rule in RULES:
        assert "==" in rule.algebra or "does nothing" in rule.algebra or " is " in rule.algebra, (
            rule
        )


def test_rules_need_an_algebra_and_known_ops() -> None:
    table = Rules("test")

    with pytest.raises(ValueError, match="needs its algebra"):
        table.rule("add")(lambda op, b: None)
    with pytest.raises(ValueError, match="unknown|known ops"):
        table.rule("no_such_op")


def test_the_budget_ends_rules_that_chase_each_other() -> None:
    table = Rules("test")

    @table.rule("add")
    def swap(op: object, b: Rewriter) -> Value:
        """x + y == y + x"""
        x, y = op.operands  # type: ignore[attr-defined]
        return b.add(y, x)

    module = parse_module("kernel @k(%p: ptr<i32>, %x: i32) {\n%0 = add %x, %x : i32\nreturn\n}")
    (kernel,) = module.kernels

    after = apply_rules(kernel, table, budget=50)

    assert [op.name for op in after.body.ops] == ["add", "return"]


def test_nothing_to_do_gives_the_same_object() -> None:
    module = parse_module("kernel @k(%p: ptr<i32>, %x: i32) {\nstore %p, %x\nreturn\n}")
    (kernel,) = module.kernels

    assert apply_rules(kernel, RULES) is kernel


def test_folding_is_silent(recwarn: pytest.WarningsRecorder) -> None:
    module = parse_module(
        "kernel @k(%p: ptr<f32>) {\n"
        "%0 = constant {value = 3e38} : f32\n"
        "%1 = mul %0, %0 : f32\n"
        "store %p, %1\n"
        "return\n}"
    )

    after = Pipeline.parse("canonicalize,dce").run(module)

    (kernel,) = after.kernels
    assert kernel.body.ops[0].attrs["value"] == np.inf
    assert not recwarn.list
