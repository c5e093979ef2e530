"""Compute core/tegula/codegen/math/coefficients.py.

    python benchmarks/math/coefficients.py            compare with the file
    python benchmarks/math/coefficients.py --write    replace it

Each entry below states what is approximated, where, and how errors are weighed; needs mpmath.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import mpmath as mp
from minimax import Fit, Function, Number, rounded, split, truncated_split

TARGET = Path(__file__).parents[2] / "core/tegula/codegen/math/coefficients.py"
PRECISION = {"f32": 24, "f64": 53}
BITS = {"f32": 32, "f64": 64}
SLACK = mp.mpf("1.0001")  # reductions overshoot their interval by rounding
TINY = mp.mpf("1e-10")
LN2 = mp.log(2)

HEADER = '''"""Polynomials and constants of the math functions.

Computed by benchmarks/math/coefficients.py, which says what each approximates. Do not edit.
"""

from __future__ import annotations


def _table(text: str) -> tuple[float, ...]:
    return tuple(float.fromhex(word) for word in text.split())

'''


def exponential(dtype: str, base: Number, degree: int) -> Fit:
    """base**x over half a binade, relative; 1 + x log(base) + ... is kept exactly at 0."""
    p, k = PRECISION[dtype], mp.log(base)
    half = LN2 / k / 2 * SLACK
    fixed = {0: mp.mpf(1), 1: rounded(k, p)}
    return Fit(lambda x: base**x, lambda x: base**-x, -half, half, degree, p, fixed)


_LOW, _HIGH = mp.sqrt(mp.mpf(1) / 2) - 1, mp.sqrt(2) - 1


def logarithm(degree: int) -> Fit:
    """P of log(1 + f) = f - f²/2 + f³ P(f) for 1 + f in [1/√2, √2]."""

    def target(f: Number) -> Number:
        return (mp.log1p(f) - f + f * f / 2) / f**3

    return Fit(target, lambda f: f**3 / mp.log1p(f), _LOW * SLACK, _HIGH * SLACK, degree, 24, {})


def logarithm_base_2(degree: int) -> Fit:
    """P of log2(1 + f) = f / log(2) + f² P(f) for 1 + f in [1/√2, √2]."""

    def target(f: Number) -> Number:
        return (mp.log1p(f) - f) / LN2 / f**2

    def weight(f: Number) -> Number:
        return abs(f * f / mp.log1p(f))

    return Fit(target, weight, _LOW * SLACK, _HIGH * SLACK, degree, 24, {})


def area_tangent(degree: int) -> Fit:
    """P of log((1 + s) / (1 - s)) = 2 s + s³ P(s²) for arguments in [1/√2, √2]."""
    high = (_HIGH / (2 + _HIGH)) ** 2 * SLACK

    def target(z: Number) -> Number:
        s = mp.sqrt(z)
        return (2 * mp.atanh(s) / s - 2) / z

    def weight(z: Number) -> Number:
        return z * mp.sqrt(z) / mp.atanh(mp.sqrt(z))

    return Fit(target, weight, TINY, high, degree, 53, {})


def sine(dtype: str, degree: int) -> Fit:
    """P of sin(r) = r + r³ P(r²) for |r| <= π/4."""

    def target(z: Number) -> Number:
        return (mp.sin(mp.sqrt(z)) / mp.sqrt(z) - 1) / z

    def weight(z: Number) -> Number:
        return z * mp.sqrt(z) / mp.sin(mp.sqrt(z))

    high = (mp.pi / 4 * SLACK) ** 2
    return Fit(target, weight, TINY, high, degree, PRECISION[dtype], {})


def cosine(dtype: str, degree: int) -> Fit:
    """P of cos(r) = 1 - r²/2 + r⁴ P(r²) for |r| <= π/4."""

    def target(z: Number) -> Number:
        return (mp.cos(mp.sqrt(z)) - 1 + z / 2) / z**2

    high = (mp.pi / 4 * SLACK) ** 2
    weight: Function = lambda z: z * z / mp.cos(mp.sqrt(z))  # noqa: E731
    return Fit(target, weight, TINY, high, degree, PRECISION[dtype], {})


def tangent(dtype: str, limit: str, degree: int) -> Fit:
    """P of tanh(x) = x + x³ P(x²) for |x| <= limit."""

    def target(z: Number) -> Number:
        return (mp.tanh(mp.sqrt(z)) / mp.sqrt(z) - 1) / z

    def weight(z: Number) -> Number:
        return z * mp.sqrt(z) / mp.tanh(mp.sqrt(z))

    high = mp.mpf(limit) ** 2 * SLACK
    return Fit(target, weight, TINY, high, degree, PRECISION[dtype], {})


def erf_below(dtype: str, limit: str, degree: int) -> Fit:
    """P of erf(x) = x + x P(x²) for |x| <= limit."""

    def target(z: Number) -> Number:
        return mp.erf(mp.sqrt(z)) / mp.sqrt(z) - 1

    def weight(z: Number) -> Number:
        return mp.sqrt(z) / mp.erf(mp.sqrt(z))

    return Fit(target, weight, TINY, mp.mpf(limit) ** 2 * SLACK, degree, PRECISION[dtype], {})


def erf_above(dtype: str, limit: str, one: str, degree: int) -> Fit:
    """P of erf(x) = 1 - exp(-P(x)) for x from the limit to where erf(x) rounds to 1."""
    return Fit(
        lambda x: -mp.log(mp.erfc(x)), lambda x: mp.erfc(x) / mp.erf(x),
        mp.mpf(limit) / SLACK, mp.mpf(one), degree, PRECISION[dtype], {},
    )  # fmt: skip


POLYNOMIALS: dict[str, dict[str, Fit]] = {
    "EXP": {"f32": exponential("f32", mp.e, 6), "f64": exponential("f64", mp.e, 11)},
    "EXP2": {"f32": exponential("f32", mp.mpf(2), 6), "f64": exponential("f64", mp.mpf(2), 11)},
    "LOG": {"f32": logarithm(7), "f64": area_tangent(6)},
    "LOG2": {"f32": logarithm_base_2(8), "f64": area_tangent(6)},
    "SIN": {"f32": sine("f32", 2), "f64": sine("f64", 5)},
    "COS": {"f32": cosine("f32", 2), "f64": cosine("f64", 5)},
    "TANH": {"f32": tangent("f32", "0.6", 4), "f64": tangent("f64", "0.6", 10)},
    "ERF_BELOW": {"f32": erf_below("f32", "0.8", 5), "f64": erf_below("f64", "1", 11)},
    "ERF_ABOVE": {
        "f32": erf_above("f32", "0.8", "3.95", 6),
        "f64": erf_above("f64", "1", "5.95", 18),
    },
}


def constants() -> dict[str, dict[str, list[float]]]:
    """Numbers as sums of floats of the type, the largest part first."""

    def parts(x: Number, count: int) -> dict[str, list[float]]:
        return {dtype: split(x, *[p] * count) for dtype, p in PRECISION.items()}

    return {
        "LN2_PARTS": parts(LN2, 2),
        "LOG2E_PARTS": parts(1 / LN2, 2),
        # Of one sign, so that 0 keeps its own when they are subtracted.
        "HALF_PI_PARTS": {
            dtype: truncated_split(mp.pi / 2, *[p] * 3) for dtype, p in PRECISION.items()
        },
    }


def two_over_pi(bits: int, words: int) -> list[int]:
    """The first bits of 2/π after the binary point, in words."""
    with mp.workprec(bits * words + 64):
        digits = int(mp.floor(2 / mp.pi * mp.mpf(2) ** (bits * words)))
    mask = (1 << bits) - 1
    return [(digits >> (bits * (words - 1 - i))) & mask for i in range(words)]


def _hex(value: float) -> str:
    mantissa, exponent = value.hex().split("p")
    return f"{mantissa.rstrip('0').rstrip('.') if '.' in mantissa else mantissa}p{exponent}"


def _rows(words: list[str], width: int = 92) -> list[str]:
    rows, row = [], ""
    for word in words:
        if row and len(row) + 1 + len(word) > width:
            rows.append(row)
            row = word
        else:
            row = f"{row} {word}".strip()
    return [*rows, row]


def emit_table(name: str, values: dict[str, list[float]], notes: dict[str, str]) -> str:
    lines = [f"{name}: dict[str, tuple[float, ...]] = {{"]
    for dtype, numbers in values.items():
        if notes:
            lines.append(f"    # {notes[dtype]}")
        lines.append(f'    "{dtype}": _table("""')
        lines += [f"        {row}" for row in _rows([_hex(v) for v in numbers], 88)]
        lines.append('    """),')
    return "\n".join([*lines, "}", ""])


def generate() -> str:
    out = [HEADER]
    for name, fits in POLYNOMIALS.items():
        values, notes = {}, {}
        for dtype, fit in fits.items():
            values[dtype], error = fit.solve()
            notes[dtype] = f"error 2**{error:.1f}"
        out.append(emit_table(name, values, notes))
    for name, table in constants().items():
        out.append(emit_table(name, table, {}))
    out.append("# The bits of 2/π after the binary point, most significant word first.")
    out.append("TWO_OVER_PI: dict[str, tuple[int, ...]] = {")
    # Enough for the largest exponent, one word before the point, and three to multiply with.
    for dtype, words in (("f32", 7), ("f64", 19)):
        digits = [f"0x{w:0{BITS[dtype] // 4}X}," for w in two_over_pi(BITS[dtype], words)]
        out.append(f'    "{dtype}": (')
        out += [f"        {row}" for row in _rows(digits, 88)]
        out.append("    ),")
    out.append("}  # fmt: skip\n")
    return "\n".join(out)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="replace the file")
    text = generate()
    if parser.parse_args().write:
        TARGET.write_text(text)
        return 0
    same = TARGET.read_text() == text
    print("coefficients.py is up to date" if same else "coefficients.py differs")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
