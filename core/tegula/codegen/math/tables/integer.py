"""Declarations: integers, conversions and reinterpretations."""

from __future__ import annotations

from functools import partial

from tegula.ir.types import DTYPES

from .. import bits, rounding
from ..library import LibraryFunction, signatures
from ..number import Number

_I32 = signatures("i32 i32 -> i32", "u32 u32 -> u32")
_COUNT = signatures("i32 -> i32", "i64 -> i32")

_BITS = (
    LibraryFunction("clz", "Zeros above the highest bit that is set.", _COUNT, bits.clz),
    LibraryFunction("popc", "Bits that are set.", _COUNT, bits.popc),
    LibraryFunction("ffs", "Place of the lowest bit that is set, from 1; 0 for 0.", _COUNT,
                    bits.ffs),
    LibraryFunction("brev", "The bits in reverse order.",
                    signatures("i32 -> i32", "i64 -> i64"), bits.brev),
    LibraryFunction("byte_perm", "Four of the eight bytes of y and x, chosen by the hex digits of "
                    "the third argument.", signatures("i32 i32 i32 -> i32"), bits.byte_perm),
    LibraryFunction("mulhi", "Upper half of the product.",
                    signatures("i32 i32 -> i32", "u32 u32 -> u32", "i64 i64 -> i64",
                               "u64 u64 -> u64"), bits.mulhi),
    LibraryFunction("mul24", "Product of the lower 24 bits.", _I32, bits.mul24),
    LibraryFunction("sad", "|x - y| + z.",
                    signatures("i32 i32 u32 -> i32", "u32 u32 u32 -> u32"), bits.sad),
    LibraryFunction("hadd", "(x + y) / 2, rounded down.", _I32, bits.hadd),
    LibraryFunction("rhadd", "(x + y + 1) / 2, rounded down.", _I32, bits.rhadd),
    LibraryFunction("hiloint2double", "The double with these upper and lower 32 bits.",
                    signatures("i32 i32 -> f64"), bits.double_of_words),
    LibraryFunction("double2hiint", "The upper 32 bits of a double.",
                    signatures("f64 -> i32"), bits.high_word),
    LibraryFunction("double2loint", "The lower 32 bits of a double.",
                    signatures("f64 -> i32"), bits.low_word),
)  # fmt: skip


def _bits_as(elem: str, x: Number) -> Number:
    return x.bits(DTYPES[elem])


_REINTERPRET = tuple(
    LibraryFunction(
        name,
        f"The bits as {target}.",
        signatures(f"{source} -> {target}"),
        partial(_bits_as, target),
    )
    for name, source, target in (
        ("int_as_float", "i32", "f32"),
        ("float_as_int", "f32", "i32"),
        ("uint_as_float", "u32", "f32"),
        ("float_as_uint", "f32", "i32"),
        ("longlong_as_double", "i64", "f64"),
        ("double_as_longlong", "f64", "i64"),
    )
)

_WORDS = {"rn": "to nearest even", "rz": "toward zero", "rd": "down", "ru": "up"}
_INTEGERS = {"int": "i32", "uint": "u32", "ll": "i64", "ull": "u64"}
_FLOATS = {"float": "f32", "double": "f64"}


def _to_integer(elem: str, mode: str, x: Number) -> Number:
    t = DTYPES[elem]
    # The bits of an unsigned result come as a signed integer, as kernels expect them.
    return rounding.to_integer(x, t, mode).bits(DTYPES[f"i{t.bits}"])


def _from_integer(elem: str, mode: str, x: Number) -> Number:
    return rounding.from_integer(x, DTYPES[elem], mode)


def _narrow(mode: str, x: Number) -> Number:
    return rounding.narrow(x, DTYPES["f32"], mode)


def _conversions() -> list[LibraryFunction]:
    found = []
    for mode, word in _WORDS.items():
        found.append(
            LibraryFunction(
                f"double2float_{mode}",
                f"As f32, rounded {word}.",
                signatures("f64 -> f32"),
                partial(_narrow, mode),
            )
        )
        for float_name, f in _FLOATS.items():
            for integer_name, i in _INTEGERS.items():
                result = i.replace("u", "i")
                kind = "the bits of an unsigned" if i != result else "an"
                found.append(
                    LibraryFunction(
                        f"{float_name}2{integer_name}_{mode}",
                        f"As {kind} integer, rounded {word}; saturated, 0 for NaN.",
                        signatures(f"{f} -> {result}"),
                        partial(_to_integer, i, mode),
                    )
                )
                if f == "f64" and i in ("i32", "u32") and mode != "rn":
                    continue  # always exact
                found.append(
                    LibraryFunction(
                        f"{integer_name}2{float_name}_{mode}",
                        f"As {f}, rounded {word}.",
                        signatures(f"{i} -> {f}"),
                        partial(_from_integer, f, mode),
                    )
                )
    return found


TABLE = (*_BITS, *_REINTERPRET, *_conversions())
