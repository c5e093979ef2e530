# ruff: noqa: B007, F401, UP003 (kernels under test)
"""What other kernel languages refuse: every row works here, or has an error of its own.

One row per construct: the kernel, and what it stores or the exception class that it meets. The
texts of errors are held by `test_errors`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from kernel_runner import build, call, jit

import tegula.language as tl
from tegula.errors import CompilationError, unsupported_class

ROWS: list[tuple[str, Any, Any]] = []


def row(construct: str, result: Any) -> Any:
    """Enter a kernel of (out, n), called with n = 5: what `out` begins with, or the error."""

    def add(fn: Any) -> Any:
        ROWS.append((construct, jit(fn), result))
        return fn

    return add


def refused(name: str) -> Any:
    return unsupported_class(name)


@row("break", 3)
def breaks(out, n):
    for i in range(n):
        if i == 3:
            break
        tl.store(out, i + 1)


@row("continue", 0 + 2 + 4)
def continues(out, n):
    total = 0
    for i in range(n):
        if i % 2 == 1:
            continue
        total += i
    tl.store(out, total)


@row("lambda", refused("Lambda"))
def lambdas(out, n):
    f = lambda x: x
    tl.store(out, f(n))


@row("try", refused("Try"))
def tries(out, n):
    try:
        tl.store(out, n)
    finally:
        pass


@row("raise", refused("Raise"))
def raises(out, n):
    raise ValueError


@row("dict of constants", 12)
def dicts(out, n):
    sizes = {"a": 5, "b": 7}
    tl.store(out, sizes["a"] + sizes["b"])


@row("dict of runtime values", refused("RuntimeDictionary"))
def runtime_dicts(out, n):
    sizes = {"a": n}
    tl.store(out, sizes["a"])


@row("set", refused("Set"))
def sets(out, n):
    s = {n}


@row("dict comprehension", refused("DictionaryComprehension"))
def dict_comprehensions(out, n):
    s = {i: i for i in (1, 2)}


@row("global", refused("Global"))
def globals_(out, n):
    global ROWS
    ROWS = n


@row("import", refused("Import"))
def imports(out, n):
    import math


@row("delete", refused("Delete"))
def deletes(out, n):
    x = n
    del x


@row("yield", refused("Yield"))
def yields(out, n):
    yield n


@row("match", refused("Match"))
def matches(out, n):
    match n:
        case 5:
            tl.store(out, 1)


@row("return inside for and while", 2)
def returns_in_loops(out, n):
    tl.store(out, first_even_above(n, 1))


@jit
def first_even_above(n, low):
    for i in range(n):
        k = i
        while k == i:
            if i > low and i % 2 == 0:
                return i
            k += 1
    return -1


@row("nested def", refused("NestedFunction"))
def nested_defs(out, n):
    def inner(x):
        return x


@row("for over a tuple", 6)
def for_tuples(out, n):
    total = 0
    for x in (1, 2, 3):
        total += x
    tl.store(out, total)


@row("enumerate, zip, sum, abs, type, sorted", 0 * 1 + 1 * 2 + (3 + 5) + 5 + 6 + 1)
def builtins_of_python(out, n):
    total = 0
    for i, x in enumerate((1, 2)):
        total += i * x
    for a, b in zip((3, 4), (n, -n)):
        total += a + b
    total -= sum((3, 4, 0)) - 8
    total += abs(-n) + sum(sorted((3, 1, 2))) + (type(3) is int)
    tl.store(out, total)


@row("list comprehension over a range", 0 + 1 + 4)
def range_comprehensions(out, n):
    tl.store(out, sum([x * x for x in range(3)]))


@row("for-else and while-else", 11)
def loop_else(out, n):
    total = 0
    for i in range(n):
        if i > 9:
            break
    else:
        total += 1
    while total > n:
        total += 1
    else:
        total += 10
    tl.store(out, total)


@row("while True with break", 7)
def while_true(out, n):
    while True:
        n += 1
        if n > 6:
            break
    tl.store(out, n)


@row("while True without an end", refused("EndlessLoop"))
def endless(out, n):
    while True:
        n += 1


@row("while on a tile", CompilationError)
def while_tile(out, n):
    block = tl.arange(0, 4)
    while block < n:
        block += 1


@row("integer mask", CompilationError)
def integer_mask(out, n):
    tl.store(out + tl.arange(0, 4), 1, mask=tl.arange(0, 4))


@row("a = b = n", 10)
def chained_assignment(out, n):
    a = b = n
    tl.store(out, a + b)


@row("a, *b = t", 5 + 2 * 7)
def starred(out, n):
    a, *b = (n, 7, 8)
    tl.store(out, a + len(b) * b[0])


@row("x in (1, 2)", 1)
def membership(out, n):
    tl.store(out, (n in (5, 6)) & (n not in (1, 2)))


@row("n ** 2", 25)
def powers(out, n):
    tl.store(out, n**2)


@row("x @ y", [4, 4])
def matmuls(out, n):
    x = tl.full((2, 4), 1.0, tl.float32)
    y = tl.full((4, 1), 1.0, tl.float32)
    product = x @ y
    tl.store(out + tl.arange(0, 2)[:, None], product.to(tl.int32))


@row("not n", [0, 1])
def nots(out, n):
    tl.store(out, not n)
    tl.store(out + 1, not (n - 5))


@row("variable of one branch, variable of a loop", 3 + 4)
def partly_defined(out, n):
    if n > 2:
        y = 3
    for i in range(n):
        z = i
    tl.store(out, y + z)


@row("a branch changes a type", CompilationError)
def branch_type(out, n):
    x = n
    if n > 1:
        x = n * 0.5
    tl.store(out, x)


@row("a loop changes a type, safely", 5)
def loop_type(out, n):
    total = 0
    for i in range(n):
        total += 1.0
    tl.store(out, total.to(tl.int32))


@row("a loop changes a shape", CompilationError)
def loop_shape(out, n):
    acc = n
    for i in range(n):
        acc = acc + tl.arange(0, 4)
    tl.store(out + tl.arange(0, 4), acc)


@row("x[0], x[0:2], x[..., None]", [3, 7])
def indexing(out, n):
    x = tl.arange(3, 7)
    tl.store(out, x[0])
    tl.store(out + 1, tl.sum(x[0:2][..., None]))


@row("x[0] = 1", refused("ItemAssignment"))
def item_assignment(out, n):
    x = tl.arange(0, 4)
    x[0] = 1


@row("f-string of a runtime value", CompilationError)
def fstrings(out, n):
    print(f"{n}")


@row("sizes that are no powers of two", [3, 4, 5, 6, 7, 8])
def odd_sizes(out, n):
    tl.store(out + tl.arange(0, 6), tl.arange(3, 9))


PLAIN = 3


def plain(x: Any) -> Any:
    return x


@row("call of a Python function", refused("PythonFunction"))
def python_calls(out, n):
    tl.store(out, plain(n))


@row("plain global", CompilationError)
def plain_globals(out, n):
    tl.store(out, PLAIN)


@jit
def forever(n):
    return forever(n)


@row("runtime recursion", CompilationError)
def recursion(out, n):
    tl.store(out, forever(n))


@row("tile as a condition", CompilationError)
def tile_condition(out, n):
    if tl.arange(0, 4) > n:
        tl.store(out, 1)


@row("tile of one element as a condition", 1)
def one_element_condition(out, n):
    if (tl.arange(0, 1) < n).item():
        tl.store(out, 1)


@row("constexpr annotated again", CompilationError)
def constexpr_again(out, n):
    C: tl.constexpr = 1
    C: tl.constexpr = 2
    tl.store(out, C)


@row("with on no context manager", refused("ContextManager"))
def withs(out, n):
    with n:
        pass


@row("keyword of the call by **", refused("DoubleStar"))
def double_stars(out, n):
    tl.store(**n)


@pytest.mark.usefixtures("on_each_backend")
@pytest.mark.parametrize("construct, kernel, result", ROWS, ids=[r[0] for r in ROWS])
def test_row(construct: str, kernel: Any, result: Any) -> None:
    if isinstance(result, type):
        with pytest.raises(result) as caught:
            build(kernel, (np.zeros(8, np.int32), 5))
        assert type(caught.value) is result
        assert caught.value.frames and caught.value.hint
        return
    out = call(kernel, 5, shape=8, dtype=np.int32)
    expected = result if isinstance(result, list) else [result]
    assert out[: len(expected)].tolist() == expected
