"""Axis information: what it finds, and that what it claims is true."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from strategies import FEATURES, Program, programs

from tegula.analysis.axisinfo import AxisInfo, AxisInfos
from tegula.analysis.ranges import Ranges
from tegula.interp.interpreter import Interpreter
from tegula.ir import Descriptor, DType, Function, Pointer, Value, elem_of, parse_module, shape_of
from tegula.passes import Pipeline

SEARCH = settings(
    max_examples=25,
    deadline=None,
    derandomize=True,  # one run is like another; `tegula fuzz` looks further
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def kernel_of(params: str, body: str) -> tuple[Function, dict[str, Value]]:
    """A kernel, and its values by name."""
    module = parse_module(f"kernel @k({params}) {{\n{body}\nreturn\n}}")
    (kernel,) = module.kernels
    values = {a.name: a for a in kernel.body.args}
    for op in kernel.body.walk():
        for v in (*op.results, *(a for r in op.regions for a in r.args)):
            values[v.name] = v
    return kernel, values


OFFSETS = """
%pid = program_id {axis = 0} : i32
%block = constant {value = 64} : i32
%start = mul %pid, %block : i32
%lane = arange {start = 0, end = 64} : i32[64]
%starts = splat %start {shape = [64]} : i32[64]
%offs = add %starts, %lane : i32[64]
"""


def info_of(params: str, body: str, name: str, **options: Any) -> AxisInfo:
    kernel, values = kernel_of(params, body)
    return AxisInfos(kernel, **options).of(values[name])


def test_block_of_offsets() -> None:
    assert info_of("", OFFSETS, "start") == AxisInfo((1,), (64,), (1,))
    assert info_of("", OFFSETS, "starts") == AxisInfo((1,), (64,), (64,))
    assert info_of("", OFFSETS, "offs") == AxisInfo((64,), (64,), (1,))


def test_pointers_count_bytes() -> None:
    body = (
        OFFSETS
        + """
    %ps = splat %p {shape = [64]} : ptr<f32>[64]
    %at = addptr %ps, %offs : ptr<f32>[64]
    """
    )
    params = "%p: ptr<f32> {divisible = 16}"

    assert info_of(params, body, "at") == AxisInfo((64,), (16,), (1,))
    kernel, values = kernel_of(params, body)
    assert AxisInfos(kernel).vector_length(values["at"]) == 4


def test_mask_of_a_divisible_size() -> None:
    body = (
        OFFSETS
        + """
    %ns = splat %n {shape = [64]} : i32[64]
    %mask = cmp %offs, %ns {pred = "lt"} : i1[64]
    %other = cmp %ns, %offs {pred = "gt"} : i1[64]
    """
    )

    assert info_of("%n: i32 {divisible = 16}", body, "mask").constancy == (16,)
    assert info_of("%n: i32 {divisible = 16}", body, "other").constancy == (16,)
    assert info_of("%n: i32", body, "mask").constancy == (1,)


def test_rows_and_columns() -> None:
    body = (
        OFFSETS
        + """
    %row = expand_dims %offs {axis = 0} : i32[1,64]
    %rows = broadcast %row {shape = [8, 64]} : i32[8,64]
    %i = arange {start = 0, end = 8} : i32[8]
    %col = expand_dims %i {axis = 1} : i32[8,1]
    %s = splat %stride {shape = [8, 1]} : i32[8,1]
    %scaled = mul %col, %s : i32[8,1]
    %cols = broadcast %scaled {shape = [8, 64]} : i32[8,64]
    %all = add %cols, %rows : i32[8,64]
    %turned = permute %all {dims = [1, 0]} : i32[64,8]
    """
    )
    params = "%stride: i32 {divisible = 16}"

    assert info_of(params, body, "rows") == AxisInfo((1, 64), (1, 64), (8, 1))
    assert info_of(params, body, "all").contiguity == (1, 64)
    assert info_of(params, body, "all").divisibility[1] == 16
    assert info_of(params, body, "turned").contiguity == (64, 1)


def test_remainder_by_a_divisible_size_needs_a_sign() -> None:
    body = (
        OFFSETS
        + """
    %ns = splat %n {shape = [64]} : i32[64]
    %r = rem %offs, %ns : i32[64]
    %known = rem %lane, %ns : i32[64]
    """
    )
    params = "%n: i32 {divisible = 16}"

    assert info_of(params, body, "r").contiguity == (1,)
    assert info_of(params, body, "r", indices=True).contiguity == (16,)
    assert info_of(params, body, "known").contiguity == (16,)


def test_what_is_moved_below_zero_has_no_runs_of_quotients() -> None:
    """-4 // 4 is -1, and -3 // 4 is 0."""
    body = (
        OFFSETS
        + """
    %four = constant {value = 4} : i32[64]
    %moved = sub %offs, %four : i32[64]
    %q = div %moved, %four : i32[64]
    %r = rem %moved, %four : i32[64]
    %unmoved = div %offs, %four : i32[64]
    %mask = cmp %unmoved, %four {pred = "eq"} : i1[64]
    """
    )
    for indices in (False, True):
        assert info_of("", body, "q", indices=indices).constancy == (1,)
        assert info_of("", body, "r", indices=indices).contiguity == (1,)
    assert info_of("", body, "unmoved", indices=True).constancy == (4,)
    assert info_of("", body, "unmoved").constancy == (1,)  # the first index may have wrapped
    kernel, values = kernel_of("", body)
    infos = AxisInfos(kernel, indices=True)
    assert infos.of(values["mask"]).constancy == (4,)
    assert infos.exact.of(values["mask"]).constancy == (1,)
    assert infos.exact.exact is infos.exact


def test_quotients_repeat() -> None:
    body = """
    %i = arange {start = 0, end = 32} : i32[32]
    %c = constant {value = 8} : i32[32]
    %q = div %i, %c : i32[32]
    %s = constant {value = 2} : i32[32]
    %t = shr %i, %s : i32[32]
    """

    assert info_of("", body, "q").constancy == (8,)
    assert info_of("", body, "t").constancy == (4,)


def test_pointers_carried_around_a_loop() -> None:
    body = (
        OFFSETS
        + """
    %ps = splat %p {shape = [64]} : ptr<f32>[64]
    %at = addptr %ps, %offs : ptr<f32>[64]
    %zero = constant {value = 0} : i32
    %one = constant {value = 1} : i32
    %step = splat %stride {shape = [64]} : i32[64]
    %end = for %zero, %n, %one, inits = [%at] : ptr<f32>[64] body(%k: i32, %cur: ptr<f32>[64]) {
      %next = addptr %cur, %step : ptr<f32>[64]
      yield [%next]
    }
    """
    )
    params = "%p: ptr<f32> {divisible = 64}, %n: i32, %stride: i32 {divisible = 8}"

    assert info_of(params, body, "cur") == AxisInfo((64,), (32,), (1,))
    assert info_of(params, body, "end") == AxisInfo((64,), (32,), (1,))


def test_counter_of_a_loop() -> None:
    body = """
    %zero = constant {value = 0} : i32
    %by = constant {value = 32} : i32
    for %zero, %n, %by, inits = [] body(%k: i32) {
      %l = arange {start = 0, end = 32} : i32[32]
      %ks = splat %k {shape = [32]} : i32[32]
      %offs = add %ks, %l : i32[32]
      yield
    }
    """

    assert info_of("%n: i32", body, "k").divisibility == (32,)
    assert info_of("%n: i32", body, "offs") == AxisInfo((32,), (32,), (1,))


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("multiple_of", AxisInfo((1,), (16,), (1,))),
        ("max_contiguous", AxisInfo((16,), (1,), (1,))),
        ("max_constancy", AxisInfo((1,), (1,), (16,))),
    ],
)
def test_hints_are_believed(kind: str, expected: AxisInfo) -> None:
    body = f"""
    %x = load %p : i32[64]
    %y = hint %x {{kind = "{kind}", values = [16]}} : i32[64]
    """

    assert info_of("%p: ptr<i32>[64]", body, "y") == expected


# -- claims against values


def values_of(program: Program) -> tuple[Function, list[tuple[Value, np.ndarray]]]:
    """Every value of the kernel as its last evaluation left it."""
    module = Pipeline.parse("inline").run(program.module)
    interpreter = Interpreter(module)
    last: dict[Value, Any] = {}
    plan = interpreter._plan

    def remembering(state: Any, values: Any) -> list[Any]:
        env: list[Any] = [None] * plan.size
        env[0] = state
        result = plan.body.enter(env, values)
        last.update({v: env[slot] for v, slot in plan.slots.items()})
        return result

    plan.call = remembering  # type: ignore[method-assign]
    interpreter.run(program.grid, program.arguments())
    shaped = []
    for v, x in last.items():
        if x is not None and not isinstance(v.type, Descriptor):
            with_axes = np.broadcast_to(np.asarray(x), shape_of(v.type)) if shape_of(v.type) else x
            if np.shape(x) == shape_of(v.type):  # a combine region has run on whole tiles
                shaped.append((v, np.asarray(with_axes)))
    return interpreter.function, shaped


def check(info: AxisInfo, value: np.ndarray, unit: int) -> None:
    """Every claim holds for the value."""
    value = value.reshape(value.shape or (1,))
    if info.constant is not None:
        assert (value == info.constant).all()
    for axis in range(value.ndim):
        rows = np.moveaxis(value, axis, -1)
        n = rows.shape[-1]
        run, same, divisor = info.contiguity[axis], info.constancy[axis], info.divisibility[axis]
        position = np.arange(n)
        first = rows[..., position // run * run]
        assert (rows == (first + (position % run * unit).astype(rows.dtype))).all()
        assert (rows == rows[..., position // same * same]).all()
        bits = np.asarray(rows[..., ::run]).astype(np.int64)
        assert not (bits & (divisor - 1)).any()


@SEARCH
@given(programs(FEATURES - {"math", "dot"}, size=18))
def test_claims_are_true(program: Program) -> None:
    function, values = values_of(program)
    infos = AxisInfos(function)

    for v, x in values:
        elem = elem_of(v.type)
        if isinstance(elem, Pointer):
            check(infos.of(v), x, elem.elem.itemsize)
        elif isinstance(elem, DType) and elem.is_int:
            narrow = infos.of(v)
            check(narrow, x, 1)


@SEARCH
@given(programs(FEATURES - {"math", "dot"}, size=18))
def test_ranges_are_true(program: Program) -> None:
    function, values = values_of(program)
    loops = {op.regions[0].args[0]: op for op in function.body.walk() if op.name == "for"}
    ranges = Ranges(loops)

    for v, x in values:
        elem = elem_of(v.type)
        if isinstance(elem, DType) and elem.is_int and x.size:
            low, high = ranges.of(v)
            assert low <= int(x.min()) and int(x.max()) <= high, v
