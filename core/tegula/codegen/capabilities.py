"""What the dtypes of a machine can do, whichever way its code is made."""

from __future__ import annotations

from collections.abc import Iterable

from tegula.ir.types import DTYPES


def products(dtypes: Iterable[str], mixed_bytes: bool = False) -> frozenset[tuple[str, str, str]]:
    """What `dot` multiplies: factors of one dtype (or, where `mixed_bytes`, of two of 8-bit floats)
    and sums of 16 bits or more for floats, of 32 or more for integers.
    """
    floats, ints = _floats(dtypes), _ints(dtypes)
    sums = [n for n in floats if DTYPES[n].bits >= 16]
    bytes_ = [n for n in floats if DTYPES[n].bits == 8 and mixed_bytes]
    return frozenset(
        [(a, a, c) for a in floats for c in sums]
        + [(a, b, c) for a in bytes_ for b in bytes_ for c in sums]
        + [(a, a, c) for a in ints for c in ints if DTYPES[c].bits >= 32]
    )


def atomics(dtypes: Iterable[str]) -> dict[str, frozenset[str]]:
    """What each atomic operation takes of these dtypes."""
    ints = frozenset(_ints(dtypes))
    return {
        **dict.fromkeys(("add", "max", "min", "xchg", "cas"), ints.union(_floats(dtypes))),
        **dict.fromkeys(("and", "or", "xor"), ints),
    }


def _floats(dtypes: Iterable[str]) -> list[str]:
    return [n for n in dtypes if DTYPES[n].is_float]


def _ints(dtypes: Iterable[str]) -> list[str]:
    return [n for n in dtypes if DTYPES[n].is_int and n != "i1"]
