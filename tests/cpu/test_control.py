"""Loops and branches that carry scalars and tiles; output and checks; every target."""

from __future__ import annotations

import numpy as np
import pytest
from cpu.lowering import check, kernel, normal, zeros

from tegula import ir
from tegula.errors import DeviceAssertionError, KernelError
from tegula.ir import Block, Tile, Value
from tegula.tools.execute import compile_for, run_on

T = Tile((40,), ir.f32)
I32 = ir.i32


def c(b, x):
    return b.constant(x, I32)


@pytest.mark.parametrize("bounds", [(0, 5, 1), (0, 0, 1), (3, 2, 1), (0, 10, 3), (9, -1, -2),
                                    (0, 5, 0), (-4, 4, 2)])  # fmt: skip
@pytest.mark.parametrize("known", [False, True])
def test_counted_loops(bounds: tuple[int, int, int], known: bool) -> None:
    def body(b, x, o, *given):
        lb, ub, step = (c(b, v) for v in bounds) if known else given

        def loop(i, acc, n):
            f = b.splat(b.cast(i, to=ir.f32), shape=(40,))
            return b.add(acc, b.mul(f, b.get(x, (40,)))), b.add(n, b.mul(i, c(b, 3)))

        acc, n = b.for_(lb, ub, step, [b.get(x, (40,)), c(b, 1)],
                        b.region([I32, T, I32], loop))
        b.put(o, acc)
        b.store(b.addptr(o, c(b, 40)), b.cast(n, to=ir.f32))

    extra = {} if known else dict(zip(("lb", "ub", "step"), bounds))
    check({"x": normal(40), "o": zeros(41), **extra}, body, tolerance=1e-6)


def test_swapped_and_repeated_tiles() -> None:
    def body(b, x, o, n):
        u, v = b.get(x, (40,)), b.load(b.at(x, b.index((40,), 40)))

        def loop(i, p, q, r, s):
            return q, p, b.add(r, q), b.add(r, s)

        out = b.for_(c(b, 0), n, c(b, 1), [u, v, u, v], b.region([I32, T, T, T, T], loop))
        for k, t in enumerate(out):
            b.put(b.addptr(o, c(b, 40 * k)), t)

        twice = b.for_(c(b, 0), n, c(b, 1), [u, v], b.region([I32, T, T],
                                                             lambda i, p, q: (q, q)))
        for k, t in enumerate(twice):
            b.put(b.addptr(o, c(b, 160 + 40 * k)), t)

    for n in range(4):
        check({"x": normal(80), "o": zeros(240), "n": n}, body, tolerance=1e-6)


def test_a_carried_tile_that_is_read_turned_around() -> None:
    S = Tile((8, 8), ir.f32)

    def body(b, x, o):
        def loop(i, t):
            return b.add(t, b.permute(t, dims=(1, 0)))

        (t,) = b.for_(c(b, 0), c(b, 3), c(b, 1), [b.get(x, (8, 8))], b.region([I32, S], loop))
        b.put(o, t)

    check({"x": normal(64), "o": zeros(64)}, body, tolerance=1e-6)


def test_nested_loops_and_values_from_outside() -> None:
    def body(b, x, o, n):
        w = b.exp(b.get(x, (40,)))

        def inner(j, acc):
            return b.add(acc, b.mul(w, b.splat(b.cast(j, to=ir.f32), shape=(40,))))

        def outer(i, acc):
            (r,) = b.for_(c(b, 0), i, c(b, 1), [acc], b.region([I32, T], inner))
            return r

        (acc,) = b.for_(c(b, 0), n, c(b, 1), [b.full(0.0, (40,), ir.f32)],
                        b.region([I32, T], outer))
        b.put(o, b.add(acc, w))

    for n in (0, 1, 5):
        check({"x": normal(40), "o": zeros(40), "n": n}, body, tolerance=1e-5)


def test_running_maximum_and_sum() -> None:
    """The state of an online softmax: several tiles that update each other in place."""
    S, R = Tile((6, 20), ir.f32), Tile((6,), ir.f32)

    def body(b, x, o, n):
        def spread(v):
            return b.broadcast(b.expand_dims(v, axis=1), shape=(6, 20))

        def loop(i, m, s, acc):
            at = b.add(b.index((6, 20)), b.splat(b.mul(i, c(b, 120)), shape=(6, 20)))
            t = b.load(b.at(x, at))
            (top,) = b.reduce([t], b.region([ir.f32] * 2, lambda p, q: b.max(p, q)), axis=1)
            new = b.max(m, top)
            p = b.exp(b.sub(t, spread(new)))
            alpha = b.exp(b.sub(m, new))
            (total,) = b.reduce([p], b.region([ir.f32] * 2, lambda p, q: b.add(p, q)), axis=1)
            return new, b.add(b.mul(s, alpha), total), b.add(b.mul(acc, spread(alpha)), p)

        m, s, acc = b.for_(
            c(b, 0), n, c(b, 1),
            [b.full(float("-inf"), (6,), ir.f32), b.full(0.0, (6,), ir.f32),
             b.full(0.0, (6, 20), ir.f32)], b.region([I32, R, R, S], loop))
        b.put(o, b.div(acc, spread(s)))
        b.put(b.addptr(o, c(b, 120)), m)

    for n in (0, 1, 4):
        check({"x": normal(480), "o": zeros(126), "n": n}, body, tolerance=1e-5)


def test_pointers_that_advance() -> None:
    P, J = Tile((40,), ir.Pointer(ir.f32)), Tile((40,), I32)

    def body(b, x, o, n, s):
        start = b.at(x, b.index((40,)))

        def loop(i, p, j, acc):
            v = b.load(p)
            q = b.addptr(p, b.splat(s, shape=(40,)))
            k = b.add(b.add(j, b.full(1, (40,), I32)), b.splat(s, shape=(40,)))
            scaled = b.mul(v, b.cast(j, to=ir.f32))
            return b.addptr(q, b.full(1, (40,), I32)), k, b.add(acc, scaled)

        p, j, acc = b.for_(c(b, 0), n, c(b, 1),
                           [start, b.index((40,)), b.full(0.0, (40,), ir.f32)],
                           b.region([I32, P, J, T], loop))
        b.put(o, b.add(acc, b.load(p)))
        b.put(b.addptr(o, c(b, 40)), b.cast(j, to=ir.f32))

    for n, s in ((0, 3), (1, 5), (4, 0), (3, -1), (3, 40)):
        check({"x": normal(300)[100:], "o": zeros(80), "n": n, "s": s}, body, tolerance=1e-5)


def test_while_loops() -> None:
    def body(b, x, o, limit):
        before = Block([I32, T])
        n, t = before.args
        with b.at_block(before):
            (total,) = b.reduce([t], b.region([ir.f32] * 2, lambda p, q: b.add(p, q)), axis=0)
            small = b.cmp(total, b.cast(limit, to=ir.f32), pred="lt")
            few = b.cmp(n, c(b, 20), pred="lt")
            half = b.mul(t, b.full(0.5, (40,), ir.f32))
            b.create("condition", b.and_(small, few), [n, t, half])
        after = b.region([I32, T, T], lambda n, t, h: (b.add(n, c(b, 1)), b.add(t, h)))
        n, t, half = b.while_([c(b, 0), b.get(x, (40,))], before, after)
        b.put(o, t)
        b.put(b.addptr(o, c(b, 40)), half)
        b.store(b.addptr(o, c(b, 80)), b.cast(n, to=ir.f32))

    for limit in (0, 100, 5000):
        check({"x": np.abs(normal(40)), "o": zeros(81), "limit": limit}, body, tolerance=1e-5)


def test_branches() -> None:
    def body(b, x, o, n):
        v = b.get(x, (40,))
        cond = b.cmp(n, c(b, 2), pred="gt")
        then = b.region([], lambda: (b.add(v, v), n, v))
        other = b.region([], lambda: (b.mul(v, v), b.neg(n), b.full(3.0, (40,), ir.f32)))
        t, k, u = b.if_(cond, then, other)
        b.put(o, t)
        b.put(b.addptr(o, c(b, 40)), u)

        def storing():
            b.put(b.addptr(o, c(b, 80)), b.sub(t, u))
            return ()

        b.if_(b.cmp(n, c(b, 4), pred="lt"), b.region([], storing), b.region([], lambda: ()))
        b.store(b.addptr(o, c(b, 120)), b.cast(k, to=ir.f32))

    for n in range(6):
        check({"x": normal(40), "o": zeros(121), "n": n}, body, tolerance=1e-6)


def test_prints_elements_and_scalars(capfd: pytest.CaptureFixture[str]) -> None:
    def body(b, x, n):
        b.create("print", [b.get(x, (3,))], prefix="v: ")
        b.create("print", [n], prefix="n: ")
        b.create("print", [n], prefix="h: ", hex=True)

    x = np.array([1.5, -2.0, 0.25], np.float32)
    run_on(kernel({"x": x, "n": 5}, body), 2, {"x": x, "n": 5}, "cpu")

    out = capfd.readouterr().out
    assert out.count("v: 1.5") + out.count("1.5") >= 2
    assert "n: 5" in out or "5" in out
    assert "0x00000005" in out


def test_failed_check_is_reported_and_stops_the_program() -> None:
    def body(b, x, o):
        v = b.get(x, (20,))
        b.create("assert", b.cmp(v, b.full(0.0, (20,), ir.f32), pred="ge"), message="negative")
        b.put(o, v)

    x = np.arange(20, dtype=np.float32)
    out = zeros(20)
    module = kernel({"x": x, "o": out}, body)
    run_on(module, 1, {"x": x, "o": out}, "cpu", {"debug": True})
    assert np.array_equal(out, x)

    out[:] = 0
    x[7] = -1
    with pytest.raises((DeviceAssertionError, KernelError), match="negative"):
        run_on(module, 1, {"x": x, "o": out}, "cpu", {"debug": True})
    assert not out.any()


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16", "f64", "i8", "i32"])
@pytest.mark.parametrize("shape", [(16, 16, 16), (5, 7, 9), (33, 70, 20), (1, 1, 1), (64, 130, 12)])
def test_matrix_products(dtype: str, shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    t = ir.DTYPES[dtype]
    acc = ir.i32 if t.is_int else ir.f64 if dtype == "f64" else ir.f32
    from tegula.ir.types import numpy_dtype

    def body(b, x, y, o, p):
        u, v, w = b.get(x, (m, k)), b.get(y, (k, n)), b.get(y, (n, k))
        zero = b.full(0 if t.is_int else 0.0, (m, n), acc)
        first = b.dot(u, v, zero)
        b.put(o, first)
        one = b.full(1 if t.is_int else 1.0, (m, n), acc)
        b.put(b.addptr(o, c(b, m * n)), b.dot(u, b.permute(w, dims=(1, 0)), one))
        wide = b.add(u, u)
        b.put(b.addptr(o, c(b, 2 * m * n)), b.dot(wide, v, b.add(first, one)))

        def loop(i, s):
            return b.dot(u, v, b.add(s, one))

        (s,) = b.for_(c(b, 0), p, c(b, 1), [first],
                      b.region([I32, Tile((m, n), acc)], loop))
        b.put(b.addptr(o, c(b, 3 * m * n)), s)

    rng = np.random.default_rng(0)
    size = max(m * k, n * k)
    x, y = ((rng.integers(-4, 5, size) / (1 if t.is_int else 4)).astype(numpy_dtype(t))
            for _ in range(2))
    check({"x": x, "y": y, "o": zeros(4 * m * n, numpy_dtype(acc)), "p": 3}, body, tolerance=1e-5)


def test_batched_products() -> None:
    def body(b, x, y, o):
        u, v = b.get(x, (3, 10, 12)), b.get(y, (3, 12, 20))
        b.put(o, b.dot(u, b.mul(v, v), b.full(0.0, (3, 10, 20), ir.f32)))

    check({"x": normal(360), "y": normal(720), "o": zeros(600)}, body, tolerance=1e-4)


@pytest.mark.parametrize("acc", ["f16", "bf16"])
def test_narrow_accumulators(acc: str) -> None:
    from tegula.ir.types import numpy_dtype

    t = ir.DTYPES[acc]

    def body(b, x, o):
        u = b.get(x, (16, 16))

        def loop(i, s):
            return b.dot(u, u, s)

        (s,) = b.for_(c(b, 0), c(b, 2), c(b, 1), [b.full(0.0, (16, 16), t)],
                      b.region([I32, Tile((16, 16), t)], loop))
        b.put(o, s)

    x = (np.random.default_rng(0).integers(-2, 3, 256) / 2).astype(numpy_dtype(t))
    check({"x": x, "o": zeros(256, x.dtype)}, body, tolerance=1e-6)


def everything(b, x, y, o, n):
    """A kernel with most kinds of code in it."""
    i = b.index((100,))
    mask = b.cmp(i, b.splat(n, shape=(100,)), pred="lt")
    v = b.load(b.at(x, i), mask=mask)
    h = b.load(b.at(y, i), mask=mask)
    (total,) = b.reduce([v], b.region([ir.f32] * 2, lambda p, q: b.max(p, q)), axis=0)
    (run,) = b.scan([v], b.region([ir.f32] * 2, lambda p, q: b.add(p, q)), axis=0)
    wide = b.add(b.cast(h, to=ir.f32), b.splat(total, shape=(100,)))
    b.store(b.at(o, i), b.add(b.exp(b.neg(wide)), run), mask=mask)
    u = b.get(x, (16, 24))
    w = b.load(b.at(x, b.index((32, 24))))
    d = b.dot(u, b.permute(w, dims=(1, 0)), b.full(0.0, (16, 32), ir.f32))
    b.put(b.addptr(o, c(b, 200)), d)
    b.atomic_rmw(b.at(o, b.rem(i, b.full(7, (100,), I32))), v, mask, kind="add")


ARGS = {"x": normal(1000), "y": normal(1000).astype(np.float16), "o": zeros(1000), "n": 77}


def test_a_kernel_with_everything() -> None:
    check(ARGS, everything, tolerance=1e-4)


def test_every_target_compiles() -> None:
    from tegula.passes import Pipeline
    from tegula_cpu.compiler import CpuCompiler

    compiler = CpuCompiler()
    module = kernel(ARGS, everything)
    for target in compiler.targets():
        options = compiler.options(target, {})
        shared = Pipeline.parse("inline,canonicalize,cse,dce")
        lowered = (shared + compiler.pipeline(target, options)).run(module)
        artifact = compiler.emit(lowered, target, options)
        assert artifact.data[:4] == b"\x7fELF", target


def test_targets_that_run_here() -> None:
    from cpu.native import runnable_targets

    from tegula.interp import run_kernel
    from tegula.passes import Pipeline
    from tegula.tools.execute import launch
    from tegula_cpu.compiler import CpuCompiler
    from tegula_cpu.driver import CpuDriver

    compiler, device = CpuCompiler(), CpuDriver().open(0)
    module = kernel(ARGS, everything)
    want = {k: a.copy() if isinstance(a, np.ndarray) else a for k, a in ARGS.items()}
    run_kernel(module, 1, want)
    for target in runnable_targets():
        options = compiler.options(target, {})
        shared = Pipeline.parse("inline,canonicalize,cse,dce")
        lowered = (shared + compiler.pipeline(target, options)).run(module)
        got = {k: a.copy() if isinstance(a, np.ndarray) else a for k, a in ARGS.items()}
        launch(device.load(compiler.emit(lowered, target, options)), module.kernels[0], 1, got)
        np.testing.assert_allclose(got["o"], want["o"], rtol=1e-4, atol=1e-4, err_msg=str(target))


def test_code_does_not_grow_with_the_tile() -> None:
    def sized(n: int) -> int:
        def body(b, x, o, m):
            i = b.index((n,))
            mask = b.cmp(i, b.splat(m, shape=(n,)), pred="lt")
            v = b.load(b.at(x, i), mask=mask)
            (s,) = b.reduce([v], b.region([ir.f32] * 2, lambda p, q: b.add(p, q)), axis=0)
            b.store(b.at(o, i), b.sub(b.exp(v), b.splat(s, shape=(n,))), mask=mask)

        from tegula.codegen.loops.lower import lower
        from tegula.codegen.loops.vector import VectorTarget

        module = kernel({"x": zeros(1), "o": zeros(1), "m": 0}, body)
        target = VectorTarget("x86-64", 512, frozenset(("avx512f", "avx512dq", "avx512vl")))
        return lower(module, target).text.count("\n")

    assert sized(1 << 16) == sized(1 << 10)


def test_scratch_is_shared_by_what_lives_one_after_the_other() -> None:
    def body(b, x, o):
        v = b.get(x, (256,))
        for _ in range(6):
            (s,) = b.reduce([b.exp(v)], b.region([ir.f32] * 2, lambda p, q: b.add(p, q)), axis=0)
            v = b.exp(b.sub(v, b.splat(s, shape=(256,))))
        b.put(o, v)

    loaded = compile_for(kernel({"x": zeros(1), "o": zeros(1)}, body), "cpu")
    assert loaded._record[1] <= 2 * 1024
    assert isinstance(Value(I32), Value)
