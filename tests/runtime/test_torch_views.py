"""Tensors of torch whose memory does not simply hold their elements."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tegula
import tegula.language as tl
from tegula.errors import ArgumentError, ArgumentValueError

torch = pytest.importorskip("torch")


@pytest.fixture(autouse=True)
def device(backend_name):
    with tegula.use_device(backend_name):
        yield


@tegula.jit
def read(out, x, stride, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i * stride))


def values(x: Any) -> list[float]:
    out = torch.zeros(4)
    read[(1,)](out, x, x.stride(0) if x.dim() else 0, 4)
    return out.tolist()


Z = torch.tensor([1 + 2j, 3 + 4j, 5 + 6j, 7 + 8j])


def test_negated_views_are_refused_whatever_came_before():
    for _ in range(3):
        assert values(Z.imag) == [2, 4, 6, 8]
        assert values(Z.real) == [1, 3, 5, 7]
        with pytest.raises(ArgumentValueError, match=r"'x' .*negated values.*x\.resolve_neg\(\)"):
            values(Z.conj().imag)
        assert values(Z.conj().imag.resolve_neg()) == [-2, -4, -6, -8]
        assert values(Z.conj().real) == [1, 3, 5, 7]
        with pytest.raises(ArgumentValueError, match="negated"):
            values(Z.reshape(2, 2).T.conj().imag)
        with pytest.raises(ArgumentValueError, match="negated"):
            values(Z.conj().imag[0])
        assert values(Z.imag[0]) == [2, 2, 2, 2]


def test_elements_side_by_side_are_not_asked(backend_name):
    if backend_name == "interpreter":
        pytest.skip("the backend is launched from Python")

    class Asked(torch.Tensor):
        count = 0

        def is_neg(self) -> bool:
            Asked.count += 1
            return False

    x = torch.arange(4.0).as_subclass(Asked)
    launch, out = read[(1,)], torch.zeros(4)
    launch(out, x, 1, 4)
    asked = Asked.count
    for _ in range(3):
        launch(out, x, 1, 4)
    assert Asked.count == asked and out.tolist() == [0, 1, 2, 3]


def test_parameters_and_tensors_with_gradients_are_tensors():
    assert values(torch.ones(4, requires_grad=True)) == [1, 1, 1, 1]
    assert values(torch.nn.Parameter(torch.ones(4))) == [1, 1, 1, 1]
    assert values(torch.full((1,), 3.0).expand(4)) == [3, 3, 3, 3]


@pytest.mark.parametrize(
    "make, why",
    [
        (lambda: torch.empty(4, device="meta"), "does not hand out its memory"),
        (lambda: torch.ones(4).to_sparse(), "does not hand out its memory"),
        (lambda: torch.ones(4, 4).to_sparse_csr(), "does not hand out its memory"),
        (lambda: torch._efficientzerotensor((4,)), "no memory"),
        (
            lambda: torch.quantize_per_tensor(torch.ones(4), 0.1, 0, torch.qint8),
            "does not hand out its memory",
        ),
        (lambda: Z, "complex64, which kernels do not have"),
        (lambda: Z.conj(), "complex64, which kernels do not have"),
    ],
    ids=["meta", "sparse", "csr", "zeros", "quantized", "complex", "conjugate"],
)
@pytest.mark.filterwarnings("ignore")
def test_tensors_without_plain_memory_are_refused(make, why):
    out = torch.zeros(4)
    read[(1,)](out, torch.ones(4), 1, 4)
    with pytest.raises(ArgumentError if "complex" in why else ArgumentValueError) as caught:
        read[(1,)](out, make(), 1, 4)
    assert why in str(caught.value) and "'x'" in str(caught.value)


def test_functions_under_vmap_are_refused():
    def summed(x: Any) -> Any:
        out = torch.zeros(4)
        read[(1,)](out, x, 1, 4)
        return out

    with pytest.raises(ArgumentValueError, match="does not hand out its memory"):
        torch.func.vmap(summed)(torch.ones(3, 4))
    assert np.all(summed(torch.ones(4)).numpy() == 1)
