"""The interpreter: errors that explain themselves, memory, launches.  Results of ops are tested by
`tests/ir/execute_*.tir`, and against numpy formulas in `test_meaning.py`."""

from __future__ import annotations

import numpy as np
import pytest

from tegula.interp import (
    Buffer,
    DeviceAssertionError,
    Interpreter,
    InterpreterError,
    OutOfBoundsError,
    ReadOnlyError,
    run_kernel,
)
from tegula.ir import parse_module

COPY = """
kernel @copy(%x: ptr<f32>, %y: ptr<f32>, %n: i32) {
  %0 = program_id {axis = 0} : i32
  %1 = constant {value = 8} : i32
  %2 = mul %0, %1 : i32
  %3 = arange {start = 0, end = 8} : i32[8]
  %4 = splat %2 {shape = [8]} : i32[8]
  %5 = add %4, %3 : i32[8]
  %6 = splat %n {shape = [8]} : i32[8]
  %m = cmp %5, %6 {pred = "lt"} : i1[8]
  %7 = splat %x {shape = [8]} : ptr<f32>[8]
  %8 = addptr %7, %5 : ptr<f32>[8]
  %9 = load %8, mask = %m : f32[8] @ "model.py":12:8
  %10 = splat %y {shape = [8]} : ptr<f32>[8]
  %11 = addptr %10, %5 : ptr<f32>[8]
  store %11, %9, mask = %m @ "model.py":13:4
  return
}
"""


@pytest.fixture
def copy() -> Interpreter:
    return Interpreter(parse_module(COPY))


def test_copy_of_no_round_size(copy: Interpreter) -> None:
    x = np.arange(13, dtype=np.float32)
    y = np.zeros(20, np.float32)

    copy.run(2, [x, y, 13])

    assert np.array_equal(y[:13], x)
    assert not y[13:].any()


def test_arguments_by_name(copy: Interpreter) -> None:
    x, y = np.ones(8, np.float32), np.zeros(8, np.float32)

    copy.run((1,), {"n": 8, "y": y, "x": x})

    assert np.array_equal(x, y)


def test_strided_arrays_are_memory_too(copy: Interpreter) -> None:
    base = np.arange(32, dtype=np.float32)
    y = np.zeros(8, np.float32)

    copy.run(1, [base[::2], y, 8])  # the kernel walks over the elements in between

    assert np.array_equal(y, base[:8])


def test_load_past_the_end_names_everything(copy: Interpreter) -> None:
    x, y = np.ones(10, np.float32), np.zeros(16, np.float32)

    with pytest.raises(OutOfBoundsError) as caught:
        copy.run(2, [x, y, 12])

    text = str(caught.value)
    assert "kernel 'copy', model.py:12:9, program (1, 0, 0)" in text
    assert "out-of-bounds load (element (2,) of the tile)" in text
    assert "offset 40 bytes (element 10) from argument 'x' is past the end" in text
    assert "buffer of 40 bytes (10 elements of 4 bytes, shape [10])" in text
    assert "Remedy" in text


def test_store_past_the_end_is_found_before_memory_is_touched(copy: Interpreter) -> None:
    memory = np.zeros(32, np.float32)
    y = memory[:8]
    x = np.ones(16, np.float32)

    with pytest.raises(OutOfBoundsError, match=r"out-of-bounds store .*'y' is past the end"):
        copy.run(2, [x, y, 16])

    assert not memory[8:].any()


def test_access_before_the_start() -> None:
    module = parse_module("""
    kernel @k(%x: ptr<f32>) {
      %0 = constant {value = -1} : i32
      %1 = addptr %x, %0 : ptr<f32>
      %2 = load %1 : f32
      return
    }
    """)

    with pytest.raises(OutOfBoundsError, match=r"offset -4 bytes .* before the start.*no mask"):
        run_kernel(module, 1, [np.ones(4, np.float32)])


def test_an_overrun_into_another_argument_is_found() -> None:
    """The address lies in a known buffer, but not in the one that the pointer came from."""
    memory = np.zeros(16, np.float32)

    with pytest.raises(OutOfBoundsError, match="argument 'x'"):
        run_kernel(parse_module(COPY), 1, [memory[:4], memory[8:], 8])


def test_a_pointer_chosen_between_two_arguments() -> None:
    module = parse_module("""
    kernel @k(%x: ptr<f32>, %y: ptr<f32>, %o: ptr<f32>, %c: i1) {
      %0 = select %c, %x, %y : ptr<f32>
      %1 = load %0 : f32
      store %o, %1
      return
    }
    """)
    x, y, o = (np.full(1, v, np.float32) for v in (1, 2, 0))

    run_kernel(module, 1, [x, y, o, False])

    assert o[0] == 2


def test_writing_to_a_readonly_array(copy: Interpreter) -> None:
    x, y = np.ones(8, np.float32), np.zeros(8, np.float32)
    y.flags.writeable = False

    with pytest.raises(ReadOnlyError, match="argument 'y', which may only be read"):
        copy.run(1, [x, y, 8])


def test_readonly_arrays_can_be_read(copy: Interpreter) -> None:
    x, y = np.ones(8, np.float32), np.zeros(8, np.float32)
    x.flags.writeable = False

    copy.run(1, [x, y, 8])

    assert y.all()


def test_addresses_need_known_buffers(copy: Interpreter) -> None:
    x, y = np.ones(8, np.float32), np.zeros(8, np.float32)
    addresses = [x.ctypes.data, y.ctypes.data, 8]

    with pytest.raises(OutOfBoundsError, match="was given no memory"):
        copy.run(1, addresses)
    copy.run(1, addresses, [Buffer.of_array(x, "x"), Buffer.of_array(y, "y")])
    assert y.all()

    y[:] = 0
    copy.run(1, addresses, allow_unknown=True)
    assert y.all()


def test_unaligned_elements() -> None:
    raw = np.zeros(40, np.uint8)
    odd = raw[1:37].view(np.float32)
    odd[:] = np.arange(9)
    y = np.zeros(8, np.float32)

    run_kernel(parse_module(COPY), 1, [raw.ctypes.data + 1, y, 8], [Buffer.of_array(odd, "x")])

    assert np.array_equal(y, np.arange(8))


def test_failed_assertion_names_the_element() -> None:
    module = parse_module("""
    kernel @k(%n: i32) {
      %0 = arange {start = 0, end = 4} : i32[4]
      %1 = splat %n {shape = [4]} : i32[4]
      %2 = cmp %0, %1 {pred = "lt"} : i1[4]
      assert %2 {message = "too small"} @ "model.py":3:4
      return
    }
    """)

    run_kernel(module, 1, [4])
    with pytest.raises(DeviceAssertionError, match=r"model.py:3:5.*too small, first at .*\(2,\)"):
        run_kernel(module, 1, [2])


def test_printing() -> None:
    module = parse_module("""
    kernel @k(%n: i32) {
      %0 = arange {start = 0, end = 3} : i32[3]
      print [%0, %n] {prefix = "v: "}
      print [%n] {prefix = "h: ", hex = true}
      return
    }
    """)
    lines: list[str] = []

    run_kernel(module, (1, 2), [-1], output=lines.append)

    assert lines == [
        line
        for y in range(2)
        for line in (
            *(f"pid (0, {y}, 0) idx ({i}) v: (operand 0) {i}" for i in range(3)),
            f"pid (0, {y}, 0) idx () v: (operand 1) -1",
            f"pid (0, {y}, 0) idx () h: 0xffffffff",
        )
    ]


@pytest.mark.parametrize(
    ("grid", "args", "message"),
    [
        (1, [1], r"takes 3 arguments \(x, y, n\), 1 were given"),
        ((1, 1, 1, 1), [0, 0, 0], "one to three sizes"),
        (-1, [0, 0, 0], "one to three sizes"),
        (1, [0, 0, 1 << 40], "argument 'n': 1099511627776 does not fit i32"),
        (1, {"x": 0}, "missing arguments: y, n"),
    ],
)
def test_wrong_launches(copy: Interpreter, grid: object, args: object, message: str) -> None:
    with pytest.raises(InterpreterError, match=message):
        copy.run(grid, args)  # type: ignore[arg-type]


def test_the_kernel_must_be_known() -> None:
    module = parse_module("kernel @a() {\n return\n}\nkernel @b() {\n return\n}")

    with pytest.raises(InterpreterError, match=r"must be named \(kernels: a, b\)"):
        run_kernel(module, 1, [])
    with pytest.raises(InterpreterError, match="no kernel 'c'"):
        run_kernel(module, 1, [], kernel="c")
    run_kernel(module, 1, [], kernel="b")


def test_numpy_stays_silent(recwarn: pytest.WarningsRecorder) -> None:
    module = parse_module("""
    kernel @k(%o: ptr<f32>, %x: f32, %n: i32) {
      %0 = constant {value = 0.0} : f32
      %1 = div %x, %0 : f32
      %2 = mul %n, %n : i32
      %3 = cast %1 {to = i32} : i32
      store %o, %1
      return
    }
    """)
    o = np.zeros(1, np.float32)

    run_kernel(module, 1, [o, 1.0, 1 << 30])

    assert np.isinf(o[0])
    assert not recwarn.list
