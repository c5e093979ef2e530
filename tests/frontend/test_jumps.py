# ruff: noqa: B007, SIM (kernels under test)
"""`break`, `continue`, `return` and `else` of loops, and variables that first get a value in a loop
or a branch. The kernels are ordinary Python: each is compared with running it as such.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from kernel_runner import build, call, jit, run

import tegula.language as tl
from tegula import ir

pytestmark = pytest.mark.usefixtures("on_each_backend")


def first_multiple(n, k):
    found = -1
    for i in range(1, n):
        if i % k == 0:
            found = i
            break
    return found


def counter_after_break(n, k):
    i = 77
    for i in range(2, n, 3):
        if i > k:
            break
    return i


def odd_sum(n, k):
    total = 0
    for i in range(n):
        if i % 2 == 0:
            continue
        total += i
        if total > k:
            break
    return total


def down(n, k):
    total = 0
    for i in range(n, -n, -2):
        if i < -k:
            break
        total += i
    return total


def returns_from_a_loop(n, k):
    for i in range(n):
        if i * i > k:
            return i
    return -1


def returns_from_nested_loops(n, k):
    for i in range(n):
        for j in range(i):
            if i * j == k:
                return i * 100 + j
            if j > 6:
                break
        else:
            k += 1
    return k


def forever(n, k):
    turns = 0
    while True:
        n -= 1
        if n < 0:
            break
        if n % 3 == 1:
            continue
        turns += n
    return turns


def while_with_break(n, k):
    i = 0
    while i < n:
        i += 1
        if i == k:
            break
    else:
        i += 1000
    return i


def walrus_while(n, k):
    total = 0
    while (n := n - 1) > 0:
        if n % 5 == 4:
            continue
        if total > k:
            break
        total += n
    return total + n


def for_else(n, k):
    r = 0
    for i in range(n):
        if i == k:
            break
    else:
        r = 5
    return r


def else_without_break(n, k):
    r = 1
    for i in range(n):
        r += 1
    else:
        r *= 2
    while r > 100:
        r -= 7
    else:
        r += 3
    return r


def jump_under_two_ifs(n, k):
    total = 0
    for i in range(n):
        if i > 2:
            if i % k == 0:
                continue
            total += 100
        total += i
        if total > 900:
            if i > 5:
                break
    return total


def both_sides_jump(n, k):
    total = 0
    for i in range(n):
        if i < k:
            total += 1
            continue
        else:
            total += 50
            break
        total = -1
    return total


def outer_continue(n, k):
    total = 0
    for i in range(n):
        if i % 3 == 0:
            continue
        for j in range(i):
            if j == k:
                break
            total += j
        total += 1000
    return total


def unrolled_with_runtime_break(n, k):
    total = 0
    for i in (1, 2, 3, 4, 5):
        if i > n:
            break
        if i == k:
            continue
        total += i
    return total


def unrolled_with_return(n, k):
    for i in (3, 5, 7):
        if n % i == 0:
            return i
    return 0


def first_in_loop(n, k):
    if n > 0:
        for i in range(n):
            last = i * 2
    else:
        last = 9
    return last


def set_in_one_turn(n, k):
    for i in range(n + 1):
        if i == k:
            y = i + 3
        if i == 0:
            y = 1
    return y


def set_in_while(n, k):
    i = 0
    while True:
        y = i * 2
        i += 1
        if i > n:
            break
    return y


def one_branch(n, k):
    if n > k:
        y = n
    if n <= k:
        y = k
    return y


def tuple_in_loop(n, k):
    a, b = 0, 1
    for i in range(n):
        a, b = b, a + b
        if a > k:
            found = (a, b)
            break
    else:
        found = (b, a)
    return found[0] * 1000 + found[1]


FUNCTIONS = [
    first_multiple, counter_after_break, odd_sum, down, returns_from_a_loop,
    returns_from_nested_loops, forever, while_with_break, walrus_while, for_else,
    else_without_break, jump_under_two_ifs, both_sides_jump, outer_continue,
    unrolled_with_runtime_break, unrolled_with_return, first_in_loop, set_in_one_turn,
    set_in_while, one_branch, tuple_in_loop,
]  # fmt: skip


@jit
def apply(out, n, k, f: tl.constexpr):
    tl.store(out, f(n, k))


@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
def test_jumps_mean_what_python_means(f):
    kernel = jit(f)
    for n, k in [(0, 3), (1, 1), (6, 2), (20, 3), (37, 40)]:
        assert call(apply, n, k, kernel, dtype=np.int32) == f(n, k), (n, k)


@jit
def kernel_returns_from_loop(out, n):
    for i in range(n):
        if i == 3:
            return
        tl.store(out + i, i + 1)
    tl.store(out + 7, 100)


@pytest.mark.parametrize("n", [0, 2, 3, 6])
def test_a_kernel_returns_from_a_loop(n):
    expected = [i + 1 if i < min(n, 3) else 0 for i in range(8)]
    if n <= 3:
        expected[7] = 100
    assert call(kernel_returns_from_loop, n, shape=8, dtype=np.int32).tolist() == expected


@jit
def no_turn_after_a_break(out, p, n):
    i = 0
    while tl.load(p + i) != 7:  # would read outside of `p` after the break
        i += 1
        if i == n:
            break
    tl.store(out, i)


def test_a_condition_is_not_evaluated_after_a_break():
    values = np.array([1, 2, 3], np.int32)
    assert call(no_turn_after_a_break, values, 3, dtype=np.int32) == 3


@jit
def tiles_in_loops(out, n, B: tl.constexpr):
    offsets = tl.arange(0, B)
    for i in range(100):
        if i >= n:
            break
        if i % 2 == 1:
            continue
        tile = offsets.to(tl.float32) * i
        best = tl.max(tile)
    tl.store(out + offsets, tile + best)


def test_tiles_first_set_in_a_loop():
    out = call(tiles_in_loops, 6, 8, shape=8)
    np.testing.assert_array_equal(out, np.arange(8) * 4.0 + 28)
    assert not call(tiles_in_loops, 0, 8, shape=8).any()  # no turn: zero of the type


@jit
def breaks_at_compile_time(out, K: tl.constexpr):
    total = 0
    for i in tl.static_range(100):
        if i == K:
            break
        if i % 2 == 0:
            continue
        total += i
    tl.store(out, total)


def test_jumps_that_are_decided_at_compile_time_leave_no_trace():
    module = build(breaks_at_compile_time, (np.zeros(1, np.int32), 5))
    names = {op.name for op in module.kernels[0].body.ops}
    assert names <= {"constant", "add", "store", "return"}
    assert call(breaks_at_compile_time, 5, dtype=np.int32) == 4


@jit
def picks_dtype(x, D: tl.constexpr):
    for name in ("a", "b"):
        if name == D:
            return x.to(tl.float32)
    return x


@jit
def return_types_by_constant(out, n):
    x = picks_dtype(n, "b")
    tl.static_assert(x.dtype == tl.float32)
    tl.static_assert(picks_dtype(n, "c").dtype == tl.int32)
    tl.store(out, x)


def test_a_return_in_an_unrolled_loop_keeps_its_type():
    assert call(return_types_by_constant, 3) == 3.0


@jit
def near_the_end_of_the_type(out, start):
    turns = 0
    for i in range(start, 2**31 - 1, 2**30):
        turns += 1
        if turns > 5:
            break
    tl.store(out, turns)


def test_the_counter_does_not_wrap():
    assert call(near_the_end_of_the_type, 2**30 + 5, dtype=np.int32) == 1


@jit
def runtime_step(out, n, step):
    total = 0
    for i in range(n, 0, step):
        if total > 100:
            break
        total += i
    tl.store(out, total)


@pytest.mark.parametrize("n, step", [(9, -2), (-9, 4), (9, 2)])
def test_runtime_steps(n, step):
    total = 0
    for i in range(n, 0, step):
        total += i
    assert call(runtime_step, n, step, dtype=np.int32) == total


@jit
def widened(out, n, p):
    total = n
    for i in range(3):
        total += tl.load(p)
    tl.store(out, total)


def test_carried_scalars_widen_where_nothing_is_lost():
    assert call(widened, 5, np.array([2**40]), dtype=np.int64) == 5 + 3 * 2**40
    half = np.array([0.5], np.float64)
    assert call(widened, 5, half, dtype=np.float64) == 6.5


@jit
def search(out, x, n, B: tl.constexpr):
    for start in range(0, n, B):
        tile = tl.load(x + start + tl.arange(0, B))
        if tl.max(tile) > 0:
            break
    tl.store(out, start)


def test_a_loop_that_may_be_left_becomes_a_while():
    x = np.zeros(64, np.float32)
    x[37] = 1
    module = build(search, (np.zeros(1, np.int32), x, 64, 8))
    assert "while" in ir.print_module(module)
    assert call(search, x, 64, 8, dtype=np.int32) == 32
    assert math.isclose(x[37], 1)


@jit
def prints_no_flag(out, n):
    for i in range(n):
        if i == 2:
            continue
        tl.store(out + i, i)


def test_a_continue_at_the_end_of_a_branch_needs_no_flag():
    module = build(prints_no_flag, (np.zeros(4, np.int32), 4))
    (loop,) = [op for op in module.kernels[0].body.ops if op.name == "for"]
    assert len(loop.operands) == 3
    out = np.zeros(4, np.int32)
    run(prints_no_flag, out, 4)
    assert out.tolist() == [0, 1, 0, 3]
