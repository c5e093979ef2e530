"""Elementwise ops and conversions of every dtype, on vectors with a tail and on scalars."""

from __future__ import annotations

import numpy as np
import pytest
from cpu.lowering import check, zeros

from tegula import ir
from tegula.ir.types import DType, numpy_dtype

N = 37
INTS = ["i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"]
FLOATS = ["f16", "bf16", "f32", "f64"]
SMALL = ["f8e5", "f8e4nv", "f8e5b16", "f8e4b8"]
SPECIAL = [0.0, -0.0, 1.0, -1.5, np.inf, -np.inf, np.nan, 1e-40, -6e-8, 65520.0, 3.4e38, 0.5, 448.0,
           57344.0, 2.0**31, -(2.0**31), 2.0**63, 1e19, 255.5, -128.5]  # fmt: skip


def values(name: str, seed: int) -> np.ndarray:
    t = ir.DTYPES[name]
    rng = np.random.default_rng(seed)
    with np.errstate(all="ignore"):
        if t.is_float:
            x = rng.standard_normal(N) * 10.0 ** rng.integers(-3, 4, N)
            x[: len(SPECIAL)] = rng.permutation(SPECIAL)
            return x.astype(numpy_dtype(t))
        if t.bits == 1:
            return rng.integers(0, 2, N).astype(bool)
        x = rng.integers(t.min_value, t.max_value, N, dtype=numpy_dtype(t), endpoint=True)
    x[:6] = [0, 1, t.max_value, t.min_value, 3, t.max_value - 1]
    x[6:9] = np.array([-1, 7, -7]).astype(x.dtype) if t.is_signed else [2, 7, 9]
    return x


def apply(op: str, names: list[str], out: str, scalar: bool, exact: bool, **attrs: object) -> None:
    """Compare `op` on operands of these dtypes, all elements or the first ones as scalars."""
    arrays = {f"x{i}": values(n, i) for i, n in enumerate(names)}
    size = 1 if scalar else N

    def body(b, *params):
        *xs, o = params
        loaded = [b.load(p) if scalar else b.get(p, (N,)) for p in xs]
        b.put(o, getattr(b, op)(*loaded, **attrs))

    for start in range(0, 9, 3) if scalar else (0,):
        args = {k: a[start:] if scalar else a for k, a in arrays.items()}
        args["out"] = zeros(size, numpy_dtype(ir.DTYPES[out]))
        bits = ir.DTYPES[out].bits
        loose = {16: 2e-3, 32: 1e-6, 64: 1e-14}.get(bits, 0.1)
        check(args, body, tolerance=0.0 if exact else loose)


@pytest.mark.parametrize("scalar", [False, True])
@pytest.mark.parametrize("name", [*INTS, "i1"])
@pytest.mark.parametrize(
    "op", ["add", "sub", "mul", "div", "rem", "min", "max", "mulhi", "and_", "or_", "xor", "shl",
           "shr"])  # fmt: skip
def test_integer_arithmetic(op: str, name: str, scalar: bool) -> None:
    apply(op, [name, name], name, scalar, True)


def test_shift_amounts_in_range() -> None:
    x = values("i32", 0)
    amounts = (np.arange(N, dtype=np.int32) - 2)

    def body(b, x, s, o):
        b.put(o, b.shr(b.get(x, (N,)), b.get(s, (N,))))

    check({"x": x, "s": amounts, "out": zeros(N, np.int32)}, body)


@pytest.mark.parametrize("scalar", [False, True])
@pytest.mark.parametrize("name", FLOATS + SMALL[:2])
@pytest.mark.parametrize("op", ["add", "sub", "mul", "div", "min", "max"])
def test_float_arithmetic(op: str, name: str, scalar: bool) -> None:
    apply(op, [name, name], name, scalar, True)


@pytest.mark.parametrize("name", ["f32", "f64", "f16", "bf16"])
@pytest.mark.parametrize("op", ["min", "max"])
def test_min_and_max_can_propagate_nan(op: str, name: str) -> None:
    apply(op, [name, name], name, False, True, nan="propagate")


@pytest.mark.parametrize("name", ["f32", "f64"])
def test_float_remainder(name: str) -> None:
    apply("rem", [name, name], name, False, True)


@pytest.mark.parametrize("name", FLOATS + INTS)
@pytest.mark.parametrize("op", ["neg", "abs"])
def test_sign(op: str, name: str) -> None:
    apply(op, [name], name, False, True)


@pytest.mark.parametrize("name", ["f32", "f64", "f16"])
@pytest.mark.parametrize("op", ["floor", "ceil", "trunc", "rint"])
def test_rounding_to_integers(op: str, name: str) -> None:
    apply(op, [name], name, False, True)


@pytest.mark.parametrize("scalar", [False, True])
@pytest.mark.parametrize("name", ["f32", "f64"])
@pytest.mark.parametrize("op", ["sqrt", "rsqrt", "exp", "exp2", "log", "log2", "sin", "erf"])
def test_functions(op: str, name: str, scalar: bool) -> None:
    apply(op, [name], name, scalar, False)


@pytest.mark.parametrize("name", ["f32", "f64"])
def test_fused_multiply_add(name: str) -> None:
    apply("fma", [name] * 3, name, False, True)


@pytest.mark.parametrize("pred", ["eq", "ne", "lt", "le", "gt", "ge"])
@pytest.mark.parametrize("name", ["i8", "i32", "u32", "u64", "f32", "f16", "bf16", "f64"])
def test_comparisons(pred: str, name: str) -> None:
    apply("cmp", [name, name], "i1", False, True, pred=pred)


@pytest.mark.parametrize("name", ["i8", "i64", "f16", "f32"])
def test_select(name: str) -> None:
    apply("select", ["i1", name, name], name, False, True)


ALL = ["i1", *INTS, *SMALL, *FLOATS]


@pytest.mark.parametrize("to", ALL)
@pytest.mark.parametrize("source", ALL)
def test_casts(source: str, to: str) -> None:
    apply("cast", [source], to, False, True, to=ir.DTYPES[to])


@pytest.mark.parametrize("to", ["f32", "f16", "bf16", *SMALL[:2]])
@pytest.mark.parametrize("source", ["f64", "f32", "f16"])
def test_casts_toward_zero(source: str, to: str) -> None:
    apply("cast", [source], to, False, True, to=ir.DTYPES[to], rounding="rtz")


@pytest.mark.parametrize(
    ("source", "to"), [("f32", "i32"), ("i32", "f32"), ("f16", "i16"), ("bf16", "u16"),
                       ("u16", "bf16"), ("f64", "u64"), ("i8", "f8e5"), ("f8e4nv", "u8")])
def test_bitcasts(source: str, to: str) -> None:
    x = values(source, 0)
    if ir.DTYPES[source].is_float:
        x = np.where(np.isnan(x.astype(np.float64)), np.ones_like(x), x)

    def body(b, x, o):
        b.put(o, b.bitcast(b.get(x, (N,)), to=ir.DTYPES[to]))

    check({"x": x, "out": zeros(N, numpy_dtype(ir.DTYPES[to]))}, body)


def test_every_f16_and_bf16_converts_both_ways() -> None:
    for name in ("f16", "bf16"):
        t: DType = ir.DTYPES[name]
        x = np.arange(65536, dtype=np.uint16).view(numpy_dtype(t))

        def body(b, x, o, back, t=t):
            at = b.index((1 << 16,))
            wide = b.cast(b.load(b.at(x, at)), to=ir.f32)
            b.store(b.at(o, at), wide)
            b.store(b.at(back, at), b.cast(wide, to=t))

        check({"x": x, "out": zeros(65536), "back": zeros(65536, x.dtype)}, body)


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("op", ["neg", "abs"])
def test_signs_of_every_8_bit_float(op: str, name: str) -> None:
    """Infinity becomes the largest number, and formats with one zero keep it."""
    x = np.arange(256, dtype=np.uint8).view(numpy_dtype(ir.DTYPES[name]))

    def body(b, x, o):
        at = b.index((256,))
        b.store(b.at(o, at), getattr(b, op)(b.load(b.at(x, at))))

    check({"x": x, "out": zeros(256, x.dtype)}, body)
