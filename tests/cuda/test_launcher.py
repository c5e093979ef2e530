"""The native launch function against a driver of our own, which writes down what it is asked."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

pytest.importorskip("tegula_cuda")

from tegula.runtime.numbers import Number
from tegula_cuda.launcher import (
    ASSERTION,
    DRIVER_ERROR,
    ENTRY,
    MAP_ERROR,
    Attribute,
    Config,
    Handle,
    Maps,
    launch_attributes,
    linked,
)
from tegula_cuda.tma import MAP_BYTES, Map

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
    nmaps: int = 0
    maps: list[bytes] = field(default_factory=list)
    encoded: list[dict[str, Any]] = field(default_factory=list)
    refuses: int = 0
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
        after = (ctypes.c_void_p * (self.nslots + self.nmaps)).from_address(params)[self.nslots :]
        assert all(a % 64 == 0 for a in after)
        self.maps = [ctypes.string_at(a, MAP_BYTES) for a in after]
        listed = (Attribute * given.attribute_count).from_address(given.attributes or config)
        self.attributes = [(a.id, a.value[0]) for a in listed]
        if self.fails_with is not None:
            self.error[:] = self.fails_with
        return self.result

    def cuTensorMapEncodeTiled(
        self, to: int, kind: int, rank: int, base: int, sizes: int, strides: int, box: int,
        steps: int, interleave: int, swizzle: int, promotion: int, fill: int,
    ) -> int:  # fmt: skip
        def words(at: int, count: int, kind: Any) -> list[int]:
            return list((kind * count).from_address(at))

        assert to % 64 == 0 and not interleave and not fill
        assert words(steps, rank, ctypes.c_uint32) == [1] * rank
        self.encoded.append({
            "kind": kind or 0, "base": base or 0, "swizzle": swizzle or 0,
            "sizes": words(sizes, rank, ctypes.c_uint64),
            "strides": words(strides, rank - 1, ctypes.c_uint64),
            "box": words(box, rank, ctypes.c_uint32),
        })  # fmt: skip
        ctypes.memset(to, len(self.encoded), MAP_BYTES)
        return self.refuses

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
    "cuTensorMapEncodeTiled": 12,
}  # fmt: skip


def fresh_handle() -> Handle:
    config = Config(block_x=128, block_y=1, block_z=1, shared=4096)
    return Handle(FUNCTION, CONTEXT, config=config)


class Bench:
    """A launcher linked to a fake driver, and one kernel's handle."""

    def __init__(self) -> None:
        self.driver = FakeDriver()
        self.keep = {}
        for name, count in _TYPES.items():
            kind = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * count)
            self.keep[name] = kind(lambda *a, n=name: getattr(self.driver, n)(*a))
        addresses = {n: ctypes.cast(f, ctypes.c_void_p).value for n, f in self.keep.items()}
        self.library = linked(addresses)
        integer, pointer = ctypes.c_int32, ctypes.c_void_p
        kind = ctypes.CFUNCTYPE(
            integer, pointer, pointer, ctypes.c_int64, integer, integer, integer, pointer
        )
        self.function = kind(self.library[ENTRY])
        self.handle = fresh_handle()

    def with_assertions(self, *failing: int) -> None:
        self.error = (ctypes.c_uint32 * 4)()
        self.handle.error = ERROR_ADDRESS
        self.driver.error = self.error
        self.driver.fails_with = failing or None  # type: ignore[assignment]

    def launch(self, grid: tuple[int, int, int], *values: int) -> int:
        slots = (ctypes.c_int64 * max(1, len(values)))(*values)
        self.driver.nmaps = self.handle.map_count
        self.driver.nslots = len(values) + bool(self.handle.error)
        return int(
            self.function(
                ctypes.addressof(self.handle), ctypes.addressof(slots), len(values), *grid, STREAM
            )
        )


def grid_of(handle: Handle) -> tuple[int, int, int]:
    return handle.grid_x, handle.grid_y, handle.grid_z


@pytest.fixture(scope="module")
def fixed() -> Bench:
    return Bench()


@pytest.fixture
def bench(fixed: Bench) -> Bench:
    fixed.driver = FakeDriver()
    fixed.handle = fresh_handle()
    return fixed


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


def test_errors_of_the_driver_come_back_with_the_grid(bench: Bench) -> None:
    bench.driver.result = 701
    assert bench.launch((7, 5, 3)) == DRIVER_ERROR + 701
    assert grid_of(bench.handle) == (7, 5, 3)


def test_launch_attributes_reach_the_driver(bench: Bench) -> None:
    metadata = {
        "cluster_dims": [2, 1, 1], "launch_cooperative_grid": True, "launch_pdl": True,
    }  # fmt: skip
    made = launch_attributes(metadata)
    bench.attributes = (Attribute * len(made))(*made)  # type: ignore[attr-defined]
    bench.handle.config.attributes = ctypes.addressof(bench.attributes)  # type: ignore[attr-defined]
    bench.handle.config.attribute_count = len(made)
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


def number(const: int, factor: int = 0, *slots: tuple[int, int], bits: int = 32) -> list[Any]:
    return [const, factor, [list(s) for s in slots], bits]


M, N = number(0, 1, (1, 32)), number(0, 1, (2, 32))
MATRIX = {"base": 0, "itemsize": 2, "box": [128, 64], "row_bytes": 128, "sizes": [M, N],
          "strides": [number(0, 1, (2, 32), bits=64)]}  # fmt: skip
ARRAY = {
    "base": 3, "itemsize": 4, "box": [1, 8, 4], "row_bytes": 16,
    "sizes": [number(7), M, number(-2, 3, (2, 32))],
    "strides": [number(0, 4, (1, 32), (2, 64), bits=64), number(8)],
}  # fmt: skip


@pytest.fixture
def mapped(bench: Bench) -> Iterator[Bench]:
    maps = Maps([MATRIX, ARRAY], 4)
    maps.join(bench.handle)
    yield bench
    assert not bench.handle.map_lock


def test_records_of_maps_have_no_holes_that_the_text_does_not_know() -> None:
    assert Number.a_shift.offset == Number.a.offset + 4 == 20
    assert Number.b_shift.offset == Number.b.offset + 4 == 28
    assert ctypes.sizeof(Number) == 40 and Map.sizes.offset % 8 == 0


def test_maps_are_encoded_from_the_slots(mapped: Bench) -> None:
    above = 5 << 32  # what lies above an i32 in its slot counts for nothing
    assert mapped.launch((1, 1, 1), 0x1000, above | 96, 80, 0x2000) == 0
    assert mapped.driver.encoded == [
        {"kind": 1, "base": 0x1000, "swizzle": 3, "sizes": [80, 96], "strides": [160],
         "box": [64, 128]},
        {"kind": 2, "base": 0x2000, "swizzle": 0, "sizes": [238, 96, 7],
         "strides": [32, 4 * 4 * 96 * 80], "box": [4, 8, 1]},
    ]  # fmt: skip
    assert mapped.driver.values == [0x1000, above | 96, 80, 0x2000]
    assert [m[:1] for m in mapped.driver.maps] == [b"\1", b"\2"]


def test_maps_are_encoded_anew_only_for_other_slots(mapped: Bench) -> None:
    for _ in range(3):
        assert mapped.launch((1, 1, 1), 0x1000, 96, 80, 0x2000) == 0
        assert [m[:1] for m in mapped.driver.maps] == [b"\1", b"\2"]
    assert len(mapped.driver.encoded) == 2
    assert mapped.launch((1, 1, 1), 0x1000, 96, 88, 0x2000) == 0
    assert len(mapped.driver.encoded) == 4
    assert [m[:1] for m in mapped.driver.maps] == [b"\3", b"\4"]


def test_a_launch_that_finds_the_maps_in_use_makes_its_own(mapped: Bench) -> None:
    mapped.handle.map_lock = 1
    for i in range(2):
        assert mapped.launch((1, 1, 1), 0x1000, 96, 80, 0x2000) == 0
        assert len(mapped.driver.encoded) == 2 * i + 2
    mapped.handle.map_lock = 0


@pytest.mark.parametrize("rows, columns", [(0, 80), (96, 0), (-3, 80), (1, -8), (1, 0)])
def test_tensors_without_elements_have_maps_that_the_driver_takes(
    mapped: Bench, rows: int, columns: int
) -> None:
    assert mapped.launch((1, 1, 1), 0x1000, rows, columns, 0x2000) == 0
    for made in mapped.driver.encoded:
        assert all(n > 0 for n in made["sizes"])
        assert all(0 < n < 1 << 40 and n % 16 == 0 for n in made["strides"])


def test_maps_come_before_the_buffer_of_assertions(mapped: Bench) -> None:
    mapped.with_assertions()
    mapped.handle.map_count = 1
    mapped.handle.error = ERROR_ADDRESS
    slots = (ctypes.c_int64 * 4)(0x1000, 96, 80, 0x2000)
    mapped.driver.nslots, mapped.driver.nmaps = 4, 1
    seen: list[int] = []
    launch = mapped.driver.cuLaunchKernelEx

    def look(config: int, function: int, params: int, extra: int) -> int:
        address = (ctypes.c_void_p * 6).from_address(params)[5]
        seen.append(ctypes.c_int64.from_address(address).value)
        return launch(config, function, params, extra)

    mapped.driver.cuLaunchKernelEx = look  # type: ignore[method-assign]
    handle, at = ctypes.addressof(mapped.handle), ctypes.addressof(slots)
    assert mapped.function(handle, at, 4, 1, 1, 1, STREAM) == 0
    assert seen == [ERROR_ADDRESS]


def test_maps_that_the_driver_refuses_are_named(mapped: Bench) -> None:
    mapped.driver.refuses = 1
    for _ in range(2):  # and are not kept
        assert mapped.launch((3, 1, 1), 0x1001, 96, 80, 0x2000) == MAP_ERROR + 1
    assert mapped.handle.failure[0] == 0 and grid_of(mapped.handle) == (3, 1, 1)
    assert mapped.driver.calls == [] and len(mapped.driver.encoded) == 2
    mapped.driver.refuses = 0
    assert mapped.launch((3, 1, 1), 0x1000, 96, 80, 0x2000) == 0
