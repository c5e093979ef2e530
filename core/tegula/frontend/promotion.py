"""Which type an operation is computed in: the promotion rules of the language, as pure functions
on IR types.

A *number* is a Python int, float or bool, known at compile time; it adapts to the tensor it meets
as long as its kind (bool < int < float) is not higher than the tensor's. Everything else, runtime
scalar arguments included, promotes as a tensor:

- f64 > f32 > f16; bf16 with bf16 stays, bf16 with f16 is f16, bf16 with an integer or an fp8 kind
is f32; - a float with an integer is that float; two fp8 kinds that differ are f16; fp8 with an
integer is an error; - integers follow C: the wider one; of equal width the unsigned one;
- `/` and `%` of floats narrower than 32 bits are computed in f32.
"""

from __future__ import annotations

from tegula.ir.types import DType, bf16, f16, f32, f64, i1, i32, i64, u32, u64

from .diagnostics import LanguageError

Number = int | float | bool

F32_MAX = 3.4028234663852886e38
F32_TINY = 2.0**-126


def kind_of(t: DType) -> int:
    """bool 0, integer 1, float 2."""
    return 2 if t.is_float else 0 if t is i1 else 1


def kind_of_number(value: Number) -> int:
    """bool 0, integer 1, float 2."""
    return 0 if isinstance(value, bool) else 1 if isinstance(value, int) else 2


def type_of_number(value: Number) -> DType:
    """The type a number has on its own: i1, the narrowest of i32 u32 i64 u64 that holds it, or f32.

    A float is f64 only if f32 cannot hold its magnitude.
    """
    if isinstance(value, bool):
        return i1
    if isinstance(value, int):
        for t in (i32, u32, i64, u64):
            if t.min_value <= value <= t.max_value:
                return t
        raise LanguageError(
            f"the integer {value} needs more than 64 bits", "use a smaller constant, or a float"
        )
    size = abs(value)
    fits = size == 0.0 or size != size or size == float("inf") or F32_TINY <= size <= F32_MAX
    return f32 if fits else f64


def promote_integers(a: DType, b: DType) -> DType:
    """C's rule: the wider type; of equal width the unsigned one."""
    if a.is_signed == b.is_signed:
        return a if a.bits >= b.bits else b
    unsigned, signed = (b, a) if a.is_signed else (a, b)
    return unsigned if unsigned.bits >= signed.bits else signed


def promote(a: DType, b: DType, division: bool = False) -> DType:
    """The type that two tensors of dtypes `a` and `b` are computed in. `division` marks `/`, `//`
    and `%`.
    """
    for wide in (f64, f32):
        if a is wide or b is wide:
            return wide
    if a is f16 or b is f16:
        return f32 if division else f16
    if a is bf16 or b is bf16:
        return bf16 if a is b and not division else f32
    if a.is_float and b.is_float:
        return f32 if division else a if a is b else f16
    if a.is_float or b.is_float:
        fp8, integer = (a, b) if a.is_float else (b, a)
        raise LanguageError(
            f"{name_of(fp8)} and {name_of(integer)} do not combine",
            "cast one of them first, for example x.to(tl.float32)",
        )
    if division and a.is_signed != b.is_signed:
        raise LanguageError(
            f"Cannot use /, // or % with {name_of(a)} and {name_of(b)} because they have "
            "different signedness",
            "cast both to one signedness, for example x.to(tl.int64)",
        )
    return promote_integers(a, b)


def promote_number(value: Number, t: DType, division: bool = False) -> DType:
    """The type that a number and a tensor of dtype `t` are computed in."""
    if kind_of_number(value) <= kind_of(t):
        if division and t.is_float and t.bits < 32:
            return f32
        return t
    natural = type_of_number(value)
    if natural is f64 and not t.is_float:
        return f64
    return promote(natural, t, division)


def check_range(value: Number, t: DType) -> None:
    """Refuse a number that an integer type cannot hold."""
    if not t.is_int or isinstance(value, float):
        return
    if value < 0 and not t.is_signed:
        raise LanguageError(
            f"cannot combine an unsigned {name_of(t)} tensor with the negative number {value}",
            "cast the tensor to a signed type first, for example x.to(tl.int64)",
        )
    if t is i1:
        if value not in (0, 1):
            raise LanguageError(
                f"the number {value} is out of range for int1", "cast the tensor first"
            )
    elif not t.min_value <= value <= t.max_value:
        raise LanguageError(
            f"the number {value} is out of range for {name_of(t)} ({t.min_value} to {t.max_value})",
            "cast the tensor to a wider type first, for example "
            f"x.to(tl.{'int64' if t.bits < 64 else 'float64'})",
        )


def name_of(t: object) -> str:
    """The language's name of an IR type, as `int32`, `fp32` or `<[64], int32>`."""
    from tegula.language.dtypes import from_ir

    return str(from_ir(t))
