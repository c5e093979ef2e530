"""The driver on a real device: memory, launches, streams, graphs, assertions, errors."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tegula_cuda")

from cuda_hand import artifact_of, registered

import tegula
import tegula.language as tl
from tegula.config import config
from tegula.errors import DeviceAssertionError, GridError, KernelError, OutOfResources
from tegula.plugin import DeviceError, digest
from tegula_cuda.driver import CudaDevice, CudaDriver
from tegula_cuda.kernel import CudaKernel
from tegula_cuda.options import CudaOptions
from tegula_cuda.target import resolve

_PROBE = CudaDriver.probe()
pytestmark = pytest.mark.skipif(_PROBE.status != "available", reason=f"no device: {_PROBE.reason}")

N = 1000
PARAMS = {
    "add": ("ptr<f32>", "ptr<f32>", "ptr<f32>", "i32"),
    "affine": ("ptr<f64>", "i64", "f64"),
    "speak": ("i32",),
}


@tegula.jit
def add(x, y, z, n):
    pass


@tegula.jit
def positive(x):
    pass


@pytest.fixture(scope="module")
def device() -> CudaDevice:
    opened = CudaDriver().open(0)
    assert isinstance(opened, CudaDevice)
    return opened


@pytest.fixture
def hand() -> Iterator[None]:
    with registered():
        add.forget()
        positive.forget()
        yield


class Memory:
    """A numpy array's copy on the device."""

    def __init__(self, device: CudaDevice, data: np.ndarray) -> None:
        self.device, self.data = device, np.ascontiguousarray(data)
        self.address = device.alloc(data.nbytes)
        device.copy(self.address, self.data.ctypes.data, data.nbytes)

    def back(self) -> np.ndarray:
        out = np.empty_like(self.data)
        self.device.copy(out.ctypes.data, self.address, out.nbytes)
        self.device.synchronize()
        return out


def load(device: CudaDevice, name: str, **options: Any) -> CudaKernel:
    params = PARAMS.get(name, ("ptr<i32>",))
    return device.load(artifact_of(name, device.info.target, CudaOptions(**options), params))


def needs_hopper(device: CudaDevice) -> None:
    if device.info.target["capability"] < 90:
        pytest.skip("the device has no clusters")


# -- loading and launching


@pytest.mark.parametrize("ptxas", [None, "driver"])
def test_a_launch_computes(device: CudaDevice, ptxas: str | None) -> None:
    with config.scope(**({"ptxas": ptxas} if ptxas else {})):
        kernel = load(device, "add")
    x, y, z = (Memory(device, np.arange(N, dtype=np.float32) * k) for k in (1, 2, 0))
    kernel.launch((8, 1, 1), (x.address, y.address, z.address, N - 1))
    expected = np.arange(N, dtype=np.float32) * 3
    expected[-1] = 0
    np.testing.assert_array_equal(z.back(), expected)
    assert kernel.facts["registers"] > 0 and kernel.facts["max_threads"] >= 128
    assert kernel.programs_at_once() >= 1


def test_wide_scalars_arrive_whole(device: CudaDevice) -> None:
    x = Memory(device, np.zeros(128))
    load(device, "affine").launch((1, 1, 1), (x.address, 1 << 33, -0.5))
    np.testing.assert_array_equal(x.back(), np.arange(128.0) * 2.0**33 - 0.5)


def test_more_shared_memory_than_kernels_get_without_asking(device: CudaDevice) -> None:
    x = Memory(device, np.arange(256, dtype=np.int32))
    load(device, "reverse").launch((2, 1, 1), (x.address,))
    halves = np.arange(256).reshape(2, 128)[:, ::-1]
    np.testing.assert_array_equal(x.back(), halves.ravel())


def test_too_much_shared_memory_is_refused_at_loading(device: CudaDevice) -> None:
    made = artifact_of("reverse", device.info.target)
    greedy = type(made)(
        made.kind, made.data, made.entry, made.params, {**made.metadata, "shared_bytes": 1 << 20}
    )
    with pytest.raises(OutOfResources, match=r"shared memory \(kernel `reverse` on cuda:0"):
        device.load(greedy)


def test_launch_attributes_work(device: CudaDevice) -> None:
    needs_hopper(device)
    x = Memory(device, np.zeros(4, np.int32))
    kernel = load(device, "clusters", cluster_dims=(2,))
    kernel.launch((4, 1, 1), (x.address,))
    np.testing.assert_array_equal(x.back(), [2, 2, 2, 2])
    with pytest.raises(GridError, match="clusters of"):
        kernel.launch((3, 1, 1), (x.address,))
    for options in ({"launch_cooperative_grid": True}, {"launch_pdl": True}):
        load(device, "clusters", **options).launch((4, 1, 1), (x.address,))
        np.testing.assert_array_equal(x.back(), [1, 1, 1, 1])


def test_a_cooperative_grid_that_does_not_fit_says_so(device: CudaDevice) -> None:
    needs_hopper(device)
    x = Memory(device, np.zeros(4, np.int32))
    kernel = load(device, "clusters", launch_cooperative_grid=True)
    with pytest.raises(KernelError, match=r"`clusters` on grid \(1000000, 1, 1\).*smaller grid"):
        kernel.launch((1_000_000, 1, 1), (x.address,))


def test_grids_beyond_the_limits(device: CudaDevice) -> None:
    kernel = load(device, "add")
    kernel.launch((0, 1, 1), (0, 0, 0, 0))
    with pytest.raises(GridError, match="65535"):
        kernel.launch((1, 65536, 1), (0, 0, 0, 0))


def test_a_thread_without_a_context_can_launch(device: CudaDevice) -> None:
    kernel = load(device, "add")
    x, y, z = (Memory(device, np.ones(N, np.float32) * k) for k in (1, 2, 0))
    errors: list[BaseException] = []

    def work() -> None:
        try:
            kernel.launch((8, 1, 1), (x.address, y.address, z.address, N))
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert not errors
    np.testing.assert_array_equal(z.back(), np.full(N, 3, np.float32))


def test_code_can_be_taken_off_the_device(device: CudaDevice) -> None:
    kernel = load(device, "add")
    kernel.unload()
    kernel.unload()  # once is enough
    load(device, "add")


@pytest.mark.parametrize("data", [b".version 7.8\n.target sm_75\nnonsense", b"\x7fELFnonsense"])
def test_code_that_does_not_load_names_the_kernel(device: CudaDevice, data: bytes) -> None:
    made = artifact_of("add", device.info.target)
    kind = "ptx" if data.startswith(b".") else "cubin"
    broken = type(made)(kind, data, "add", made.params, made.metadata)
    with pytest.raises(DeviceError, match=f"kernel 'add' \\({kind}\\) is damaged"):
        device.load(broken)


def test_code_that_the_driver_refuses_names_the_kernel(device: CudaDevice) -> None:
    made = artifact_of("add", device.info.target)
    data = b".version 7.8\n.target sm_75\n.visible .entry add() { nonsense; }\n"
    metadata = {**made.metadata, "digest": digest(data)}
    broken = type(made)("ptx", data, "add", made.params, metadata)
    with pytest.raises(DeviceError, match="kernel `add` on cuda:0.*cannot be loaded from ptx"):
        device.load(broken)


def test_code_for_another_architecture_does_not_load(device: CudaDevice) -> None:
    other = "sm_120a" if device.info.target.arch != "sm_120a" else "sm_90a"
    with config.scope(ptxas="driver"):
        made = artifact_of("add", resolve(other))
    with pytest.raises(DeviceError, match="kernel `add` on cuda:0"):
        device.load(made)


# -- assertions, printing, faults


def test_a_failed_assertion_names_message_and_program(device: CudaDevice) -> None:
    kernel = load(device, "positive")
    fine, bad = (Memory(device, np.full(1, k, np.int32)) for k in (-1, 3))
    kernel.launch((5, 1, 1), (fine.address,))
    for _ in range(2):
        with pytest.raises(DeviceAssertionError, match=r"program \(3, 0, 0\): x is not positive"):
            kernel.launch((5, 1, 1), (bad.address,))
    kernel.launch((5, 1, 1), (fine.address,))
    device.synchronize()


def test_what_a_kernel_prints_is_there_after_synchronize(
    device: CudaDevice, capfd: pytest.CaptureFixture[str]
) -> None:
    print("before")
    load(device, "speak").launch((3, 1, 1), (42,))
    device.synchronize()
    print("after")
    lines = capfd.readouterr().out.splitlines()
    assert lines[0] == "before" and lines[-1] == "after"
    assert sorted(lines[1:-1]) == [f"program {i}: 42" for i in range(3)]


def test_a_stray_access_names_kernel_grid_device_and_remedy() -> None:
    program = (
        "import sys; sys.path[:0] = eval(sys.argv[1])\n"
        "from cuda_hand import artifact_of\n"
        "from tegula_cuda.driver import CudaDriver\n"
        "device = CudaDriver().open(0)\n"
        "params = ('ptr<i32>',)\n"
        "kernel = device.load(artifact_of('stray', device.info.target, None, params))\n"
        "x = device.alloc(64)\n"
        "kernel.launch((1, 1, 1), (x,))\n"
        "for action in (device.synchronize, lambda: kernel.launch((7, 1, 1), (x,))):\n"
        "    try:\n"
        "        action()\n"
        "    except Exception as error:\n"
        "        print(type(error).__name__, error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, repr(sys.path)], capture_output=True, text=True, timeout=120
    )
    waiting, launching = done.stdout.splitlines()
    assert waiting.startswith("KernelError waiting for cuda:0 (")
    assert "kernel `stray` on grid (7, 1, 1) of cuda:0 (" in launching
    for line in (waiting, launching):
        assert "CUDA_ERROR_ILLEGAL_ADDRESS (700)" in line and "out of bounds" in line


# -- memory and time


def test_memory_is_aligned_and_runs_out_with_an_error(device: CudaDevice) -> None:
    address = device.alloc(1)
    assert address % 64 == 0
    device.free(address)
    with pytest.raises(MemoryError, match="free"):
        device.alloc(1 << 50)
    with pytest.raises(DeviceError, match="freeing"):
        device.free(12345)


def test_events_measure_time(device: CudaDevice) -> None:
    x = Memory(device, np.zeros(1 << 24, np.uint8))
    start = device.mark()
    for _ in range(20):
        device.copy(x.address, x.address + (1 << 23), 1 << 23)
    stop = device.mark()
    assert 1e-6 < device.elapsed(start, stop) < 1


def test_arrays_without_any_library() -> None:
    data = np.arange(12, dtype=np.int16).reshape(3, 4)
    x = tegula.asarray(data, device="cuda")
    assert x.device == "cuda:0" and x.__dlpack_device__() == (2, 0)
    assert x.__cuda_array_interface__["shape"] == (3, 4)
    np.testing.assert_array_equal(x.numpy(), data)
    x.copy_from(data + 1)
    np.testing.assert_array_equal(np.asarray(x), data + 1)


# -- launches as users make them


def on_device(*arrays: np.ndarray) -> list[Any]:
    return [tegula.asarray(a, device="hand") for a in arrays]


@pytest.mark.usefixtures("hand")
def test_launches_go_natively_from_the_second_on(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y, z = on_device(*(np.ones(N, np.float32) * k for k in (1, 2, 0)))
    add[(8,)](x, y, z, N)
    monkeypatch.setattr(add._variants, "prepare", None)
    z.copy_from(np.zeros(N, np.float32))
    compiled = add[(8,)](x, y, z, N)
    np.testing.assert_array_equal(z.numpy(), np.full(N, 3, np.float32))
    assert compiled.n_regs > 0


def torch_or_skip() -> Any:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("this torch has no CUDA")
    return torch


@pytest.mark.usefixtures("hand")
@pytest.mark.parametrize("native_exchange", [True, False])
def test_launches_run_on_torchs_current_stream(
    monkeypatch: pytest.MonkeyPatch, native_exchange: bool
) -> None:
    torch = torch_or_skip()
    if not native_exchange:
        from tegula.runtime import arguments

        monkeypatch.setattr(arguments, "_exchange_of", lambda kind: None)
    x, y = (torch.full((N,), float(k), device="cuda") for k in (1, 2))
    z = torch.zeros(N, device="cuda")
    add[(8,)](x, y, z, N)
    torch.cuda.synchronize()
    monkeypatch.setattr(add._variants, "prepare", None)  # from here on natively
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for k in range(3):
            torch.cuda._sleep(20_000_000)
            x.fill_(10.0 * k)
            add[(8,)](x, y, z, N)
            assert not stream.query()  # the launch waits for nothing
            seen = z.clone()
            stream.synchronize()
            assert torch.equal(seen, torch.full_like(seen, 10.0 * k + 2))


@pytest.mark.usefixtures("hand")
def test_launches_are_recorded_into_graphs() -> None:
    torch = torch_or_skip()
    x, y = (torch.full((N,), float(k), device="cuda") for k in (1, 2))
    z = torch.zeros(N, device="cuda")
    add[(8,)](x, y, z, N)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        add[(8,)](x, y, z, N)
        add[(8,)](z, y, z, N)
    z.zero_()
    x.fill_(100.0)
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(z, torch.full_like(z, 104.0))


@pytest.mark.usefixtures("hand")
def test_the_first_launch_of_a_kernel_can_be_in_a_graph() -> None:
    torch = torch_or_skip()
    x, y = (torch.full((N,), float(k), device="cuda") for k in (1, 2))
    z = torch.zeros(N, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        add[(8,)](x, y, z, N)
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(z, torch.full_like(z, 3.0))


@tegula.jit
def one_more(x, y, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i) + 1)


def test_kernels_that_start_early_see_what_was_written_before(device: CudaDevice) -> None:
    needs_hopper(device)
    x, y = (tegula.asarray(np.zeros(1 << 20, np.float32), device="cuda") for _ in range(2))
    for _ in range(100):
        one_more[(1024,)](x, y, BLOCK=1024, launch_pdl=True)
        one_more[(1024,)](y, x, BLOCK=1024, launch_pdl=True)
    np.testing.assert_array_equal(x.numpy(), np.full(1 << 20, 200, np.float32))


@pytest.mark.skipif(len(_PROBE.devices) < 2, reason="one device only")
def test_each_of_several_devices_works_on_its_arrays() -> None:
    made = []
    for index in range(len(_PROBE.devices)):
        x, y = (
            tegula.asarray(np.full(1024, index, np.float32), device=f"cuda:{index}")
            for _ in range(2)
        )
        one_more[(1,)](x, y, BLOCK=1024)
        made.append(y)
    for index, y in enumerate(made):
        assert y.device == f"cuda:{index}"
        np.testing.assert_array_equal(y.numpy(), np.full(1024, index + 1, np.float32))


@pytest.mark.usefixtures("hand")
def test_assertions_in_graphs_are_raised_by_synchronize() -> None:
    torch = torch_or_skip()
    from tegula.plugin.registry import registry

    x = torch.full((1,), -1, dtype=torch.int32, device="cuda")
    positive[(5,)](x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        positive[(5,)](x)
    x.fill_(4)
    graph.replay()
    opened = registry.backend("hand").device(0)
    with pytest.raises(DeviceAssertionError, match=r"program \(4, 0, 0\): x is not positive"):
        opened.synchronize()
    opened.synchronize()


@pytest.mark.usefixtures("hand")
def test_launches_take_cupys_arrays_and_stream() -> None:
    cupy = pytest.importorskip("cupy")
    x, y, z = (cupy.full(N, k, cupy.float32) for k in (1, 2, 0))
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        for k in range(3):
            x.fill(k)
            add[(8,)](x, y, z, N)
            assert bool((z == k + 2).all())


@pytest.mark.usefixtures("hand")
def test_streams_are_found_for_every_kind_of_array(device: CudaDevice) -> None:
    class Interface:
        def __init__(self) -> None:
            self.__cuda_array_interface__ = {"stream": 2}

    class Protocol:
        def __cuda_stream__(self) -> tuple[int, int]:
            return 0, 77

    assert device.stream_of(Interface()) == 2
    assert device.stream_of(Protocol()) == 77
    assert device.stream_of(object()) == 0
    assert device.stream_function(object()) == 0
    assert device.stream_function(Interface()) is None
