# ruff: noqa: B007, F821, C416, SIM105 (kernels under test)
"""Every construct that kernels cannot use says so in one sentence, at its place, and names a way
out.
"""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from kernel_runner import build, jit

import tegula.language as tl
from tegula.errors import (
    CONSTRUCTS,
    CompilationError,
    CompileTimeAssertionFailure,
    HostCallError,
    SourceError,
    UnsupportedLanguageConstruct,
    unsupported_class,
)
from tegula.frontend import DeviceFunction

PLAIN = 5
WRAPPED = tl.constexpr(5)


def plain_function(x):
    return x


class Case:
    """A kernel, the text its error must contain, and the text of the remedy."""

    def __init__(self, fn: Any, message: str, hint: str, kind: type) -> None:
        self.fn = DeviceFunction(fn)
        self.message = message
        self.hint = hint
        self.kind = kind


CASES: list[Case] = []


def rejects(message: str, hint: str, kind: type | str = CompilationError) -> Callable[[Any], Any]:
    def add(fn: Any) -> Any:
        expected = unsupported_class(kind) if isinstance(kind, str) else kind
        CASES.append(Case(fn, message, hint, expected))
        return fn

    return add


@tl.aggregate
class Scope:
    value: tl.tensor

    @jit
    def __enter__(self):
        return self.value

    @jit
    def __exit__(self, kind, value, trace):
        pass


# Every kernel below gets (out: pointer, n: int32, x: int32 tile through `t`); the line with the
# error ends in `# !`.


@rejects("`lambda` cannot be used", "@tegula.jit", "Lambda")
def uses_lambda(out, n):
    f = lambda x: x  # !


@rejects("`try` cannot be used", "tl.device_assert", "Try")
def uses_try(out, n):
    try:  # !
        pass
    except ValueError:
        pass


@rejects("`raise` cannot be used", "tl.static_assert", "Raise")
def uses_raise(out, n):
    raise ValueError  # !


@rejects("`with` cannot be used on a runtime value", "body alone", "ContextManager")
def uses_with(out, n):
    with n:  # !
        pass


@rejects("out of a `with` cannot be used", "keep the result", "ContextJump")
def leaves_with(out, n):
    for i in range(n):
        with Scope(n):  # !
            break


def _around_nonlocal():
    inner = 1

    @rejects("`nonlocal` cannot be used", "argument", "Nonlocal")
    def uses_nonlocal(out, n):
        nonlocal inner  # !
        inner = 3


_around_nonlocal()


@rejects("complex numbers cannot be used", "two real tiles", "Complex")
def uses_complex(out, n):
    y = 2j  # !


@rejects("launched from kernels", "call the function", "Launch")
def launches(out, n):
    endless[(1,)](n)  # !


@rejects("`*` takes a tuple", "")
def odd_star(out, n):
    y = out[*n]  # !


@rejects("dictionaries hold compile-time values only", "tuple", "RuntimeDictionary")
def uses_dict(out, n):
    d = {1: n}  # !


@rejects("sets cannot be used", "tuple", "Set")
def uses_set(out, n):
    d = {1, n}  # !


@rejects(
    "dictionary comprehensions cannot be used", "list comprehension", "DictionaryComprehension"
)
def uses_dict_comprehension(out, n):
    d = {i: i for i in (1, 2)}  # !


@rejects("set comprehensions cannot be used", "list comprehension", "SetComprehension")
def uses_set_comprehension(out, n):
    d = {i for i in (1, 2)}  # !


@rejects("`import` cannot be used", "top of the file", "Import")
def uses_from_import(out, n):
    from os import path  # !

    y = path


@rejects("`yield from` cannot be used", "tuple", "Yield")
def uses_yield_from(out, n):
    yield from n  # !


@rejects("`async def` cannot be used", "top of the file", "AsyncFunction")
def uses_async_def(out, n):
    async def inner():  # !
        pass


@rejects("only compared with == and !=", "compare their elements")
def tuple_order(out, n):
    y = (n, 1) < (n, 2)  # !


@rejects("too many values to unpack (expected 2, got 3)", "*rest")
def too_many_values(out, n):
    a, b = (n, 1, 2)  # !


@rejects("not enough values to unpack (expected 2, got 1)", "as many variables")
def too_few_values(out, n):
    a, b, *c = (n,)  # !


@rejects("`append` would change a list", "values = values + (value,)", "Mutation")
def list_method(out, n):
    x = [n, n]
    x.append(1)  # !


@rejects("`global` cannot be used", "argument", "Global")
def uses_global(out, n):
    global PLAIN  # !
    PLAIN = 3


@rejects("`import` cannot be used", "top of the file", "Import")
def uses_import(out, n):
    import os  # !

    y = os


@rejects("`del` cannot be used", "leave it out", "Delete")
def uses_del(out, n):
    del n  # !


@rejects("`yield` cannot be used", "tuple", "Yield")
def uses_yield(out, n):
    yield n  # !


@rejects("`match` cannot be used", "if/elif/else", "Match")
def uses_match(out, n):
    match n:  # !
        case 1:
            pass


@rejects("nested functions cannot be used", "top of the file", "NestedFunction")
def uses_nested_function(out, n):
    def inner():  # !
        pass


@rejects("class definitions cannot be used", "named tuple", "Class")
def uses_class(out, n):
    class A:  # !
        pass


@rejects("cannot go through the elements", "for i in range(n)")
def for_over_tile(out, n):
    for x in tl.arange(0, 4):  # !
        pass


@rejects("never ends", "leave it with `break`", "EndlessLoop")
def while_true(out, n):
    while True:  # !
        n += 1


@rejects("which of its elements decides", "tl.where")
def while_tile(out, n):
    block = tl.arange(0, 4)
    while block < n:  # !
        block += 1


@rejects("must be boolean (int1)", "mask != 0")
def integer_mask(out, n):
    mask = tl.arange(0, 4)
    x = tl.load(out + tl.arange(0, 4), mask=mask)  # !


@rejects("values never change", "tl.where", "ItemAssignment")
def item_assignment(out, n):
    x = tl.arange(0, 4)
    x[0] = 1  # !


@rejects("attributes cannot be assigned", "variable", "AttributeAssignment")
def attribute_assignment(out, n):
    x = tl.arange(0, 4)
    x.y = 1  # !


@rejects("index 4 is outside of dimension 0 of size 4", "")
def index_outside(out, n):
    x = tl.arange(0, 4)
    y = x[4]  # !


@rejects("indexed with integers, slices", "tl.gather(x, index, axis)")
def index_by_tile(out, n):
    x = tl.arange(0, 4)
    y = x[x]  # !


@rejects("indexed with integers, slices", "tl.gather(x, index, axis)")
def index_by_float(out, n):
    x = tl.arange(0, 4)
    y = x[1.5]  # !


@rejects("has no elements to pick", "only tiles are indexed")
def index_of_scalar(out, n):
    y = n[0]  # !


@rejects("the step of a slice is 0", "other than 0")
def slice_without_step(out, n):
    x = tl.arange(0, 4)
    y = x[::0]  # !


@rejects("2 subscripts for a tensor of rank 1", "")
def too_many_subscripts(out, n):
    x = tl.arange(0, 4)
    y = x[0, 1]  # !


@rejects("values never change", "tl.where", "ItemAssignment")
def slice_assignment(out, n):
    x = tl.arange(0, 4)
    x[1:3] = 0  # !


@rejects("slices with runtime bounds", "mask it")
def runtime_slice(out, n):
    x = tl.arange(0, 4)
    y = x[0:n]  # !


@rejects("compile-time indices only", "constexpr")
def runtime_tuple_index(out, n):
    x = (1, 2)[n]  # !


@rejects("an f-string cannot show", "tl.device_print")
def runtime_fstring(out, n):
    print(f"n is {n}")  # !


@rejects("ordinary Python function", "@tegula.jit", "PythonFunction")
def python_function(out, n):
    y = plain_function(n)  # !


@rejects("`PLAIN` is a plain global variable of type int", "PLAIN = tl.constexpr(5)")
def plain_global(out, n):
    y = n + PLAIN  # !


@rejects("is not defined; did you mean 'WRAPPED'?", "")
def misspelled(out, n):
    y = n + WRAPED  # !


@rejects("`y` is not defined here: it is used before it has a value", "before the `if` or the loop")
def read_before_set(out, n):
    for i in range(n):
        if i > 0:
            tl.store(out, y)  # !
        y = i


@rejects("the returned value is int32 if the `if` in line", "x.to(dtype)")
def loop_returns(out, n):
    tl.store(out, two_types(n))  # !


@jit
def two_types(n):
    for i in range(n):
        if i > 2:
            return i
        if i > 1:
            return n * 0.5
    return n


@rejects("is fp32 if the `if` in line", "x.to(dtype)")
def branch_types(out, n):
    y = n
    if n > 1:
        y = n * 0.5
    tl.store(out, y)  # !


@rejects("`acc` is int32 before the loop and fp32 after", "acc.to(dtype)")
def loop_types(out, n):
    acc = n
    for i in range(n):  # !
        acc = acc * 1.5
    tl.store(out, acc)


@rejects("`acc` is int32 before the loop and <[4], int32> after", "tl.zeros")
def loop_shapes(out, n):
    acc = n
    for i in range(n):  # !
        acc = acc + tl.arange(0, 4)
    tl.store(out + tl.arange(0, 4), acc)


@rejects("`which` is the constant None before the loop", "before the loop")
def loop_from_none(out, n):
    which = None
    for i in range(n):  # !
        which = i
    tl.store(out, which)


@rejects("is a tile", "tl.where")
def tile_in_if(out, n):
    if tl.arange(0, 4) > n:  # !
        tl.store(out, 1)


@rejects("is a tile", "tl.where")
def tile_in_ternary(out, n):
    y = 1 if tl.arange(0, 4) > n else 2  # !


@rejects("already a compile-time constant", "another name")
def constexpr_twice(out, n):
    C: tl.constexpr = 1
    C: tl.constexpr = 2  # !


@rejects("cannot change in a runtime loop", "tl.static_range")
def constexpr_in_loop(out, n):
    C: tl.constexpr = 1
    for i in range(n):  # !
        C = C + 1
    tl.store(out, C)


@rejects("only known at run time", "annotation")
def constexpr_of_runtime(out, n):
    C: tl.constexpr = n  # !


@jit
def endless(n):
    return endless(n - 1)


@rejects("calls itself", "write a loop")
def recursion(out, n):
    tl.store(out, endless(n))  # !


@rejects("`**` of integers takes a constant exponent", "x.to(tl.float32) ** y")
def runtime_power(out, n):
    y = n**n  # !


@rejects("a negative power of an integer", "x.to(tl.float32) ** b")
def negative_power(out, n):
    y = n**-2  # !


@rejects("inner sizes differ", "tl.trans")
def matmul_operator(out, n):
    x = tl.zeros((4, 3), tl.float32)
    y = x @ x  # !


@rejects("`//` takes integers, not fp32", "tl.floor(a / b)")
def float_floordiv(out, n):
    y = (n * 1.5) // 2  # !


@rejects("different signedness", "one signedness")
def mixed_signs(out, n):
    y = n // n.to(tl.uint32)  # !


@rejects("out of range for int8", "wider type")
def scalar_out_of_range(out, n):
    y = n.to(tl.int8) + 300  # !


@rejects("unsigned uint8 tensor with the negative number", "signed type")
def negative_with_unsigned(out, n):
    y = n.to(tl.uint8) + -1  # !


@rejects("two pointers cannot be added", "integer offset")
def pointer_sum(out, n):
    y = out + out  # !


@rejects("a pointer cannot be advanced by", "x.to(tl.int64)")
def float_offset(out, n):
    y = out + n * 1.5  # !


@rejects("exp takes fp32 or fp64", "x.to(tl.float32)")
def half_exp(out, n):
    y = tl.exp(n.to(tl.float16))  # !


@rejects("shapes [4] and [3] do not fit", "x[:, None]")
def shape_mismatch(out, n):
    y = tl.arange(0, 4) + tl.arange(0, 3)  # !


@rejects("end must be a compile-time integer", "tl.constexpr")
def runtime_arange(out, n):
    y = tl.arange(0, n)  # !


@rejects("axis must be 0, 1 or 2", "three axes")
def bad_axis(out, n):
    y = tl.program_id(3)  # !


@rejects("the kernel language has no 'lod'; did you mean 'load'?", "")
def misspelled_function(out, n):
    y = tl.lod(out)  # !


@rejects("tensors have no attribute `shap`; did you mean 'shape'?", "")
def misspelled_attribute(out, n):
    y = n.shap  # !


@rejects("load: got an unexpected keyword argument 'maks'", "its parameters are")
def wrong_keyword(out, n):
    y = tl.load(out, maks=n > 1)  # !


@rejects("`other` needs a mask", "pass mask=")
def other_without_mask(out, n):
    y = tl.load(out, other=1)  # !


@rejects("cannot go through a pointer to one element", "ptr + offsets")
def tile_to_scalar_pointer(out, n):
    tl.store(out, tl.arange(0, 4))  # !


@rejects("load takes a pointer", "pointer parameter")
def load_of_number(out, n):
    y = tl.load(n)  # !


@rejects("inner sizes differ", "tl.trans")
def dot_shapes(out, n):
    y = tl.dot(tl.zeros((4, 3), tl.float32), tl.zeros((4, 5), tl.float32))  # !


@rejects("static assertion failed: too small", "", CompileTimeAssertionFailure)
def failing_static_assert(out, n):
    tl.static_assert(WRAPPED > 7, "too small")  # !


@rejects("not known at compile time", "tl.device_assert")
def runtime_static_assert(out, n):
    tl.static_assert(n > 7)  # !


@rejects("assertion failed", "", CompileTimeAssertionFailure)
def failing_assert(out, n):
    assert WRAPPED > 7  # !


@rejects("must be known at compile time", "tl.constexpr")
def runtime_constexpr_argument(out, n):
    needs_constant(n)  # !


@jit
def needs_constant(K: tl.constexpr):
    return K


@rejects("needs a value for its parameter `K`", "")
def missing_argument(out, n):
    needs_constant()  # !


@rejects("takes 1 arguments, 2 were given", "")
def extra_argument(out, n):
    needs_constant(1, 2)  # !


@rejects("takes a tuple", "")
def comprehension_over_runtime_value(out, n):
    y = [i for i in n]  # !


@rejects("takes compile-time values only", "")
def sorts_runtime_values(out, n):
    y = sorted((n, 1))  # !


@rejects("Python's type does not tell tensors apart", "x.dtype")
def type_of_tensor(out, n):
    y = type(n)  # !


@rejects("atomic_add does not work on int8", "32-bit")
def narrow_atomic(out, n):
    tl.atomic_add(out.to(tl.pointer_type(tl.int8)), 1)  # !


@rejects("the last stride must be 1", "contiguous")
def strided_descriptor(out, n):
    d = tl.make_tensor_descriptor(out, [n, n], [n, 2], [4, 4])  # !


@rejects("the step is 0", "other than 0")
def zero_step(out, n):
    for i in range(0, n, 0):  # !
        pass


@rejects("bitcast from int32 (32 bits) to int64", "x.to(dtype)")
def bitcast_width(out, n):
    y = n.to(tl.int64, bitcast=True)  # !


@rejects("`**` in calls", "name each argument", "DoubleStar")
def double_star(out, n):
    tl.load(out, **n)  # !


@rejects("Python's min of nan depends on the order", "tl.minimum(a, b")
def order_of_nan(out, n):
    y = min(1.0, float("nan"))  # !


@rejects("ZeroDivisionError", "")
def constant_division(out, n):
    y = WRAPPED // 0  # !


def _arguments() -> tuple[Any, ...]:
    return np.zeros(8, np.int32), 4


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.fn.__name__)
def test_rejected(case):
    with pytest.raises(CompilationError) as caught:
        build(case.fn, _arguments())
    error = caught.value
    text = str(error)

    assert type(error) is case.kind
    assert case.message in error.message
    assert case.hint in error.hint and bool(case.hint) <= bool(error.hint)
    marked = next(i for i, line in enumerate(case.fn.source.lines) if "# !" in line)
    assert error.frames[0].line == case.fn.source.first_line + marked
    assert f"{__file__}:{error.frames[0].line}:" in text and "^" in text
    assert "0x" not in text


def test_a_traceback_shows_no_internals():
    with pytest.raises(CompilationError) as caught:
        build(jit(plain_global), _arguments())
    frames = traceback.extract_tb(caught.value.__traceback__)
    assert not any("visitor" in f.filename or "calls.py" in f.filename for f in frames)
    assert caught.value.__cause__ is None


@jit
def inner(x):
    return tl.exp(x)


@jit
def middle(x):
    return inner(x) + 1


@jit
def outer(out, n):
    tl.store(out, middle(n))


def test_an_error_in_a_callee_shows_the_chain():
    with pytest.raises(CompilationError) as caught:
        build(outer, _arguments())
    error = caught.value
    assert [f.function for f in error.frames] == ["outer", "middle", "inner"]
    assert "tl.exp(x)" in error.frames[-1].text
    assert str(error).index("in `outer`") < str(error).index("in `inner`")


@jit
def marks(out, n):
    y = n + tl.exp(n)


def test_the_caret_marks_the_expression():
    with pytest.raises(CompilationError) as caught:
        build(marks, _arguments())
    (frame,) = caught.value.frames
    assert frame.text[frame.column - 1 : frame.column - 1 + frame.width] == "tl.exp(n)"
    last = frame.render().splitlines()[-1]
    assert last.endswith(" " * (frame.column - 1) + "^" * len("tl.exp(n)"))


def test_source_that_does_not_exist():
    scope: dict[str, Any] = {}
    exec("def made_up(out):\n    pass\n", scope)
    with pytest.raises(SourceError, match="define kernels in a file or a notebook cell"):
        build(jit(scope["made_up"]), (np.zeros(1, np.int32),))


def test_source_through_linecache():
    import linecache

    text = "def from_cell(out):\n    tl.store(out, 7)\n"
    linecache.cache["<cell 1>"] = (len(text), None, text.splitlines(True), "<cell 1>")
    scope: dict[str, Any] = {"tl": tl}
    exec(compile(text, "<cell 1>", "exec"), scope)
    build(jit(scope["from_cell"]), (np.zeros(1, np.int32),))


def test_too_many_paths():
    import linecache

    turns = "".join(
        f"    if n > {i}:\n        if n < {2 * i}:\n            return\n" for i in range(80)
    )
    text = f"def many_paths(out, n):\n{turns}    tl.store(out, 7)\n"
    linecache.cache["<cell 2>"] = (len(text), None, text.splitlines(True), "<cell 2>")
    scope: dict[str, Any] = {"tl": tl}
    exec(compile(text, "<cell 2>", "exec"), scope)
    with pytest.raises(unsupported_class("Returns"), match="return from fewer places"):
        build(jit(scope["many_paths"]), _arguments())


def test_every_construct_has_a_case():
    held = {case.kind for case in CASES} | {unsupported_class("Returns")}
    missing = {
        name
        for name in CONSTRUCTS
        if unsupported_class(name) not in held and name not in NOT_WRITABLE
    }
    assert missing == set()
    assert all(issubclass(unsupported_class(n), UnsupportedLanguageConstruct) for n in CONSTRUCTS)
    error = pickle.loads(pickle.dumps(unsupported_class("Lambda")("no", "way")))
    assert type(error) is unsupported_class("Lambda") and error.hint == "way"


NOT_WRITABLE = {"Syntax"}
"""For syntax of Pythons to come."""


def test_host_calls_are_refused():
    with pytest.raises(HostCallError, match="launch it with"):
        inner(1.0)
    with pytest.raises(HostCallError, match=r"tl\.load"):
        tl.load(None)


def test_what_cannot_be_a_device_function():
    with pytest.raises(TypeError, match="lambda"):
        jit(lambda x: x)
    with pytest.raises(TypeError, match="keywords"):
        jit(uses_keywords)
    with pytest.raises(TypeError, match="async"):
        jit(waits)
    with pytest.raises(TypeError, match="only a Python function"):
        jit(3)


async def waits(x):
    pass


def uses_keywords(**options):
    pass
