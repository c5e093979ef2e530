"""Numbers that a launch computes for a tensor's description."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tegula.codegen.simt.tensormaps import Number, number_of
from tegula.ir.builder import Builder
from tegula.ir.core import Block, Function, Value
from tegula.ir.types import DTYPES, i32, i64

TYPES = (i32, i64, i32)
INTS = [DTYPES[n] for n in ("i8", "i16", "i32", "i64")]


def wrapped(x: int, bits: int) -> int:
    x &= (1 << bits) - 1
    return x - (1 << bits) if x >> bits - 1 else x


def evaluated(n: Number, slots: list[int]) -> int:
    x = n.factor
    for slot, bits in n.slots:
        x *= wrapped(slots[slot], bits)
    return wrapped(n.const + x, n.bits)


@st.composite
def expressions(draw: st.DrawFn) -> tuple[Function, Value, list[int], int]:
    """A function, a value in it, arguments, and the value for these."""
    body = Block(TYPES)
    b = Builder(body)
    args = [wrapped(draw(st.integers(-(2**33), 2**33)), t.bits) for t in TYPES]
    known = list(zip(body.args, args))
    for _ in range(draw(st.integers(1, 5))):
        v, x = draw(st.sampled_from(known))
        e = v.type
        kind = draw(st.sampled_from(["cast", "add", "sub", "mul", "rsub"]))
        if kind == "cast":
            to = draw(st.sampled_from(INTS))
            known.append((b.cast(v, to=to), wrapped(x, to.bits)) if to is not e else (v, x))
            continue
        same = [(w, y) for w, y in known if w.type is e]
        if draw(st.booleans()):
            y = draw(st.integers(-9, 9))
            w = b.constant(y, e)
        else:
            w, y = draw(st.sampled_from(same))
        if kind == "rsub":
            v, w, x, y, kind = w, v, y, x, "sub"
        result = {"add": x + y, "sub": x - y, "mul": x * y}[kind]
        known.append((getattr(b, kind)(v, w), wrapped(result, e.bits)))
    v, x = known[-1]
    b.create("return")
    return Function("f", body), v, args, x


@given(expressions())
def test_a_launch_computes_what_the_kernel_would(
    case: tuple[Function, Value, list[int], int],
) -> None:
    function, v, args, expected = case
    found = number_of(v, function)
    if found is not None:
        assert evaluated(found, args) == expected


def test_the_usual_strides_are_known() -> None:
    body = Block(TYPES)
    b = Builder(body)
    n, wide, m = body.args
    function = Function("f", body)
    assert number_of(n, function) == Number(0, 1, ((0, 32),), 32)
    assert number_of(b.cast(n, to=i64), function) == Number(0, 1, ((0, 32),), 32)
    product = b.cast(b.mul(n, b.mul(m, b.constant(4, i32))), to=i64)
    assert number_of(product, function) == Number(0, 4, ((0, 32), (2, 32)), 32)
    assert number_of(b.mul(b.cast(n, to=i64), wide), function) == Number(
        0, 1, ((0, 32), (1, 64)), 64
    )
    assert number_of(b.div(n, m), function) is None
    assert number_of(b.mul(product, wide), function) is None  # two cuts
