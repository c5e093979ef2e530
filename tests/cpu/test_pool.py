"""The native thread pool and the CPU driver, with kernels written directly as LLVM IR."""

from __future__ import annotations

import ctypes
import os
import sys
import threading

import ml_dtypes
import numpy as np
import pytest

from tegula.config import config
from tegula.errors import DeviceAssertionError, KernelError
from tegula.plugin import Artifact, DeviceError
from tegula_cpu import target as targets
from tegula_cpu.driver import CpuDevice, CpuDriver, CpuKernel
from tegula_cpu.pool import compile_text, pool, thread_count
from tegula_cpu.pool_ir import PoolTuning, pool_text
from tegula_cpu.printing import format_value

SIGNATURE = "(ptr %args, ptr %scratch, i32 %x, i32 %y, i32 %z, i32 %nx, i32 %ny, i32 %nz)"

COUNT = f"""
define void @count{SIGNATURE} {{
  %base = load ptr, ptr %args
  %plane = mul i32 %z, %ny
  %row = add i32 %plane, %y
  %first = mul i32 %row, %nx
  %i = add i32 %first, %x
  %at = getelementptr i32, ptr %base, i32 %i
  %old = atomicrmw add ptr %at, i32 1 seq_cst
  ret void
}}
"""

# Fills its scratch with the program id, then writes 1 if it still reads the id everywhere.
SCRATCH = f"""
define void @fill{SIGNATURE} {{
entry:
  %base = load ptr, ptr %args
  %out = getelementptr i32, ptr %base, i32 %x
  %address = ptrtoint ptr %scratch to i64
  %low = and i64 %address, 63
  %aligned = icmp eq i64 %low, 0
  br label %write
write:
  %i = phi i64 [ 0, %entry ], [ %i.next, %write ]
  %p = getelementptr i32, ptr %scratch, i64 %i
  store volatile i32 %x, ptr %p
  %i.next = add i64 %i, 1
  %more = icmp ult i64 %i.next, 5000
  br i1 %more, label %write, label %read
read:
  %j = phi i64 [ 0, %write ], [ %j.next, %read ]
  %good = phi i1 [ %aligned, %write ], [ %good.next, %read ]
  %q = getelementptr i32, ptr %scratch, i64 %j
  %v = load volatile i32, ptr %q
  %same = icmp eq i32 %v, %x
  %good.next = and i1 %good, %same
  %j.next = add i64 %j, 1
  %again = icmp ult i64 %j.next, 5000
  br i1 %again, label %read, label %done
done:
  %flag = zext i1 %good.next to i32
  store i32 %flag, ptr %out
  ret void
}}
"""

ASSERT = f"""
@message = private constant [14 x i8] c"x is too big!\\00"
declare void @tegula_cpu_assert_fail(ptr, ptr, i32, i32, i32)
define void @check{SIGNATURE} {{
  %limit = load i32, ptr %args
  %bad = icmp sge i32 %x, %limit
  br i1 %bad, label %fail, label %ok
fail:
  call void @tegula_cpu_assert_fail(ptr %scratch, ptr @message, i32 %x, i32 %y, i32 %z)
  ret void
ok:
  ret void
}}
"""

PRINT = f"""
@prefix = private constant [5 x i8] c"v = \\00"
declare void @tegula_cpu_print(ptr, ptr, i32, i64, i32, i32, i32, i32, ptr)
define void @show{SIGNATURE} {{
  %index = alloca [2 x i32]
  store i32 4, ptr %index
  %second = getelementptr i32, ptr %index, i32 1
  store i32 %x, ptr %second
  %minus = sub i32 0, %x
  %bits = sext i32 %minus to i64
  call void @tegula_cpu_print(ptr %scratch, ptr @prefix, i32 0, i64 %bits,
                              i32 %x, i32 %y, i32 %z, i32 2, ptr %index)
  call void @tegula_cpu_print(ptr %scratch, ptr @prefix, i32 2, i64 1069547520,
                              i32 %x, i32 %y, i32 %z, i32 0, ptr null)
  ret void
}}
"""

# tiny * tiny is a subnormal: zero where the mode flushes it.
DENORMAL = f"""
define void @product{SIGNATURE} {{
  %base = load ptr, ptr %args
  %at = getelementptr float, ptr %base, i32 %x
  %v = load volatile float, ptr %at
  %half = fmul float %v, 5.000000e-01
  store float %half, ptr %at
  ret void
}}
"""

MISSING = f"""
declare void @tegula_no_such_function()
define void @lost{SIGNATURE} {{
  call void @tegula_no_such_function()
  ret void
}}
"""


def load(text: str, entry: str, params: tuple[str, ...], **metadata: object) -> CpuKernel:
    artifact = Artifact("elf-object", compile_text(text), entry, params, metadata)
    return CpuDriver().open(0).load(artifact)


@pytest.fixture(scope="module")
def count() -> CpuKernel:
    return load(COUNT, "count", ("ptr<i32>",), scratch_bytes=100)


def hits(kernel: CpuKernel, grid: tuple[int, int, int]) -> np.ndarray:
    """How often each program of the grid ran, with a guard element behind the last."""
    size = max(0, grid[0]) * max(0, grid[1]) * max(0, grid[2])
    out = np.zeros(size + 1, np.int32)
    kernel.launch(grid, [out.ctypes.data])
    assert out[-1] == 0
    return out[:-1]


@pytest.mark.parametrize(
    "grid",
    [
        (1, 1, 1),
        (2, 1, 1),
        (1, 2, 1),
        (1, 1, 3),
        (7, 5, 3),
        (1000, 3, 2),
        (1, 1, 4097),
        (50021, 1, 1),
    ],
)
def test_every_program_runs_once(count: CpuKernel, grid: tuple[int, int, int]) -> None:
    for _ in range(20):  # the learned cost changes the way it runs
        assert (hits(count, grid) == 1).all()


@pytest.mark.parametrize("grid", [(0, 1, 1), (3, 0, 2), (1, 1, 0), (-4, 1, 1), (5, -1, -1)])
def test_empty_grid_runs_nothing(count: CpuKernel, grid: tuple[int, int, int]) -> None:
    out = np.zeros(64, np.int32)
    count.launch(grid, [out.ctypes.data])
    assert not out.any()


def test_grid_beyond_all_counting_is_refused(count: CpuKernel) -> None:
    top = 2**31 - 1
    with pytest.raises(KernelError, match=r"2\*\*63"):
        count.launch((top, top, top), [0])


def test_scratch_is_private_aligned_and_grows() -> None:
    small = load(SCRATCH, "fill", ("ptr<i32>",), scratch_bytes=20000)
    large = load(SCRATCH, "fill", ("ptr<i32>",), scratch_bytes=3_000_000)
    for kernel in (small, large, small):
        out = np.zeros(300, np.int32)
        kernel.launch((300, 1, 1), [out.ctypes.data])
        assert (out == 1).all()


def test_impossible_scratch_is_an_error_that_names_the_size(count: CpuKernel) -> None:
    kernel = load(COUNT, "count", ("ptr<i32>",), scratch_bytes=1 << 60)
    for grid in ((1, 1, 1), (9, 1, 1)):
        with pytest.raises(KernelError, match=str(1 << 60)):
            kernel.launch(grid, [0])
    assert (hits(count, (9, 1, 1)) == 1).all()


def test_concurrent_launches_from_python_threads(count: CpuKernel) -> None:
    wrong: list[str] = []

    def launch_many(seed: int) -> None:
        random = np.random.default_rng(seed)
        for _ in range(60):
            grid = tuple(int(v) for v in random.integers(1, 30, 3))
            if not (hits(count, grid) == 1).all():
                wrong.append(str(grid))

    threads = [threading.Thread(target=launch_many, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert not wrong


def test_resizing_while_others_launch(count: CpuKernel) -> None:
    done = threading.Event()

    def resize() -> None:
        for i in range(60):
            pool().resize(1 + i % 4)
        done.set()

    before = pool().threads
    thread = threading.Thread(target=resize)
    thread.start()
    while not done.is_set():
        assert (hits(count, (40, 40, 1)) == 1).all()
    thread.join()
    pool().resize(before)
    assert (hits(count, (40, 40, 1)) == 1).all()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_child_of_a_fork_has_its_own_pool() -> None:
    slow = load(SCRATCH, "fill", ("ptr<i32>",), scratch_bytes=20000)
    before = pool().threads
    pool().resize(3)
    out = np.zeros(500, np.int32)
    slow.launch((500, 1, 1), [out.ctypes.data])
    assert pool().started() == 2
    child = os.fork()
    if child == 0:
        code = 1
        try:
            none = pool().started() == 0
            out[:] = 0
            slow.launch((500, 1, 1), [out.ctypes.data])
            code = 0 if none and (out == 1).all() and pool().started() == 2 else 2
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    slow.launch((500, 1, 1), [out.ctypes.data])
    assert (out == 1).all()
    pool().resize(before)


def test_number_of_threads_follows_the_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    before = pool().threads
    config.set(num_threads=3)
    assert thread_count() == 3 == pool().threads
    config.set(num_threads=None)
    monkeypatch.setenv("TEGULA_NUM_THREADS", "5")
    assert thread_count() == 5
    monkeypatch.undo()
    config.refresh()
    assert pool().threads == thread_count() == before


def test_failed_assertion_names_message_and_program() -> None:
    kernel = load(ASSERT, "check", ("i32",))
    kernel.launch((100, 1, 1), [100])
    with pytest.raises(DeviceAssertionError, match=r"check.*\(99, 0, 0\).*x is too big!"):
        kernel.launch((100, 1, 1), [99])
    with pytest.raises(DeviceAssertionError, match=r"\(0, 0, 0\)"):
        kernel.launch((1, 1, 1), [-1])
    kernel.launch((1, 1, 1), [1])


def test_failed_assertion_stops_the_grid() -> None:
    kernel = load(ASSERT, "check", ("i32",))
    with pytest.raises(DeviceAssertionError):
        kernel.launch((2**31 - 1, 2**10, 1), [0])  # would take minutes


def test_prints_come_in_the_order_of_programs(capsys: pytest.CaptureFixture[str]) -> None:
    kernel = load(PRINT, "show", ())
    kernel.launch((150, 1, 1), [])
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        line
        for x in range(150)
        for line in (f"pid ({x}, 0, 0) idx (4, {x}) v = {-x}", f"pid ({x}, 0, 0) v = 1.500000")
    ]


@pytest.mark.parametrize(
    ("kind", "bits", "text"),
    [
        (0, 2**64 - 5, "-5"),
        (1, 2**64 - 5, str(2**64 - 5)),
        (2, 0x3DCCCCCD, "0.100000"),
        (2, 0x7F800000, "inf"),
        (3, 0x3FB999999999999A, "0.100000"),
        (4, 0x1000, "0x0000000000001000"),
        (16 | 32 << 8, 2**64 - 1, "0xffffffff"),
        (17 | 8 << 8, 10, "0x0a"),
        (18, 0x3F800000, "0x1p+0"),
        (18, 0x3FC00000, "0x1.8p+0"),
    ],
)
def test_format_of_printed_values(kind: int, bits: int, text: str) -> None:
    assert format_value(kind, bits) == text


@pytest.mark.skipif("x86" not in os.uname().machine, reason="sets an x86 control register")
def test_floating_point_mode_of_the_caller_does_not_leak_in() -> None:
    kernel = load(DENORMAL, "product", ("ptr<f32>",))
    set_mode = load(
        """declare void @llvm.x86.sse.ldmxcsr(ptr)
        define void @mode(ptr %p) { call void @llvm.x86.sse.ldmxcsr(ptr %p) ret void }""",
        "mode",
        (),
    )
    call = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(set_mode._record[0])
    flush, plain = ctypes.c_uint32(0x9FC0), ctypes.c_uint32(0x1F80)
    smallest = np.full(64, np.finfo(np.float32).tiny, np.float32)
    for size in (1, 64):
        values = smallest[:size].copy()
        call(ctypes.addressof(flush))
        try:
            kernel.launch((size, 1, 1), [values.ctypes.data])
        finally:
            call(ctypes.addressof(plain))
        assert (values.view(np.uint32) == 0x00400000).all()


def test_unresolved_symbol_is_an_error_that_names_it() -> None:
    with pytest.raises(DeviceError, match=r"lost.*tegula_no_such_function"):
        load(MISSING, "lost", ())


def test_foreign_artifact_is_refused() -> None:
    with pytest.raises(DeviceError, match=r"'elf-object', not 'ptx'"):
        CpuDriver().open(0).load(Artifact("ptx", b"", "k"))


def test_wrong_number_of_arguments_is_refused(count: CpuKernel) -> None:
    with pytest.raises(TypeError, match="takes 1 arguments, not 2"):
        count.launch((1, 1, 1), [0, 0])


def test_memory_of_the_device() -> None:
    device: CpuDevice = CpuDriver().open(0)
    address = device.alloc(100)
    assert address % 64 == 0
    source = np.arange(100, dtype=np.uint8)
    device.copy(address, source.ctypes.data, 100)
    back = np.zeros(100, np.uint8)
    device.copy(back.ctypes.data, address, 100)
    assert (back == source).all()
    device.free(address)
    with pytest.raises(DeviceError, match="no live allocation"):
        device.free(address)
    with pytest.raises(MemoryError):
        device.alloc(1 << 62)
    device.free(device.alloc(0))
    assert device.elapsed(device.mark(), device.mark()) >= 0


def test_probe_and_open() -> None:
    probe = CpuDriver.probe()
    assert probe.status == "available"
    assert [d.index for d in probe.devices] == [0]
    assert probe.devices[0].target["vector_bits"] in (128, 256, 512)
    with pytest.raises(DeviceError, match="cpu:1"):
        CpuDriver().open(1)


@pytest.mark.parametrize("name", ["x86-64", "x86-64-v3", "aarch64"])
def test_pool_compiles_for_every_family(name: str) -> None:
    import llvmlite.binding as llvm

    target = targets.resolve(name)
    module = llvm.parse_assembly(pool_text(target["family"], PoolTuning()))
    module.triple = target["triple"]
    module.verify()
    assert "tegula_cpu_launch:" in targets.machine(target, opt=0).emit_assembly(module)


def test_exit_with_busy_workers_is_clean() -> None:
    import subprocess

    code = (
        "import numpy as np; from tegula_cpu.pool import *; from tegula_cpu.driver import *\n"
        "from tegula.plugin import Artifact\n"
        f"text = '''{COUNT}'''\n"
        "a = Artifact('elf-object', compile_text(text), 'count', ('ptr',))\n"
        "k = CpuDriver().open(0).load(a)\n"
        "out = np.zeros(300000, np.int32)\n"
        "for _ in range(3): k.launch((300000, 1, 1), [out.ctypes.data])\n"
        "print(out.min(), out.max())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "3 3\n", "")


EXTEND = """
declare {wide} @{name}({narrow})
define void @convert(ptr %x, ptr %y, i64 %n) {{
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %j, %loop ]
  %p = getelementptr {narrow}, ptr %x, i64 %i
  %v = load {narrow}, ptr %p
  %w = call {wide} @{name}({narrow} %v)
  %q = getelementptr {wide}, ptr %y, i64 %i
  store {wide} %w, ptr %q
  %j = add i64 %i, 1
  %more = icmp slt i64 %j, %n
  br i1 %more, label %loop, label %done
done:
  ret void
}}
"""


def converted(name: str, source: np.ndarray, narrow: str, wide: str, out: type) -> np.ndarray:
    """`source` through one of the conversion functions that the driver provides."""
    data = compile_text(EXTEND.format(name=name, narrow=narrow, wide=wide))
    library, addresses = pool().linker.link(data, ("convert",), pool().symbols(data))
    result = np.zeros(source.shape, out)
    function = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 2, ctypes.c_int64)(addresses["convert"])
    function(source.ctypes.data, result.ctypes.data, source.size)
    del library
    return result


def same(a: np.ndarray, b: np.ndarray) -> bool:
    """Equal bit by bit, NaNs apart."""
    nan = np.isnan(a.astype(np.float64))
    kind = f"u{a.dtype.itemsize}"
    agree = (a.view(kind) == b.view(kind)) | nan
    with np.errstate(invalid="ignore"):  # casts of signalling NaNs
        return bool((nan == np.isnan(b.astype(np.float64))).all() and agree.all())


def test_every_half_extends_without_the_instruction() -> None:
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    got = converted("__extendhfsf2", halves, "half", "float", np.float32)
    assert same(got, halves.astype(np.float32))


@pytest.mark.parametrize(
    ("name", "wide", "narrow"),
    [
        ("__truncsfhf2", np.float32, np.float16),
        ("__truncdfhf2", np.float64, np.float16),
        ("__truncsfbf2", np.float32, ml_dtypes.bfloat16),
        ("__truncdfbf2", np.float64, ml_dtypes.bfloat16),
    ],
)
def test_narrowing_rounds_once_to_nearest_even(name: str, wide: type, narrow: type) -> None:
    every = np.arange(1 << 16, dtype=np.uint16).view(narrow)
    with np.errstate(invalid="ignore"):
        exact = np.unique(every[np.isfinite(every.astype(np.float64))].astype(wide))
    middle = (exact[1:] / 2 + exact[:-1] / 2).astype(wide)  # ties, and their neighbours
    up, down = (np.nextafter(middle, np.asarray(s, wide), dtype=wide) for s in (np.inf, -np.inf))
    ends = np.array([np.inf, -np.inf, np.nan, -0.0, 0.0, np.finfo(wide).max], wide)
    source = np.concatenate([exact, middle, up, down, ends])
    source = np.ascontiguousarray(source, wide)
    types = {np.float16: "half", np.float32: "float", np.float64: "double"}
    got = converted(name, source, types[wide], types.get(narrow, "bfloat"), np.uint16).view(narrow)
    with np.errstate(invalid="ignore"):
        assert same(got, nearest(source, narrow))


def nearest(source: np.ndarray, narrow: type) -> np.ndarray:
    """Rounded to nearest even, by looking for the neighbours of each number."""
    every = np.arange(1 << 16, dtype=np.uint16).view(narrow)
    values = every.astype(np.float64)
    order = np.flatnonzero(np.isfinite(values) & ~np.signbit(values))
    order = order[np.argsort(values[order])]
    grid = np.append(values[order], 2 * values[order][-1] - values[order][-2])
    size = np.abs(source.astype(np.float64))
    at = np.clip(np.searchsorted(grid, size, side="right") - 1, 0, len(grid) - 2)
    below, above = grid[at], grid[at + 1]
    half = below / 2 + above / 2
    up = (size > half) | ((size == half) & (at % 2 == 1)) | (size >= grid[-1])
    bits = np.where(up, at + 1, at).astype(np.uint16)
    inf = np.array(np.inf, narrow).view(np.uint16)
    bits = np.minimum(bits, inf)
    bits = np.where(np.isnan(size), np.array(np.nan, narrow).view(np.uint16), bits)
    return (bits | np.where(np.signbit(source), 0x8000, 0).astype(np.uint16)).view(narrow)
