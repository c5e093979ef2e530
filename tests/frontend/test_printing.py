"""What kernels print, line by line, the same on every backend."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_runner import build, jit, run

import tegula.language as tl
from tegula.printing import normal_prefix, number

pytestmark = pytest.mark.usefixtures("on_each_backend")


@jit
def values(x, N: tl.constexpr):
    tl.device_print("x: ", tl.load(x + tl.arange(0, N)))


def lines(capsys):
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize("dtype, ends", [
    ("int8", ["-3", "0", "7"]), ("uint8", ["253", "0", "7"]), ("int32", ["-3", "0", "7"]),
    ("uint64", ["18446744073709551613", "0", "7"]), ("float16", ["-3.000000", "0.000000",
     "7.000000"]), ("float32", ["-3.000000", "0.000000", "7.000000"]),
    ("float64", ["-3.000000", "0.000000", "7.000000"]), ("bool", ["1", "0", "1"]),
])  # fmt: skip
def test_elements(dtype, ends, capsys):
    run(values, np.array([-3, 0, 7]).astype(dtype), 3)
    assert lines(capsys) == [f"pid (0, 0, 0) idx ({i}) x: {e}" for i, e in enumerate(ends)]


def test_places_are_as_wide_as_the_largest(capsys):
    run(values, np.arange(101, dtype=np.int32), 101)
    assert lines(capsys) == [f"pid (0, 0, 0) idx ({i:3}) x: {i}" for i in range(101)]


@jit
def several(x):
    at = tl.arange(0, 2)[:, None] * 3 + tl.arange(0, 3)
    print("", tl.load(x + at), tl.program_id(0))
    print("no values")
    tl.device_print("size", 5)


def test_several_values_and_none(capsys):
    run(several, np.arange(6, dtype=np.int16), grid=(1, 2))
    expected = []
    for y in range(2):
        pid = f"pid (0, {y}, 0)"
        expected += [f"{pid} idx ({i}, {j}): (operand 0) {3 * i + j}" for i in range(2)
                     for j in range(3)]  # fmt: skip
        expected += [f"{pid} idx (): (operand 1) 0", f"{pid} no values", f"{pid} idx () size: 5"]
    assert lines(capsys) == expected


@jit
def bits(x, N: tl.constexpr):
    tl.device_print("x", tl.load(x + tl.arange(0, N)), hex=True)


@pytest.mark.parametrize("dtype, ends", [
    ("int16", ["0xffff", "0x0001"]), ("uint32", ["0xffffffff", "0x00000001"]),
    ("int64", ["0xffffffffffffffff", "0x0000000000000001"]), ("float32", ["-0x1p+0", "0x1p+0"]),
    ("float64", ["-0x1p+0", "0x1p+0"]), ("float16", ["-0x1p+0", "0x1p+0"]),
])  # fmt: skip
def test_bits(dtype, ends, capsys):
    run(bits, np.array([-1, 1]).astype(dtype), 2)
    assert lines(capsys) == [f"pid (0, 0, 0) idx ({i}) x: {e}" for i, e in enumerate(ends)]


@jit
def addresses(x):
    tl.device_print("ptr ", x + tl.arange(0, 2))


def test_pointers(capsys):
    x = np.zeros(2, np.int32)
    run(addresses, x)
    places = [x.ctypes.data + 4 * i for i in range(2)]
    assert lines(capsys) == [
        f"pid (0, 0, 0) idx ({i}) ptr: 0x{p:016x}" for i, p in enumerate(places)
    ]


@pytest.mark.parametrize("prefix", ["x:", "x: ", "x", "x ", " x "])
def test_prefixes(prefix):
    assert build
    assert normal_prefix(prefix, True) == "x: "
    assert normal_prefix("", True) == ": "


@pytest.mark.parametrize("value, text", [
    (1.5, "0x1.8p+0"), (-0.0, "-0x0p+0"), (float("inf"), "inf"), (float("-inf"), "-inf"),
    (float("nan"), "nan"), (float(np.float32(0.1)), "0x1.99999ap-4"), (6.0, "0x1.8p+2"),
])  # fmt: skip
def test_hexadecimal_floats(value, text):
    assert number(value, True) == text
