"""What the device library's functions should give: values of other implementations, with more
digits. For f32 they come from numpy and scipy in f64, for f64 from numpy's long double and mpmath.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tegula.ir.types import DType, f32, numpy_dtype

from .library import LibraryFunction, Signature
from .measure import Array, binade_edges

Reference = Callable[..., Array]

SAME = {
    "fast_expf": "exp", "fast_logf": "log", "fast_log2f": "log2", "fast_sinf": "sin",
    "fast_cosf": "cos", "fast_tanhf": "tanh", "fast_exp10f": "exp10", "fast_log10f": "log10",
    "fast_powf": "pow", "fast_tanf": "tan",
}  # fmt: skip
"""Names that mean the function of another name, for f32 only."""

# Where a function does its work; arguments from here are drawn evenly, besides any bits at all.
_RANGES: dict[str, tuple[tuple[float, float], ...]] = {
    "exp": ((-1, 1), (-105, 89), (-746, 710)),
    "exp2": ((-1, 1), (-152, 129), (-1077, 1025)),
    "exp10": ((-1, 1), (-46, 39), (-324, 309)),
    "expm1": ((-1, 1), (-20, 89), (-40, 710)),
    "sinh": ((-1.5, 1.5), (-90, 90), (-711, 711)),
    "cosh": ((-1.5, 1.5), (-90, 90), (-711, 711)),
    "tanh": ((-1, 1), (-20, 20)),
    "log": ((0.5, 2), (0.99, 1.01)),
    "log2": ((0.5, 2), (0.99, 1.01)),
    "log10": ((0.5, 2), (0.99, 1.01), (1, 1e6)),
    "log1p": ((-1, 1), (-0.01, 0.01), (1, 1000)),
    "asinh": ((-1, 1), (-10, 10), (-1e4, 1e4)),
    "acosh": ((1, 1.1), (1, 10), (1, 1e4)),
    "atanh": ((-1, 1), (-0.1, 0.1)),
    "pow": ((0, 2), (-10, 10), (-100, 100)),
    "cbrt": ((-10, 10),),
    "rcbrt": ((-10, 10),),
    "sin": ((-1.6, 1.6), (-1e3, 1e3), (-1e6, 1e6), (-1e10, 1e10)),
    "cos": ((-1.6, 1.6), (-1e3, 1e3), (-1e6, 1e6), (-1e10, 1e10)),
    "tan": ((-1.6, 1.6), (-1e3, 1e3), (-1e6, 1e6), (-1e10, 1e10)),
    "sinpi": ((-1, 1), (-1e3, 1e3)),
    "cospi": ((-1, 1), (-1e3, 1e3)),
    "atan": ((-1, 1), (-10, 10)),
    "atan2": ((-1, 1), (-10, 10)),
    "asin": ((-1, 1),),
    "acos": ((-1, 1),),
    "erf": ((-1.2, 1.2), (-6, 6)),
    "erfc": ((-1, 1), (-6, 10.1), (0, 27)),
    "erfcx": ((-1, 1), (-9, 10), (-26, 100)),
    "normcdf": ((-1, 1), (-14, 6), (-38, 8)),
    "erfinv": ((-1, 1), (-0.5, 0.5)),
    "erfcinv": ((0, 2), (0, 0.1)),
    "normcdfinv": ((0, 1), (0, 0.1)),
    "lgamma": ((0, 4), (0, 30), (-10, 10)),
    "tgamma": ((0, 4), (-40, 35), (-170, 171)),
    "cyl_bessel_i0": ((-10, 10), (-90, 90), (-713, 713)),
    "cyl_bessel_i1": ((-10, 10), (-90, 90), (-713, 713)),
    "j0": ((-10, 10), (-100, 100), (-1e4, 1e4)),
    "j1": ((-10, 10), (-100, 100), (-1e4, 1e4)),
    "y0": ((0, 10), (0, 100), (0, 1e4)),
    "y1": ((0, 10), (0, 100), (0, 1e4)),
    "jn": ((-10, 10), (-100, 100)),
    "yn": ((0, 10), (0, 100)),
}
_ORDERS = (-12, 40)


def samples(
    function: LibraryFunction, signature: Signature, count: int, seed: int = 0
) -> list[Array]:
    """Arguments: random bits, edges of all binades, and numbers from where it does its work; with
    several arguments such ones in random company.
    """
    rng = np.random.default_rng(seed)
    name = SAME.get(function.name, function.name)
    ranges = _RANGES.get(name, ((-2, 2), (-1e3, 1e3)))

    def one(t: DType) -> Array:
        dtype = numpy_dtype(t)
        if t.is_int:
            low, high = _ORDERS
            near = rng.integers(low, high, count)
            if name in ("jn", "yn"):
                return near.astype(dtype)
            wild = rng.integers(-(2**31), 2**31, count)
            return np.concatenate([wild, near, near // 4]).astype(dtype)
        wild = rng.integers(0, 256, count * t.itemsize, dtype=np.uint8).view(dtype)
        parts = [wild, binade_edges(t)] if name not in ("jn", "yn") else []
        parts += [rng.uniform(low, high, count).astype(dtype) for low, high in ranges]
        return np.concatenate(parts)

    columns = [one(t) for t in signature.arguments]
    if len(columns) == 1:
        return columns
    rows = count * (2 + len(ranges))
    return [rng.choice(column, rows) for column in columns]


def expected(function: LibraryFunction, signature: Signature, arguments: list[Array]) -> Array:
    """The values, in f64 for f32 and in long double for f64."""
    name = SAME.get(function.name, function.name)
    single = signature.float_type is f32
    wide = np.float64 if single else np.longdouble
    with np.errstate(all="ignore"):
        if name in _SCIPY:
            reference = _SCIPY[name] if single else _by_mpmath(name)
            narrow = [a.astype(np.float64 if a.dtype.kind == "f" else a.dtype) for a in arguments]
            return reference(*narrow).astype(wide)
        values = [a.astype(wide) for a in arguments]
        result: Array = np.asarray(_NUMPY[name](*values), wide)
    return result


# --- by numpy


def _half_turns(x: Array, shift: int) -> Array:
    """sin(π x) of x >= 0, or with shift 1 cos(π x)."""
    wide = x.dtype.type
    pi = wide(np.pi) + wide(1.2246467991473531772e-16)
    x = np.where(np.isfinite(x), x, np.nan)
    turn = x - 2 * np.floor(x / 2)
    n = np.rint(2 * turn)
    r = (turn - n / 2) * pi
    k = (np.nan_to_num(n).astype(np.int64) + shift) % 4
    value = np.choose(k, [np.sin(r), np.cos(r), -np.sin(r), -np.cos(r)])
    result: Array = np.where(value == 0, 0, value)
    return result


def _norm(*values: Array) -> Array:
    total = values[0]
    for v in values[1:]:
        total = np.hypot(total, v)
    return np.abs(total)


def _inverse_norm(*values: Array) -> Array:
    return np.asarray(1 / _norm(*values))


_NUMPY: dict[str, Reference] = {
    "exp": np.exp, "exp2": np.exp2, "log": np.log, "log2": np.log2, "sin": np.sin, "cos": np.cos,
    "tanh": np.tanh, "rsqrt": lambda x: 1 / np.sqrt(x),
    "exp10": lambda x: np.power(x.dtype.type(10), x), "expm1": np.expm1,
    "sinh": np.sinh, "cosh": np.cosh, "log10": np.log10, "log1p": np.log1p,
    "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
    "pow": np.power, "cbrt": np.cbrt, "rcbrt": lambda x: 1 / np.cbrt(x),
    "hypot": _norm, "norm3d": _norm, "norm4d": _norm,
    "rhypot": _inverse_norm, "rnorm3d": _inverse_norm, "rnorm4d": _inverse_norm,
    "tan": np.tan, "atan": np.arctan, "atan2": np.arctan2, "asin": np.arcsin, "acos": np.arccos,
    "sinpi": lambda x: np.copysign(1, x) * _half_turns(np.abs(x), 0),
    "cospi": lambda x: _half_turns(np.abs(x), 1),
}  # fmt: skip


# --- by scipy and mpmath


def _special(name: str) -> Reference:
    def reference(*x: Array) -> Array:
        import scipy.special

        return np.asarray(getattr(scipy.special, name)(*x))

    return reference


def _wave(x: Array, order: int, second: bool) -> Array:
    """J or Y of order 0 or 1: scipy's up to 25, then Hankel's asymptotic series, whose angle keeps
    its digits.
    """
    result = np.asarray(_special(("y" if second else "j") + str(order))(np.minimum(x, 25.0)))
    result = np.where(x == np.inf, 0.0, result)
    for low, high, terms in ((25, 1e4, 30), (1e4, np.inf, 7)):
        (at,) = np.nonzero((x > low) & (x <= high) & (x < np.inf))
        result[at] = _hankel(x[at].astype(np.longdouble), order, second, terms)
    return result


def _hankel(x: Array, order: int, second: bool, terms: int) -> Array:
    term, p, q = np.ones_like(x), np.ones_like(x), np.zeros_like(x)
    for k in range(1, terms):
        term = term * ((4 * order - (2 * k - 1) ** 2) / (k * 8 * x))
        if k % 2:
            q = q + term * (-1) ** (k // 2)
        else:
            p = p + term * (-1) ** (k // 2)
    sine, cosine = np.sin(x), np.cos(x)
    # √2 times sine and cosine of x - π/4, or of x - 3π/4.
    sine, cosine = sine - cosine, cosine + sine
    if order:
        sine, cosine = -cosine, sine
    wave = p * sine + q * cosine if second else p * cosine - q * sine
    result: Array = wave / np.sqrt(x * np.longdouble(np.pi))
    return result


def _erfinv(x: Array) -> Array:
    """Where scipy's would take long, the series."""
    square = np.pi * np.square(np.minimum(np.abs(x), 1))
    series = 1 + square / 12 + 7 * square**2 / 480 + 127 * square**3 / 40320
    (at,) = np.nonzero((np.abs(x) > 1e-3) & (np.abs(x) <= 1))
    result = np.where(np.abs(x) > 1, np.nan, x) * series * np.sqrt(np.pi) / 2
    result[at] = _special("erfinv")(x[at])
    return np.copysign(result, x)


def _log_gamma(x: Array) -> Array:
    import scipy.special

    value = scipy.special.gammaln(x)
    return np.where(np.isinf(x), np.inf, value)


def _gamma(x: Array) -> Array:
    import scipy.special

    value = scipy.special.gamma(np.where(x < -175, -175.5, x))
    # Far below 0 there are only zeros, of a sign that changes from one pole to the next.
    far = np.where(np.floor(x) % 2 == 0, 0.0, -0.0)
    value = np.where(x < -175, np.where(np.floor(x) == x, np.nan, far), value)
    value = np.where((x < 0) & (np.floor(x) == x), np.nan, value)
    return np.where(x == 0, np.copysign(np.inf, x), value)


_SCIPY: dict[str, Reference] = {
    "erf": _special("erf"), "erfc": _special("erfc"), "erfcx": _special("erfcx"),
    "normcdf": _special("ndtr"), "erfinv": _erfinv,
    "erfcinv": lambda x: _special("erfcinv")(x) + 0.0,
    "normcdfinv": _special("ndtri"), "lgamma": _log_gamma, "tgamma": _gamma,
    "cyl_bessel_i0": lambda x: np.where(np.isinf(x), np.inf, _special("i0")(x)),
    "cyl_bessel_i1": lambda x: np.copysign(np.where(np.isinf(x), x, _special("i1")(x)), x),
    "j0": lambda x: _wave(np.abs(x), 0, False),
    "j1": lambda x: np.copysign(1, x) * _wave(np.abs(x), 1, False),
    "y0": lambda x: _wave(x, 0, True), "y1": lambda x: _wave(x, 1, True),
    "jn": _special("jn"), "yn": _special("yn"),
}  # fmt: skip


def _by_mpmath(name: str) -> Reference:
    """Values to 40 digits where the f64 function of scipy gives a finite number other than 0; else
    that number.
    """
    import mpmath as mp

    rough = _SCIPY[name]

    def one(guess: float, *x: Any) -> Any:
        early = abs(guess) == math.inf and name[:-1] == "cyl_bessel_i" and math.isfinite(x[0])
        if (not math.isfinite(guess) or guess == 0) and not (early and abs(x[0]) < 720):
            return np.longdouble(guess)
        with mp.workdps(40):
            value = _MPMATH[name](mp, *(mp.mpf(float(v)) for v in x))
            return np.longdouble(mp.nstr(value, 25, min_fixed=1, max_fixed=0))

    def reference(*x: Array) -> Array:
        guesses = rough(*x)
        rows = zip(guesses.tolist(), *(a.tolist() for a in x), strict=True)
        return np.array([one(*row) for row in rows], np.longdouble)

    return reference


def _inverse(mp: Any, f: Callable[[Any], Any], slope: Callable[[Any], Any], start: float) -> Any:
    """Newton's steps on f(x) = 0."""
    x = mp.mpf(start)
    for _ in range(8):
        x -= f(x) / slope(x)
    return x


def _erfc_inverse(mp: Any, y: Any) -> Any:
    import scipy.special

    start = float(scipy.special.erfcinv(float(y)))
    return _inverse(
        mp,
        lambda x: mp.log(mp.erfc(x)) - mp.log(y) if start > 0 else mp.erfc(x) - y,
        lambda x: -2 / mp.sqrt(mp.pi) * mp.exp(-x * x) / (mp.erfc(x) if start > 0 else mp.mpf(1)),
        start,
    )


def _erf_inverse(mp: Any, z: Any) -> Any:
    return mp.erfinv(z) if abs(z) < 0.9 else mp.sign(z) * _erfc_inverse(mp, 1 - abs(z))


_MPMATH: dict[str, Callable[..., Any]] = {
    "erf": lambda mp, x: mp.erf(x),
    "erfc": lambda mp, x: mp.erfc(x),
    "erfcx": lambda mp, x: mp.exp(x * x) * mp.erfc(x) if x < 1e6 else _erfcx_far(mp, x),
    "normcdf": lambda mp, x: mp.erfc(-x / mp.sqrt(2)) / 2,
    "erfinv": _erf_inverse,
    "erfcinv": _erfc_inverse,
    "normcdfinv": lambda mp, p: -mp.sqrt(2) * _erfc_inverse(mp, 2 * p),
    "lgamma": lambda mp, x: mp.log(abs(mp.gamma(x))) if abs(x) < 100 else mp.re(mp.loggamma(x)),
    "tgamma": lambda mp, x: mp.gamma(x),
    "cyl_bessel_i0": lambda mp, x: mp.besseli(0, x),
    "cyl_bessel_i1": lambda mp, x: mp.besseli(1, x),
    "j0": lambda mp, x: mp.besselj(0, x),
    "j1": lambda mp, x: mp.besselj(1, x),
    "y0": lambda mp, x: mp.bessely(0, x),
    "y1": lambda mp, x: mp.bessely(1, x),
    "jn": lambda mp, n, x: mp.besselj(int(n), x),
    "yn": lambda mp, n, x: mp.bessely(int(n), x),
}


def _erfcx_far(mp: Any, x: Any) -> Any:
    return (1 - 1 / (2 * x * x) + 3 / (4 * x**4)) / (x * mp.sqrt(mp.pi))


def checked_at(function: LibraryFunction, signature: Signature) -> str:
    """By what the values are known."""
    name = SAME.get(function.name, function.name)
    if signature.float_type is f32:
        return "scipy in f64" if name in _SCIPY else "numpy in f64"
    return "mpmath" if name in _SCIPY else "long double"


def is_exhaustive(signature: Signature) -> bool:
    """Whether every argument can be tried: one f32."""
    return signature.arguments == (f32,)


def has_reference(name: str) -> bool:
    """Whether a function is measured here. The others are exact."""
    return SAME.get(name, name) in _NUMPY or SAME.get(name, name) in _SCIPY
