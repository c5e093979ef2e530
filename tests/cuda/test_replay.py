"""Kernels that a real device launches as graphs of their own: what is launched, where and when."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tegula_cuda")

import tegula
import tegula.language as tl
from tegula.config import config
from tegula_cuda import cu
from tegula_cuda.driver import CudaDriver
from tegula_cuda.launcher import graphs_serve

torch = pytest.importorskip("torch")

_PROBE = CudaDriver.probe()
pytestmark = [
    pytest.mark.skipif(_PROBE.status != "available", reason=f"no device: {_PROBE.reason}"),
    pytest.mark.skipif(
        _PROBE.status == "available" and not graphs_serve(cu.version()), reason="no such graphs"
    ),
]

OFTEN = 100
"""More launches than a graph waits for."""


@tegula.jit
def put(out, place, value):
    tl.store(out + place + tl.program_id(0), value + tl.program_id(0))


@tegula.jit
def double(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)


@tegula.jit
def product(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    ad = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BM, BK])
    bd = tl.make_tensor_descriptor(b, [K, N], [N, 1], [BK, BN])
    cd = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BM, BN])
    m, n = tl.program_id(0) * BM, tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        acc = tl.dot(ad.load([m, k]), bd.load([k, n]), acc)
    cd.store([m, n], acc.to(tl.float16))


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    yield
    torch.cuda.synchronize()
    for kernel in (put, double, product):
        kernel.forget()


def zeros(n: int, dtype: Any = None) -> Any:
    return torch.zeros(n, dtype=dtype or torch.int32, device="cuda")


def is_replayed(compiled: Any) -> bool:
    return bool(compiled.kernel._replay.graph.launchable)


def test_each_launch_has_its_own_arguments_and_grid() -> None:
    n, outs = 20_000, [zeros(200_000) for _ in range(3)]
    rng = np.random.default_rng(0)
    grids = rng.integers(1, 4, n)
    places = np.concatenate([[0], np.cumsum(grids)])
    for i in range(n):
        made = put[(int(grids[i]),)](outs[i % 3], int(places[i]), i)
    assert is_replayed(made)
    for k, out in enumerate(outs):
        expected = np.zeros(200_000, np.int32)
        for i in range(k, n, 3):
            expected[places[i] : places[i + 1]] = i + np.arange(grids[i])
        np.testing.assert_array_equal(out.cpu().numpy(), expected)


def test_the_same_launch_again_and_again() -> None:
    x = zeros(4096, torch.float32) + 1
    for _ in range(20):
        for _ in range(OFTEN):
            made = double[(4,)](x, x, 4096, BLOCK=1024)
        assert float(x.min()) == float(x.max()) == 2.0**OFTEN
        x.fill_(1)
    assert is_replayed(made)


def test_work_of_other_streams_comes_before_and_after_as_told() -> None:
    n = 1 << 26
    x, y = zeros(n, torch.float32), zeros(n, torch.float32)
    side = torch.cuda.Stream()
    grid = (n // 1024,)
    for _ in range(OFTEN):
        made = double[grid](x, y, n, BLOCK=1024)
    assert is_replayed(made)
    for value in range(1, 30):
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            x.zero_()
            x.fill_(value)
        torch.cuda.current_stream().wait_stream(side)
        double[grid](x, y, n, BLOCK=1024)
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            low, high = y.min(), y.max()
        side.synchronize()
        assert float(low) == float(high) == 2 * value


def test_the_default_stream_waits_for_streams_that_are_not_torchs() -> None:
    device = CudaDriver().open(0)
    driver, n = cu.bindings(), 1 << 27
    with device.current():
        stream = cu.check(driver.cuStreamCreate(0), "a stream that waits for the default stream")
    x, y = zeros(n, torch.float32), zeros(n, torch.float32)
    ones = zeros(n, torch.float32) + 1
    for _ in range(OFTEN):
        made = double[(n // 1024,)](x, y, n, BLOCK=1024)
    assert is_replayed(made)
    for value in (ones, ones * 3, ones * 5):
        torch.cuda.synchronize()
        device.copy(x.data_ptr(), value.data_ptr(), 4 * n, stream=int(stream))
        double[(n // 1024,)](x, y, n, BLOCK=1024)
        device.copy(x.data_ptr(), ones.data_ptr(), 4 * n, stream=int(stream))
        torch.cuda.synchronize()
        assert float(y.min()) == float(y.max()) == 2 * float(value[0])
    driver.cuStreamDestroy(stream)


def test_a_side_stream_gets_the_graph_and_gives_it_back() -> None:
    out, side = zeros(3000), torch.cuda.Stream()
    for k, stream in enumerate([torch.cuda.current_stream(), side, torch.cuda.current_stream()]):
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for i in range(1000):
                made = put[(1,)](out, 1000 * k + i, i + 1)
        torch.cuda.synchronize()
        assert (made.kernel._replay.graph.stream or 0) == stream.cuda_stream
    np.testing.assert_array_equal(out.cpu().numpy(), np.tile(np.arange(1000) + 1, 3))


def test_streams_with_priority_are_launched_plainly() -> None:
    out, side = zeros(1000), torch.cuda.Stream(priority=-1)
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        for i in range(1000):
            made = put[(1,)](out, i, i)
    torch.cuda.synchronize()
    assert not is_replayed(made)
    np.testing.assert_array_equal(out.cpu().numpy(), np.arange(1000))


def test_what_is_recorded_keeps_its_arguments() -> None:
    out, side = zeros(1000), torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        for i in range(OFTEN):
            made = put[(1,)](out, i, 1)
    assert is_replayed(made) and made.kernel._replay.graph.stream == side.cuda_stream
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=side):
        put[(1,)](out, 500, 7)
        put[(2,)](out, 501, 8)
    with torch.cuda.stream(side):
        put[(1,)](out, 600, 9)
    torch.cuda.synchronize()
    assert out[500:503].tolist() == [0, 0, 0] and int(out[600]) == 9
    graph.replay()
    torch.cuda.synchronize()
    assert out[500:503].tolist() == [7, 8, 9]


@pytest.mark.parametrize("mode", ["global", "thread_local", "relaxed"])
def test_a_long_recording_is_not_disturbed(mode: str) -> None:
    """A stream whose launches are recorded may get the graph, which it then does not use."""
    out, side, graph = zeros(1000), torch.cuda.Stream(), torch.cuda.CUDAGraph()
    put[(1,)](out, 0, 0)
    torch.cuda.synchronize()
    with torch.cuda.graph(graph, stream=side, capture_error_mode=mode):
        for i in range(1000):
            made = put[(1,)](out, i, i + 1)
    assert not out.any()
    graph.replay()
    torch.cuda.synchronize()
    np.testing.assert_array_equal(out.cpu().numpy(), np.arange(1000) + 1)
    with torch.cuda.stream(side):
        for i in range(1000):
            put[(1,)](out, i, i)
    torch.cuda.synchronize()
    assert is_replayed(made)
    np.testing.assert_array_equal(out.cpu().numpy(), np.arange(1000))


def test_a_stray_access_of_a_graph_is_reported_as_ever() -> None:
    code = f"""
import sys, torch, tegula
sys.path.insert(0, {os.path.dirname(__file__)!r})
from test_replay import put
out = torch.zeros(200, dtype=torch.int32, device="cuda")
for i in range(100):
    put[(1,)](out, i, i)
torch.cuda.synchronize()
put[(1,)](out, 1 << 29, 1)
try:
    for i in range(1000):
        put[(1,)](out, i % 100, i)
        torch.cuda.synchronize()
except tegula.errors.TegulaError as error:
    print("ours", error)
except Exception as error:
    print("torch's", error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "illegal memory access" in done.stdout, done.stdout + done.stderr
    assert done.returncode == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_process_that_forks_goes_on() -> None:
    out = zeros(300)
    for i in range(100):
        put[(1,)](out, i, i)
    torch.cuda.synchronize()
    child = os.fork()
    if child == 0:
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    for i in range(100, 300):
        put[(1,)](out, i, i)
    torch.cuda.synchronize()
    np.testing.assert_array_equal(out.cpu().numpy(), np.arange(300))


@pytest.mark.parametrize("mode", ["global", "thread_local"])
def test_other_threads_may_record_meanwhile(mode: str) -> None:
    out, recorded, side = zeros(5000), zeros(16), torch.cuda.Stream()
    begun, over, errors = threading.Event(), threading.Event(), []
    graph = torch.cuda.CUDAGraph()

    def record() -> None:
        try:
            with torch.cuda.graph(graph, stream=side, capture_error_mode=mode):
                recorded.add_(1)
                begun.set()
                assert over.wait(60)
                recorded.add_(1)
        except BaseException as error:
            errors.append(error)
        finally:
            begun.set()

    put[(1,)](out, 0, 0)  # compiled and loaded before
    recorded.add_(0)
    torch.cuda.synchronize()
    thread = threading.Thread(target=record)
    thread.start()
    assert begun.wait(60)
    for i in range(5000):  # the graph is made on the way
        made = put[(1,)](out, i, i)
    over.set()
    thread.join()
    assert not errors and is_replayed(made)
    graph.replay()
    torch.cuda.synchronize()
    np.testing.assert_array_equal(out.cpu().numpy(), np.arange(5000))
    assert recorded.tolist() == [2] * 16


def test_threads_that_launch_one_kernel_at_the_same_time() -> None:
    n, threads = 5000, 8
    out = zeros(n * threads)
    errors: list[BaseException] = []

    def work(first: int) -> None:
        try:
            for i in range(first, first + n):
                put[(1,)](out, i, i)
        except BaseException as error:
            errors.append(error)

    put[(1,)](out, 0, 0)
    workers = [threading.Thread(target=work, args=(k * n,)) for k in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    torch.cuda.synchronize()
    assert not errors
    np.testing.assert_array_equal(out.cpu().numpy(), np.arange(n * threads))


@pytest.mark.skipif(
    _PROBE.status == "available" and _PROBE.devices[0].details["capability"] < "9.0",
    reason="no tensor maps",
)
def test_tensor_maps_of_graphs() -> None:
    torch.manual_seed(0)
    pairs = []
    for shape in [(128, 128, 64), (256, 128, 128), (128, 256, 192)]:
        m, n, k = shape
        a = torch.randn(m, k, device="cuda", dtype=torch.float16)
        b = torch.randn(k, n, device="cuda", dtype=torch.float16)
        pairs.append((a, b, shape, (a.double() @ b.double())))
    outs = [torch.zeros(p[2][0], p[2][1], device="cuda", dtype=torch.float16) for p in pairs]
    for turn in range(300):
        for (a, b, (m, n, k), _), out in zip(pairs, outs):
            made = product[(m // 64, n // 64)](a, b, out, m, n, k, BM=64, BN=64, BK=64)
        if turn % 100 == 99:
            for (_, _, _, expected), out in zip(pairs, outs):
                torch.testing.assert_close(out.double(), expected, rtol=2e-3, atol=2e-2)
                out.zero_()
    assert made.kernel._handle.map_count and is_replayed(made)


def test_graphs_leave_the_device_with_the_kernel() -> None:
    """Their memory stays with the driver, which has it for the graphs that follow."""
    out, free = zeros(OFTEN), []
    for turn in range(150):
        for i in range(OFTEN):
            made = put[(1,)](out, i, i)
        assert is_replayed(made)
        del made
        put.forget()
        gc.collect()
        torch.cuda.synchronize()
        if turn in (49, 149):
            free.append(torch.cuda.mem_get_info()[0])
    assert free[0] - free[1] < 4 << 20
    np.testing.assert_array_equal(out.cpu().numpy(), np.arange(OFTEN))


def test_the_setting_that_launches_plainly() -> None:
    out = zeros(OFTEN)
    with config.scope(graph_launch=False):
        for i in range(OFTEN):
            made = put[(1,)](out, i, i)
    torch.cuda.synchronize()
    assert not is_replayed(made)
    np.testing.assert_array_equal(out.cpu().numpy(), np.arange(OFTEN))


def test_profilers_see_the_kernels_by_name() -> None:
    from torch.profiler import ProfilerActivity, profile

    out = zeros(4 * OFTEN)
    for i in range(2 * OFTEN):
        made = put[(1,)](out, i, i)
    assert is_replayed(made)
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU]) as seen:
        for i in range(2 * OFTEN, 3 * OFTEN):
            put[(1,)](out, i, i)
        torch.cuda.synchronize()
    counts = {e.key: e.count for e in seen.key_averages()}
    assert counts.get("put") == OFTEN, counts
    assert int(out.sum()) == sum(range(3 * OFTEN))
