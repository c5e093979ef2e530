"""The pass `expand-math`."""

from __future__ import annotations

import numpy as np
import pytest

from tegula import ir
from tegula.codegen.math import FUNCTIONS, ExpandMath
from tegula.codegen.math.measure import operation_counts
from tegula.interp import run_kernel
from tegula.passes import PassContext, Pipeline

BASIC = {
    "constant", "add", "sub", "mul", "div", "fma", "neg", "abs", "sqrt", "and", "or", "xor", "not",
    "shl", "shr", "mulhi", "cmp", "select", "cast", "bitcast",
}  # fmt: skip


def expanded(text: str, **options: object) -> ir.Module:
    module = ExpandMath(**options).run(ir.parse_module(text), PassContext())  # type: ignore[arg-type]
    ir.verify(module)
    return module


def unary(name: str, type: str) -> str:
    return f"func @f(%x: {type}) -> {type} {{\n  %0 = {name} %x : {type}\n  return [%0]\n}}\n"


def ops_of(module: ir.Module) -> list[str]:
    return [op.name for f in module.functions.values() for op in f.body.walk()]


@pytest.mark.parametrize("type", ["f32", "f64", "f32[8]", "f64[3,5]", "f32[0]", "f32[1,2,3]"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_only_arithmetic_is_left(name: str, type: str) -> None:
    module = expanded(unary(name, type))

    assert set(ops_of(module)) - {"return"} <= BASIC
    assert str(ir.parse_module(str(module))) == str(module)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_f32_formulas_use_32_bits(name: str) -> None:
    module = expanded(unary(name, "f32[8]"))
    (function,) = module.functions.values()
    elements = {ir.elem_of(r.type) for op in function.body.walk() for r in op.results}

    assert elements <= {ir.f32, ir.i32, ir.u32, ir.i1}


@pytest.mark.parametrize(
    ("name", "most"),
    [("exp2", 19), ("exp", 20), ("log", 23), ("log2", 23), ("tanh", 30), ("erf", 34), ("sin", 25)],
)
def test_length_of_the_hot_formulas(name: str, most: int) -> None:
    usual, whole = operation_counts(name, ir.f32)
    names = ops_of(expanded(unary(name, "f32[8]")))

    assert usual <= most
    assert whole == sum(n not in ("constant", "bitcast", "return") for n in names)


def test_nothing_to_do_returns_the_same_module() -> None:
    module = ir.parse_module(unary("sqrt", "f32[8]"))

    assert ExpandMath().run(module, PassContext()) is module


def test_native_ops_stay() -> None:
    text = unary("exp2", "f32[8]")

    assert "exp2" in ops_of(expanded(text, native="sin exp2"))
    assert "exp2" in ops_of(expanded(text, native=["exp2"]))
    assert "exp2" not in ops_of(expanded(text, native="exp"))


def test_unknown_native_op_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"native names 'sqrt'.*expands exp, exp2"):
        ExpandMath(native="sqrt")


def test_pipeline_prints_and_parses() -> None:
    pipeline = Pipeline.parse('expand-math{native = "sin cos"},dce')

    assert Pipeline.parse(str(pipeline)) == pipeline
    assert pipeline.passes[0] == ExpandMath(native="sin cos")
    assert str(Pipeline.parse("expand-math")) == "expand-math"


def test_inside_of_loops_and_combining_regions() -> None:
    text = """
kernel @f(%x: ptr<f32>, %n: i32) {
  %zero = constant {value = 0} : i32
  %one = constant {value = 1} : i32
  %start = constant {value = 0.5} : f32[4]
  %r = for %zero, %n, %one, inits = [%start] : f32[4] body(%i: i32, %acc: f32[4]) {
    %e = exp2 %acc : f32[4]
    %s = sin %e : f32[4]
    yield [%s]
  }
  %sum = reduce [%r] {axis = 0} : f32 combine(%a: f32, %b: f32) {
    %p = exp %a : f32
    %q = exp %b : f32
    %pq = add %p, %q : f32
    %l = log %pq : f32
    yield [%l]
  }
  store %x, %sum
  return
}
"""
    before = ir.parse_module(text)
    module = ExpandMath().run(before, PassContext())
    ir.verify(module)
    wanted, got = np.zeros(1, np.float32), np.zeros(1, np.float32)
    run_kernel(before, 1, [wanted, 3])
    run_kernel(module, 1, [got, 3])

    assert not set(ops_of(module)) & set(FUNCTIONS)
    np.testing.assert_allclose(got, wanted, rtol=1e-6)


def test_locations_are_kept() -> None:
    body = ir.Block([ir.f32])
    b = ir.Builder(body, ir.Location("kernel.py", 12))
    b.return_([b.exp(body.args[0])])
    module = ir.Module([ir.Function("f", body, [ir.f32], "func")])
    (function,) = ExpandMath().run(module, PassContext()).functions.values()

    assert {op.loc for op in function.body.ops} == {ir.Location("kernel.py", 12)}
