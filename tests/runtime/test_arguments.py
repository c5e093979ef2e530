"""Kinds of arguments, and the errors for what is no argument."""

from __future__ import annotations

import ctypes
import sys
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tegula
import tegula.language as tl
from tegula.errors import (
    ArgumentError,
    DeviceError,
    HostCallError,
    LaunchError,
    MixedDevicesError,
    OptionError,
)
from tegula.ir import types as ir

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.usefixtures("recording")

N = 64


@tegula.jit
def one(x):
    pass


@tegula.jit
def two(x, y):
    pass


@tegula.jit
def const(c: tl.constexpr):
    pass


@tegula.jit
def scale(x_ptr, out_ptr, n, BLOCK: tl.constexpr, eps=1e-5):
    pass


@tegula.jit
def wide(n: tl.int64, f: tl.float64, p: "*i8"):  # noqa: F722
    pass


@tegula.jit
def plain_int(n: int):
    pass


@tegula.jit
def read_only(x: tl.const):
    pass


@tegula.jit
def rest(x, *more):
    pass


@tegula.jit(do_not_specialize=["n"], do_not_specialize_on_alignment=["m", "x"])
def general(x, n, m):
    pass


def slots(kernel: Any, *args: Any, **kwargs: Any) -> list[int]:
    """Slots of the first and of the second launch, which have to agree."""
    first = kernel[(1,)](*args, **kwargs).kernel.slots
    again = kernel[(1,)](*args, **kwargs).kernel.slots
    assert first == again
    return first


# -------------------------------------------------------------------------------------------------
# Arrays


def test_strided_views_point_to_their_first_element() -> None:
    x = np.zeros((8, 8), np.float32)
    assert slots(one, x[2:, 1:]) == [x.ctypes.data + (2 * 8 + 1) * 4]
    assert slots(one, x[::-1]) == [x.ctypes.data + 7 * 8 * 4]
    assert slots(one, x.T) == [x.ctypes.data]
    assert slots(one, np.broadcast_to(x[0], (5, 8))) == [x.ctypes.data]


def test_numpy_subclasses_and_empty_arrays(tmp_path: Any) -> None:
    mapped = np.memmap(tmp_path / "data", np.float32, "w+", shape=(N,))
    assert slots(one, mapped) == [mapped.ctypes.data]
    empty = np.zeros((0, 4), np.float32)
    assert slots(one, empty) == [empty.ctypes.data]


def test_torch_tensors() -> None:
    x = torch.zeros(N)
    assert slots(one, x) == [x.data_ptr()]
    assert slots(one, x[3:]) == [x.data_ptr() + 12]
    assert slots(one, x.requires_grad_()) == [x.data_ptr()]
    p = torch.nn.Parameter(torch.zeros(N))
    assert slots(one, p) == [p.data_ptr()]
    assert slots(one, p.detach()) == [p.data_ptr()]


@pytest.mark.parametrize(
    ("name", "text"),
    [("bfloat16", "bf16"), ("float16", "f16"), ("float64", "f64"), ("bool", "i1"), ("uint8", "u8"),
     ("int64", "i64"), ("float8_e4m3fn", "f8e4nv"), ("float8_e5m2", "f8e5")],
)  # fmt: skip
def test_torch_dtypes(name: str, text: str) -> None:
    compiled = one[(1,)](torch.zeros(N, dtype=torch.float32).to(getattr(torch, name)))
    assert str(compiled.request.types["x"]) == f"ptr<{text}>"


def test_same_variant_for_numpy_and_torch() -> None:
    assert one[(1,)](torch.zeros(N)) is one[(1,)](np.zeros(N, np.float32))


def test_tensors_without_memory() -> None:
    for make in (
        lambda: torch.zeros(N, device="meta"),
        lambda: torch.zeros(N).to_sparse(),
    ):
        with pytest.raises(LaunchError, match=r"'x' \(Tensor\) does not hand out") as e:
            one[(1,)](make())
        assert "\n" not in str(e.value)
    x = torch.zeros(N)
    one[(1,)](x)
    x.untyped_storage().resize_(0)
    with pytest.raises(LaunchError, match=r"'x' \(Tensor\) has elements and no memory"):
        one[(1,)](x)
    null = np.zeros(0, np.float32)
    pointer = DataPointer(null, null.dtype)
    pointer.data_ptr = lambda: 0  # type: ignore[method-assign]
    for _ in range(2):
        with pytest.raises(LaunchError, match="no memory"):
            one[(1,)](pointer)


def test_empty_tensors_may_lie_at_null(monkeypatch: pytest.MonkeyPatch) -> None:
    one.forget()
    for shape in ((0,), (3, 0), (0, 3)):
        x = torch.zeros(shape)
        assert x.data_ptr() == 0
        compiled = one[(1,)](x)
        monkeypatch.setattr(one._variants, "prepare", None)
        assert one[(1,)](x) is compiled  # natively
        assert compiled.kernel.slots == [0]
        monkeypatch.undo()


class DataPointer:
    """What libraries pass that have only an address and a dtype."""

    def __init__(self, array: np.ndarray, dtype: Any) -> None:
        self.array, self.dtype = array, dtype

    def data_ptr(self) -> int:
        return int(self.array.ctypes.data)


@pytest.mark.parametrize("dtype", [np.dtype("f4"), "float32", tl.float32, torch.float32])
def test_objects_with_data_ptr_and_dtype(dtype: Any) -> None:
    x = np.zeros(N, np.float32)
    assert slots(one, DataPointer(x, dtype)) == [x.ctypes.data]
    assert one[(1,)](DataPointer(x, dtype)) is one[(1,)](x)
    assert one[(1,)](DataPointer(x.astype("f8"), np.dtype("f8"))) is not one[(1,)](x)


class ByInterface:
    def __init__(self, array: np.ndarray) -> None:
        self.__array_interface__ = array.__array_interface__


class ByDLPack:
    def __init__(self, array: Any) -> None:
        self.array = array

    def __dlpack__(self, **kwargs: Any) -> Any:
        return self.array.__dlpack__(**kwargs)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


def test_array_interface_and_dlpack_objects() -> None:
    x = np.zeros((4, N), np.float32)
    for view in (x, x[1:, 3:]):
        assert slots(one, ByInterface(view)) == [view.ctypes.data]
        assert slots(one, ByDLPack(view)) == [view.ctypes.data]
    x.flags.writeable = False
    assert str(one[(1,)](ByInterface(x)).request.types["x"]) == "ptr<const f32>"


def test_exported_capsules_do_not_accumulate() -> None:
    from tegula.runtime import dlpack

    x = tegula.empty((3, 4), "float32")
    for _ in range(5):
        one[(1,)](ByDLPack(x))
        torch.from_dlpack(x)
        np.from_dlpack(x)
    del x
    assert not dlpack._exported


# -------------------------------------------------------------------------------------------------
# Annotations and specialisation


def test_annotations_fix_types() -> None:
    b = np.zeros(N, np.bool_)
    for n in (1, 16, 7, -5, 2**40):
        compiled = wide[(1,)](n, 0.1, b)
        assert [str(t) for t in compiled.request.types.values()] == ["i64", "f64", "ptr<i8>"]
        assert slots(wide, n, 0.1, b) == [
            n, int(np.float64(0.1).view(np.int64)), b.ctypes.data
        ]  # fmt: skip
    assert wide[(1,)](1, 0.1, b) is wide[(1,)](7, 3.5, b)
    for two_ in (2, np.float32(2), np.int8(2), ml_dtypes.bfloat16(2), ml_dtypes.float8_e5m2(2)):
        assert slots(wide, 3, two_, b)[1] == int(np.float64(2).view(np.int64))
    with pytest.raises(ArgumentError, match=r"'f' is a numpy scalar of dtype complex64"):
        wide[(1,)](2, np.complex64(1j), b)
    with pytest.raises(OverflowError, match=r"'n' is 9223372036854775808, which i64"):
        wide[(1,)](2**63, 0.5, b)
    with pytest.raises(ArgumentError, match=r"'n' is 2.0, .* integer i64; pass int"):
        wide[(1,)](2.0, 0.5, b)
    with pytest.raises(ArgumentError, match=r"'p' has elements of type f64.*pointer to i8"):
        wide[(1,)](2, 0.5, b.astype(np.float64))
    with pytest.raises(ArgumentError, match=r"'p' is 3, .*pass an array"):
        wide[(1,)](2, 0.5, 3)
    with pytest.raises(ArgumentError, match=r"'f' is an array, .* number f64"):
        wide[(1,)](2, b, b)


def test_plain_int_annotation_fixes_nothing() -> None:
    assert str(plain_int[(1,)](2**40).request.types["n"]) == "i64"
    assert plain_int[(1,)](1).request.constants == {"n": 1}


def test_const_annotation() -> None:
    compiled = read_only[(1,)](np.zeros(N, np.float32))
    assert str(compiled.request.types["x"]) == "ptr<const f32>"


def test_do_not_specialize() -> None:
    x = np.zeros(N, np.float32)
    base = general[(1,)](x, 1, 16)
    assert base is general[(1,)](x[1:], 16, 17)
    assert base is general[(1,)](x, 7, 3)
    assert base is not general[(1,)](x, 7, 1)
    assert base is not general[(1,)](x, 2**40, 16)
    assert base.request.attrs == {}


def test_wrong_names_in_the_decorator() -> None:
    def f(alpha, beta):
        pass

    with pytest.raises(ValueError, match=r"lists 'alpa'.*did you mean 'alpha'"):
        tegula.jit(do_not_specialize=["alpa"])(f)
    with pytest.raises(OptionError, match=r"no option 'do_not_specialise'; did you mean"):
        tegula.jit(do_not_specialise=["alpha"])(f)  # type: ignore[call-overload]


def test_varargs_are_a_tuple() -> None:
    x, y = np.zeros(N, np.float32), np.zeros(N, np.float16)
    assert slots(rest, x, y, 3) == [x.ctypes.data, y.ctypes.data, 3]
    assert slots(rest, x) == [x.ctypes.data]
    assert slots(rest, x, y, 5, 7) == [x.ctypes.data, y.ctypes.data, 5, 7]


def test_functions_and_dtypes_are_constants() -> None:
    compiled = two[(1,)](one, tl.float32)
    assert compiled.request.constants == {"x": one, "y": tl.float32}
    assert two[(1,)](one, tl.float32) is compiled
    assert two[(1,)](rest, tl.float32) is not compiled


# -------------------------------------------------------------------------------------------------
# Errors


@pytest.mark.parametrize(
    ("args", "kwargs", "error", "message"),
    [
        ((1.0, 2.0), {}, ArgumentError, r"`scale` lacks arguments 'n', 'BLOCK'"),
        ((1.0, 2.0, 3), {"BLOK": 4}, ArgumentError, r"lacks argument 'BLOCK'; is 'BLOK' meant"),
        ((1.0, 2.0, 3, 4, 5.0, 6), {}, ArgumentError, r"takes 5 positional .* and 6 were given"),
        ((1.0, 2.0, 3, 4), {"n": 4}, ArgumentError, r"'n' twice: by position \(number 3\)"),
        ((1.0, 2.0, 3, 4), {"num_wraps": 4}, OptionError, r"'num_wraps'.*did you mean 'num_warps'"),
        ((1.0, 2.0, 3, 4), {"esp": 4.0}, OptionError, r"'esp'.*did you mean 'eps'"),
        (([1, 2], 2.0, 3, 4), {}, ArgumentError, r"'x_ptr' .*list.*an array, or a tuple"),
        (({}, 2.0, 3, 4), {}, ArgumentError, r"'x_ptr' is of type builtins.dict"),
        ((1j, 2.0, 3, 4), {}, ArgumentError, r"'x_ptr' is of type builtins.complex.*imaginary"),
        ((object(), 2.0, 3, 4), {}, ArgumentError, r"'x_ptr' is of type .*object.*constexpr"),
        ((1.0, (2, [3]), 3, 4), {}, ArgumentError, r"'out_ptr.1' is of type builtins.list"),
    ],
)  # fmt: skip
def test_wrong_arguments_are_named(
    args: tuple[Any, ...], kwargs: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message) as caught:
        scale[(1,)](*args, **kwargs)
    assert isinstance(caught.value, LaunchError)


def test_wrong_option_values() -> None:
    with pytest.raises(Exception, match=r"num_warps.*int.*'four'"):
        one[(1,)](np.zeros(N), num_warps="four")


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros(N, ">f4"), r"'x' has dtype >f4 in foreign byte order; convert it with x.astype"),
        (np.zeros(N, object), r"'x' is a numpy array of dtype object"),
        (np.zeros(N, complex), r"'x' is a numpy array of dtype complex128"),
        (np.zeros(N, "U3"), r"'x' is a numpy array of dtype <U3"),
        (np.zeros(N, "M8[s]"), r"'x' is a numpy array of dtype datetime64"),
        (np.zeros(N, [("a", "f4")]), r"'x' is a numpy array of dtype"),
        (np.zeros(4 * N + 1, np.uint8)[1:].view("f4"), r"'x' is misaligned"),
        (np.complex64(1j), r"'x' is a numpy scalar of dtype complex64"),
    ],
    ids=str,
)
def test_arrays_that_kernels_cannot_take(array: Any, message: str) -> None:
    one[(1,)](np.zeros(N, np.float32))
    with pytest.raises(ArgumentError, match=message):
        one[(1,)](array)


def test_complex_torch_tensor() -> None:
    with pytest.raises(ArgumentError, match=r"'x' \(Tensor\) has dtype torch.complex64"):
        one[(1,)](torch.zeros(N, dtype=torch.complex64))


@pytest.mark.parametrize(
    "dtype",
    [t for t in ir.DTYPES.values() if t.kind == "float" and t is not ir.f8e4b15],
    ids=str,
)
def test_numpy_arrays_of_every_float(dtype: ir.DType) -> None:
    compiled = one[(1,)](np.zeros(N, ir.numpy_dtype(dtype)))
    assert str(compiled.request.types["x"]) == f"ptr<{dtype}>"


def test_ml_dtypes_that_kernels_lack() -> None:
    with pytest.raises(ArgumentError, match="int4"):
        one[(1,)](np.zeros(N, ml_dtypes.int4))


class Elsewhere:
    """A tensor of a device that no backend here reaches."""

    dtype = "float32"
    device = "cuda:1"

    def data_ptr(self) -> int:
        return 4096


def test_mixed_devices_lists_every_argument() -> None:
    with tegula.use_device(None), pytest.raises(MixedDevicesError) as caught:
        two[(1,)](np.zeros(N, np.float32), Elsewhere())
    assert "x: host memory" in str(caught.value)
    assert "y: device cuda" in str(caught.value)


def test_device_that_cannot_reach_an_argument() -> None:
    with pytest.raises(DeviceError, match=r"argument 'x' lives in device cuda"):
        one[(1,)](Elsewhere())


def test_device_option() -> None:
    x = np.zeros(N, np.float32)
    assert one[(1,)](x, device="interpreter").request.backend.name == "interpreter"
    assert one[(1,)](x).request.backend.name == "recording"
    with pytest.raises(Exception, match="no backend 'gpux' is installed"):
        one[(1,)](x, device="gpux")


def test_calling_a_kernel_is_explained() -> None:
    with pytest.raises(HostCallError, match=r"launch it with one\[grid\]"):
        one(np.zeros(N))


def test_arguments_are_kept_alive_and_released() -> None:
    x = np.zeros(N, np.float32)
    one[(1,)](ByInterface(x))
    one[(1,)](x)
    count = sys.getrefcount(x)
    for _ in range(10):
        one[(1,)](x)
        one[(1,)](ByInterface(x))
    assert sys.getrefcount(x) == count


def test_address_as_ctypes_buffer() -> None:
    buffer = (ctypes.c_float * N)()
    with pytest.raises(ArgumentError, match="'x' is of type .*c_float_Array"):
        one[(1,)](buffer)
    view = np.ctypeslib.as_array(buffer)
    assert slots(one, view) == [ctypes.addressof(buffer)]


@pytest.mark.parametrize("value", [np.int64(64), np.uint8(64), np.float32(0.5), np.bool_(True)])
def test_numpy_constants_are_numbers(value: Any) -> None:
    compiled = const[(1,)](value)
    assert type(compiled.request.constants["c"]) is type(value.item())
    assert const[(1,)](value.item()) is compiled
    assert const[(1,)](type(value)(value)) is compiled
    assert const[(1,)](tl.constexpr(value)) is compiled


def test_constants_are_specialised() -> None:
    @tegula.jit(do_not_specialize=["N"])
    def contradictory(x, N: tl.constexpr):
        tl.store(x, N)

    with pytest.raises(tegula.errors.CompilationError, match="N marked as constexpr"):
        contradictory[(1,)](np.zeros(1), 5)
