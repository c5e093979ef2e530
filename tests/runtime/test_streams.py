"""Native functions that ask Python functions for streams, and fields of records in native texts."""

from __future__ import annotations

import ctypes

import pytest

from tegula.runtime import native, streams

STREAM = 0x4000


def called(address: int, index: int) -> int:
    """What the function at an address gives for a device, as the dispatcher calls it."""
    number = ctypes.c_int32
    function = ctypes.PYFUNCTYPE(number, number, number, ctypes.c_void_p)(address)
    out = ctypes.c_void_p(1)
    assert function(2, index, ctypes.addressof(out)) == 0
    return out.value or 0


@pytest.mark.parametrize("stream", [0, STREAM])
def test_streams_are_asked_of_a_python_function(stream: int) -> None:
    asked: list[int] = []

    def current(index: int) -> int:
        asked.append(index)
        return stream

    assert called(streams.asking(current), 3) == stream
    assert asked == [3]


def test_every_function_has_its_own() -> None:
    one, two = (lambda index: 16), (lambda index: 32)
    assert streams.asking(one) == streams.asking(one)
    assert called(streams.asking(two), 0) == 32 and called(streams.asking(one), 0) == 16


def test_what_that_function_raises_is_raised() -> None:
    def current(index: int) -> int:
        raise RuntimeError(f"no stream on {index}")

    address = streams.asking(current)
    number = ctypes.c_int32
    function = ctypes.PYFUNCTYPE(number, number, number, ctypes.c_void_p)(address)
    with pytest.raises(RuntimeError, match="no stream on 1"):
        function(2, 1, ctypes.addressof(ctypes.c_void_p()))


class Pair(ctypes.Structure):
    _fields_ = (("a", ctypes.c_int32), ("b", ctypes.c_int64))


def test_fields_of_records_get_their_places() -> None:
    text = """\
define i64 @sum(ptr %pair) {
  %a = load i32, ptr %pair->a
  %wide = sext i32 %a to i64
  %b = load i64,
      ptr %pair->b
  %sum = add i64 %wide, %b
  %all = add i64 %sum, <pair>
  ret i64 %all
}
"""
    made = native.with_fields(text, {"pair": Pair})
    library = native.load("test_fields", made, ("sum",), {})
    pair = Pair(-3, 1 << 40)
    function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(library["sum"])
    assert function(ctypes.addressof(pair)) == (1 << 40) - 3 + 16


def test_a_field_that_is_not_there() -> None:
    with pytest.raises(AttributeError, match="c"):
        native.with_fields("  %x = load i32, ptr %pair->c\n", {"pair": Pair})
