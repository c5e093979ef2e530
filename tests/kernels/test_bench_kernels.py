"""Every benchmark kernel, on every backend that has a device here: with numpy and torch inputs
where it reaches host memory, with arrays in its own memory otherwise.

References are numpy in f64. Sizes are no multiples of the block, and include 0 and 1.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType

import ml_dtypes
import numpy as np
import pytest

import tegula
from tegula.plugin.records import HOST_DLPACK
from tegula.plugin.registry import registry

torch = pytest.importorskip("torch")
BENCH = Path(__file__).parents[2] / "benchmarks" / "kernels.py"
DTYPES = {
    "f32": np.dtype(np.float32),
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f64": np.dtype(np.float64),
}
EPS = {"f32": 2e-6, "f16": 2e-3, "bf16": 1.6e-2, "f64": 1e-14}
"""Relative error (in norm) that a correct kernel stays below with a few roundings in the type."""


def _load() -> ModuleType:
    saved = os.environ.get("IMPL")
    os.environ["IMPL"] = "tegula"
    try:
        spec = importlib.util.spec_from_file_location("tegula_bench_kernels", BENCH)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
        return module
    finally:
        if saved is None:
            del os.environ["IMPL"]
        else:
            os.environ["IMPL"] = saved


K = _load()


def places() -> list[tuple[str, str]]:
    """Pairs of a device and who makes its arrays."""
    found = [(name, lib) for name in ("cpu", "interpreter") for lib in ("numpy", "torch")]
    others = [b.name for b in registry.usable() if HOST_DLPACK not in b.spec.dlpack]
    return [*found, *((name, name) for name in others if registry.backend(name).available)]


@pytest.fixture(params=places(), ids="-".join)
def place(request: pytest.FixtureRequest):
    with tegula.use_device(request.param[0]):
        yield request.param


@pytest.fixture
def device(place) -> str:
    return place[0]


@pytest.fixture
def library(place) -> str:
    return place[1]


class Arrays:
    """Makes a kernel's arguments in one library and reads results back as f64."""

    def __init__(self, library: str, seed: int = 0) -> None:
        self.library, self.rng = library, np.random.default_rng(seed)

    def give(self, a: np.ndarray):
        if self.library == "numpy":
            return a
        if self.library != "torch":
            return tegula.asarray(a, device=self.library)
        if a.dtype == ml_dtypes.bfloat16:
            return torch.from_numpy(a.view(np.int16)).view(torch.bfloat16)
        return torch.from_numpy(a)

    def normal(self, *shape: int, dtype: str = "f32"):
        """The argument and its exact values in f64."""
        a = self.rng.standard_normal(shape).astype(DTYPES[dtype])
        return self.give(a), a.astype(np.float64)

    def empty(self, *shape: int, dtype: str = "f32"):
        """An output full of a value that no kernel writes; and a function reading it as f64."""
        a = np.full(shape, -77, DTYPES[dtype])
        given = self.give(a)
        return given, lambda: self.read(given, a).astype(np.float64)

    def read(self, given, a: np.ndarray) -> np.ndarray:
        """What is in an array that was made of `a`."""
        return a if self.library in ("numpy", "torch") else given.numpy()


def check(got: np.ndarray, want: np.ndarray, eps: float) -> None:
    assert got.shape == want.shape
    assert np.isfinite(got).all() or not np.isfinite(want).all()
    error = np.linalg.norm(got - want) / max(np.linalg.norm(want), 1e-30)
    assert error <= eps, f"relative error {error:.3g} is above {eps:.3g}"


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [0, 1, 7, 1000, 4097])
def test_add(device, library, dtype, n):
    a = Arrays(library)
    (x, xr), (y, yr), (out, read) = (
        a.normal(n, dtype=dtype),
        a.normal(n, dtype=dtype),
        a.empty(n + 3, dtype=dtype),
    )

    K.add_kernel[(tegula.cdiv(n, 256),)](x, y, out, n, BLOCK=256)

    check(read()[:n], xr + yr, EPS[dtype])
    assert (read()[n:] == -77).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "rows, cols, block", [(0, 5, 8), (1, 1, 1), (3, 1, 16), (5, 100, 128), (2, 1000, 1000)]
)
def test_softmax(device, library, dtype, rows, cols, block):
    a = Arrays(library)
    (x, xr), (out, read) = a.normal(rows, cols, dtype=dtype), a.empty(rows, cols, dtype=dtype)

    K.softmax_kernel[(rows,)](out, x, cols, cols, cols, BLOCK=block)

    if rows:
        e = np.exp(xr - xr.max(1, keepdims=True))
        check(read(), e / e.sum(1, keepdims=True), max(EPS[dtype], EPS["f32"]))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rows, cols, block", [(0, 5, 8), (1, 1, 1), (3, 7, 16), (4, 300, 512)])
def test_layernorm(device, library, dtype, rows, cols, block):
    a = Arrays(library)
    (x, xr), (w, wr), (b, br) = (
        a.normal(*s, dtype=dtype) for s in ((rows, cols), (cols,), (cols,))
    )
    out, read = a.empty(rows, cols, dtype=dtype)
    (mean, read_mean), (rstd, read_rstd) = a.empty(rows), a.empty(rows)

    K.layernorm_kernel[(rows,)](x, out, w, b, mean, rstd, cols, cols, 1e-5, BLOCK=block)

    if rows:
        mu = xr.mean(1, keepdims=True)
        r = 1 / np.sqrt(((xr - mu) ** 2).mean(1, keepdims=True) + 1e-5)
        check(read(), (xr - mu) * r * wr + br, max(EPS[dtype], EPS["f32"]) * 4)
        check(read_mean(), mu[:, 0], 1e-5)
        check(read_rstd(), r[:, 0], 1e-5)


def philox_uniform(seed: int, offsets: np.ndarray) -> np.ndarray:
    """First word of Philox 4x32-10 as a float in [0, 1), in plain Python integers."""
    out = []
    for offset in offsets.tolist():
        c, k = [offset, 0, 0, 0], [seed & 0xFFFFFFFF, seed >> 32]
        for _ in range(10):
            p0, p1 = c[0] * 0xD2511F53, c[2] * 0xCD9E8D57
            c = [
                (p1 >> 32) ^ c[1] ^ k[0],
                p1 & 0xFFFFFFFF,
                (p0 >> 32) ^ c[3] ^ k[1],
                p0 & 0xFFFFFFFF,
            ]
            k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
        word = c[0] - (1 << 32) if c[0] >> 31 else c[0]
        out.append(np.float32(-word - 1 if word < 0 else word) * np.float32(4.6566127342e-10))
    return np.array(out, np.float32)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [0, 1, 500])
def test_dropout(device, library, dtype, n):
    a = Arrays(library)
    (x, xr), (out, read) = a.normal(n, dtype=dtype), a.empty(n, dtype=dtype)

    K.dropout_kernel[(tegula.cdiv(n, 128),)](x, out, n, 0.3, 42, BLOCK=128)

    keep = philox_uniform(42, np.arange(n)) > np.float32(0.3)
    check(read(), np.where(keep, xr / (1 - 0.3), 0), max(EPS[dtype], 1e-7))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rows, cols, block", [(0, 4, 8), (1, 1, 1), (3, 13, 16), (2, 777, 1024)])
def test_cumsum(device, library, dtype, rows, cols, block):
    a = Arrays(library)
    (x, xr), (out, read) = a.normal(rows, cols, dtype=dtype), a.empty(rows, cols, dtype=dtype)

    K.cumsum_kernel[(rows,)](x, out, cols, BLOCK=block)

    if rows:
        check(read(), xr.cumsum(1), EPS[dtype] * 8)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "m, n, bm, bn", [(0, 3, 4, 4), (1, 1, 1, 1), (37, 50, 16, 32), (65, 3, 16, 16)]
)
def test_transpose(device, library, dtype, m, n, bm, bn):
    a = Arrays(library)
    (x, xr), (out, read) = a.normal(m, n, dtype=dtype), a.empty(n, m, dtype=dtype)

    K.transpose_kernel[(tegula.cdiv(m, bm), tegula.cdiv(n, bn))](x, out, m, n, BM=bm, BN=bn)

    assert np.array_equal(read(), xr.T)


@pytest.mark.parametrize("n", [0, 1, 3001])
def test_histogram(device, library, n):
    a = Arrays(library)
    values = a.rng.integers(0, 17, n).astype(np.int32)
    counts = np.zeros(17, np.int32)
    given = a.give(counts)

    K.atomic_hist_kernel[(tegula.cdiv(n, 512),)](a.give(values), given, n, BLOCK=512)

    assert np.array_equal(a.read(given, counts), np.bincount(values, minlength=17))


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
@pytest.mark.parametrize("m, n, k", [(0, 5, 5), (1, 1, 1), (33, 17, 41), (70, 130, 65)])
def test_matmul(device, library, dtype, m, n, k):
    a = Arrays(library)
    (x, xr), (y, yr), (out, read) = (
        a.normal(m, k, dtype=dtype),
        a.normal(k, n, dtype=dtype),
        a.empty(m, n, dtype=dtype),
    )
    grid = (tegula.cdiv(m, 32) * tegula.cdiv(n, 64),)

    K.matmul_kernel[grid](x, y, out, m, n, k, k, 1, n, 1, n, 1, BM=32, BN=64, BK=32, GROUP=4)

    if m:
        check(read(), xr @ yr, EPS[dtype])


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
@pytest.mark.parametrize("sub", [1, 2])
@pytest.mark.parametrize("m, n, k", [(1, 1, 1), (70, 50, 40), (33, 130, 65)])
def test_matmul_persistent_descriptors(device, library, dtype, sub, m, n, k):
    a = Arrays(library)
    (x, xr), (y, yr), (out, read) = (
        a.normal(m, k, dtype=dtype),
        a.normal(n, k, dtype=dtype),
        a.empty(m, n, dtype=dtype),
    )

    K.matmul_desc_persistent_kernel[(2,)](
        x, y, out, m, n, k, BM=32, BN=64, BK=32, GROUP=4, NUM_SMS=2, SUB=sub
    )

    check(read(), xr @ yr.T, EPS[dtype])


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("heads, s, d", [(1, 32, 16), (2, 96, 24)])
def test_attention(device, library, dtype, causal, heads, s, d):
    a = Arrays(library)
    (q, qr), (k, kr), (v, vr) = (a.normal(heads, s, d, dtype=dtype) for _ in range(3))
    (out, read), (lse, read_lse) = a.empty(heads, s, d, dtype=dtype), a.empty(heads, s)

    K.attention_fwd_kernel[(s // 32, heads)](
        q, k, v, out, lse, d**-0.5, s, D=d, BM=32, BN=16 if not causal else 32, CAUSAL=causal
    )

    w = qr @ kr.transpose(0, 2, 1) * d**-0.5
    w = np.where(np.tri(s, dtype=bool), w, -np.inf) if causal else w
    e = np.exp(w - w.max(-1, keepdims=True))
    check(read(), e / e.sum(-1, keepdims=True) @ vr, EPS[dtype])
    check(read_lse(), np.log2(e.sum(-1)) + w.max(-1) * np.log2(np.e), 1e-5)


def test_noop(device, library):
    a = Arrays(library)
    arrays = [a.normal(4)[0] for _ in range(5)]

    K.noop_kernel[(1,)](*arrays, 1024, 77, BLOCK=64)

    for x, expected in zip(arrays, (Arrays(library).normal(4)[1],)):
        assert np.array_equal(np.asarray(x, np.float64), expected)
