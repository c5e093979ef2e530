"""The native dispatcher: what it packs, what it refuses, and what it hands to the slow path."""

from __future__ import annotations

import copy
import ctypes
import gc
import pickle
import struct
import sys
from types import ModuleType
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import pytest
from runtime.recording_backend import FAR_TYPE

import tegula
import tegula.language as tl
from tegula.errors import KernelError
from tegula.runtime import dispatch

pytestmark = [
    pytest.mark.usefixtures("recording"),
    pytest.mark.skipif(
        bool(dispatch.why_not()), reason=f"no dispatcher here: {dispatch.why_not()}"
    ),
]

N = 64


@tegula.jit
def seven(a, b, c, d, e, n, m, BLOCK: tl.constexpr):
    pass


@tegula.jit
def one(x):
    pass


@tegula.jit
def two(x, y):
    pass


@tegula.jit
def with_defaults(x, n=5, eps=0.5, *, flag: tl.constexpr = True):
    pass


class Counting:
    """Counts how often a kernel's slow path runs."""

    def __init__(self, kernel: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        kernel.forget()
        prepare = kernel._variants.prepare

        def counted(*args: Any) -> Any:
            self.count += 1
            return prepare(*args)

        monkeypatch.setattr(kernel._variants, "prepare", counted)


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Any:
    return lambda kernel: Counting(kernel, monkeypatch)


def arrays(count: int, dtype: Any = np.float32) -> list[np.ndarray]:
    return [np.zeros(N, dtype) for _ in range(count)]


def test_second_launch_is_native_and_packs_the_same_slots(slow: Any) -> None:
    counting = slow(seven)
    xs = arrays(5)
    first = seven[(3, 2)](*xs, 1024, 77, BLOCK=128)
    kernel = first.kernel
    assert kernel.slots == [x.ctypes.data for x in xs] + [1024, 77]
    ctypes.memset(ctypes.addressof(kernel.record.slots), 0, 56)
    assert seven[(3, 2)](*xs, 1024, 77, BLOCK=128) is first
    assert counting.count == 1
    assert kernel.record.count == 2
    assert kernel.slots == [x.ctypes.data for x in xs] + [1024, 77]
    assert list(kernel.record.grid) == [3, 2, 1]


def test_grid_of_each_launch_is_passed(slow: Any) -> None:
    x = arrays(1)[0]
    kernel = one[(1,)](x).kernel
    for grid, seen in (((7,), [7, 1, 1]), ((1, 2), [1, 2, 1]), ((4, 5, 6), [4, 5, 6])):
        one[grid](x)
        assert list(kernel.record.grid) == seen


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "uint64", "bool", "bfloat16"])
def test_dtype_mismatch_takes_another_variant(dtype: str, slow: Any) -> None:
    counting = slow(one)
    kind = np.dtype(getattr(ml_dtypes, dtype) if dtype == "bfloat16" else dtype)
    base = one[(1,)](np.zeros(N, np.float16))
    other = one[(1,)](np.zeros(N, kind))
    assert other is not base
    assert one[(1,)](np.zeros(N, kind)) is other
    assert one[(1,)](np.zeros(N, np.float16)) is base
    assert counting.count == 2


def test_alignment_is_part_of_the_variant(slow: Any) -> None:
    counting = slow(one)
    x = arrays(1)[0]
    aligned = one[(1,)](x)
    shifted = one[(1,)](x[1:])
    assert aligned is not shifted
    assert shifted.kernel.slots == [x.ctypes.data + 4]
    assert aligned.request.attrs == {"x": {"divisible": 16}}
    assert shifted.request.attrs == {}
    assert one[(1,)](x[4:]) is aligned
    assert one[(1,)](x[3:]) is shifted
    assert counting.count == 2


def test_readonly_arrays_are_another_variant(slow: Any) -> None:
    slow(one)
    x = arrays(1)[0]
    writable = one[(1,)](x)
    x.flags.writeable = False
    const = one[(1,)](x)
    assert const is not writable
    assert str(const.request.types["x"]) == "ptr<const f32>"
    assert one[(1,)](x) is const


INTS = [
    (2, "i32", 5),
    (16, "i32", 16),
    (0, "i32", 48),
    (-1, "i32", -(2**31) + 1),
    (-16, "i32", -(2**31)),
    (2**31 - 1, "i32", 3),
    (2**31, "i64", -(2**63)),
    (2**40 + 1, "i64", -(2**31) - 1),
    (2**63, "u64", 2**63 + 16),
    (2**64 - 1, "u64", 2**63 + 1),
]


@pytest.mark.parametrize(("value", "kind", "alike"), INTS)
def test_int_classes(value: int, kind: str, alike: int, slow: Any) -> None:
    counting = slow(one)
    compiled = one[(1,)](value)
    assert str(compiled.request.types["x"]) == kind
    for number in (value, alike, value):
        assert one[(1,)](number) is compiled
        assert compiled.kernel.slots == [number - 2**64 if number >= 2**63 else number]
    assert counting.count == 1


def test_every_int_class_keeps_to_itself_whatever_came_first(slow: Any) -> None:
    slow(one)
    values = [1, *[v for v, _, _ in INTS], *[v for _, _, v in INTS]]
    first = {v: one[(1,)](v) for v in values}
    for v in reversed(values):
        assert one[(1,)](v) is first[v]
    one.forget()
    for v in reversed(values):
        again = one[(1,)](v)
        assert (again.request.types, again.request.constants) == (
            first[v].request.types,
            first[v].request.constants,
        )


def test_int_too_large_for_any_type_is_an_error_on_the_native_path_too() -> None:
    one[(1,)](2**64 - 1)
    with pytest.raises(OverflowError, match=r"'x' is 18446744073709551616.*64 bits"):
        one[(1,)](2**64)
    with pytest.raises(OverflowError):
        one[(1,)](-(2**63) - 1)


def test_one_is_a_constant_and_true_is_not_one(slow: Any) -> None:
    counting = slow(one)
    constant = one[(1,)](1)
    assert constant.request.constants == {"x": 1}
    assert constant.kernel.slots == []
    assert one[(1,)](1) is constant
    yes = one[(1,)](True)
    assert str(yes.request.types["x"]) == "i1"
    assert yes.kernel.slots == [1]
    assert one[(1,)](False) is yes
    assert yes.kernel.slots == [0]
    assert counting.count == 2


def test_floats_are_rounded_to_single(slow: Any) -> None:
    counting = slow(one)
    compiled = one[(1,)](0.1)
    for value in (0.1, -0.0, float("inf"), 1e300, 1e-300, 3.4028236e38):
        assert one[(1,)](value) is compiled
        with np.errstate(over="ignore"):
            bits = int(np.float32(value).view(np.uint32))
        assert compiled.kernel.slots == [bits]
    one[(1,)](float("nan"))
    assert np.isnan(np.array(compiled.kernel.slots, np.uint32).view(np.float32)[0])
    assert counting.count == 1


SCALARS = [
    np.int8(-3), np.int16(-300), np.int32(-70000), np.int64(-(2**40)), np.uint8(200),
    np.uint16(60000), np.uint32(2**32 - 5), np.uint64(2**64 - 3), np.bool_(True),
]  # fmt: skip


@pytest.mark.parametrize("value", SCALARS, ids=lambda v: type(v).__name__)
def test_numpy_integer_scalars_keep_their_dtype(value: Any, slow: Any) -> None:
    counting = slow(one)
    compiled = one[(1,)](value)
    expected = int(value) - (2**64 if int(value) >= 2**63 else 0)
    assert compiled.kernel.slots == [expected]
    assert one[(1,)](value) is compiled
    assert compiled.kernel.slots == [expected]
    assert counting.count == 1
    text = "i1" if value.dtype == bool else value.dtype.kind + str(8 * value.dtype.itemsize)
    assert str(compiled.request.types["x"]) == text


def test_numpy_float_scalars(slow: Any) -> None:
    counting = slow(one)
    for value, bits, kind in (
        (np.float32(0.1), struct.unpack("<I", struct.pack("<f", 0.1))[0], "f32"),
        (np.float16(0.1), int(np.float16(0.1).view(np.uint16)), "f16"),
        (np.float64(0.1), struct.unpack("<I", struct.pack("<f", 0.1))[0], "f32"),
    ):
        for _ in range(2):
            compiled = one[(1,)](value)
            assert compiled.kernel.slots == [bits]
            assert str(compiled.request.types["x"]) == kind
    assert counting.count == 3


def test_constexpr_by_value_not_only_by_identity(slow: Any) -> None:
    counting = slow(seven)
    xs = arrays(5)
    big = seven[(1,)](*xs, 16, 3, BLOCK=int("1000"))
    assert seven[(1,)](*xs, 16, 3, BLOCK=int("1000")) is big
    assert counting.count == 1
    assert seven[(1,)](*xs, 16, 3, BLOCK=1001) is not big
    assert seven[(1,)](*xs, 16, 3, BLOCK=1.0) is not seven[(1,)](*xs, 16, 3, BLOCK=True)
    negative, positive = (seven[(1,)](*xs, 16, 3, BLOCK=v) for v in (-0.0, 0.0))
    assert negative is not positive
    assert seven[(1,)](*xs, 16, 3, BLOCK=-0.0) is negative
    nan = seven[(1,)](*xs, 16, 3, BLOCK=float("nan"))
    assert seven[(1,)](*xs, 16, 3, BLOCK=float("nan")) is nan
    text = seven[(1,)](*xs, 16, 3, BLOCK="ab" + str(len(xs)))
    assert seven[(1,)](*xs, 16, 3, BLOCK="ab5") is text
    pair = seven[(1,)](*xs, 16, 3, BLOCK=(1, 2.0))
    assert seven[(1,)](*xs, 16, 3, BLOCK=(1, 2)) is not pair
    assert seven[(1,)](*xs, 16, 3, BLOCK=(len(xs) - 4, 2.0)) is pair


def test_call_shapes_of_one_variant(slow: Any) -> None:
    counting = slow(seven)
    xs = arrays(5)
    a = seven[(1,)](*xs, 16, 3, BLOCK=8)
    b = seven[(1,)](*xs, 16, 3, 8)
    c = seven[(1,)](*xs, BLOCK=8, m=3, n=32)
    d = seven[(1,)](*xs, m=5, n=32, BLOCK=8)
    assert a is b is c is d
    assert counting.count == 4
    assert seven[(1,)](*xs, m=7, n=64, BLOCK=8) is a
    assert a.kernel.slots[5:] == [64, 7]
    assert seven[(1,)](*xs, BLOCK=8, m=9, n=48) is a
    assert a.kernel.slots[5:] == [48, 9]
    assert counting.count == 4


def test_keyword_names_made_at_run_time(slow: Any) -> None:
    counting = slow(seven)
    xs = arrays(5)
    first = seven[(1,)](*xs, 16, 3, BLOCK=8)
    for _ in range(3):
        assert seven[(1,)](*xs, 16, 3, **{"".join(["BLO", "CK"]): 8}) is first
    assert counting.count == 1


def test_defaults_are_packed(slow: Any) -> None:
    counting = slow(with_defaults)
    x = arrays(1)[0]
    half = struct.unpack("<I", struct.pack("<f", 0.5))[0]
    for _ in range(2):
        compiled = with_defaults[(1,)](x)
        assert compiled.kernel.slots == [x.ctypes.data, 5, half]
    assert with_defaults[(1,)](x, 5, 0.5, flag=False) is not compiled
    assert counting.count == 2


class Pair(NamedTuple):
    left: Any
    right: Any


def test_tuples_are_flattened(slow: Any) -> None:
    counting = slow(one)
    a, b = arrays(2)
    for _ in range(2):
        compiled = one[(1,)]((a, (3, None, 1), b))
        assert compiled.kernel.slots == [a.ctypes.data, 3, b.ctypes.data]
    assert counting.count == 1
    assert one[(1,)]((a, (3, None, 2), b)) is not compiled
    assert one[(1,)]((a, (3, None), b)) is not compiled
    named = one[(1,)](Pair(a, 5))
    assert one[(1,)](Pair(a, 7)) is named
    assert named.kernel.slots == [a.ctypes.data, 7]
    assert one[(1,)]((a, 7)) is not named


@pytest.mark.parametrize("same_ok", [False, True])
def test_alias_checks_choose_the_variant(same_ok: bool, slow: Any) -> None:
    counting = slow(two)
    x = np.zeros(100, np.float32)
    pairs = "0-1=" if same_ok else "0-1"

    def careful(a: np.ndarray, b: np.ndarray) -> bool:
        return bool(two[(1,)](a, b, alias=pairs).artifact.metadata["careful"])

    assert not careful(x[:48], x[48:])
    assert not careful(x[48:], x[:48])
    assert careful(x[:52], x[48:])
    assert careful(x, x) is not same_ok
    assert careful(x[48:], x[:52])
    assert careful(x[::-1][:40], x[:64])
    assert not careful(x[::-1][:40], x[:60])
    assert not careful(x[:48], x[:0])
    assert careful(x.reshape(10, 10)[:, 0], x.reshape(10, 10)[:, 1])
    assert counting.count <= 5  # the rest was decided natively


@pytest.mark.parametrize("kind", ["torch", "asarray"])
def test_tensors_without_exchange_functions(
    kind: str, slow: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Older array libraries are asked by method calls, natively too."""
    from tegula.runtime import arguments

    monkeypatch.setattr(arguments, "_exchange_of", lambda kind: None)
    if kind == "torch":
        torch = pytest.importorskip("torch")
        a, b, c = (torch.zeros(N) for _ in range(3))
        sliced, other = a[::2], a.double()
    else:
        a, b, c = (tegula.asarray(np.zeros(N, np.float32)) for _ in range(3))
        sliced = tegula.asarray(a.numpy()[::2])
        other = tegula.asarray(np.zeros(N))
    counting = slow(two)

    def careful(x: Any, y: Any) -> bool:
        for _ in range(2):
            compiled = two[(1,)](x, y, alias="0-1")
            assert compiled.kernel.slots == [x.data_ptr(), y.data_ptr()]
        return bool(compiled.artifact.metadata["careful"])

    assert not careful(a, b)
    assert not careful(b, c)
    assert counting.count == 1
    assert careful(a, a)
    assert careful(sliced, b)  # its extent is unknown to the dispatcher
    assert not careful(other, b)
    assert not careful(a, c)
    assert counting.count == 3
    assert len(two._table.variants) == 3


def test_failure_of_the_driver_is_raised(recording: ModuleType) -> None:
    x = arrays(1)[0]
    compiled = one[(1,)](x)
    compiled.kernel.record.result = 3
    for _ in range(2):
        with pytest.raises(KernelError, match=r"kernel `one`: launch failed with code 3"):
            one[(1,)](x)
    compiled.kernel.record.result = 0
    assert one[(1,)](x) is compiled


def test_errors_of_arguments_surface(slow: Any) -> None:
    class Moody:
        dtype = np.dtype("f4")
        error: Exception | None = None

        def data_ptr(self) -> int:
            if self.error is not None:
                raise self.error
            return 64

    counting = slow(one)
    moody = Moody()
    compiled = one[(1,)](moody)
    assert one[(1,)](moody) is compiled
    assert counting.count == 1
    moody.error = RuntimeError("not today")
    with pytest.raises(Exception, match="'x' .*does not hand out its memory: not today"):
        one[(1,)](moody)
    moody.error = None
    assert one[(1,)](moody) is compiled


@tegula.autotune(configs=[tegula.Config({"BLOCK": 8})], key=[])
@tegula.heuristics({"n": lambda given: given["BLOCK"]})
@tegula.jit
def tuned(out_ptr, n, BLOCK: tl.constexpr):
    tl.store(out_ptr + tl.arange(0, BLOCK), n)


def test_pickled_by_name() -> None:
    assert pickle.loads(pickle.dumps(seven)) is seven
    assert pickle.loads(pickle.dumps(tuned)) is tuned
    assert copy.deepcopy(seven) is seven


def test_names_of_variants() -> None:
    def name(variant: Any) -> str:
        return f"{variant.name}_{variant.constants['B']}_{variant.signature['x']}"

    @tegula.jit(repr=name)
    def named(x, B: tl.constexpr):
        pass

    assert named[(1,)](arrays(1)[0], 7).name == "named_7_ptr<f32>"


def test_options_are_part_of_the_call(slow: Any, recording: ModuleType) -> None:
    slow(one)
    x = arrays(1)[0]
    four = one[(1,)](x, num_warps=4)
    eight = one[(1,)](x, num_warps=8)
    assert eight is not four
    assert (four.metadata.num_warps, eight.metadata.num_warps) == (4, 8)
    assert one[(1,)](x, num_warps=8) is eight
    assert one[(1,)](x) is four


def test_nothing_leaks_per_launch() -> None:
    xs = arrays(5)
    launch = seven[(1,)]
    name = "BLOCK"
    call = {name: 2**40}
    launch(*xs, 2**41, 3, **call)
    watched = [*xs, name, call[name], seven, None]
    before = [sys.getrefcount(o) for o in watched]
    for _ in range(1000):
        launch(*xs, 2**41, 3, **call)
    assert [sys.getrefcount(o) for o in watched] == before
    compiled = launch(*xs, 2**41, 3, **call)
    count = sys.getrefcount(compiled)
    for _ in range(100):
        launch(*xs, 2**41, 3, **call)
    assert sys.getrefcount(compiled) == count


def test_launcher_outlives_its_kernel_object(recording: ModuleType) -> None:
    x = arrays(1)[0]

    def make() -> Any:
        @tegula.jit
        def short_lived(x):
            pass

        short_lived[(1,)](x)
        return short_lived[(1,)]

    launch = make()
    gc.collect()
    compiled = launch(x)
    assert launch(x) is compiled


def test_settings_change_what_a_bound_launcher_does() -> None:
    x = arrays(1)[0]
    launch = one[(1,)]
    native = launch(x)
    with tegula.use_device("interpreter"):
        interpreted = launch(x)
    assert interpreted.request.context.backend.name == "interpreter"
    assert launch(x) is native
    from tegula.config import config

    config.set(num_threads=3)
    try:
        assert launch(x) is native  # looked at again, with the same result
    finally:
        config.set(num_threads=None)


def test_many_variants_stay_right() -> None:
    x = arrays(1)[0]
    one.forget()
    seen = {n: two[(1,)](x, (n,) if n % 2 else n, num_stages=n) for n in range(2, 400)}
    for n, compiled in seen.items():
        assert two[(1,)](x, (n,) if n % 2 else n, num_stages=n) is compiled
        assert compiled.kernel.slots == [x.ctypes.data, n]


class FarTensor:
    """Lives on a device, and works on a stream that its library would name."""

    def __init__(self, stream: int, function: int | None) -> None:
        self.dtype = np.dtype(np.float32)
        self.stream = stream
        self.stream_function = function

    def data_ptr(self) -> int:
        return 1 << 40

    def __dlpack_device__(self) -> tuple[int, int]:
        return FAR_TYPE, 0


@pytest.fixture
def stream_function() -> Any:
    """A native function that gives stream 0x5000 + index, and what it was asked."""
    asked: list[tuple[int, int]] = []

    def current(kind: int, index: int, out: int) -> int:
        asked.append((kind, index))
        ctypes.c_void_p.from_address(out).value = 0x5000 + index
        return 0

    function = ctypes.PYFUNCTYPE(
        ctypes.c_int, ctypes.c_int32, ctypes.c_int32, ctypes.c_void_p
    )(current)
    function.asked = asked
    return function


def test_stream_comes_from_the_function_that_the_device_names(
    slow: Any, stream_function: Any
) -> None:
    address = ctypes.cast(stream_function, ctypes.c_void_p).value
    counting = slow(one)
    tensor = FarTensor(0x4000, address)
    compiled = one[(1,)](tensor)
    assert compiled.kernel.record.stream == 0x4000  # asked of Python the first time
    one[(1,)](tensor)
    assert counting.count == 1
    assert compiled.kernel.record.stream == 0x5000
    assert stream_function.asked == [(FAR_TYPE, 0)]


def test_without_a_native_way_to_the_stream_launches_stay_in_python(slow: Any) -> None:
    counting = slow(one)
    for stream in (0x4000, 0x6000):
        compiled = one[(1,)](FarTensor(stream, None))
        assert compiled.kernel.record.stream == stream
    assert counting.count == 2


def test_a_device_whose_stream_is_always_0_needs_no_function(slow: Any) -> None:
    counting = slow(one)
    tensor = FarTensor(0, 0)
    one[(1,)](tensor)
    compiled = one[(1,)](tensor)
    assert counting.count == 1 and compiled.kernel.record.stream == 0
