"""The native launch function against a driver of our own, which writes down what it is asked."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

pytest.importorskip("tegula_cuda")

from tegula_cuda import launcher as launching
from tegula_cuda.launcher import (
    ASSERTION,
    DRIVER_ERROR,
    GRID_TOO_LARGE,
    NO_WHOLE_CLUSTERS,
    Attribute,
    Config,
    Handle,
    Launcher,
    launch_attributes,
)

CONTEXT, OTHER, FUNCTION, STREAM = 0x1000, 0x2000, 0x3000, 0x4000
ERROR_ADDRESS = 0x7000_0000_5000


@dataclass
class FakeDriver:
    """Plays the driver's functions; `calls` are their names in order."""

    current: int = CONTEXT
    result: int = 0
    waited: int = 0
    capturing: int = 0
    fails_with: tuple[int, int, int, int] | None = None
    calls: list[str] = field(default_factory=list)
    config: dict[str, int] = field(default_factory=dict)
    values: list[int] = field(default_factory=list)
    attributes: list[tuple[int, int]] = field(default_factory=list)
    nslots: int = 0
    error: Any = None

    def cuCtxGetCurrent(self, out: int) -> int:
        ctypes.c_void_p.from_address(out).value = self.current
        return 0

    def cuCtxPushCurrent(self, context: int) -> int:
        self.calls.append(f"push {context:#x}")
        return 0

    def cuCtxPopCurrent(self, out: int) -> int:
        self.calls.append("pop")
        return 0

    def cuLaunchKernelEx(self, config: int, function: int, params: int, extra: int) -> int:
        assert function == FUNCTION and not extra
        self.calls.append("launch")
        given = Config.from_address(config)
        self.config = {name: getattr(given, name) for name, _ in Config._fields_}
        addresses = (ctypes.c_void_p * self.nslots).from_address(params)
        self.values = [ctypes.c_int64.from_address(a).value for a in addresses]
        listed = (Attribute * given.attribute_count).from_address(given.attributes or config)
        self.attributes = [(a.id, a.value[0]) for a in listed]
        if self.fails_with is not None:
            self.error[:] = self.fails_with
        return self.result

    def cuMemcpyDtoH(self, to: int, source: int, nbytes: int) -> int:
        assert (source, nbytes) == (ERROR_ADDRESS, 16)
        self.calls.append("look")
        ctypes.memmove(to, self.error, nbytes)
        return 0

    def cuMemsetD32Async(self, to: int, value: int, count: int, stream: int) -> int:
        assert (to, value or 0, count, stream) == (ERROR_ADDRESS, 0, 4, STREAM)
        self.calls.append("clear")
        ctypes.memset(self.error, 0, 16)
        return 0

    def cuStreamIsCapturing(self, stream: int, out: int) -> int:
        ctypes.c_int32.from_address(out).value = self.capturing
        return 0

    def cuStreamSynchronize(self, stream: int) -> int:
        assert stream == STREAM
        self.calls.append("wait")
        return self.waited


_TYPES = {
    "cuCtxGetCurrent": 1, "cuCtxPushCurrent": 1, "cuCtxPopCurrent": 1, "cuLaunchKernelEx": 4,
    "cuMemcpyDtoH": 3, "cuMemsetD32Async": 4, "cuStreamIsCapturing": 2, "cuStreamSynchronize": 1,
}  # fmt: skip


class Bench:
    """A launcher linked to a fake driver, and one kernel's handle."""

    def __init__(self) -> None:
        self.driver = FakeDriver()
        self.keep = {}
        for name, count in _TYPES.items():
            kind = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * count)
            self.keep[name] = kind(lambda *a, n=name: getattr(self.driver, n)(*a))
        addresses = {n: ctypes.cast(f, ctypes.c_void_p).value for n, f in self.keep.items()}
        self.launcher = Launcher(addresses)
        integer, pointer = ctypes.c_int32, ctypes.c_void_p
        kind = ctypes.CFUNCTYPE(
            integer, pointer, pointer, ctypes.c_int64, integer, integer, integer, pointer
        )
        self.function = kind(self.launcher.address)
        self.handle = Handle(FUNCTION, CONTEXT, 128, 4096)
        self.handle.cluster_x = self.handle.cluster_y = self.handle.cluster_z = 1

    def with_assertions(self, *failing: int) -> None:
        self.error = (ctypes.c_uint32 * 4)()
        self.handle.error = ERROR_ADDRESS
        self.driver.error = self.error
        self.driver.fails_with = failing or None  # type: ignore[assignment]

    def launch(self, grid: tuple[int, int, int], *values: int) -> int:
        slots = (ctypes.c_int64 * max(1, len(values)))(*values)
        self.driver.nslots = len(values) + bool(self.handle.error)
        return int(
            self.function(
                ctypes.addressof(self.handle), ctypes.addressof(slots), len(values), *grid, STREAM
            )
        )


@pytest.fixture(scope="module")
def linked() -> Bench:
    return Bench()


@pytest.fixture
def bench(linked: Bench) -> Iterator[Bench]:
    linked.driver = FakeDriver()
    linked.handle = Handle(FUNCTION, CONTEXT, 128, 4096)
    linked.handle.cluster_x = linked.handle.cluster_y = linked.handle.cluster_z = 1
    yield linked


def test_the_drivers_records_have_the_drivers_sizes() -> None:
    assert ctypes.sizeof(Config) == 56 and Config.stream.offset == 32
    assert ctypes.sizeof(Attribute) == 72 and Attribute.value.offset == 8


def test_a_launch_is_one_call_with_everything_in_its_place(bench: Bench) -> None:
    assert bench.launch((7, 5, 3), 11, -12, 1 << 40) == 0
    assert bench.driver.calls == ["launch"]
    assert bench.driver.values == [11, -12, 1 << 40]
    assert bench.driver.config == {
        "grid_x": 7, "grid_y": 5, "grid_z": 3, "block_x": 128, "block_y": 1, "block_z": 1,
        "shared": 4096, "stream": STREAM, "attributes": None, "attribute_count": 0,
    }  # fmt: skip


@pytest.mark.parametrize("count", [0, 1, 300])
def test_any_number_of_parameters(bench: Bench, count: int) -> None:
    assert bench.launch((1, 1, 1), *range(count)) == 0
    assert bench.driver.values == list(range(count))


@pytest.mark.parametrize("current", [0, OTHER])
def test_another_context_is_left_as_it_was(bench: Bench, current: int) -> None:
    bench.driver.current = current
    assert bench.launch((1, 1, 1)) == 0
    assert bench.driver.calls == [f"push {CONTEXT:#x}", "launch", "pop"]
    bench.driver.result = 700
    assert bench.launch((1, 1, 1)) == DRIVER_ERROR + 700
    assert bench.driver.calls[-1] == "pop"


@pytest.mark.parametrize("grid", [(0, 1, 1), (1, 0, 1), (1, 1, 0), (-1, 1, 1)])
def test_empty_grids_launch_nothing(bench: Bench, grid: tuple[int, int, int]) -> None:
    assert bench.launch(grid) == 0
    assert bench.driver.calls == []


@pytest.mark.parametrize("grid", [(1, 65536, 1), (1, 1, 65536)])
def test_grids_beyond_the_limits_are_refused(bench: Bench, grid: tuple[int, int, int]) -> None:
    assert bench.launch(grid) == GRID_TOO_LARGE
    assert bench.driver.calls == [] and tuple(bench.handle.grid) == grid
    assert bench.launch((2**31 - 1, 65535, 65535)) == 0


def test_grids_have_to_divide_into_clusters(bench: Bench) -> None:
    bench.handle.cluster_x, bench.handle.cluster_y = 2, 3
    assert bench.launch((4, 6, 1)) == 0
    for grid in ((3, 6, 1), (4, 4, 1)):
        assert bench.launch(grid) == NO_WHOLE_CLUSTERS
    assert bench.driver.calls == ["launch"]


def test_errors_of_the_driver_come_back_with_the_grid(bench: Bench) -> None:
    bench.driver.result = 701
    assert bench.launch((7, 5, 3)) == DRIVER_ERROR + 701
    assert tuple(bench.handle.grid) == (7, 5, 3)


def test_launch_attributes_reach_the_driver(bench: Bench) -> None:
    metadata = {
        "cluster_dims": [2, 1, 1], "launch_cooperative_grid": True, "launch_pdl": True,
    }  # fmt: skip
    made = launch_attributes(metadata)
    bench.attributes = (Attribute * len(made))(*made)  # type: ignore[attr-defined]
    bench.handle.attributes = ctypes.addressof(bench.attributes)  # type: ignore[attr-defined]
    bench.handle.attribute_count = len(made)
    assert bench.launch((2, 1, 1)) == 0
    assert bench.driver.attributes == [(4, 2), (2, 1), (6, 1)]
    assert launch_attributes({}) == []


def test_assertions_that_hold_cost_a_wait(bench: Bench) -> None:
    bench.with_assertions()
    assert bench.launch((1, 1, 1), 5) == 0
    assert bench.driver.calls == ["launch", "wait", "look"]
    assert bench.driver.values == [5, ERROR_ADDRESS]


def test_assertions_that_fail_name_message_and_program_once(bench: Bench) -> None:
    bench.with_assertions(3, 40, 50, 60)
    assert bench.launch((9, 1, 1), 5) == ASSERTION
    assert list(bench.handle.failure) == [3, 40, 50, 60]
    assert bench.driver.calls == ["launch", "wait", "look", "clear", "wait"]
    bench.driver.fails_with = None
    assert bench.launch((9, 1, 1), 5) == 0


def test_recording_a_graph_does_not_wait(bench: Bench) -> None:
    bench.with_assertions(3, 40, 50, 60)
    bench.driver.capturing = 1
    assert bench.launch((9, 1, 1), 5) == 0
    assert bench.driver.calls == ["launch"]
    assert bench.error[0] == 3  # for the device's synchronize


def test_errors_while_waiting_come_back(bench: Bench) -> None:
    bench.with_assertions()
    bench.driver.waited = 719
    assert bench.launch((1, 1, 1), 5) == DRIVER_ERROR + 719


@pytest.mark.parametrize("stream", [0, STREAM])
def test_streams_are_asked_of_a_python_function(bench: Bench, stream: int) -> None:
    asked: list[int] = []

    def current(index: int) -> int:
        asked.append(index)
        return stream

    address = bench.launcher.stream_function(current)
    number = ctypes.c_int32
    function = ctypes.PYFUNCTYPE(number, number, number, ctypes.c_void_p)(address)
    out = ctypes.c_void_p(1)
    assert function(2, 3, ctypes.addressof(out)) == 0
    assert asked == [3] and (out.value or 0) == stream


def test_what_that_function_raises_is_raised(bench: Bench) -> None:
    def current(index: int) -> int:
        raise RuntimeError(f"no stream on {index}")

    address = bench.launcher.stream_function(current)
    number = ctypes.c_int32
    function = ctypes.PYFUNCTYPE(number, number, number, ctypes.c_void_p)(address)
    with pytest.raises(RuntimeError, match="no stream on 1"):
        function(2, 1, ctypes.addressof(ctypes.c_void_p()))


def test_the_text_has_no_open_places() -> None:
    text = launching.launcher_text()
    assert "<handle." not in text and "<config." not in text and "$" not in text
