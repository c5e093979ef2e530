"""Bulk copies of blocks, on a device that has none: written out with ordinary instructions, from
what a launch would be told of the tensors. Barriers count their phases; who waits for another than
the right one finds NaN.
"""

from __future__ import annotations

import functools
from math import prod

import numpy as np
import pytest

import tegula
import tegula.language as tl
from tegula.codegen.simt import bulk
from tegula.codegen.simt import lower as lowering
from tegula.codegen.simt.hooks import GLOBAL, SHARED
from tegula.config import config

pytest.importorskip("tegula_xpu")

from simt.written_out import missing, written_out

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing() or "-")


class Copies:
    """One thread copies an element after the other, at once."""

    parameter = "map"

    def __init__(self, machine):
        self.machine = machine
        self.maps = {}

    def elected(self, w):
        return None

    def start(self, w, barrier):
        w.do(f"store i64 0, {SHARED} {barrier.text}")

    def started(self, w):
        pass

    def expect(self, w, barrier, nbytes):
        phase = w.here("i64", f"load i64, {SHARED} {barrier.text}")
        w.do(f"store i64 {w.add(phase, w.const(1, 'i64')).text}, {SHARED} {barrier.text}")

    def wait(self, w, barrier, parity):
        self.machine.barrier(w)
        phase = w.here("i64", f"load i64, {SHARED} {barrier.text}")
        bit = w.pure("i64", "and i64 {}, {}", phase, w.const(1, "i64"))
        early = w.begin_if(w.icmp("eq", bit, w.resize(parity, "i64", False)))
        w.do(f"store i32 -1, {SHARED} @tegula_shared")
        w.end_if(early)
        self.machine.barrier(w)

    def load(self, w, to, tensor, places, barrier):
        self._each(w, to, tensor, places, True)

    def store(self, w, tensor, places, source):
        self._each(w, source, tensor, places, False)

    def commit(self, w):
        pass

    def stored(self, w, done):
        pass

    def _each(self, w, shared, tensor, places, load):
        m = self.maps[tensor.text]
        size = m.elem.itemsize
        row = m.row_bytes // size
        box = [*m.block[:-1], row]
        loop = w.begin_loop(*(w.const(x, "i32") for x in (0, prod(box), 1)), (), False)
        rest, inside, at = loop.iv, w.const(1, "i1"), w.const(0, "i64")
        sizes, steps = [[_number(w, x) for x in xs] for xs in (m.sizes, m.strides)]
        steps.append(w.const(1, "i64"))
        for side, place, n, step in reversed(list(zip(box, places[::-1], sizes, steps))):
            one = w.pure("i32", "urem i32 {}, {}", rest, w.const(side, "i32"))
            rest = w.pure("i32", "udiv i32 {}, {}", rest, w.const(side, "i32"))
            x = w.resize(w.add(one, place), "i64", True)
            for pred, end in (("sge", w.const(0, "i64")), ("slt", n)):
                inside = w.pure("i1", "and i1 {}, {}", inside, w.icmp(pred, x, end))
            at = w.add(at, w.mul(x, step))
        plain = w.mul(loop.iv, w.const(size, "i32"))
        turn = w.pure("i32", "lshr i32 {}, {}", plain, w.const(7, "i32"))
        turn = w.pure("i32", "and i32 {}, {}", turn, w.const(m.row_bytes // 16 - 1, "i32"))
        place = w.pure("i32", "xor i32 {}, {}", plain, w.mul(turn, w.const(16, "i32")))
        here = w.pure(SHARED, f"getelementptr i8, {SHARED} {{}}, i32 {{}}", shared, place)
        ty = f"i{8 * size}"
        if load:
            w.do(f"store {ty} 0, {SHARED} {here.text}, align {size}")
        branch = w.begin_if(inside)
        there = w.here(GLOBAL, f"getelementptr {ty}, {GLOBAL} %a{m.base}, i64 {at.text}")
        source, target = ((GLOBAL, there), (SHARED, here))[:: 1 if load else -1]
        x = w.here(ty, f"load {ty}, {source[0]} {source[1].text}, align {size}")
        w.do(f"store {ty} {x.text}, {target[0]} {target[1].text}, align {size}")
        w.end_if(branch)
        w.end_loop(loop, [])


def _number(w, number):
    x = w.const(number.factor, "i64")
    for slot, bits in number.slots:
        given = w.literal(f"%a{slot}", f"i{bits}")
        x = w.mul(x, w.resize(given, "i64", True))
    return w.add(x, w.const(number.const, "i64"))


@pytest.fixture(params=["copies", "copies and unit"])
def machine(request, monkeypatch):
    """Sets the number of stages, and how much shared memory there is. `seen` has the number
    of maps of the last kernel."""
    from tegula_xpu import simt

    seen: list[int] = []
    limit: list[int | None] = [None]

    class Machine(written_out(simt.XpuSimt, request.param == "copies and unit")):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            self.bulk_copies = Copies(self)
            self.shared_limit = limit[0] or self.shared_limit

        def kernel(self, name, params, body, threads):
            given = [p for p in params if p[0] != Copies.parameter]
            seen[:] = [len(params) - len(given)]
            return super().kernel(name, given, body, threads)

    def tensor(k, m):
        found = k.w.literal(k.bulk.maps[m], "ptr")
        k.simt.bulk_copies.maps[found.text] = m
        return found

    monkeypatch.setattr(simt, "XpuSimt", Machine)
    monkeypatch.setattr(bulk, "_tensor", tensor)
    whole_lower = lowering.lower

    def configure(stages: int, shared: int | None = None) -> None:
        monkeypatch.setattr(lowering, "lower", functools.partial(whole_lower, num_stages=stages))
        limit[0] = shared

    configure.seen = seen
    with config.scope(cache=False):
        yield configure


def _on_device(x):
    return tegula.asarray(x, device="xpu")


@tegula.jit
def product(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
            TRANS: tl.constexpr, PROGRAMS: tl.constexpr):  # fmt: skip
    a = tl.make_tensor_descriptor(a_ptr, [M, K], [K, 1], [BM, BK])
    if TRANS:
        b = tl.make_tensor_descriptor(b_ptr, [N, K], [K, 1], [BN, BK])
    else:
        b = tl.make_tensor_descriptor(b_ptr, [K, N], [N, 1], [BK, BN])
    c = tl.make_tensor_descriptor(c_ptr, [M, N], [N, 1], [BM, BN])
    for tile in range(tl.program_id(0), tl.cdiv(M, BM) * tl.cdiv(N, BN), PROGRAMS):
        om = tile // tl.cdiv(N, BN) * BM
        on = tile % tl.cdiv(N, BN) * BN
        acc = tl.zeros((BM, BN), dtype=tl.float32)
        for k in range(0, K, BK):
            y = b.load([on, k]).T if TRANS else b.load([k, on])
            acc = tl.dot(a.load([om, k]), y, acc, input_precision="ieee")
        c.store([om, on], acc)


@pytest.mark.parametrize(
    "size, trans", [((48, 64, 96), False), ((80, 16, 208), True), ((16, 16, 0), True)], ids=str
)
def test_results_do_not_depend_on_the_number_of_stages(machine, size, trans):
    m, n, k = size
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, (rows, k)).astype("f4") for rows in (m, n))
    other = b if trans else np.ascontiguousarray(b.T)
    for stages in (1, 2, 4):
        machine(stages)
        product.forget()
        c = _on_device(np.full((m, n), np.nan, "f4"))
        product[(2,)](_on_device(a), _on_device(other), c, m, n, k, BM=16, BN=32 if trans else 64,
                      BK=32, TRANS=trans, PROGRAMS=2)  # fmt: skip
        np.testing.assert_array_equal(c.numpy(), a @ b.T, err_msg=f"stages {stages}")
        assert machine.seen == [3 if stages > 1 else 1]


@pytest.mark.parametrize("shared, maps", [(64 << 10, 3), (13 << 10, 3), (9 << 10, 2)])
def test_less_shared_memory_is_enough(machine, shared, maps):
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-4, 5, (rows, 128)).astype("f4") for rows in (64, 96))
    machine(2, shared)
    product.forget()
    c = _on_device(np.full((64, 96), np.nan, "f4"))
    product[(1,)](_on_device(a), _on_device(b), c, 64, 96, 128, BM=32, BN=32, BK=16, TRANS=True,
                  PROGRAMS=1)  # fmt: skip
    np.testing.assert_array_equal(c.numpy(), a @ b.T)
    assert machine.seen == [maps]


@tegula.jit
def mixed(a_ptr, b_ptr, c_ptr, M, K, B: tl.constexpr, BK: tl.constexpr):
    """One factor comes in blocks, the other over pointers."""
    a = tl.make_tensor_descriptor(a_ptr, [M, K], [K, 1], [B, BK])
    i, r = tl.arange(0, B), tl.arange(0, BK)
    for tile in range(tl.cdiv(M, B)):
        acc = tl.zeros((B, B), dtype=tl.float32)
        for k in range(0, K, BK):
            rk = (k + r)[None, :]
            y = tl.load(b_ptr + i[:, None] * K + rk, mask=rk < K, other=0)
            acc = tl.dot(a.load([tile * B, k]), y.T, acc, input_precision="ieee")
        at = tile * B + i
        tl.store(c_ptr + at[:, None] * B + i[None, :], acc, mask=at[:, None] < M)


@tegula.jit
def chained(q_ptr, k_ptr, v_ptr, o_ptr, S, B: tl.constexpr):
    """Two products of an iteration, the second of the first's result."""
    k = tl.make_tensor_descriptor(k_ptr, [S, B], [B, 1], [B, B])
    v = tl.make_tensor_descriptor(v_ptr, [S, B], [B, 1], [B, B])
    o = tl.make_tensor_descriptor(o_ptr, [2 * B, B], [B, 1], [B, B])
    i = tl.arange(0, B)
    for turn in range(2):
        q = tl.load(q_ptr + (turn * B + i)[:, None] * B + i[None, :])
        acc = tl.zeros((B, B), dtype=tl.float32)
        for n in range(turn * B, S, B):
            s = tl.dot(q, k.load([n, 0]).T, input_precision="ieee")
            acc = tl.dot(s * 2, v.load([n, 0]), acc, input_precision="ieee")
        o.store([turn * B, 0], acc)


@pytest.mark.parametrize("stages", [2, 3])
def test_other_loops(machine, stages):
    rng = np.random.default_rng(2)
    machine(stages)
    for kernel in (mixed, chained):
        kernel.forget()
    a, b = (rng.integers(-4, 5, (rows, 112)).astype("f4") for rows in (40, 16))
    c = _on_device(np.full((40, 16), np.nan, "f4"))
    mixed[(1,)](_on_device(a), _on_device(b), c, 40, 112, B=16, BK=32)
    np.testing.assert_array_equal(c.numpy(), a @ b.T)
    q, k, v = (rng.integers(-2, 3, (rows, 16)).astype("f4") for rows in (32, 48, 48))
    o = _on_device(np.full((32, 16), np.nan, "f4"))
    chained[(1,)](*map(_on_device, (q, k, v)), o, 48, B=16)
    want = [2 * (q[i : i + 16] @ k[i:].T) @ v[i:] for i in (0, 16)]
    np.testing.assert_array_equal(o.numpy(), np.concatenate(want))
    assert machine.seen == [3]
