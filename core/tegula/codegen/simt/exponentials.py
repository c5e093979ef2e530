"""exp and exp2 in f32 for machines with an instruction for 2**x, `Simt.exp2`.

Errors, for an instruction that is off by at most 2 units in the last place: exp, whose argument is
multiplied as a sum of two products, is off by 3. Where only roundings to 16 bits see an exp, one
product serves: it is off by 75 units of f32 at most, which is less than a twentieth of half a unit
of f16.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from tegula.codegen.loops.convert import float_const, from_f32, intrinsic, to_f32
from tegula.codegen.loops.elementwise import elem, in_float
from tegula.codegen.loops.lanes import Lanes
from tegula.codegen.loops.text import Val, Writer
from tegula.codegen.simt.division import MANY
from tegula.ir.core import Op
from tegula.ir.types import DType, elem_of, f32, shape_of

if TYPE_CHECKING:
    from tegula.codegen.simt.hooks import Simt
    from tegula.codegen.simt.kernel import Emitter

_LOG2E = 1.4426950216293335  # float32, below log2(e)
_LOG2E_REST = 1.92596298909109e-08
_ROOTS = 0.7213475108146667
"""float32, log2(e) / 2."""
_SPAN = 252
"""Exponents from -126 to 126."""
_UNIT = 3 << 22
"""Floats of this size are whole numbers."""


def rules(machine: Simt) -> dict[str, Callable[..., Val]]:
    """The rules of a machine's single registers."""
    return {"exp": partial(_exp, machine), "exp2": partial(_exp2, machine)}


def _exp2(machine: Simt, l: Lanes, op: Op, x: Val) -> Val:
    return in_float(l, elem(op), lambda _, y: machine.exp2(l.w, y, True), x)


def _exp(machine: Simt, l: Lanes, op: Op, x: Val) -> Val:
    e = elem(op)
    way = _full_exp if e is f32 else _coarse_exp
    return in_float(l, e, lambda _, y: way(machine, l, y), x)


def _full_exp(machine: Simt, l: Lanes, x: Val) -> Val:
    """exp(x) = 2**n 2**f. The whole number n stays between -126 and 126, whatever x is; beyond,
    f takes the rest, and the product rounds what is denormal."""
    w = l.w

    def const(value: float) -> Val:
        return float_const(l, value, f32)

    place = machine.saturated(w, x, const(1.4426950408889634 / _SPAN), const(0.5))
    whole = intrinsic(l, "fma", "float", place, const(_SPAN), const(_UNIT + 1))
    minus = w.pure("float", "fsub float {}, {}", const(_UNIT + 127), whole)
    rest = intrinsic(l, "fma", "float", x, const(_LOG2E), minus)
    rest = intrinsic(l, "fma", "float", x, const(_LOG2E_REST), rest)
    bits = w.pure("i32", "bitcast float {} to i32", whole)
    power = w.pure("i32", "shl i32 {}, {}", bits, w.const(23, "i32"))
    power = w.pure("float", "bitcast i32 {} to float", power)
    return w.pure("float", "fmul float {}, {}", machine.exp2(w, rest, False), power)


def _coarse_exp(machine: Simt, l: Lanes, x: Val) -> Val:
    """exp(x) as the square of 2**(x log2(e) / 2), which is normal where exp(x) is denormal."""
    w = l.w
    half = w.pure("float", "fmul float {}, {}", x, float_const(l, _ROOTS, f32))
    root = machine.exp2(w, half, False)
    return w.pure("float", "fmul float {}, {}", root, root)


def coarse_exp(k: Emitter, op: Op) -> bool:
    """exp of a tile that nobody sees but rounded to 16 bits."""
    (x,), (v,) = op.operands, op.results
    if v not in k.coarse:
        return False
    k.set(v, [_coarse_exp(k.simt, k.l, y) for y in k.regs(x)])
    return True


# -- exp2 of whole tiles: the short way where no result is denormal

_LOWEST = -126.0


def parted_exp2(k: Emitter, op: Op) -> bool:
    """exp2 of several registers: one test for all, and an instruction that flushes denormal
    results to 0 where there are none."""
    (x,), (v,) = op.operands, op.results
    e = elem_of(x.type)
    if not shape_of(x.type) or not isinstance(e, DType) or e.bits > 32:
        return False
    if not 4 <= len(k.regs(x)) <= MANY:
        return False
    l, w = k.l, k.w
    xs = [to_f32(l, y, e) for y in k.regs(x)]
    branch = w.begin_if(_all_above(w, xs, _LOWEST), "exponential")
    fast = [k.simt.exp2(w, _pinned(w, y), False) for y in xs]
    w.begin_else(branch)
    slow = [k.simt.exp2(w, _pinned(w, y), True) for y in xs]
    k.set(v, [from_f32(l, y, e) for y in w.end_if(branch, fast, slow)])
    return True


TILES: dict[str, Callable[[Emitter, Op], bool]] = {"exp": coarse_exp, "exp2": parted_exp2}
"""The rules of whole tiles."""


def _all_above(w: Writer, xs: list[Val], low: float) -> Val:
    """Whether no number is less than `low`, a negative one. As integers without sign negative
    numbers are the largest, and larger the less they are; a machine may compare three at once."""
    bits = [w.pure("i32", "bitcast float {} to i32", x) for x in xs]
    chains = bits[:_CHAINS]
    for i, x in enumerate(bits[_CHAINS:]):
        chains[i % _CHAINS] = w.call("llvm.umax.i32", "i32", chains[i % _CHAINS], x)
    most = chains[0]
    for x in chains[1:]:
        most = w.call("llvm.umax.i32", "i32", most, x)
    (limit,) = struct.unpack("<i", struct.pack("<f", low))
    return w.icmp("ule", most, w.const(limit, "i32"))


_CHAINS = 4
"""Comparisons that do not wait for each other."""


def _pinned(w: Writer, x: Val) -> Val:
    """A number that belongs to this branch, so that what is computed from it does too."""
    return w.here("float", f"freeze float {x.text}")
