"""The driver on a real device, with kernels written in LLVM IR by hand."""

from __future__ import annotations

import ctypes
import struct

import numpy as np
import pytest
from xpu.validation import validate

import tegula
import tegula.language as tl
from tegula.errors import DeviceAssertionError, DeviceError
from tegula.plugin import Artifact, digest
from tegula.runtime.compiled import LAUNCH_SIGNATURE

SCALARS = r"""
declare spir_func i64 @_Z12get_group_idj(i32)
declare spir_func i64 @_Z12get_local_idj(i32)
define spir_kernel void @scalars(ptr addrspace(1) %o, i32 %v, half %h, i16 %b, i8 %c, float %d,
                                 ptr addrspace(1) %err) !reqd_work_group_size !0 {
  %g0 = call spir_func i64 @_Z12get_group_idj(i32 0)
  %g1 = call spir_func i64 @_Z12get_group_idj(i32 1)
  %g2 = call spir_func i64 @_Z12get_group_idj(i32 2)
  %l = call spir_func i64 @_Z12get_local_idj(i32 0)
  %first = icmp eq i64 %l, 0
  br i1 %first, label %work, label %end
work:
  %a = mul i64 %g2, 3
  %a1 = add i64 %a, %g1
  %a2 = mul i64 %a1, 4
  %number = add i64 %a2, %g0
  %p = getelementptr i32, ptr addrspace(1) %o, i64 %number
  %hf = fpext half %h to float
  %hi = fptosi float %hf to i32
  %s = add i32 %v, %hi
  %bw = zext i16 %b to i32
  %s1 = add i32 %s, %bw
  %cw = zext i8 %c to i32
  %s2 = add i32 %s1, %cw
  %di = fptosi float %d to i32
  %s3 = add i32 %s2, %di
  %g = trunc i64 %number to i32
  %s4 = add i32 %s3, %g
  store i32 %s4, ptr addrspace(1) %p
  %bad = icmp eq i32 %v, 77
  br i1 %bad, label %fail, label %end
fail:
  %x = cmpxchg ptr addrspace(1) %err, i32 0, i32 1 seq_cst seq_cst
  br label %end
end:
  ret void
}
!0 = !{i32 32, i32 1, i32 1}
"""
PARAMS = ("ptr<i32>", "i32", "f16", "bf16", "i1", "f32")


@pytest.fixture(scope="module")
def code() -> bytes:
    from tegula_xpu import spirv

    return spirv.assemble(SCALARS)


def artifact(code: bytes, asserts: tuple[str, ...] = ("it is 77",)) -> Artifact:
    metadata = {"threads": 32, "asserts": list(asserts)}
    return Artifact("spirv", code, "scalars", PARAMS, metadata)


def enter(kernel, address: int, value: int, stream: int | None = None) -> int:
    half = int(np.float16(7).view(np.uint16))
    single = struct.unpack("<I", struct.pack("<f", 5.0))[0]
    slots = (ctypes.c_uint64 * 6)(address, value, half, 100, 10, single)
    native = LAUNCH_SIGNATURE(kernel.launch_address)
    return native(kernel.handle, ctypes.addressof(slots), 6, 4, 3, 2, stream)


def read(device, address: int) -> np.ndarray:
    out = np.zeros(24, np.int32)
    device.copy(out.ctypes.data, address, out.nbytes)
    return out


@pytest.fixture
def buffer(device):
    address = device.alloc(96)
    yield address
    device.free(address)


def test_module_is_valid(code, tmp_path):
    validate(code, tmp_path)


def test_scalars_of_all_widths_and_the_grid(device, code, buffer):
    kernel = device.load(artifact(code))
    assert enter(kernel, buffer, 1000) == 0
    assert read(device, buffer).tolist() == list(range(1122, 1146))


@pytest.mark.parametrize("prop", ["in_order", ()])
def test_a_foreign_queue_keeps_its_order(device, code, buffer, prop):
    from tegula_xpu import sycl

    kernel = device.load(artifact(code))
    queue = sycl.dpctl().SyclQueue(device.device, property=prop)
    stream = queue.addressof_ref()
    for value in range(50):
        assert enter(kernel, buffer, value + 1000, stream) == 0
    device.synchronize(stream)
    assert read(device, buffer)[0] == 1049 + 122


def test_a_failed_assertion_is_told_once(device, code, buffer):
    kernel = device.load(artifact(code))
    failed = enter(kernel, buffer, 77)
    with pytest.raises(DeviceAssertionError, match=r"'scalars', program \(0, 0, 0\): it is 77"):
        raise kernel.error(failed)
    assert enter(kernel, buffer, 78) == 0


def test_memory_is_aligned_and_checked(device):
    address = device.alloc(100)
    assert address % 64 == 0
    device.free(address)
    with pytest.raises(DeviceError, match="no live allocation"):
        device.free(address)
    with pytest.raises(ValueError, match="-1"):
        device.alloc(-1)


def test_times_are_taken_on_the_queue(device, code, buffer):
    kernel = device.load(artifact(code))
    start = device.mark()
    for _ in range(20):
        enter(kernel, buffer, 1)
    stop = device.mark()
    assert 0 < device.elapsed(start, stop) < 10
    assert device.elapsed(start, start) == 0


def test_equal_programs_are_compiled_once(device, code):
    first, second = device.load(artifact(code)), device.load(artifact(code))
    assert first._program is second._program


def test_damaged_code_is_not_handed_to_the_driver(device, code):
    metadata = {"threads": 32, "asserts": ["it is 77"], "digest": digest(code)}
    device.load(Artifact("spirv", code, "scalars", PARAMS, metadata))
    for size in (0, 4, len(code) // 3, len(code) - 4):
        with pytest.raises(DeviceError, match=r"'scalars' \(spirv\) is damaged"):
            device.load(Artifact("spirv", code[:size], "scalars", PARAMS, metadata))
    del metadata["digest"]
    for size in (0, 4, 18, len(code) - 4):
        with pytest.raises(DeviceError, match=r"'scalars' \(spirv\) is damaged"):
            device.load(Artifact("spirv", code[:size], "scalars", PARAMS, metadata))
    with pytest.raises(DeviceError, match="it does not define 'others'"):
        device.load(Artifact("spirv", code, "others", PARAMS, metadata))


NEGATED = r"""
kernel @negated(%x: ptr<const f32>, %o: ptr<f32>) {
  %i = arange {start = 0, end = 64} : i32[64]
  %p = splat %x {shape = [64]} : ptr<const f32>[64]
  %q = addptr %p, %i : ptr<const f32>[64]
  %v = load %q : f32[64]
  %n = neg %v : f32[64]
  %s = reduce [%v] {axis = 0} : f32 combine(%a: f32, %b: f32) {
    %c = add %a, %b : f32
    yield [%c]
  }
  %ss = splat %s {shape = [64]} : f32[64]
  %op = splat %o {shape = [64]} : ptr<f32>[64]
  %oq = addptr %op, %i : ptr<f32>[64]
  store %oq, %ss
  %j = constant {value = 64} : i32[64]
  %or = addptr %oq, %j : ptr<f32>[64]
  store %or, %n
  return
}
"""


def test_negated_floats_survive_barriers(device):
    """Intel's OpenCL runtime for processors takes them for the same in all subgroups."""
    from tegula.conformance.session import compile_module
    from tegula.ir import parse_module
    from tegula.plugin.registry import registry

    artifact = compile_module(registry.backend("xpu"), device.info.target, parse_module(NEGATED))
    kernel = device.load(artifact)
    x = np.arange(64, dtype=np.float32)
    address = device.alloc(768)
    device.copy(address, x.ctypes.data, 256)
    slots = (ctypes.c_uint64 * 2)(address, address + 256)
    native = LAUNCH_SIGNATURE(kernel.launch_address)
    assert native(kernel.handle, ctypes.addressof(slots), 2, 1, 1, 1, None) == 0
    out = np.zeros((2, 64), np.float32)
    device.copy(out.ctypes.data, address + 256, 512)
    device.free(address)
    np.testing.assert_array_equal(out[0], x.sum())
    np.testing.assert_array_equal(out[1], -x)


def test_foreign_artifacts_and_broken_code_are_refused(device, code):
    with pytest.raises(DeviceError, match="of the kind 'spirv', not 'ptx'"):
        device.load(Artifact("ptx", b"", "k"))
    with pytest.raises(DeviceError, match="does not compile kernel 'scalars'"):
        newer = code[:4] + (99 << 16).to_bytes(4, "little") + code[8:]
        device.load(Artifact("spirv", newer, "scalars", PARAMS, {"threads": 32}))


def test_arrays_live_in_device_memory(device):
    host = np.arange(12, dtype=np.float32).reshape(3, 4)
    x = tegula.asarray(host, device="xpu")
    assert x.__dlpack_device__() == (14, 0)
    assert not x.on_host
    np.testing.assert_array_equal(x.numpy(), host)
    host[:] = 0
    assert x.numpy()[2, 3] == 11
    assert not hasattr(x, "__array_interface__")


def test_usm_interface_goes_both_ways(device):
    from tegula.runtime.arguments import describe

    x = tegula.asarray(np.arange(12, dtype=np.int16).reshape(3, 4), device="xpu")
    given = x.__sycl_usm_array_interface__
    assert given["strides"] == (4, 1)
    assert given["syclobj"] == device.queue

    class Usm:
        __sycl_usm_array_interface__ = {**given, "offset": 2}  # noqa: RUF012
        sycl_device = device.device

    array = describe("x", Usm())
    assert array.device == (14, 0)
    assert array.address == x.data_ptr() + 4
    assert array.strides == (8, 2)
    assert array.dtype.name == "i16"


def test_plain_usm_memory_is_an_array_of_bytes(device):
    from dpctl.memory import MemoryUSMShared

    from tegula.runtime.arguments import describe

    memory = MemoryUSMShared(64, queue=device.queue)
    array = describe("x", memory)
    assert (array.device, array.shape, array.dtype.name) == ((14, 0), (64,), "u8")
    assert not array.readonly
    assert device.stream_of(memory) == memory.sycl_queue.addressof_ref()


@tegula.jit
def touch(x):
    tl.store(x, 1.0)


@tegula.jit
def to_unsigned(x, out):
    i = tl.arange(0, 4)
    tl.store(out + i, tl.load(x + i).to(tl.uint32))


def test_negative_floats_become_unsigned_zeros(device):
    x = tegula.asarray(np.array([-1.5, -0.0, 3e9, np.nan], np.float32), device="xpu")
    out = tegula.asarray(np.full(4, 7, np.uint32), device="xpu")
    to_unsigned[(1,)](x, out)
    assert out.numpy().tolist() == [0, 0, 3000000000, 0]


def test_host_memory_has_to_be_copied_first(device):
    with pytest.raises(DeviceError, match=r"tegula.asarray\(x, device='xpu:0'\)"):
        touch[(1,)](np.zeros(4, np.float32), device="xpu")
