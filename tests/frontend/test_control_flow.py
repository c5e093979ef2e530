# ruff: noqa: B007, SIM113 (kernels under test)
"""Control flow: what is decided at compile time leaves no trace, the rest means what Python
means."""

from __future__ import annotations

import math
from collections import namedtuple

import numpy as np
import pytest
from kernel_runner import build, call, jit, run

import tegula.language as tl
from tegula import ir

pytestmark = pytest.mark.usefixtures("on_each_backend")


@jit
def sum_to(out, n):
    total = 0
    for i in range(n):
        total += i
    tl.store(out, total)


@pytest.mark.parametrize("n", [0, 1, 7])
def test_for_carries_a_variable(n):
    assert call(sum_to, n, dtype=np.int32) == sum(range(n))


@jit
def count_down(out, start, stop):
    i = 0
    for k in range(start, stop, -2):
        tl.store(out + i, k)
        i += 1


def test_for_counts_down():
    assert call(count_down, 7, -1, shape=4, dtype=np.int32).tolist() == list(range(7, -1, -2))


@jit
def last_counter(out, n, step):
    i = 100
    for i in range(2, n, step):
        pass
    tl.store(out, i)


@pytest.mark.parametrize("n, step", [(3, 1), (10, 3), (11, 3), (12, 3)])
def test_loop_variable_is_visible_after_the_loop(n, step):
    assert call(last_counter, n, step, dtype=np.int32) == list(range(2, n, step))[-1]


@jit
def unrolled(out, n: tl.constexpr):
    for i in tl.static_range(n):
        tl.store(out + i, i * i)


def test_static_range_is_unrolled():
    assert call(unrolled, 4, shape=4, dtype=np.int32).tolist() == [0, 1, 4, 9]
    module = build(unrolled, (np.zeros(4, np.int32), 4))
    assert not any(op.name == "for" for op in module.functions["unrolled"].body.walk())


@jit
def over_tuple(out):
    i = 0
    for value, scale in ((1, 10), (2, 20)):
        tl.store(out + i, value * scale)
        i += 1


def test_for_over_a_tuple():
    assert call(over_tuple, shape=2, dtype=np.int32).tolist() == [10, 40]


@jit
def nested(out, n, m):
    total = 0.0
    for i in range(n):
        row = 0.0
        for j in range(m):
            row += i * j
        total += row
    tl.store(out, total)


def test_nested_loops():
    expected = sum(i * j for i in range(4) for j in range(5))
    assert call(nested, 4, 5) == expected


@jit
def promoted(out, x, n):
    acc = 0
    for i in range(n):
        acc += tl.load(x + i + tl.arange(0, 3))
    tl.store(out + tl.arange(0, 3), acc)


def test_constant_takes_the_type_its_loop_needs():
    x = np.arange(8, dtype=np.float32)
    assert call(promoted, x, 4, shape=3).tolist() == [6, 10, 14]
    assert call(promoted, x, 0, shape=3).tolist() == [0, 0, 0]


@jit
def collatz(out, n):
    steps = 0
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    tl.store(out, steps)


@pytest.mark.parametrize("n, steps", [(1, 0), (6, 8), (27, 111)])
def test_while(n, steps):
    assert call(collatz, n, dtype=np.int32) == steps


@jit
def while_assigns_in_condition(out, x):
    i = 0
    while (value := tl.load(x + i)) < 5:
        i += 1
    tl.store(out, i)
    tl.store(out + 1, value)


def test_while_with_walrus():
    x = np.array([1, 2, 9, 4], np.int32)
    assert call(while_assigns_in_condition, x, shape=2, dtype=np.int32).tolist() == [2, 9]


@jit
def while_condition(out, n):
    i = 0
    while tl.condition(i < n, disable_licm=True):
        i += 3
    tl.store(out, i)


def test_tl_condition():
    assert call(while_condition, 7, dtype=np.int32) == 9


@jit
def branches(out, x):
    if x > 10:
        y = 1
    elif x > 5:
        y = x
    else:
        y = x * 2
    tl.store(out, y)


@pytest.mark.parametrize("x, y", [(11, 1), (6, 6), (2, 4)])
def test_if_elif_else(x, y):
    assert call(branches, x, dtype=np.int32) == y


@jit
def pruned(out, flag: tl.constexpr, nothing):
    if flag:
        tl.store(out, 1)
    else:
        tl.store(out, undefined_name)  # noqa: F821
    if nothing is None:
        tl.store(out + 1, 2)
    elif nothing is not None and tl.load(nothing) > 3:
        tl.store(out + 1, 3)


def test_static_if_drops_the_other_branch():
    assert call(pruned, True, None, shape=2, dtype=np.int32).tolist() == [1, 2]
    assert call(pruned, True, np.array([4], np.int32), shape=2, dtype=np.int32).tolist() == [1, 3]


@jit
def early_return(out, n):
    pid = tl.program_id(0)
    if pid >= n:
        return
    tl.store(out + pid, 1)


def test_early_return():
    out = np.zeros(4, np.int32)
    run(early_return, out, 2, grid=4)
    assert out.tolist() == [1, 1, 0, 0]


@jit
def nested_return(out, a, b, c):
    value = 0
    if a:
        if b:
            value = 1
        else:
            return
    else:
        if c:
            value = 2
        else:
            value = 3
    tl.store(out, value)


@pytest.mark.parametrize("a", [False, True])
@pytest.mark.parametrize("b", [False, True])
@pytest.mark.parametrize("c", [False, True])
def test_return_from_nested_if(a, b, c):
    expected = (1 if b else -1) if a else (2 if c else 3)
    out = np.full(1, -1, np.int32)
    run(nested_return, out, a, b, c)
    assert out == expected


@jit
def pick(x, y):
    if x > y:
        return x, 1
    return y, 2


@jit
def uses_pick(out, x, y):
    value, which = pick(x, y)
    tl.store(out, value)
    tl.store(out + 1, which)


def test_function_with_two_returns():
    assert call(uses_pick, 3, 5, shape=2, dtype=np.int32).tolist() == [5, 2]
    assert call(uses_pick, 7, 5, shape=2, dtype=np.int32).tolist() == [7, 1]


@jit
def static_return(out, n: tl.constexpr):
    for i in tl.static_range(10):
        if i == n:
            tl.store(out, i * 100)
            return
    tl.store(out, -1)


def test_return_in_unrolled_loop():
    assert call(static_return, 3, dtype=np.int32) == 300
    assert call(static_return, 30, dtype=np.int32) == -1


@jit
def return_in_unrolled_loop_at_runtime(out, x):
    for i in tl.static_range(3):
        if tl.load(x + i) > 5:
            tl.store(out, i)
            return
    tl.store(out, -1)


@pytest.mark.parametrize("x, expected", [([9, 0, 0], 0), ([1, 1, 9], 2), ([1, 1, 1], -1)])
def test_runtime_return_in_unrolled_loop(x, expected):
    assert (
        call(return_in_unrolled_loop_at_runtime, np.array(x, np.int32), dtype=np.int32) == expected
    )


@jit
def tuples(out, a, b):
    a, b = b, a
    (c, *rest), d = (a, b, a + b), 5
    e = f = d
    if a > 3:
        pair = (a, b)
    else:
        pair = (0, d)
    tl.store(out, pair[0])
    tl.store(out + 1, pair[1])
    tl.store(out + 2, c)
    tl.store(out + 3, rest[-1])
    tl.store(out + 4, e + f)


def test_tuples_swap_unpack_and_merge():
    assert call(tuples, 1, 4, shape=5, dtype=np.int32).tolist() == [4, 1, 4, 5, 10]
    assert call(tuples, 1, 2, shape=5, dtype=np.int32).tolist() == [0, 5, 2, 3, 10]


Pair = namedtuple("Pair", ["left", "right"])


@jit
def named(out, pair):
    swapped = Pair(pair.right, left_of(pair))
    tl.store(out, swapped.left)
    tl.store(out + 1, swapped.right)


@jit
def left_of(pair):
    return pair.left


def test_named_tuple_argument():
    assert call(named, Pair(3, 4), shape=2, dtype=np.int32).tolist() == [4, 3]


@jit
def tuple_in_loop(out, n):
    state = (0, 1)
    for _ in range(n):
        a, b = state
        state = (b, a + b)
    tl.store(out, state[0])


def test_loop_carries_a_tuple():
    assert call(tuple_in_loop, 10, dtype=np.int32) == 55


@jit
def loop_hints(out, n):
    for i in tl.range(0, n, num_stages=3, loop_unroll_factor=2, flatten=True):
        tl.store(out + i, i)


def test_range_hints_reach_the_ir():
    module = build(loop_hints, (np.zeros(4, np.int32), 4))
    (loop,) = [op for op in module.functions["loop_hints"].body.walk() if op.name == "for"]
    assert (loop.attrs["stages"], loop.attrs["unroll"], loop.attrs["hints"]) == (3, 2, ("flatten",))


@jit
def depth6(out, n):
    total = 0
    for a in range(n):
        for b in range(n):
            for c in range(n):
                for d in range(n):
                    for e in range(n):
                        for f in range(n):
                            total += a + b + c + d + e + f
    tl.store(out, total)


def test_nested_loops_are_visited_once(monkeypatch):
    from tegula.frontend.semantic import Semantic

    adds = 0
    add = Semantic.add

    def counting(self, a, b):
        nonlocal adds
        adds += 1
        return add(self, a, b)

    monkeypatch.setattr(Semantic, "add", counting)
    import ast

    from tegula.frontend import expressions

    monkeypatch.setitem(expressions.BINARY, ast.Add, lambda s, a, b: counting(s, a, b))
    build(depth6, (np.zeros(1, np.int32), 2))
    assert adds == 6


@jit
def ternary(out, x):
    tl.store(out, x if x > 0 else -x)
    tl.store(out + 1, 1 if x > 0 else 0.5)


def test_conditional_expression():
    assert call(ternary, -3, shape=2).tolist() == [3, 0.5]


@jit
def dead_types(out, n):
    if n > 0:
        scratch = 1
    else:
        scratch = 1.5
    for _ in range(n):
        scratch = tl.arange(0, 4)
        tl.store(out + scratch, 1)


def test_variables_nobody_reads_may_change_type():
    assert call(dead_types, 1, shape=4, dtype=np.int32).tolist() == [1, 1, 1, 1]


@jit
def one_element_condition(out, x):
    if tl.load(x + tl.arange(0, 1)) > 2:
        tl.store(out, 1)


def test_one_element_tile_may_decide():
    assert call(one_element_condition, np.array([3], np.int32), dtype=np.int32) == 1


def test_every_op_has_a_place():
    module = build(nested, (np.zeros(1, np.float32), 2, 2))
    first = nested.source.first_line
    for function in module.functions.values():
        for op in function.body.walk():
            assert op.loc is not None, op
            assert op.loc.file == __file__
            assert first <= op.loc.line <= first + 8
    assert isinstance(module, ir.Module)


@jit
def promoted_two_loops_in(out, x, n):
    acc = 0
    for i in range(n):
        for j in range(n):
            k = 0
            while k < 1:
                acc += tl.load(x + i + j + tl.arange(0, 2))
                k += 1
    tl.store(out + tl.arange(0, 2), acc)


def test_constant_takes_the_type_an_inner_loop_needs():
    x = np.arange(8, dtype=np.float32)
    expected = [sum(i + j + k for i in range(3) for j in range(3)) for k in range(2)]
    assert call(promoted_two_loops_in, x, 3, shape=2).tolist() == expected


@jit
def not_constant_any_more(out, x, n):
    acc = 0
    for i in range(n):
        acc += 1
        for j in range(n):
            acc = acc + tl.load(x + j)
    tl.store(out, acc)


def test_only_constants_change_their_type():
    from tegula.errors import CompilationError

    with pytest.raises(CompilationError, match="`acc` is int32 before the loop and fp32"):
        build(not_constant_any_more, (np.zeros(1, np.float32), np.zeros(2, np.float32), 2))


@jit
def unrolled_around_a_loop(out, n):
    for start in tl.static_range(2):
        acc = start if start == 0 else tl.zeros((2,), tl.float32)
        for i in range(n):
            acc = acc + i * tl.full((2,), 1, tl.float32)
        tl.store(out + start * 2 + tl.arange(0, 2), acc)


def test_turns_of_an_unrolled_loop_have_their_own_types():
    assert call(unrolled_around_a_loop, 3, shape=4).tolist() == [3, 3, 3, 3]


@jit
def walrus_changes_type(out, x):
    v = 0
    i = 0
    while (v := tl.load(x + i)) < 2.5:
        i += 1
    tl.store(out, v)


def test_the_condition_of_a_while_may_set_the_type():
    assert call(walrus_changes_type, np.array([1, 2, 3], np.float32)) == 3


@jit
def stdlib_constants(out):
    tl.store(out, math.pi + math.floor(2.5) + np.inf * 0 if math.pi < 3 else math.sqrt(16.0))


def test_numbers_of_the_math_module():
    assert call(stdlib_constants) == 4


@jit
def promoted_through_a_while(out, x, n):
    acc = 0
    k = 0
    while k < n:
        for i in range(n):
            acc += tl.load(x + i + tl.arange(0, 2))
        k += 1
    tl.store(out + tl.arange(0, 2), acc)


def test_constant_takes_the_type_that_a_loop_in_a_while_needs():
    x = np.arange(4, dtype=np.float32)
    assert call(promoted_through_a_while, x, 2, shape=2).tolist() == [2, 6]
