"""Compute core/tegula/codegen/math/library_coefficients.py, for the device library.

    python benchmarks/math/library_coefficients.py            compare with the file
    python benchmarks/math/library_coefficients.py --write    replace it
    python benchmarks/math/library_coefficients.py --write ATAN SINH    only some of its tables

Each entry below states what is approximated, where, and how errors are weighed; needs mpmath. All
of it takes some minutes.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

import mpmath as mp
from coefficients import PRECISION, SLACK, TINY, emit_table, exponential
from minimax import Fit, Number, split

TARGET = Path(__file__).parents[2] / "core/tegula/codegen/math/library_coefficients.py"

HEADER = '''"""Polynomials and constants of the device library.

Computed by benchmarks/math/library_coefficients.py, which says what each approximates. Do not edit.
"""

from __future__ import annotations


def _table(text: str) -> tuple[float, ...]:
    return tuple(float.fromhex(word) for word in text.split())

'''

Series = Callable[[Number], Number]


def even(
    dtype: str, f: Series, lead: Series, power: int, high: Number, degree: int, weight: Series
) -> Fit:
    """P of f(x) = lead(x) + x**power P(x²) for x up to `high`, errors weighed by `weight`."""

    def target(z: Number) -> Number:
        x = mp.sqrt(z)
        return (f(x) - lead(x)) / x**power

    def scale(z: Number) -> Number:
        x = mp.sqrt(z)
        return abs(x**power * weight(x))

    return Fit(target, scale, TINY, high**2 * SLACK, degree, PRECISION[dtype], {})


def relative(f: Series) -> Series:
    return lambda x: 1 / f(x)


def expm1(dtype: str, degree: int) -> Fit:
    """P of e**r - 1 = r + r² P(r) for |r| <= log(2)/2, relative to r."""
    half = mp.log(2) / 2 * SLACK
    return Fit(
        lambda r: (mp.expm1(r) - r) / r**2, lambda r: abs(r), -half, half, degree,
        PRECISION[dtype], {},
    )  # fmt: skip


def area_tangent(dtype: str, degree: int) -> Fit:
    """P of log((1 + s) / (1 - s)) = 2 s + 2/3 s³ + s⁵ P(s²) for arguments in [1/√2, √2]."""
    high = (mp.sqrt(2) - 1) / (mp.sqrt(2) + 1)
    f: Series = lambda s: 2 * mp.atanh(s)  # noqa: E731
    lead: Series = lambda s: 2 * s + 2 * s**3 / 3  # noqa: E731
    return even(dtype, f, lead, 5, high, degree, lambda s: 1 / s)


def sine_of_turn(dtype: str, degree: int) -> Fit:
    """P of sin(π r) = π r + r³ P(r²) for |r| <= 1/4."""
    return even(dtype, mp.sinpi, lambda r: mp.pi * r, 3, mp.mpf(1) / 4, degree,
                relative(mp.sinpi))  # fmt: skip


def cosine_of_turn(dtype: str, degree: int) -> Fit:
    """P of cos(π r) = 1 + r² P(r²) for |r| <= 1/4."""
    return even(dtype, mp.cospi, lambda r: mp.mpf(1), 2, mp.mpf(1) / 4, degree,
                relative(mp.cospi))  # fmt: skip


def arc_tangent(dtype: str, degree: int) -> Fit:
    """P of atan(t) = t + t³ P(t²) for |t| <= tan(π/8)."""
    return even(dtype, mp.atan, lambda t: t, 3, mp.tan(mp.pi / 8), degree, relative(mp.atan))


def hyperbolic_sine(dtype: str, degree: int) -> Fit:
    """P of sinh(x) = x + x³ P(x²) for |x| <= 1."""
    return even(dtype, mp.sinh, lambda x: x, 3, mp.mpf(1), degree, relative(mp.sinh))


def inverse_cube_root(degree: int) -> Fit:
    """P(m) = m**(-1/3) for m in [1, 2], as a start for iterations."""
    return Fit(lambda m: 1 / mp.cbrt(m), mp.cbrt, mp.mpf(1), mp.mpf(2), degree, 24, {})


ERFCX_CENTRE = mp.mpf("3.75")


def _scaled_erfc(t: Number) -> Number:
    """(1/2 + x) exp(x²) erfc(x), t = (x - 3.75) / (x + 3.75)."""
    if t > 1 - mp.mpf("1e-7"):
        return 1 / mp.sqrt(mp.pi)
    x = ERFCX_CENTRE * (1 + t) / (1 - t)
    if x < 60:
        return (x + mp.mpf(1) / 2) * mp.exp(x * x) * mp.erfc(x)
    term, total = mp.mpf(1), mp.mpf(1)
    for k in range(1, 40):
        term *= -(2 * k - 1) / (2 * x * x)
        total += term
    return (x + mp.mpf(1) / 2) / x * total / mp.sqrt(mp.pi)


def scaled_erfc(dtype: str, degree: int) -> Fit:
    """P of (1/2 + x) exp(x²) erfc(x) = c + t P(t), t = (x - 3.75) / (x + 3.75), for all x >= 0, as
    by M. M. Shepherd and J. G. Laframboise (1981); c is the value at t = 0.
    """
    middle = _scaled_erfc(mp.mpf(0))
    return Fit(
        lambda t: (_scaled_erfc(t) - middle) / t, lambda t: abs(t) / _scaled_erfc(t),
        mp.mpf(-1), mp.mpf(1), degree, PRECISION[dtype], {},
    )  # fmt: skip


def inverse_erf(dtype: str, degree: int) -> Fit:
    """P of erfinv(z) = z √π / 2 + z³ P(z²) for |z| <= 1/2."""
    return even(dtype, mp.erfinv, lambda z: z * mp.sqrt(mp.pi) / 2, 3, mp.mpf(1) / 2, degree,
                relative(mp.erfinv))  # fmt: skip


def inverse_erfc(degree: int) -> Fit:
    """P(v) = x v for erfc(x) = exp(-1/v²), v from 1/27.3 to 1/√log(2): a start for iterations."""

    def target(v: Number) -> Number:
        wanted = -1 / v**2
        x = 1 / v * mp.mpf("0.95")
        for _ in range(60):  # Newton on log erfc
            value = mp.log(mp.erfc(x)) - wanted
            step = value * mp.erfc(x) * mp.sqrt(mp.pi) / 2 * mp.exp(x * x)
            x += step
            if abs(step) < mp.mpf(10) ** -25:
                break
        return x * v

    return Fit(target, lambda v: 1 / target(v), 1 / mp.mpf("27.3"), 1 / mp.sqrt(mp.log(2)) * SLACK,
               degree, 24, {})  # fmt: skip


_HALF = mp.mpf(1) / 2 * SLACK


def log_gamma(dtype: str, degree: int) -> Fit:
    """P of log Γ(2 + t) = (1 - γ) t + t² P(t) for |t| <= 1/2, relative."""

    def target(t: Number) -> Number:
        return (mp.loggamma(2 + t) - (1 - mp.euler) * t) / t**2

    return Fit(target, lambda t: abs(t**2 / mp.loggamma(2 + t)), -_HALF, _HALF, degree,
               PRECISION[dtype], {})  # fmt: skip


def gamma(dtype: str, degree: int) -> Fit:
    """P of Γ(2 + t) = 1 + (1 - γ) t + t² P(t) for |t| <= 1/2, relative."""

    def target(t: Number) -> Number:
        return (mp.gamma(2 + t) - 1 - (1 - mp.euler) * t) / t**2

    return Fit(target, lambda t: t**2 / mp.gamma(2 + t), -_HALF, _HALF, degree, PRECISION[dtype],
               {})  # fmt: skip


def stirling(dtype: str, degree: int) -> Fit:
    """P of log Γ(x) = (x - 1/2) log(x) - x + log(2π)/2 + P(1/x²) / x for x >= 8, absolute."""

    def target(w: Number) -> Number:
        if w < mp.mpf("1e-6"):
            return mp.mpf(1) / 12 - w / 360 + w**2 / 1260 - w**3 / 1680 + w**4 / 1188
        x = 1 / mp.sqrt(w)
        rest = mp.loggamma(x) - (x - mp.mpf(1) / 2) * mp.log(x) + x - mp.log(2 * mp.pi) / 2
        return rest * x

    return Fit(target, mp.sqrt, TINY, mp.mpf(1) / 64 * SLACK, degree, PRECISION[dtype], {})


def bessel_i_below(dtype: str, order: int, degree: int) -> Fit:
    """P of I0(x) = P(x²) or I1(x) = x P(x²) for x up to 8, relative."""

    def target(z: Number) -> Number:
        x = mp.sqrt(z)
        return mp.besseli(order, x) / x**order

    return Fit(target, lambda z: 1 / target(z), TINY, mp.mpf(64) * SLACK, degree,
               PRECISION[dtype], {})  # fmt: skip


def bessel_i_above(dtype: str, order: int, degree: int) -> Fit:
    """P of exp(-x) √x I0(x) or I1(x) = P(16/x - 1) for x from 8."""

    def target(u: Number) -> Number:
        x = 16 / (u + 1)
        if x > 3000:
            a, total, term = mp.mpf(4 * order * order), mp.mpf(1), mp.mpf(1)
            for k in range(1, 25):
                term *= -(a - (2 * k - 1) ** 2) / (8 * x * k)
                total += term
            return total / mp.sqrt(2 * mp.pi)
        return mp.exp(-x) * mp.sqrt(x) * mp.besseli(order, x)

    return Fit(target, lambda u: 1 / target(u), mp.mpf("-0.999999999"), mp.mpf(1) * SLACK, degree,
               PRECISION[dtype], {})  # fmt: skip


# Bessel functions of the first and second kind are computed in f64 only. Below 8, polynomials in
# u = x²/8 - 1 up to 4, then in u = (x² - 40) / 24; above, the amplitudes of cosine and sine of
# x - (order + 1/2) π/2, in 64/x².


def _of_square(f: Series, middle: int, reach: int, degree: int) -> dict[str, Fit]:
    def target(u: Number) -> Number:
        return f(mp.sqrt(middle + reach * u))

    return {"f64": Fit(target, lambda u: mp.mpf(1), -1 + TINY, mp.mpf(1) * SLACK, degree, 53, {})}


def _pieces(name: str, f: Series) -> dict[str, Callable[[], dict[str, Fit]]]:
    return {
        f"{name}_NEAR": lambda: _of_square(f, 8, 8, 12),
        f"{name}_FAR": lambda: _of_square(f, 40, 24, 15),
    }


def _y0_rest(x: Number) -> Number:
    return mp.bessely(0, x) - 2 / mp.pi * mp.log(x) * mp.besselj(0, x)


def _y1_rest(x: Number) -> Number:
    rest = mp.bessely(1, x) - 2 / mp.pi * (mp.log(x) * mp.besselj(1, x) - 1 / x)
    return rest / x


def _amplitude(order: int, quarter: bool, degree: int) -> dict[str, Fit]:
    """√(π x / 2) times the amplitude of the cosine, or x times that of the sine."""

    def target(w: Number) -> Number:
        x = 8 / mp.sqrt(w)
        if x > 1000:  # the asymptotic series
            a, total = mp.mpf(4 * order * order), mp.mpf(0)
            term = mp.mpf(1)
            for k in range(40):
                if k % 2 == quarter:
                    total += term * (-1) ** (k // 2)
                term *= (a - (2 * k + 1) ** 2) / ((k + 1) * 8 * x)
            return total * (x if quarter else 1)
        angle = x - (2 * order + 1) * mp.pi / 4
        j, y = mp.besselj(order, x), mp.bessely(order, x)
        c, s = mp.cos(angle), mp.sin(angle)
        size = mp.sqrt(mp.pi * x / 2)
        return size * (y * c - j * s) * x if quarter else size * (j * c + y * s)

    return {
        "f64": Fit(target, lambda w: mp.mpf(1), mp.mpf("1e-12"), mp.mpf(1) * SLACK, degree, 53, {})
    }


def both(make: Callable[..., Fit], *degrees: int, before: tuple[int, ...] = ()) -> dict[str, Fit]:
    return {t: make(t, *before, d) for t, d in zip(("f32", "f64"), degrees, strict=True)}


POLYNOMIALS: dict[str, Callable[[], dict[str, Fit]]] = {
    "EXP10": lambda: {"f32": exponential("f32", mp.mpf(10), 6),
                      "f64": exponential("f64", mp.mpf(10), 11)},
    "EXPM1": lambda: both(expm1, 5, 10),
    "AREA_TANGENT": lambda: both(area_tangent, 3, 8),
    "SINPI": lambda: both(sine_of_turn, 3, 6),
    "COSPI": lambda: both(cosine_of_turn, 3, 7),
    "ATAN": lambda: both(arc_tangent, 5, 11),
    "SINH": lambda: both(hyperbolic_sine, 3, 7),
    "RCBRT": lambda: {t: inverse_cube_root(4) for t in PRECISION},
    "ERFCX": lambda: both(scaled_erfc, 12, 25),
    "ERFINV": lambda: both(inverse_erf, 7, 16),
    "ERFCINV": lambda: {t: inverse_erfc(7) for t in PRECISION},
    "LGAMMA": lambda: both(log_gamma, 9, 19),
    "TGAMMA": lambda: both(gamma, 8, 18),
    "STIRLING": lambda: both(stirling, 2, 7),
    "I0_BELOW": lambda: both(bessel_i_below, 10, 16, before=(0,)),
    "I1_BELOW": lambda: both(bessel_i_below, 9, 17, before=(1,)),
    "I0_ABOVE": lambda: both(bessel_i_above, 9, 27, before=(0,)),
    "I1_ABOVE": lambda: both(bessel_i_above, 9, 27, before=(1,)),
    **_pieces("J0", lambda x: mp.besselj(0, x)),
    **_pieces("J1", lambda x: mp.besselj(1, x) / x),
    **_pieces("Y0", _y0_rest),
    **_pieces("Y1", _y1_rest),
    "P0": lambda: _amplitude(0, False, 11),
    "Q0": lambda: _amplitude(0, True, 11),
    "P1": lambda: _amplitude(1, False, 11),
    "Q1": lambda: _amplitude(1, True, 11),
}  # fmt: skip

CONSTANTS: dict[str, Callable[[], Number]] = {
    "LOG10E": lambda: 1 / mp.log(10),
    "LN2": lambda: mp.log(2),
    "LOG2_10": lambda: mp.log(10, 2),
    "LOG10_2": lambda: mp.log10(2),
    "PI": lambda: +mp.pi,
    "HALF_PI": lambda: mp.pi / 2,
    "QUARTER_PI": lambda: mp.pi / 4,
    "SQRT2": lambda: mp.sqrt(2),
    "SQRT_HALF": lambda: mp.sqrt(2) / 2,
    "TWO_OVER_SQRT_PI": lambda: 2 / mp.sqrt(mp.pi),
    "ERFCX_MIDDLE": lambda: _scaled_erfc(mp.mpf(0)),
    "HALF_SQRT_PI": lambda: mp.sqrt(mp.pi) / 2,
    "HALF_LOG_2PI": lambda: mp.log(2 * mp.pi) / 2,
    "LOG_PI": lambda: mp.log(mp.pi),
    "SQRT_2PI": lambda: mp.sqrt(2 * mp.pi),
    "ONE_MINUS_EULER": lambda: 1 - mp.euler,
    "TWO_THIRDS": lambda: mp.mpf(2) / 3,
}


def table(name: str) -> str:
    """One table's text."""
    if name in CONSTANTS:
        x = CONSTANTS[name]()
        return emit_table(name, {t: split(x, p, p) for t, p in PRECISION.items()}, {})
    values, notes = {}, {}
    for dtype, fit in POLYNOMIALS[name]().items():
        values[dtype], error = fit.solve()
        notes[dtype] = f"error 2**{error:.1f}, sum of sizes {sum(map(abs, values[dtype])):.3g}"
    return emit_table(name, values, notes)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="replace the file")
    parser.add_argument("names", nargs="*", help="compute only these, keep the others")
    given = parser.parse_args()
    kept = {}
    old = TARGET.read_text() if TARGET.exists() else HEADER
    if given.names:
        blocks = old[len(HEADER) :].split("\n\n")
        kept = {b.split(":")[0].strip(): b.strip("\n") + "\n" for b in blocks if b.strip()}
    out = []
    for name in (*POLYNOMIALS, *CONSTANTS):
        if given.names and name not in given.names:
            out += [kept[name]] if name in kept else []
            continue
        out.append(table(name))
        print(out[-1], flush=True)
    text = HEADER + "\n" + "\n".join(out)
    if given.write:
        TARGET.write_text(text)
        return 0
    print("up to date" if old == text else f"{TARGET.name} differs")
    return int(old != text)


if __name__ == "__main__":
    sys.exit(main())
