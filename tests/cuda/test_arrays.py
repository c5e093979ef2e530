"""Arrays in the memory of NVIDIA GPUs, by their protocol; no device is needed."""

from __future__ import annotations

import pytest

pytest.importorskip("tegula_cuda")

import tegula
import tegula.language as tl
from tegula.errors import ArgumentError, DeviceError
from tegula.runtime import arguments


@tegula.jit
def one(x):
    tl.store(x, 1.0)


class OnDevice:
    def __init__(self, **more: object) -> None:
        given = {"shape": (8,), "typestr": "<f4", "data": (1 << 40, False), "version": 3}
        self.__cuda_array_interface__ = {**given, **more}


def test_the_interface_says_where_memory_is() -> None:
    array = arguments.describe("x", OnDevice())
    assert array is not None
    assert (array.device, array.address, array.strides) == ((2, 0), 1 << 40, (4,))
    assert array.readonly is False and array.shape == (8,)


def test_memory_of_a_device_that_is_not_there() -> None:
    with pytest.raises(DeviceError, match="argument 'x' lives in device cuda"):
        one[(1,)](OnDevice())


def test_an_interface_that_says_too_little() -> None:
    with pytest.raises(ArgumentError, match="malformed array interface"):
        arguments.describe("x", OnDevice(typestr="?!"))
