"""Device arrays: shared where the host reaches the device, copied where it does not."""

from __future__ import annotations

import gc
from types import ModuleType
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tegula
import tegula.language as tl
from tegula.errors import ArgumentError


@tegula.jit
def double(x_ptr, n, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    tl.store(x_ptr + offs, tl.load(x_ptr + offs, mask=offs < n) * 2, mask=offs < n)


@pytest.fixture(autouse=True)
def interpreter() -> Any:
    with tegula.use_device("interpreter"):
        yield


def test_numpy_memory_is_shared() -> None:
    x = np.arange(10, dtype=np.float32)
    a = tegula.asarray(x)
    assert a.device == "interpreter:0"
    assert a.data_ptr() == x.ctypes.data
    assert (a.shape, a.strides, a.dtype, a.size, a.nbytes) == ((10,), (4,), x.dtype, 10, 40)
    double[(1,)](a, 10, BLOCK=16)
    assert (x == 2 * np.arange(10)).all()
    assert a.numpy() is x
    assert tegula.asarray(a) is a


def test_strided_views_keep_their_strides() -> None:
    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    a = tegula.asarray(x[::2, ::3])
    assert a.strides == (48, 12)
    assert (np.asarray(a) == x[::2, ::3]).all()
    assert (np.from_dlpack(a) == x[::2, ::3]).all()


@pytest.mark.parametrize("x", [[1.0, 2.0], (3, 4), 5.0, [[1], [2]]])
def test_from_python(x: Any) -> None:
    a = tegula.asarray(x)
    assert (a.numpy() == np.asarray(x)).all()
    assert a.shape == np.asarray(x).shape
    b = tegula.asarray(x, dtype="bf16")
    assert b.dtype == np.dtype(ml_dtypes.bfloat16)
    assert (b.numpy().astype(float) == np.asarray(x)).all()


def test_torch_both_ways() -> None:
    torch = pytest.importorskip("torch")
    t = torch.arange(8.0)
    a = tegula.asarray(t)
    assert a.data_ptr() == t.data_ptr()
    double[(1,)](a, 8, BLOCK=8)
    assert (t == 2 * torch.arange(8.0)).all()
    back = torch.from_dlpack(a)
    assert back.data_ptr() == t.data_ptr()


@pytest.mark.parametrize(
    "dtype", ["float32", "bfloat16", "int8", "bool", "float8_e4m3fn", tl.float64]
)
def test_empty(dtype: Any) -> None:
    a = tegula.empty((3, 4), dtype)
    assert a.data_ptr() % 16 == 0
    view = a.numpy()
    assert view.shape == (3, 4)
    view[...] = 1
    assert (a.numpy().astype(float) == 1).all()
    a.copy_from(np.zeros((3, 4)))
    assert (a.numpy().astype(float) == 0).all()
    with pytest.raises(ArgumentError, match="shape"):
        a.copy_from(np.zeros((4, 3)))


def test_views_keep_memory_alive() -> None:
    a = tegula.empty((1000,), "float32")
    view, exported = a.numpy(), np.from_dlpack(a)
    view[:] = 7
    del a
    gc.collect()
    other = tegula.empty((1000,), "float32")
    other.numpy()[:] = 9
    assert (view == 7).all()
    assert (exported == 7).all()


def test_memory_is_returned(recording: ModuleType) -> None:
    with tegula.use_device("recording"):
        a = tegula.empty((16,), "float32")
        device = a._selection.open()
        assert a.data_ptr() in device._blocks
        address = a.data_ptr()
        del a
        gc.collect()
        assert address not in device._blocks


def test_wrong_arguments() -> None:
    with pytest.raises(ArgumentError, match="no dtype"):
        tegula.empty((3,), "float33")
    with pytest.raises(ArgumentError, match="negative"):
        tegula.empty((3, -1))
    with pytest.raises(ArgumentError, match="complex128"):
        tegula.asarray(np.zeros(3, complex))


def test_copies_where_the_host_does_not_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    from runtime import far_backend

    with far_backend.registered():
        x = np.arange(10, dtype=np.float32)
        a = tegula.asarray(x, device="far")
        assert a.place == (far_backend.DEVICE_TYPE, 0)
        assert not hasattr(a, "__array_interface__")
        assert (a.numpy() == x).all()
        a.copy_from(x + 1)
        assert (a.numpy() == x + 1).all()
        assert (x == np.arange(10)).all()
        with tegula.use_device(None), pytest.raises(Exception, match="different devices"):
            double[(1,)]((a, x), 10, BLOCK=16)
