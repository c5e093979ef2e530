"""Arrays in the memory of NVIDIA GPUs, by their protocol; no device is needed, and one may be."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace

import pytest

pytest.importorskip("tegula_cuda")

import tegula
import tegula.language as tl
from tegula.errors import ArgumentError, ArgumentValueError, DeviceError
from tegula.runtime import arguments
from tegula_cuda import cu
from tegula_cuda.driver import CudaDriver


@tegula.jit
def one(x):
    tl.store(x, 1.0)


NOWHERE = 1 << 40
HAS_DEVICE = CudaDriver.probe().status == "available"


class OnDevice:
    def __init__(self, address: int = NOWHERE, **more: object) -> None:
        given = {"shape": (8,), "typestr": "<f4", "data": (address, False), "version": 3}
        self.__cuda_array_interface__ = {**given, **more}


@pytest.fixture
def address() -> Iterator[int]:
    """Memory of the first device; where there is none, nobody looks what is there."""
    if not HAS_DEVICE:
        yield NOWHERE
        return
    device = CudaDriver().open(0)
    found = device.alloc(32)
    yield found
    device.free(found)


def test_the_interface_says_where_memory_is(address: int) -> None:
    array = arguments.describe("x", OnDevice(address))
    assert array is not None
    assert (array.device, array.address, array.strides) == ((2, 0), address, (4,))
    assert array.readonly is False and array.shape == (8,)


@pytest.mark.skipif(HAS_DEVICE, reason="a device is there")
def test_memory_of_a_device_that_is_not_there() -> None:
    with pytest.raises(DeviceError, match="argument 'x' lives in device cuda"):
        one[(1,)](OnDevice())


def test_an_interface_that_says_too_little(address: int) -> None:
    with pytest.raises(ArgumentError, match="malformed array interface"):
        arguments.describe("x", OnDevice(address, typestr="?!"))


def test_memory_that_the_driver_does_not_know(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = SimpleNamespace(
        CUpointer_attribute=SimpleNamespace(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL=9),
        cuPointerGetAttribute=lambda what, address: (1, None),
    )
    if not HAS_DEVICE:
        monkeypatch.setattr(cu, "bindings", lambda: driver)
        monkeypatch.setattr(cu, "started", lambda: True)
    else:
        cu.bindings()
    with pytest.raises(ArgumentValueError, match=r"'x' \(OnDevice\).*0x10000000000; it may have"):
        arguments.describe("x", OnDevice())
