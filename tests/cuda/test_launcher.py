"""The native launch function against a driver of our own, which writes down what it is asked."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

pytest.importorskip("tegula_cuda")

from tegula.config import config
from tegula.runtime.numbers import Number
from tegula_cuda.launcher import (
    ASSERTION,
    DRIVER_ERROR,
    ENTRY,
    MAP_ERROR,
    Attribute,
    Config,
    Graph,
    Handle,
    Replay,
    driver_functions,
    graphs_serve,
    launch_attributes,
    linked,
)
from tegula_cuda.tma import MAP_BYTES, Map, record

CONTEXT, OTHER, FUNCTION, STREAM = 0x1000, 0x2000, 0x3000, 0x4000
ERROR_ADDRESS = 0x7000_0000_5000
GRAPH, NODE, LAUNCHABLE = 0x5000, 0x6000, 0x7000


def plain(value: Any) -> Any:
    """A field of a record; arrays as tuples."""
    return tuple(value) if isinstance(value, ctypes.Array) else value


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
    priority: int = 0
    stream_context: int = CONTEXT
    graph_results: dict[str, int] = field(default_factory=dict)
    node: dict[str, Any] = field(default_factory=dict)
    launched: list[dict[str, Any]] = field(default_factory=list)
    modes: list[int] = field(default_factory=list)

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
        self.config = {name: plain(getattr(given, name)) for name, _ in Config._fields_}
        self.values, self.maps = self._parameters(params)
        listed = (Attribute * given.attribute_count).from_address(given.attributes or config)
        self.attributes = [(a.id, a.value[0]) for a in listed]
        if self.fails_with is not None:
            self.error[:] = self.fails_with
        return self.result

    def _parameters(self, params: int) -> tuple[list[int], list[bytes]]:
        """The numbers and the maps that a kernel is given."""
        total = self.nslots + self.nmaps + bool(self.error)
        given = (ctypes.c_void_p * total).from_address(params)[:]
        maps = given[self.nslots : self.nslots + self.nmaps]
        assert all(a % 64 == 0 for a in maps)
        numbers = given[: self.nslots] + given[self.nslots + self.nmaps :]
        values = [ctypes.c_int64.from_address(a).value for a in numbers]
        return values, [ctypes.string_at(a, MAP_BYTES) for a in maps]

    def _node(self, params: int) -> dict[str, Any]:
        given = Graph.from_address(params)
        assert (given.function, given.context) == (FUNCTION, CONTEXT)
        assert not given.extra and not given.kernel
        values, maps = self._parameters(given.parameters)
        return {"grid": tuple(given.grid), "block": tuple(given.block), "shared": given.shared,
                "values": values, "maps": [m[:1] for m in maps]}  # fmt: skip

    def cuStreamGetPriority(self, stream: int, out: int) -> int:
        ctypes.c_int32.from_address(out).value = self.priority
        return 0

    def cuStreamGetCtx(self, stream: int, out: int) -> int:
        ctypes.c_void_p.from_address(out).value = self.stream_context
        return 0

    def cuThreadExchangeStreamCaptureMode(self, mode: int) -> int:
        place = ctypes.c_int32.from_address(mode)
        self.modes.append(place.value)
        place.value = 0
        return 0

    def cuGraphCreate(self, out: int, flags: int) -> int:
        self.calls.append("create")
        ctypes.c_void_p.from_address(out).value = GRAPH
        return 0

    def cuGraphAddKernelNode(
        self, out: int, graph: int, dependencies: int, count: int, params: int
    ) -> int:
        assert (graph, dependencies, count) == (GRAPH, None, None)
        self.node = self._node(params)
        ctypes.c_void_p.from_address(out).value = NODE
        return self.graph_results.get("add", 0)

    def cuGraphInstantiateWithFlags(self, out: int, graph: int, flags: int) -> int:
        if not graph:
            return 1
        if not self.graph_results.get("instantiate"):
            ctypes.c_void_p.from_address(out).value = LAUNCHABLE
        return self.graph_results.get("instantiate", 0)

    def cuGraphExecKernelNodeSetParams(self, launchable: int, node: int, params: int) -> int:
        assert (launchable, node) == (LAUNCHABLE, NODE)
        self.calls.append("set")
        self.node = self._node(params)
        return self.graph_results.get("set", 0)

    def cuGraphLaunch(self, launchable: int, stream: int) -> int:
        assert launchable == LAUNCHABLE
        self.calls.append("replay")
        self.launched.append({**self.node, "stream": stream})
        if self.fails_with is not None:
            self.error[:] = self.fails_with
        return self.graph_results.get("launch", 0)

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


def fresh_handle() -> Handle:
    config = Config(block=(128, 1, 1), shared=4096)
    return Handle(FUNCTION, CONTEXT, config=config)


class Bench:
    """A launcher linked to a fake driver, and one kernel's handle."""

    def __init__(self) -> None:
        self.driver = FakeDriver()
        self.keep = {}
        for name, count in driver_functions().items():
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
        self.maps: Any = None
        self.replay: Any = None

    def with_assertions(self, *failing: int) -> None:
        self.error = (ctypes.c_uint32 * 4)()
        self.handle.error = ERROR_ADDRESS
        self.driver.error = self.error
        self.driver.fails_with = failing or None  # type: ignore[assignment]

    def launch(self, grid: tuple[int, int, int], *values: int, stream: int = STREAM) -> int:
        if not self.handle.graph:
            self.replay = Replay(self.handle, len(values), served=False)
        slots = (ctypes.c_int64 * max(1, len(values)))(*values)
        self.driver.nmaps = self.handle.map_count
        self.driver.nslots = len(values)
        return int(
            self.function(
                ctypes.addressof(self.handle), ctypes.addressof(slots), len(values), *grid, stream
            )
        )


def grid_of(handle: Handle) -> tuple[int, ...]:
    return tuple(handle.grid)


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
    assert Graph.shared.offset == 32 and Graph.context.offset == 64 and Graph.slots.offset == 72
    assert ctypes.sizeof(Attribute) == 72 and Attribute.value.offset == 8


def test_a_launch_is_one_call_with_everything_in_its_place(bench: Bench) -> None:
    assert bench.launch((7, 5, 3), 11, -12, 1 << 40) == 0
    assert bench.driver.calls == ["launch"]
    assert bench.driver.values == [11, -12, 1 << 40]
    assert bench.driver.config == {
        "grid": (7, 5, 3), "block": (128, 1, 1),
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
    listed = (Attribute * len(made))(*made)
    bench.handle.config.attributes = ctypes.addressof(listed)
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
    bench.maps = (Map * 2)(record(MATRIX), record(ARRAY))
    bench.handle.map_count, bench.handle.maps = 2, ctypes.addressof(bench.maps)
    yield bench
    assert not bench.replay.graph.lock


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
    assert mapped.launch((1, 1, 1), 0x1000, 96, 80, 0x2000) == 0
    mapped.driver.encoded.clear()
    mapped.replay.graph.lock = 1
    for i in range(2):
        assert mapped.launch((1, 1, 1), 0x1000, 96, 80, 0x2000) == 0
        assert len(mapped.driver.encoded) == 2 * i + 2
    mapped.replay.graph.lock = 0


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
    assert mapped.launch((1, 1, 1), 0x1000, 96, 80, 0x2000) == 0
    assert mapped.driver.values == [0x1000, 96, 80, 0x2000, ERROR_ADDRESS]
    assert [m[:1] for m in mapped.driver.maps] == [b"\1", b"\2"]


def test_maps_that_the_driver_refuses_are_named(mapped: Bench) -> None:
    mapped.driver.refuses = 1
    for _ in range(2):  # and are not kept
        assert mapped.launch((3, 1, 1), 0x1001, 96, 80, 0x2000) == MAP_ERROR + 1
    assert mapped.handle.failure[0] == 0 and grid_of(mapped.handle) == (3, 1, 1)
    assert mapped.driver.calls == [] and len(mapped.driver.encoded) == 2
    mapped.driver.refuses = 0
    assert mapped.launch((3, 1, 1), 0x1000, 96, 80, 0x2000) == 0


# -- graphs

OTHER_STREAM = 0x9000


def often() -> int:
    from tegula_cuda import launcher

    return launcher._OFTEN


@pytest.fixture
def replaying(bench: Bench) -> Bench:
    """A kernel of three parameters whose graph is the stream's."""
    return replaying_with(bench, 1, 2, 3)


def replaying_with(bench: Bench, *values: int) -> Bench:
    bench.replay = Replay(bench.handle, len(values), served=True)
    for _ in range(often() + 1):
        assert bench.launch((4, 1, 1), *values) == 0
    assert bench.driver.calls == ["launch"] * often() + ["create", "launch"]
    bench.driver.calls.clear()
    bench.driver.encoded.clear()
    return bench


def test_what_is_launched_often_is_launched_as_a_graph(replaying: Bench) -> None:
    assert replaying.driver.modes == [2, 0]  # relaxed, and as before
    assert replaying.launch((7, 5, 3), 11, -12, 1 << 40) == 0
    assert replaying.driver.calls == ["set", "replay"]
    assert replaying.driver.launched == [{
        "grid": (7, 5, 3), "block": (128, 1, 1), "shared": 4096, "values": [11, -12, 1 << 40],
        "maps": [], "stream": STREAM,
    }]  # fmt: skip


def test_a_graph_is_told_only_what_is_new(replaying: Bench) -> None:
    calls = replaying.driver.calls
    for grid, values, expected in [
        ((4, 1, 1), (1, 2, 3), ["set", "replay"]),
        ((4, 1, 1), (1, 2, 3), ["replay"]),
        ((4, 1, 1), (1, 2, 4), ["set", "replay"]),
        ((4, 1, 1), (0, 2, 4), ["set", "replay"]),
        ((5, 1, 1), (0, 2, 4), ["set", "replay"]),
        ((5, 2, 1), (0, 2, 4), ["set", "replay"]),
        ((5, 2, 9), (0, 2, 4), ["set", "replay"]),
        ((5, 2, 9), (0, 2, 4), ["replay"]),
    ]:
        calls.clear()
        assert replaying.launch(grid, *values) == 0
        assert calls == expected
        last = replaying.driver.launched[-1]
        assert last["grid"] == grid and last["values"] == list(values)


@pytest.mark.parametrize("count", [0, 1, 300])
def test_graphs_with_any_number_of_parameters(bench: Bench, count: int) -> None:
    replaying_with(bench, *range(count))
    for _ in range(2):
        assert bench.launch((4, 1, 1), *range(count)) == 0
        assert bench.driver.launched[-1]["values"] == list(range(count))
        assert bench.driver.launched[-1]["grid"] == (4, 1, 1)


def test_another_stream_goes_the_plain_way_until_it_launches_often(replaying: Bench) -> None:
    calls = replaying.driver.calls
    for _ in range(3 * often()):  # in turns, each stays where it is
        assert replaying.launch((4, 1, 1), 1, 2, 3, stream=OTHER_STREAM) == 0
        assert replaying.launch((4, 1, 1), 1, 2, 3) == 0
    assert calls.count("launch") == calls.count("replay") == 3 * often()
    calls.clear()
    for _ in range(often() + 2):
        assert replaying.launch((4, 1, 1), 1, 2, 3, stream=OTHER_STREAM) == 0
    assert calls == ["launch"] * (often() + 1) + ["replay"]
    assert replaying.driver.launched[-1]["stream"] == OTHER_STREAM
    assert replaying.launch((4, 1, 1), 1, 2, 3) == 0
    assert calls[-1] == "launch"


def test_kernels_that_graphs_do_not_serve_get_none(bench: Bench) -> None:
    for _ in range(3 * often()):
        assert bench.launch((4, 1, 1), 1) == 0
    assert set(bench.driver.calls) == {"launch"}


@pytest.mark.parametrize("name, value", [("priority", -1), ("stream_context", OTHER)])
def test_streams_that_a_graph_would_not_obey_get_none(bench: Bench, name: str, value: int) -> None:
    setattr(bench.driver, name, value)
    bench.replay = Replay(bench.handle, 1, served=True)
    for _ in range(3 * often()):
        assert bench.launch((4, 1, 1), 1) == 0
    assert set(bench.driver.calls) == {"launch"}


def test_what_a_graph_records_is_launched_plainly(replaying: Bench) -> None:
    for state in (1, 2):
        replaying.driver.capturing = state
        assert replaying.launch((4, 1, 1), 1, 2, 3) == 0
    assert replaying.driver.calls == ["launch", "launch"]


def test_a_launch_that_finds_the_graph_in_use_goes_the_plain_way(replaying: Bench) -> None:
    graph = replaying.replay.graph
    graph.lock = 1
    assert replaying.launch((4, 1, 1), 1, 2, 3) == 0
    assert replaying.driver.calls == ["launch"]
    graph.lock = 0
    assert replaying.launch((4, 1, 1), 1, 2, 3) == 0
    assert replaying.driver.calls[-1] == "replay" and not graph.lock


@pytest.mark.parametrize("step", ["set", "launch"])
def test_what_a_graph_refuses_is_launched_plainly(replaying: Bench, step: str) -> None:
    replaying.driver.graph_results[step] = 1
    replaying.driver.result = 701
    for _ in range(2):
        assert replaying.launch((9, 1, 1), 1, 2, 3) == DRIVER_ERROR + 701
        assert replaying.driver.calls[-1] == "launch"
    replaying.driver.graph_results.clear()
    replaying.driver.calls.clear()
    assert replaying.launch((9, 1, 1), 1, 2, 3) == 0
    told = ["set"] if step == "set" else []
    assert replaying.driver.calls == [*told, "replay"]
    assert replaying.driver.launched[-1]["grid"] == (9, 1, 1)


@pytest.mark.parametrize("step", ["add", "instantiate"])
def test_graphs_that_cannot_be_made_are_tried_once(bench: Bench, step: str) -> None:
    bench.driver.graph_results[step] = 2
    bench.replay = Replay(bench.handle, 1, served=True)
    for _ in range(4 * often()):
        assert bench.launch((4, 1, 1), 1) == 0
    assert bench.driver.calls.count("create") == 1 and bench.driver.modes == [2, 0]
    assert set(bench.driver.calls) == {"create", "launch"}


def test_assertions_of_graphs(bench: Bench) -> None:
    bench.with_assertions()
    bench.replay = Replay(bench.handle, 1, served=True)
    for _ in range(often() + 2):
        assert bench.launch((4, 1, 1), 5) == 0
    assert bench.driver.calls[-3:] == ["replay", "wait", "look"]
    assert bench.driver.launched[-1]["values"] == [5, ERROR_ADDRESS]
    bench.driver.fails_with = (3, 40, 50, 60)
    assert bench.launch((4, 1, 1), 5) == ASSERTION
    assert list(bench.handle.failure) == [3, 40, 50, 60]


def test_graphs_encode_maps_anew_only_for_other_slots(mapped: Bench) -> None:
    replaying_with(mapped, 0x1000, 96, 80, 0x2000)
    made = mapped.driver.encoded
    for _ in range(3):
        assert mapped.launch((1, 1, 1), 0x1000, 96, 80, 0x2000) == 0
        assert mapped.driver.launched[-1]["maps"] == [b"\1", b"\2"]
    assert len(made) == 2
    assert mapped.launch((1, 1, 1), 0x1000, 96, 88, 0x2000) == 0
    assert len(made) == 4 and mapped.driver.launched[-1]["maps"] == [b"\3", b"\4"]
    mapped.driver.refuses = 1  # and once more by the plain way, which says so
    assert mapped.launch((3, 1, 1), 0x1001, 96, 80, 0x2000) == MAP_ERROR + 1
    mapped.driver.refuses = 0
    made.clear()
    assert mapped.launch((1, 1, 1), 0x1000, 96, 88, 0x2000) == 0
    assert len(made) == 2 and mapped.driver.calls[-2:] == ["set", "replay"]


@pytest.mark.parametrize("name", ["CUDA_INJECTION64_PATH", "CUDA_LAUNCH_BLOCKING"])
def test_where_kernels_are_not_launched_as_graphs(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.delenv("CUDA_INJECTION64_PATH", raising=False)
    monkeypatch.delenv("CUDA_LAUNCH_BLOCKING", raising=False)
    assert graphs_serve((13, 0)) and graphs_serve((12, 6)) and not graphs_serve((12, 5))
    with config.scope(graph_launch=False):
        assert not graphs_serve((13, 0))
    monkeypatch.setenv(name, "1")
    assert not graphs_serve((13, 0))
    monkeypatch.setenv(name, "0")
    assert graphs_serve((13, 0))
