"""Launches on every backend here: arguments arrive as they were given, whatever their kind."""

from __future__ import annotations

import contextvars
import gc
import threading
import time
from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tegula
import tegula.language as tl
from tegula.config import config
from tegula.errors import CompilationError, LaunchError
from tegula.runtime import compiler

N = 100


@pytest.fixture(autouse=True)
def chosen(backend_name: str) -> Iterator[None]:
    with tegula.use_device(backend_name):
        yield


@tegula.jit
def copy(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offs, tl.load(x_ptr + offs, mask=offs < n), mask=offs < n)


@tegula.jit
def put(out_ptr, value):
    tl.store(out_ptr, value)


@tegula.jit
def strided(x_ptr, out_ptr, rows, cols, sr, sc, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * sr + offs * sc, mask=offs < cols)
    tl.store(out_ptr + row * cols + offs, x, mask=offs < cols)


@tegula.jit
def shift_up(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    """Stores before it loads again: y may be x, or overlap it."""
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n)
    tl.store(y_ptr + offs, x * 2, mask=offs < n)
    again = tl.load(x_ptr + offs, mask=offs < n)
    tl.store(y_ptr + offs, again + x, mask=offs < n)


DTYPES = [
    "float32", "float64", "float16", "int8", "int16", "int32", "int64", "uint8", "uint16",
    "uint32", "uint64", "bool",
]  # fmt: skip


@pytest.mark.parametrize("dtype", [*DTYPES, "bfloat16"])
def test_arrays_of_every_dtype(dtype: str) -> None:
    kind = np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    x = np.random.default_rng(0).integers(0, 2, N).astype(kind)
    for _ in range(2):
        out = np.zeros(N, kind)
        copy[(4,)](x, out, N, BLOCK=32)
        assert (out == x).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_torch_tensors_of_every_dtype(dtype: str) -> None:
    torch = pytest.importorskip("torch")
    kind = getattr(torch, dtype)
    x = torch.randint(0, 2, (N,)).to(kind)
    for _ in range(2):
        out = torch.zeros(N, dtype=kind)
        copy[(4,)](x, out, N, BLOCK=32)
        assert torch.equal(out, x)


VALUES: list[tuple[Any, str]] = [
    (3, "int32"), (1, "int32"), (16, "int32"), (-(2**31), "int32"), (2**31, "int64"),
    (-(2**63), "int64"), (2**63, "uint64"), (2**64 - 1, "uint64"), (True, "bool"),
    (False, "bool"), (0.1, "float32"), (-0.0, "float32"), (float("inf"), "float32"),
    (float("nan"), "float32"), (1e300, "float32"),
    *((np.dtype(d).type(7 if d != "bool" else 1), d) for d in DTYPES),
    (np.int8(-7), "int8"), (np.int64(-(2**40)), "int64"), (np.uint64(2**64 - 1), "uint64"),
    (np.float16(0.1), "float16"), (np.float64(0.1), "float32"),
]  # fmt: skip


@pytest.mark.parametrize(("value", "dtype"), VALUES, ids=lambda v: f"{type(v).__name__}-{v}")
def test_scalars_arrive(value: Any, dtype: str) -> None:
    with np.errstate(over="ignore"):
        expected = np.array(value).astype(dtype)
    for _ in range(2):
        out = np.zeros(1, dtype)
        put[(1,)](out, value)
        assert np.array_equal(out[0], expected, equal_nan=expected.dtype.kind == "f")
        assert out.tobytes() == expected.tobytes() or np.isnan(expected)


def test_views_with_any_strides() -> None:
    x = np.arange(600, dtype=np.float32).reshape(20, 30)
    for view in (
        x,
        x[::2, ::3],
        x[::-1],
        x[:, ::-1],
        x.T,
        x[3:, 4:],
        np.broadcast_to(x[0], (5, 30)),
    ):
        rows, cols = view.shape
        sr, sc = (s // 4 for s in view.strides)
        for _ in range(2):
            out = np.zeros((rows, cols), np.float32)
            strided[(rows,)](view, out, rows, cols, sr, sc, BLOCK=32)
            assert (out == view).all()


@pytest.mark.parametrize("order", [0, 1])
@pytest.mark.parametrize(("i", "j"), [(0, 0), (0, 16), (16, 0), (0, 40), (40, 0), (0, 100), (7, 8)])
def test_overlapping_arguments(i: int, j: int, order: int) -> None:
    def reference(x: np.ndarray, y: np.ndarray) -> None:
        first = x.copy()
        y[...] = first * 2
        y[...] = x.copy() + first

    shift_up.forget()
    cases = [(i, j), (0, 100)] if order else [(0, 100), (i, j)]
    for a, b in cases * 2:
        data = np.arange(200, dtype=np.float32)
        expected = data.copy()
        reference(expected[a : a + 48], expected[b : b + 48])
        shift_up[(1,)](data[a : a + 48], data[b : b + 48], 48, BLOCK=64)
        assert (data == expected).all()


def test_store_to_a_readonly_array_names_the_argument() -> None:
    x = np.zeros(N, np.float32)
    out = np.zeros(N, np.float32)
    out.flags.writeable = False
    for _ in range(2):
        with pytest.raises(CompilationError) as caught:
            copy[(4,)](x, out, N, BLOCK=32)
        notes = "".join(getattr(caught.value, "__notes__", ()))
        assert "'out_ptr'" in notes
        assert "read-only" in notes
    x.flags.writeable = False
    fresh = np.ones(N, np.float32)
    copy[(4,)](x, fresh, N, BLOCK=32)
    assert (fresh == 0).all()


def test_without_the_native_dispatcher() -> None:
    @tegula.jit
    def slow_copy(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
        offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(out_ptr + offs, tl.load(x_ptr + offs, mask=offs < n), mask=offs < n)

    x = np.arange(N, dtype=np.float32)
    with config.scope(native_launch=False):
        for _ in range(2):
            out = np.zeros(N, np.float32)
            slow_copy[(4,)](x, out, N, BLOCK=32)
            assert (out == x).all()
        assert slow_copy._table is None


def test_tuples_and_varargs() -> None:
    @tegula.jit
    def gather_sum(out_ptr, pair, *rest):
        total = tl.load(pair[0]) + pair[1]
        for i in tl.static_range(len(rest)):
            total += tl.load(rest[i])
        tl.store(out_ptr, total)

    a, b, c = (np.full(1, v, np.float32) for v in (1, 10, 100))
    for _ in range(2):
        out = np.zeros(1, np.float32)
        gather_sum[(1,)](out, (a, 1000.0), b, c)
        assert out[0] == 1111
        gather_sum[(1,)](out, (a, 2000.0))
        assert out[0] == 2001


def test_higher_order_kernels() -> None:
    @tegula.jit
    def twice(x):
        return x * 2

    @tegula.jit
    def square(x):
        return x * x

    @tegula.jit
    def apply(x_ptr, fn):
        tl.store(x_ptr, fn(tl.load(x_ptr)))

    x = np.full(1, 3, np.float32)
    for fn, expected in ((twice, 6), (square, 36), (twice, 72), (square, 5184)):
        apply[(1,)](x, fn)
        assert x[0] == expected


def test_threads_launch_at_once(backend_name: str) -> None:
    errors: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            with tegula.use_device(backend_name):
                rng = np.random.default_rng(seed)
                for _ in range(20):
                    n = int(rng.integers(1, 400))
                    x = rng.random(n, np.float32)
                    out = np.zeros(n, np.float32)
                    copy[(tegula.cdiv(n, 32),)](x, out, n, BLOCK=32)
                    assert (out == x).all()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors


def test_other_threads_run_while_a_kernel_runs() -> None:
    @tegula.jit
    def busy(x_ptr, n):
        x = tl.load(x_ptr)
        for _ in range(n):
            x = x * 0.999 + 1.0
        tl.store(x_ptr, x)

    x = np.zeros(1, np.float32)
    if busy[(1,)](x, 3).kernel.launch_address is None:
        pytest.skip("the backend is launched from Python")
    count = 0
    running = threading.Event()
    done = threading.Event()

    def launch() -> None:
        running.set()
        busy[(1,)](x, 50_000_000)
        done.set()

    for native in (False, True):  # the first launch of its kind comes from Python
        running.clear()
        done.clear()
        thread = threading.Thread(target=contextvars.copy_context().run, args=(launch,))
        thread.start()
        running.wait()
        count = 0
        while not done.is_set():
            count += 1
            time.sleep(0.001)
        thread.join()
        assert count >= 10, f"native {native}"


def test_failed_assertion_in_a_kernel() -> None:
    @tegula.jit(debug=True)
    def checks(x_ptr):
        tl.device_assert(tl.load(x_ptr) > 0, "x has to be positive")

    checks[(1,)](np.ones(1, np.float32))
    for _ in range(2):
        with pytest.raises((LaunchError, AssertionError), match="x has to be positive"):
            checks[(1,)](np.zeros(1, np.float32))
    checks[(1,)](np.ones(1, np.float32))


def test_asm_shows_the_stages(backend_name: str) -> None:
    compiled = copy[(1,)](np.zeros(N, np.float32), np.zeros(N, np.float32), N, BLOCK=128)
    assert "kernel @copy" in compiled.asm["tir"]
    assert compiled.metadata.name == "copy"
    assert compiled.metadata.backend == backend_name


def test_debug_levels(capsys: pytest.CaptureFixture[str], backend_name: str) -> None:
    x = np.zeros(N, np.float32)

    def output(level: int) -> str:
        copy.forget()
        with config.scope(debug=level):
            copy[(1,)](x, np.zeros(N, np.float32), N, BLOCK=128)
        return capsys.readouterr().err

    assert output(0) == ""
    assert f"tegula: copy for {backend_name}:0 (use_device()): " in output(1)
    second = output(2)
    assert "cache hit" in second
    assert "key " in second
    assert "passes that changed it: " in output(3) + output(4)
    assert "kernel @copy" in output(6)
    with config.scope(only=("other",)):
        assert "kernel @copy" not in output(6)
    with config.scope(print_after=("canonicalize",)):
        assert "; copy: tir.canonicalize" in output(0)


def test_dump_writes_every_stage(tmp_path: Any, backend_name: str) -> None:
    from tegula.ir import parse_module

    dumps = tmp_path / "dumps"
    with config.scope(dump=str(dumps), only=("copy",)):
        copy.forget()
        copy[(1,)](np.zeros(N, np.float32), np.zeros(N, np.float32), N, BLOCK=128)
        put[(1,)](np.zeros(1, np.float32), 2.0)
    (folder,) = dumps.iterdir()
    assert folder.name.startswith("copy-")
    files = sorted(p.name for p in folder.iterdir())
    assert files[0] == "00-frontend.tir"
    for path in folder.glob("*.tir"):
        text = path.read_text()
        assert str(parse_module(text)) == text.rstrip("\n") or parse_module(text)
    copy.forget()


@pytest.mark.parametrize("fails", [False, True])
def test_python_collects_no_garbage_while_a_kernel_is_compiled(
    monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    @tegula.jit
    def kernel(out_ptr, FAILS: tl.constexpr):
        tl.static_assert(not FAILS)
        tl.store(out_ptr, 3)

    seen = []
    build = compiler.build_module

    def noted(*args: Any) -> Any:
        seen.append(gc.isenabled())
        return build(*args)

    monkeypatch.setattr(compiler, "build_module", noted)
    out = np.zeros(1, np.int32)
    with config.scope(cache=False):
        if fails:
            with pytest.raises(CompilationError):
                kernel[(1,)](out, fails)
        else:
            kernel[(1,)](out, fails)
    assert seen == [False]
    assert gc.isenabled()
