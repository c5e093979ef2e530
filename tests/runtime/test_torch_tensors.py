"""The fast description of torch tensors says what DLPack's says, and steps back where it cannot."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import tegula  # noqa: E402
import tegula.language as tl  # noqa: E402
from tegula.errors import ArgumentError  # noqa: E402
from tegula.runtime import dispatch, dlpack, torch_tensors  # noqa: E402

pytestmark = pytest.mark.skipif(
    dlpack.Exchange.of(torch.Tensor) is None or dispatch.native() is None,
    reason="this torch has no exchange functions, or this interpreter no native launches",
)

DTYPES = [
    torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint16,
    torch.uint32, torch.uint64, torch.float16, torch.bfloat16, torch.float32, torch.float64,
    torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz,
]  # fmt: skip


@pytest.fixture(autouse=True)
def afresh() -> Iterator[None]:
    """Nothing is known of torch's tensors yet, and nothing is kept."""
    torch_tensors._agreed.clear()
    torch_tensors._linked.cache_clear()
    yield
    torch_tensors._agreed.clear()
    torch_tensors._linked.cache_clear()


def function_for(tensor: Any) -> tuple[dlpack.Exchange, int]:
    exchange = dlpack.Exchange.of(type(tensor))
    assert exchange is not None
    return exchange, torch_tensors.agreeing(tensor, exchange, exchange.view(tensor))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_both_say_the_same(dtype: Any) -> None:
    base = torch.zeros(24, dtype=torch.int8).view(torch.uint8).repeat(8).view(dtype)
    n = base.numel()
    views = [
        base, base[1:], base[: n // 2 * 2].view(2, -1), base[: n // 2 * 2].view(2, -1).T,
        base[0], base[:0], base[::2], base[:1].expand(5), base.as_strided((2, 2), (0, 1)),
        torch.nn.Parameter(base, requires_grad=False),
    ]  # fmt: skip
    for tensor in views:
        exchange, address = function_for(tensor)
        assert address != exchange.tensor_of
        assert exchange.told(address, tensor).fields() == exchange.view(tensor).fields()


def test_other_elements_and_devices_go_to_the_exchange_function() -> None:
    exchange, address = function_for(torch.zeros(3))
    for other in (
        torch.zeros(3, dtype=torch.complex64), torch.zeros(3, dtype=torch.complex128),
        torch.zeros(3, device="meta"), torch.zeros(3).to_sparse(), *opaque(),
    ):  # fmt: skip
        ours = outcome(lambda other=other: exchange.told(address, other).fields())
        assert ours == outcome(lambda other=other: exchange.view(other).fields())


def opaque() -> list[Any]:
    """Tensors whose elements lie in an order of a library's own, where torch was built with it."""
    return [torch.zeros(4, 4).to_mkldnn()] if torch.backends.mkldnn.is_available() else []


def outcome(ask: Any) -> Any:
    """What a call gives or raises."""
    try:
        return ask()
    except Exception as error:
        return type(error)


@pytest.mark.parametrize("place", [None, 8])
def test_an_unknown_layout_is_left_alone(monkeypatch: pytest.MonkeyPatch, place: Any) -> None:
    monkeypatch.setattr(torch_tensors, "_PLACES", () if place is None else (place,))
    exchange, address = function_for(torch.zeros(3))
    assert address == exchange.tensor_of


def test_a_torch_without_the_functions_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_tensors, "_SHIMS", (*torch_tensors._SHIMS, "no_such_thing"))
    exchange, address = function_for(torch.zeros(3))
    assert address == exchange.tensor_of


def test_disagreement_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = {**torch_tensors._SCALAR_TYPES, 6: torch_tensors._SCALAR_TYPES[5]}
    monkeypatch.setattr(torch_tensors, "_SCALAR_TYPES", wrong)
    exchange, address = function_for(torch.zeros(3))
    assert address == exchange.tensor_of
    exchange, address = function_for(torch.zeros(3, dtype=torch.int32))
    assert address != exchange.tensor_of


@tegula.jit
def copied(x, o, n, step, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(o + i, tl.load(x + i * step, mask=i < n) * 2, mask=i < n)


def test_launches_see_each_tensor_as_it_is() -> None:
    base = torch.arange(64, dtype=torch.float32)
    learnt = torch.nn.Parameter(base.clone())
    for x, step in [(base, 1), (base[3:], 1), (base[::2], 2), (learnt, 1), (base.double(), 1),
                    (base[32:], 1), (base.half(), 1), (base, 1)]:  # fmt: skip
        for _ in range(3):
            out = torch.zeros(16, dtype=x.dtype)
            copied[(1,)](x, out, 16, step, BLOCK=16)
            np.testing.assert_array_equal(out, (x.detach()[:16] * 2).numpy())


def test_what_has_no_memory_is_refused_again_and_again() -> None:
    out = torch.zeros(16)
    copied[(1,)](torch.zeros(16), out, 16, 1, BLOCK=16)
    for _ in range(2):
        hidden = (torch.zeros(16).to_sparse(), torch.zeros(16, device="meta"), *opaque())
        for bad in hidden:
            with pytest.raises((ArgumentError, tegula.errors.TegulaError)):
                copied[(1,)](bad, out, 16, 1, BLOCK=16)
        freed = torch.zeros(16)
        freed.untyped_storage().resize_(0)
        with pytest.raises(tegula.errors.TegulaError, match="no memory"):
            copied[(1,)](freed, out, 16, 1, BLOCK=16)


def test_code_that_bound_launches_go_to_stays_loaded() -> None:
    linked = torch_tensors._linked(torch_tensors._PLACES[0], 1)
    seen = weakref.ref(linked)
    torch_tensors._linked.cache_clear()
    del linked
    gc.collect()
    assert seen() is not None
