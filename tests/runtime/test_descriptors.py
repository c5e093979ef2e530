"""Tensor descriptors made on the host, as arguments."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest

import tegula
import tegula.language as tl
from tegula.errors import ArgumentError
from tegula.runtime import descriptor, dispatch

Descriptor = tegula.TensorDescriptor


@tegula.jit
def copy_blocks(src, dst, BM: tl.constexpr, BN: tl.constexpr):
    i, j = tl.program_id(0) * BM, tl.program_id(1) * BN
    dst.store([i, j], src.load([i, j]) * 2)


@tegula.jit
def take(desc, other):
    pass


@pytest.mark.parametrize("shape", [(20, 30), (16, 32), (1, 1), (17, 5)])
def test_blocks_arrive(shape: tuple[int, int], backend_name: str) -> None:
    rng = np.random.default_rng(0)
    with tegula.use_device(backend_name):
        for _ in range(2):
            big = rng.random((40, 64), np.float32)
            x, out = big[: shape[0], : shape[1]], np.zeros(shape, np.float32)
            src, dst = (Descriptor.from_tensor(a, [8, 16]) for a in (x, out))
            grid = (tegula.cdiv(shape[0], 8), tegula.cdiv(shape[1], 16))
            compiled = copy_blocks[grid](src, dst, 8, 16)
            assert np.array_equal(out, x * 2)
            out[...] = 0
            compiled[grid](src, dst, 8, 16)
            assert np.array_equal(out, x * 2)


@pytest.mark.skipif(bool(dispatch.why_not()), reason="no dispatcher here")
def test_launches_are_native(recording: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    assert descriptor.slot_offsets() is not None
    take.forget()
    prepare, calls = take._variants.prepare, []
    monkeypatch.setattr(take._variants, "prepare", lambda *args: calls.append(1) or prepare(*args))
    x = np.zeros((64, 48), np.float32)

    def slots(desc: Any) -> list[int]:
        return take[(1,)](desc, 7).kernel.slots

    desc = Descriptor.from_tensor(x, [8, 8])
    for _ in range(3):
        assert slots(desc) == [x.ctypes.data, 64, 48, 48, 7]
    assert len(calls) == 1
    other = Descriptor.from_tensor(np.zeros((32, 80), np.float32), (8, 8))
    assert slots(other)[1:] == [32, 80, 80, 7]
    assert len(calls) == 1
    desc.block_shape = [16, 8]  # as tuning configurations do
    first = take[(1,)](desc, 7)
    assert first.request.types["desc"].block_shape == (16, 8)
    assert len(calls) == 2
    desc.base = np.zeros((64, 48), np.float16)
    assert str(take[(1,)](desc, 7).request.types["desc"].elem) == "f16"
    assert slots(desc)[0] == desc.base.ctypes.data
    desc.shape = (3, 5)
    assert slots(desc)[1:3] == [3, 5]
    nan = Descriptor.from_tensor(x, [8, 8], padding="nan")
    assert take[(1,)](nan, 7).request.types["desc"].padding == "nan"


def test_inside_of_a_tuple(recording: ModuleType) -> None:
    x = np.zeros((64, 48), np.float32)
    desc = Descriptor.from_tensor(x, [8, 8])
    for _ in range(2):
        assert take[(1,)]((3, desc), 5).kernel.slots == [3, x.ctypes.data, 64, 48, 48, 5]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda x: Descriptor(x, [64, 48], [48, 1], [8]), "needs 2 strides and block sizes"),
        (lambda x: Descriptor(x, [], [], []), "1 to 5 dimensions, not 0"),
        (lambda x: Descriptor(x, [64, 48], [1, 64], [8, 8]), "last stride of a descriptor is 1"),
        (lambda x: Descriptor.from_tensor(x.T, [8, 8]), "last one is contiguous"),
        (lambda x: Descriptor.from_tensor(x, [8, 0]), "at least one element"),
        (lambda x: Descriptor.from_tensor(x, [8, 8], "one"), "padding is one of"),
        (lambda x: Descriptor.from_tensor(3, [8, 8]), "has no shape"),
        (lambda x: Descriptor(x, 5, [1], [8]), "is a list of ints"),
    ],
)
def test_wrong_descriptors(make: Any, message: str) -> None:
    with pytest.raises((ValueError, ArgumentError), match=message):
        make(np.zeros((64, 48), np.float32))


def test_wrong_base_names_the_argument(recording: ModuleType) -> None:
    with pytest.raises(ArgumentError, match="argument 'desc' describes 'x', which is no array"):
        take[(1,)](Descriptor("x", [4], [1], [4]), 3)
