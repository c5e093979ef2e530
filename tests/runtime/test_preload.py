"""Hooks that are told about compilations, and compiling from what they record."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

import tegula
import tegula.language as tl
from tegula.errors import ArgumentError, DeviceError
from tegula.runtime import hooks


class Pair(NamedTuple):
    first: Any
    second: Any


@tegula.jit
def double(v):
    return v * 2


@tegula.jit
def kernel(x, n, scale, pair, fn, D: tl.constexpr, *rest):
    value = fn(tl.load(x)) * scale + n + pair.first + rest[0]
    if pair.second is not None:
        value += pair.second
    tl.store(x, value.to(D))


@pytest.fixture
def events() -> Iterator[list[hooks.Compilation]]:
    kernel.forget()
    seen: list[hooks.Compilation] = []
    hooks.before_compile.append(seen.append)
    yield seen
    hooks.before_compile.remove(seen.append)


def launch(x: np.ndarray) -> None:
    kernel[(1,)](x, 1, 0.5, Pair(2, None), double, tl.float32, 7, num_warps=8)


def test_variants_are_recorded_and_compiled_again(events: list[hooks.Compilation]) -> None:
    x = np.ones(4, np.float32)
    launch(x)
    assert x[0] == 11
    (event,) = events
    assert event.kernel is kernel and not event.warmup and event.key in kernel.device_caches[0][0]
    assert event.options == {"num_warps": 8} or event.options == {}
    data = json.loads(event.data)
    assert data["name"] == "kernel" and data["arguments"]["n"] == 1
    first = kernel.device_caches[0][0][event.key]
    kernel.forget()
    again = kernel.preload(event.data)
    assert again.hash == first.hash and len(events) == 2 and events[1].warmup
    launch(x)  # the very variant that was preloaded
    assert len(events) == 2 and x[0] == 21


def test_after_compile_comes_after() -> None:
    order: list[str] = []
    before, after = (lambda e: order.append("before")), (lambda e: order.append("after"))
    hooks.before_compile.append(before)
    hooks.after_compile.append(after)
    try:
        kernel.forget()
        launch(np.ones(4, np.float32))
    finally:
        hooks.before_compile.remove(before)
        hooks.after_compile.remove(after)
    assert order == ["before", "after"]


@tegula.jit
def describe(desc, out):
    tl.store(out + tl.arange(0, 4), desc.load([0]))


def test_descriptors_and_alignment_are_recorded(events: list[hooks.Compilation]) -> None:
    x = np.arange(8, dtype=np.float32)
    out = np.zeros(9, np.float32)[1:5]
    describe.forget()
    describe[(1,)](tegula.TensorDescriptor.from_tensor(x, [4]), out)
    text = events[-1].data
    assert json.loads(text)["arguments"]["out"]["aligned"] is (out.ctypes.data % 16 == 0)
    describe.forget()
    describe.preload(text)
    count = len(events)
    describe[(1,)](tegula.TensorDescriptor.from_tensor(x, [4]), out)
    assert len(events) == count and out.tolist() == [0, 1, 2, 3]


def test_data_of_another_kernel_or_target_is_refused(events: list[hooks.Compilation]) -> None:
    launch(np.ones(4, np.float32))
    with pytest.raises(DeviceError, match="for kernel kernel, not describe"):
        describe.preload(events[0].data)
    data = json.loads(events[0].data)
    data["target"]["backend"] = "elsewhere"
    with pytest.raises(DeviceError, match="elsewhere"):
        kernel.preload(json.dumps(data))


def test_what_has_no_text_is_refused(events: list[hooks.Compilation]) -> None:
    @tegula.jit
    def odd(x, K: tl.constexpr):
        tl.store(x, 1)

    odd[(1,)](np.zeros(1), object())
    with pytest.raises(ArgumentError, match="'K' of type object"):
        events[-1].data  # noqa: B018
