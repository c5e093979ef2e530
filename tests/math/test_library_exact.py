"""Names of the device library whose results are exact or correctly rounded, against integers and
fractions of Python.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from library_samples import BACKENDS, arguments, function, same_bits

from tegula import ir
from tegula.codegen.math.library import library
from tegula.codegen.math.trial import runner

INF, NAN = math.inf, math.nan


def round_to(value: Fraction, dtype: np.dtype, mode: str) -> float:
    """A fraction other than 0 in a float type."""
    info = np.finfo(dtype)
    size = abs(value)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    exponent -= size < Fraction(2) ** exponent
    unit = Fraction(2) ** (max(exponent, info.minexp) - info.nmant)
    below = size // unit
    rest = size - below * unit
    if mode == "rn":
        up = 2 * rest > unit or (2 * rest == unit and below % 2 == 1)
    else:
        up = rest > 0 and mode == ("rd" if value < 0 else "ru")
    size = (below + up) * unit
    if size > Fraction(float(info.max)):
        to_infinity = mode == "rn" or mode == ("rd" if value < 0 else "ru")
        size = INF if to_infinity else float(info.max)
    return -float(size) if value < 0 else float(size)


def _zero_sum(a: float, b: float, mode: str) -> float:
    """The sign of a sum that is 0."""
    if math.copysign(1, a) == math.copysign(1, b) and a == 0:
        return a
    return -0.0 if mode == "rd" else 0.0


def fused(a: float, b: float, c: float, dtype: np.dtype, mode: str) -> float:
    if not all(map(math.isfinite, (a, b, c))):
        with np.errstate(all="ignore"):
            product = float(np.float64(a) * np.float64(b)) if not (
                math.isfinite(a) and math.isfinite(b)) else 0.0  # fmt: skip
            return float(np.float64(product) + np.float64(c))
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:
        zero = math.copysign(1, a) * math.copysign(1, b) * 0.0
        return _zero_sum(zero if a == 0 or b == 0 else -c, c, mode)
    return round_to(exact, dtype, mode)


def quotient(a: float, b: float, dtype: np.dtype, mode: str) -> float:
    if not (math.isfinite(a) and math.isfinite(b)) or b == 0 or a == 0:
        with np.errstate(all="ignore"):
            return float(np.float64(a) / np.float64(b))
    return round_to(Fraction(a) / Fraction(b), dtype, mode)


def root(a: float, dtype: np.dtype, mode: str) -> float:
    if not math.isfinite(a) or a <= 0:
        with np.errstate(all="ignore"):
            return float(np.sqrt(np.float64(a)))
    # A root with 100 digits more than any result has, and something below where it is not exact.
    m = Fraction(a)
    shift = 1200
    scaled = m * 4**shift
    whole = math.isqrt(scaled.numerator // scaled.denominator)
    exact = Fraction(whole, 2**shift)
    if exact * exact != m:
        exact += Fraction(1, 2 ** (shift + 5))
    return round_to(exact, dtype, mode)


ARITHMETIC: dict[str, Callable[..., float]] = {
    "add": lambda a, b, *r: fused(a, 1.0, b, *r) if a else _sum0(a, b, *r),
    "sub": lambda a, b, *r: fused(a, 1.0, -b, *r) if a else _sum0(a, -b, *r),
    "mul": lambda a, b, *r: _product(a, b, *r),
    "div": quotient,
    "rcp": lambda a, *r: quotient(1.0, a, *r),
    "sqrt": root,
    "fma": fused,
}


def _sum0(a: float, b: float, dtype: np.dtype, mode: str) -> float:
    return b if b else _zero_sum(a, b, mode)


def _product(a: float, b: float, dtype: np.dtype, mode: str) -> float:
    if not (math.isfinite(a) and math.isfinite(b)) or a == 0 or b == 0:
        with np.errstate(all="ignore"):
            return float(np.float64(a) * np.float64(b))
    return round_to(Fraction(a) * Fraction(b), dtype, mode)


def check(name: str, index: int, expected: Callable[..., Any], count: int = 300) -> None:
    """Compare with a function of Python numbers, on both backends."""
    signature = library()[name].signatures[index]
    arrays = arguments(signature, count)
    rows = zip(*(a.tolist() for a in arrays), strict=True)
    result = ir.numpy_dtype(signature.result)
    with np.errstate(all="ignore"):
        wanted = np.array([expected(*row) for row in rows], result)
    for backend in BACKENDS:
        actual = function(name, index, backend)(*arrays)
        bad = np.nonzero(~same_bits(actual, wanted))[0]
        if bad.size:
            at = tuple(a[bad[0]] for a in arrays)
            pytest.fail(f"{backend}: {name}{at} is {actual[bad[0]]!r}, not {wanted[bad[0]]!r}; "
                        f"{bad.size} wrong")  # fmt: skip


@pytest.mark.parametrize("index", [0, 1], ids=["f32", "f64"])
@pytest.mark.parametrize("mode", ["rn", "rz", "rd", "ru"])
@pytest.mark.parametrize("op", ARITHMETIC)
def test_arithmetic_is_rounded_in_the_named_direction(op: str, mode: str, index: int) -> None:
    dtype = np.dtype([np.float32, np.float64][index])
    check(f"{op}_{mode}", index, lambda *a: ARITHMETIC[op](*a, dtype, mode))


def _to_integer(x: float, to: np.dtype, mode: str) -> int:
    info = np.iinfo(to)
    if math.isnan(x):
        return 0
    if math.isinf(x):
        return info.max if x > 0 else info.min
    whole = {"rn": round, "rz": math.trunc, "rd": math.floor, "ru": math.ceil}[mode](x)
    return min(max(whole, info.min), info.max)


INTEGERS = {"int": np.int32, "uint": np.uint32, "ll": np.int64, "ull": np.uint64}
FLOATS = {"float": np.float32, "double": np.float64}
CONVERSIONS = sorted(n for n in library() if n[-3:] in ("_rn", "_rz", "_rd", "_ru") and "2" in n)


@pytest.mark.parametrize("name", CONVERSIONS)
def test_conversions_are_rounded_in_the_named_direction(name: str) -> None:
    left, mode = name.split("_")
    _, target = left.split("2")
    if target in INTEGERS:
        to = np.dtype(INTEGERS[target])

        def expected(x: float) -> Any:
            return np.array(_to_integer(x, to, mode), to).view(f"i{to.itemsize}")
    else:
        to = np.dtype(FLOATS[target])

        def expected(x: Any) -> Any:
            if (isinstance(x, float) and not math.isfinite(x)) or x == 0:
                return x
            return round_to(Fraction(x), to, mode)

    check(name, 0, expected)


def _wrap(x: int, bits: int, signed: bool = True) -> int:
    x &= (1 << bits) - 1
    return x - (1 << bits) if signed and x >> (bits - 1) else x


def _bytes(x: int, y: int, s: int) -> int:
    both = ((y & 0xFFFFFFFF) << 32 | (x & 0xFFFFFFFF)).to_bytes(8, "little")
    return _wrap(sum(both[(s >> (4 * i)) & 7] << (8 * i) for i in range(4)), 32)


INTEGER_NAMES: dict[str, Callable[..., int]] = {
    "clz": lambda bits, signed, x: bits - _wrap(x, bits, False).bit_length(),
    "popc": lambda bits, signed, x: _wrap(x, bits, False).bit_count(),
    "ffs": lambda bits, signed, x: (x & -x).bit_length(),
    "brev": lambda bits, signed, x: _wrap(
        int(f"{_wrap(x, bits, False):0{bits}b}"[::-1], 2), bits),
    "byte_perm": lambda bits, signed, x, y, s: _bytes(x, y, s),
    "mulhi": lambda bits, signed, x, y: (x * y) >> bits,
    "mul24": lambda bits, signed, x, y: _wrap(
        _wrap(x, 24, signed) * _wrap(y, 24, signed), 32, signed),
    "sad": lambda bits, signed, x, y, z: _wrap(abs(x - y) + z, 32, signed),
    "hadd": lambda bits, signed, x, y: (x + y) >> 1,
    "rhadd": lambda bits, signed, x, y: (x + y + 1) >> 1,
    "abs": lambda bits, signed, x: _wrap(abs(x), bits),
}  # fmt: skip
CASES = [
    (name, i)
    for name in INTEGER_NAMES
    for i, s in enumerate(library()[name].signatures)
    if s.arguments[0].is_int
]


@pytest.mark.parametrize(("name", "index"), CASES)
def test_integer_functions(name: str, index: int) -> None:
    first = library()[name].signatures[index].arguments[0]
    check(name, index, lambda *a: INTEGER_NAMES[name](first.bits, first.is_signed, *a))


def test_words_and_bits_of_floats() -> None:
    x = np.array([1.5, -0.0, 1e300, -2.25e-310, INF])
    words = x.view(np.uint32).reshape(-1, 2)
    single = np.array([1.5, -0.0, 3e38, -2.25e-40, INF], np.float32)
    for backend in BACKENDS:

        def run(name: str, *a: np.ndarray, backend: str = backend) -> np.ndarray:
            return function(name, 0, backend)(*a)

        high, low = run("double2hiint", x), run("double2loint", x)

        assert (low.view(np.uint32) == words[:, 0]).all()
        assert (high.view(np.uint32) == words[:, 1]).all()
        assert same_bits(run("hiloint2double", high, low), x).all()
        assert same_bits(run("longlong_as_double", run("double_as_longlong", x)), x).all()
        assert same_bits(run("int_as_float", run("float_as_int", single)), single).all()
        bits = run("float_as_uint", single).view(np.uint32)
        assert same_bits(run("uint_as_float", bits), single).all()


def _round_half_away(x: float) -> float:
    if not math.isfinite(x):
        return x
    return math.copysign(float(math.floor(Fraction(abs(x)) + Fraction(1, 2))), x)


def _remainder(x: float, y: float) -> float:
    if math.isnan(x) or math.isnan(y) or math.isinf(x) or y == 0:
        return NAN
    return math.remainder(x, y)


def _nextafter(dtype: np.dtype) -> Callable[[float, float], float]:
    return lambda x, y: float(np.nextafter(dtype.type(x), dtype.type(y)))


def _ilogb(x: float) -> int:
    if x == 0 or math.isnan(x):
        return -(2**31)
    return 2**31 - 1 if math.isinf(x) else math.frexp(x)[1] - 1


def _logb(x: float) -> float:
    if x == 0:
        return -INF
    return abs(x) if not math.isfinite(x) else float(math.frexp(x)[1] - 1)


def _ldexp(dtype: np.dtype) -> Callable[[float, int], float]:
    def expected(x: float, n: int) -> float:
        if not math.isfinite(x) or x == 0:
            return x
        return round_to(Fraction(x) * Fraction(2) ** min(max(n, -5000), 5000), dtype, "rn")

    return expected


def _fmod(x: float, y: float) -> float:
    return NAN if math.isinf(x) or y == 0 else math.fmod(x, y)


def _integer(rounded: Callable[[float], float]) -> Callable[[float], int]:
    return lambda x: _to_integer(rounded(x), np.dtype(np.int64), "rz")


def _rint(x: float) -> float:
    return float(np.rint(x))


FLOAT_NAMES: dict[str, Callable[..., Any]] = {
    "isnan": math.isnan,
    "isinf": math.isinf,
    "finitef": math.isfinite,
    "isfinited": math.isfinite,
    "signbit": lambda x: math.copysign(1, x) < 0,
    "copysign": math.copysign,
    "saturatef": lambda x: 0.0 if not x > 0 else min(x, 1.0),
    "abs": abs,
    "round": _round_half_away,
    "llround": _integer(_round_half_away),
    "llrint": _integer(_rint),
    "rint": _rint,
    "nearbyint": _rint,
    "floor": lambda x: float(np.floor(x)),
    "ceil": lambda x: float(np.ceil(x)),
    "trunc": lambda x: float(np.trunc(x)),
    "fmod": _fmod,
    "remainder": _remainder,
    "ilogb": _ilogb,
    "logb": _logb,
}
BY_TYPE: dict[str, Callable[[np.dtype], Callable[..., Any]]] = {
    "nextafter": _nextafter,
    "ldexp": _ldexp,
    "scalbn": _ldexp,
    "fma": lambda dtype: lambda *a: fused(*a, dtype, "rn"),
    "sqrt": lambda dtype: lambda x: root(x, dtype, "rn"),
    "fdim": lambda dtype: lambda x, y: 0.0 if x <= y else ARITHMETIC["sub"](x, y, dtype, "rn"),
    "fast_dividef": lambda dtype: lambda x, y: quotient(x, y, dtype, "rn"),
}


@pytest.mark.parametrize(
    ("name", "index"),
    [
        (name, i)
        for name in (*FLOAT_NAMES, *BY_TYPE)
        for i, s in enumerate(library()[name].signatures)
        if s.arguments[0].is_float
    ],
)
def test_exact_functions_of_floats(name: str, index: int) -> None:
    dtype = np.dtype(ir.numpy_dtype(library()[name].signatures[index].arguments[0]))
    check(name, index, FLOAT_NAMES[name] if name in FLOAT_NAMES else BY_TYPE[name](dtype))


def test_upper_half_of_a_reciprocal() -> None:
    x = arguments(library()["rcp64h"].signatures[0])[0]
    with np.errstate(all="ignore"):
        wanted = ((1 / x).view(np.uint64) & np.uint64(0xFFFFFFFF00000000)).view(np.float64)
    for backend in BACKENDS:
        assert same_bits(function("rcp64h", 0, backend)(x), wanted).all()


def test_correctly_rounded_inverse_root() -> None:
    """All floats have the mantissas of these two binades; here every 101st of them."""
    x = np.arange(0x3F800000, 0x40800000, 101, dtype=np.uint32).view(np.float32)
    wide = x.astype(np.longdouble)
    wanted = (1 / np.sqrt(wide)).astype(np.float32)

    assert same_bits(function("rsqrt_rn", 0, "cpu")(x), wanted).all()
    special = np.array([0.0, -0.0, INF, -1.0, NAN, 1e-45, 3e38], np.float32)
    with np.errstate(all="ignore"):
        wanted = (1 / np.sqrt(special.astype(np.float64))).astype(np.float32)
    assert same_bits(function("rsqrt_rn", 0, "interpreter")(special), wanted).all()


@pytest.mark.parametrize("name", ["add_rd", "sub_ru", "mul_rz", "div_rd", "fma_ru", "sqrt_rd"])
def test_fusing_products_and_sums_keeps_directed_rounding(name: str) -> None:
    f = library()[name]
    for s in f.signatures:
        x = arguments(s, 300)
        plain = runner(f, s, "cpu")(*x)
        assert same_bits(runner(f, s, "cpu", {"enable_fp_fusion": True})(*x), plain).all()
