"""Division of many numbers by few, in f32: one reciprocal and three multiplications each.

With y = 1/b rounded to nearest, q = a y is off by little, r = a - b q is exact, and q + r y is the
quotient rounded to nearest (P. Markstein, "Computation of elementary functions on the IBM RISC
System/6000 processor", 1990), as long as nothing overflows or becomes denormal on the way. Threads
that hold anything else, zeros included, multiply by the reciprocal in f64: its error is below
2^-51, and no quotient of two f32 that is not itself the middle between two f32 comes closer to one
than 2^-48 (of its size).

Two common cases, what softmax and attention end with, need no second way, since their quotients are
rounded to 16 bits: numbers with errors of their own, for which the reciprocal is good enough (see
`_estimates`), and numbers by their own sum, none of them negative (see `_shares`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tegula.codegen.loops.convert import float_const, intrinsic
from tegula.codegen.loops.lanes import Lanes
from tegula.codegen.loops.text import Val, wrap
from tegula.codegen.simt.registry import lowers
from tegula.codegen.simt.rounding import never_negative, unmoved
from tegula.ir.core import Op, Value
from tegula.ir.patterns import combine_kind
from tegula.ir.types import elem_of, f32, f64, shape_of

if TYPE_CHECKING:
    from tegula.codegen.simt.kernel import Emitter

WORTH = 4
"""Numbers by one divisor from which on this pays."""
MANY = 128
"""Numbers of one thread from which on the code has one way only: two would be too long."""
_SMALLEST, _LARGEST = 2.0**-100, 2.0**100
_DIVISORS = 2.0**-20, 2.0**20


@lowers("div")
def _div(k: Emitter, op: Op) -> None:
    a, b = op.operands
    if elem_of(a.type) is f32 and shape_of(a.type) and k.simt.slow_division:
        numbers, divisors = k.regs(a), k.regs(b)
        few = {x.text: x for x in divisors}
        if len(few) * WORTH <= len(numbers) and not any(x.const for x in few.values()):
            divided = _way(k, op)
            k.set(op.results[0], divided(k, numbers, divisors, list(few.values())))
            return
    k.elementwise(op)


def _way(k: Emitter, op: Op) -> Callable[..., list[Val]]:
    a, b = op.operands
    if op.result in k.coarse:
        if a in k.estimated:
            return _estimates
        if _own_sum(a, b):
            return _shares
    return _shared


def _shared(k: Emitter, numbers: list[Val], divisors: list[Val], few: list[Val]) -> list[Val]:
    w, l = k.w, k.l
    if len(numbers) > MANY:
        return _in_f64(k, numbers, divisors, few)
    one = float_const(l, 1.0, f32)
    inverse = {b.text: w.pure("float", "fdiv float {}, {}", one, b) for b in few}
    branch = w.begin_if(_all_ordinary(k, numbers, few), "divide")
    fast = []
    for a, b in zip(numbers, divisors):
        y = inverse[b.text]
        q = w.here("float", f"fmul float {a.text}, {y.text}")
        minus = w.here("float", f"fneg float {b.text}")
        w.declare("llvm.fma.f32", "float (float, float, float)")
        rest = w.here("float", f"call float @llvm.fma.f32(float {minus.text}, float {q.text}, "
                               f"float {a.text})")
        fast.append(w.here("float", f"call float @llvm.fma.f32(float {rest.text}, "
                                    f"float {y.text}, float {q.text})"))
    w.begin_else(branch)
    return w.end_if(branch, fast, _in_f64(k, numbers, divisors, few))


# -- numbers by their own sum


def _own_sum(a: Value, b: Value) -> bool:
    """Whether each divisor is a sum in which its number takes part, all of them at least 0."""
    axis: int | None = None
    owner = unmoved(b).owner
    while owner is not None and owner.name in ("splat", "broadcast", "expand_dims"):
        if owner.name == "expand_dims":
            if axis is not None:
                return False
            axis = owner.attrs["axis"]
        owner = unmoved(owner.operands[0]).owner
    if owner is None or owner.name != "reduce" or len(owner.operands) != 1:
        return False
    return (
        unmoved(owner.operands[0]) is unmoved(a)
        and owner.attrs["axis"] == (axis or 0)
        and len(shape_of(a.type)) == (1 if axis is None else len(shape_of(owner.result.type)) + 1)
        and combine_kind(owner.regions[0]) == "add"
        and never_negative(a)
    )


_SCALED = 100
"""Divisors lie between 2 to this and twice that while their numbers are divided."""


def _shares(k: Emitter, numbers: list[Val], divisors: list[Val], few: list[Val]) -> list[Val]:
    """Quotients a / b with 0 <= a <= b that somebody rounds to 16 bits, in one way for all.

    Both are multiplied by the power of 2 that makes b about 2^100: nothing overflows then, and the
    rest is exact whenever the quotient is normal. (Of two denormal numbers the farther one may
    come out where the quotient lies within 2^-25 of the middle between them.) An infinite b has
    1 / b = 0, so that the rest, found with any other number for b, does not count.
    """
    w, l = k.w, k.l
    ready = {b.text: _scaled(k, b) for b in few}
    out = []
    for a, b in zip(numbers, divisors):
        scale, by, inverse = ready[b.text]
        x = w.pure("float", "fmul float {}, {}", a, scale)
        q = w.pure("float", "fmul float {}, {}", x, inverse)
        rest = intrinsic(l, "fma", "float", q, by, x)
        out.append(intrinsic(l, "fma", "float", rest, inverse, q))
    return out


def _scaled(k: Emitter, b: Val) -> tuple[Val, Val, Val]:
    """A power of 2, minus its product with b, and the reciprocal of the product."""
    w, l = k.w, k.l
    scale, by, inverse = _inverse(k, b, 254 + _SCALED, "umin", 254)
    endless = w.pure("i1", "fcmp oeq float {}, {}", by, float_const(l, float("inf"), f32))
    minus = w.pure("float", "fneg float {}", by)
    return scale, w.select(endless, float_const(l, -1.0, f32), minus), inverse


def _inverse(k: Emitter, b: Val, total: int, clamp: str, limit: int) -> tuple[Val, Val, Val]:
    """A power of 2, its product with b, and the reciprocal of the product. The biased exponents of
    the power and of b add up to `total`, where the power's own stays within a limit.
    """
    w = k.w
    bits = w.pure("i32", "bitcast float {} to i32", b)
    exponent = w.pure("i32", "and i32 {}, {}", bits, w.const(0x7F800000, "i32"))
    both = w.const(wrap(total << 23, "i32"), "i32")
    scale = w.pure("i32", "sub i32 {}, {}", both, exponent)
    scale = w.call(f"llvm.{clamp}.i32", "i32", scale, w.const(limit << 23, "i32"))
    scale = w.pure("float", "bitcast i32 {} to float", scale)
    by = w.pure("float", "fmul float {}, {}", b, scale)
    one = float_const(k.l, 1.0, f32)
    return scale, by, w.pure("float", "fdiv float {}, {}", one, by)


# -- numbers with errors of their own


def _estimates(k: Emitter, numbers: list[Val], divisors: list[Val], few: list[Val]) -> list[Val]:
    """a times 1 / b, which is off by a unit and a half of f32.

    Both are multiplied by the power of 2 that makes b about 1, so that neither the product nor the
    reciprocal overflows or becomes denormal before the quotient does.
    """
    w = k.w
    ready = {b.text: _inverse(k, b, 253, "smax", 1) for b in few}
    out = []
    for a, b in zip(numbers, divisors):
        scale, _, inverse = ready[b.text]
        x = w.pure("float", "fmul float {}, {}", a, scale)
        out.append(w.pure("float", "fmul float {}, {}", x, inverse))
    return out


# -- in f64


def _in_f64(k: Emitter, numbers: list[Val], divisors: list[Val], few: list[Val]) -> list[Val]:
    w = k.w
    wide = {b.text: _reciprocal(k, b) for b in few}
    out = []
    for a, b in zip(numbers, divisors):
        x = w.here("double", f"fpext float {a.text} to double")
        x = w.here("double", f"fmul double {x.text}, {wide[b.text].text}")
        out.append(w.here("float", f"fptrunc double {x.text} to float"))
    return out


def _reciprocal(k: Emitter, b: Val) -> Val:
    """1 / b in f64."""
    w = k.w
    wide = w.here("double", f"fpext float {b.text} to double")
    return w.here("double", f"fdiv double {float_const(k.l, 1.0, f64).text}, {wide.text}")


def _all_ordinary(k: Emitter, numbers: list[Val], few: list[Val]) -> Val:
    """Whether all of this thread's numbers and divisors are of ordinary size."""
    sizes = [intrinsic(k.l, "fabs", "float", x) for x in numbers]
    ok = _between(k, sizes, _SMALLEST, _LARGEST)
    others = [intrinsic(k.l, "fabs", "float", x) for x in few]
    return k.w.pure("i1", "and i1 {}, {}", ok, _between(k, others, *_DIVISORS))


def extreme(l: Lanes, name: str, xs: list[Val]) -> Val:
    """The smallest or largest of several f32, found pairwise."""
    while len(xs) > 1:
        pairs = [intrinsic(l, name, "float", a, b) for a, b in zip(xs[::2], xs[1::2])]
        xs = pairs + (xs[-1:] if len(xs) % 2 else [])
    return xs[0]


def _between(k: Emitter, sizes: list[Val], low: float, high: float) -> Val:
    w, l = k.w, k.l
    least, most = (extreme(l, name, sizes) for name in ("minnum", "maxnum"))
    above = w.pure("i1", "fcmp oge float {}, {}", least, float_const(l, low, f32))
    below = w.pure("i1", "fcmp ole float {}, {}", most, float_const(l, high, f32))
    return w.pure("i1", "and i1 {}, {}", above, below)
