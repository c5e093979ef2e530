"""Declarations: error functions, gamma, Bessel functions."""

from __future__ import annotations

from .. import bessel, errors, gamma
from ..library import Bound, LibraryFunction, of_floats, signatures

_ONE = of_floats(1)
_ORDER = signatures("i32 f32 -> f32", "i32 f64 -> f64")
_WAVE = Bound(0.6)
"""Of f32 computed in f64: rounded once."""
_WAVE_0, _SECOND_WAVE_0, _SECOND_WAVE_1 = Bound(30.0), Bound(0.9), Bound(0.65)
"""The same; of all f32, a few lie so close to a zero that the digits of f64 are too few there:
J0(21390802) is 2.3e-15.
"""
_FIRST = Bound(4.0, 0.25)
_SECOND = Bound(7.0, 0.25)
_SEVERAL_STEPS = Bound(12.0, 0.25)
_MANY_STEPS = Bound(100.0, 0.25)

TABLE = (
    LibraryFunction("erfc", "1 - erf(x).", _ONE, errors.erfc, Bound(1.0), Bound(1.0)),
    LibraryFunction("erfcx", "exp(x²) erfc(x).", _ONE, errors.erfcx, Bound(1.6), Bound(1.2)),
    LibraryFunction("normcdf", "The normal distribution function.", _ONE, errors.normcdf,
                    Bound(1.0), Bound(1.0)),
    LibraryFunction("erfinv", "The inverse of erf.", _ONE, errors.erfinv, Bound(1.05), Bound(1.05)),
    LibraryFunction("erfcinv", "The inverse of erfc.", _ONE, errors.erfcinv, Bound(1.0),
                    Bound(1.0)),
    LibraryFunction("normcdfinv", "The inverse of the normal distribution function.", _ONE,
                    errors.normcdfinv, Bound(1.1), Bound(1.1)),
    LibraryFunction("lgamma", "log |Γ(x)|.", _ONE, gamma.lgamma, Bound(1.0), Bound(1.0, 2.0**-4),
                    f64_inside=True),
    LibraryFunction("tgamma", "Γ(x).", _ONE, gamma.tgamma, Bound(1.0), Bound(1.0)),
    LibraryFunction("cyl_bessel_i0", "Modified Bessel function I0.", _ONE, bessel.i0,
                    Bound(4.0), Bound(3.0)),
    LibraryFunction("cyl_bessel_i1", "Modified Bessel function I1.", _ONE, bessel.i1,
                    Bound(4.1), Bound(3.0)),
    LibraryFunction("j0", "Bessel function J0.", _ONE, bessel.j0, _WAVE_0, _FIRST,
                    f64_inside=True),
    LibraryFunction("j1", "Bessel function J1.", _ONE, bessel.j1, _WAVE, _FIRST,
                    f64_inside=True),
    LibraryFunction("y0", "Bessel function Y0.", _ONE, bessel.y0, _SECOND_WAVE_0, _SECOND,
                    f64_inside=True),
    LibraryFunction("y1", "Bessel function Y1.", _ONE, bessel.y1, _SECOND_WAVE_1, _SECOND,
                    f64_inside=True),
    LibraryFunction("jn", "Bessel function J of order n.", _ORDER, bessel.jn, _WAVE, _SEVERAL_STEPS,
                    "orders up to 40, |x| up to 100", f64_inside=True),
    LibraryFunction("yn", "Bessel function Y of order n.", _ORDER, bessel.yn, _WAVE, _MANY_STEPS,
                    "orders up to 40, |x| up to 100", f64_inside=True),
)  # fmt: skip
