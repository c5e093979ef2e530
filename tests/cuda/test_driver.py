"""The driver's Python side and whole launches against a stand-in for NVIDIA's driver."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tegula_cuda")

import cuda_fake
from cuda_fake import FakeCuda
from cuda_hand import artifact_of

import tegula
import tegula.language as tl
from tegula.config import config
from tegula.errors import GridError, KernelError, OptionWarning, OutOfResources
from tegula.plugin import DeviceError
from tegula.runtime import autotune
from tegula_cuda import health
from tegula_cuda.driver import CudaDevice, CudaDriver
from tegula_cuda.options import CudaOptions


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCuda]:
    with cuda_fake.in_place(monkeypatch) as driver, config.scope(ptxas="driver"):
        fill.forget()
        yield driver
        fill.forget()
        gc.collect()


@tegula.jit
def fill(x, value, BLOCK: tl.constexpr):
    tl.store(x + tl.arange(0, BLOCK), value)


def launch(device: int = 0, grid: tuple[int, ...] = (4,), **options: Any) -> Any:
    x = tegula.asarray(np.zeros(64, np.float32), device=f"cuda:{device}")
    return fill[grid](x, 1.0, BLOCK=64, **options)


def opened(index: int = 0) -> CudaDevice:
    device = CudaDriver().open(index)
    assert isinstance(device, CudaDevice)
    return device


# -- devices, contexts, streams


def test_each_array_is_worked_on_by_its_device(fake: FakeCuda) -> None:
    fake.stack.append(0x777)  # another library's context
    for index in (0, 1, 0, 1):
        launch(index)
    assert [made.device for made in fake.launches] == [0, 1, 0, 1]
    assert sorted(fake.modules.values()) == [0, 1]
    assert fake.stack == [0x777]


def test_arrays_of_two_devices_are_no_arguments_of_one_launch(fake: FakeCuda) -> None:
    @tegula.jit
    def copied(x, y):
        tl.store(y, tl.load(x))

    x, y = (tegula.asarray(np.zeros(4, np.float32), device=f"cuda:{i}") for i in (0, 1))
    with pytest.raises(DeviceError, match=r"x: .*cuda:0\n  y: .*cuda:1"):
        copied[(1,)](x, y)


def test_a_device_that_is_not_there(fake: FakeCuda) -> None:
    with pytest.raises(DeviceError, match="no device cuda:2; there are 2, from cuda:0"):
        CudaDriver().open(2)


class Foreign:
    """An array of a library that has the protocol and nothing else."""

    def __init__(self, address: int, **more: Any) -> None:
        self.__cuda_array_interface__ = {
            "shape": (64,), "typestr": "<f4", "data": (address, False), "version": 3, **more,
        }  # fmt: skip


@pytest.mark.parametrize(("more", "stream"), [({}, 0), ({"stream": 2}, 2), ({"stream": 99}, 99)])
def test_the_interface_names_device_and_stream(
    fake: FakeCuda, more: dict[str, int], stream: int
) -> None:
    device = opened(1)
    address = device.alloc(256)
    fill[(1,)](Foreign(address, **more), 1.0, BLOCK=64)
    assert (fake.launches[-1].device, fake.launches[-1].stream) == (1, stream)
    assert fake.launches[-1].slots == [address]


def test_the_protocol_of_streams_is_asked_at_each_launch(fake: FakeCuda) -> None:
    class Streaming(Foreign):
        def __cuda_stream__(self) -> tuple[int, int]:
            return 0, next(numbers)

    numbers = iter((70, 80))
    array = Streaming(opened().alloc(256))
    for _ in range(2):
        fill[(1,)](array, 1.0, BLOCK=64)
    assert [made.stream for made in fake.launches] == [70, 80]


def test_events_lie_on_their_stream_and_are_given_back(fake: FakeCuda) -> None:
    device = opened()
    start, stop = device.mark(5), device.mark(5)
    assert device.elapsed(start, stop) == pytest.approx(2.5e-3)
    assert fake.calls.count("cuEventRecord on 5") == 2
    del start, stop
    gc.collect()
    assert fake.calls.count("cuEventDestroy") == 2 and not fake.stack


# -- kernels as graphs


def test_each_device_has_its_graph_of_a_kernel_and_loses_it_with_the_kernel(fake: FakeCuda) -> None:
    for _ in range(2):
        fake.launches.clear()
        for i in range(100):
            launch(i % 2, (i + 1,))
        assert not any(made.replayed for made in fake.launches[:60])
        assert all(made.replayed for made in fake.launches[70:])
        assert [made.grid[0] for made in fake.launches] == [i + 1 for i in range(100)]
        assert [made.device for made in fake.launches] == [0, 1] * 50
        assert len(fake.graphs) == 4 and fake.capture_mode == 0
        fill.forget()
        gc.collect()
        assert not fake.graphs and not fake.modules and not fake.stack


def test_settings_and_old_drivers_launch_plainly(fake: FakeCuda) -> None:
    with config.scope(graph_launch=False):
        launch()
    for _ in range(100):  # as it was loaded
        launch()
    fill.forget()
    fake.cuda = 12050
    for _ in range(100):
        launch()
    assert len(fake.launches) == 201 and not any(made.replayed for made in fake.launches)


# -- loading and unloading


def test_code_is_taken_off_the_device_when_nobody_has_it(fake: FakeCuda) -> None:
    launch(1)
    assert list(fake.modules.values()) == [1]
    fill.forget()
    gc.collect()
    assert not fake.modules and not fake.stack


def test_code_is_loaded_while_a_graph_is_recorded(fake: FakeCuda) -> None:
    """What is not part of a recording is not to end it."""
    fake.capturing = 1
    launch()
    assert "load in mode 2" in fake.calls
    assert fake.capture_mode == 0 and len(fake.launches) == 1


def test_a_broken_context_has_nothing_to_give_back(fake: FakeCuda) -> None:
    launch()
    device = opened()
    address = device.alloc(64)
    for number in (700, 709):
        fake.fails["cuCtxPushCurrent"] = number
        device.free(address)
        fill.forget()
        gc.collect()
    fake.fails.clear()
    fake.fails["cuMemFree"] = 1
    with pytest.raises(DeviceError, match="freeing"):
        device.free(address)


def test_occupancy_is_asked_for_a_program_as_it_is(fake: FakeCuda) -> None:
    kernel = opened().load(artifact_of("reverse", opened().info.target, CudaOptions(num_warps=8)))
    assert kernel.programs_at_once() == 3  # type: ignore[attr-defined]
    assert "occupancy of (256, 65536)" in fake.calls
    (function,) = fake.functions.values()
    assert function.facts["MAX_DYNAMIC_SHARED_SIZE_BYTES"] == 65536


# -- options of a launch


@pytest.mark.parametrize(
    ("options", "attributes"),
    [
        ({}, []),
        ({"cluster_dims": (2,)}, [(4, [2, 1, 1])]),
        ({"launch_cooperative_grid": True}, [(2, [1, 0, 0])]),
        ({"launch_pdl": True}, [(6, [1, 0, 0])]),
    ],
)
def test_options_reach_the_driver(
    fake: FakeCuda, options: dict[str, Any], attributes: list[Any]
) -> None:
    for _ in range(2):  # the second time natively
        launch(**options)
        assert fake.launches[-1].attributes == attributes
        assert fake.launches[-1].grid == (4, 1, 1)


def test_kernels_that_may_start_early_wait_and_let_the_next_start(fake: FakeCuda) -> None:
    ptx = launch(launch_pdl=True).asm["ptx"]
    waits, store = ptx.index("griddepcontrol.wait"), ptx.index("st.global")
    assert waits < ptx.index("griddepcontrol.launch_dependents") < store
    assert "griddepcontrol" not in launch().asm["ptx"]


def test_num_ctas_is_not_ignored_in_silence(fake: FakeCuda) -> None:
    with pytest.warns(OptionWarning, match="num_ctas=2.*cluster_dims"):
        launch(num_ctas=2)
    assert fake.launches[-1].attributes == [] and fake.launches[-1].grid == (4, 1, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        launch(num_ctas=1)
        autotune.Config({"BLOCK": 64})


# -- errors


def test_registers_that_do_not_suffice(fake: FakeCuda) -> None:
    fake.facts |= {"NUM_REGS": 168, "MAX_THREADS_PER_BLOCK": 384}
    with pytest.raises(OutOfResources, match=r"1024 are needed and the device has 384") as e:
        launch(num_warps=32)
    text = str(e.value)
    assert "168 registers a thread" in text and "fewer warps" in text and "`fill`" in text


def test_shared_memory_that_does_not_suffice(fake: FakeCuda) -> None:
    fake.devices[0]["MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"] = 48 << 10
    with pytest.raises(OutOfResources, match="65536 are needed and the device has 49152") as e:
        opened().load(artifact_of("reverse", opened().info.target))
    assert "kernel `reverse` on cuda:0 (Card 0)" in str(e.value)


LAUNCH_ERRORS = {
    1: "CUDA_ERROR_INVALID_VALUE",
    700: "ILLEGAL_ADDRESS.*out of bounds.*TEGULA_INTERPRET",
    716: "MISALIGNED_ADDRESS.*multiple_of",
    719: "LAUNCH_FAILED.*compute-sanitizer",
    701: "LAUNCH_OUT_OF_RESOURCES.*fewer warps",
    709: "CONTEXT_IS_DESTROYED.*reset the device",
    715: "ILLEGAL_INSTRUCTION.*target",
    710: "ASSERT",
    720: "COOPERATIVE_LAUNCH_TOO_LARGE.*smaller grid",
    906: "CAPTURE.*default stream",
}


@pytest.mark.parametrize("number", LAUNCH_ERRORS)
def test_a_failed_launch_names_everything(fake: FakeCuda, number: int) -> None:
    launch(1)
    fake.fails["cuLaunchKernelEx"] = number
    with pytest.raises(KernelError, match=LAUNCH_ERRORS[number]) as e:
        launch(1, grid=(7, 5))
    text = str(e.value)
    assert "kernel `fill` on grid (7, 5, 1) of cuda:1 (Card 1)" in text and f"({number})" in text
    assert "128 threads with 40 registers" in text
    assert not fake.stack


def test_a_context_that_cannot_be_entered(fake: FakeCuda) -> None:
    launch()
    kernel = launch().kernel
    fake.fails["cuCtxPushCurrent"] = 709
    with pytest.raises(KernelError, match=r"`fill` on grid \(3, 1, 1\).*CONTEXT_IS_DESTROYED"):
        kernel.launch((3, 1, 1), (0, 1.0))


@pytest.mark.parametrize(
    ("grid", "options", "message"),
    [
        ((1, 65536), {}, r"grid \(1, 65536, 1\).*at most \(2147483647, 65535, 65535\)"),
        ((3,), {"cluster_dims": (2,)}, r"grid \(3, 1, 1\).*clusters of \(2, 1, 1\)"),
    ],
)
def test_grids_that_the_driver_refuses(
    fake: FakeCuda, grid: tuple[int, ...], options: dict[str, Any], message: str
) -> None:
    fake.fails["cuLaunchKernelEx"] = 1
    with pytest.raises(GridError, match=message):
        launch(grid=grid, **options)
    fake.fails["cuLaunchKernelEx"] = 700  # another kernel's fault is not the grid's
    with pytest.raises(KernelError, match="ILLEGAL_ADDRESS"):
        launch(grid=grid, **options)


def test_code_that_the_driver_refuses(fake: FakeCuda) -> None:
    fake.fails["cuModuleLoadDataEx"] = 222
    with pytest.raises(DeviceError, match=r"kernel `fill` on cuda:0.*the reason.*TEGULA_PTXAS"):
        launch()
    assert not fake.stack


def test_memory_that_does_not_suffice(fake: FakeCuda) -> None:
    fake.fails["cuMemAlloc"] = 2
    with pytest.raises(MemoryError, match="5000 bytes on cuda:0.*1000 of 2000 are free"):
        opened().alloc(5000)


# -- what a probe and the doctor say


def findings() -> dict[str, str]:
    return {c.name: f"{f.status} {f.message} {f.hint}" for c in health.checks() for f in (c.run(),)}


def test_the_doctor_is_content(fake: FakeCuda) -> None:
    said = findings()
    assert said["driver"].startswith("ok supports CUDA 12.8")
    assert "cuda:0 Card 0 (sm_90a), cuda:1 Card 1 (sm_90a)" in said["devices"]


def test_a_driver_that_is_too_old(fake: FakeCuda) -> None:
    fake.cuda = 11080
    assert CudaDriver.probe().status == "unavailable"
    for name in ("driver", "devices"):
        assert "CUDA 11.8" in findings()[name] and "update NVIDIA's driver" in findings()[name]


def test_devices_that_need_a_newer_driver(fake: FakeCuda) -> None:
    """PTX of the target is newer than what the driver reads; only the driver would assemble it."""
    fake.cuda = 12000
    said = findings()["devices"]
    assert said.startswith("warning") and "CUDA 12.4" in said and "sm_90a" in said


def test_a_driver_that_does_not_start(fake: FakeCuda) -> None:
    fake.fails["cuInit"] = 803
    assert "restart the machine" in CudaDriver.probe().reason
    assert "problem" in findings()["driver"] and "restart the machine" in findings()["driver"]


def test_a_driver_that_is_not_there(monkeypatch: pytest.MonkeyPatch, fake: FakeCuda) -> None:
    def nothing(flags: int = 0) -> Any:
        raise RuntimeError("no library")

    monkeypatch.setattr(fake, "cuInit", nothing)
    monkeypatch.setattr(fake, "cuDeviceGetCount", nothing)
    assert "not installed" in CudaDriver.probe().reason
    assert "install NVIDIA's driver" in findings()["driver"]


@pytest.mark.parametrize("count", [0, 1])
def test_no_device_that_can_be_used(fake: FakeCuda, count: int) -> None:
    fake.devices = [{**cuda_fake.HOPPER, "COMPUTE_CAPABILITY_MAJOR": 6}] * count
    probe = CudaDriver.probe()
    assert probe.status == "unavailable"
    assert ("none" if count == 0 else "Card 0, older than") in probe.reason
